//! The only module that opens, makes, renames, locks and syncs files. Refuses to know what is in them.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one small module through which the book touches files"
)]

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::BookError;

/// A file whose lock is taken for the time of a batch.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: Arc<File>,
    path: PathBuf,
}

/// The lock, until dropped.
#[derive(Debug)]
pub(crate) struct Held(Arc<File>);

/// Reads a file line by line with bounded memory.
pub(crate) struct Lines {
    reader: BufReader<File>,
    buffer: Vec<u8>,
    offset: u64,
    number: u64,
}

/// One line: its place and whether it is whole. Its bytes, without the line feed, are [`Lines::bytes`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Offset of the byte after the line and its line feed.
    pub end: u64,
    /// Number from 1.
    pub number: u64,
    /// Whether it ends with a line feed and is not longer than allowed.
    pub whole: bool,
}

impl LockFile {
    pub(crate) fn open(path: PathBuf) -> Result<Self, BookError> {
        let mut options = private();
        options.read(true).write(true).create(true).truncate(false);
        let file = regular(&options, &path).map_err(BookError::io("open the lock", &path))?;
        Ok(Self {
            file: Arc::new(file),
            path,
        })
    }

    /// Whether the lock taken is the one others find.
    pub(crate) fn check(&self) -> Result<(), BookError> {
        check_still(&self.file, &self.path)
    }

    /// Waits for the lock.
    pub(crate) fn lock(&self) -> Result<Held, BookError> {
        self.file
            .lock()
            .map_err(BookError::io("lock", &self.path))?;
        Ok(Held(Arc::clone(&self.file)))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Whether nobody holds the lock at this moment. A lock that is not there or can't be taken here counts as free.
pub(crate) fn lock_is_free(path: &Path) -> bool {
    let Ok(file) = regular(OpenOptions::new().read(true), path) else {
        return true;
    };
    !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

impl Lines {
    /// The longest line kept, in bytes; a longer one is not whole.
    pub(crate) const MAX: usize = 4 << 20;

    /// Reads `file` from `offset`, where line `number` + 1 begins.
    pub(crate) fn at(file: &File, offset: u64, number: u64) -> io::Result<Self> {
        let mut file = file.try_clone()?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self {
            reader: BufReader::with_capacity(256 << 10, file),
            buffer: Vec::new(),
            offset,
            number,
        })
    }

    /// The next line, or nothing at the end of the file.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line>> {
        use std::io::BufRead as _;
        self.buffer.clear();
        let (start, mut ended) = (self.offset, false);
        while !ended {
            let chunk = match self.reader.fill_buf() {
                Ok([]) => break,
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (part, used) = match memchr::memchr(b'\n', chunk) {
                Some(at) => (&chunk[..at], at + 1),
                None => (chunk, chunk.len()),
            };
            ended = used > part.len();
            let room = Self::MAX.saturating_sub(self.buffer.len());
            self.buffer.extend_from_slice(&part[..part.len().min(room)]);
            self.reader.consume(used);
            self.offset += used as u64;
        }
        if self.offset == start {
            return Ok(None);
        }
        self.number += 1;
        let stored = self.buffer.len() as u64 + u64::from(ended);
        Ok(Some(Line {
            end: self.offset,
            number: self.number,
            whole: ended && stored == self.offset - start,
        }))
    }

    /// The bytes of the line last read, without its line feed, cut at [`Lines::MAX`].
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer
    }
}

/// Makes the folder, readable by its owner only. Its parents must be there.
pub(crate) fn make_dir(path: &Path) -> Result<(), BookError> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        result => result.map_err(BookError::io("make the folder", path)),
    }
}

/// Makes the folder and its missing parents.
pub(crate) fn make_dirs(path: &Path) -> Result<(), BookError> {
    if let Some(parent) = path.parent()
        && !parent.as_os_str().is_empty()
        && !parent.is_dir()
    {
        make_dirs(parent)?;
    }
    make_dir(path)
}

/// Writes a file that was not there: under another name first, synced, renamed, its folder synced.
pub(crate) fn write_new(path: &Path, parts: &[&[u8]]) -> Result<(), BookError> {
    copy_new(path, parts.concat().as_slice())
}

/// As [`write_new`], from a reader, which may read the file that is replaced.
pub(crate) fn copy_new(path: &Path, mut source: impl Read) -> Result<(), BookError> {
    let fail = |action| BookError::io(action, path);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let mut options = private();
    options.write(true).create(true).truncate(true);
    let mut file = regular(&options, &temporary).map_err(fail("make"))?;
    io::copy(&mut source, &mut file).map_err(fail("write"))?;
    file.sync_all().map_err(fail("sync"))?;
    // Some systems refuse to rename over a file that is open.
    drop((file, source));
    fs::rename(&temporary, path).map_err(fail("rename"))?;
    sync_dir(path.parent().unwrap_or(path))
}

