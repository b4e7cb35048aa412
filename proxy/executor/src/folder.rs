//! The executor's folder: where each file lies, its modes, how one is read safely and replaced whole. Knows no format of any of them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::problem::Problem;

/// One executor's folder. Making the value touches nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    root: PathBuf,
}

/// What identifies one state of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    modified: Option<std::time::SystemTime>,
    changed: (i64, i64),
    size: u64,
    inode: u64,
}

/// A file or folder that can't be used as it is.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system's own error, with the path.
    #[error("can't {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// Something other than a plain file of ours lies there.
    #[error("`{}` {what}", path.display())]
    Unsafe {
        /// Where.
        path: PathBuf,
        /// What is wrong with it, as the end of a sentence.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// The platform gives no data folder.
    #[error("this system names no data folder")]
    NoDefault,
    /// Another process holds the lock too long.
    #[error("`{}` is held by another process", path.display())]
    Held {
        /// The lock's file.
        path: PathBuf,
    },
}

/// An exclusive lock between processes, given back when dropped or when the process ends.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

impl Folder {
    /// The folder at `dir`, made absolute; without one, the platform's data folder + `/countersign`.
    pub fn resolve(dir: Option<&Path>) -> Result<Folder, FolderError> {
        let root = match dir {
            Some(dir) => std::path::absolute(dir).map_err(|source| FolderError::Io {
                action: "resolve",
                path: dir.to_owned(),
                source,
            })?,
            None => directories::BaseDirs::new()
                .ok_or(FolderError::NoDefault)?
                .data_dir()
                .join("countersign"),
        };
        Ok(Folder { root })
    }

    /// The folder itself, absolute.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `executor.json`.
    pub fn settings(&self) -> PathBuf {
        self.root.join("executor.json")
    }

    /// `executor.schema.json`, beside the settings for editors.
    pub fn schema(&self) -> PathBuf {
        self.root.join("executor.schema.json")
    }

    /// `book/`.
    pub fn book(&self) -> PathBuf {
        self.root.join("book")
    }

    /// `state.db`.
    pub fn state_db(&self) -> PathBuf {
        self.root.join("state.db")
    }

    /// `buckets.db`.
    pub fn buckets_db(&self) -> PathBuf {
        self.root.join("buckets.db")
    }

    /// `index.db`: derived from the book, disposable.
    pub fn index_db(&self) -> PathBuf {
        self.root.join("index.db")
    }

    /// `run/`: locks of living processes.
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// `logs/`.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// `secrets.enc`, only with `--secrets file`.
    pub fn secrets(&self) -> PathBuf {
        self.root.join("secrets.enc")
    }

    /// `off`: its mere existence stops every agent, whatever else in the folder is broken.
    pub fn off_marker(&self) -> PathBuf {
        self.root.join("off")
    }

    /// Makes the folder and its plain subfolders, mode 0700. Fine when they are there.
    pub fn create(&self) -> Result<(), FolderError> {
        for dir in [self.root.clone(), self.run(), self.logs()] {
            create_private_dir(&dir)?;
        }
        self.check()
    }

    /// Refuses a folder that somebody else owns or may write to.
    pub fn check(&self) -> Result<(), FolderError> {
        let meta = fs::metadata(&self.root).map_err(|source| FolderError::Io {
            action: "open",
            path: self.root.clone(),
            source,
        })?;
        if !meta.is_dir() {
            return Err(unsafe_file(
                &self.root,
                "is not a folder",
                "name another folder with --dir",
            ));
        }
        check_owner_and_mode(&self.root, &meta)
    }

    /// Takes the lock named `name` in `run/`, waiting up to `wait`.
    pub fn lock(&self, name: &str, wait: std::time::Duration) -> Result<FileLock, FolderError> {
        create_private_dir(&self.run())?;
        let path = self.run().join(name);
        let mut options = private_options();
        options.read(true).write(true).create(true).truncate(false);
        let file = open_regular(&options, &path).map_err(|source| FolderError::Io {
            action: "open",
            path: path.clone(),
            source,
        })?;
        let end = std::time::Instant::now() + wait;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(FileLock { _file: file }),
                Err(fs::TryLockError::WouldBlock) if std::time::Instant::now() < end => {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                Err(fs::TryLockError::WouldBlock) => return Err(FolderError::Held { path }),
                Err(fs::TryLockError::Error(source)) => {
                    return Err(FolderError::Io {
                        action: "lock",
                        path,
                        source,
                    });
                }
            }
        }
    }
}

