//! What the writer adds of its own accord to tell time: `clock` where the clock stands behind the entry before (rule R9 of
//! recovery), `beat` where nothing was written for long; and the head it tells to whoever remembers it. Refuses to know how
//! entries are written.

use std::time::Duration;

use jiff::Timestamp;

use crate::error::BookError;
use crate::journal::batch::timestamp;
use crate::journal::prepare::Prepared;
use crate::journal::writer::Writer;
use crate::kinds::{Beat, Clock};
use crate::pin::Pin;

impl Writer {
    /// Appends a `beat` when the last entry of any process is `after` old or more, or of a time to come. Answers whether one was.
    /// Several processes that ask about the same moment write one between them.
    ///
    /// # Errors
    /// As [`Writer::commit`].
    pub fn beat(&mut self, after: Duration) -> Result<bool, BookError> {
        self.check_poisoned()?;
        self.locked(|writer| {
            writer.catch_up()?;
            let now = (writer.sources.clock)().as_millisecond();
            let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
            let quiet = writer
                .chain
                .time
                .is_none_or(|last| now < last || now.saturating_sub(last) >= after);
            if quiet {
                let process = writer.options.process.clone();
                writer.append(vec![Prepared::plain(Beat { process })?])?;
            }
            Ok(quiet)
        })
    }

    /// The signed head as of the last batch read, to be remembered outside of the book.
    #[must_use]
    pub fn head(&self) -> Pin {
        Pin {
            origin: self.chain.origin.clone(),
            size: self.chain.size(),
            root: self.chain.head.range.root(),
            key: self
                .chain
                .keys
                .in_force(self.chain.size())
                .map_or([0; 4], |range| range.vkey.id()),
        }
    }

    /// The batch, after a `clock` entry where `now` lies before the last entry; and how many entries that added.
    pub(super) fn with_clock(
        &self,
        mut batch: Vec<Prepared>,
        now: Timestamp,
    ) -> Result<(Vec<Prepared>, usize), BookError> {
        let Some(last) = self
            .chain
            .time
            .filter(|last| now.as_millisecond() < *last)
            .and_then(|last| Timestamp::from_millisecond(last).ok())
        else {
            return Ok((batch, 0));
        };
        let clock = Clock {
            last: timestamp(last),
            process: self.options.process.clone(),
        };
        batch.insert(0, Prepared::plain(clock)?);
        Ok((batch, 1))
    }

    /// Tells whoever remembers heads that this one is on disk.
    pub(super) fn tell_head(&self) {
        self.options.heads.tell(self.head());
    }
}
