//! Parts of verification: reading on while somebody writes, the key a book is held against, a start that is not there. Refuses
//! to know the order of steps, which is `verify`'s.

use crate::error::BookError;
use crate::files;
use crate::finding::{Finding, FindingKind};
use crate::journal::chain::Chain;
use crate::journal::layout::Layout;
use crate::journal::scan::{Place, Scan, Tail};
use crate::note::Vkey;
use crate::verify::Report;
use crate::witnessed::Witnessed;

/// Bytes of a tail that are read again while somebody holds the lock and the tail does not change.
const MAX_REREAD: u64 = 256 << 20;

/// How often a batch that is being written is waited for before it counts as a tail.
const PATIENCE: u32 = 20_000;

/// What speaks against the key the book is held against: it must be one of the book's, and where the entries that put it in
/// force were pruned, the one that is.
pub(crate) fn held(
    layout: &Layout,
    key: &Vkey,
    chain: &Chain,
    end: Option<&Finding>,
) -> Option<Finding> {
    let finding = |kind, what: String| Finding {
        kind,
        file: layout.book(),
        line: 3,
        index: 0,
        what,
    };
    let ranges = chain.keys.ranges();
    let Some(range) = ranges.iter().find(|range| range.vkey == *key) else {
        let broken = end.is_some_and(Finding::is_break);
        return Some(
            if broken
                && ranges
                    .first()
                    .is_some_and(|first| first.vkey.name() == key.name())
            {
                let what = "up to there the key given is not in force: whether it is this book's is not known";
                finding(FindingKind::Unverifiable, what.to_owned())
            } else {
                let first = ranges.first().map(|first| first.vkey.to_string());
                let what = format!(
                    "the book states the key `{}`, another than the pinned one",
                    first.unwrap_or_default()
                );
                finding(FindingKind::Replaced, what)
            },
        );
    };
    let begun = chain.begun;
    if begun > 0 && range.from <= begun + 1 && chain.keys.in_force(begun + 1) != Some(range) {
        let what = "the key given was replaced before the first kept entry, and what put its successor in force was pruned: give \
                    the key in force";
        return Some(finding(FindingKind::Unverifiable, what.to_owned()));
    }
    None
}

/// What is to be said about entries that are not there: pruned on record, or removed.
pub(crate) fn start(
    layout: &Layout,
    report: &Report,
    seen: &Witnessed<'_>,
    end: Option<&Finding>,
) -> Option<Finding> {
    let first = report.first;
    let broken = end.is_some_and(Finding::is_break);
    let (kind, what) = match seen.pruned {
        _ if first == 0 => return None,
        Some((minimum, entry)) if minimum >= first => (
            FindingKind::Pruned,
            format!(
                "the entries 0 to {} were pruned, on record in entry {entry}",
                first - 1
            ),
        ),
        _ if broken => (
            FindingKind::Removed,
            format!(
                "the segments with the entries 0 to {} are not there, and no entry that can be read says why",
                first - 1
            ),
        ),
        _ => (
            FindingKind::Removed,
            format!(
                "the segments with the entries 0 to {} are not there, and no entry says why",
                first - 1
            ),
        ),
    };
    Some(Finding {
        kind,
        file: layout.journal(),
        line: 0,
        index: first,
        what,
    })
}

/// Reads one segment until nobody is writing in it.
pub(crate) fn settle(
    layout: &Layout,
    scan: &Scan<'_>,
    chain: &mut Chain,
    mut place: Place,
    seen: &mut Witnessed<'_>,
) -> Result<(Place, Option<Tail>), BookError> {
    let (mut before, mut read): (Option<Tail>, u64) = (None, 0);
    for _ in 0..PATIENCE {
        let free = files::lock_is_free(&layout.lock());
        let tail = scan.advance(chain, &mut place, seen)?;
        // The same tail twice, and nobody held the lock in between: no batch on its way.
        read += tail.as_ref().map_or(0, |tail| tail.end - tail.start);
        if tail.is_none() || free && tail == before || read > MAX_REREAD && tail == before {
            return Ok((place, tail));
        }
        before = tail;
        std::thread::yield_now();
    }
    Ok((place, before))
}
