//! How far a book is older than a moment, by what its entries say. Refuses to remove anything and to know what time it is.

use std::ops::ControlFlow;

use jiff::Timestamp;

use crate::entry::Common;
use crate::error::BookError;
use crate::files::{self, Lines};
use crate::journal::chain::milliseconds;
use crate::reader::Reader;

impl Reader {
    /// The index below which every entry is older than `time`, by whole segments: the first of the segment that holds the first
    /// entry that is not, or whose time can't be read. Clocks step back, so entries are read one by one; never those of the last
    /// segment, which is never removed.
    ///
    /// # Errors
    /// [`BookError::Io`].
    pub fn older_than(&self, time: Timestamp) -> Result<u64, BookError> {
        let segments = self.layout.segments()?;
        let Some((last, before)) = segments.split_last() else {
            return Ok(0);
        };
        for first in before {
            let mut older = true;
            self.times(*first, |ms| {
                older = ms.is_some_and(|ms| ms < time.as_millisecond());
                match older {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })?;
            if !older {
                return Ok(*first);
            }
        }
        Ok(*last)
    }

    /// The time of the newest entry at or before `until`, in the newest segment that begins with one. None where none does.
    ///
    /// # Errors
    /// [`BookError::Io`].
    pub fn newest_before(&self, until: Timestamp) -> Result<Option<Timestamp>, BookError> {
        for first in self.layout.segments()?.into_iter().rev() {
            let (mut newest, mut begins) = (None, None);
            self.times(first, |ms| {
                let before = ms.filter(|ms| *ms <= until.as_millisecond());
                newest = newest.max(before);
                match *begins.get_or_insert(before.is_some()) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })?;
            if let Some(newest) = newest {
                return Ok(Timestamp::from_millisecond(newest).ok());
            }
        }
        Ok(None)
    }

    /// Gives the time of every entry of a segment; none for one that says none.
    fn times(
        &self,
        first: u64,
        mut give: impl FnMut(Option<i64>) -> ControlFlow<()>,
    ) -> Result<(), BookError> {
        let path = self.layout.segment(first);
        let io = || BookError::io("read", &path);
        let mut lines = Lines::at(&files::open_read(&path)?, 0, 0).map_err(io())?;
        while lines.next().map_err(io())?.is_some() {
            let line = lines.bytes();
            if !line.starts_with(b"{") {
                continue;
            }
            let entry = std::str::from_utf8(line).ok();
            let entry = entry.and_then(|line| serde_json::from_str::<Common<'_>>(line).ok());
            if give(entry.and_then(|entry| milliseconds(&entry.ts))).is_break() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;
    use crate::journal::tests::{KEK, SEED, draft, folder, options, sources};
    use crate::{Signer, Sources, VaultKey, Writer, WriterOptions};

    const DAY: i64 = 86_400_000;

    /// A book of one entry in each segment, each written that many days after the first of January 2030; without an
    /// expected index it is that of the last segment.
    fn check(days: &[i64], older_than: i64, expected: Option<u64>) {
        let start: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let start = start.as_millisecond();
        let at = move |days: i64| Timestamp::from_millisecond(start + days * DAY).unwrap();
        let folder = folder();
        let now = Arc::new(AtomicI64::new(0));
        let clock = Arc::clone(&now);
        let sources = Sources {
            clock: Box::new(move || at(clock.load(Ordering::SeqCst))),
            ..sources(5)
        };
        let options = WriterOptions {
            segment_bytes: 1,
            ..options("p")
        };
        let (signer, key) = (Signer::from_seed(SEED), VaultKey::from_bytes(KEK));
        let mut writer = Writer::open(&folder.book, signer, key, sources, options).unwrap();
        for (n, day) in days.iter().enumerate() {
            now.store(*day, Ordering::SeqCst);
            writer.commit(vec![draft(n as u64, "p")]).unwrap();
        }
        let reader = Reader::open(&folder.book).unwrap();
        let last = reader.layout.segments().unwrap().pop().unwrap();
        let found = reader.older_than(at(older_than)).unwrap();
        assert_eq!(found, expected.unwrap_or(last), "{days:?}");
    }

    #[test]
    fn whole_segments_that_are_older_count_and_a_clock_that_was_wrong_keeps_more() {
        // Entry 0 is of 2026; then one entry a segment.
        check(&[0, 1, 2, 3], 2, Some(3));
        check(&[0, 1, 2, 3], 0, Some(1));
        // All are older: the last one stays.
        check(&[0, 1, 2, 3], 100, None);
        // The clock stood in 2020 for a while: what was written before is not older for that.
        check(&[0, 1, 2, 3, -3650, -3650, 4, 5], 2, Some(3));
        // It stood in 2040: what follows stays, too.
        check(&[0, 3650, 2, 3, 4], 3, Some(2));
    }

    #[test]
    fn the_newest_entry_before_a_moment_is_found() {
        let folder = folder();
        let reader = Reader::open(&folder.book).unwrap();
        let first = reader.newest_before(Timestamp::MAX).unwrap().unwrap();
        assert_eq!(reader.newest_before(first).unwrap(), Some(first));
        let before = first - jiff::SignedDuration::from_millis(1);
        assert_eq!(reader.newest_before(before).unwrap(), None);
    }
}