impl FolderError {
    /// What a person does about it.
    pub fn remedy(&self) -> String {
        match self {
            FolderError::Io { source, path, .. } if source.kind() == io::ErrorKind::NotFound => {
                format!(
                    "is `{}` the right folder? name it with --dir, or make an executor with `countersign init`",
                    parent(path).display()
                )
            }
            FolderError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "run the command as the user who owns the folder".to_owned()
            }
            FolderError::Io { .. } => {
                "look at the disk and the folder's rights, then try again".to_owned()
            }
            FolderError::Unsafe { remedy, .. } => remedy.clone(),
            FolderError::NoDefault => "name a folder with --dir or COUNTERSIGN_DIR".to_owned(),
            FolderError::Held { .. } => {
                "wait for the other command to end, then try again".to_owned()
            }
        }
    }

    /// The file is simply not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, FolderError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl From<FolderError> for Problem {
    fn from(error: FolderError) -> Problem {
        let remedy = error.remedy();
        let code = if error.is_not_found() {
            "folder_not_found"
        } else {
            "folder"
        };
        Problem::new(code, error.to_string(), remedy)
    }
}

impl Stamp {
    /// The stamp of the file at `path`, following no link. One system call.
    pub fn of(path: &Path) -> io::Result<Stamp> {
        Ok(Stamp::from_metadata(&fs::symlink_metadata(path)?))
    }

    /// Whether the file was last written so shortly before now that a further write could leave the stamp as it is.
    pub fn is_fresh(&self) -> bool {
        const TICK: std::time::Duration = std::time::Duration::from_millis(100);
        match self.modified.map(|at| at.elapsed()) {
            Some(Ok(age)) => age < TICK,
            _ => true,
        }
    }

    fn from_metadata(meta: &fs::Metadata) -> Stamp {
        #[cfg(unix)]
        let (changed, inode) = {
            use std::os::unix::fs::MetadataExt;
            ((meta.ctime(), meta.ctime_nsec()), meta.ino())
        };
        #[cfg(not(unix))]
        let (changed, inode) = ((0, 0), 0);
        Stamp {
            modified: meta.modified().ok(),
            changed,
            size: meta.len(),
            inode,
        }
    }
}

/// Reads a whole file of ours: a plain file, not a link, owned by this user, writable by nobody else, at most `limit` bytes.
pub fn read_own(path: &Path, limit: u64) -> Result<(Vec<u8>, Stamp), FolderError> {
    let io = |action| {
        move |source| FolderError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    };
    let link = fs::symlink_metadata(path).map_err(io("open"))?;
    if link.file_type().is_symlink() {
        return Err(unsafe_file(
            path,
            "is a symbolic link",
            "put the file itself there; a link could point anywhere",
        ));
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(
            (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32,
        );
    }
    let file = options.open(path).map_err(io("open"))?;
    let meta = file.metadata().map_err(io("open"))?;
    if !meta.is_file() {
        return Err(unsafe_file(path, "is not a plain file", "move it away"));
    }
    check_owner_and_mode(path, &meta)?;
    if meta.len() > limit {
        return Err(unsafe_file(
            path,
            &format!("is larger than {limit} bytes"),
            "restore it from a copy",
        ));
    }
    let mut bytes = Vec::with_capacity(meta.len() as usize);
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(io("read"))?;
    Ok((bytes, Stamp::from_metadata(&meta)))
}

/// Replaces the file at `path` whole: a reader sees the old bytes or the new ones, also after a crash. Mode 0600.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let io = |action| {
        move |source| FolderError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    };
    let dir = parent(path);
    let mut temp = tempfile::Builder::new()
        .prefix(".new-")
        .tempfile_in(dir)
        .map_err(io("write"))?;
    temp.write_all(bytes).map_err(io("write"))?;
    temp.as_file().sync_all().map_err(io("write"))?;
    temp.persist(path).map_err(|error| FolderError::Io {
        action: "replace",
        path: path.to_owned(),
        source: error.error,
    })?;
    sync_dir(dir).map_err(io("write"))
}

/// Makes one folder, mode 0700; fine when it is there.
pub fn create_private_dir(path: &Path) -> Result<(), FolderError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path).map_err(|source| FolderError::Io {
        action: "create",
        path: path.to_owned(),
        source,
    })
}

