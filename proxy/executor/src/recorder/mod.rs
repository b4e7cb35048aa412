//! The one thread of a process that writes the book: group commit, the batch interval of reads, settling of dead processes'
//! calls. Owns the queue and the writer; refuses to know what the entries mean.

pub mod liveness;
pub mod port;
#[cfg(test)]
mod tests;
pub mod written;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use countersign_book::{Draft, Writer};
use tokio::sync::oneshot;

/// How long a batched entry may wait for company before it is written.
pub const BATCH_INTERVAL: Duration = Duration::from_millis(50);
/// Entries and payload bytes of one batch, at most (a single submission may be larger).
const BATCH_ENTRIES: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
/// Queued payload bytes from which batched entries are written at once, and from which their callers wait.
const HURRY_BYTES: usize = 4 << 20;
const WAIT_BYTES: usize = 32 << 20;
/// How long somebody waits for a durable entry. Longer means that another process holds the book and does not let go.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often chores are done: settling, refusal counts.
const CHORES: Duration = Duration::from_secs(20);

/// When an append counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Once it is queued; on disk within [`BATCH_INTERVAL`] or with the next durable batch.
    Queued,
    /// Once it is on disk under a signed checkpoint.
    Durable,
}

type Waiting = oneshot::Receiver<Result<(), Stopped>>;

/// Why the book does not take entries any more, in words for the log and the person.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Stopped(pub Arc<str>);

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

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    written: Arc<written::Written>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Item>,
    bytes: usize,
    /// When the oldest batched entry must be on its way.
    due: Option<Instant>,
    hurry: bool,
    closing: bool,
    ended: bool,
    stopped: Option<Stopped>,
}

struct Item {
    drafts: Vec<Draft>,
    bytes: usize,
    waiter: Option<oneshot::Sender<Result<(), Stopped>>>,
}

