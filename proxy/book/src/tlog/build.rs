//! Brings `tlog/` up to the book's head, or says how it differs from it. Everything in it comes from the journal, authenticated;
//! what is found there is compared and never believed. Two builders of one folder must not run at once: the caller sees to that.

use std::path::Path;

use crate::checkpoint::Checkpoint;
use crate::error::{BookError, Damage};
use crate::files;
use crate::journal::BookFile;
use crate::journal::follow::{Follower, SignedHead};
use crate::journal::layout::Layout;
use crate::look::{LookOptions, look};
use crate::note::Note;
use crate::pin::Pin;
use crate::tlog::edge::{Edge, entries_of, width_at};
use crate::tlog::path::{Level, TilePath, WIDTH};
use crate::tlog::store::{self, CHECKPOINT, Disagreement, Mode, Store, TlogFinding};
use crate::tree::{CompactRange, leaf_hash};

/// The derived log of one book. Holds the tree's right edge between updates, so that an update costs what was appended.
#[derive(Debug)]
pub struct Tlog {
    layout: Layout,
    book: BookFile,
    state: Option<State>,
}

/// What was done or found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlogReport {
    /// The book's head.
    pub head: SignedHead,
    /// Entries under the checkpoint in `tlog/` as it was found; 0 without one of this book.
    pub published: u64,
    /// Files written.
    pub written: u64,
    /// Files compared that were as they must be.
    pub same: u64,
    /// The index of the first entry that was looked at: 0 unless the journal was pruned or only its end was asked for.
    pub from: u64,
    /// What is or was not as the journal says; at most 100, the rest counted in `more`.
    pub findings: Vec<TlogFinding>,
    /// Findings beyond those listed.
    pub more: u64,
}

/// A tree being followed: `edge` is what tiles must hold. Until the journal has been seen to hold the tree the edge began with,
/// `before` is the tree of the entries it gave.
#[derive(Clone, Debug)]
struct State {
    follower: Follower,
    edge: Edge,
    before: Option<CompactRange>,
    published: Option<String>,
}

/// `tlog/` is not a state this book ever had.
struct Stranger;

/// How a pass works.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Writes what is new, leaves the rest alone.
    Extend,
    /// Compares and writes everything.
    Rebuild,
    /// Compares everything up to a size.
    Check(u64),
}

impl Tlog {
    /// The derived log of the book in `dir`, or in its subfolder `book/`. Touches nothing yet.
    ///
    /// # Errors
    /// [`BookError::NotABook`], [`BookError::Newer`], [`BookError::Io`].
    pub fn open(dir: &Path) -> Result<Self, BookError> {
        let layout = Layout::find(dir);
        let book = BookFile::read(&layout.dir)?;
        Ok(Self {
            layout,
            book,
            state: None,
        })
    }

    /// Appends to `tlog/` what the book has more, and publishes its last checkpoint. Nothing is written where nothing changed. The
    /// first time, looks whether all files are there and whether the right edge is the journal's; if not, as [`Tlog::rebuild`].
    ///
    /// # Errors
    /// [`BookError::Damaged`] when the journal is, [`BookError::RolledBack`] when it does not hold what `tlog/` published, [`BookError::Removed`],
    /// [`BookError::Io`]. Nothing is changed then.
    pub fn extend(&mut self) -> Result<TlogReport, BookError> {
        let published = store::published(&self.layout);
        let known = self
            .state
            .as_ref()
            .is_some_and(|s| s.published == published);
        if !known {
            self.refuse_unwell(published.as_deref())?;
            self.state = self.load(published.as_deref())?;
        }
        let Some(mut state) = self.state.take() else {
            return self.rebuild();
        };
        match self.run(&mut state, Pass::Extend)? {
            Ok(report) => {
                self.state = Some(state);
                Ok(report)
            }
            Err(Stranger) => self.rebuild(),
        }
    }

    /// Compares every file with what the journal says: writes what is missing, puts away (to `quarantine/`) and writes anew what
    /// differs, removes nothing else but partial tiles that a full one replaces.
    ///
    /// # Errors
    /// As [`Tlog::extend`]; [`BookError::NotFound`] when what is missing was pruned from the journal.
    pub fn rebuild(&mut self) -> Result<TlogReport, BookError> {
        self.refuse_unwell(store::published(&self.layout).as_deref())?;
        let mut state = self.begin()?;
        let from = state.edge.size();
        match self.run(&mut state, Pass::Rebuild)? {
            Ok(report) => {
                self.state = Some(state);
                Ok(report)
            }
            Err(Stranger) => Err(self.lost(from)),
        }
    }

