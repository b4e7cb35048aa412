//! The files of `tlog/`: written whole, compared with what they must hold, put away when they differ. Trusts none of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::BookError;
use crate::files;
use crate::journal::layout::Layout;
use crate::tlog::edge::{entries_of, hashes_of};
use crate::tlog::path::{Level, TilePath};
use crate::tree::Hash;

/// The name of the checkpoint.
pub(crate) const CHECKPOINT: &str = "checkpoint";
/// The longest bundle: 256 entries of 65,535 bytes, each after its length.
const MAX_BUNDLE: u64 = 256 * (65_535 + 2);
/// Findings that are listed; the rest is counted.
const MAX_FINDINGS: usize = 100;

/// What is wrong with a file of `tlog/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// It is not there.
    Missing,
    /// It holds something else than the journal says.
    Differs,
    /// Nothing of that name belongs there.
    Stray,
    /// It is right for an earlier state of the book.
    Behind,
}

/// One thing found in `tlog/` that is not as the journal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlogFinding {
    /// What is wrong.
    pub kind: Disagreement,
    /// The file, below `tlog/`.
    pub file: String,
    /// What was found, as the end of a sentence.
    pub what: String,
    /// Where what was found there is kept now, when it was put away.
    pub evidence: Option<PathBuf>,
}

/// Whether files are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Only compared.
    Check,
    /// Written, and what differs is put away first.
    Write,
}

/// One pass over `tlog/`.
pub(crate) struct Store<'a> {
    layout: &'a Layout,
    mode: Mode,
    made: BTreeSet<PathBuf>,
    unsynced: Vec<PathBuf>,
    /// Files written.
    pub written: u64,
    /// Files that were as they must be.
    pub same: u64,
    pub findings: Vec<TlogFinding>,
    pub more: u64,
}

