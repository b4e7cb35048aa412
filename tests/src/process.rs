//! Processes of the tests: which are alive, which are whose, and how one of ours is killed. Never touches one it did not start.

use std::collections::BTreeSet;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use crate::PATIENCE;

/// Waits for `child`, killing it when [`PATIENCE`] is over.
///
/// # Panics
/// When the process does not end.
pub fn wait(child: &mut Child) -> ExitStatus {
    wait_for(child, PATIENCE).unwrap_or_else(|| {
        let _ = child.kill();
        let _ = child.wait();
        panic!("process {} did not end", child.id());
    })
}

/// Waits at most `patience`; `None` when the process is still there.
pub fn wait_for(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        if Instant::now() > end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks `condition` until it holds.
///
/// # Panics
/// With `what` when it does not hold within [`PATIENCE`].
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// True while a process of that id exists and is no zombie.
pub fn alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    !matches!(state_and_parent(&stat), Some(('Z' | 'X', _)) | None)
}

/// All living descendants of `pid`.
pub fn descendants(pid: u32) -> BTreeSet<u32> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|id: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            Some((id, state_and_parent(&stat)?.1))
        })
        .collect();
    let mut found = BTreeSet::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        for (id, _) in parents.iter().filter(|(_, of)| *of == parent) {
            if found.insert(*id) {
                open.push(*id);
            }
        }
    }
    found
}

/// Sends SIGKILL to a process of ours.
#[cfg(unix)]
pub fn kill(pid: u32) {
    signal(pid, rustix::process::Signal::KILL);
}

/// Sends SIGTERM to a process of ours.
#[cfg(unix)]
pub fn terminate(pid: u32) {
    signal(pid, rustix::process::Signal::TERM);
}

#[cfg(unix)]
fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let _ = rustix::process::kill_process(pid.expect("a process id"), signal);
}

// `pid (name) state ppid …`, where the name may hold anything: read from its last bracket on.
fn state_and_parent(stat: &str) -> Option<(char, u32)> {
    let rest = stat.rsplit_once(')')?.1;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}
