//! Whether a folder lies where locks and flushes keep what they promise: on a disk of this machine, and in no folder that another
//! program synchronises. Owns the names and numbers by which that is known; refuses to decide what follows from it.

use std::path::{Path, PathBuf};

use crate::problem::Problem;

/// Where a folder lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a disk of this machine, as far as the system tells.
    Local,
    /// On a file system where locks between processes and flushes can't be relied on.
    Network {
        /// Its kind: `NFS`, `SMB`, `FUSE`, ….
        kind: String,
    },
    /// In a folder that a program keeps the same on several machines.
    Synced {
        /// The program.
        by: &'static str,
        /// What says so: the folder with the telling name or file.
        at: PathBuf,
    },
}

/// Names of folders that only a synchronising program makes. `starts` takes what follows the name (`OneDrive - Example Ltd`).
struct Named {
    name: &'static str,
    starts: bool,
    by: &'static str,
}

/// Files and folders a synchronising program leaves in its root.
struct Marker {
    name: &'static str,
    starts: bool,
    by: &'static str,
}

const NAMED: &[Named] = &[
    named("Dropbox", "Dropbox"),
    starting("Dropbox (", "Dropbox"),
    named("OneDrive", "OneDrive"),
    starting("OneDrive - ", "OneDrive"),
    named("Google Drive", "Google Drive"),
    named("GoogleDrive", "Google Drive"),
    starting("GoogleDrive-", "Google Drive"),
    named("iCloud Drive", "iCloud Drive"),
    named("iCloudDrive", "iCloud Drive"),
    named("com~apple~CloudDocs", "iCloud Drive"),
    named("Mobile Documents", "iCloud Drive"),
    named("CloudStorage", "a cloud storage program"),
    named("Nextcloud", "Nextcloud"),
    named("ownCloud", "ownCloud"),
    named("Syncthing", "Syncthing"),
    named("pCloudDrive", "pCloud"),
    named("MEGAsync", "MEGA"),
    named("Box Sync", "Box"),
];

const MARKERS: &[Marker] = &[
    marker(".dropbox", "Dropbox"),
    marker(".dropbox.cache", "Dropbox"),
    marker(".849C9593-D756-4E56-8D6E-42412F2A707B", "OneDrive"),
    marker(".tmp.driveupload", "Google Drive"),
    marker(".tmp.drivedownload", "Google Drive"),
    marker(".stfolder", "Syncthing"),
    marker(".nextcloudsync.log", "Nextcloud"),
    marker(".owncloudsync.log", "ownCloud"),
    Marker {
        name: ".sync_",
        starts: true,
        by: "Nextcloud",
    },
    Marker {
        name: "._sync_",
        starts: true,
        by: "Nextcloud",
    },
];

/// Entries of one folder that are looked at for markers that are known by the beginning of their name.
const MOST_ENTRIES: usize = 10_000;

const fn named(name: &'static str, by: &'static str) -> Named {
    Named {
        name,
        starts: false,
        by,
    }
}

const fn starting(name: &'static str, by: &'static str) -> Named {
    Named {
        name,
        starts: true,
        by,
    }
}

const fn marker(name: &'static str, by: &'static str) -> Marker {
    Marker {
        name,
        starts: false,
        by,
    }
}

impl Place {
    /// Where `path` lies; links are followed first. Of what is not there yet, where its nearest parent lies.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        Self::judged(path, crate::platform::file_system)
    }

    /// The same with the system's answer handed in.
    fn judged(path: &Path, kind: impl Fn(&Path) -> Option<String>) -> Self {
        let real = real(path);
        match kind(&real) {
            Some(kind) => Self::Network { kind },
            None => synced(&real).unwrap_or(Self::Local),
        }
    }

    /// What keeps the book from being safe there, as a sentence about `path`. `None` on a disk of this machine.
    #[must_use]
    pub fn trouble(&self, path: &Path) -> Option<String> {
        let path = path.display();
        match self {
            Self::Local => None,
            Self::Network { kind } => Some(format!(
                "`{path}` lies on a network or user-space file system ({kind}), where locks between processes and flushes to the disk \
                 can't be relied on"
            )),
            Self::Synced { by, at } => Some(format!(
                "`{path}` lies in a folder that is synchronised by {by} (`{}`), which replaces files under our hands",
                at.display()
            )),
        }
    }
}

