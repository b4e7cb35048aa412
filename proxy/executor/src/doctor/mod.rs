//! Everything that can be wrong with an executor, each with its remedy: a table of checks. Repairs nothing.

mod checks;

use serde::Serialize;

use crate::commands::Context;
use crate::problem::Problem;
use crate::settings::Settings;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Well.
    Ok,
    /// To look at; things work.
    Warn,
    /// Wrong; something does not work or is not safe.
    Fail,
}

/// One check's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Which check.
    pub name: &'static str,
    /// How it came out.
    pub level: Level,
    /// What was found, as a sentence.
    pub what: String,
    /// What to do about it; empty where nothing is.
    pub remedy: String,
}

/// A check: its name and what it looks at. One that needs settings is skipped while they can't be read.
struct Check {
    name: &'static str,
    look: Look,
}

/// What a check needs.
enum Look {
    Folder(fn(&Context) -> Vec<Found>),
    Settings(fn(&Context, &Settings) -> Vec<Found>),
}

/// One thing a check found.
struct Found {
    level: Level,
    what: String,
    remedy: String,
}

/// Every check, in the order a person reads them.
const CHECKS: &[Check] = &[
    Check {
        name: "folder",
        look: Look::Folder(checks::folder),
    },
    Check {
        name: "executor.json",
        look: Look::Folder(checks::settings),
    },
    Check {
        name: "switch",
        look: Look::Folder(checks::switch),
    },
    Check {
        name: "secrets",
        look: Look::Settings(checks::secrets),
    },
    Check {
        name: "separation",
        look: Look::Settings(checks::separation),
    },
    Check {
        name: "book",
        look: Look::Folder(checks::book),
    },
    Check {
        name: "pin",
        look: Look::Settings(checks::pin),
    },
    Check {
        name: "state.db",
        look: Look::Folder(checks::state),
    },
    Check {
        name: "buckets.db",
        look: Look::Folder(checks::buckets),
    },
    Check {
        name: "servers",
        look: Look::Settings(checks::servers),
    },
    Check {
        name: "presets",
        look: Look::Settings(checks::presets),
    },
    Check {
        name: "names",
        look: Look::Settings(checks::names),
    },
    Check {
        name: "agents",
        look: Look::Settings(checks::agents),
    },
    Check {
        name: "permission",
        look: Look::Settings(checks::permission),
    },
    Check {
        name: "clock",
        look: Look::Folder(checks::clock),
    },
    Check {
        name: "disk",
        look: Look::Folder(checks::disk),
    },
];

/// Runs every check.
pub fn check_all(context: &Context) -> Vec<Answer> {
    let settings = context.settings().ok();
    let mut answers = Vec::new();
    for Check { name, look } in CHECKS {
        let found = match (look, &settings) {
            (Look::Folder(look), _) => look(context),
            (Look::Settings(look), Some(settings)) => look(context, settings),
            (Look::Settings(_), None) => vec![Found::warn(
                "not looked at, since the settings can't be read",
                "",
            )],
        };
        answers.extend(found.into_iter().map(
            |Found {
                 level,
                 what,
                 remedy,
             }| Answer {
                name,
                level,
                what,
                remedy,
            },
        ));
    }
    answers
}

impl Found {
    fn ok(what: impl Into<String>) -> Found {
        Found {
            level: Level::Ok,
            what: what.into(),
            remedy: String::new(),
        }
    }

    fn warn(what: impl Into<String>, remedy: impl Into<String>) -> Found {
        Found {
            level: Level::Warn,
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    fn fail(problem: impl Into<Problem>) -> Found {
        let Problem {
            message, remedy, ..
        } = problem.into();
        Found {
            level: Level::Fail,
            what: message,
            remedy,
        }
    }
}

impl Level {
    /// The word a person reads.
    pub fn word(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Fail => "fail",
        }
    }
}
