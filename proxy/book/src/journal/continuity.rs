//! Whether the segments of a journal follow each other without a gap, by their first and last lines alone: what an opening that
//! reads only the last segment can know of the others. Refuses to read entries.

use std::path::Path;

use crate::error::{BookError, Damage};
use crate::files;
use crate::journal::chain::read_checkpoint;
use crate::journal::layout::Layout;
use crate::journal::recover::first_line;
use crate::journal::segment::{CP, SegmentLine};
use crate::note::Vkey;

/// Bytes at a segment's end in which its last checkpoint is looked for first, and at most. A checkpoint line with one signature
/// has about 350 bytes; one with the most a reader accepts stays below 32 KiB.
const TAIL: [u64; 2] = [4 << 10, 64 << 10];

/// Checks that the segments form one chain from the first entry on.
///
/// # Errors
/// [`BookError::Removed`] where entries between two segments, or before the first, are not there; [`BookError::Damaged`] where two
/// segments contradict each other.
pub(crate) fn check(layout: &Layout) -> Result<(), BookError> {
    let segments = layout.segments()?;
    let Some(first) = segments.first().copied() else {
        return Ok(());
    };
    let start = recorded_start(layout)?;
    if first > start {
        return Err(BookError::Removed {
            from: start,
            until: first - 1,
            file: layout.segment(start),
        });
    }
    for pair in segments.windows(2) {
        let [before, after] = pair else { continue };
        follows(layout, *before, *after)?;
    }
    Ok(())
}

/// The index of the first entry the journal must still hold: 0, unless its beginning was given up on record.
#[allow(
    clippy::unnecessary_wraps,
    reason = "whoever reads a `prune` entry here reads files"
)]
fn recorded_start(_layout: &Layout) -> Result<u64, BookError> {
    Ok(0)
}

/// Whether segment `after` begins where segment `before` ends.
fn follows(layout: &Layout, before: u64, after: u64) -> Result<(), BookError> {
    let (old, new) = (layout.segment(before), layout.segment(after));
    let damaged = |file: &Path, what: &str| {
        Err(BookError::Damaged(Damage {
            file: file.to_owned(),
            line: 0,
            index: after,
            what: what.to_owned(),
        }))
    };
    let stated = match first_line(&files::open_read(&new)?, &new, after)?.0 {
        Ok(line) => line,
        Err(flaw) if flaw.unknown => {
            return Err(BookError::Newer {
                path: new,
                found: flaw.what,
            });
        }
        Err(flaw) => return damaged(&new, &flaw.what),
    };
    let Some(repeated) = stated.prevcp else {
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
                "the checkpoint the segment repeats is not of its first entry",
            ),
        };
    }
    // Whole segments are missing only where what is left says so under a signature; anything else was changed.
    let keys = signers(&old, before)?;
    match read_checkpoint(encoded) {
        Ok((note, checkpoint))
            if note.verify(&keys).is_ok()
                && checkpoint.origin == stated.origin.as_str()
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
    Ok(keys
        .iter()
        .filter_map(|key| Vkey::parse(key).ok())
        .collect())
}

/// The last line of a file, without its line feed, when it is whole and not too long.
fn last_line(path: &Path) -> Result<Option<Vec<u8>>, BookError> {
    let file = files::open_read(path)?;
    let length = files::length(&file, path)?;
    for limit in TAIL {
        let bytes = limit.min(length);
        let mut tail = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        let whole = files::read_at(&file, length - bytes, &mut tail)
            .map_err(BookError::io("read", path))?;
        let Some((b'\n', line)) = tail.split_last().filter(|_| whole) else {
            return Ok(None);
        };
        if let Some(at) = memchr::memrchr(b'\n', line) {
            return Ok(Some(line[at + 1..].to_vec()));
        }
    }
    Ok(None)
}
