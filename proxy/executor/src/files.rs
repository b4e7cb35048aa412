//! The gate's `Files` port over the real disk: one look at one name, identities, what lies below a folder. Judges nothing, follows no link.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use countersign_gate::paths::{Below, FileId, Files, Found, Look, LookError, Style};

/// This machine's disk.
#[derive(Debug, Clone)]
pub struct Disk {
    home: Option<String>,
}

impl Disk {
    /// The disk, with the home folder of this user for `~`.
    pub fn of_this_user() -> Disk {
        let home = directories::BaseDirs::new();
        Disk::with_home(home.map(|dirs| dirs.home_dir().to_owned()))
    }

    /// The disk with another home folder, or none.
    pub fn with_home(home: Option<PathBuf>) -> Disk {
        Disk {
            home: home.and_then(|home| home.to_str().map(String::from)),
        }
    }
}

impl Files for Disk {
    fn style(&self) -> Style {
        if cfg!(windows) {
            Style::Windows
        } else {
            Style::Unix
        }
    }

    fn home(&self) -> Option<&str> {
        self.home.as_deref()
    }

    fn look(&self, path: &str) -> Result<Look, LookError> {
        if path.contains('\0') {
            return Err(LookError::Unreadable("it holds a zero byte".to_owned()));
        }
        let path = Path::new(path);
        let meta = fs::symlink_metadata(path).map_err(|error| fault(&error))?;
        let mut look = look_of(path, &meta)?;
        if let Some(target) = stored_name(path, &meta) {
            look.found = Found::Link { target };
        }
        Ok(look)
    }

    fn below(&self, folder: &str, at_most: usize) -> Below {
        let mut below = Below {
            entries: Vec::new(),
            whole: true,
        };
        let mut todo = vec![(PathBuf::from(folder), Vec::new())];
        while let Some((path, names)) = todo.pop() {
            let Ok(list) = fs::read_dir(&path) else {
                // A folder that is not there holds nothing; one that cannot be read may hold anything.
                below.whole &= !path.exists()
                    && fs::symlink_metadata(&path).is_err_and(|error| is_missing(&error));
                continue;
            };
            for entry in list {
                let seen = entry.ok().and_then(|entry| {
                    let name = entry.file_name().to_str()?.to_owned();
                    let meta = fs::symlink_metadata(entry.path()).ok()?;
                    let look = look_of(&entry.path(), &meta).ok()?;
                    Some((entry.path(), name, look))
                });
                let Some((path, name, look)) = seen else {
                    below.whole = false;
                    continue;
                };
                if below.entries.len() == at_most {
                    below.whole = false;
                    return below;
                }
                let mut names: Vec<String> = names.clone();
                names.push(name);
                if look.found == Found::Folder {
                    todo.push((path, names.clone()));
                }
                below.entries.push((names, look));
            }
        }
        below
    }
}

fn look_of(path: &Path, meta: &Metadata) -> Result<Look, LookError> {
    let kind = meta.file_type();
    let found = if kind.is_symlink() {
        let target = fs::read_link(path).map_err(|error| fault(&error))?;
        match target.into_os_string().into_string() {
            Ok(target) => Found::Link { target },
            Err(_) => {
                let why = "a link whose target is no text".to_owned();
                return Err(LookError::Unreadable(why));
            }
        }
    } else if kind.is_dir() {
        Found::Folder
    } else if kind.is_file() {
        Found::File
    } else {
        Found::Other
    };
    let (id, names) = identity(meta, kind.is_dir());
    Ok(Look { found, id, names })
}

#[cfg(unix)]
fn identity(meta: &Metadata, is_folder: bool) -> (Option<FileId>, u64) {
    use std::os::unix::fs::MetadataExt;
    let id = FileId {
        device: meta.dev(),
        file: meta.ino(),
    };
    // A folder's count is that of its own folders, not of names.
    let names = if is_folder { 1 } else { meta.nlink() };
    (Some(id), names)
}

/// The standard library tells no identity here yet; places are then compared by name, without the case of letters.
#[cfg(not(unix))]
fn identity(_: &Metadata, _: bool) -> (Option<FileId>, u64) {
    (None, 1)
}

/// Under which name the file is stored, where it was asked for by another one (`PROGRA~1`, a trailing dot).
#[cfg(windows)]
fn stored_name(path: &Path, meta: &Metadata) -> Option<String> {
    if meta.file_type().is_symlink() {
        return None;
    }
    let asked = path.file_name()?.to_str()?;
    let stored = path.canonicalize().ok()?;
    let stored = stored.file_name()?.to_str()?.to_owned();
    (stored.to_lowercase() != asked.to_lowercase()).then_some(stored)
}

#[cfg(not(windows))]
fn stored_name(_: &Path, _: &Metadata) -> Option<String> {
    None
}

fn fault(error: &io::Error) -> LookError {
    if is_missing(error) {
        LookError::Missing
    } else {
        LookError::Unreadable(error.kind().to_string())
    }
}

/// Absent, below a plain file, or of a name no disk takes: nothing can be there.
fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename
    )
}

