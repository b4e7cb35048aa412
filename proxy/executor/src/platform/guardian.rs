//! The guardian: a second, tiny process of our own program that outlives a killed executor just long enough to end its children.
//! It holds the reading end of a pipe whose writing end only the executor has; the end of that pipe is the signal.
//!
//! ```text
//! watch <group>\n      kill this process group when the pipe ends
//! reaped <group>\n     it has ended; forget it
//! ```

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

// Not rustix's `getsid`: a session whose leader is outside of our process namespace (a container) has the number 0, which it
// takes for impossible.
use nix::unistd::getsid;
use rustix::process::{Pid, Signal, kill_process_group, setsid};

use super::GuardianProgram;
use crate::upstream::diagnostics::to_stderr;

/// The executor's end of the pipe. Dropping the last clone ends the guardian.
#[derive(Debug, Clone)]
pub struct Guardian {
    program: GuardianProgram,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    pipe: Arc<Pipe>,
    starting: Option<JoinHandle<Option<Child>>>,
    process: Option<Child>,
}

/// Both ends: with the reading end open here too, a child that tells a guardian which has ended is not killed by SIGPIPE before it
/// has become the server. The writing end never blocks.
#[derive(Debug)]
pub(super) struct Pipe {
    reading: OwnedFd,
    pub(super) writing: OwnedFd,
}

