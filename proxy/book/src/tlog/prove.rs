//! Proves that entries are in the signed tree: from tiles where they are right, else by one read of the journal from the entry's
//! segment on. What tiles say is only ever used in proofs that were verified against the signed root.

use std::collections::BTreeMap;
use std::path::Path;

use crate::checkpoint::Checkpoint;
use crate::entry::Entry;
use crate::error::{BookError, Damage};
use crate::files::{self, Lines};
use crate::journal::BookFile;
use crate::journal::follow::{Follower, SignedHead};
use crate::journal::layout::Layout;
use crate::note::{Note, Vkey};
use crate::proof::{ProofBuilder, verify_inclusion};
use crate::tlog::edge::subtree;
use crate::tlog::path::WIDTH;
use crate::tlog::proof_text::TlogProof;
use crate::tlog::store;
use crate::tree::{CompactRange, Hash, leaf_hash, node_hash};

/// Entries after the last published tile that are hashed for a proof; more and the journal is read from the entry on.
const MAX_TAIL: u64 = 1 << 16;
/// Tiles kept in memory, at most (8 KiB each).
const MAX_TILES: usize = 512;

/// Where a line of an entry is said to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The entry's index.
    pub index: u64,
    /// The index in its segment's name.
    pub segment: u64,
    /// Offset of the line's first byte in the segment.
    pub offset: u64,
}

/// Proves entries against the head the book had when it was opened.
#[derive(Debug)]
pub struct Prover {
    layout: Layout,
    book: BookFile,
    head: SignedHead,
    /// The tree in `tlog/`, by what its checkpoint says.
    published: u64,
    tiles: BTreeMap<(u8, u64), Option<Vec<Hash>>>,
    tail: Option<Option<Vec<Hash>>>,
}

impl Prover {
    /// Reads the head of the book in `dir`, or in its subfolder `book/`: the last segment is read and its signature verified.
    ///
    /// # Errors
    /// [`BookError::NotABook`], [`BookError::Newer`], [`BookError::Damaged`], [`BookError::Io`].
    pub fn open(dir: &Path) -> Result<Self, BookError> {
        let layout = Layout::find(dir);
        let book = BookFile::read(&layout.dir)?;
        let head = Follower::at(&layout, &book, u64::MAX)?.finish()?;
        let head =
            head.ok_or_else(|| BookError::NotFound("the book has no signed entry".into()))?;
        let published = store::published(&layout)
            .and_then(|note| Checkpoint::from_note(&Note::parse(note.as_bytes()).ok()?).ok())
            .map_or(0, |checkpoint| checkpoint.size.min(head.size));
        Ok(Self {
            layout,
            book,
            head,
            published,
            tiles: BTreeMap::new(),
            tail: None,
        })
    }

    /// The head proofs are made against.
    #[must_use]
    pub fn head(&self) -> &SignedHead {
        &self.head
    }

    /// Which book it is.
    #[must_use]
    pub fn book(&self) -> &BookFile {
        &self.book
    }

    /// The key whose signature on the head is to be checked.
    #[must_use]
    pub fn key(&self) -> &Vkey {
        &self.head.key
    }

    /// The entry that stands at `place`, if one with this index does. Nothing is proven by that.
    ///
    /// # Errors
    /// [`BookError::Io`].
    pub fn read(&self, place: Located) -> Result<Option<Entry>, BookError> {
        let path = self.layout.segment(place.segment);
        let Some(file) = files::open_if_there(&path)? else {
            return Ok(None);
        };
        let io = || BookError::io("read", &path);
        let mut lines = Lines::at(&file, place.offset, 0).map_err(io())?;
        let whole = lines.next().map_err(io())?.is_some_and(|line| line.whole);
        let text = std::str::from_utf8(lines.bytes()).ok().filter(|_| whole);
        let entry = text.and_then(|text| Entry::parse(text).ok());
        Ok(entry.filter(|entry| entry.index == place.index))
    }

    /// The proof that the entry with this leaf hash is entry `index` of the head's tree, verified.
    ///
    /// # Errors
    /// [`BookError::NotFound`] when the tree has no such entry, [`BookError::Damaged`] when what the journal holds is not proven.
    pub fn prove(&mut self, index: u64, leaf: Hash) -> Result<TlogProof, BookError> {
        let SignedHead { size, root, .. } = self.head;
        if index >= size {
            return Err(BookError::NotFound(format!(
                "the book has no signed entry {index}: it has {size}"
            )));
        }
        let proven = |hashes: &[Hash]| verify_inclusion(hashes, index, leaf, size, root).is_ok();
        let by_tiles = self.path_of_tiles(index).filter(|hashes| proven(hashes));
        let hashes = match by_tiles {
            Some(hashes) => hashes,
            None => self.path_of_journal(index)?,
        };
        if !proven(&hashes) {
            return Err(BookError::Damaged(Damage {
                file: self.layout.journal(),
                line: 0,
                index,
                what: "the entry is not in the signed tree".into(),
            }));
        }
        Ok(TlogProof {
            index,
            hashes,
            note: self.head.note.clone(),
        })
    }

