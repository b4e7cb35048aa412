//! The entries of this process that wait to be written, prepared by whoever hands them over, and who waits for them. Owns the
//! limits of a batch; refuses to know the book's writer.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use countersign_book::{BookError, Draft, Prepared, Preparer};
use tokio::sync::oneshot;

use super::{BATCH_INTERVAL, Stopped, written};

/// Entries and payload bytes of one batch, at most (a single submission may be larger).
const BATCH_ENTRIES: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
/// Queued payload bytes from which batched entries are written at once, and from which their callers wait.
const HURRY_BYTES: usize = 4 << 20;
const WAIT_BYTES: usize = 32 << 20;

/// The other end of an answer.
pub(super) type Waiting = oneshot::Receiver<Told>;
type Waiter = oneshot::Sender<Told>;
type Answer = Result<(), Stopped>;

/// An answer on its way. Who is told first tells the others, when it takes the answer or drops it: woken one by one from the
/// writing thread, callers of one runtime would have it go to sleep and wake up for each of them.
pub(super) struct Told {
    answer: Answer,
    others: VecDeque<Waiter>,
}

/// What handles and thread share.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) wake: Condvar,
    pub(super) written: Arc<written::Written>,
}

#[derive(Default)]
pub(super) struct State {
    /// With what entries are prepared, while the book is open.
    preparer: Option<Preparer>,
    /// What came before the book was open.
    early: Vec<Item<Draft>>,
    queue: VecDeque<Item<Prepared>>,
    /// Bytes of both.
    bytes: usize,
    /// When the oldest batched entry must be on its way.
    due: Option<Instant>,
    hurry: bool,
    /// Whether the thread waits to be woken.
    idle: bool,
    pub(super) closing: bool,
    pub(super) ended: bool,
    /// For good.
    stopped: Option<Stopped>,
    /// For now.
    outage: Option<Stopped>,
    /// Entries that were refused or lost in this outage.
    missed: u64,
}

/// One submission.
struct Item<T> {
    entries: Vec<T>,
    bytes: usize,
    waiter: Option<Waiter>,
}

/// Who waits for a batch, and how many entries it has.
#[derive(Default)]
pub(super) struct Taken {
    waiters: VecDeque<Waiter>,
    pub(super) count: u64,
}

/// What the thread is to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Entries are due.
    Batch(Pause),
    /// The time it waited for came.
    Idle,
    /// Nothing more comes.
    End,
}

