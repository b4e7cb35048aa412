//! What opening a book for writing would stumble over besides its record: files of its folder that are no files, may not be written,
//! or do not say what they must. Looks only; refuses to read entries.

use std::path::Path;

use crate::error::{BookError, Damage};
use crate::files;
use crate::journal::layout::Layout;
use crate::journal::recover;
use crate::journal::removal;

/// The first thing in the way of a writer of a book of `size` entries.
///
/// # Errors
/// [`BookError::Io`] where the system would refuse, [`BookError::Damaged`] where a note of an unfinished act says nothing.
pub(crate) fn check(layout: &Layout, size: u64) -> Result<(), BookError> {
    let lock = layout.lock();
    if files::exists(&lock)? {
        files::may_write_file(&lock)?;
    }
    removal::begun(layout, size)?;
    let pending = layout.quarantine().join(recover::PENDING);
    if files::exists(&pending)? {
        let bytes = files::length(&files::open_read(&pending)?, &pending)?;
        recover::check_pending(&pending, bytes, size)?;
    }
    let vault = layout.vault();
    let objects = match files::exists(&vault)? {
        true => layout.vault_segments()?,
        false => Vec::new(),
    };
    for number in &objects {
        files::open_read(&layout.vault_segment(*number))?;
    }
    let newest = layout
        .segments()?
        .last()
        .map(|first| layout.segment(*first));
    let newest = newest.into_iter();
    for path in newest.chain(objects.last().map(|number| layout.vault_segment(*number))) {
        files::may_write_file(&path)?;
    }
    for dir in [&layout.dir, &layout.journal(), &vault] {
        if files::exists(dir)? {
            files::may_write(dir)?;
        }
    }
    Ok(())
}

/// A note of an unfinished act that says nothing.
pub(crate) fn senseless(path: &Path, size: u64, what: &str) -> BookError {
    BookError::Damaged(Damage {
        file: path.to_owned(),
        line: 1,
        index: size,
        what: what.to_owned(),
    })
}
