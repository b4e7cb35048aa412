//! The one place a command passes before it does what can't be undone. Asks the person on a terminal; where nobody can answer,
//! `--yes` must be on the command line. Refuses to know what the act is.

use std::io::{IsTerminal, Write};

use crate::problem::Problem;
use crate::secrets::Interaction;

use super::Context;

/// What is about to be done.
#[derive(Debug, Clone)]
pub struct Act<'a> {
    /// The command, for words: `book erase`.
    pub command: &'static str,
    /// What it does and that it can't be undone, as a sentence.
    pub consequence: &'a str,
}

/// Whether `--yes` was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub struct Consent {
    /// Do it without asking
    #[arg(long)]
    pub yes: bool,
}

/// Passes when the person wants it.
///
/// # Errors
/// When they do not, or can't be asked.
pub fn consent(context: &Context, act: &Act<'_>, given: Consent) -> Result<(), Problem> {
    if given.yes {
        return Ok(());
    }
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if context.interaction == Interaction::None || !terminal {
        return Err(Problem::new(
            "needs_yes",
            format!(
                "`{}` can't be undone and nobody can be asked here; nothing was changed",
                act.command
            ),
            format!("{}; to do it, add --yes", act.consequence),
        ));
    }
    let asked = write!(std::io::stderr(), "{}.\nDo it? (yes/no) ", act.consequence)
        .and_then(|()| std::io::stderr().flush());
    let mut answer = String::new();
    let read = asked.and_then(|()| std::io::stdin().read_line(&mut answer));
    match (read, answer.trim()) {
        (Ok(_), "yes" | "y") => Ok(()),
        _ => Err(Problem::new(
            "declined",
            "not done; nothing was changed",
            "",
        )),
    }
}
