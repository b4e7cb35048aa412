//! The keys of a book and the sizes each may sign. Refuses to know where secrets are kept and to verify signatures of keys in
//! their range: it says which keys a note must be verified with.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::entry::Count;
use crate::facts::Rotation;
use crate::journal::chain::Flaw;
use crate::note::{Note, Vkey};

/// A key and the sizes of the checkpoints it may sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The key.
    pub vkey: Vkey,
    /// The first size; 0 for a book's first key.
    pub from: u64,
    /// The last size; none for the key in force.
    pub until: Option<u64>,
}

/// Every key a book ever had, oldest first. The last one is in force; keys before it may sign beside it until their range ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    ranges: Vec<KeyRange>,
    vkeys: Arc<[Vkey]>,
}

/// A key as a segment's first line states it: alone while the book has had no other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum SegmentKey {
    Only(String),
    Range(StatedRange),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatedRange {
    from: Count,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    until: Option<Count>,
    vkey: String,
}

impl SegmentKey {
    /// The key, where it is of a form this version knows.
    pub(crate) fn vkey(&self) -> Option<Vkey> {
        let text = match self {
            Self::Only(vkey) => vkey,
            Self::Range(stated) => &stated.vkey,
        };
        Vkey::parse(text).ok()
    }
}

impl KeyRange {
    /// Whether the key may sign a checkpoint of that size.
    #[must_use]
    pub fn covers(&self, size: u64) -> bool {
        size >= self.from && self.until.is_none_or(|until| size <= until)
    }
}

impl Ring {
    /// The ring of a book that has had one key.
    pub(crate) fn new(first: Vkey) -> Self {
        Self::of(vec![KeyRange {
            vkey: first,
            from: 0,
            until: None,
        }])
    }

    fn of(ranges: Vec<KeyRange>) -> Self {
        let vkeys = ranges.iter().map(|range| range.vkey.clone()).collect();
        Self { ranges, vkeys }
    }

    /// Every key the book ever had.
    pub(crate) fn vkeys(&self) -> &Arc<[Vkey]> {
        &self.vkeys
    }

    /// The keys with their ranges, oldest first.
    pub(crate) fn ranges(&self) -> &[KeyRange] {
        &self.ranges
    }

    /// The key that must sign a checkpoint of this size.
    pub(crate) fn in_force(&self, size: u64) -> Option<&KeyRange> {
        self.ranges.iter().rev().find(|range| range.covers(size))
    }

    /// The keys that may sign a checkpoint of this size, oldest first.
    pub(crate) fn signing(&self, size: u64) -> impl Iterator<Item = &Vkey> {
        let covering = self.ranges.iter().filter(move |range| range.covers(size));
        covering.map(|range| &range.vkey)
    }

    /// Judges by whom a checkpoint of this size claims to be signed: the key in force must have, no key may outside its range.
    pub(crate) fn judge(&self, note: &Note, size: u64) -> Result<(), Flaw> {
        let mut named = false;
        let genuine = || {
            note.verify(&self.vkeys)
                .map_err(|error| Flaw::changed(format!("the checkpoint is refused: {error}")))
        };
        for range in self.ranges.iter().filter(|range| note.names(&range.vkey)) {
            named = true;
            if range.covers(size) {
                continue;
            }
            genuine()?;
            return Err(Flaw::key_range(format!(
                "the checkpoint of {size} entries is signed by the key {}, which may sign {}",
                short(&range.vkey),
                range.words()
            )));
        }
        match self.in_force(size) {
            Some(range) if note.names(&range.vkey) => Ok(()),
            Some(range) if named => {
                genuine()?;
                Err(Flaw::key_range(format!(
                    "the checkpoint of {size} entries is not signed by the key in force, {}",
                    short(&range.vkey)
                )))
            }
            _ => Err(Flaw::unknown(
                "the checkpoint is signed by a key that is not known here",
            )),
        }
    }

    /// Takes a rotation that a checkpoint of `size` entries covers.
    pub(crate) fn rotate(&mut self, rotation: &Rotation, size: u64) -> Result<(), Flaw> {
        let strange = |what: &str| Flaw::beyond(format!("entry {}: {what}", rotation.index));
        let vkey = Vkey::parse(&rotation.vkey)
            .map_err(|_| strange("its new key is of a form this version does not know"))?;
        let until = rotation.until.unwrap_or(size);
        let Some(last) = self.ranges.last_mut() else {
            return Err(strange("there is no key before it"));
        };
        if rotation.index + 1 != size || rotation.from != size + 1 || until < size {
            return Err(strange("its ranges do not follow the key before"));
        }
        if vkey.name() != last.vkey.name() || self.vkeys.iter().any(|key| key.id() == vkey.id()) {
            return Err(strange("its new key is of another book or not new"));
        }
        last.until = Some(until);
        self.ranges.push(KeyRange {
            vkey,
            from: rotation.from,
            until: None,
        });
        *self = Self::of(std::mem::take(&mut self.ranges));
        Ok(())
    }

    /// As a segment's first line states it.
    pub(crate) fn stated(&self) -> Vec<SegmentKey> {
        match self.ranges.as_slice() {
            [only] => vec![SegmentKey::Only(only.vkey.to_string())],
            ranges => ranges
                .iter()
                .map(|range| {
                    SegmentKey::Range(StatedRange {
                        from: Count(range.from),
                        until: range.until.map(Count),
                        vkey: range.vkey.to_string(),
                    })
                })
                .collect(),
        }
    }