#[cfg(test)]
mod tests {
    use countersign_gate::paths::{
        Closed, Declared, EXECUTOR_CLOSED, Effect, Holding, Place, Protect, resolve,
    };

    use super::*;

    fn text(path: &Path) -> String {
        path.to_str().unwrap().to_owned()
    }

    fn disk() -> Disk {
        Disk::with_home(None)
    }

    #[test]
    fn what_stands_where() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| text(&temp.path().join(name));
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("file"), "x").unwrap();
        assert_eq!(disk().look(&at("folder")).unwrap().found, Found::Folder);
        assert_eq!(disk().look(&at("file")).unwrap().found, Found::File);
        for missing in ["none", "file/below", &"n".repeat(300)] {
            assert_eq!(
                disk().look(&at(missing)),
                Err(LookError::Missing),
                "{missing}"
            );
        }
        assert!(matches!(
            disk().look("/a\0b"),
            Err(LookError::Unreadable(_))
        ));
    }

    #[test]
    fn everything_below_a_folder_up_to_a_bound() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("a/b")).unwrap();
        fs::write(temp.path().join("a/b/c"), "x").unwrap();
        let root = text(temp.path());
        let below = disk().below(&root, 10);
        let mut names: Vec<String> = below
            .entries
            .iter()
            .map(|(names, _)| names.join("/"))
            .collect();
        names.sort();
        assert_eq!(
            (names, below.whole),
            (
                vec!["a".to_owned(), "a/b".to_owned(), "a/b/c".to_owned()],
                true
            )
        );
        assert!(!disk().below(&root, 2).whole);
        assert!(disk().below(&text(&temp.path().join("none")), 2).whole);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_second_names_are_told() {
        use std::os::unix::fs::symlink;
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| text(&temp.path().join(name));
        fs::write(at("file"), "x").unwrap();
        fs::hard_link(at("file"), at("twin")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        let (file, twin) = (
            disk().look(&at("file")).unwrap(),
            disk().look(&at("twin")).unwrap(),
        );
        assert_eq!((file.id, file.names), (twin.id, 2));
        assert!(file.id.is_some());
        let link = disk().look(&at("dangling")).unwrap();
        assert_eq!(
            link.found,
            Found::Link {
                target: "nowhere".to_owned()
            }
        );
    }

    #[cfg(unix)]
    #[test]
    fn p29_a_real_folder_is_protected_through_links_and_second_names() {
        use std::os::unix::fs::symlink;
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let (ours, work) = (base.join("ours"), base.join("work"));
        fs::create_dir_all(ours.join("book/vault")).unwrap();
        fs::create_dir(&work).unwrap();
        fs::write(ours.join("executor.json"), "{}").unwrap();
        fs::write(ours.join("book/vault/1"), "x").unwrap();
        symlink(&ours, work.join("in")).unwrap();
        symlink("../ours", work.join("in2")).unwrap();
        fs::hard_link(ours.join("book/vault/1"), work.join("twin")).unwrap();
        for n in 0..22 {
            symlink(format!("l{}", n + 1), work.join(format!("l{n}"))).unwrap();
        }
        fs::write(work.join("l22"), "x").unwrap();
        let holdings = [Holding {
            whose: "the executor",
            root: text(&ours),
            closed: Closed::Below(EXECUTOR_CLOSED.map(String::from).to_vec()),
        }];
        let bases = [text(&work)];
        for (path, effect, open) in [
            ("new", Effect::Write, true),
            ("in/x", Effect::Write, false),
            ("in2/executor.json", Effect::Write, false),
            ("in2/executor.json", Effect::Read, true),
            ("../ours/x", Effect::Write, false),
            ("..", Effect::Write, false),
            ("twin", Effect::Read, false),
            ("in/book/vault/1", Effect::Read, false),
            ("l2", Effect::Write, true),
            ("l1", Effect::Write, false),
            ("/proc/self/environ", Effect::Read, false),
            ("/dev/fd/0", Effect::Read, false),
        ] {
            let declared = [Declared {
                pointer: "/p".to_owned(),
                effect,
            }];
            let protect = Protect {
                files: &disk(),
                holdings: &holdings,
                bases: &bases,
                declared: &declared,
                effect,
            };
            let arguments = serde_json::json!({ "p": path }).to_string();
            assert_eq!(
                protect.check(arguments.as_bytes()).is_ok(),
                open,
                "{path} {effect:?}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_cannot_be_entered_is_unreadable() {
        use std::os::unix::fs::PermissionsExt;
        let temp = tempfile::tempdir().unwrap();
        let closed = temp.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        let inside = text(&closed.join("x"));
        let looked = disk().look(&inside);
        // The administrator may look everywhere: there is nothing to see then (e16).
        if fs::read_dir(&closed).is_err() {
            assert!(matches!(looked, Err(LookError::Unreadable(_))));
            let place = Place::parse(&inside, Style::Unix).unwrap();
            assert!(resolve(&place.written(), &disk()).is_err());
        } else {
            assert_eq!(looked, Err(LookError::Missing));
        }
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    }
}
