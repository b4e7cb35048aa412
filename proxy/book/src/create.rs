//! Makes a book: folder, `BOOK`, first segment, entry 0. Refuses to make one over another.

use std::path::Path;

use crate::error::BookError;
use crate::files;
use crate::journal::Sources;
use crate::journal::batch::{Lines, timestamp};
use crate::journal::chain::{Chain, VaultEnd};
use crate::journal::layout::{BookFile, Layout};
use crate::journal::prepare::Prepared;
use crate::journal::segment::SegmentLine;
use crate::key::{Signer, Signers};
use crate::kinds::BookOpen;
use crate::origin::Origin;
use crate::vault::SEGMENT_HEAD;

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
/// [`BookError::Exists`] when there is a book or a part of one, [`BookError::Entry`], [`BookError::Io`].
pub fn create(
    dir: &Path,
    new: &NewBook,
    signer: &Signer,
    sources: &mut Sources,
) -> Result<(), BookError> {
    create_with(dir, new, Vec::new(), signer, sources)
}

/// The same with entries after entry 0.
pub(crate) fn create_with(
    dir: &Path,
    new: &NewBook,
    more: Vec<Prepared>,
    signer: &Signer,
    sources: &mut Sources,
) -> Result<(), BookError> {
    let layout = Layout::new(dir);
    for path in [layout.book(), layout.journal(), layout.vault()] {
        if files::exists(&path)? {
            return Err(BookError::Exists { path });
        }
    }
    let vkey = signer.vkey(&new.origin);
    let mut chain = Chain::new(new.origin.clone(), vkey.clone());
    let head = SegmentLine::of(&chain)
        .to_bytes()
        .map_err(crate::entry::EntryError::Canonical)?;
    let now = (sources.clock)();
    let open = Prepared::checked(BookOpen {
        development: new.development,
        name: new.name.clone(),
        origin: new.origin.clone(),
        process: new.process.clone(),
        program: new.program.clone(),
        vkey: vkey.to_string(),
    })?;
    let lines = Lines::make(
        std::iter::once(open).chain(more).collect(),
        &mut chain,
        VaultEnd::default(),
        now,
        &mut Signers::from(signer.clone()).of(&new.origin),
    )?;

    files::make_dirs(dir)?;
    for folder in [layout.journal(), layout.vault(), layout.quarantine()] {
        files::make_dir(&folder)?;
    }
    files::write_new(&layout.vault_segment(0), &[SEGMENT_HEAD])?;
    files::write_new(&layout.segment(0), &[&head, &lines.journal])?;
    files::write_new(&layout.lock(), &[])?;
    let book = BookFile {
        origin: new.origin.clone(),
        vkey,
        created: timestamp(now),
    };
    files::write_new(&layout.book(), &[book.to_text().as_bytes()])
}