/// Makes the names in a folder durable, where the system has such a call.
pub(crate) fn sync_dir(path: &Path) -> Result<(), BookError> {
    #[cfg(unix)]
    File::open(path)
        .and_then(|dir| dir.sync_all())
        .map_err(BookError::io("sync the folder", path))?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

pub(crate) fn open_read(path: &Path) -> Result<File, BookError> {
    regular(OpenOptions::new().read(true), path).map_err(BookError::io("open", path))
}

pub(crate) fn open_write(path: &Path) -> Result<File, BookError> {
    regular(OpenOptions::new().read(true).write(true), path).map_err(BookError::io("open", path))
}

/// The bytes of the file from `start` to `end`.
pub(crate) fn open_range(path: &Path, start: u64, end: u64) -> Result<io::Take<File>, BookError> {
    let mut file = open_read(path)?;
    file.seek(SeekFrom::Start(start))
        .map_err(BookError::io("read", path))?;
    Ok(file.take(end.saturating_sub(start)))
}

/// Renames a file within its folder and makes that durable.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), BookError> {
    fs::rename(from, to).map_err(BookError::io("rename", from))?;
    sync_dir(to.parent().unwrap_or(to))
}

/// Opens the file, or nothing when it is not there.
pub(crate) fn open_if_there(path: &Path) -> Result<Option<File>, BookError> {
    match regular(OpenOptions::new().read(true), path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(BookError::io("open", path)(error)),
    }
}

/// Whether the path still leads to the open file.
///
/// # Errors
/// [`BookError::Gone`] when it leads to nothing or to another file.
pub(crate) fn check_still(file: &File, path: &Path) -> Result<(), BookError> {
    let gone = |found| BookError::Gone {
        path: path.to_owned(),
        found,
    };
    let there = match fs::metadata(path) {
        Ok(there) => there,
        // A parent that is a file now reads as another kind of error: whatever it is, the file is not found there.
        Err(error) => return Err(gone(format!("is not there any more ({error})"))),
    };
    let open = file.metadata().map_err(BookError::io("look at", path))?;
    if same_file(&open, &there) {
        Ok(())
    } else {
        Err(gone("is another file now".into()))
    }
}

#[cfg(unix)]
fn same_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Without a file's number: made at another moment or of another length is another file.
#[cfg(not(unix))]
fn same_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    one.is_file() == other.is_file()
        && one.len() == other.len()
        && one.created().ok() == other.created().ok()
}

pub(crate) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// The names in a folder, sorted.
pub(crate) fn list(path: &Path) -> Result<Vec<String>, BookError> {
    let fail = || BookError::io("list", path);
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(fail())? {
        names.extend(entry.map_err(fail())?.file_name().into_string().ok());
    }
    names.sort_unstable();
    Ok(names)
}

/// The bytes of a file of at most `max` bytes.
pub(crate) fn read_small(path: &Path, max: u64) -> Result<Vec<u8>, BookError> {
    let mut bytes = Vec::new();
    let read = open_read(path)?.take(max + 1).read_to_end(&mut bytes);
    read.map_err(BookError::io("read", path))?;
    if bytes.len() as u64 > max {
        return Err(BookError::io("read", path)(io::Error::other(
            "it is longer than such a file can be",
        )));
    }
    Ok(bytes)
}

pub(crate) fn length(file: &File, path: &Path) -> Result<u64, BookError> {
    Ok(file
        .metadata()
        .map_err(BookError::io("look at", path))?
        .len())
}

/// Fills `buffer` from `offset`; false when the file ends before.
pub(crate) fn read_at(mut file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<bool> {
    file.seek(SeekFrom::Start(offset))?;
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes all bytes at `offset`.
pub(crate) fn write_at(mut file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

/// Asks the system to begin writing these bytes of the file out, so that the sync that follows finds them under way. A
/// hint: nothing depends on it but time.
pub(crate) fn begin_writing(file: &File, offset: u64, length: u64) {
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fadvise(
        file,
        offset,
        std::num::NonZeroU64::new(length),
        rustix::fs::Advice::DontNeed,
    );
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, length);
}

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
pub(crate) fn remove(path: &Path) -> Result<(), BookError> {
    let removed = if is_own_dir(path) {
        fs::remove_dir(path)
    } else {
        fs::remove_file(path)
    };
    removed.map_err(BookError::io("remove", path))
}

/// Opens a regular file and nothing else: opening a pipe waits for its other end, and a device may never end.
fn regular(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let strange = || io::Error::other("it is not a regular file");
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(strange());
    }
    // It may be exchanged in between: the open itself must not wait either.
    let mut options = options.clone();
    #[cfg(unix)]
    if let Ok(flags) = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()) {
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(strange())
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        write_new(&path, &[bytes]).unwrap();
        let mut lines = Lines::at(&open_read(&path).unwrap(), 0, 0).unwrap();
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            assert_eq!(line.number as usize, all.len() + 1);
            all.push((lines.bytes().to_vec(), line.whole));
        }
        all
    }

    #[test]
    fn lines_are_bounded_and_torn_ones_marked() {
        assert_eq!(read(b""), []);
        assert_eq!(
            read(b"a\n\nb"),
            [
                (b"a".to_vec(), true),
                (b"".to_vec(), true),
                (b"b".to_vec(), false)
            ]
        );
        let mut long = vec![b'x'; Lines::MAX + 1];
        long.extend(b"\nnext\n");
        let lines = read(&long);
        assert_eq!((lines[0].0.len(), lines[0].1), (Lines::MAX, false));
        assert_eq!(lines[1], (b"next".to_vec(), true));
    }

    #[test]
    fn the_lock_excludes_within_one_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let one = LockFile::open(path.clone()).unwrap();
        assert!(lock_is_free(&path));
        let held = one.lock().unwrap();
        assert!(!lock_is_free(&path));
        drop(held);
        assert!(lock_is_free(&path));
    }
}
