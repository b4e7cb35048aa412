//! Reads on in one segment from the last known checkpoint and says where the signed part ends. Refuses to write.

use std::fs::File;
use std::path::Path;

use crate::entry::Count;
use crate::error::{BookError, Damage};
use crate::facts::{Fact, Stored};
use crate::files::{self, Line, Lines};
use crate::journal::blame::blame;
use crate::journal::chain::{Chain, Flaw, Leaf, Signed, read_checkpoint};
use crate::journal::segment::CP;
use crate::kinds::{Head, Target};
use crate::signatures::Signatures;

/// A place in a segment: after the last line read under a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub offset: u64,
    pub line: u64,
}

/// What lies after the last checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Offset of its first byte.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
    /// Whole lines in it.
    pub lines: u64,
    /// The largest checkpoint in it that one of the book's keys signed and that is beyond the head.
    pub signed: Option<Head>,
}

/// Takes what a reader may want besides the chain. Cloned before a segment is read, so that a refused signature can be
/// undone.
pub(crate) trait Sink: Clone {
    /// An entry was read; nothing signs it yet.
    fn leaf(&mut self, index: u64, line: &[u8], leaf: Leaf);
    /// A checkpoint covers the entries since the last one.
    fn sign(&mut self);
    /// Nothing will cover the entries since the last checkpoint.
    fn forget(&mut self);
}

/// Payloads and stated absences, of the last batches only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    pub stored: std::collections::VecDeque<Stored>,
    pub explained: std::collections::BTreeSet<Target>,
    /// How many of `stored`, at its end, are of the last batch.
    pub last: usize,
    /// Whether a tail was set aside: objects it refers to may lie behind the vault's end.
    pub recovered: bool,
    unsigned: Vec<Fact>,
}

/// One read of a segment from `place` on.
pub(crate) struct Scan<'a> {
    pub file: &'a File,
    pub path: &'a Path,
    pub threads: usize,
    pub signatures: Which,
}

/// Which checkpoints of a read have their signature verified. Every checkpoint's root is recomputed either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Each of them: opening and verifying a book.
    All,
    /// The last, whose root covers every entry before it: what living processes appended since the last batch.
    Last,
}

/// How an entry of that kind states it, wherever else these bytes may stand.
const RECOVERED: &[u8] = b"\"k\":\"book.recovered\"";
/// Payloads remembered at least: to try the vault's key on.
const RECENT: usize = 256;
/// Bytes after the last good checkpoint that a crash can have left: a batch has at most 4,096 lines of 65,535 bytes. More is neither
/// searched nor set aside.
pub(crate) const MAX_TAIL: u64 = 4096 * 65_536;
/// A disk writes whole sectors: one that was not written is all zero.
const SECTOR: u64 = 512;

