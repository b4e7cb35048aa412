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
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, getsid, kill_process_group, setsid};

use super::GuardianProgram;
use crate::upstream::diagnostics::to_stderr;

/// The executor's end of the pipe. Dropping the last clone ends the guardian.
#[derive(Debug, Clone)]
pub struct Guardian {
    pipe: Arc<OwnedFd>,
    starting: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Guardian {
    /// Starts the guardian on a thread of its own, beside everything else there is to do before the first child is started.
    ///
    /// # Errors
    /// No pipe or no thread can be had.
    pub fn start(program: GuardianProgram) -> io::Result<Self> {
        let (reading, writing) = io::pipe()?;
        let start = move || {
            let mut command = Command::new(&program.program);
            command.arg0("countersign-guardian");
            command
                .args(&program.arguments)
                .env_clear()
                .current_dir("/");
            command
                .stdin(Stdio::from(reading))
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            if let Err(error) = command.spawn() {
                to_stderr(format!(
                    "countersign: no guardian process, so a killed executor may leave processes: {error}\n"
                ));
            }
        };
        let thread = std::thread::Builder::new()
            .name("guardian".to_owned())
            .stack_size(64 * 1024);
        let starting = thread.spawn(start)?;
        Ok(Self {
            pipe: Arc::new(writing.into()),
            starting: Arc::new(Mutex::new(Some(starting))),
        })
    }

    /// Waits until the guardian process exists: no child is started before.
    pub(super) fn ready(&self) {
        let starting = self
            .starting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = starting {
            let _ = thread.join();
        }
    }

    /// The pipe, into which a child writes [`watch_line`] before it becomes another program.
    pub(super) fn pipe(&self) -> Arc<OwnedFd> {
        self.pipe.clone()
    }

    pub(super) fn reaped(&self, group: Pid) {
        let line = format!("reaped {}\n", group.as_raw_nonzero());
        // A guardian that is gone has nothing to forget.
        let _ = rustix::io::write(&*self.pipe, line.as_bytes());
    }
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
        let stranger = getsid(Some(group)).is_ok_and(|found| Some(found) != session);
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
}