/// Opens a regular file and nothing else: opening a pipe waits for its other end, and a device may never end. A link is followed
/// to a regular file only.
///
/// # Errors
/// What the system says; that it is no regular file.
pub fn open_regular(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let strange = || io::Error::other("it is not a regular file: move it away");
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(strange());
    }
    // It may be exchanged in between: the open itself must not wait either.
    #[allow(unused_mut, reason = "only some systems have such flags")]
    let mut options = options.clone();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(strange())
    }
}

/// Options that create files as 0600.
pub fn private_options() -> OpenOptions {
    #[allow(unused_mut, reason = "only some systems have modes")]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}

/// Flushes a folder's own entries, so that a rename survives a crash.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(dir)?.sync_all()
    } else {
        Ok(())
    }
}

fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn unsafe_file(path: &Path, what: &str, remedy: &str) -> FolderError {
    FolderError::Unsafe {
        path: path.to_owned(),
        what: what.to_owned(),
        remedy: remedy.to_owned(),
    }
}

#[cfg(unix)]
fn check_owner_and_mode(path: &Path, meta: &fs::Metadata) -> Result<(), FolderError> {
    use std::os::unix::fs::MetadataExt;
    let me = rustix::process::geteuid().as_raw();
    if meta.uid() != me {
        return Err(unsafe_file(
            path,
            &format!("belongs to user {} and not to you (user {me})", meta.uid()),
            "run the command as its owner, or use a folder of your own",
        ));
    }
    if meta.mode() & 0o022 != 0 {
        let remedy = format!(
            "take the others' right away: chmod go-w '{}'",
            path.display()
        );
        return Err(unsafe_file(
            path,
            &format!(
                "can be changed by other users (mode {:o})",
                meta.mode() & 0o777
            ),
            &remedy,
        ));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_owner_and_mode(_path: &Path, _meta: &fs::Metadata) -> Result<(), FolderError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> (tempfile::TempDir, Folder) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::resolve(Some(&temp.path().join("dir"))).unwrap();
        folder.create().unwrap();
        (temp, folder)
    }

    #[test]
    fn replaced_file_is_private_and_whole() {
        let (_temp, folder) = world();
        replace(&folder.settings(), b"one").unwrap();
        let (_, before) = read_own(&folder.settings(), 100).unwrap();
        replace(&folder.settings(), b"two").unwrap();
        let (bytes, after) = read_own(&folder.settings(), 100).unwrap();
        assert_eq!(bytes, b"two");
        assert_ne!(
            before, after,
            "a replacement of equal size changes the stamp"
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            assert_eq!(
                fs::metadata(folder.settings()).unwrap().mode() & 0o777,
                0o600
            );
            assert_eq!(fs::metadata(folder.root()).unwrap().mode() & 0o777, 0o700);
        }
        let left: Vec<_> = fs::read_dir(folder.root())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert!(
            !left
                .iter()
                .any(|name| name.to_string_lossy().starts_with(".new-")),
            "{left:?}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn unsafe_files_are_refused_with_words() {
        use std::os::unix::fs::PermissionsExt;
        let (_temp, folder) = world();
        let path = folder.settings();
        type Make = fn(&Path);
        let cases: [(&str, Make, &str); 4] = [
            (
                "link",
                |p| std::os::unix::fs::symlink("/etc/hostname", p).unwrap(),
                "is a symbolic link",
            ),
            (
                "world",
                |p| {
                    fs::write(p, "{}").unwrap();
                    fs::set_permissions(p, fs::Permissions::from_mode(0o666)).unwrap();
                },
                "can be changed by other users (mode 666)",
            ),
            (
                "folder",
                |p| fs::create_dir(p).unwrap(),
                "is not a plain file",
            ),
            (
                "large",
                |p| {
                    fs::write(p, vec![b' '; 101]).unwrap();
                    fs::set_permissions(p, fs::Permissions::from_mode(0o600)).unwrap();
                },
                "is larger than 100 bytes",
            ),
        ];
        for (name, make, expected) in cases {
            make(&path);
            let error = read_own(&path, 100).unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
            if path.is_dir() {
                fs::remove_dir(&path).unwrap()
            } else {
                fs::remove_file(&path).unwrap()
            }
        }
        assert!(read_own(&path, 100).unwrap_err().is_not_found());
    }

    #[test]
    fn a_held_lock_is_said_and_a_dropped_one_is_free() {
        let (_temp, folder) = world();
        let wait = std::time::Duration::from_millis(20);
        let held = folder.lock("x.lock", wait).unwrap();
        assert!(matches!(
            folder.lock("x.lock", wait),
            Err(FolderError::Held { .. })
        ));
        drop(held);
        folder.lock("x.lock", wait).unwrap();
    }
}
