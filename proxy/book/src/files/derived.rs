//! Files that are derived from the record and never change: written aside and renamed, read-only, synced many at a time. Knows no
//! layout.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::{open_read, private, regular};
use crate::error::BookError;

/// Writes a file that never changes again: under another name first, then renamed; readable by its owner only, or by all where its
/// folder lets them. Not synced: [`sync_files`] does that for many.
pub(crate) fn put_read_only(path: &Path, bytes: &[u8]) -> Result<(), BookError> {
    let fail = |action| BookError::io(action, path);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(BookError::io("remove", &temporary)(error));
        }
        _ => {}
    }
    let mut options = private();
    options.write(true).create_new(true);
    let mut file = regular(&options, &temporary).map_err(fail("make"))?;
    file.write_all(bytes).map_err(fail("write"))?;
    let mut permissions = file.metadata().map_err(fail("look at"))?.permissions();
    #[cfg(unix)]
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o444);
    #[cfg(not(unix))]
    permissions.set_readonly(true);
    drop(file);
    #[cfg(not(unix))]
    if let Ok(old) = fs::metadata(path) {
        // Windows renames over no read-only file.
        let mut writable = old.permissions();
        #[allow(
            clippy::permissions_set_readonly_false,
            reason = "not Unix: the attribute, not modes"
        )]
        writable.set_readonly(false);
        let _ = fs::set_permissions(path, writable);
    }
    fs::rename(&temporary, path).map_err(fail("rename"))?;
    fs::set_permissions(path, permissions).map_err(fail("protect"))
}

/// Makes the contents of these files durable: one by one, or where there are many by one call for their file system, if it has such.
pub(crate) fn sync_files(paths: &[PathBuf]) -> Result<(), BookError> {
    #[cfg(target_os = "linux")]
    if let [first, .., _] = paths
        && paths.len() > MANY
    {
        let file = open_read(first)?;
        return rustix::fs::syncfs(&file)
            .map_err(|error| BookError::io("sync", first)(error.into()));
    }
    for path in paths {
        open_read(path)?
            .sync_all()
            .map_err(BookError::io("sync", path))?;
    }
    Ok(())
}

/// Files from which on one sync of everything costs less than one of each.
#[cfg(target_os = "linux")]
const MANY: usize = 32;

/// Whether there is a folder and no link to one.
pub(crate) fn is_own_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// The length of the regular file, where there is one and no link to one.
pub(crate) fn own_length(path: &Path) -> Option<u64> {
    let found = fs::symlink_metadata(path).ok()?;
    found.is_file().then_some(found.len())
}

/// Moves whatever lies at `from` to the name `to`, in place of a file there.
pub(crate) fn put_away(from: &Path, to: &Path) -> Result<(), BookError> {
    fs::rename(from, to).map_err(BookError::io("put away", from))
}

/// Removes a file or an empty folder that nobody needs any more.
pub(crate) fn discard(path: &Path) -> Result<(), BookError> {
    let removed = if is_own_dir(path) {
        fs::remove_dir(path)
    } else {
        fs::remove_file(path)
    };
    removed.map_err(BookError::io("remove", path))
}