impl Guardian {
    /// Starts the guardian on a thread of its own, beside everything else there is to do before the first child is started.
    ///
    /// # Errors
    /// No pipe or no thread can be had.
    pub fn start(program: GuardianProgram) -> io::Result<Self> {
        let (reading, writing) = io::pipe()?;
        let pipe = Pipe {
            reading: reading.into(),
            writing: writing.into(),
        };
        rustix::io::ioctl_fionbio(&pipe.writing, true)?;
        let state = State {
            starting: Some(begin(&program, &pipe)?),
            pipe: Arc::new(pipe),
            process: None,
        };
        Ok(Self {
            program,
            state: Arc::new(Mutex::new(state)),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a guardian process lives: no child is started before. One that has ended meanwhile (somebody killed it) is
    /// followed by another on the same pipe, which reads what the first had not read; groups that only the first knew are no
    /// longer watched.
    pub(super) fn ready(&self) {
        let mut state = self.state();
        if let Some(thread) = state.starting.take() {
            state.process = thread.join().unwrap_or_default();
        }
        let ended = match &mut state.process {
            Some(process) => matches!(process.try_wait(), Ok(Some(_))),
            None => false,
        };
        if ended {
            state.process = begin(&self.program, &state.pipe)
                .ok()
                .and_then(|thread| thread.join().ok().flatten());
        }
    }

    /// The pipe, into which a child writes [`watch_line`] before it becomes another program.
    pub(super) fn pipe(&self) -> Arc<Pipe> {
        self.state().pipe.clone()
    }

    pub(super) fn reaped(&self, group: Pid) {
        let line = format!("reaped {}\n", group.as_raw_nonzero());
        // A guardian that is gone has nothing to forget.
        let _ = rustix::io::write(&self.pipe().writing, line.as_bytes());
    }
}

fn begin(program: &GuardianProgram, pipe: &Pipe) -> io::Result<JoinHandle<Option<Child>>> {
    let mut command = Command::new(&program.program);
    command.arg0("countersign-guardian");
    command
        .args(&program.arguments)
        .env_clear()
        .current_dir("/");
    command
        .stdin(Stdio::from(pipe.reading.try_clone()?))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let start = move || match command.spawn() {
        Ok(process) => Some(process),
        Err(error) => {
            to_stderr(format!(
                "countersign: no guardian process, so a killed executor may leave processes: {error}\n"
            ));
            None
        }
    };
    std::thread::Builder::new()
        .name("guardian".to_owned())
        .stack_size(64 * 1024)
        .spawn(start)
}

/// `watch <group>\n`, made without an allocation: between fork and exec there is no allocator to trust. The line and its length.
pub(super) fn watch_line(group: u32) -> ([u8; 24], usize) {
    let mut line = *b"watch                   ";
    let mut digits = [0_u8; 10];
    let (mut rest, mut count) = (group, 0);
    for digit in &mut digits {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
        count += 1;
        if rest == 0 {
            break;
        }
    }
    for (place, digit) in line.iter_mut().skip(6).zip(digits.iter().take(count).rev()) {
        *place = *digit;
    }
    if let Some(end) = line.get_mut(6 + count) {
        *end = b'\n';
    }
    (line, 7 + count)
}

/// The guardian's whole life: reads its standard input to the end, then kills every group still watched.
pub fn guard() {
    let session = getsid(None).ok();
    // A session of its own keeps a Ctrl-C at the terminal, or a host that kills our group, from taking it along.
    let _ = setsid();
    for group in watched(BufReader::new(io::stdin().lock())) {
        // A leader in another session than the executor's has its number from one that ended long ago.
        let leader = nix::unistd::Pid::from_raw(group.as_raw_nonzero().get());
        let stranger = getsid(Some(leader)).is_ok_and(|found| Some(found) != session);
        if !stranger {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn watched(told: impl BufRead) -> Vec<Pid> {
    let mut groups = BTreeSet::new();
    for line in told.lines() {
        let Ok(line) = line else { break };
        match line
            .split_once(' ')
            .map(|(word, group)| (word, group.parse::<i32>()))
        {
            Some(("watch", Ok(group))) => _ = groups.insert(group),
            Some(("reaped", Ok(group))) => _ = groups.remove(&group),
            _ => {}
        }
    }
    // Group 1 and below are never ours: kill(-1) would reach every process of the user.
    groups
        .into_iter()
        .filter(|group| *group > 1)
        .filter_map(Pid::from_raw)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(told: &str, expected: &[i32]) {
        let found: Vec<i32> = watched(told.as_bytes())
            .iter()
            .map(|pid| pid.as_raw_nonzero().get())
            .collect();
        assert_eq!(found, expected, "{told:?}");
    }

    #[test]
    fn the_line_a_child_writes_is_the_one_that_is_read() {
        for group in [2, 10, 99_999, 4_194_304, i32::MAX.unsigned_abs()] {
            let (line, length) = watch_line(group);
            check(
                std::str::from_utf8(&line[..length]).unwrap(),
                &[i32::try_from(group).unwrap()],
            );
        }
    }

    #[test]
    fn remembers_what_is_watched_and_not_reaped() {
        check("watch 10\nwatch 12\nreaped 10\n", &[12]);
        check("watch 10\nreaped 11\nnonsense\nwatch x\n", &[10]);
        check("watch 0\nwatch 1\nwatch -1\n", &[]);
        check("", &[]);
    }

    /// A guardian somebody killed does not keep the next server from starting, and another takes its place.
    #[tokio::test]
    async fn m24_a_killed_guardian_is_followed_by_another() {
        let program = GuardianProgram {
            program: "cat".into(),
            arguments: Vec::new(),
        };
        let guardian = Guardian::start(program).unwrap();
        let process = || {
            guardian.ready();
            guardian.state().process.as_ref().unwrap().id()
        };
        let first = process();
        for _ in 0..2 {
            let mut command = tokio::process::Command::new("sh");
            command.args(["-c", "echo here"]);
            let mut spawned = super::super::Tree::spawn(command, Some(guardian.clone())).unwrap();
            let mut said = String::new();
            tokio::io::AsyncReadExt::read_to_string(&mut spawned.stdout, &mut said)
                .await
                .unwrap();
            assert_eq!(said, "here\n");
            // Killed, but not yet waited for: the second server starts all the same.
            let now = Pid::from_raw(i32::try_from(process()).unwrap()).unwrap();
            rustix::process::kill_process(now, Signal::KILL).unwrap();
        }
        for _ in 0..400 {
            if process() != first {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("no other guardian");
    }
}
