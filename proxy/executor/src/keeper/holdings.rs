//! What of this machine no tool may touch: the executor's folder, the file that opens its secrets, the app's own folders. Owns the list;
//! refuses to know how a path is found to lead there.

use std::ffi::OsString;
use std::path::PathBuf;

use countersign_gate::paths::{Closed, EXECUTOR_CLOSED, Holding};

use crate::folder::Folder;

/// The identifier of the desktop app, by which the system names its folders.
pub const APP: &str = "localhost.countersign.desktop";

/// Everything, for an executor in `folder` whose passphrase may lie in the file `passphrase`.
#[must_use]
pub fn holdings(folder: &Folder, passphrase: Option<OsString>) -> Vec<Holding> {
    let closed = EXECUTOR_CLOSED.map(str::to_owned).to_vec();
    let mut all = vec![holding(
        "the executor",
        folder.root().to_owned(),
        Closed::Below(closed),
    )];
    all.extend(passphrase.map(|file| {
        let file = std::path::absolute(&file).unwrap_or_else(|_| file.into());
        holding("the executor", file, Closed::All)
    }));
    let mut app: Vec<PathBuf> = Vec::new();
    if let Some(dirs) = directories::BaseDirs::new() {
        for dir in [dirs.config_dir(), dirs.data_dir(), dirs.data_local_dir()] {
            let dir = dir.join(APP);
            if !app.contains(&dir) {
                app.push(dir);
            }
        }
    }
    let settings = |dir| holding("the app's settings", dir, Closed::Below(Vec::new()));
    all.extend(app.into_iter().map(settings));
    all
}

/// A root that is no text can be compared with nothing: it is left empty, so that it counts as one that cannot be found.
fn holding(whose: &'static str, root: PathBuf, closed: Closed) -> Holding {
    Holding {
        whose,
        root: root.into_os_string().into_string().unwrap_or_default(),
        closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_the_passphrase_and_the_app_are_held() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::resolve(Some(temp.path())).unwrap();
        let all = holdings(&folder, Some("pw".into()));
        assert_eq!(all[0].root, temp.path().to_str().unwrap());
        assert!(
            matches!(&all[0].closed, Closed::Below(names) if names.len() == EXECUTOR_CLOSED.len())
        );
        assert!(all[1].root.ends_with("pw") && all[1].root.len() > 3);
        assert_eq!(all[1].closed, Closed::All);
        assert!(all[2..].iter().all(|one| one.root.ends_with(APP)));
        assert_eq!(holdings(&folder, None).len() + 1, all.len());
    }
}
