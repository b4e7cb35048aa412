//! The one thread of a process that writes the book: group commit, the batch interval of reads, settling of dead processes'
//! calls, opening the book anew after a failure. Owns the queue and the writer; refuses to know what the entries mean.

pub mod decisions;
pub mod liveness;
mod outage;
pub mod port;
#[cfg(test)]
mod tests;
pub mod turns;
pub mod written;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use countersign_book::{BookError, Draft, Writer};
use tokio::sync::oneshot;

use outage::Outage;
pub use outage::Stopped;

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
/// How often chores are done: settling, refusal counts, a beat.
const CHORES: Duration = Duration::from_secs(20);
/// How old the book's last entry may be before a beat is written. Looked at with the chores, so no ten minutes pass without an entry.
const BEAT: Duration = Duration::from_secs(9 * 60);

/// When an append counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Once it is queued; on disk within [`BATCH_INTERVAL`] or with the next durable batch.
    Queued,
    /// Once it is on disk under a signed checkpoint.
    Durable,
}

type Waiting = oneshot::Receiver<Result<(), Stopped>>;

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
    /// For good.
    stopped: Option<Stopped>,
    /// For now.
    outage: Option<Stopped>,
    /// Entries that were refused or lost in this outage.
    missed: u64,
}

struct Item {
    drafts: Vec<Draft>,
    bytes: usize,
    waiter: Option<oneshot::Sender<Result<(), Stopped>>>,
}

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
        let shared = Arc::new(Shared {
            state: Mutex::new(State::default()),
            wake: Condvar::new(),
            written: Arc::default(),
        });
        let (thread, process) = (Arc::clone(&shared), process.to_owned());
        std::thread::Builder::new()
            .name("book".to_owned())
            .stack_size(1 << 20)
            .spawn(move || {
                let end = End(&thread);
                Scribe {
                    shared: &thread,
                    process,
                    open: Box::new(open),
                    alive: Box::new(alive),
                    chores,
                    chores_at: Instant::now(),
                }
                .run();
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
            let words = "the executor is ending";
            return Err(Stopped::new(words, words));
        }
        if let Some(stopped) = state.outage.clone() {
            state.missed += drafts.len() as u64;
            return Err(stopped);
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
        self.0.stop(&ended());
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
        state.refuse_all(&words);
    }

    /// The same for now: until [`Shared::resume`].
    fn pause(&self, words: &Stopped, lost: u64) {
        let mut state = self.lock();
        state.outage = Some(words.clone());
        state.missed += lost;
        state.refuse_all(words);
    }

    /// What was missed so far.
    fn missed(&self) -> u64 {
        self.lock().missed
    }

    /// Takes entries again. Answers what was missed beyond `recorded`.
    fn resume(&self, recorded: u64) -> u64 {
        let mut state = self.lock();
        state.outage = None;
        std::mem::take(&mut state.missed).saturating_sub(recorded)
    }

    /// Waits; false when the recorder is to end.
    fn sleep(&self, time: Duration) -> bool {
        let (end, mut state) = (Instant::now() + time, self.lock());
        while !state.closing {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = self
                .wake
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        false
    }
}

impl State {
    fn refuse_all(&mut self, words: &Stopped) {
        for item in std::mem::take(&mut self.queue) {
            self.missed += item.drafts.len() as u64;
            if let Some(waiter) = item.waiter {
                let _ = waiter.send(Err(words.clone()));
            }
        }
        self.bytes = 0;
        self.due = None;
        self.hurry = false;
    }
}

fn ended() -> Stopped {
    let words = "the book's writer ended";
    Stopped::new(words, words)
}

type Open = Box<dyn FnMut() -> Result<Writer, BookError> + Send>;

struct Scribe<'a> {
    shared: &'a Shared,
    process: String,
    open: Open,
    alive: Box<dyn Fn(&str) -> bool + Send>,
    chores: Chores,
    chores_at: Instant,
}

/// A failure, and how many entries it took along.
struct Failed {
    error: BookError,
    lost: u64,
}

