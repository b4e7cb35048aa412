//! The pin in the secret store: how long the book was when this machine last looked. Owns when and how it is replaced; refuses to
//! know what the entries are. It may lag behind the book and never names what was not on disk.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use countersign_book::{HeadListener, Pin, PinError};

use crate::folder::Folder;
use crate::problem::Problem;
use crate::secrets::{Account, Secret, SecretStore, SecretsError};

/// The lock in `run/` around reading, comparing and writing.
const LOCK: &str = "pin.lock";
/// How long another process may hold it.
const WAIT: Duration = Duration::from_secs(5);

/// What the secret store remembers of the book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// A head.
    Pin(Pin),
    /// Nothing: an executor of an earlier version, or somebody removed it.
    Nothing,
    /// Something that is no pin of this version; in words.
    Unreadable(String),
    /// The pin of a newer version, which is left as it is.
    Newer,
}

/// The thread that keeps the pin while an executor runs. A slow or locked secret store holds up nobody but this thread.
pub struct Pinner {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    /// The newest head that is not written yet.
    head: Option<Pin>,
    /// The thread waits for a head: only then a new one wakes it.
    idle: bool,
    closing: bool,
    ended: bool,
}

/// Reads what is remembered. To be asked before the book is opened: the book only grows.
///
/// # Errors
/// When the secret store can't be asked.
pub fn read(store: &dyn SecretStore) -> Result<Remembered, SecretsError> {
    let secret = match store.get(&Account::book_pin()) {
        Ok(None) => return Ok(Remembered::Nothing),
        Ok(Some(secret)) => secret,
        Err(error @ SecretsError::Malformed { .. }) => {
            return Ok(Remembered::Unreadable(error.to_string()));
        }
        Err(error) => return Err(error),
    };
    let parsed = secret.text().map(Pin::parse);
    Ok(match parsed.unwrap_or(Err(PinError::Malformed)) {
        Ok(pin) => Remembered::Pin(pin),
        Err(PinError::Newer(_)) => Remembered::Newer,
        Err(error @ PinError::Malformed) => Remembered::Unreadable(error.to_string()),
    })
}

/// Remembers `pin` unless a larger head of the same book, another book, or the pin of a newer version is remembered. Answers
/// whether it was written. For whoever appended to the book and is done.
///
/// # Errors
/// When the lock or the secret store can't be had.
pub fn raise(folder: &Folder, store: &dyn SecretStore, pin: &Pin) -> Result<bool, Problem> {
    let _lock = folder.lock(LOCK, WAIT)?;
    match read(store)? {
        Remembered::Pin(old) if old.origin != pin.origin || old.size >= pin.size => Ok(false),
        Remembered::Newer => Ok(false),
        Remembered::Pin(_) | Remembered::Nothing | Remembered::Unreadable(_) => {
            write(store, pin)?;
            Ok(true)
        }
    }
}

/// Remembers `pin` whatever was remembered before: a person began a new era.
///
/// # Errors
/// As [`raise`].
pub fn replace(folder: &Folder, store: &dyn SecretStore, pin: &Pin) -> Result<(), Problem> {
    let _lock = folder.lock(LOCK, WAIT)?;
    Ok(write(store, pin)?)
}

fn write(store: &dyn SecretStore, pin: &Pin) -> Result<(), SecretsError> {
    store.set(
        &Account::book_pin(),
        &Secret::new(pin.to_string().into_bytes()),
    )
}

impl Remembered {
    /// The head, where one is remembered.
    #[must_use]
    pub fn pin(&self) -> Option<&Pin> {
        match self {
            Self::Pin(pin) => Some(pin),
            Self::Nothing | Self::Unreadable(_) | Self::Newer => None,
        }
    }

    /// What a person must know: why a cut end of the book would not be noticed. `None` where it would.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Pin(_) => None,
            Self::Nothing => Some(
                "nothing remembers how long the book was: had its end been cut off before now, nobody would know"
                    .to_owned(),
            ),
            Self::Unreadable(why) => Some(format!(
                "nothing remembers how long the book was: {why}; had its end been cut off before now, nobody would know"
            )),
            Self::Newer => Some(
                "a newer version of countersign remembers how long the book was, in a form this one can't read"
                    .to_owned(),
            ),
        }
    }
}