    /// Reads what a segment's first line states about the book whose first key is `first`.
    pub(crate) fn read(stated: &[SegmentKey], first: &Vkey) -> Result<Self, Flaw> {
        let wrong = || Flaw::changed("the keys the segment states do not follow each other");
        let unknown = || Flaw::unknown("the segment is signed by keys that are not known here");
        let mut ranges: Vec<KeyRange> = Vec::with_capacity(stated.len());
        for key in stated {
            let (from, until) = match key {
                SegmentKey::Only(_) => (0, None),
                SegmentKey::Range(range) => (range.from.0, range.until.map(|until| until.0)),
            };
            let vkey = key.vkey().ok_or_else(unknown)?;
            ranges.push(KeyRange { vkey, from, until });
        }
        if ranges.first().is_none_or(|range| range.vkey != *first) {
            return Err(unknown());
        }
        let follow = |pair: &[KeyRange]| match pair {
            [before, after] => {
                let ends = before.until.map(|until| until.saturating_add(1));
                after.from > before.from && ends.is_some_and(|ends| ends >= after.from)
            }
            _ => false,
        };
        let ids: std::collections::BTreeSet<_> =
            ranges.iter().map(|range| range.vkey.id()).collect();
        if ranges[0].from != 0
            || !ranges.windows(2).all(follow)
            || ids.len() != ranges.len()
            || ranges.iter().any(|range| range.vkey.name() != first.name())
        {
            return Err(wrong());
        }
        let ring = Self::of(ranges);
        // One way to say it only, and exactly one key in force.
        if ring.stated() != stated || ring.ranges.last().is_none_or(|last| last.until.is_some()) {
            return Err(wrong());
        }
        Ok(ring)
    }
}

impl KeyRange {
    fn words(&self) -> String {
        match self.until {
            None => format!("from {} entries on", self.from),
            Some(until) => format!("from {} to {until} entries", self.from),
        }
    }
}

/// The key id, as people compare it.
fn short(vkey: &Vkey) -> String {
    data_encoding::HEXLOWER.encode(&vkey.id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, Signer};

    fn key(seed: u8) -> (Vkey, Signer) {
        let signer = Signer::from_seed([seed; 32]);
        (signer.vkey(&Origin::from_id([1; 16])), signer)
    }

    fn rotated() -> Ring {
        let mut ring = Ring::new(key(1).0);
        let rotation = Rotation {
            index: 9,
            vkey: key(2).0.to_string(),
            from: 11,
            until: Some(20),
        };
        ring.rotate(&rotation, 10).unwrap();
        ring
    }

    #[test]
    fn b31_each_key_signs_its_sizes_only() {
        let ring = rotated();
        let note = |seeds: &[u8]| {
            let keys: Vec<_> = seeds.iter().map(|seed| key(*seed)).collect();
            let signers: Vec<_> = keys.iter().map(|(vkey, signer)| (vkey, signer)).collect();
            Note::parse(crate::note::sign("x\n", &signers).as_bytes()).unwrap()
        };
        let judged = |seeds: &[u8], size| match ring.judge(&note(seeds), size) {
            Ok(()) => "good",
            Err(flaw) if flaw.is_key_range() => "range",
            Err(flaw) if flaw.is_unknown() => "unknown",
            Err(_) => "changed",
        };
        for (seeds, size, expected) in [
            (&[1][..], 10, "good"),
            (&[2], 10, "range"),
            (&[1, 2], 10, "range"),
            (&[1, 2], 11, "good"),
            (&[2], 11, "good"),
            (&[1], 11, "range"),
            (&[1, 2], 20, "good"),
            (&[1, 2], 21, "range"),
            (&[1], 21, "range"),
            (&[2], 21, "good"),
            (&[3], 21, "unknown"),
            (&[3, 2], 21, "good"),
        ] {
            assert_eq!(judged(seeds, size), expected, "{seeds:?} at {size}");
        }
    }

    #[test]
    fn a_ring_is_stated_in_one_way_and_read_back() {
        let (first, ring) = (key(1).0, rotated());
        assert_eq!(Ring::read(&ring.stated(), &first).unwrap(), ring);
        let one = Ring::new(first.clone());
        assert_eq!(Ring::read(&one.stated(), &first).unwrap(), one);
        let range = |seed, from, until: Option<u64>| {
            SegmentKey::Range(StatedRange {
                from: Count(from),
                until: until.map(Count),
                vkey: key(seed).0.to_string(),
            })
        };
        for bad in [
            vec![],
            vec![range(1, 0, None)],
            vec![range(2, 0, None)],
            vec![range(1, 1, Some(10)), range(2, 11, None)],
            vec![range(1, 0, Some(9)), range(2, 11, None)],
            vec![range(1, 0, None), range(2, 11, None)],
            vec![range(1, 0, Some(20)), range(2, 11, Some(30))],
        ] {
            assert!(Ring::read(&bad, &first).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn rotations_that_do_not_follow_are_not_understood() {
        let good = Rotation {
            index: 9,
            vkey: key(2).0.to_string(),
            from: 11,
            until: None,
        };
        for bad in [
            Rotation {
                index: 8,
                ..good.clone()
            },
            Rotation {
                from: 10,
                ..good.clone()
            },
            Rotation {
                until: Some(9),
                ..good.clone()
            },
            Rotation {
                vkey: key(1).0.to_string(),
                ..good.clone()
            },
            Rotation {
                vkey: "k".into(),
                ..good.clone()
            },
        ] {
            let mut ring = Ring::new(key(1).0);
            assert!(ring.rotate(&bad, 10).unwrap_err().is_unknown(), "{bad:?}");
        }
        Ring::new(key(1).0).rotate(&good, 10).unwrap();
    }
}