impl<'a> Store<'a> {
    pub(crate) fn new(layout: &'a Layout, mode: Mode) -> Self {
        Self {
            layout,
            mode,
            made: BTreeSet::new(),
            unsynced: Vec::new(),
            written: 0,
            same: 0,
            findings: Vec::new(),
            more: 0,
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Makes sure that `name` holds `bytes`.
    pub(crate) fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), BookError> {
        let path = self.layout.tlog().join(name);
        if self.mode == Mode::Write {
            self.make_dirs(path.parent().unwrap_or(&path))?;
        }
        if files::exists(&path)? {
            let same = files::own_length(&path) == Some(bytes.len() as u64)
                && files::read_small(&path, bytes.len() as u64)? == bytes;
            if same {
                self.same += 1;
                return Ok(());
            }
            self.put_away(
                Disagreement::Differs,
                name,
                "it is not what the journal says",
            )?;
        } else if self.mode == Mode::Check {
            self.find(Disagreement::Missing, name, "it is not there", None);
        }
        if self.mode == Mode::Write {
            files::put_read_only(&path, bytes)?;
            self.unsynced.push(path);
            self.written += 1;
        }
        Ok(())
    }

    /// Publishes the checkpoint, after everything it needs is on disk.
    pub(crate) fn publish(&mut self, note: &str) -> Result<(), BookError> {
        self.make_dirs(&self.layout.tlog())?;
        files::sync_files(&std::mem::take(&mut self.unsynced))?;
        let path = self.layout.tlog().join(CHECKPOINT);
        if files::exists(&path)? && files::own_length(&path).is_none() {
            self.put_away(Disagreement::Stray, CHECKPOINT, "it is no file")?;
        }
        files::write_new(&path, &[note.as_bytes()])?;
        self.written += 1;
        Ok(())
    }

    /// Notes what was found at `name`; where files are changed, moves it to `quarantine/`.
    pub(crate) fn put_away(
        &mut self,
        kind: Disagreement,
        name: &str,
        what: &str,
    ) -> Result<(), BookError> {
        let path = self.layout.tlog().join(name);
        let evidence = match self.mode {
            Mode::Check => None,
            Mode::Write => Some(self.move_to_quarantine(&path)?),
        };
        self.find(kind, name, what, evidence);
        Ok(())
    }

    pub(crate) fn find(
        &mut self,
        kind: Disagreement,
        name: &str,
        what: &str,
        evidence: Option<PathBuf>,
    ) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(TlogFinding {
                kind,
                file: name.to_owned(),
                what: what.to_owned(),
                evidence,
            });
        } else {
            self.more += 1;
        }
    }

    fn move_to_quarantine(&self, path: &Path) -> Result<PathBuf, BookError> {
        let quarantine = self.layout.quarantine();
        files::make_dir(&quarantine)?;
        // Named by what it holds, as a tail is; what can't be read by its own name.
        let bytes = match files::own_length(path) {
            Some(length) if length <= MAX_BUNDLE => files::read_small(path, MAX_BUNDLE)?,
            _ => path.as_os_str().as_encoded_bytes().to_vec(),
        };
        let digest = data_encoding::HEXLOWER.encode(&Hash::of(&bytes).0);
        let mut evidence = quarantine.join(format!("{digest}.tlog"));
        for number in 1.. {
            if !files::is_own_dir(&evidence) {
                break;
            }
            evidence = quarantine.join(format!("{digest}.tlog-{number}"));
        }
        files::put_away(path, &evidence)?;
        Ok(evidence)
    }

    /// Makes a folder below `tlog/` (or that itself) and what is missing above it. A link or a file in its place is put away.
    fn make_dirs(&mut self, dir: &Path) -> Result<(), BookError> {
        if self.made.contains(dir) {
            return Ok(());
        }
        let root = self.layout.tlog();
        if dir != root
            && let Some(parent) = dir.parent()
        {
            self.make_dirs(parent)?;
        }
        if !files::is_own_dir(dir) {
            if files::exists(dir)? {
                let name = dir.strip_prefix(&root).unwrap_or(dir);
                let name = name.to_string_lossy().into_owned();
                let evidence = self.move_to_quarantine(dir)?;
                self.find(
                    Disagreement::Stray,
                    &name,
                    "it is no folder",
                    Some(evidence),
                );
            }
            files::make_dir(dir)?;
        }
        self.made.insert(dir.to_owned());
        Ok(())
    }

    /// Removes the partial tiles of a tile that is full now: readers find the full one in their place.
    pub(crate) fn drop_partials(&self, full: TilePath) -> Result<(), BookError> {
        let dir = self.layout.tlog().join(format!("{}.p", full.full()));
        if self.mode == Mode::Check || !files::is_own_dir(&dir) {
            return Ok(());
        }
        for name in files::list(&dir)? {
            files::discard(&dir.join(name))?;
        }
        files::discard(&dir)
    }

    /// Looks at everything in `tlog/` that a pass over a tree of `size` entries has not written or compared: earlier partial
    /// tiles must be beginnings of `partials`; what belongs to no tree is put away. Answers the full tiles that still have partial ones.
    pub(crate) fn sweep(
        &mut self,
        size: u64,
        partials: &[(TilePath, Vec<u8>)],
    ) -> Result<Vec<TilePath>, BookError> {
        let (root, mut outlived) = (self.layout.tlog(), BTreeSet::new());
        let mut open = vec![String::new()];
        while let Some(dir) = open.pop() {
            let here = root.join(&dir);
            if !files::is_own_dir(&here) {
                continue;
            }
            for name in files::list(&here)? {
                let name = if dir.is_empty() {
                    name
                } else {
                    format!("{dir}/{name}")
                };
                let path = root.join(&name);
                if files::is_own_dir(&path) {
                    open.push(name);
                    continue;
                }
                if name == CHECKPOINT {
                    continue;
                }
                if name.ends_with(".tmp") {
                    // Left by a crash.
                    if self.mode == Mode::Write {
                        files::discard(&path)?;
                    }
                    continue;
                }
                self.sweep_file(size, partials, &name, &mut outlived)?;
            }
        }
        Ok(outlived.into_iter().collect())
    }

    fn sweep_file(
        &mut self,
        size: u64,
        partials: &[(TilePath, Vec<u8>)],
        name: &str,
        outlived: &mut BTreeSet<TilePath>,
    ) -> Result<(), BookError> {
        let Some(path) = TilePath::parse(name) else {
            return self.put_away(Disagreement::Stray, name, "no tile is called so");
        };
        let now = TilePath::in_tree(path.level(), path.index(), size);
        match now {
            Some(now) if now == path => Ok(()),
            Some(now) if now.is_full() => {
                outlived.insert(now);
                Ok(())
            }
            Some(now) if path.width() < now.width() => {
                let bytes = partials.iter().find(|(path, _)| *path == now);
                let expected = bytes.and_then(|(_, bytes)| beginning(path, bytes));
                let file = self.layout.tlog().join(name);
                let same = expected.is_some_and(|expected| {
                    files::own_length(&file) == Some(expected.len() as u64)
                        && files::read_small(&file, expected.len() as u64)
                            .is_ok_and(|found| found == expected)
                });
                if same {
                    return Ok(());
                }
                self.put_away(
                    Disagreement::Differs,
                    name,
                    "it is not what the journal says",
                )
            }
            // Another process may be ahead of who only looks.
            _ if self.mode == Mode::Check => Ok(()),
            _ => self.put_away(Disagreement::Stray, name, "the book has no such entries"),
        }
    }
}

