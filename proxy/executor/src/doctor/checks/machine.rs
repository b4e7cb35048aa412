//! The machine: its clock, and the disk the executor lies on.

use std::path::Path;

use jiff::Timestamp;

use crate::commands::Context;
use crate::disk::Place;
use crate::problem::Problem;
use crate::settings::load;

use super::super::Found;

pub(in crate::doctor) fn clock(context: &Context) -> Vec<Found> {
    let newest = [
        context.folder.settings(),
        context.folder.state_db(),
        context.folder.book(),
    ]
    .iter()
    .filter_map(|path| std::fs::metadata(path).ok()?.modified().ok())
    .max();
    let ahead = newest.and_then(|time| time.duration_since(std::time::SystemTime::now()).ok());
    let year = Timestamp::now().strftime("%Y").to_string();
    match ahead {
        _ if year.as_str() < "2026" => vec![Found::fail(Problem::new(
            "clock",
            format!("the clock says {year}"),
            "set the clock",
        ))],
        Some(ahead) if ahead.as_secs() > 120 => {
            vec![Found::warn(
                "the clock is behind files of this executor by more than two minutes",
                "set the clock",
            )]
        }
        _ => vec![Found::ok("not behind the executor's own files")],
    }
}

/// SQLite's WAL, the book's flushes and our locks need a disk of this machine; a synchronised folder replaces files under our hands.
pub(in crate::doctor) fn disk(context: &Context) -> Vec<Found> {
    let (root, book) = (context.folder.root(), context.folder.book());
    let allowed = load(&context.folder.settings())
        .is_ok_and(|loaded| loaded.settings.book.allow_network_folder);
    let place = match Place::of(&book) {
        Place::Local => Place::of(root),
        elsewhere => elsewhere,
    };
    let remedy =
        "move it to a plain folder on a disk of this machine; for a second place there are copies";
    match (place.trouble(root), allowed) {
        (None, _) => vec![free_space(root)],
        (Some(trouble), true) => vec![
            Found::warn(
                format!("{trouble}; `book.allow_network_folder` in executor.json allows it"),
                remedy,
            ),
            free_space(root),
        ],
        (Some(trouble), false) => vec![Found::fail(Problem::new(
            "disk",
            format!("{trouble}; no call is let through"),
            remedy,
        ))],
    }
}

/// A full disk stops every call, since none is let through without its entry.
fn free_space(root: &Path) -> Found {
    match free_bytes(root) {
        Some(free) => space(root, free),
        None => Found::ok("a disk of this machine"),
    }
}

fn space(root: &Path, free: u64) -> Found {
    const NONE: u64 = 5_000_000;
    const LITTLE: u64 = 100_000_000;
    let megabytes = free / 1_000_000;
    let remedy = "make room on it, or move the folder to a larger disk and name it with --dir";
    match free {
        ..NONE => Found::fail(Problem::new(
            "disk_full",
            format!(
                "the disk of `{}` is full ({megabytes} MB free): no entry can be written, so no call is let through",
                root.display()
            ),
            remedy,
        )),
        NONE..LITTLE => Found::warn(
            format!(
                "the disk of `{}` is nearly full ({megabytes} MB free): when it is full, no call is let through",
                root.display()
            ),
            remedy,
        ),
        LITTLE.. => Found::ok(format!("a disk of this machine, {megabytes} MB free")),
    }
}

#[cfg(unix)]
fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_path: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn a_disk_runs_full_by_steps() {
        for (free, level, words) in [
            (0, Level::Fail, "is full (0 MB free)"),
            (4_999_999, Level::Fail, "is full (4 MB free)"),
            (5_000_000, Level::Warn, "nearly full (5 MB free)"),
            (99_999_999, Level::Warn, "nearly full (99 MB free)"),
            (100_000_000, Level::Ok, "100 MB free"),
        ] {
            let found = space(Path::new("/x"), free);
            assert_eq!(found.level, level, "{free}");
            assert!(found.what.contains(words), "{}", found.what);
        }
        #[cfg(unix)]
        assert!(free_bytes(&std::env::temp_dir()).is_some());
    }
}
