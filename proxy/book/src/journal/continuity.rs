//! Whether the segments of a journal follow each other without a gap, by their first and last lines alone: what an opening that
//! reads only the last segment can know of the others. Refuses to read entries.

use std::borrow::Cow;
use std::path::Path;

use memchr::memmem::Finder;
use serde::Deserialize;

use crate::entry::{Common, Count};
use crate::error::{BookError, Damage};
use crate::files::{self, Lines};
use crate::journal::chain::{Flaw, milliseconds, read_checkpoint};
use crate::journal::layout::Layout;
use crate::journal::recover::first_line;
use crate::journal::ring::SegmentKey;
use crate::journal::segment::{CP, SegmentLine};
use crate::note::Vkey;
use crate::origin::Origin;

/// Bytes at a segment's end in which its last checkpoint is looked for first, and at most. A checkpoint line with one signature
/// has about 350 bytes; one with the most a reader accepts stays below 32 KiB.
const TAIL: [u64; 2] = [4 << 10, 64 << 10];

/// Checks that the segments form one chain from the first entry on.
///
/// # Errors
/// [`BookError::Removed`] where entries between two segments, or before the first, are not there; [`BookError::Damaged`] where two
/// segments contradict each other.
pub(crate) fn check(layout: &Layout, origin: &Origin) -> Result<(), BookError> {
    let segments = layout.segments()?;
    let Some(first) = segments.first().copied() else {
        return Ok(());
    };
    let start = recorded_start(layout, &segments)?;
    if first > start {
        return Err(BookError::Removed {
            from: start,
            until: first - 1,
            file: layout.segment(start),
        });
    }
    begins(layout, origin, first)?;
    for pair in segments.windows(2) {
        let [before, after] = pair else { continue };
        follows(layout, origin, *before, *after)?;
    }
    Ok(())
}

/// What a `prune` entry says that matters here.
#[derive(Deserialize)]
struct Minimum<'a> {
    i: Count,
    #[serde(borrow)]
    k: Cow<'a, str>,
    minimum: Count,
}

/// The index of the first entry the journal must still hold: 0, unless its beginning was given up on record. The last segment
/// tells: its first line what was pruned before it, its entries what was since. That both are signed is for others to say: who
/// opens the book reads the last segment, and `verify` holds every first line against the entries before it.
fn recorded_start(layout: &Layout, segments: &[u64]) -> Result<u64, BookError> {
    let (Some(1..), Some(last)) = (segments.first(), segments.last()) else {
        return Ok(0);
    };
    let path = layout.segment(*last);
    let io = || BookError::io("read", &path);
    let file = files::open_read(&path)?;
    let (line, _) = first_line(&file, &path, *last)?;
    // A line that is no first line is damage, which is found where the segments are looked at.
    let mut start = line.map_or(0, |line| line.pruned());
    let word = Finder::new(b"\"k\":\"prune\"");
    let mut lines = Lines::at(&file, 0, 0).map_err(io())?;
    while lines.next().map_err(io())?.is_some() {
        let line = lines.bytes();
        if line.starts_with(b"{")
            && word.find(line).is_some()
            && let Ok(entry) = serde_json::from_slice::<Minimum<'_>>(line)
            && entry.k == "prune"
            && entry.minimum <= entry.i
        {
            start = start.max(entry.minimum.0);
        }
    }
    Ok(start)
}

/// The first line of the segment that begins at `first`, checked by itself. Signatures are left to whoever reads the segment.
fn begins(layout: &Layout, origin: &Origin, first: u64) -> Result<SegmentLine, BookError> {
    let path = layout.segment(first);
    let line = first_line(&files::open_read(&path)?, &path, first)?.0;
    let checked = line.and_then(|line| {
        let tip = line.tip()?;
        let stated = match line
            .prevcp
            .as_ref()
            .map(|cp| read_checkpoint(cp.as_bytes()))
        {
            None => None,
            Some(Ok((_, checkpoint))) => Some(checkpoint),
            Some(Err(what)) => return Err(Flaw::changed(what)),
        };
        let fits = stated.is_none_or(|stated| stated.root == tip.range.root());
        match line.origin == *origin && line.first.0 == first && fits {
            true => Ok(line),
            false => Err(Flaw::changed(
                "the segment's first line is not that of its place in this book",
            )),
        }
    });
    checked.map_err(|flaw| match flaw.is_unknown() {
        true => BookError::Newer {
            path: path.clone(),
            found: flaw.what,
        },
        false => BookError::Damaged(Damage {
            file: path.clone(),
            line: 1,
            index: first,
            what: flaw.what,
        }),
    })
}

