//! The settings of a running program: re-read when the file changed, one look at the disk per question. A broken file closes everything.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::folder::{Folder, Stamp};
use crate::problem::Problem;

use super::checked::Settings;
use super::load::{Loaded, load};

/// Watches one executor.json.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    marker: PathBuf,
    seen: Mutex<Seen>,
}

/// The settings at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Counts up with every change, from 1.
    pub generation: u64,
    /// What holds.
    pub state: State,
}

/// What holds at one moment.
#[derive(Debug, Clone)]
pub enum State {
    /// These settings.
    Ready(Arc<Settings>),
    /// These settings, but the off switch is thrown: by `enabled`, or by the marker beside the file.
    Off(Arc<Settings>),
    /// The file can't be used: nothing is open until it can.
    Broken(Arc<Problem>),
}

/// The settings, or why they can't be used.
type Outcome = Result<Arc<Settings>, Arc<Problem>>;

#[derive(Debug)]
struct Seen {
    stamp: Option<Stamp>,
    /// Whether a further write could have left `stamp` as it is.
    fresh: bool,
    off: bool,
    loaded: Outcome,
    bytes: Vec<u8>,
    snapshot: Arc<Snapshot>,
}

impl Watch {
    /// Loads the settings of `folder`. A broken file is a state, not an error.
    pub fn new(folder: &Folder) -> Watch {
        let (path, marker) = (folder.settings(), folder.off_marker());
        let off = is_off(&marker);
        let (loaded, bytes, stamp) = read(&path);
        let state = state(&loaded, off);
        let snapshot = Arc::new(Snapshot {
            generation: 1,
            state,
        });
        let fresh = stamp.is_none_or(|stamp| stamp.is_fresh());
        Watch {
            path,
            marker,
            seen: Mutex::new(Seen {
                stamp,
                fresh,
                off,
                loaded,
                bytes,
                snapshot,
            }),
        }
    }

    /// What holds now. Two system calls where nothing changed.
    pub fn now(&self) -> Arc<Snapshot> {
        let mut seen = self.lock();
        let off = is_off(&self.marker);
        let stamp = Stamp::of(&self.path).ok();
        let same_file = stamp.is_some() && stamp == seen.stamp && !seen.fresh;
        if same_file && off == seen.off {
            return Arc::clone(&seen.snapshot);
        }
        let mut changed = off != seen.off;
        if !same_file {
            let (loaded, bytes, stamp) = read(&self.path);
            changed |= bytes != seen.bytes || loaded != seen.loaded;
            seen.fresh = stamp.is_none_or(|stamp| stamp.is_fresh());
            seen.stamp = stamp;
            if changed {
                seen.loaded = loaded;
                seen.bytes = bytes;
            }
        }
        if changed {
            seen.off = off;
            let generation = seen.snapshot.generation + 1;
            seen.snapshot = Arc::new(Snapshot {
                generation,
                state: state(&seen.loaded, off),
            });
        }
        Arc::clone(&seen.snapshot)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The settings, where the file can be used.
    pub fn settings(&self) -> Option<&Arc<Settings>> {
        match self {
            State::Ready(settings) | State::Off(settings) => Some(settings),
            State::Broken(_) => None,
        }
    }
}

/// Whether the marker stands; anything but a clear "not there" counts as off.
pub fn is_off(marker: &std::path::Path) -> bool {
    !matches!(std::fs::symlink_metadata(marker), Err(error) if error.kind() == std::io::ErrorKind::NotFound)
}

fn read(path: &std::path::Path) -> (Outcome, Vec<u8>, Option<Stamp>) {
    let before = Stamp::of(path).ok();
    match load(path) {
        Ok(Loaded {
            settings,
            bytes,
            stamp,
        }) => (Ok(Arc::new(settings)), bytes, Some(stamp)),
        Err(error) => (Err(Arc::new(error.into())), Vec::new(), before),
    }
}

fn state(loaded: &Outcome, off: bool) -> State {
    match loaded {
        Ok(settings) if off || !settings.enabled => State::Off(Arc::clone(settings)),
        Ok(settings) => State::Ready(Arc::clone(settings)),
        Err(problem) => State::Broken(Arc::clone(problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::replace;

    fn word(state: &State) -> &'static str {
        match state {
            State::Ready(_) => "ready",
            State::Off(_) => "off",
            State::Broken(_) => "broken",
        }
    }

    #[test]
    fn changes_are_seen_at_once_and_a_broken_file_closes() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::resolve(Some(temp.path())).unwrap();
        let good = include_str!("../../testdata/settings/full.json");
        replace(&folder.settings(), good.as_bytes()).unwrap();
        let watch = Watch::new(&folder);
        let check = |generation: u64, expected: &str| {
            let snapshot = watch.now();
            assert_eq!(
                (snapshot.generation, word(&snapshot.state)),
                (generation, expected)
            );
        };
        check(1, "ready");
        check(1, "ready");
        // In place, same size, at once: the stamp alone might not show it.
        std::fs::write(folder.settings(), good.replace("Maria", "Mario")).unwrap();
        check(2, "ready");
        std::fs::write(folder.settings(), &good[..good.len() / 2]).unwrap();
        check(3, "broken");
        check(3, "broken");
        std::fs::remove_file(folder.settings()).unwrap();
        check(4, "broken");
        replace(
            &folder.settings(),
            good.replace(
                "\"enabled\": true,\n  \"secrets\"",
                "\"enabled\": false,\n  \"secrets\"",
            )
            .as_bytes(),
        )
        .unwrap();
        check(5, "off");
        replace(&folder.settings(), good.as_bytes()).unwrap();
        check(6, "ready");
        std::fs::write(folder.off_marker(), "").unwrap();
        check(7, "off");
        std::fs::remove_file(folder.off_marker()).unwrap();
        check(8, "ready");
        // Rewritten with equal bytes: nothing changed.
        replace(&folder.settings(), good.as_bytes()).unwrap();
        check(8, "ready");
    }
}