impl Scribe<'_> {
    fn run(mut self) {
        let mut opened = (self.open)().map_err(Failed::from);
        loop {
            // The writer is gone after a failure, and with it the descriptors that failed.
            let result = opened.and_then(|writer| self.serve(writer));
            let Err(failed) = result else {
                return;
            };
            opened = match self.reopen(&failed) {
                Some(writer) => Ok(writer),
                None => return,
            };
        }
    }

    /// Writes until the end, or a failure.
    fn serve(&mut self, mut writer: Writer) -> Result<(), Failed> {
        loop {
            if self.chores_at <= Instant::now() {
                self.do_chores(&mut writer, Moment::Running)?;
                self.chores_at = Instant::now() + CHORES;
            }
            match self.next_batch() {
                Next::Batch(batch) => {
                    write(&mut writer, batch)?;
                    self.shared.written.tell();
                }
                Next::Idle => {}
                Next::End => return self.do_chores(&mut writer, Moment::Ending),
            }
        }
    }

    /// Opens the book anew, through its recovery, until that succeeds and the outage is on record. Nothing when it never
    /// will by itself, or the recorder is to end.
    fn reopen(&mut self, failed: &Failed) -> Option<Writer> {
        let Some(mut outage) = Outage::begin(&failed.error) else {
            self.give_up(&failed.error);
            return None;
        };
        tracing::error!(reason = %failed.error, "the book takes no entries; calls are refused until it can be opened anew, which is tried again and again");
        self.shared.pause(outage.stopped(), failed.lost);
        while self.shared.sleep(outage.wait()) {
            let missed = self.shared.missed();
            let opened = (self.open)().and_then(|mut writer| {
                writer.commit(vec![outage.gap(&self.process, missed)])?;
                Ok(writer)
            });
            match opened {
                Ok(mut writer) => {
                    let more = self.shared.resume(missed);
                    if more > 0 {
                        // A failure here is the next batch's too.
                        let _ = writer.commit(vec![outage.gap(&self.process, more)]);
                    }
                    tracing::info!("the book takes entries again");
                    return Some(writer);
                }
                Err(error) if Outage::begin(&error).is_none() => {
                    self.give_up(&error);
                    return None;
                }
                Err(error) => tracing::warn!(reason = %error, "the book still takes no entries"),
            }
        }
        None
    }

    fn give_up(&self, error: &BookError) {
        tracing::error!(reason = %error, "the book takes no more entries; every call is refused until the next start");
        self.shared.stop(&Stopped::from(error));
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

    fn do_chores(&mut self, writer: &mut Writer, moment: Moment) -> Result<(), Failed> {
        for call in writer.settle(&*self.alive)? {
            tracing::warn!(call = %call.call, process = call.process, "a process ended with this call open; its outcome is unknown");
        }
        for chore in (self.chores)(moment) {
            writer.commit(chore.drafts)?;
            (chore.done)();
            self.shared.written.tell();
        }
        if moment == Moment::Running {
            writer.beat(BEAT)?;
        }
        Ok(())
    }
}

/// Writes a batch and answers who waits for it. What the book refused before touching anything fails that batch only.
fn write(writer: &mut Writer, batch: Vec<Item>) -> Result<(), Failed> {
    let mut drafts = Vec::with_capacity(batch.iter().map(|item| item.drafts.len()).sum());
    let mut waiters = Vec::new();
    for item in batch {
        drafts.extend(item.drafts);
        waiters.extend(item.waiter);
    }
    let lost = drafts.len() as u64;
    let result = writer.commit(drafts).map(|_| ());
    let answer = match &result {
        Ok(()) => Ok(()),
        Err(error) => Err(Stopped::from(error)),
    };
    for waiter in waiters {
        let _ = waiter.send(answer.clone());
    }
    match result {
        Err(error) if writer.poisoned().is_some() => Err(Failed { error, lost }),
        Err(error) => {
            tracing::error!(reason = %error, lost, "entries could not be written");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

impl From<BookError> for Failed {
    fn from(error: BookError) -> Self {
        Self { error, lost: 0 }
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
