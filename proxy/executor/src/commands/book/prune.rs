//! `book prune`: removes the oldest entries with what is kept of them, on record, whole segments at a time.

use clap::Args;
use countersign_book::{BookError, Reader};
use jiff::Timestamp;
use serde_json::json;

use crate::commands::acts::{Act, Consent, consent};
use crate::commands::{Context, Report, plain};
use crate::keeper::upkeep::kept_since;
use crate::problem::Problem;

use super::{own_writer, refused, remember, unfinished};

/// How far.
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Entries below this number or older than this date (2026-11-30, or RFC 3339) [default: the setting `book.retain`]
    #[arg(long, value_name = "N|DATE", value_parser = before)]
    pub before: Option<Before>,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "retention")]
    pub reason: String,
    /// Whether it is asked for
    #[command(flatten)]
    pub consent: Consent,
}

/// Up to where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// An entry's number.
    Index(u64),
    /// A moment.
    Time(Timestamp),
}

fn before(text: &str) -> Result<Before, String> {
    if let Ok(index) = text.parse() {
        return Ok(Before::Index(index));
    }
    text.parse::<Timestamp>()
        .or_else(|_| format!("{text}T00:00:00Z").parse())
        .map(Before::Time)
        .map_err(|_| "give an entry's number, a date as 2026-11-30, or an RFC 3339 time".to_owned())
}

pub(super) fn run(context: &Context, args: &PruneArgs) -> Result<Report, Problem> {
    let settings = context.settings()?;
    let failed = |error: BookError| refused(context, &error);
    let before = match (args.before, settings.book.retain) {
        (Some(before), _) => before,
        (None, Some(days)) => Before::Time(kept_since(Timestamp::now(), days)),
        (None, None) => {
            return Err(Problem::new(
                "usage",
                "how far is not said: the setting `book.retain` is not set; nothing was changed",
                "give --before with an entry's number or a date",
            ));
        }
    };
    let reader = Reader::open(&context.folder.book()).map_err(failed)?;
    let index = match before {
        Before::Index(index) => index,
        Before::Time(time) => reader.older_than(time).map_err(failed)?,
    };
    let consequence = format!(
        "entries below {index} are removed for ever, in whole files of the journal only, and with them the files of the vault that no \
         later entry shares; the book says so and the rest stays provable. What is kept of them in a shared file stays there, encrypted, \
         and `countersign book erase` can't reach it any more: erase first what must go"
    );
    let act = Act {
        command: "book prune",
        consequence: &consequence,
    };
    consent(context, &act, args.consent)?;
    let store = context.secrets(&settings)?;
    let mut writer = own_writer(context, &settings, store.as_ref())?;
    let done = writer
        .prune(index, &plain(&args.reason), "countersign book prune")
        .map_err(|error| unfinished(context, act.command, &error))?;
    remember(context, store.as_ref(), &writer);
    let text = match done.entry {
        Some(entry) => format!(
            "pruned: the book begins with entry {} now, on record in entry {entry}; {} files of entries and {} of payloads were removed, \
             {} bytes\n",
            done.minimum, done.segments, done.vault_segments, done.bytes
        ),
        None => format!(
            "nothing to prune: no file holds only entries below {index}; the book begins with entry {}\n",
            done.minimum
        ),
    };
    Ok(Report::new(
        text,
        json!({
            "entry": done.entry, "minimum": done.minimum, "segments": done.segments, "vault_segments": done.vault_segments,
            "bytes": done.bytes,
        }),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_dates_and_times_are_told_apart() {
        let time = |text: &str| Ok(Before::Time(text.parse().unwrap()));
        for (text, expected) in [
            ("17", Ok(Before::Index(17))),
            ("2026-11-30", time("2026-11-30T00:00:00Z")),
            ("2026-11-30T12:00:00+02:00", time("2026-11-30T10:00:00Z")),
        ] {
            assert_eq!(before(text), expected, "{text}");
        }
        for bad in ["", "-1", "yesterday", "2026-13-01", "30.11.2026"] {
            assert!(before(bad).is_err(), "{bad}");
        }
    }
}