impl Scan<'_> {
    /// Advances `chain` and `place` to the last valid checkpoint. Answers the tail after it, if there is one.
    ///
    /// # Errors
    /// [`BookError::Damaged`] when a line before a valid checkpoint is not what was signed, [`BookError::Newer`] when a
    /// line is beyond this version.
    pub(crate) fn advance(
        &self,
        chain: &mut Chain,
        place: &mut Place,
        sink: &mut impl Sink,
    ) -> Result<Option<Tail>, BookError> {
        let before = (chain.clone(), *place, sink.clone());
        let mut read = self.read(chain, place, sink, u64::MAX)?;
        if read.refused.is_some() && self.signatures == Which::Last {
            // An earlier one may be refused too, and the first that is decides.
            (*chain, *place, *sink) = before;
            let all = Self {
                signatures: Which::All,
                ..*self
            };
            return all.advance(chain, place, sink);
        }
        if let Some((bad, what)) = read.refused.take() {
            // A signature fails though its tree is right. Read again up to the checkpoint before it: what follows is a
            // tail, or damage when a later checkpoint is signed.
            (*chain, *place, *sink) = before;
            self.read(chain, place, sink, bad.offset)?;
            let what = Flaw::changed(format!("the checkpoint is refused: {what}"));
            read.flaw = Some((
                Place {
                    offset: bad.offset,
                    line: bad.line,
                },
                chain.next(),
                what,
            ));
        }
        let flaw = read.flaw.map(|(at, index, flaw)| (at.line, index, flaw));
        chain.drop_unsigned();
        sink.forget();
        self.tail(chain, *place, flaw)
    }

    /// Reads until the end, a flaw, or the line that ends at `stop` (not included).
    fn read(
        &self,
        chain: &mut Chain,
        place: &mut Place,
        sink: &mut impl Sink,
        stop: u64,
    ) -> Result<ReadEnd, BookError> {
        let io = || BookError::io("read", self.path);
        let mut lines = Lines::at(self.file, place.offset, place.line).map_err(io())?;
        let mut signatures = Signatures::new(self.threads);
        let mut end = ReadEnd::default();
        while let Some(line) = lines.next().map_err(io())? {
            if line.end >= stop {
                break;
            }
            match step(chain, sink, line, lines.bytes()) {
                Ok(None) => {}
                Ok(Some(signed)) => {
                    *place = Place {
                        offset: line.end,
                        line: line.number,
                    };
                    match self.signatures {
                        Which::All => signatures.push(signed, *place),
                        Which::Last => signatures.replace(signed, *place),
                    }
                }
                Err(flaw) => {
                    end.flaw = Some((
                        Place {
                            offset: line.end,
                            line: line.number,
                        },
                        chain.next(),
                        flaw,
                    ));
                    break;
                }
            }
            if signatures.is_full() {
                end.refused = signatures.first_refused();
                if end.refused.is_some() {
                    return Ok(end);
                }
            }
        }
        end.refused = signatures.first_refused();
        Ok(end)
    }

    fn tail(
        &self,
        chain: &Chain,
        place: Place,
        flaw: Option<(u64, u64, Flaw)>,
    ) -> Result<Option<Tail>, BookError> {
        let end = files::length(self.file, self.path)?;
        if end == place.offset {
            return Ok(None);
        }
        if end - place.offset > MAX_TAIL {
            let (line, index, what) = flaw.map_or_else(
                || (place.line + 1, chain.size(), String::new()),
                |(line, index, flaw)| (line, index, format!("{}; ", flaw.what)),
            );
            return Err(BookError::Damaged(Damage {
                file: self.path.to_owned(),
                line,
                index,
                what: format!(
                    "{what}{} bytes follow the last good checkpoint, more than any batch has",
                    end - place.offset
                ),
            }));
        }
        let Inspection {
            lines,
            signed,
            whole,
            last_is_signed,
        } = inspect(self.file, place.offset, chain).map_err(BookError::io("read", self.path))?;
        if let Some((line, index, flaw)) = flaw {
            if flaw.is_key_range() {
                return Err(BookError::KeyRange(Damage {
                    file: self.path.to_owned(),
                    line,
                    index,
                    what: flaw.what,
                }));
            }
            // Beyond this version only if nothing this version can check comes after it.
            if flaw.is_unknown() && (whole == 0 || flaw.is_beyond()) {
                return Err(BookError::Newer {
                    path: self.path.to_owned(),
                    found: flaw.what,
                });
            }
            // One unwritten sector in the last batch is a loss of power; anything else before a signature is damage.
            let torn =
                whole == 1 && last_is_signed && self.has_unwritten_sector(place.offset, end)?;
            if whole > 0 && !torn {
                let (line, index, what) = match blame(self.file, place, chain) {
                    Some(blamed) => (blamed.line, blamed.index, blamed.what),
                    None => (line, index, flaw.what),
                };
                let file = self.path.to_owned();
                return Err(BookError::Damaged(Damage {
                    file,
                    line,
                    index,
                    what,
                }));
            }
        }
        Ok(Some(Tail {
            start: place.offset,
            end,
            lines,
            signed,
        }))
    }

    fn has_unwritten_sector(&self, start: u64, end: u64) -> Result<bool, BookError> {
        let (mut at, mut buffer) = (start, vec![0; SECTOR as usize]);
        while at < end {
            let next = (at / SECTOR + 1).saturating_mul(SECTOR).min(end);
            let part = &mut buffer[..(next - at) as usize];
            files::read_at(self.file, at, part).map_err(BookError::io("read", self.path))?;
            if part.iter().all(|byte| *byte == 0) {
                return Ok(true);
            }
            at = next;
        }
        Ok(false)
    }
}

