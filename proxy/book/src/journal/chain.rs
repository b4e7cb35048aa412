//! The state that grows line by line: compact range, last leaf, calls without an outcome, end of the vault. Checks each
//! line against it. Refuses to read files and to verify signatures: it says which notes must be.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::canonical;
use crate::checkpoint::Checkpoint;
use crate::entry::{CallId, Common, NO_PREV, NO_TIME, is_time};
use crate::facts::{self, Fact};
use crate::journal::OpenCall;
use crate::journal::ring::Ring;
use crate::journal::segment::SegmentLine;
use crate::note::{Note, Vkey};
use crate::origin::Origin;
use crate::tree::{CompactRange, Hash, leaf_hash};

/// The longest leaf any reader accepts, in bytes (tlog-tiles entry bundles count in 16 bits).
const MAX_LEAF: usize = 65_535;

/// The most entries any reader accepts before a checkpoint: what it must hold in memory.
pub(crate) const MAX_UNSIGNED: u64 = 4096;

/// Why a line does not continue the book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub what: String,
    kind: FlawKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlawKind {
    Changed,
    /// Not wrong, but beyond this version.
    Unknown,
    /// The same, and signed by a known key.
    Beyond,
    /// Signed by a key outside its range.
    KeyRange,
}

/// A note and the keys to verify its signatures with.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    pub note: Note,
    pub keys: Arc<[Vkey]>,
}

/// End of what is written in the vault.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(deny_unknown_fields)]
pub(crate) struct VaultEnd {
    /// Segment number.
    pub seg: u64,
    /// Offset after its last object; 0 before the first.
    pub end: u64,
}

/// Tree and last leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tip {
    pub range: CompactRange,
    pub last: Hash,
}

/// What a leaf line says.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub understood: bool,
    pub facts: Vec<Fact>,
}

/// The book up to its last checkpoint (`head`, `open`, `vault`), and what came after it (`tip`, `pending`).
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub origin: Origin,
    pub keys: Ring,
    pub head: Tip,
    pub open: BTreeMap<CallId, OpenCall>,
    pub vault: VaultEnd,
    /// The largest index below which entries were pruned on record; 0 where none were.
    pub pruned: u64,
    /// Entries before the first segment read; its first line states what they come to.
    pub begun: u64,
    /// The note of the last checkpoint, in base64 as it stands in the journal.
    pub note: Option<String>,
    /// The time of the last entry under a checkpoint, in milliseconds since 1970; none where no entry was read or its time is no
    /// time.
    pub time: Option<i64>,
    tip: Tip,
    tip_time: Option<i64>,
    pending: Vec<Fact>,
}

impl Flaw {
    pub(crate) fn changed(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            kind: FlawKind::Changed,
        }
    }

    pub(crate) fn unknown(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            kind: FlawKind::Unknown,
        }
    }

    pub(crate) fn key_range(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            kind: FlawKind::KeyRange,
        }
    }

    pub(crate) fn beyond(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            kind: FlawKind::Beyond,
        }
    }

    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.kind, FlawKind::Unknown | FlawKind::Beyond)
    }

    pub(crate) fn is_beyond(&self) -> bool {
        self.kind == FlawKind::Beyond
    }

    pub(crate) fn is_key_range(&self) -> bool {
        self.kind == FlawKind::KeyRange
    }
}

impl Chain {
    /// An empty book whose first key is `first`.
    pub(crate) fn new(origin: Origin, first: Vkey) -> Self {
        let tip = Tip {
            range: CompactRange::default(),
            last: NO_PREV,
        };
        Self {
            origin,
            keys: Ring::new(first),
            head: tip.clone(),
            open: BTreeMap::new(),
            vault: VaultEnd::default(),
            pruned: 0,
            begun: 0,
            note: None,
            time: None,
            tip,
            tip_time: None,
            pending: Vec::new(),
        }
    }

    /// Entries under a checkpoint.
    pub(crate) fn size(&self) -> u64 {
        self.head.range.size()
    }

    /// The index the next leaf line must have.
    pub(crate) fn next(&self) -> u64 {
        self.tip.range.size()
    }

    /// The hash of the last leaf read, the next one's `prev`.
    pub(crate) fn last(&self) -> Hash {
        self.tip.last
    }

    /// The root of all leaves read.
    pub(crate) fn next_root(&self) -> Hash {
        self.tip.range.root()
    }

    /// Whether leaves came after the last checkpoint.
    pub(crate) fn has_unsigned(&self) -> bool {
        self.next() > self.size()
    }

    /// Takes the state a segment's first line states, where the segments before it are not read. The note in it is
    /// returned: its signature must be verified.
    pub(crate) fn begin(&mut self, line: &SegmentLine, first: u64) -> Result<Option<Note>, Flaw> {
        let keys = line.ring(&self.keys)?;
        let note = line.check(first, &self.origin, &keys)?;
        self.keys = keys;
        self.head = line.tip()?;
        self.tip = self.head.clone();
        self.open = line.open_calls()?;
        self.vault = line.vault;
        self.pruned = line.pruned();
        self.note.clone_from(&line.prevcp);
        self.begun = first;
        Ok(note)
    }

    /// Compares a segment's first line with the state reached by reading the segments before it.
    pub(crate) fn link(&self, line: &SegmentLine, first: u64) -> Result<Option<Note>, Flaw> {
        let keys = line.ring(&self.keys)?;
        for (same, what) in [
            (
                keys == self.keys,
                "the keys it states are not those of the entries before it",
            ),
            (
                line.tip()? == self.head,
                "the tree it starts from is not the tree before it",
            ),
            (
                line.prevcp == self.note,
                "the checkpoint it repeats is not the one before it",
            ),
            (
                line.open_calls()? == self.open,
                "the calls it states as open are not those that are",
            ),
            (
                line.vault == self.vault,
                "the end of the vault it states is another",
            ),
            (
                line.pruned() == self.pruned,
                "what it states was pruned is not what was",
            ),
        ] {
            if !same {
                return Err(Flaw::changed(what));
            }
        }
        line.check(first, &self.origin, &keys)
    }