impl Recorder {
    /// Starts the thread. `open` runs on it first and gives the writer; until it returns, submissions queue, and if it fails, they
    /// and all later ones are answered with its words. `alive` says which processes live.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        open: impl FnOnce() -> Result<Writer, String> + Send + 'static,
        alive: impl Fn(&str) -> bool + Send + 'static,
        chores: Chores,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::default()),
            wake: Condvar::new(),
            written: Arc::default(),
        });
        let thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("book".to_owned())
            .stack_size(1 << 20)
            .spawn(move || {
                let end = End(&thread);
                match open() {
                    Ok(writer) => Scribe {
                        shared: &thread,
                        writer,
                        alive: Box::new(alive),
                        chores,
                        chores_at: Instant::now(),
                    }
                    .run(),
                    Err(words) => thread.stop(&Stopped(words.into())),
                }
                drop(end);
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

    /// Hands entries over, to stand in the book one after the other in this order. `bytes` is the size of their payloads.
    ///
    /// # Errors
    /// When the book does not take entries any more.
    pub async fn submit(
        &self,
        drafts: Vec<Draft>,
        bytes: usize,
        when: When,
    ) -> Result<(), Stopped> {
        match self.push(drafts, bytes, when)? {
            None => Ok(()),
            Some(waiting) => match tokio::time::timeout(PATIENCE, waiting).await {
                Ok(answer) => {
                    answer.unwrap_or_else(|_| Err(Stopped("the book's writer ended".into())))
                }
                Err(_) => Err(Stopped(
                    format!(
                        "the book did not take the entry within {} s: another process holds it",
                        PATIENCE.as_secs()
                    )
                    .into(),
                )),
            },
        }
    }

    /// Hands entries over that nobody waits for.
    ///
    /// # Errors
    /// When the book does not take entries any more.
    pub fn queue(&self, drafts: Vec<Draft>, bytes: usize) -> Result<(), Stopped> {
        self.push(drafts, bytes, When::Queued).map(drop)
    }

    fn push(
        &self,
        drafts: Vec<Draft>,
        bytes: usize,
        when: When,
    ) -> Result<Option<Waiting>, Stopped> {
        let mut state = self.shared.lock();
        if let Some(stopped) = &state.stopped {
            return Err(stopped.clone());
        }
        if state.closing {
            return Err(Stopped("the executor is ending".into()));
        }
        let wait = when == When::Durable || state.bytes > WAIT_BYTES;
        let (waiter, waiting) = oneshot::channel();
        let (waiter, waiting) = if wait {
            (Some(waiter), Some(waiting))
        } else {
            (None, None)
        };
        state.bytes += bytes;
        state.queue.push_back(Item {
            drafts,
            bytes,
            waiter,
        });
        let hurry = wait || state.bytes > HURRY_BYTES;
        let first = state.due.is_none();
        if first {
            state.due = Some(Instant::now() + BATCH_INTERVAL);
        }
        state.hurry |= hurry;
        drop(state);
        if hurry || first {
            self.shared.wake.notify_one();
        }
        Ok(waiting)
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

/// Says that the thread ended, however it ended.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.stop(&Stopped("the book's writer ended".into()));
        self.0.lock().ended = true;
        self.0.wake.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers everybody who waits, and everybody later, with the same words. The first words stay.
    fn stop(&self, words: &Stopped) {
        let mut state = self.lock();
        let words = state.stopped.get_or_insert_with(|| words.clone()).clone();
        for item in std::mem::take(&mut state.queue) {
            if let Some(waiter) = item.waiter {
                let _ = waiter.send(Err(words.clone()));
            }
        }
        state.bytes = 0;
    }
}

struct Scribe<'a> {
    shared: &'a Shared,
    writer: Writer,
    alive: Box<dyn Fn(&str) -> bool + Send>,
    chores: Chores,
    chores_at: Instant,
}

impl Scribe<'_> {
    fn run(mut self) {
        let result = loop {
            if self.chores_at <= Instant::now() {
                if let Err(stopped) = self.do_chores(Moment::Running) {
                    break Err(stopped);
                }
                self.chores_at = Instant::now() + CHORES;
            }
            match self.next_batch() {
                Next::Batch(batch) => {
                    if let Err(stopped) = self.write(batch) {
                        break Err(stopped);
                    }
                }
                Next::Idle => {}
                Next::End => break self.do_chores(Moment::Ending),
            }
        };
        if let Err(stopped) = result {
            tracing::error!(reason = %stopped, "the book takes no more entries; every call is refused until the next start");
            self.shared.stop(&stopped);
        }
    }

    /// Waits for entries that are due, or for chores.
    fn next_batch(&self) -> Next {
        let mut state = self.shared.lock();
        loop {
            let now = Instant::now();
            let due = state.hurry || state.closing || state.due.is_some_and(|due| due <= now);
            if due && !state.queue.is_empty() {
                return Next::Batch(take_batch(&mut state));
            }
            if state.closing {
                return Next::End;
            }
            if self.chores_at <= now {
                return Next::Idle;
            }
            let until = state
                .due
                .map_or(self.chores_at, |due| due.min(self.chores_at));
            let left = until.saturating_duration_since(now);
            state = self
                .shared
                .wake
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn write(&mut self, batch: Vec<Item>) -> Result<(), Stopped> {
        let mut drafts = Vec::with_capacity(batch.iter().map(|item| item.drafts.len()).sum());
        let mut waiters = Vec::new();
        for item in batch {
            drafts.extend(item.drafts);
            waiters.extend(item.waiter);
        }
        let result = self
            .writer
            .commit(drafts)
            .map(|_| ())
            .map_err(|error| Stopped(error.to_string().into()));
        for waiter in waiters {
            let _ = waiter.send(result.clone());
        }
        if result.is_ok() {
            self.shared.written.tell();
        }
        result
    }

    fn do_chores(&mut self, moment: Moment) -> Result<(), Stopped> {
        let words = |error: countersign_book::BookError| Stopped(error.to_string().into());
        for call in self.writer.settle(&*self.alive).map_err(words)? {
            tracing::warn!(call = %call.call, process = call.process, "a process ended with this call open; its outcome is unknown");
        }
        for chore in (self.chores)(moment) {
            self.writer.commit(chore.drafts).map_err(words)?;
            (chore.done)();
            self.shared.written.tell();
        }
        Ok(())
    }
}

enum Next {
    Batch(Vec<Item>),
    Idle,
    End,
}

/// Takes whole submissions, in order, up to the limits of a batch; what is left is due at once.
fn take_batch(state: &mut State) -> Vec<Item> {
    let (mut entries, mut bytes, mut batch) = (0, 0, Vec::new());
    while let Some(item) = state.queue.front() {
        let fits = batch.is_empty()
            || (entries + item.drafts.len() <= BATCH_ENTRIES && bytes + item.bytes <= BATCH_BYTES);
        if !fits {
            break;
        }
        entries += item.drafts.len();
        bytes += item.bytes;
        batch.extend(state.queue.pop_front());
    }
    state.bytes = state.bytes.saturating_sub(bytes);
    if state.queue.is_empty() {
        state.due = None;
        state.hurry = false;
    } else {
        state.hurry = true;
    }
    batch
}