    /// Which of the entries (index and leaf hash) are in a tree the book's key signed: the head's where tiles prove it, else that of
    /// the last checkpoint of the entry's segment, which is read once.
    ///
    /// # Errors
    /// [`BookError::Io`], [`BookError::Damaged`] when a segment is.
    pub fn signed(&mut self, entries: &[(u64, Hash)]) -> Result<Vec<bool>, BookError> {
        let SignedHead { size, root, .. } = self.head;
        let mut signed = vec![false; entries.len()];
        let mut left: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let segments = self.layout.segments()?;
        for (at, (index, leaf)) in entries.iter().enumerate() {
            if *index >= size {
                continue;
            }
            let path = self.path_of_tiles(*index);
            if path.is_some_and(|path| verify_inclusion(&path, *index, *leaf, size, root).is_ok()) {
                signed[at] = true;
            } else if let Some(first) = segments.iter().rev().find(|first| *first <= index) {
                left.entry(*first).or_default().push(at);
            }
        }
        for (first, wanted) in left {
            let mut follower = Follower::at(&self.layout, &self.book, first)?;
            let mut range = follower.range().clone();
            let Some(piece) = follower.next()? else {
                continue;
            };
            let mut found = Vec::new();
            piece.each(|line| {
                let leaf = leaf_hash(line.bytes);
                range.push(leaf);
                let here = wanted
                    .iter()
                    .filter(|at| entries[**at] == (line.index, leaf));
                found.extend(here.copied());
                Ok(())
            })?;
            if range == *follower.range() {
                found.into_iter().for_each(|at| signed[at] = true);
            }
        }
        Ok(signed)
    }

    /// The path of an entry as tiles have it, and the leaves the journal has after them. Not verified.
    fn path_of_tiles(&mut self, index: u64) -> Option<Vec<Hash>> {
        if self.published == 0 || self.head.size - self.published > MAX_TAIL {
            return None;
        }
        let ranges = ProofBuilder::inclusion(index, self.head.size).ok()?;
        ranges
            .ranges()
            .iter()
            .map(|range| {
                let (mut at, mut nodes) = (range.start, Vec::new());
                while at < range.end {
                    let level = (range.end - at).ilog2();
                    nodes.push(self.node(level, at >> level)?);
                    at += 1 << level;
                }
                Some(CompactRange::from_parts(range.end - range.start, nodes)?.root())
            })
            .collect()
    }

    /// The node `index` of a level of the tree, leaves being level 0.
    fn node(&mut self, level: u32, index: u64) -> Option<Hash> {
        if (index + 1) << level <= self.published {
            let (tile_level, height) = (u8::try_from(level / 8).ok()?, level % 8);
            let first = index << height;
            let hashes = self.tile(tile_level, first / WIDTH)?;
            let start = usize::try_from(first % WIDTH).ok()?;
            return Some(subtree(hashes.get(start..start + (1 << height))?));
        }
        if level == 0 {
            let at = usize::try_from(index.checked_sub(self.published)?).ok()?;
            return self.tail()?.get(at).copied();
        }
        let left = self.node(level - 1, 2 * index)?;
        let right = self.node(level - 1, 2 * index + 1)?;
        Some(node_hash(&left, &right))
    }

    fn tile(&mut self, level: u8, index: u64) -> Option<&[Hash]> {
        if self.tiles.len() >= MAX_TILES {
            self.tiles.clear();
        }
        let Self {
            layout, published, ..
        } = self;
        let tile = self.tiles.entry((level, index));
        tile.or_insert_with(|| store::read_hashes(layout, level, index, *published))
            .as_deref()
    }

    /// Leaf hashes of the entries after those in `tlog/`.
    fn tail(&mut self) -> Option<&[Hash]> {
        if self.tail.is_none() {
            self.tail = Some(self.read_tail().ok());
        }
        self.tail.as_ref()?.as_deref()
    }

    fn read_tail(&self) -> Result<Vec<Hash>, BookError> {
        let mut follower = Follower::at(&self.layout, &self.book, self.published)?;
        let mut leaves = Vec::new();
        while follower.range().size() < self.head.size {
            let Some(piece) = follower.next()? else {
                break;
            };
            piece.each(|line| {
                if (self.published..self.head.size).contains(&line.index) {
                    leaves.push(leaf_hash(line.bytes));
                }
                Ok(())
            })?;
        }
        Ok(leaves)
    }

    /// The path of an entry from the journal: its segment's first line has the tree before it, the rest is read once.
    fn path_of_journal(&self, index: u64) -> Result<Vec<Hash>, BookError> {
        let impossible = |error: crate::ProofError| BookError::NotFound(error.to_string());
        let size = self.head.size;
        let mut builder = ProofBuilder::inclusion(index, size).map_err(impossible)?;
        let mut follower = Follower::at(&self.layout, &self.book, index)?;
        if follower.range().size() > index {
            return Err(BookError::NotFound(format!(
                "entry {index} was pruned: the journal begins with entry {}",
                follower.range().size()
            )));
        }
        builder.start(follower.range()).map_err(impossible)?;
        while follower.range().size() < size {
            let Some(piece) = follower.next()? else {
                break;
            };
            piece.each(|line| {
                if line.index < size {
                    builder.push(leaf_hash(line.bytes));
                }
                Ok(())
            })?;
        }
        builder.finish().map_err(impossible)
    }
}