impl Pinner {
    /// Starts the thread, which keeps `store` open. `known` is what [`read`] answered.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        folder: &Folder,
        store: Box<dyn SecretStore>,
        known: Remembered,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            wake: Condvar::new(),
        });
        let (thread, folder) = (Arc::clone(&shared), folder.clone());
        std::thread::Builder::new()
            .name("pin".to_owned())
            .spawn(move || {
                let end = End(&thread);
                keep(&thread, &folder, store.as_ref(), known.pin().cloned());
                drop(end);
            })?;
        Ok(Self { shared })
    }

    /// What the book's writer tells its heads. It never waits for the secret store.
    #[must_use]
    pub fn listener(&self) -> HeadListener {
        let shared = Arc::clone(&self.shared);
        HeadListener::new(move |pin| {
            let mut state = shared.lock();
            state.head = Some(pin);
            if std::mem::take(&mut state.idle) {
                shared.wake.notify_all();
            }
        })
    }

    /// Writes the newest head and ends the thread, waiting for at most `patience`. What is not written then lags.
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

impl Drop for Pinner {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.wake.notify_all();
    }
}

/// Says that the thread ended, however it ended.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.wake.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next head to write; none at the end.
    fn next(&self) -> Option<Pin> {
        let mut state = self.lock();
        loop {
            if let Some(head) = state.head.take() {
                return Some(head);
            }
            if state.closing {
                return None;
            }
            state.idle = true;
            state = self
                .wake
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle = false;
        }
    }

    /// Leaves the store alone for a while, unless the process ends.
    fn rest(&self, pause: Duration) {
        let end = Instant::now() + pause;
        let mut state = self.lock();
        while !state.closing {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self
                .wake
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

fn keep(shared: &Shared, folder: &Folder, store: &dyn SecretStore, mut known: Option<Pin>) {
    let mut complained = false;
    while let Some(head) = shared.next() {
        if known.as_ref() == Some(&head) {
            continue;
        }
        match raise(folder, store, &head) {
            Ok(_) => {
                if std::mem::take(&mut complained) {
                    tracing::info!("how long the book is can be remembered again");
                }
                known = Some(head);
            }
            Err(problem) => {
                if !std::mem::replace(&mut complained, true) {
                    tracing::warn!(
                        code = problem.code,
                        "how long the book is can't be remembered, so a cut end would be noticed later or not at all; calls go on: \
                         {problem}; what to do: {}",
                        problem.remedy
                    );
                }
            }
        }
        shared.rest(store.pause());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use countersign_book::{Hash, Origin};

    use super::*;
    use crate::secrets::MemoryStore;

    fn pin(book: u8, size: u64) -> Pin {
        Pin {
            origin: Origin::from_id([book; 16]),
            size,
            root: Hash([u8::try_from(size % 251).unwrap(); 32]),
            key: [1, 2, 3, 4],
        }
    }

    fn folder() -> (tempfile::TempDir, Folder) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::resolve(Some(&temp.path().join("dir"))).unwrap();
        folder.create().unwrap();
        (temp, folder)
    }

    fn remembered(store: &dyn SecretStore) -> Option<u64> {
        read(store).unwrap().pin().map(|pin| pin.size)
    }

    #[test]
    fn the_larger_head_of_the_same_book_wins() {
        let ((_temp, folder), store) = (folder(), MemoryStore::default());
        for (new, written, size) in [
            (pin(1, 5), true, 5),
            (pin(1, 4), false, 5),
            (pin(1, 5), false, 5),
            (pin(1, 9), true, 9),
            (pin(2, 90), false, 9),
        ] {
            assert_eq!(raise(&folder, &store, &new).unwrap(), written, "{new:?}");
            assert_eq!(remembered(&store), Some(size));
        }
        replace(&folder, &store, &pin(2, 1)).unwrap();
        assert_eq!(read(&store).unwrap(), Remembered::Pin(pin(2, 1)));
    }

    #[test]
    fn what_is_no_pin_is_said_and_a_newer_one_is_left_alone() {
        let ((_temp, folder), store) = (folder(), MemoryStore::default());
        let words = read(&store).unwrap().warning().unwrap();
        assert!(words.contains("nothing remembers"), "{words}");
        let newer = pin(1, 7).to_string().replacen("pin 1", "pin 2", 1);
        for (text, expected, written) in [
            ("x".to_owned(), None, true),
            (newer.clone(), Some(Remembered::Newer), false),
        ] {
            let secret = Secret::new(text.into_bytes());
            store.set(&Account::book_pin(), &secret).unwrap();
            let found = read(&store).unwrap();
            assert!(found.warning().is_some());
            if let Some(expected) = expected {
                assert_eq!(found, expected);
            }
            assert_eq!(raise(&folder, &store, &pin(1, 8)).unwrap(), written);
        }
    }

    /// A store that can be made to fail, and counts how often it is written.
    struct Moody {
        inner: Arc<MemoryStore>,
        sets: Arc<AtomicUsize>,
        failing: Arc<AtomicUsize>,
    }

    impl SecretStore for Moody {
        fn kind(&self) -> &'static str {
            "moody"
        }
        fn get(&self, account: &Account) -> Result<Option<Secret>, SecretsError> {
            self.inner.get(account)
        }
        fn set(&self, account: &Account, secret: &Secret) -> Result<(), SecretsError> {
            self.sets.fetch_add(1, Ordering::SeqCst);
            if self.failing.load(Ordering::SeqCst) > 0 {
                return Err(SecretsError::Locked);
            }
            self.inner.set(account, secret)
        }
        fn remove(&self, account: &Account) -> Result<bool, SecretsError> {
            self.inner.remove(account)
        }
        fn list(&self) -> Result<Vec<Account>, SecretsError> {
            self.inner.list()
        }
        fn pause(&self) -> Duration {
            Duration::from_secs(3600)
        }
    }

    fn moody(failing: usize) -> (Arc<MemoryStore>, Arc<AtomicUsize>, Box<Moody>) {
        let (inner, sets) = (Arc::<MemoryStore>::default(), Arc::default());
        let store = Moody {
            inner: Arc::clone(&inner),
            sets: Arc::clone(&sets),
            failing: Arc::new(AtomicUsize::new(failing)),
        };
        (inner, sets, Box::new(store))
    }

    #[test]
    fn many_heads_are_one_write_and_the_last_is_written_at_the_end() {
        let (_temp, folder) = folder();
        let (inner, sets, store) = moody(0);
        let pinner = Pinner::start(&folder, store, Remembered::Nothing).unwrap();
        let writer = countersign_writer(&pinner);
        for size in 1..=500 {
            writer(pin(1, size));
        }
        pinner.close(Duration::from_secs(30));
        assert_eq!(remembered(inner.as_ref()), Some(500));
        let sets = sets.load(Ordering::SeqCst);
        assert!((1..=2).contains(&sets), "{sets} writes");
    }

    #[test]
    fn a_store_that_fails_holds_nobody_up() {
        let (_temp, folder) = folder();
        let (inner, sets, store) = moody(1);
        let pinner = Pinner::start(&folder, store, Remembered::Nothing).unwrap();
        countersign_writer(&pinner)(pin(1, 3));
        pinner.close(Duration::from_secs(30));
        assert_eq!(
            (remembered(inner.as_ref()), sets.load(Ordering::SeqCst)),
            (None, 1)
        );
    }

    #[test]
    fn a_head_that_is_remembered_already_is_not_written_again() {
        let (_temp, folder) = folder();
        let (_, sets, store) = moody(0);
        let known = Remembered::Pin(pin(1, 3));
        let pinner = Pinner::start(&folder, store, known).unwrap();
        countersign_writer(&pinner)(pin(1, 3));
        pinner.close(Duration::from_secs(30));
        assert_eq!(sets.load(Ordering::SeqCst), 0);
    }

    /// Tells heads as the book's writer does.
    fn countersign_writer(pinner: &Pinner) -> impl Fn(Pin) {
        let listener = pinner.listener();
        move |pin| listener.tell(pin)
    }
}
