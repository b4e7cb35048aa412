//! A time in which the book takes no entries: why, in words for the agent, the log and the record, and how it ends. Owns the
//! judgement which failures may heal; refuses to know the queue.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use countersign_book::{BookError, Count, Draft, Gap};
use countersign_gate::ports::Held;
use jiff::Timestamp;

use crate::condition::Condition;

/// How long after a failure the book is opened anew for the first time, and at most later on. Each failure doubles it.
const FIRST_TRY: Duration = Duration::from_secs(1);
const LAST_TRY: Duration = Duration::from_secs(30);

/// Why the book does not take entries, in words for the log and the person.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{words}")]
pub struct Stopped {
    words: Arc<str>,
    why: &'static str,
    condition: Option<Condition>,
}

/// An outage: since when, and what was not recorded because of it.
#[derive(Debug)]
pub(super) struct Outage {
    stopped: Stopped,
    reason: &'static str,
    from: Timestamp,
    wait: Duration,
}

impl Stopped {
    /// `words` for the log and the person; `why` is a sentence part without paths that the agent may read.
    pub fn new(words: impl Into<Arc<str>>, why: &'static str) -> Self {
        Self {
            words: words.into(),
            why,
            condition: None,
        }
    }

    /// The state of the book that only a person can end, in the gate's words.
    #[must_use]
    pub fn held(&self) -> Option<Held> {
        self.condition.map(Condition::held)
    }

    /// The reason as a sentence part, without paths.
    #[must_use]
    pub fn why(&self) -> &'static str {
        self.why
    }
}

impl From<&BookError> for Stopped {
    fn from(error: &BookError) -> Self {
        let condition = (!heals(error)).then(|| Condition::of(error)).flatten();
        Self {
            condition,
            ..Self::new(error.to_string(), judge(error).0)
        }
    }
}

impl Outage {
    /// The outage that begins with `error`; nothing when only a person can end it.
    pub(super) fn begin(error: &BookError) -> Option<Self> {
        heals(error).then(|| Self {
            stopped: Stopped::from(error),
            reason: judge(error).1,
            from: Timestamp::now(),
            wait: FIRST_TRY,
        })
    }

    /// What everybody is answered.
    pub(super) fn stopped(&self) -> &Stopped {
        &self.stopped
    }

    /// How long to wait before the next try.
    pub(super) fn wait(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = (wait * 2).min(LAST_TRY);
        wait
    }

    /// The entry that puts it on record: `count` entries are not there.
    pub(super) fn gap(&self, process: &str, count: u64) -> Draft {
        let time = |at: Timestamp| at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
        Draft::new(Gap {
            count: Some(Count(count)),
            from: Some(time(self.from)),
            process: process.to_owned(),
            reason: self.reason.to_owned(),
            until: Some(time(Timestamp::now())),
        })
    }
}

/// Whether opening the book anew may succeed without anybody having looked at it: the system refused, the record is as it was.
fn heals(error: &BookError) -> bool {
    matches!(error, BookError::Io { .. })
}

/// The reason for the agent, and its word in a `gap`.
fn judge(error: &BookError) -> (&'static str, &'static str) {
    match error {
        BookError::Io { source, .. } => match source.kind() {
            ErrorKind::StorageFull => ("no space is left on the disk", "no_space"),
            ErrorKind::QuotaExceeded => ("the disk quota is used up", "no_space"),
            ErrorKind::ReadOnlyFilesystem => ("the disk can only be read", "read_only"),
            ErrorKind::PermissionDenied => ("the book's files may not be written", "not_permitted"),
            _ => ("the disk reports an error", "disk_error"),
        },
        BookError::Damaged(_) => (
            "the book is damaged, which only a person can decide about; `countersign book verify` says where",
            "damaged",
        ),
        BookError::Gone { .. } => (
            "the book's files were taken away while it was open; put them back and restart",
            "gone",
        ),
        BookError::Newer { .. } => (
            "a newer version of countersign wrote the book; restart with that",
            "newer",
        ),
        BookError::WrongKey { .. } | BookError::WrongVaultKey => {
            ("the key at hand is not the book's", "wrong_key")
        }
        BookError::Entry(_) => ("no entry of the record can be made of it", "not_an_entry"),
        BookError::Entropy(_) => ("the system gives no random bytes", "no_random"),
        _ => (
            "the book can't be opened; `countersign doctor` says why",
            "not_opened",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn failed(code: i32) -> BookError {
        BookError::Io {
            action: "write",
            path: PathBuf::from("/secret/book"),
            source: std::io::Error::from_raw_os_error(code),
        }
    }

    #[cfg(unix)]
    #[test]
    fn b16_what_the_agent_reads_says_why_and_names_no_path() {
        for (code, why, reason) in [
            (28, "no space is left on the disk", "no_space"),
            (122, "the disk quota is used up", "no_space"),
            (30, "the disk can only be read", "read_only"),
            (5, "the disk reports an error", "disk_error"),
        ] {
            let outage = Outage::begin(&failed(code)).expect("it may heal");
            assert_eq!((outage.stopped().why(), outage.reason), (why, reason));
            assert!(!outage.stopped().why().contains('/'));
        }
    }

    #[test]
    fn what_a_person_must_decide_never_heals_by_itself() {
        let gone = BookError::Gone {
            path: PathBuf::new(),
            found: String::new(),
        };
        for error in [
            gone,
            BookError::WrongVaultKey,
            BookError::NotFound(String::new()),
        ] {
            assert!(Outage::begin(&error).is_none(), "{error}");
        }
    }

    #[test]
    fn tries_become_rarer_up_to_a_limit() {
        let mut outage = Outage::begin(&failed(28)).expect("it may heal");
        let waits: Vec<u64> = (0..8).map(|_| outage.wait().as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
    }
}