    /// Compares every file with what the journal says, up to the size of the checkpoint in `tlog/`. Writes nothing.
    ///
    /// # Errors
    /// As [`Tlog::rebuild`].
    pub fn check(&self) -> Result<TlogReport, BookError> {
        let mut state = self.begin()?;
        let from = state.edge.size();
        let own = self.own_checkpoint(state.published.as_deref());
        let until = own.map_or(u64::MAX, |checkpoint| checkpoint.size);
        match self.run(&mut state, Pass::Check(until))? {
            Ok(report) => Ok(report),
            Err(Stranger) => Err(self.lost(from)),
        }
    }

    /// Refuses to write where the book is not well: damaged, or without the tree that its own key signed and `tlog/` published.
    fn refuse_unwell(&self, published: Option<&str>) -> Result<(), BookError> {
        let pin = self.own_checkpoint(published).map(|checkpoint| Pin {
            origin: self.book.origin.clone(),
            size: checkpoint.size,
            root: checkpoint.root,
            key: self.book.vkey.id(),
        });
        let options = LookOptions {
            vkeys: Vec::new(),
            pin,
        };
        look(&self.layout.dir, &options)?.fault.map_or(Ok(()), Err)
    }

    /// The state from which every entry of the journal is looked at.
    fn begin(&self) -> Result<State, BookError> {
        let follower = Follower::at(&self.layout, &self.book, 0)?;
        let first = follower.range().size();
        let published = store::published(&self.layout);
        let size = self
            .own_checkpoint(published.as_deref())
            .map_or(0, |checkpoint| checkpoint.size);
        let edge = self.restore(first, size).ok_or_else(|| self.lost(first))?;
        Ok(State {
            before: Some(follower.range().clone()),
            follower,
            edge,
            published,
        })
    }

    /// The state that continues `tlog/` as it is, if it can be continued.
    fn load(&self, published: Option<&str>) -> Result<Option<State>, BookError> {
        let Some(checkpoint) = self.own_checkpoint(published) else {
            return Ok(None);
        };
        let at = checkpoint.size - checkpoint.size % WIDTH;
        let follower = Follower::at(&self.layout, &self.book, at)?;
        let first = Follower::at(&self.layout, &self.book, 0)?.range().size();
        // Where the journal begins later, the entries up to there come from the bundle.
        let start = at.max(first);
        if start > checkpoint.size || !store::fulls_are_there(&self.layout, first, at) {
            return Ok(None);
        }
        let edge = self.restore(start, checkpoint.size);
        Ok(edge.map(|edge| State {
            before: Some(follower.range().clone()),
            follower,
            edge,
            published: published.map(str::to_owned),
        }))
    }

    /// The edge of the tree of `start` entries out of the files of a tree of `size`. What it says is checked against the journal.
    fn restore(&self, start: u64, size: u64) -> Option<Edge> {
        let at = start - start % WIDTH;
        let mut above = Vec::new();
        for level in 1..8u8 {
            if at >> (8 * u32::from(level)) == 0 {
                break;
            }
            let width = usize::try_from(width_at(at, level.into())).ok()?;
            let index = at >> (8 * (u32::from(level) + 1));
            above.push(match width {
                0 => Vec::new(),
                _ => {
                    let hashes = store::read_hashes(&self.layout, level, index, size)?;
                    hashes.get(..width)?.to_vec()
                }
            });
        }
        let mut edge = Edge::from_parts(at, above)?;
        if start > at {
            let (_, bundle) = store::read(&self.layout, Level::Entries, at / WIDTH, size)?;
            let entries = entries_of(&bundle)?;
            for entry in entries.get(..usize::try_from(start - at).ok()?)? {
                edge.push(leaf_hash(entry), entry, |_, _| Ok(())).ok()?;
            }
        }
        Some(edge)
    }

    /// The checkpoint of a note by this book's key.
    fn own_checkpoint(&self, note: Option<&str>) -> Option<Checkpoint> {
        let note = Note::parse(note?.as_bytes()).ok()?;
        note.verify(&Follower::keys(&self.layout, &self.book).ok()?)
            .ok()?;
        let checkpoint = Checkpoint::from_note(&note).ok()?;
        (checkpoint.origin == self.book.origin.as_str()).then_some(checkpoint)
    }

    fn lost(&self, first: u64) -> BookError {
        BookError::NotFound(format!(
            "the journal begins with entry {first}, and `tlog/` does not hold the tree before it any more: it can't be made \
             anew; nothing of it was changed; restore `tlog/` from a copy"
        ))
    }