/// Refuses a folder where the book would not be safe.
///
/// # Errors
/// `book_place`, with what to do.
pub fn refuse(path: &Path) -> Result<(), Problem> {
    match Place::of(path).trouble(path) {
        None => Ok(()),
        Some(trouble) => Err(Problem::new(
            "book_place",
            format!(
                "{trouble}; the book could lose entries or be signed twice there, so it is not opened"
            ),
            "keep the executor in a folder on a disk of this machine (for a second place there are copies); to use this one all the \
             same, make the executor with `countersign init --allow-network-folder`, or set `book.allow_network_folder` in \
             executor.json",
        )),
    }
}

/// The path without links, as far as it exists; what does not exist yet is appended as it is.
fn real(path: &Path) -> PathBuf {
    for parent in path.ancestors() {
        if let Ok(real) = parent.canonicalize() {
            return match path.strip_prefix(parent) {
                Ok(rest) if rest.as_os_str().is_empty() => real,
                Ok(rest) => real.join(rest),
                Err(_) => real,
            };
        }
    }
    path.to_owned()
}

fn synced(real: &Path) -> Option<Place> {
    let found = |by, at: &Path| {
        Some(Place::Synced {
            by,
            at: at.to_owned(),
        })
    };
    for folder in real.ancestors() {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let fits = |row: &&Named| match row.starts {
            true => name.starts_with(row.name),
            false => name.eq_ignore_ascii_case(row.name),
        };
        if let Some(row) = NAMED.iter().find(fits) {
            return found(row.by, folder);
        }
        let whole = MARKERS.iter().filter(|marker| !marker.starts);
        for marker in whole {
            let at = folder.join(marker.name);
            if std::fs::symlink_metadata(&at).is_ok() {
                return found(marker.by, &at);
            }
        }
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.take(MOST_ENTRIES) {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let fits = |marker: &&Marker| {
                marker.starts && name.starts_with(marker.name) && name.contains(".db")
            };
            if let Some(marker) = MARKERS.iter().find(fits) {
                return found(marker.by, &entry.path());
            }
        }
    }
    None
}

/// The kind of a file system by the number `statfs` answers on Linux, where it is not one of this machine's disks.
#[must_use]
pub fn linux_kind(magic: u64) -> Option<&'static str> {
    // linux/magic.h and the file systems' own headers.
    const REMOTE: &[(u64, &str)] = &[
        (0x6969, "NFS"),
        (0x517B, "SMB"),
        (0xFF53_4D42, "CIFS"),
        (0xFE53_4D42, "SMB2"),
        (0x6573_5546, "FUSE"),
        (0x0102_1997, "9P"),
        (0x5346_414F, "AFS"),
        (0x6B41_4653, "AFS"),
        (0x00C3_6400, "Ceph"),
        (0x7375_7245, "Coda"),
        (0x564C, "NCP"),
        (0x0116_1970, "GFS2"),
        (0x7461_636F, "OCFS2"),
        (0x0BD0_0BD0, "Lustre"),
        (0x4750_4653, "GPFS"),
        (0x786F_4256, "VirtualBox shared folder"),
        (0xBACB_ACBC, "VMware shared folder"),
    ];
    // The kernel's number is 32 bits wide; on some machines it is sign-extended.
    let magic = magic & 0xFFFF_FFFF;
    REMOTE
        .iter()
        .find(|(number, _)| *number == magic)
        .map(|(_, kind)| *kind)
}

