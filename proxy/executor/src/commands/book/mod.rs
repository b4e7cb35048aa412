//! `book …`: the record of what happened. The record's own rules are the book's; here is only what the commands share.

mod list;
pub mod own;
mod show;
mod status;
mod verify;

use std::path::Path;

use clap::Subcommand;
use countersign_book::BookError;

use crate::problem::Problem;

use super::{Context, Report, not_initialised};

/// What of the book.
#[derive(Debug, Subcommand)]
pub enum BookCommand {
    /// What state the book is in, in words, and what to do about it
    Status,
    /// Check every entry and signature; names the first bad place
    Verify(verify::VerifyArgs),
    /// List entries
    List(list::ListArgs),
    /// Show one entry
    Show(show::ShowArgs),
}

/// Runs the command.
///
/// # Errors
/// When the book cannot be read or its key is not understood. What verification finds is a report with its exit code, not an error.
pub fn run(context: &Context, command: BookCommand) -> Result<Report, Problem> {
    match command {
        BookCommand::Status => status::run(context),
        BookCommand::Verify(args) => verify::run(context, &args),
        BookCommand::List(args) => list::run(context, &args),
        BookCommand::Show(args) => show::run(context, &args),
    }
}

/// Why a book can't be read, and what to do: other words for this executor's own than for one named on the command line.
pub(super) fn unreadable(context: &Context, dir: &Path, error: &BookError) -> Problem {
    let own = context.folder.book();
    if dir == own && context.settings().is_err() && !own.exists() {
        return not_initialised(&context.folder);
    }
    let remedy = match error {
        BookError::NotABook { .. } if dir == own => {
            "restore the folder `book` from a copy; without it the executor lets no call through"
                .to_owned()
        }
        BookError::NotABook { .. } => format!(
            "name the folder of a book; this executor's is `{}`",
            own.display()
        ),
        _ => "`countersign book verify` names the first bad place; nothing was changed".to_owned(),
    };
    Problem::new("book_unreadable", error.to_string(), remedy)
}