    /// Reads the journal on from where `state` stands and makes (or compares) the files that say the same.
    fn run(
        &self,
        state: &mut State,
        pass: Pass,
    ) -> Result<Result<TlogReport, Stranger>, BookError> {
        let (mode, stop) = match pass {
            Pass::Extend | Pass::Rebuild => (Mode::Write, u64::MAX),
            Pass::Check(size) => (Mode::Check, size),
        };
        let mut store = Store::new(&self.layout, mode);
        let (from, joined) = (state.edge.size(), state.before.is_none());
        let mut walk = Walk {
            found: self.own_checkpoint(state.published.as_deref()),
            agreed: joined.then_some(true),
            full: Vec::new(),
        };
        while let Some(piece) = state.follower.next()? {
            let mut strange = false;
            piece.each(|signed| {
                strange = strange || !walk.take(state, signed.bytes, stop, &mut store)?;
                Ok(())
            })?;
            if strange {
                return Ok(Err(Stranger));
            }
        }
        if !walk.join(state) {
            return Ok(Err(Stranger));
        }
        let head = state.follower.head().ok_or_else(|| {
            BookError::NotFound("the book has no signed entry, so no log can be derived".into())
        })?;
        let size = state.edge.size();
        if size < stop && state.edge.range().map(|range| range.root()) != Some(head.root) {
            return Err(BookError::Damaged(Damage {
                file: self.layout.journal(),
                line: 0,
                index: size,
                what: "the journal changed while it was read".into(),
            }));
        }
        let published = walk.found.as_ref().map_or(0, |found| found.size);
        let report = |store: Store<'_>| TlogReport {
            head: head.clone(),
            published,
            written: store.written,
            same: store.same,
            from,
            findings: store.findings,
            more: store.more,
        };
        if pass == Pass::Extend {
            if walk.agreed != Some(true) {
                return Ok(Err(Stranger));
            }
            if joined && size == from {
                return Ok(Ok(report(store)));
            }
        }
        let partials = state.edge.partials();
        for (path, bytes) in &partials {
            store.put(&path.to_string(), bytes)?;
        }
        if pass != Pass::Extend {
            walk.full.extend(store.sweep(size, &partials)?);
        }
        self.finish(state, &head, &mut store, &walk)?;
        Ok(Ok(report(store)))
    }

    /// Judges the checkpoint that was found and publishes the head in its place.
    fn finish(
        &self,
        state: &mut State,
        head: &SignedHead,
        store: &mut Store<'_>,
        walk: &Walk,
    ) -> Result<(), BookError> {
        match (&walk.found, walk.agreed) {
            (Some(found), Some(true)) => {
                if found.size < head.size && store.mode() == Mode::Check {
                    let what = format!(
                        "it is of {} entries, the book has {}",
                        found.size, head.size
                    );
                    store.find(Disagreement::Behind, CHECKPOINT, &what, None);
                }
            }
            (Some(found), _) => {
                let what = format!(
                    "this book's key signed it, but the book never had this tree of {} entries: look at it with \
                     `countersign book verify` and compare the book with its copy",
                    found.size
                );
                store.put_away(Disagreement::Differs, CHECKPOINT, &what)?;
            }
            (None, _) if files::exists(&self.layout.tlog().join(CHECKPOINT))? => {
                let what = "it is not a checkpoint by this book's key";
                store.put_away(Disagreement::Differs, CHECKPOINT, what)?;
            }
            (None, _) if store.mode() == Mode::Write => {}
            (None, _) => store.find(Disagreement::Missing, CHECKPOINT, "it is not there", None),
        }
        if store.mode() == Mode::Write {
            if store::published(&self.layout).as_deref() != Some(&head.note) {
                store.publish(&head.note)?;
            }
            state.published = Some(head.note.clone());
            for path in &walk.full {
                store.drop_partials(*path)?;
            }
        }
        Ok(())
    }
}

/// What a pass learns on its way.
struct Walk {
    /// The checkpoint in `tlog/`, by this book's key.
    found: Option<Checkpoint>,
    /// Whether its root is the journal's at its size, once that is known.
    agreed: Option<bool>,
    /// Tiles and bundles that became full.
    full: Vec<TilePath>,
}

impl Walk {
    /// Takes the next entry's line. False when the edge is of another tree than the journal's.
    fn take(
        &mut self,
        state: &mut State,
        line: &[u8],
        stop: u64,
        store: &mut Store<'_>,
    ) -> Result<bool, BookError> {
        let leaf = leaf_hash(line);
        if let Some(before) = &mut state.before
            && before.size() < state.edge.size()
        {
            before.push(leaf);
            return Ok(true);
        }
        if !self.join(state) {
            return Ok(false);
        }
        if state.edge.size() < stop {
            state.edge.push(leaf, line, |path, bytes| {
                self.full.push(path);
                store.put(&path.to_string(), bytes)
            })?;
            self.look(&state.edge);
        }
        Ok(true)
    }

    /// Whether the journal has given the tree the edge began with, by now or before.
    fn join(&mut self, state: &mut State) -> bool {
        let Some(before) = &state.before else {
            return true;
        };
        if state.edge.range().as_ref() != Some(before) {
            return false;
        }
        state.before = None;
        self.look(&state.edge);
        true
    }

    fn look(&mut self, edge: &Edge) {
        if let Some(found) = self
            .found
            .as_ref()
            .filter(|found| found.size == edge.size())
        {
            self.agreed = edge.range().map(|range| range.root() == found.root);
        }
    }
}