    /// Takes a leaf line.
    pub(crate) fn leaf(&mut self, line: &[u8]) -> Result<Leaf, Flaw> {
        if line.len() > MAX_LEAF {
            return Err(Flaw::changed("the entry is longer than 65,535 bytes"));
        }
        if self.next() - self.size() >= MAX_UNSIGNED {
            return Err(Flaw::changed(
                "more than 4,096 entries stand without a checkpoint",
            ));
        }
        let form = |why| Flaw::changed(format!("the line is no entry in its one form: {why}"));
        canonical::check(line).map_err(form)?;
        let text = std::str::from_utf8(line).map_err(|_| form("it is not UTF-8"))?;
        let (common, facts) = match facts::at_once(text) {
            Some((common, facts)) => (common, Some(facts)),
            None => {
                let common: Common<'_> = serde_json::from_str(text)
                    .map_err(|_| Flaw::changed("the line lacks a member every entry has"))?;
                let facts = facts::of(&common, text);
                (common, facts)
            }
        };
        if !is_time(&common.ts) {
            return Err(form(NO_TIME));
        }
        let expected = self.next();
        if common.i != expected {
            return Err(Flaw::changed(format!(
                "the entry says it is number {}, expected is {expected}",
                common.i
            )));
        }
        if common.prev != self.tip.last {
            return Err(Flaw::changed(
                "its `prev` is not the hash of the entry before: one of the two was changed",
            ));
        }
        let leaf = Leaf {
            understood: facts.is_some(),
            facts: facts.unwrap_or_default(),
        };
        let time = milliseconds(&common.ts);
        self.add(leaf_hash(line), time, leaf.facts.iter().cloned());
        Ok(leaf)
    }

    /// Takes the leaf after the last one: of a line that was checked, or that this process made for this place.
    pub(crate) fn add(
        &mut self,
        leaf: Hash,
        time: Option<i64>,
        facts: impl IntoIterator<Item = Fact>,
    ) {
        self.tip.range.push(leaf);
        self.tip.last = leaf;
        self.tip_time = time;
        self.pending.extend(facts);
    }

    /// Takes a checkpoint line's base64. The note is returned: its signature must be verified.
    pub(crate) fn checkpoint(&mut self, encoded: &[u8]) -> Result<Signed, Flaw> {
        let (note, checkpoint) = read_checkpoint(encoded).map_err(Flaw::changed)?;
        if checkpoint.origin != self.origin.as_str() {
            return Err(Flaw::changed("the checkpoint is of another book"));
        }
        if checkpoint.size != self.next() {
            return Err(Flaw::changed(format!(
                "the checkpoint is of {} entries, {} were read: entries were added or removed",
                checkpoint.size,
                self.next()
            )));
        }
        if !self.has_unsigned() {
            return Err(Flaw::changed("the checkpoint repeats the one before it"));
        }
        if checkpoint.root != self.tip.range.root() {
            return Err(Flaw::changed(
                "the entries before the checkpoint do not give its root: one of them was changed",
            ));
        }
        self.keys.judge(&note, checkpoint.size)?;
        let keys = Arc::clone(self.keys.vkeys());
        for fact in &self.pending {
            if let Fact::Rotated(rotation) = fact {
                // No key comes into force by an entry that nobody signed.
                note.verify(&keys).map_err(|error| {
                    Flaw::changed(format!("the checkpoint is refused: {error}"))
                })?;
                self.keys.rotate(rotation, checkpoint.size)?;
            }
        }
        self.head.clone_from(&self.tip);
        self.time = self.tip_time;
        self.note = Some(String::from_utf8_lossy(encoded).into_owned());
        for fact in std::mem::take(&mut self.pending) {
            match fact {
                Fact::Opened(call) => drop(self.open.insert(call.call.clone(), call)),
                Fact::Closed(call) => drop(self.open.remove(&call)),
                Fact::Stored(stored) => {
                    let end = VaultEnd {
                        seg: stored.at.seg,
                        end: stored.at.off.saturating_add(stored.at.len),
                    };
                    self.vault = self.vault.max(end);
                }
                Fact::Pruned(minimum) => self.pruned = self.pruned.max(minimum),
                Fact::Explained(_) | Fact::Erased(_) | Fact::Rotated(_) => {}
            }
        }
        Ok(Signed { note, keys })
    }

    /// Forgets what came after the last checkpoint.
    pub(crate) fn drop_unsigned(&mut self) {
        self.tip.clone_from(&self.head);
        self.tip_time = self.time;
        self.pending.clear();
    }
}

/// An entry's time in milliseconds since 1970, where it is one.
pub(crate) fn milliseconds(ts: &str) -> Option<i64> {
    let time: jiff::Timestamp = ts.parse().ok()?;
    Some(time.as_millisecond())
}

/// The note and the checkpoint of a `#cp` line's base64.
pub(crate) fn read_checkpoint(encoded: &[u8]) -> Result<(Note, Checkpoint), String> {
    let bytes = STANDARD
        .decode(encoded)
        .map_err(|_| "the checkpoint is not base64".to_owned())?;
    let note = Note::parse(&bytes).map_err(|error| format!("the checkpoint is {error}"))?;
    let checkpoint =
        Checkpoint::from_note(&note).map_err(|error| format!("the checkpoint is {error}"))?;
    Ok((note, checkpoint))
}
