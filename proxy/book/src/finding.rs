//! What verification can find, and the verdict it comes to. Refuses to know how it is found.

use std::path::PathBuf;

/// The answer in one word; [`Verdict::exit_code`] is the command's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Whole and signed.
    Ok,
    /// Whole and signed up to lines after the last checkpoint.
    UnsignedTail,
    /// The record is whole, a payload is missing without a word about it.
    PayloadMissing,
    /// The record is whole, a stored payload is not the one it commits to.
    PayloadChanged,
    /// Something signed was changed, removed, inserted or reordered.
    Changed,
    /// A key signed outside the sizes it may sign.
    KeyRange,
    /// Whole and signed, and shorter than the head that is remembered.
    Truncated,
    /// Whole and signed, and not what was signed when the head was remembered.
    Rewritten,
    /// Not the book of the pinned key.
    Replaced,
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
    /// An object of the vault does not open, or holds another payload than the entry commits to. Found with the vault's
    /// key only.
    PayloadChanged,
    /// An outcome of a call that is not open: a note, the verdict does not depend on it. Whoever signed the record
    /// contradicts itself (two processes may each have ended the call); nothing was changed.
    SecondOutcome,
    /// A payload whose absence an entry states (`book.recovered`).
    PayloadAbsentOnRecord,
    /// A payload that was erased, as an `erase` entry states.
    PayloadErased,
    /// Entries that were removed, as a `prune` entry states.
    Pruned,
    /// A checkpoint signed by a key outside the sizes it may sign, or not by the key in force.
    KeyRange,
    /// The book ends before the head that is remembered.
    Truncated,
    /// The book's tree is not the one of the head that is remembered.
    Rewritten,
    /// The book is of another key than the pinned one, or another than the one that is remembered.
    Replaced,
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

impl Finding {
    /// Whether reading ended there: what the entries after it say is not known.
    pub(crate) fn is_break(&self) -> bool {
        self.kind != FindingKind::UnsignedTail
    }
}

impl FindingKind {
    /// Whether the record itself says so: nothing is wrong.
    #[must_use]
    pub fn is_on_record(self) -> bool {
        matches!(
            self,
            Self::PayloadAbsentOnRecord | Self::PayloadErased | Self::Pruned
        )
    }
}

impl Verdict {
    /// 0, 13, 30, 31, 32, 33, 34, 35 or 40. Errors of use and IO, which give no report, are 2.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::UnsignedTail => 13,
            Self::PayloadMissing | Self::PayloadChanged => 30,
            Self::Changed => 31,
            Self::KeyRange => 34,
            Self::Truncated => 32,
            Self::Rewritten => 33,
            Self::Replaced => 35,
            Self::Unverifiable => 40,
        }
    }
}