/// Whether the thread waited for entries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    Some,
    None,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares entries and queues them behind what is queued. Answers the end to wait at, where the caller is to wait.
    pub(super) fn push(
        &self,
        drafts: Vec<Draft>,
        bytes: usize,
        durable: bool,
    ) -> Result<Option<Waiting>, Stopped> {
        let count = drafts.len() as u64;
        let mut state = self.lock();
        state.admit(count)?;
        let Some(preparer) = state.preparer.clone() else {
            let waiting = state.enter(bytes, durable, |state, waiter| {
                state.early.push(Item {
                    entries: drafts,
                    bytes,
                    waiter,
                });
            });
            // The thread opens the book, and looks when it has.
            return Ok(waiting);
        };
        drop(state);
        let (entries, bytes) =
            prepare(&preparer, drafts).map_err(|error| refused(&error, count))?;
        let mut state = self.lock();
        state.admit(count)?;
        let first = state.due.is_none();
        let waiting = state.enter(bytes, durable, |state, waiter| {
            state.queue.push_back(Item {
                entries,
                bytes,
                waiter,
            });
        });
        // A thread that writes, or waits for a time that is set, finds it by itself.
        let wake = state.idle && (state.hurry || first);
        state.idle &= !wake;
        drop(state);
        if wake {
            self.wake.notify_all();
        }
        Ok(waiting)
    }

    /// The book is open: prepares what came before, in its order, and lets callers prepare what comes.
    pub(super) fn opened(&self, preparer: &Preparer) {
        loop {
            let early = {
                let mut state = self.lock();
                if state.early.is_empty() {
                    state.preparer = Some(preparer.clone());
                    return;
                }
                std::mem::take(&mut state.early)
            };
            for item in early {
                let count = item.entries.len() as u64;
                let prepared = prepare(preparer, item.entries);
                let mut state = self.lock();
                state.bytes = state.bytes.saturating_sub(item.bytes);
                match prepared {
                    Ok((entries, bytes)) => {
                        state.bytes += bytes;
                        state.queue.push_back(Item {
                            entries,
                            bytes,
                            waiter: item.waiter,
                        });
                    }
                    Err(error) => {
                        let answer = Err(refused(&error, count));
                        tell(answer, item.waiter.into_iter().collect());
                    }
                }
            }
        }
    }

    /// Waits until entries are due, or until `until`.
    pub(super) fn next(&self, until: Instant) -> Next {
        let (mut state, mut pause) = (self.lock(), Pause::None);
        loop {
            let now = Instant::now();
            let due = state.hurry || state.closing || state.due.is_some_and(|due| due <= now);
            if due && !state.queue.is_empty() {
                return Next::Batch(pause);
            }
            if state.closing {
                return Next::End;
            }
            if until <= now {
                return Next::Idle;
            }
            // What is not due yet waits for its time, which whoever queued it first has set.
            state.idle = true;
            let left = state.due.map_or(until, |due| due.min(until));
            state = self
                .wake
                .wait_timeout(state, left.saturating_duration_since(now))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            state.idle = false;
            pause = Pause::Some;
        }
    }

    /// Takes whole submissions, in order, up to the limits of a batch; what is left is due at once.
    pub(super) fn take(&self) -> (Vec<Prepared>, Taken) {
        self.lock().take()
    }

    /// Answers everybody who waits, and everybody later, with the same words. The first words stay.
    pub(super) fn stop(&self, words: &Stopped) {
        let mut state = self.lock();
        let words = state.stopped.get_or_insert_with(|| words.clone()).clone();
        state.refuse_all(&words);
    }

    /// The same for now: until [`Shared::resume`].
    pub(super) fn pause(&self, words: &Stopped, lost: u64) {
        let mut state = self.lock();
        state.outage = Some(words.clone());
        state.preparer = None;
        state.missed += lost;
        state.refuse_all(words);
    }

    /// What was missed so far.
    pub(super) fn missed(&self) -> u64 {
        self.lock().missed
    }

    /// Takes entries again. Answers what was missed beyond `recorded`.
    pub(super) fn resume(&self, recorded: u64) -> u64 {
        let mut state = self.lock();
        state.outage = None;
        std::mem::take(&mut state.missed).saturating_sub(recorded)
    }

    /// Waits; false when the recorder is to end.
    pub(super) fn sleep(&self, time: Duration) -> bool {
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
    /// Whether `count` more entries are taken.
    fn admit(&mut self, count: u64) -> Result<(), Stopped> {
        if let Some(stopped) = &self.stopped {
            return Err(stopped.clone());
        }
        if self.closing {
            let words = "the executor is ending";
            return Err(Stopped::new(words, words));
        }
        if let Some(stopped) = self.outage.clone() {
            self.missed += count;
            return Err(stopped);
        }
        Ok(())
    }

    /// Counts a submission that `put` queues, and sets when it is due.
    fn enter(
        &mut self,
        bytes: usize,
        durable: bool,
        put: impl FnOnce(&mut Self, Option<Waiter>),
    ) -> Option<Waiting> {
        let wait = durable || self.bytes > WAIT_BYTES;
        let (waiter, waiting) = match wait {
            true => {
                let (waiter, waiting) = oneshot::channel();
                (Some(waiter), Some(waiting))
            }
            false => (None, None),
        };
        self.bytes += bytes;
        put(self, waiter);
        self.due
            .get_or_insert_with(|| Instant::now() + BATCH_INTERVAL);
        self.hurry |= wait || self.bytes > HURRY_BYTES;
        waiting
    }

    fn take(&mut self) -> (Vec<Prepared>, Taken) {
        let (mut entries, mut bytes, mut taken) = (Vec::new(), 0, Taken::default());
        while let Some(item) = self.queue.front() {
            let fits = entries.is_empty()
                || (entries.len() + item.entries.len() <= BATCH_ENTRIES
                    && bytes + item.bytes <= BATCH_BYTES);
            if !fits {
                break;
            }
            if let Some(item) = self.queue.pop_front() {
                bytes += item.bytes;
                entries.extend(item.entries);
                taken.waiters.extend(item.waiter);
            }
        }
        taken.count = entries.len() as u64;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.hurry = !self.queue.is_empty();
        if self.queue.is_empty() {
            self.due = None;
        }
        (entries, taken)
    }

    fn refuse_all(&mut self, words: &Stopped) {
        let early = std::mem::take(&mut self.early).into_iter();
        let early = early.map(|item| (item.entries.len(), item.waiter));
        let queue = std::mem::take(&mut self.queue).into_iter();
        let queue = queue.map(|item| (item.entries.len(), item.waiter));
        let mut waiters = VecDeque::new();
        for (count, waiter) in early.chain(queue) {
            self.missed += count as u64;
            waiters.extend(waiter);
        }
        tell(Err(words.clone()), waiters);
        self.bytes = 0;
        self.due = None;
        self.hurry = false;
    }
}

impl Taken {
    /// Answers everybody who waits for the batch.
    pub(super) fn answer(self, answer: Answer) {
        tell(answer, self.waiters);
    }
}

impl Told {
    /// The answer, also told to the others.
    pub(super) fn answer(self) -> Answer {
        self.answer.clone()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        for waiter in std::mem::take(&mut self.others) {
            // Who does not wait any more needs no answer.
            let _ = waiter.send(Self {
                answer: self.answer.clone(),
                others: VecDeque::new(),
            });
        }
    }
}

/// Tells the first who still waits; dropped there, the answer reaches the others.
fn tell(answer: Answer, others: VecDeque<Waiter>) {
    let mut told = Told { answer, others };
    while let Some(first) = told.others.pop_front() {
        match first.send(told) {
            Ok(()) => return,
            Err(back) => told = back,
        }
    }
}

/// Prepares one submission; answers its entries and the bytes they take.
fn prepare(preparer: &Preparer, drafts: Vec<Draft>) -> Result<(Vec<Prepared>, usize), BookError> {
    let mut random = |bytes: &mut [u8]| getrandom::fill(bytes).map_err(io::Error::other);
    let prepared: Vec<Prepared> = drafts
        .into_iter()
        .map(|draft| preparer.prepare(draft, &mut random))
        .collect::<Result<_, _>>()?;
    let bytes = prepared.iter().map(Prepared::bytes).sum();
    Ok((prepared, bytes))
}

/// The answer to a submission no entries could be made of.
fn refused(error: &BookError, lost: u64) -> Stopped {
    tracing::error!(reason = %error, lost, "entries could not be written");
    Stopped::from(error)
}

pub(super) fn ended() -> Stopped {
    let words = "the book's writer ended";
    Stopped::new(words, words)
}
