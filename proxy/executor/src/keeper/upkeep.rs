//! What a running executor puts in order now and then, one process of several: entries older than the setting `book.retain` are
//! pruned, a signing key that signs nothing any more leaves the secret store. Refuses to do either where the clock may be wrong.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use countersign_book::{BookError, Pruned, Reader, Signer, Writer};
use jiff::{SignedDuration, Timestamp};

use crate::folder::{Folder, FolderError};
use crate::problem::Problem;
use crate::recorder::written::Written;
use crate::secrets::{self, Account, Interaction};
use crate::settings::{self, Settings};

/// How often it is looked, after the first time at the start.
const EVERY: Duration = Duration::from_secs(6 * 60 * 60);
/// The lock in `run/` of the process that looks.
const LOCK: &str = "upkeep.lock";
const HOURS_A_DAY: i64 = 24;
/// An entry of these last days, but not of the last one, says that the clock was about right for a day.
const CONTINUOUS: u32 = 31;

/// Opens the book as the recorder does.
pub type Open = Box<dyn Fn() -> Result<Writer, BookError> + Send>;

/// The thread. It ends when this is dropped, or sooner with [`Upkeep::close`].
pub struct Upkeep {
    stop: Mutex<Option<Sender<()>>>,
    ended: Mutex<Receiver<()>>,
}

/// From when on entries are kept that are kept for so many days.
#[must_use]
pub fn kept_since(now: Timestamp, days: u32) -> Timestamp {
    let hours = i64::from(days).saturating_mul(HOURS_A_DAY);
    now.checked_sub(SignedDuration::from_hours(hours))
        .unwrap_or(Timestamp::MIN)
}

impl Upkeep {
    /// Starts the thread, which looks at once and then every six hours. `held` is how many signing keys the secret store has now;
    /// `written` is told of entries that are added.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        folder: &Folder,
        open: Open,
        held: usize,
        written: Arc<Written>,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let (alive, ended) = channel();
        let folder = folder.clone();
        std::thread::Builder::new()
            .name("upkeep".to_owned())
            .spawn(move || {
                // Dropped when this thread ends, however it does.
                let _alive = alive;
                crate::platform::yield_to_others();
                // Opening the secret store costs something, and hosts start executors often.
                let mut keys = if held > 1 { Keys::Look } else { Keys::Leave };
                loop {
                    look(&folder, &open, keys, &written);
                    keys = Keys::Look;
                    match stopped.recv_timeout(EVERY) {
                        Err(RecvTimeoutError::Timeout) => {}
                        Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            })?;
        Ok(Self {
            stop: Mutex::new(Some(stop)),
            ended: Mutex::new(ended),
        })
    }

    /// Ends the thread, waiting for at most `patience`. A pruning that is cut short is finished by whoever opens the book next.
    pub fn close(&self, patience: Duration) {
        drop(lock(&self.stop).take());
        let _ = lock(&self.ended).recv_timeout(patience);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether signing keys are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Look,
    Leave,
}

/// Looks once. What fails is said, and tried again the next time.
fn look(folder: &Folder, open: &Open, keys: Keys, written: &Written) {
    let Ok(settings) = settings::load(&folder.settings()) else {
        // Whoever judges calls says what is wrong with it.
        return;
    };
    let settings = settings.settings;
    let _lock = match folder.lock(LOCK, Duration::ZERO) {
        Ok(lock) => lock,
        // Another process does it.
        Err(FolderError::Held { .. }) => return,
        Err(error) => {
            tracing::warn!(%error, "the upkeep of the book cannot be begun");
            return;
        }
    };
    if let Some(days) = settings.book.retain {
        match prune(folder, open, days, Timestamp::now()) {
            Ok(None) => {}
            Ok(Some(pruned)) => {
                written.tell();
                tracing::info!(
                    minimum = pruned.minimum,
                    bytes = pruned.bytes,
                    "entries older than `book.retain` were pruned, on record"
                );
            }
            Err(error) => {
                tracing::warn!(%error, "entries older than `book.retain` could not be pruned; it is tried again");
            }
        }
    }
    if keys == Keys::Look
        && let Err(problem) = tidy_keys(folder, &settings)
    {
        tracing::warn!(%problem, "a signing key that is retired stays in the secret store for now");
    }
}

/// Prunes what is older than so many days, if whole segments are.
fn prune(
    folder: &Folder,
    open: &Open,
    days: u32,
    now: Timestamp,
) -> Result<Option<Pruned>, BookError> {
    let reader = Reader::open(&folder.book())?;
    let index = reader.older_than(kept_since(now, days))?;
    if index <= reader.first()? {
        return Ok(None);
    }
    if !clock_is_right(&reader, now)? {
        tracing::warn!(
            "the book has no entry of the {CONTINUOUS} days before yesterday, so the clock may be wrong: nothing is pruned for now; \
             `countersign book prune` does it when asked"
        );
        return Ok(None);
    }
    let reason = format!("older than {days} days");
    let pruned = open()?.prune(index, &reason, "the setting book.retain")?;
    Ok(pruned.entry.is_some().then_some(pruned))
}

/// A clock that leapt ahead would make the whole book old. Entries written from day to day until now say that it did not.
fn clock_is_right(reader: &Reader, now: Timestamp) -> Result<bool, BookError> {
    let (yesterday, long_ago) = (kept_since(now, 1), kept_since(now, CONTINUOUS));
    let newest = reader.newest_before(yesterday)?;
    Ok(newest.is_some_and(|newest| newest > long_ago))
}

/// Removes the key before the one in force once it can sign nothing of this book any more.
fn tidy_keys(folder: &Folder, settings: &Settings) -> Result<(), Problem> {
    let store = secrets::open(
        folder,
        &settings.executor,
        settings.secrets,
        Interaction::None,
    )?;
    if store.get(&Account::book_signing_before())?.is_none() {
        return Ok(());
    }
    let _lock = match folder.lock("keys.lock", Duration::ZERO) {
        // A command changes the keys just now.
        Err(FolderError::Held { .. }) => return Ok(()),
        lock => lock?,
    };
    let reader = Reader::open(&folder.book());
    let keys = reader.and_then(|reader| Ok((reader.book().origin.clone(), reader.keys()?)));
    let (origin, (size, keys)) = keys.map_err(|error| {
        Problem::new(
            "book_unreadable",
            error.to_string(),
            "`countersign book status` says what it is",
        )
    })?;
    let Some(before) = store.get(&Account::book_signing_before())? else {
        return Ok(());
    };
    let Some(key) = before.key() else {
        return Ok(());
    };
    let vkey = Signer::from_seed(*key).vkey(&origin);
    let range = keys.iter().find(|range| range.vkey == vkey);
    // Sizes only grow: the next checkpoint is of a larger one than the last it may sign.
    if range.is_some_and(|range| range.until.is_some_and(|until| until <= size)) {
        store.remove(&Account::book_signing_before())?;
        tracing::info!(
            "the signing key before the one in force signs nothing any more; it left the secret store"
        );
    }
    Ok(())
}
