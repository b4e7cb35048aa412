//! What is derived from the book and can be made again: `book/tlog/` and `index.db`. Owns the thread of a running executor that
//! keeps them up to date, off the path of calls. Refuses to change the record.

pub mod filter;
pub mod index;
pub mod page;
#[cfg(test)]
mod tests;

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use countersign_book::{BookError, LookOptions, Pin, Tlog, look};

use crate::folder::Folder;
use crate::recorder::written::Written;

use index::Index;

/// The lock in `run/` of who writes `book/tlog/`.
pub const LOCK: &str = "tlog.lock";

/// How often they are brought up to date, at most.
const EVERY: Duration = Duration::from_secs(1);
/// An update may take this part of the time, at most: a pause is so many times as long as the update before it.
const REST: u32 = 4;

/// The thread. Ends when closed or dropped.
#[derive(Debug)]
pub struct Derived {
    written: Arc<Written>,
    ended: Mutex<Receiver<()>>,
}

/// What the thread holds between updates.
struct Keeping {
    folder: Folder,
    /// What was remembered of the book when this process began.
    pin: Option<Pin>,
    tlog: Option<Tlog>,
    index: Option<Index>,
    /// What was said last, so that a lasting fault is said once.
    said: Option<String>,
}

impl Derived {
    /// Starts the thread, which wakes after batches that `written` tells of. Nothing is published of a book that is not what `pin`
    /// remembers.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        folder: &Folder,
        pin: Option<Pin>,
        written: Arc<Written>,
    ) -> std::io::Result<Self> {
        let (alive, ended) = channel();
        let (folder, wake) = (folder.clone(), Arc::clone(&written));
        std::thread::Builder::new()
            .name("derived".to_owned())
            .spawn(move || {
                // Dropped when this thread ends, however it does.
                let _alive = alive;
                crate::platform::yield_to_others();
                let mut keeping = Keeping {
                    folder,
                    pin,
                    tlog: None,
                    index: None,
                    said: None,
                };
                let mut seen = 0;
                while let Some(batches) = wake.wait(seen) {
                    seen = batches;
                    let started = Instant::now();
                    keeping.update();
                    wake.pause(EVERY.max(started.elapsed() * REST));
                }
                // What was written since the last update.
                keeping.update();
            })?;
        Ok(Self {
            written,
            ended: Mutex::new(ended),
        })
    }

    /// Lets the thread do its last update and end, waiting for at most `patience`. Whatever is stopped in the middle is taken up by
    /// the next process.
    pub fn close(&self, patience: Duration) {
        self.written.close();
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(patience) {
            tracing::info!(
                "the derived log and the index are brought up to date by the next process"
            );
        }
    }
}

impl Drop for Derived {
    fn drop(&mut self) {
        self.written.close();
    }
}

impl Keeping {
    fn update(&mut self) {
        // Somebody else is at it: the next time.
        if let Ok(_held) = self.folder.lock(LOCK, Duration::ZERO) {
            let updated = self.tlog();
            self.say(
                updated.map_err(|error| format!("the derived log is not up to date: {error}")),
            );
        }
        let updated = match self.index.as_mut() {
            Some(index) => index.update(),
            None => Index::open(&self.folder).and_then(|mut index| {
                index.update()?;
                self.index = Some(index);
                Ok(())
            }),
        };
        if let Err(error) = updated {
            self.index = None;
            self.say(Err(format!("the index is not up to date: {error}")));
        }
    }

    fn tlog(&mut self) -> Result<(), BookError> {
        let mut tlog = match self.tlog.take() {
            Some(tlog) => tlog,
            None => {
                let options = LookOptions {
                    vkeys: Vec::new(),
                    pin: self.pin.clone(),
                };
                if let Some(fault) = look(&self.folder.book(), &options)?.fault {
                    return Err(fault);
                }
                Tlog::open(&self.folder.book())?
            }
        };
        let report = tlog.extend()?;
        for finding in &report.findings {
            tracing::warn!(
                file = finding.file,
                evidence = ?finding.evidence,
                "the derived log was not what the journal says: {}; it was made anew and the record is not concerned",
                finding.what
            );
        }
        self.tlog = Some(tlog);
        Ok(())
    }

    fn say(&mut self, result: Result<(), String>) {
        let words = result.err();
        if let Some(words) = words
            .as_ref()
            .filter(|words| self.said.as_ref() != Some(*words))
        {
            tracing::warn!(
                "{words}; the record is not concerned; `countersign book verify` looks at that"
            );
        }
        if words.is_some() {
            self.said = words;
        }
    }
}
