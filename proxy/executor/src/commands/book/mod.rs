//! `book …`: the record of what happened. The record's own rules are the book's; here is only what the commands share.

mod erase;
mod kept;
pub(in crate::commands) mod list;
pub mod new_era;
pub mod own;
mod proof;
mod prune;
mod show;
mod status;
mod tlog;
mod verify;

use std::path::Path;
use std::time::Duration;

use clap::Subcommand;
use countersign_book::{BookError, VaultKey, Writer, WriterOptions};

use crate::disk;
use crate::keeper::sources;
use crate::pin;
use crate::problem::Problem;
use crate::secrets::{Account, SecretStore};
use crate::settings::Settings;
use crate::signing;

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
    /// Show one entry, or all of a call
    Show(show::ShowArgs),
    /// Destroy what is kept of an entry, on record
    Erase(erase::EraseArgs),
    /// Remove the oldest entries, on record
    Prune(prune::PruneArgs),
    /// End this book and begin another: for a lost or stolen key, or a book that is damaged
    NewEra(new_era::NewEraArgs),
    /// Prove that an entry is in the signed tree, for others to check
    Proof(proof::ProofArgs),
    /// Bring the derived log `book/tlog` up to date, or check it
    Tlog(tlog::TlogArgs),
}

/// How long a command waits for another one that changes the keys.
pub(in crate::commands) const WAIT: Duration = Duration::from_secs(10);

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
        BookCommand::Erase(args) => erase::run(context, &args),
        BookCommand::Prune(args) => prune::run(context, &args),
        BookCommand::NewEra(args) => new_era::run(context, &args),
        BookCommand::Proof(args) => proof::run(context, &args),
        BookCommand::Tlog(args) => tlog::run(context, &args),
    }
}

/// How a command names itself in entries: it carries no call, so no liveness lock is needed.
pub(super) fn process() -> String {
    format!("cli-{}", std::process::id())
}

/// Opens this executor's book for writing, with its own keys. Never makes one.
///
/// # Errors
/// When a key is missing or the book can't be opened.
pub(in crate::commands) fn own_writer(
    context: &Context,
    settings: &Settings,
    store: &dyn SecretStore,
) -> Result<Writer, Problem> {
    if let Some(what) = new_era::begun(context) {
        return Err(era_unfinished(&what));
    }
    let account = Account::book_vault();
    let held = signing::held(store)?;
    if held.is_empty() {
        return Err(missing(&Account::book_signing()));
    }
    let vault = store.get(&account)?.and_then(|secret| secret.key());
    let vault = VaultKey::from_bytes(*vault.ok_or_else(|| missing(&account))?);
    if !settings.book.allow_network_folder {
        disk::refuse(&context.folder.book())?;
    }
    let signers = signing::signers(&context.folder, settings, held);
    let options = WriterOptions {
        // Before the book is opened: it only grows.
        pin: pin::read(store)?.pin().cloned(),
        ..WriterOptions::new(process())
    };
    Writer::open(&context.folder.book(), signers, vault, sources(), options)
        .map_err(|error| refused(context, &error))
}

/// Remembers how long the book is after a command appended to it. Where that fails the memory lags, which the next executor makes
/// good.
pub(in crate::commands) fn remember(context: &Context, store: &dyn SecretStore, writer: &Writer) {
    if let Err(problem) = pin::raise(&context.folder, store, &writer.head()) {
        tracing::warn!(%problem, "how long the book is could not be remembered");
    }
}

/// No other act on the record comes between the beginning and the end of a new era.
fn era_unfinished(what: &str) -> Problem {
    let words = crate::condition::Condition::EraUnfinished.words();
    Problem::new(
        "era_unfinished",
        format!("{}: {what}; nothing was changed", words.means),
        words.todo,
    )
}

fn missing(account: &Account) -> Problem {
    Problem::new(
        "secret_missing",
        format!(
            "the secret `{account}` is not in the secret store; nothing was changed and no key was made"
        ),
        "unlock the keychain, or restore it from a backup; if the key is lost, `countersign book new-era` begins another book",
    )
}

/// Why the book was not changed, and what to do.
pub(super) fn refused(context: &Context, error: &BookError) -> Problem {
    match error {
        BookError::NotFound(what) => Problem::new(
            "entry_unknown",
            format!("{what}; nothing was changed"),
            "`countersign book list` shows the latest entries, `countersign book show N` what is kept of one",
        ),
        error => unreadable(context, &context.folder.book(), error),
    }
}

/// Why an act on the record, named by its command, did not come to its end: from its entry on, it may be on record and done in part.
pub(in crate::commands) fn unfinished(context: &Context, act: &str, error: &BookError) -> Problem {
    match error {
        BookError::Io { .. } | BookError::Gone { .. } | BookError::Poisoned { .. } => Problem::new(
            "book_unfinished",
            format!(
                "{error}; whether this is on record is not known, and it may be done in part; nothing else was touched"
            ),
            format!(
                "look at the disk, then run `countersign {act}` again: whoever opens the book next finishes what is on record"
            ),
        ),
        error => refused(context, error),
    }
}

/// Why a book can't be read, and what to do: other words for this executor's own than for one named on the command line.
pub(in crate::commands) fn unreadable(context: &Context, dir: &Path, error: &BookError) -> Problem {
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
        _ if dir == own && own.join("removal.pending").exists() => {
            "look at the disk, then try again: whoever opens the book next finishes the erasure or pruning that is on record"
                .to_owned()
        }
        BookError::Io { .. } => {
            "look at the disk and at the rights of the folder, then try again; nothing was changed".to_owned()
        }
        error => match crate::condition::Condition::of(error) {
            Some(condition) if dir == own => condition.words().todo.to_owned(),
            _ => "`countersign book verify` names the first bad place; nothing was changed".to_owned(),
        },
    };
    Problem::new("book_unreadable", error.to_string(), remedy)
}
