//! The writer's options, what it is handed, and what it answers.

use std::path::Path;

use jiff::Timestamp;

use crate::entry::{CallId, Draft};
use crate::error::BookError;
use crate::key::{Signer, VaultKey};
use crate::note::Vkey;
use crate::origin::Origin;
use crate::tree::Hash;

/// Fills the slice with random bytes from the system.
pub type Entropy = Box<dyn FnMut(&mut [u8]) -> std::io::Result<()> + Send>;

/// Time and randomness, which this crate does not take by itself. The clock is read under the book's lock.
pub struct Sources {
    /// The time now.
    pub clock: Box<dyn FnMut() -> Timestamp + Send>,
    /// Random bytes: salts, data keys, nonces.
    pub entropy: Entropy,
}

/// What becomes of payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payloads {
    /// Kept encrypted in the vault up to `limit` bytes each; longer ones by commitment and size only.
    Keep {
        /// Bytes of the longest kept payload.
        limit: u64,
    },
    /// Committed to, nothing kept.
    Digest,
}

/// How a writer works.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// The name of this process, as `call` entries carry it; the liveness lock is `run/<process>.lock`.
    pub process: String,
    /// What becomes of payloads.
    pub payloads: Payloads,
    /// Bytes after which the next batch begins a new journal segment.
    pub segment_bytes: u64,
    /// Bytes after which the next batch begins a new vault segment.
    pub vault_segment_bytes: u64,
}

/// A committed entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its index.
    pub index: u64,
    /// Its leaf hash.
    pub leaf: Hash,
}

/// A batch that is on disk under a signed checkpoint.
#[derive(Clone, Debug)]
pub struct Committed {
    /// One for each draft, in order.
    pub entries: Vec<Recorded>,
    /// Entries in the book.
    pub size: u64,
    /// The root of its tree.
    pub root: Hash,
    /// The signed checkpoint.
    pub checkpoint: String,
    /// What was set aside before, if anything was.
    pub recovery: Option<Recovery>,
}

/// Bytes that were found after the last valid checkpoint, or payloads that did not reach the disk. Recorded as
/// `book.recovered`; nothing of it was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Bytes set aside.
    pub bytes: u64,
    /// Whole lines among them.
    pub lines: u64,
    /// The file in `quarantine/`.
    pub file: Option<String>,
    /// Payloads missing after a loss of power.
    pub missing: usize,
}

/// A call without an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// Its id.
    pub call: CallId,
    /// The process that carries it.
    pub process: String,
    /// The index of its entry.
    pub index: u64,
}

/// The text file `BOOK`: which book this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookFile {
    /// The origin.
    pub origin: Origin,
    /// The verifier key of the first checkpoint.
    pub vkey: Vkey,
    /// When it was made, RFC 3339.
    pub created: String,
}

/// The one way into a book. Several processes and several writers may have the same folder open: the lock is held per
/// batch.
pub struct Writer {
    process: String,
}

impl WriterOptions {
    /// Options with the defaults: payloads kept up to 1 MiB, segments of 4 MiB, vault segments of 64 MiB.
    pub fn new(process: impl Into<String>) -> Self {
        Self {
            process: process.into(),
            payloads: Payloads::Keep { limit: 1 << 20 },
            segment_bytes: 4 << 20,
            vault_segment_bytes: 64 << 20,
        }
    }
}

impl Writer {
    /// Opens the book in `dir` (the folder `book/`) for writing: takes the lock, reads and verifies the last segment,
    /// sets a torn or unsigned tail aside and records that.
    ///
    /// # Errors
    /// [`BookError::Damaged`] when something signed has changed, [`BookError::WrongKey`] when `signer` is not the
    /// book's, [`BookError::NotABook`], [`BookError::Newer`], [`BookError::Io`].
    pub fn open(
        dir: &Path,
        signer: Signer,
        vault: VaultKey,
        sources: Sources,
        options: WriterOptions,
    ) -> Result<Self, BookError> {
        let _ = (signer, vault, sources);
        Err(BookError::NotABook {
            path: dir.to_owned(),
            why: options.process,
        })
    }

    /// Appends a batch: assigns indexes, seals payloads, signs one checkpoint, and returns when entries, checkpoint and
    /// payloads are on disk. One flush, whatever the batch holds.
    ///
    /// # Errors
    /// [`BookError::Entry`] before any side effect; after a failed write or sync the writer refuses from then on
    /// ([`BookError::Poisoned`]).
    pub fn commit(&mut self, batch: Vec<Draft>) -> Result<Committed, BookError> {
        drop(batch);
        Err(BookError::Poisoned {
            why: self.process.clone(),
        })
    }

    /// Records `outcome: unknown` for every call without an outcome whose process is not `alive`, exactly once even when
    /// several processes try. Returns the settled calls.
    ///
    /// # Errors
    /// As [`Writer::commit`].
    pub fn settle(&mut self, alive: &dyn Fn(&str) -> bool) -> Result<Vec<OpenCall>, BookError> {
        let _ = alive("");
        Err(BookError::Poisoned {
            why: self.process.clone(),
        })
    }

    /// The calls without an outcome, as of the last batch read.
    #[must_use]
    pub fn open_calls(&self) -> Vec<OpenCall> {
        Vec::new()
    }

    /// What opening set aside, if anything.
    #[must_use]
    pub fn recovery(&self) -> Option<&Recovery> {
        None
    }

    /// Why the writer refuses, once it does.
    #[must_use]
    pub fn poisoned(&self) -> Option<&str> {
        None
    }

    /// Entries in the book, as of the last batch read.
    #[must_use]
    pub fn size(&self) -> u64 {
        0
    }
}
