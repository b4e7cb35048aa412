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
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process_group, setsid};

use super::GuardianProgram;

/// The executor's end of the pipe. Dropping the last clone ends the guardian.
#[derive(Debug, Clone)]
pub struct Guardian {
    pipe: Arc<OwnedFd>,
}

impl Guardian {
    /// Starts the guardian on a thread of its own, so that the start of the first child does not wait for it.
    /// What is written meanwhile waits in the pipe.
    ///
    /// # Errors
    /// No pipe or no thread can be had.
    pub fn start(program: GuardianProgram) -> io::Result<Self> {
        let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
        std::thread::Builder::new().name("guardian-start".to_owned()).stack_size(64 * 1024).spawn(move || {
            let started = Command::new(&program.program)
                .args(&program.arguments)
                .env_clear()
                .current_dir("/")
                .stdin(Stdio::from(reading))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            if let Err(error) = started {
                tracing::warn!(%error, "the guardian process cannot be started; children end with us by other means only");
            }
        })?;
        Ok(Self { pipe: Arc::new(writing) })
    }

    pub(super) fn watch(&self, group: Pid) {
        self.tell("watch", group);
    }

    pub(super) fn reaped(&self, group: Pid) {
        self.tell("reaped", group);
    }

    fn tell(&self, word: &str, group: Pid) {
        let line = format!("{word} {}\n", group.as_raw_nonzero());
        if let Err(error) = rustix::io::write(&*self.pipe, line.as_bytes()) {
            tracing::debug!(%error, "the guardian cannot be told");
        }
    }
}

/// The guardian's whole life: reads its standard input to the end, then kills every group still watched.
pub fn guard() {
    // A session of its own keeps a Ctrl-C at the terminal, or a host that kills our group, from taking it along.
    let _ = setsid();
    for group in watched(BufReader::new(io::stdin().lock())) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn watched(told: impl BufRead) -> Vec<Pid> {
    let mut groups = BTreeSet::new();
    for line in told.lines() {
        let Ok(line) = line else { break };
        match line.split_once(' ').map(|(word, group)| (word, group.parse::<i32>())) {
            Some(("watch", Ok(group))) => _ = groups.insert(group),
            Some(("reaped", Ok(group))) => _ = groups.remove(&group),
            _ => {}
        }
    }
    // Group 1 and below are never ours: kill(-1) would reach every process of the user.
    groups.into_iter().filter(|group| *group > 1).filter_map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(told: &str, expected: &[i32]) {
        let found: Vec<i32> = watched(told.as_bytes()).iter().map(|pid| pid.as_raw_nonzero().get()).collect();
        assert_eq!(found, expected, "{told:?}");
    }

    #[test]
    fn remembers_what_is_watched_and_not_reaped() {
        check("watch 10\nwatch 12\nreaped 10\n", &[12]);
        check("watch 10\nreaped 11\nnonsense\nwatch x\n", &[10]);
        check("watch 0\nwatch 1\nwatch -1\n", &[]);
        check("", &[]);
    }
}
