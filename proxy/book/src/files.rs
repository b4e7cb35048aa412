//! The only module that opens, makes, renames, locks and syncs files. Refuses to know what is in them.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one small module through which the book touches files"
)]

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::BookError;

mod derived;
mod direct;
mod known;

pub(crate) use derived::{discard, is_own_dir, own_length, put_away, put_read_only, sync_files};
pub(crate) use direct::Direct;
pub(crate) use known::Known;

/// A file whose lock is taken for the time of a batch.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: Arc<Known>,
    path: PathBuf,
}

/// The lock, until dropped.
#[derive(Debug)]
pub(crate) struct Held(Arc<Known>);

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
            file: Arc::new(Known::new(file, &path)?),
            path,
        })
    }

    /// Whether the lock taken is the one others find.
    pub(crate) fn check(&self) -> Result<(), BookError> {
        self.file.check_still(&self.path).map(drop)
    }

    /// Takes the lock where nobody holds it.
    pub(crate) fn try_lock(&self) -> Result<Option<Held>, BookError> {
        match self.file.try_lock() {
            Ok(()) => Ok(Some(Held(Arc::clone(&self.file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {
                Ok(None)
            }
            Err(TryLockError::Error(error)) => Err(BookError::io("lock", &self.path)(error)),
        }
    }

    /// Waits for the lock, however often a signal interrupts that.
    pub(crate) fn lock(&self) -> Result<Held, BookError> {
        loop {
            match self.file.lock() {
                Ok(()) => return Ok(Held(Arc::clone(&self.file))),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(BookError::io("lock", &self.path)(error)),
            }
        }
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
    /// Bytes after which a line is not read to its end: nothing after it is looked at by whoever stops at a line that is not whole.
    pub(crate) const ABSURD: u64 = 256 << 20;

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
            if !ended && self.offset - start > Self::ABSURD {
                break;
            }
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

/// Whether this process may write to what is there, as far as its rights tell.
pub(crate) fn may_write(path: &Path) -> Result<(), BookError> {
    #[cfg(unix)]
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK)
        .map_err(|error| BookError::io("write to", path)(error.into()))?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Whether a regular file is there that this process may write.
pub(crate) fn may_write_file(path: &Path) -> Result<(), BookError> {
    open_read(path)?;
    may_write(path)
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

/// Removes a file and makes that durable. One that is not there is removed.
pub(crate) fn remove(path: &Path) -> Result<(), BookError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(BookError::io("remove", path)(error))
        }
        _ => sync_dir(path.parent().unwrap_or(path)),
    }
}

/// As [`remove`]; answers how many bytes it had.
pub(crate) fn remove_sized(path: &Path) -> Result<u64, BookError> {
    let bytes = fs::symlink_metadata(path).map_or(0, |found| found.len());
    remove(path).map(|()| bytes)
}

/// Opens the file, or nothing when it is not there.
pub(crate) fn open_if_there(path: &Path) -> Result<Option<File>, BookError> {
    match regular(OpenOptions::new().read(true), path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(BookError::io("open", path)(error)),
    }
}

#[cfg(unix)]
fn same_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    number(one) == number(other)
}

/// The file's device, and its number there.
#[cfg(unix)]
fn number(found: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (found.dev(), found.ino())
}

/// Without a file's number: made at another moment or of another length is another file.
#[cfg(not(unix))]
fn same_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    one.is_file() == other.is_file()
        && one.len() == other.len()
        && one.created().ok() == other.created().ok()
}

/// Whether there is anything at the path. What the system does not say is not taken for a no.
pub(crate) fn exists(path: &Path) -> Result<bool, BookError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(BookError::io("look at", path)(error)),
    }
}

/// Whether the system says that nothing is there, or that a parent is no folder.
fn is_absence(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// Bytes of the file at `path`; 0 where nothing can be said.
pub(crate) fn size_of(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |found| found.len())
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
pub(crate) fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<bool> {
    match read_exact_at(file, offset, buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(not(unix))]
fn read_exact_at(mut file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(buffer)
}

/// Writes all bytes at `offset`.
#[cfg(unix)]
pub(crate) fn write_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Writes all bytes at `offset`.
#[cfg(not(unix))]
pub(crate) fn write_at(mut file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    io::Write::write_all(&mut file, bytes)
}

/// Writes zeros from `start` to `end`: blocks that are written, not holes.
pub(crate) fn extend(file: &File, start: u64, end: u64) -> io::Result<()> {
    let (zeros, mut at) = (vec![0; 256 << 10], start);
    while at < end {
        let part = &zeros[..(end - at).min(zeros.len() as u64) as usize];
        write_at(file, at, part)?;
        at += part.len() as u64;
    }
    Ok(())
}

/// The offset after the last byte that is not zero, looking at no more than the last `limit` of the file's `length` bytes;
/// `length` when all of them are zero.
pub(crate) fn end_of_bytes(file: &File, length: u64, limit: u64) -> io::Result<u64> {
    let (first, mut end) = (length.saturating_sub(limit), length);
    let mut buffer = vec![0; 64 << 10];
    while end > first {
        let start = end.saturating_sub(buffer.len() as u64).max(first);
        let part = &mut buffer[..(end - start) as usize];
        if !read_at(file, start, part)? {
            break;
        }
        if let Some(last) = part.iter().rposition(|byte| *byte != 0) {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(length)
}

/// Makes sure that what is read next is what the disk holds. After a failed sync the system may keep bytes in memory, as
/// good as written, that never reached it.
pub(crate) fn read_from_disk(file: &File) -> io::Result<()> {
    file.sync_data()?;
    #[cfg(target_os = "linux")]
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

/// Opens a regular file and nothing else: opening a pipe waits for its other end, and a device may never end.
fn regular(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let strange = || {
        io::Error::other("it is not a regular file: move it away, and put back what belongs there")
    };
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
