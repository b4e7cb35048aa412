//! Whether the server process runs, when it may be started again, and what has to be said to it first. Holds no stream.

use std::time::{Duration, Instant};

use super::session::{Done, Purpose, Session};
use crate::upstream::child::StartError;

/// A process that lived this long did not die of its start.
const SETTLED: Duration = Duration::from_secs(30);
/// Longest wait between two starts.
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// The server process, as the session sees it.
#[derive(Debug, Default)]
pub(super) struct Process {
    state: State,
    /// Deaths in a row, each soon after its start.
    deaths: u32,
    held: bool,
    replace: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    New,
    Starting,
    Up {
        since: Instant,
    },
    Down {
        not_before: Instant,
    },
}

impl Process {
    /// Whether lines wait for the repeated handshake.
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    pub(super) fn release(&mut self) {
        self.held = false;
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.state, State::Down { .. })
    }

    /// The process is of no use any more; the loop ends it.
    pub(super) fn ask_to_replace(&mut self) {
        self.replace = true;
    }

    pub(super) fn take_replace(&mut self) -> bool {
        std::mem::take(&mut self.replace)
    }

    pub(super) fn up(&mut self) {
        self.state = State::Up {
            since: Instant::now(),
        };
    }

    /// The process died, or did not start. The first death costs no wait: a server may end on a probe it does not know (M17).
    pub(super) fn down(&mut self, start_failed: Failed) {
        let now = Instant::now();
        let lived = match self.state {
            State::Up { since } => now.duration_since(since),
            _ => Duration::ZERO,
        };
        self.deaths = if lived >= SETTLED {
            1
        } else {
            self.deaths.saturating_add(1)
        };
        let waits = if start_failed == Failed::ToStart {
            self.deaths
        } else {
            self.deaths - 1
        };
        self.state = State::Down {
            not_before: now + backoff(waits),
        };
        self.held = false;
        self.replace = false;
    }
}

/// What went wrong with a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// It could not be started.
    ToStart,
    /// It ran and ended.
    ToLive,
}

/// 0, 1, 2, 4 … seconds.
fn backoff(waits: u32) -> Duration {
    match waits {
        0 => Duration::ZERO,
        n => Duration::from_secs(1_u64 << (n - 1).min(10)).min(MAX_BACKOFF),
    }
}

impl Session {
    /// Makes sure the server runs or is being started. What is queued for it then waits.
    ///
    /// # Errors
    /// It may not be started yet; the text is for the person.
    pub(super) fn wake(&mut self) -> Result<(), String> {
        match self.process.state {
            State::Starting | State::Up { .. } => return Ok(()),
            State::New => {}
            State::Down { not_before } => {
                let wait = not_before.saturating_duration_since(Instant::now());
                if !wait.is_zero() {
                    return Err(format!(
                        "it failed repeatedly and is not started again for {} s",
                        wait.as_secs() + 1
                    ));
                }
            }
        }
        self.process.state = State::Starting;
        let opening = self
            .requests
            .values()
            .any(|request| &*request.method == "initialize");
        if let (Some(handshake), false) = (self.peers.handshake.clone(), opening) {
            self.process.held = true;
            self.ask("initialize", Some(&handshake), Purpose::Handshake);
        }
        let (starter, patience) = (self.starter.clone(), self.settings.start);
        self.tasks.spawn(async move {
            let started = tokio::time::timeout(patience, starter.start()).await;
            Done::Started(Box::new(started.unwrap_or_else(|_| {
                Err(StartError::Spawn {
                    command: "the server".to_owned(),
                    source: std::io::ErrorKind::TimedOut.into(),
                })
            })))
        });
        Ok(())
    }

    pub(super) fn start_failed(&mut self, error: &StartError) {
        self.process.down(Failed::ToStart);
        self.server_lost(&error.to_string());
    }

    pub(super) fn ended(&mut self, detail: &str) {
        self.process.down(Failed::ToLive);
        self.server_lost(detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m17_the_first_death_costs_no_wait_and_later_ones_more_and_more() {
        let mut process = Process::default();
        let mut waits = Vec::new();
        for _ in 0..5 {
            process.up();
            process.down(Failed::ToLive);
            let State::Down { not_before } = process.state else {
                panic!()
            };
            waits.push(
                not_before
                    .saturating_duration_since(Instant::now())
                    .as_secs_f64()
                    .ceil() as u64,
            );
        }
        assert_eq!(waits, [0, 1, 2, 4, 8]);
        assert_eq!(backoff(1_000), MAX_BACKOFF);
    }
}
