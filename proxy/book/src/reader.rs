//! Lists and shows entries of a book without loading it. Refuses to verify: that is `verify`'s.

use std::path::Path;

use crate::commitment::Field;
use crate::entry::Entry;
use crate::error::BookError;
use crate::journal::BookFile;
use crate::key::VaultKey;

/// Direction of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// From `from` upwards.
    OldestFirst,
    /// From `from` downwards.
    NewestFirst,
}

/// What to list.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// The first index; none is the oldest, or the newest, by `order`.
    pub from: Option<u64>,
    /// The most entries to return.
    pub limit: usize,
    /// Direction.
    pub order: Order,
}

/// One entry with its place.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The entry.
    pub entry: Entry,
    /// The segment's file name.
    pub file: String,
    /// The line in it, from 1.
    pub line: u64,
    /// The text of the first checkpoint that covers it, as stored (not verified here).
    pub checkpoint: String,
}

/// A reader of one book. Entries after the last checkpoint are not shown: they are not signed.
#[derive(Debug)]
pub struct Reader {
    book: BookFile,
}

impl Reader {
    /// Opens the book in `dir`. Takes no lock and writes nothing.
    ///
    /// # Errors
    /// [`BookError::NotABook`], [`BookError::Newer`], [`BookError::Io`].
    pub fn open(dir: &Path) -> Result<Self, BookError> {
        Err(BookError::NotABook {
            path: dir.to_owned(),
            why: String::new(),
        })
    }

    /// Which book it is.
    #[must_use]
    pub fn book(&self) -> &BookFile {
        &self.book
    }

    /// The entries asked for, in the order asked for.
    ///
    /// # Errors
    /// [`BookError::Io`]; [`BookError::Damaged`] on a line that is no entry.
    pub fn list(&self, listing: Listing) -> Result<Vec<Entry>, BookError> {
        let _ = listing;
        Ok(Vec::new())
    }

    /// Entry `index` with its place, or nothing when the book has no such signed entry.
    ///
    /// # Errors
    /// As [`Reader::list`].
    pub fn show(&self, index: u64) -> Result<Option<Shown>, BookError> {
        let _ = index;
        Ok(None)
    }

    /// Decrypts the payload `field` of entry `index` and checks it against the entry's commitment.
    ///
    /// # Errors
    /// [`BookError::NotFound`] when nothing is kept, [`BookError::Vault`] when the object is not what the entry says.
    pub fn payload(&self, key: &VaultKey, index: u64, field: Field) -> Result<Vec<u8>, BookError> {
        let _ = (key, field);
        Err(BookError::NotFound(format!("{index}")))
    }
}
