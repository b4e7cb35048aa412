//! Hands entries to the one thread of a process that writes the book, and waits for it. Owns the handle; refuses to know what the
//! entries mean and how they are written.

pub mod decisions;
pub mod liveness;
mod outage;
pub mod port;
mod queue;
mod scribe;
#[cfg(test)]
mod tests;
pub mod turns;
pub mod written;

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use countersign_book::{BookError, Draft, Writer};

pub use outage::Stopped;
use queue::{Shared, Waiting, ended};
use scribe::Scribe;

/// How long a batched entry may wait for company before it is written.
pub const BATCH_INTERVAL: Duration = Duration::from_millis(50);
/// How long somebody waits for a durable entry. Longer means that another process holds the book and does not let go.
const PATIENCE: Duration = Duration::from_secs(20);
/// When an append counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Once it is queued; on disk within [`BATCH_INTERVAL`] or with the next durable batch.
    Queued,
    /// Once it is on disk under a signed checkpoint.
    Durable,
}

/// Entries this process adds of its own accord, asked for every twenty seconds and at the end. The returned closure is called
/// once they are on disk.
pub type Chores = Box<dyn FnMut(Moment) -> Vec<Chore> + Send>;

/// One chore: entries to write and what to do once they are durable.
pub struct Chore {
    /// The entries.
    pub drafts: Vec<Draft>,
    /// Called when they are on disk.
    pub done: Box<dyn FnOnce() + Send>,
}

/// When chores are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The process goes on.
    Running,
    /// The process ends in order.
    Ending,
}

/// A handle on the writing thread. Cloned freely; the thread ends when [`Recorder::close`] is called or the last handle is gone.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
    _last: Arc<LastHandle>,
}

struct LastHandle(Arc<Shared>);

impl Recorder {
    /// Starts the thread. `open` runs on it first and gives the writer; until it returns, submissions queue, and if it fails, they
    /// and later ones are answered with its words. After a failure of the system it is called again, now and then; what was
    /// missed meanwhile becomes a `gap` of `process`. `alive` says which processes live.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        process: &str,
        open: impl FnMut() -> Result<Writer, BookError> + Send + 'static,
        alive: impl Fn(&str) -> bool + Send + 'static,
        chores: Chores,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (thread, process) = (Arc::clone(&shared), process.to_owned());
        std::thread::Builder::new()
            .name("book".to_owned())
            .stack_size(1 << 20)
            .spawn(move || {
                Scribe::new(&thread, process, Box::new(open), Box::new(alive), chores).run();
            })?;
        Ok(Self {
            _last: Arc::new(LastHandle(Arc::clone(&shared))),
            shared,
        })
    }

    /// Told of every batch that is on disk.
    #[must_use]
    pub fn written(&self) -> Arc<written::Written> {
        Arc::clone(&self.shared.written)
    }

    /// Hands entries over, to stand in the book one after the other in this order. `bytes` is the size of their payloads. They are
    /// committed to and sealed here, by the caller; the thread only writes them.
    ///
    /// # Errors
    /// When the book does not take entries any more, or no entry can be made of one of the drafts: then none is handed over.
    pub async fn submit(
        &self,
        drafts: Vec<Draft>,
        bytes: usize,
        when: When,
    ) -> Result<(), Stopped> {
        match self.push(drafts, bytes, when)? {
            None => Ok(()),
            Some(waiting) => match tokio::time::timeout(PATIENCE, waiting).await {
                Ok(answer) => answer.unwrap_or_else(|_| Err(ended())),
                Err(_) => Err(Stopped::new(
                    format!(
                        "the book did not take the entry within {} s: another process holds it",
                        PATIENCE.as_secs()
                    ),
                    "another process holds the book",
                )),
            },
        }
    }

    /// Hands entries over that nobody waits for.
    ///
    /// # Errors
    /// As [`Recorder::submit`].
    pub fn queue(&self, drafts: Vec<Draft>, bytes: usize) -> Result<(), Stopped> {
        self.push(drafts, bytes, When::Queued).map(drop)
    }

    fn push(
        &self,
        drafts: Vec<Draft>,
        bytes: usize,
        when: When,
    ) -> Result<Option<Waiting>, Stopped> {
        self.shared.push(drafts, bytes, when == When::Durable)
    }

    /// Writes what is queued and ends the thread, waiting for at most `patience`.
    pub fn close(&self, patience: Duration) {
        let end = Instant::now() + patience;
        let mut state = self.shared.lock();
        state.closing = true;
        self.shared.wake.notify_all();
        while !state.ended {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self
                .shared
                .wake
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

impl Drop for LastHandle {
    fn drop(&mut self) {
        self.0.lock().closing = true;
        self.0.wake.notify_all();
    }
}