/// Whether segment `after` begins where segment `before` ends.
fn follows(layout: &Layout, origin: &Origin, before: u64, after: u64) -> Result<(), BookError> {
    let (old, new) = (layout.segment(before), layout.segment(after));
    let damaged = |file: &Path, what: &str| {
        Err(BookError::Damaged(Damage {
            file: file.to_owned(),
            line: 0,
            index: after,
            what: what.to_owned(),
        }))
    };
    let stated = begins(layout, origin, after)?;
    let Some(repeated) = &stated.prevcp else {
        return damaged(&new, "the segment repeats no checkpoint");
    };
    let Some(last) = last_line(&old)? else {
        return damaged(&old, "the segment does not end with a whole line");
    };
    let Some(encoded) = last.strip_prefix(CP) else {
        return damaged(
            &old,
            "the segment was ended and does not end with a checkpoint",
        );
    };
    if encoded == repeated.as_bytes() {
        return match read_checkpoint(encoded) {
            Ok((_, checkpoint)) if checkpoint.size == after => Ok(()),
            _ => damaged(
                &new,
                "the checkpoint the segment repeats is not of the entries before it",
            ),
        };
    }
    // Whole segments are missing only where what is left says so under a signature; anything else was changed.
    let keys = signers(&old, before)?;
    match read_checkpoint(encoded) {
        Ok((note, checkpoint))
            if note.verify(&keys).is_ok()
                && checkpoint.origin == origin.as_str()
                && checkpoint.size < after =>
        {
            Err(BookError::Removed {
                from: checkpoint.size,
                until: after - 1,
                file: layout.segment(checkpoint.size),
            })
        }
        _ => damaged(
            &old,
            "its last checkpoint is not the one the next segment repeats",
        ),
    }
}

/// The keys the segment at `path` says it is signed by.
fn signers(path: &Path, first: u64) -> Result<Vec<Vkey>, BookError> {
    let line = first_line(&files::open_read(path)?, path, first)?.0;
    let keys = line.map(|line: SegmentLine| line.keys).unwrap_or_default();
    Ok(keys.iter().filter_map(SegmentKey::vkey).collect())
}

/// The time of the last entry before the segment that begins at `first`, where the segment before it tells.
pub(crate) fn time_before(layout: &Layout, first: u64) -> Result<Option<i64>, BookError> {
    let segments = layout.segments()?;
    let at = segments.partition_point(|other| *other < first);
    let Some(before) = at.checked_sub(1).map(|at| segments[at]) else {
        return Ok(None);
    };
    let path = layout.segment(before);
    let tail = tail(&path, TAIL[1])?;
    let entry = tail
        .rsplit(|byte| *byte == b'\n')
        .find(|line| line.starts_with(b"{"));
    let common = entry
        .and_then(|line| std::str::from_utf8(line).ok())
        .and_then(|line| serde_json::from_str::<Common<'_>>(line).ok());
    Ok(common.and_then(|common| milliseconds(&common.ts)))
}

/// The last bytes of a file, at most `limit`.
fn tail(path: &Path, limit: u64) -> Result<Vec<u8>, BookError> {
    let file = files::open_read(path)?;
    let length = files::length(&file, path)?;
    let bytes = limit.min(length);
    let mut tail = vec![0; usize::try_from(bytes).unwrap_or_default()];
    files::read_at(&file, length - bytes, &mut tail).map_err(BookError::io("read", path))?;
    Ok(tail)
}

/// The last line of a file, without its line feed, when it is whole and not too long.
fn last_line(path: &Path) -> Result<Option<Vec<u8>>, BookError> {
    for limit in TAIL {
        let tail = tail(path, limit)?;
        let Some((b'\n', line)) = tail.split_last() else {
            return Ok(None);
        };
        if let Some(at) = memchr::memrchr(b'\n', line) {
            return Ok(Some(line[at + 1..].to_vec()));
        }
    }
    Ok(None)
}
