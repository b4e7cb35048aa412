//! What a writer is handed and what it answers.

use jiff::Timestamp;

use crate::entry::CallId;
use crate::pin::{HeadListener, Pin};
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
    /// Zeros that a vault segment holds ahead of need at most, so that a batch with payloads needs one flush where the file
    /// system is known to allow it; 0 for none, anywhere.
    pub vault_ahead_bytes: u64,
    /// Threads that check signatures on opening, at least 1.
    pub threads: usize,
    /// The head that is remembered outside of the book, read before the book is opened. Without one a cut end is not noticed.
    pub pin: Option<Pin>,
    /// Hears of each new head, to remember it.
    pub heads: HeadListener,
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
    /// What another process had left and was set aside before this batch, if anything was.
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
    /// The file in `quarantine/`, when bytes were set aside.
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

impl WriterOptions {
    /// Options with the defaults: payloads kept up to 1 MiB, segments of 4 MiB (so that opening, which verifies the last
    /// one, stays well below a second), vault segments of 64 MiB.
    pub fn new(process: impl Into<String>) -> Self {
        Self {
            process: process.into(),
            payloads: Payloads::Keep { limit: 1 << 20 },
            segment_bytes: 4 << 20,
            vault_segment_bytes: 64 << 20,
            vault_ahead_bytes: 1 << 20,
            threads: 2,
            pin: None,
            heads: HeadListener::default(),
        }
    }
}
