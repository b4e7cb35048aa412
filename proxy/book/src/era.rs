//! A book that goes on where another one ended: what its entry 1 says of the old one. Refuses to move folders.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::create::{NewBook, create_with};
use crate::error::BookError;
use crate::files::{self, Lines};
use crate::journal::chain::read_checkpoint;
use crate::journal::layout::{BookFile, Layout};
use crate::journal::segment::CP;
use crate::journal::{Prepared, Sources};
use crate::key::Signer;
use crate::lifecycle::EraOpen;
use crate::origin::Origin;

/// What a new book says of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Era {
    /// The origin of the book before.
    pub origin: Origin,
    /// Its last checkpoint, base64; empty where none could be read.
    pub checkpoint: String,
    /// Why it ended, for people.
    pub reason: String,
}

/// As [`crate::create`], with an entry 1 (`era.open`) that names the book before.
///
/// # Errors
/// As [`crate::create`].
pub fn create_era(
    dir: &Path,
    new: &NewBook,
    era: &Era,
    signer: &Signer,
    sources: &mut Sources,
) -> Result<(), BookError> {
    let open = Prepared::checked(EraOpen {
        checkpoint: era.checkpoint.clone(),
        origin: era.origin.clone(),
        reason: era.reason.clone(),
    })?;
    create_with(dir, new, vec![open], signer, sources)
}

/// The last checkpoint of the book in `dir` that can be read, in base64: its form and origin are checked, not its signature.
///
/// # Errors
/// [`BookError::NotABook`], [`BookError::Newer`], [`BookError::Io`].
pub fn last_checkpoint(dir: &Path) -> Result<Option<String>, BookError> {
    // What an entry has room for, with much of it left.
    const LONGEST: usize = 8 << 10;
    let layout = Layout::new(dir);
    let book = BookFile::read(dir)?;
    for first in layout.segments()?.into_iter().rev() {
        let path = layout.segment(first);
        let io = || BookError::io("read", &path);
        let mut lines = Lines::at(&files::open_read(&path)?, 0, 0).map_err(io())?;
        let mut last = None;
        while let Some(line) = lines.next().map_err(io())? {
            let Some(encoded) = lines.bytes().strip_prefix(CP) else {
                continue;
            };
            let ours = line.whole
                && encoded.len() <= LONGEST
                && read_checkpoint(encoded)
                    .is_ok_and(|(_, checkpoint)| checkpoint.origin == book.origin.as_str());
            if ours {
                last = STANDARD
                    .decode(encoded)
                    .ok()
                    .map(|note| STANDARD.encode(note));
            }
        }
        if last.is_some() {
            return Ok(last);
        }
    }
    Ok(None)
}