/// Where a read ended other than at the end of the file.
#[derive(Default)]
struct ReadEnd {
    /// The first line that does not continue the book: its end, the index expected there.
    flaw: Option<(Place, u64, Flaw)>,
    /// The first checkpoint whose signature fails: its end.
    refused: Option<(Place, String)>,
}

/// What bytes after a checkpoint hold.
pub(crate) struct Inspection {
    /// Whole lines.
    pub lines: u64,
    /// The largest checkpoint beyond the head that one of the book's keys signed.
    pub signed: Option<Head>,
    /// How many whole lines are such checkpoints.
    pub whole: u64,
    last_is_signed: bool,
}

/// Looks through the lines of `file` from `offset` for checkpoints this book's keys signed beyond the chain's head.
pub(crate) fn inspect(file: &File, offset: u64, chain: &Chain) -> std::io::Result<Inspection> {
    let mut lines = Lines::at(file, offset, 0)?;
    let mut found = Inspection {
        lines: 0,
        signed: None,
        whole: 0,
        last_is_signed: false,
    };
    while let Some(line) = lines.next()? {
        found.lines += u64::from(line.whole);
        found.last_is_signed = false;
        let Some(encoded) = lines.bytes().strip_prefix(CP) else {
            continue;
        };
        let Ok((note, checkpoint)) = read_checkpoint(encoded) else {
            continue;
        };
        let ours =
            checkpoint.origin == chain.origin.as_str() && note.verify(chain.keys.vkeys()).is_ok();
        if ours && checkpoint.size > chain.size() {
            found.whole += u64::from(line.whole);
            found.last_is_signed = line.whole;
            if found
                .signed
                .as_ref()
                .is_none_or(|head| head.size.0 < checkpoint.size)
            {
                found.signed = Some(Head {
                    root: checkpoint.root,
                    size: Count(checkpoint.size),
                });
            }
        }
    }
    Ok(found)
}

impl Sink for Recent {
    fn leaf(&mut self, _index: u64, line: &[u8], leaf: Leaf) {
        self.recovered |= memchr::memmem::find(line, RECOVERED).is_some();
        self.unsigned.extend(leaf.facts);
    }

    fn sign(&mut self) {
        self.last = 0;
        for fact in self.unsigned.drain(..) {
            match fact {
                Fact::Stored(stored) => {
                    self.stored.push_back(stored);
                    self.last += 1;
                }
                Fact::Explained(target) | Fact::Erased(target) => {
                    let _ = self.explained.insert(target);
                }
                Fact::Opened(_) | Fact::Closed(_) | Fact::Pruned(_) | Fact::Rotated(_) => {}
            }
        }
        while self.stored.len() > RECENT.max(self.last) {
            self.stored.pop_front();
        }
        while self.explained.len() > RECENT {
            self.explained.pop_first();
        }
    }

    fn forget(&mut self) {
        self.unsigned.clear();
    }
}

/// Takes one line; a checkpoint's note is answered, its signature is not verified yet.
fn step(
    chain: &mut Chain,
    sink: &mut impl Sink,
    line: Line,
    bytes: &[u8],
) -> Result<Option<Signed>, Flaw> {
    if !line.whole {
        return Err(Flaw::changed("the line is not whole"));
    }
    match bytes.first() {
        Some(b'{') => {
            let index = chain.next();
            sink.leaf(index, bytes, chain.leaf(bytes)?);
            Ok(None)
        }
        _ => match bytes.strip_prefix(CP) {
            Some(encoded) => {
                let signed = chain.checkpoint(encoded)?;
                sink.sign();
                Ok(Some(signed))
            }
            None => Err(Flaw::changed(
                "the line is neither an entry nor a checkpoint",
            )),
        },
    }
}
