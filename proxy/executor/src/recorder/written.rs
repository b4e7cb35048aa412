//! Tells a thread that batches were written. Knows nothing of them; whoever tells never waits for whoever listens.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A count of batches that can be waited for.
#[derive(Debug, Default)]
pub struct Written {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    batches: u64,
    closed: bool,
}

impl Written {
    /// Another batch is on disk.
    pub fn tell(&self) {
        self.lock().batches += 1;
        self.changed.notify_all();
    }

    /// No more will come.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits until more than `seen` batches were written: their number, or nothing once it is closed.
    pub fn wait(&self, seen: u64) -> Option<u64> {
        let waiting = |state: &mut State| state.batches == seen && !state.closed;
        let state = self.changed.wait_while(self.lock(), waiting);
        let state = *state.unwrap_or_else(PoisonError::into_inner);
        (!state.closed).then_some(state.batches)
    }

    /// Lets `time` pass, or less when it is closed.
    pub fn pause(&self, time: Duration) {
        let open = |state: &mut State| !state.closed;
        drop(self.changed.wait_timeout_while(self.lock(), time, open));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_hears_of_batches_and_of_the_end() {
        let written = Written::default();
        written.tell();
        assert_eq!(written.wait(0), Some(1));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| (written.wait(1), written.wait(2)));
            written.tell();
            while !waiting.is_finished() {
                written.close();
                std::thread::yield_now();
            }
            let (first, second) = waiting.join().unwrap();
            assert!(first == Some(2) || first.is_none());
            assert_eq!(second, None);
        });
        written.pause(Duration::from_secs(3600));
    }
}
