//! Reads the signed part of a journal piece by piece, from any place, and again when it has grown: for what is derived from it.
//! Each piece is authenticated before it is given: its last checkpoint's signature is verified and every root recomputed. Refuses
//! to judge what lies after the last checkpoint: it is not signed, so it is not given.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::{BookError, Damage};
use crate::files::{self, Lines};
use crate::journal::chain::{Chain, Leaf};
use crate::journal::layout::{BookFile, Layout};
use crate::journal::recover::{begin, link};
use crate::journal::scan::{Place, Scan, Sink, Which};
use crate::note::Vkey;
use crate::tree::{CompactRange, Hash};

/// A reader that keeps its place. Takes no lock and writes nothing.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    layout: Layout,
    chain: Chain,
    segment: u64,
    place: Place,
}

/// Signed lines of one segment.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// The segment's path.
    pub path: PathBuf,
    /// The index in the segment's name.
    pub segment: u64,
    /// The index of the piece's first entry.
    pub first: u64,
    from: Place,
    to: Place,
}

/// One entry's line in a piece.
pub(crate) struct Signed<'a> {
    /// The entry's index.
    pub index: u64,
    /// Offset of the line's first byte in the segment.
    pub offset: u64,
    /// Its bytes, without the line feed.
    pub bytes: &'a [u8],
}

/// The head of a book: its last signed checkpoint, whose signature was verified and whose root was recomputed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedHead {
    /// Entries under it.
    pub size: u64,
    /// Their root.
    pub root: Hash,
    /// The text of the signed note.
    pub note: String,
    /// The key in force at that size, which signed it.
    pub key: Vkey,
}

/// How often a segment that another process is writing to is read anew before it counts as damaged.
const PATIENCE: u32 = 5;

impl Follower {
    /// Begins at the segment that holds entry `index`, or the last one; where the journal begins later, at its first.
    pub(crate) fn at(layout: &Layout, book: &BookFile, index: u64) -> Result<Self, BookError> {
        let segments = layout.segments()?;
        let holds = segments.iter().rev().find(|first| **first <= index);
        let Some(segment) = holds.or(segments.first()).copied() else {
            return Err(BookError::NotABook {
                path: layout.dir.clone(),
                why: "its folder `journal` is empty".into(),
            });
        };
        let path = layout.segment(segment);
        let mut chain = Chain::new(book.origin.clone(), book.vkey.clone());
        let place = begin(&files::open_read(&path)?, &path, segment, &mut chain)?;
        Ok(Self {
            layout: layout.clone(),
            chain,
            segment,
            place,
        })
    }

    /// Every key the book has had up to its end.
    pub(crate) fn keys(layout: &Layout, book: &BookFile) -> Result<Arc<[Vkey]>, BookError> {
        let mut follower = Self::at(layout, book, u64::MAX)?;
        follower.finish()?;
        Ok(Arc::clone(follower.chain.keys.vkeys()))
    }

    /// The tree of the entries given so far, or of those before the first piece.
    pub(crate) fn range(&self) -> &CompactRange {
        &self.chain.head.range
    }

    /// Where the journal lies.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The checkpoint over the entries given so far; none in an empty book.
    pub(crate) fn head(&self) -> Option<SignedHead> {
        let note = STANDARD.decode(self.chain.note.as_ref()?).ok()?;
        let in_force = self.chain.keys.in_force(self.chain.size())?;
        Some(SignedHead {
            key: in_force.vkey.clone(),
            size: self.chain.size(),
            root: self.range().root(),
            note: String::from_utf8(note).ok()?,
        })
    }

    /// The next signed piece, or nothing when all that is signed was given. Asked again later, it gives what was appended since.
    pub(crate) fn next(&mut self) -> Result<Option<Piece>, BookError> {
        loop {
            let path = self.layout.segment(self.segment);
            let (from, first) = (self.place, self.chain.size());
            self.advance(&path)?;
            if self.place.offset > from.offset {
                return Ok(Some(Piece {
                    path,
                    segment: self.segment,
                    first,
                    from,
                    to: self.place,
                }));
            }
            let next = self.chain.size();
            let path = self.layout.segment(next);
            let following = (next != self.segment).then(|| files::open_if_there(&path));
            match following.transpose()?.flatten() {
                Some(file) => {
                    self.place = link(&file, &path, next, &self.chain)?;
                    self.segment = next;
                }
                None => return self.ended(),
            }
        }
    }

    /// Reads to the end and answers the head.
    pub(crate) fn finish(&mut self) -> Result<Option<SignedHead>, BookError> {
        while self.next()?.is_some() {}
        Ok(self.head())
    }

    /// There is no further segment where one would have to be: none is allowed after it.
    fn ended(&self) -> Result<Option<Piece>, BookError> {
        match self.layout.segments()?.last() {
            // Begun by another process in this moment: the next time.
            Some(last) if *last > self.chain.size() => Err(BookError::Damaged(Damage {
                file: self.layout.segment(self.chain.size()),
                line: 0,
                index: self.chain.size(),
                what: format!(
                    "the segment with the entries {} to {} is not there",
                    self.chain.size(),
                    last - 1
                ),
            })),
            _ => Ok(None),
        }
    }

    /// A batch that is being written while it is read can look torn at first and signed at the second look.
    fn advance(&mut self, path: &std::path::Path) -> Result<(), BookError> {
        let file = files::open_read(path)?;
        if files::length(&file, path)? < self.place.offset {
            return Err(BookError::Damaged(Damage {
                file: path.to_owned(),
                line: self.place.line,
                index: self.chain.size(),
                what: "the segment is shorter than it was".into(),
            }));
        }
        let scan = Scan {
            file: &file,
            path,
            threads: 1,
            signatures: Which::Last,
        };
        let before = (self.chain.clone(), self.place);
        for attempt in 1.. {
            match scan.advance(&mut self.chain, &mut self.place, &mut Nothing) {
                Ok(_) => break,
                Err(error) => {
                    (self.chain, self.place) = before.clone();
                    if attempt >= PATIENCE || !matches!(error, BookError::Damaged(_)) {
                        return Err(error);
                    }
                    std::thread::yield_now();
                }
            }
        }
        Ok(())
    }
}

impl Piece {
    /// Gives the piece's entries in order. Reads the file anew: who needs certainty hashes what is given.
    pub(crate) fn each(
        &self,
        mut give: impl FnMut(Signed<'_>) -> Result<(), BookError>,
    ) -> Result<(), BookError> {
        let io = || BookError::io("read", &self.path);
        let file = files::open_read(&self.path)?;
        let mut lines = Lines::at(&file, self.from.offset, self.from.line).map_err(io())?;
        let (mut offset, mut index) = (self.from.offset, self.first);
        while let Some(line) = lines.next().map_err(io())? {
            if line.end > self.to.offset {
                break;
            }
            let bytes = lines.bytes();
            if bytes.first() == Some(&b'{') {
                give(Signed {
                    index,
                    offset,
                    bytes,
                })?;
                index += 1;
            }
            offset = line.end;
        }
        Ok(())
    }
}

/// A sink that wants nothing.
#[derive(Clone, Copy)]
struct Nothing;

impl Sink for Nothing {
    fn leaf(&mut self, _index: u64, _line: &[u8], _leaf: Leaf) {}
    fn sign(&mut self) {}
    fn forget(&mut self) {}
}
