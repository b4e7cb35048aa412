//! Reads a whole book and names the first bad place. Writes nothing, needs no secret.

use std::path::{Path, PathBuf};

use crate::error::BookError;
use crate::note::Vkey;
use crate::origin::Origin;
use crate::tree::Hash;

/// Whether the vault is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadCheck {
    /// Every object an entry refers to must be present.
    Present,
    /// Not looked at: the journal alone was handed over.
    Skip,
}

/// How to verify.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// A verifier key known from elsewhere. Without it the one in `BOOK` is used and the report says that there is no
    /// independent reference.
    pub pinned: Option<Vkey>,
    /// Whether the vault is looked into.
    pub payloads: PayloadCheck,
    /// Threads that check signatures, at least 1.
    pub threads: usize,
}

/// Where the key came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Handed in by the verifier.
    Pinned,
    /// From the book itself: no independent reference.
    None,
}

/// The answer in one word; [`Verdict::exit_code`] is the command's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Whole and signed.
    Ok,
    /// Whole and signed up to lines after the last checkpoint.
    UnsignedTail,
    /// The record is whole, a payload is missing without a word about it.
    PayloadMissing,
    /// Something signed was changed, removed, inserted or reordered.
    Changed,
    /// Missing key, unknown format.
    Unverifiable,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// An entry, checkpoint or segment is not what was signed.
    Changed,
    /// A segment is not there.
    Removed,
    /// Bytes after the last checkpoint.
    UnsignedTail,
    /// An object of the vault is not there or is not the entry's.
    PayloadMissing,
    /// A payload whose absence an entry states (`book.recovered`, `erase`).
    PayloadAbsentOnRecord,
    /// A format or key this version does not know.
    Unverifiable,
}

/// One thing found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub kind: FindingKind,
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 where none can be named.
    pub line: u64,
    /// The index of the entry (to be expected) there.
    pub index: u64,
    /// What is wrong.
    pub what: String,
}

/// What verification found. A record proves what the recorder saw, not what was true.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which book.
    pub origin: Origin,
    /// The key it was verified with.
    pub vkey: String,
    /// Where the key came from.
    pub reference: Reference,
    /// Entries under a verified checkpoint.
    pub size: u64,
    /// Their root.
    pub root: Hash,
    /// Checkpoints verified.
    pub checkpoints: u64,
    /// Segments read.
    pub segments: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Calls without an outcome.
    pub open_calls: u64,
    /// Entries whose version or kind is not understood.
    pub not_understood: u64,
    /// Payload objects found.
    pub payloads: u64,
    /// Findings, the first bad place first; at most 1,000 of them, the rest counted in `more`.
    pub findings: Vec<Finding>,
    /// Findings beyond those listed.
    pub more: u64,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            pinned: None,
            payloads: PayloadCheck::Present,
            threads: 2,
        }
    }
}

impl Verdict {
    /// 0, 13, 30, 31 or 40. Errors of use and IO, which give no report, are 2.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::UnsignedTail => 13,
            Self::PayloadMissing => 30,
            Self::Changed => 31,
            Self::Unverifiable => 40,
        }
    }
}

impl Report {
    /// The worst of the findings.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let has = |kind| self.findings.iter().any(|finding| finding.kind == kind);
        if has(FindingKind::Changed) || has(FindingKind::Removed) {
            Verdict::Changed
        } else if has(FindingKind::Unverifiable) {
            Verdict::Unverifiable
        } else if has(FindingKind::PayloadMissing) {
            Verdict::PayloadMissing
        } else if has(FindingKind::UnsignedTail) {
            Verdict::UnsignedTail
        } else {
            Verdict::Ok
        }
    }

    /// The verdict as a sentence for a person.
    #[must_use]
    pub fn sentence(&self) -> String {
        String::new()
    }
}

/// Verifies the book in `dir`, or in its subfolder `book/`. Streams: memory does not grow with the book.
///
/// # Errors
/// [`BookError::NotABook`], [`BookError::Io`]. What is wrong with the record itself is in the report.
pub fn verify(dir: &Path, options: &VerifyOptions) -> Result<Report, BookError> {
    let _ = options;
    Err(BookError::NotABook {
        path: dir.to_owned(),
        why: String::new(),
    })
}
