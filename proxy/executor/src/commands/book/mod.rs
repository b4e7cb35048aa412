//! `book …`: the record of what happened. The record's own rules are the book's; here is only what the commands share.

mod list;
mod proof;
mod show;
mod tlog;
mod verify;

use std::path::Path;

use clap::Subcommand;
use countersign_book::{BookError, Signer, VaultKey};

use crate::problem::Problem;
use crate::secrets::{Account, Interaction};

use super::{Context, Report, not_initialised};

/// What of the book.
#[derive(Debug, Subcommand)]
pub enum BookCommand {
    /// Check every entry and signature; names the first bad place
    Verify(verify::VerifyArgs),
    /// List entries
    List(list::ListArgs),
    /// Show one entry, or all of a call
    Show(show::ShowArgs),
    /// Prove that an entry is in the signed tree, for others to check
    Proof(proof::ProofArgs),
    /// Bring the derived log `book/tlog` up to date, or check it
    Tlog(tlog::TlogArgs),
}

/// Runs the command.
///
/// # Errors
/// When the book cannot be read or its key is not understood. What verification finds is a report with its exit code, not an error.
pub fn run(context: &Context, command: BookCommand) -> Result<Report, Problem> {
    match command {
        BookCommand::Verify(args) => verify::run(context, &args),
        BookCommand::List(args) => list::run(context, &args),
        BookCommand::Show(args) => show::run(context, &args),
        BookCommand::Proof(args) => proof::run(context, &args),
        BookCommand::Tlog(args) => tlog::run(context, &args),
    }
}

/// The key this executor signs its book with, where its secret store gives it without asking anybody.
pub fn own_key(context: &Context) -> Option<Signer> {
    own_keys(context).map(|(signer, _)| signer)
}

/// The same, and the key of the vault where the store has it.
pub(super) fn own_keys(context: &Context) -> Option<(Signer, Option<VaultKey>)> {
    let settings = context.settings().ok()?;
    let quiet = Context {
        interaction: Interaction::None,
        ..context.clone()
    };
    let store = quiet.secrets(&settings).ok()?;
    let secret = store.get(&Account::book_signing()).ok()??;
    let vault = store.get(&Account::book_vault()).ok().flatten();
    let vault = vault
        .and_then(|secret| secret.key())
        .map(|key| VaultKey::from_bytes(*key));
    Some((Signer::from_seed(*secret.key()?), vault))
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
