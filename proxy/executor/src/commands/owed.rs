//! Brings what a command has just decided into the book at once, where that needs nobody's answer. Where it cannot, the store keeps it
//! until an executor runs, and the command says so: what was decided holds either way.

use countersign_gate::turn::TurnFact;
use jiff::Timestamp;
use serde_json::Value;

use crate::keeper::owed::owed;
use crate::problem::Problem;
use crate::secrets::Interaction;
use crate::settings::Settings;
use crate::store::{StateDb, StoreFault};

use super::Context;
use super::book::{own_writer, remember};

/// Whether it stands in the book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OnRecord {
    /// In this entry, the last one written.
    Entry(u64),
    /// Another process was faster.
    There,
    /// Another process brings it there, now or when the next one runs.
    Later,
}

/// Writes what is owed and `mine`, the facts of turns the caller has just made.
pub(super) fn bring(
    context: &Context,
    settings: &Settings,
    state: &StateDb,
    mine: &[TurnFact],
) -> OnRecord {
    match write(context, settings, state, mine) {
        Ok(Some(entry)) => OnRecord::Entry(entry),
        Ok(None) => match is_owed(state, mine) {
            Ok(false) => OnRecord::There,
            Ok(true) | Err(_) => OnRecord::Later,
        },
        Err(problem) => {
            tracing::warn!("it is not in the book yet: {problem}");
            OnRecord::Later
        }
    }
}

impl OnRecord {
    /// For a person.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Entry(entry) => format!("on record in entry {entry} of the book\n"),
            Self::There => "on record in the book\n".to_owned(),
            Self::Later => {
                "it stands in the book as soon as an executor runs; it holds from now on\n"
                    .to_owned()
            }
        }
    }

    /// For a script: the entry, or whether it is there at all.
    pub(super) fn json(&self) -> Value {
        match self {
            Self::Entry(entry) => (*entry).into(),
            Self::There => true.into(),
            Self::Later => false.into(),
        }
    }
}

fn write(
    context: &Context,
    settings: &Settings,
    state: &StateDb,
    mine: &[TurnFact],
) -> Result<Option<u64>, Problem> {
    let quiet = Context {
        interaction: Interaction::None,
        ..context.clone()
    };
    let secrets = quiet.secrets(settings)?;
    let found = owed(&context.folder, state, mine, Timestamp::now());
    let Some(owed) = found.map_err(|error| unwritten(&error.to_string()))? else {
        return Ok(None);
    };
    let mut writer = own_writer(&quiet, settings, secrets.as_ref())?;
    let committed = writer
        .commit(owed.drafts.clone())
        .map_err(|error| unwritten(&error.to_string()))?;
    owed.written(state);
    remember(context, secrets.as_ref(), &writer);
    Ok(committed.entries.last().map(|entry| entry.index))
}

fn is_owed(state: &StateDb, mine: &[TurnFact]) -> Result<bool, StoreFault> {
    let turns = state.turn_facts_owed(Timestamp::MAX)?;
    Ok(turns.iter().any(|fact| mine.contains(fact)) || !state.decisions_owed()?.is_empty())
}

fn unwritten(why: &str) -> Problem {
    Problem::new(
        "not_recorded",
        why.to_owned(),
        "`countersign doctor` says more; it is written as soon as an executor can",
    )
}
