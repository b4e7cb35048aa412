//! What goes wrong with a book, in words that say what was found, what was left alone and what to do.

use std::fmt;
use std::path::PathBuf;

use crate::entry::EntryError;

/// Something signed that no longer is what was signed. Nothing was written when this is returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The line in it, from 1; 0 where no line can be named.
    pub line: u64,
    /// The index of the entry expected there.
    pub index: u64,
    /// What is wrong, as a sentence part.
    pub what: String,
}

/// In what way a book is not the one that is remembered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RolledBack {
    /// It ends before the head that is remembered.
    #[error("the book ends after {size}")]
    Shorter {
        /// Its entries.
        size: u64,
    },
    /// It is as long, and its first entries are others.
    #[error("the book's first entries are not those")]
    Rewritten,
    /// It is another book.
    #[error("they are of another book, `{origin}`")]
    OtherBook {
        /// The origin that is remembered.
        origin: String,
    },
}

/// Why the book could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// An operating system call failed.
    #[error("can't {action} `{path}`: {source}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// State DAMAGED: the executor must stop until a person decides.
    #[error(
        "the book is damaged: {0}; nothing was changed and nothing was added; compare it with its copy, restore it from \
         the copy, or begin a new era"
    )]
    Damaged(Damage),
    /// State KEY_RANGE: a key signed outside the sizes it may sign. The executor must stop until a person decides.
    #[error(
        "the book was signed by a key outside its range: {0}; nothing was changed and nothing was added; whoever holds that \
         key may have written what it signed: compare the book with its copy, restore it from the copy, or begin a new era \
         (`countersign book new-era`)"
    )]
    KeyRange(Damage),
    /// The key in force is not at hand: it was changed since, or the secret store does not give it. Nothing was written.
    #[error(
        "the signing key `{vkey}` is in force in the book and the secret store does not give it; nothing was written and no \
         key was made; unlock the secret store or restore the key, then restart"
    )]
    KeyMissing {
        /// The vkey in force.
        vkey: String,
    },
    /// The new key is one the book has or had. Nothing was written.
    #[error("the new signing key is one the book has had already; nothing was written")]
    SameKey,
    /// State ROLLED_BACK: the book is not the one this machine remembers. Nothing was written when this is returned.
    #[error(
        "the book was rolled back: this machine remembers {pinned} entries, and {found}; either an old backup was put back, or \
         somebody cut off or rewrote its end; nothing was changed and nothing was added; put the newer book back, restore it from \
         its copy, or begin a new era with `countersign book new-era`"
    )]
    RolledBack {
        /// Entries of the head that is remembered.
        pinned: u64,
        /// What is there instead.
        found: RolledBack,
    },
    /// State REMOVED: whole segments of the journal are not there. Nothing was written when this is returned.
    #[error(
        "entries {from} to {until} were removed from the book: `{file}` is not there; nothing was changed and nothing was added; \
         put the file back or restore the book from its copy, or begin a new era with `countersign book new-era`",
        file = file.display()
    )]
    Removed {
        /// Index of the first entry that is not there.
        from: u64,
        /// Index of the last entry that is not there.
        until: u64,
        /// The first file that is missing.
        file: PathBuf,
    },
    /// The folder holds no book, or not all of one.
    #[error("`{path}` is not a book: {why}", path = path.display())]
    NotABook {
        /// The folder.
        path: PathBuf,
        /// What is missing or wrong.
        why: String,
    },
    /// The folder holds a book or parts of one already.
    #[error("`{path}` exists already; a book is never made over another", path = path.display())]
    Exists {
        /// What exists.
        path: PathBuf,
    },
    /// The book was written by a newer version; answer `restart_required`.
    #[error("`{path}` has a format this version does not know (`{found}`); restart with the newer version", path = path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: String,
    },
    /// The key handed in is not the one the book is signed with. A new key is never made silently.
    #[error(
        "the signing key is not this book's: the book is signed by `{book}`, the key at hand is `{given}`"
    )]
    WrongKey {
        /// The vkey in force in the book.
        book: String,
        /// The vkey of the key handed in.
        given: String,
    },
    /// The vault key handed in opens none of the last payloads. A new key is never made silently.
    #[error("the vault's key is not this book's: it opens none of the last payloads")]
    WrongVaultKey,
    /// The key would have to sign a size it has signed with another root.
    #[error(
        "the signing key has already signed another tree of {size} entries; nothing was written"
    )]
    AlreadySigned {
        /// The size.
        size: u64,
    },
    /// A file this writer has open is not at its place any more: deleted, moved, replaced. What it would write there
    /// nobody would find.
    #[error(
        "the book was taken away while it was open: `{path}` {found}; nothing is recorded and nothing is acknowledged \
         from here on; look at the folder with `countersign book verify`, put it back or restore it from its copy, then \
         restart",
        path = path.display()
    )]
    Gone {
        /// The file.
        path: PathBuf,
        /// What was found at its place, as the rest of a sentence.
        found: String,
    },
    /// An earlier write or sync failed; this writer refuses until it is opened anew.
    #[error(
        "the book takes no more entries from this process: an earlier write failed ({why}); restart to recover"
    )]
    Poisoned {
        /// The failure.
        why: String,
    },
    /// An entry of the batch can't be written; nothing of the batch was.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The source of randomness failed.
    #[error("no random bytes: {0}")]
    Entropy(std::io::Error),
    /// The book has no such entry, payload or object.
    #[error("{0}")]
    NotFound(String),
    /// A vault object is not what its entry says.
    #[error("the payload `{field}` of entry {index} can't be read: {why}")]
    Vault {
        /// The entry.
        index: u64,
        /// The field.
        field: &'static str,
        /// Why.
        why: String,
    },
}

impl RolledBack {
    /// 32 cut, 33 rewritten, 35 another book.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Shorter { .. } => 32,
            Self::Rewritten => 33,
            Self::OtherBook { .. } => 35,
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.file.display())?;
        if self.line > 0 {
            write!(f, " line {}", self.line)?;
        }
        write!(f, ", entry {}: {}", self.index, self.what)
    }
}

impl BookError {
    /// What verification exits with where there is a book and this keeps it from being read: never success.
    pub const UNVERIFIABLE: u8 = 40;

    /// The exit code of a command that fails with this: 31 for damage and removal, 32 for a cut end, 33 for a rewritten one, 35
    /// for another book or key, 40 for a format that is not known, else 2.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Damaged(_) | Self::Gone { .. } | Self::Removed { .. } => 31,
            Self::RolledBack { found, .. } => found.exit_code(),
            Self::WrongKey { .. } | Self::WrongVaultKey => 35,
            Self::KeyRange(_) => 34,
            Self::Newer { .. } => 40,
            _ => 2,
        }
    }

    /// Whether nothing was written and the writer can go on.
    pub(crate) fn is_harmless(&self) -> bool {
        matches!(
            self,
            Self::KeyMissing { .. }
                | Self::SameKey
                | Self::NotFound(_)
                | Self::Entry(EntryError::BatchSize { .. } | EntryError::OtherBook)
        )
    }

    pub(crate) fn io(
        action: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}
