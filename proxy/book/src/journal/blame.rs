//! Finds which entry of a batch was changed: the signed root and the next entry's `prev` still know its hash. Refuses to
//! repair anything.

use std::fs::File;

use crate::entry::Common;
use crate::files::Lines;
use crate::journal::chain::{Chain, MAX_UNSIGNED, read_checkpoint};
use crate::journal::scan::Place;
use crate::journal::segment::CP;
use crate::tree::{Hash, leaf_hash};

/// The entry that was changed.
pub(crate) struct Blamed {
    pub line: u64,
    pub index: u64,
    pub what: String,
}

/// Reads the batch after `place` and names its first changed entry, when the lines are as many as were signed and the
/// signed root proves it.
pub(crate) fn blame(file: &File, place: Place, chain: &Chain) -> Option<Blamed> {
    let mut lines = Lines::at(file, place.offset, place.line).ok()?;
    let mut leaves: Vec<(u64, Hash, Option<Hash>)> = Vec::new();
    let checkpoint = loop {
        let line = lines.next().ok()??;
        if let Some(encoded) = lines.bytes().strip_prefix(CP) {
            let (note, checkpoint) = read_checkpoint(encoded).ok()?;
            note.verify(chain.keys.vkeys()).ok()?;
            break checkpoint;
        }
        if !line.whole || leaves.len() as u64 > MAX_UNSIGNED {
            return None;
        }
        let text = std::str::from_utf8(lines.bytes()).ok();
        let prev = text
            .and_then(|text| serde_json::from_str::<Common<'_>>(text).ok())
            .map(|common| common.prev);
        leaves.push((line.number, leaf_hash(lines.bytes()), prev));
    };
    let size = chain.size();
    if checkpoint.origin != chain.origin.as_str() || checkpoint.size != size + leaves.len() as u64 {
        return None;
    }
    // The hash each entry had when it was signed, as far as the entry after it states it.
    let stated: Vec<Hash> = (0..leaves.len())
        .map(|at| {
            leaves
                .get(at + 1)
                .and_then(|(_, _, prev)| *prev)
                .unwrap_or(leaves[at].1)
        })
        .collect();
    let mut range = chain.head.range.clone();
    stated.iter().for_each(|hash| range.push(*hash));
    let changed = stated
        .iter()
        .zip(&leaves)
        .position(|(stated, (_, hash, _))| stated != hash);
    let at = match changed {
        Some(at) if range.root() == checkpoint.root => at,
        // Every entry but the last is what the one after it states.
        None if range.root() != checkpoint.root => leaves.len().checked_sub(1)?,
        _ => return None,
    };
    Some(Blamed {
        line: leaves[at].0,
        index: size + at as u64,
        what: "the entry is not the one that was signed".into(),
    })
}