/// The checkpoint in `tlog/`, where there is one of a checkpoint's length.
pub(crate) fn published(layout: &Layout) -> Option<String> {
    let path = layout.tlog().join(CHECKPOINT);
    let max = crate::note::MAX_NOTE as u64;
    files::own_length(&path).filter(|length| *length <= max)?;
    String::from_utf8(files::read_small(&path, max).ok()?).ok()
}

/// The bytes of a tile or bundle as they are on disk: the full one where it is there, else the partial one of a tree of `size`.
pub(crate) fn read(
    layout: &Layout,
    level: Level,
    index: u64,
    size: u64,
) -> Option<(TilePath, Vec<u8>)> {
    let path = TilePath::in_tree(level, index, size)?;
    [path.full(), path].into_iter().find_map(|path| {
        let file = layout.tlog().join(path.to_string());
        let length = files::own_length(&file)?;
        let fits = match level {
            Level::Hashes(_) => length == 32 * u64::from(path.width()),
            Level::Entries => length <= MAX_BUNDLE,
        };
        let bytes = fits.then(|| files::read_small(&file, MAX_BUNDLE).ok())??;
        Some((path, bytes))
    })
}

/// The hashes of a tile of a tree of `size`, as they are on disk.
pub(crate) fn read_hashes(layout: &Layout, level: u8, index: u64, size: u64) -> Option<Vec<Hash>> {
    let (path, bytes) = read(layout, Level::Hashes(level), index, size)?;
    hashes_of(&bytes, path.width().into())
}

/// Whether every full tile and bundle of a tree of `size` entries is there with a length it can have.
pub(crate) fn fulls_are_there(layout: &Layout, from: u64, size: u64) -> bool {
    let hashes = (0..8u8).all(|level| {
        let span = 8 * (u32::from(level) + 1);
        let tiles = from.checked_shr(span).unwrap_or(0)..size.checked_shr(span).unwrap_or(0);
        tiles.into_iter().all(|index| {
            TilePath::new(Level::Hashes(level), index, 256).is_some_and(|path| {
                files::own_length(&layout.tlog().join(path.to_string())) == Some(256 * 32)
            })
        })
    });
    hashes
        && (from / 256..size / 256).all(|index| {
            TilePath::new(Level::Entries, index, 256).is_some_and(|path| {
                files::own_length(&layout.tlog().join(path.to_string()))
                    .is_some_and(|length| length > 512)
            })
        })
}

/// The first `path.width()` hashes or entries of a tile's or bundle's bytes.
fn beginning(path: TilePath, bytes: &[u8]) -> Option<&[u8]> {
    let width = usize::from(path.width());
    match path.level() {
        Level::Hashes(_) => bytes.get(..32 * width),
        Level::Entries => {
            let entries = entries_of(bytes)?;
            let length: usize = entries
                .get(..width)?
                .iter()
                .map(|entry| entry.len() + 2)
                .sum();
            bytes.get(..length)
        }
    }
}