/// The same by the name `statfs` answers on macOS.
#[must_use]
pub fn mac_kind(name: &str) -> Option<String> {
    const REMOTE: &[&str] = &["nfs", "smbfs", "afpfs", "webdav", "ftp", "cifs", "autofs"];
    let lower = name.to_ascii_lowercase();
    (REMOTE.contains(&lower.as_str()) || lower.contains("fuse")).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(path: &Path) -> Place {
        Place::judged(path, |_| None)
    }

    #[test]
    fn b19_network_file_systems_are_known_by_what_the_system_answers() {
        for (magic, kind) in [
            (0x6969, Some("NFS")),
            (0xFF53_4D42, Some("CIFS")),
            (0xFFFF_FFFF_FF53_4D42, Some("CIFS")),
            (0xFE53_4D42, Some("SMB2")),
            (0x6573_5546, Some("FUSE")),
            (0x0102_1997, Some("9P")),
            // ext4, XFS, btrfs, tmpfs, overlay, ZFS.
            (0xEF53, None),
            (0x5846_5342, None),
            (0x9123_683E, None),
            (0x0102_1994, None),
            (0x794C_7630, None),
            (0x2FC1_2FC1, None),
        ] {
            assert_eq!(linux_kind(magic), kind, "{magic:x}");
        }
        for (name, remote) in [
            ("apfs", false),
            ("hfs", false),
            ("smbfs", true),
            ("nfs", true),
            ("macfuse", true),
            ("osxfuse_sshfs", true),
        ] {
            assert_eq!(mac_kind(name).is_some(), remote, "{name}");
        }
        let temp = tempfile::tempdir().unwrap();
        let place = Place::judged(temp.path(), |_| Some("NFS".to_owned()));
        let words = place.trouble(temp.path()).unwrap();
        assert!(words.contains("(NFS)"), "{words}");
        assert_eq!(Place::of(temp.path()), Place::Local);
        assert_eq!(Place::Local.trouble(temp.path()), None);
    }

    #[test]
    fn b19_folders_that_are_synchronised_are_known_by_name() {
        let temp = tempfile::tempdir().unwrap();
        for (name, by) in [
            ("Dropbox", Some("Dropbox")),
            ("dropbox", Some("Dropbox")),
            ("Dropbox (Example)", Some("Dropbox")),
            ("OneDrive - Example Ltd", Some("OneDrive")),
            ("Google Drive", Some("Google Drive")),
            ("iCloud Drive", Some("iCloud Drive")),
            ("com~apple~CloudDocs", Some("iCloud Drive")),
            ("Nextcloud", Some("Nextcloud")),
            ("my dropbox notes", None),
            ("onedrive-client-sources", None),
            ("Documents", None),
        ] {
            let folder = temp.path().join(name).join("work/executor");
            let found = match judged(&folder) {
                Place::Synced { by, .. } => Some(by),
                Place::Local => None,
                place => panic!("{place:?}"),
            };
            assert_eq!(found, by, "{name}, not there yet");
        }
    }

    #[test]
    fn b19_folders_that_are_synchronised_are_known_by_what_lies_in_them() {
        for (marker, by) in [
            (".stfolder", "Syncthing"),
            (".dropbox", "Dropbox"),
            (".sync_0a1b2c3d4e5f.db", "Nextcloud"),
            (".849C9593-D756-4E56-8D6E-42412F2A707B", "OneDrive"),
        ] {
            let temp = tempfile::tempdir().unwrap();
            let folder = temp.path().join("a/b");
            std::fs::create_dir_all(&folder).unwrap();
            assert_eq!(judged(&folder), Place::Local);
            std::fs::write(temp.path().join("a").join(marker), "").unwrap();
            let Place::Synced { by: found, at } = judged(&folder) else {
                panic!("{marker}")
            };
            assert_eq!(found, by);
            assert!(at.ends_with(marker));
        }
    }

    #[cfg(unix)]
    #[test]
    fn b19_a_link_into_such_a_folder_does_not_hide_it() {
        let temp = tempfile::tempdir().unwrap();
        let hidden = temp.path().join("Dropbox/book");
        std::fs::create_dir_all(&hidden).unwrap();
        let link = temp.path().join("book");
        std::os::unix::fs::symlink(&hidden, &link).unwrap();
        assert!(matches!(judged(&link), Place::Synced { .. }));
    }
}
