//! The first line of a segment: the state it starts from, so that a reader can begin there. Refuses to read files.
//!
//! ```text
//! #seg {"calls":[{"call":…,"i":…,"process":…}],"first":…,"keys":[…],"origin":…,"prevcp":…,"pruned":…,"range":[…],"v":1,"vault":{"end":…,"seg":…}}
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::entry::{CallId, Count, NO_PREV};
use crate::journal::OpenCall;
use crate::journal::chain::{Chain, Flaw, Tip, VaultEnd, read_checkpoint};
use crate::journal::ring::{Ring, SegmentKey};
use crate::note::Note;
use crate::origin::Origin;
use crate::tree::{CompactRange, Hash};

/// How a segment's first line begins.
pub(crate) const SEG: &[u8] = b"#seg ";
/// How a checkpoint line begins.
pub(crate) const CP: &[u8] = b"#cp ";

/// The version of the journal's lines.
const VERSION: u64 = 1;

/// The state at a segment's start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SegmentLine {
    /// Calls without an outcome, by id.
    pub calls: Vec<SegmentCall>,
    /// Index of the segment's first leaf.
    pub first: Count,
    /// Every key the book has had, with the sizes it may sign.
    pub keys: Vec<SegmentKey>,
    /// The leaf hash of the entry before, as the first entry's `prev` states it.
    pub last: Hash,
    pub origin: Origin,
    /// Base64 of the checkpoint note before; none in the first segment.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prevcp: Option<String>,
    /// The largest `minimum` of a `prune` entry before; none while nothing was pruned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pruned: Option<Count>,
    /// The compact range of the entries before, largest subtree first.
    pub range: Vec<Hash>,
    pub v: u64,
    /// End of the vault.
    pub vault: VaultEnd,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SegmentCall {
    pub call: CallId,
    pub i: Count,
    pub process: String,
}

/// Only what every version of the line has.
#[derive(Deserialize)]
struct Version {
    v: u64,
}

impl SegmentLine {
    /// The line that starts a segment at the head of `chain`.
    pub(crate) fn of(chain: &Chain) -> Self {
        let call = |open: &OpenCall| SegmentCall {
            call: open.call.clone(),
            i: Count(open.index),
            process: open.process.clone(),
        };
        Self {
            calls: chain.open.values().map(call).collect(),
            first: Count(chain.size()),
            keys: chain.keys.stated(),
            last: chain.head.last,
            origin: chain.origin.clone(),
            prevcp: chain.note.clone(),
            pruned: (chain.pruned > 0).then_some(Count(chain.pruned)),
            range: chain.head.range.hashes().to_vec(),
            v: VERSION,
            vault: chain.vault,
        }
    }

    /// The index below which entries were pruned on record; 0 where none were.
    pub(crate) fn pruned(&self) -> u64 {
        self.pruned.map_or(0, |minimum| minimum.0)
    }

    /// The line's bytes with its line feed.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        Ok([SEG, &serde_jcs::to_vec(self)?, b"\n"].concat())
    }

    /// Reads a line (without its line feed), strictly.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, Flaw> {
        let json = line
            .strip_prefix(SEG)
            .ok_or_else(|| Flaw::changed("the segment does not begin with `#seg`"))?;
        let wrong = |error: serde_json::Error| {
            Flaw::changed(format!("the segment's first line is wrong: {error}"))
        };
        canonical::check(json)
            .map_err(|why| Flaw::changed(format!("the segment's first line is wrong: {why}")))?;
        let version: Version = serde_json::from_slice(json).map_err(wrong)?;
        if version.v != VERSION {
            return Err(Flaw::unknown(format!(
                "the segment is of version {}",
                version.v
            )));
        }
        serde_json::from_slice(json).map_err(wrong)
    }

    /// Checks the line by itself: its place, its book, and that range and checkpoint say the same.
    pub(crate) fn check(
        &self,
        first: u64,
        origin: &Origin,
        keys: &Ring,
    ) -> Result<Option<Note>, Flaw> {
        if self.origin != *origin {
            return Err(Flaw::changed("the segment is of another book"));
        }
        if self.first.0 != first {
            return Err(Flaw::changed(
                "the segment's first line and its name disagree",
            ));
        }
        if (self.pruned).is_some_and(|pruned| pruned.0 == 0 || pruned > self.first) {
            return Err(Flaw::changed("the segment states a pruning that cannot be"));
        }
        let tip = self.tip()?;
        let encoded = match &self.prevcp {
            None if first == 0 => return Ok(None),
            Some(encoded) if first > 0 => encoded,
            Some(_) => return Err(Flaw::changed("the first segment repeats a checkpoint")),
            None => return Err(Flaw::changed("the segment repeats no checkpoint")),
        };
        let (note, checkpoint) = read_checkpoint(encoded.as_bytes()).map_err(Flaw::changed)?;
        if checkpoint.origin != origin.as_str()
            || checkpoint.size != first
            || checkpoint.root != tip.range.root()
        {
            return Err(Flaw::changed(
                "the tree the segment starts from is not that of the checkpoint it repeats",
            ));
        }
        // A key whose entry is not before this segment is put in force by nothing.
        if keys.ranges().iter().any(|range| range.from > first + 1) {
            return Err(Flaw::changed(
                "a key the segment states is not in force yet",
            ));
        }
        // This line is not signed: what contradicts it speaks against the line, not against whoever holds a key.
        keys.judge(&note, first)
            .map_err(|flaw| match flaw.is_key_range() {
                true => Flaw::changed(format!(
                    "the segment's keys are not those of its time: {}",
                    flaw.what
                )),
                false => flaw,
            })?;
        Ok(Some(note))
    }

    /// The keys the line states, of the book whose keys begin as `known` does.
    pub(crate) fn ring(&self, known: &Ring) -> Result<Ring, Flaw> {
        let first = known.ranges().first();
        let first = first.ok_or_else(|| Flaw::unknown("the book's first key is not known"))?;
        Ring::read(&self.keys, &first.vkey)
    }

    pub(crate) fn tip(&self) -> Result<Tip, Flaw> {
        let range =
            CompactRange::from_parts(self.first.0, self.range.clone()).ok_or_else(|| {
                Flaw::changed("the segment's compact range does not fit its first index")
            })?;
        // The last leaf of an odd tree is a node of its range.
        let last = match range.hashes().last() {
            None => NO_PREV,
            Some(hash) if range.size() % 2 == 1 => *hash,
            Some(_) => self.last,
        };
        if last != self.last {
            return Err(Flaw::changed(
                "the segment's last hash is not that of its compact range",
            ));
        }
        Ok(Tip { range, last })
    }

    pub(crate) fn open_calls(&self) -> Result<BTreeMap<CallId, OpenCall>, Flaw> {
        let open: BTreeMap<_, _> = self
            .calls
            .iter()
            .map(|c| {
                (
                    c.call.clone(),
                    OpenCall {
                        call: c.call.clone(),
                        process: c.process.clone(),
                        index: c.i.0,
                    },
                )
            })
            .collect();
        let rising = self.calls.is_sorted_by(|one, next| one.call < next.call);
        match rising && self.calls.iter().all(|call| call.i < self.first) {
            true => Ok(open),
            false => Err(Flaw::changed(
                "the segment's open calls are not in order, one is named twice, or one is not before it",
            )),
        }
    }
}
