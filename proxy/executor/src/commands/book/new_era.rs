//! `book new-era`: ends a book whose key was lost or stolen, or that is damaged or rolled back, and begins another. The old one is
//! moved, never deleted. Every step can be repeated: what was begun stands in `era.json` until all of it is done.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use countersign_book::{
    BookClosed, BookFile, Draft, Era, NewBook, Origin, Signer, last_checkpoint,
};
use serde_json::json;

use crate::commands::acts::{Act, Consent, consent};
use crate::commands::{Context, Report, plain};
use crate::folder::{read_own, replace};
use crate::keeper::sources;
use crate::pin;
use crate::problem::Problem;
use crate::recorder::liveness::living;
use crate::secrets::{Account, Secret, SecretStore, random};
use crate::settings::{Settings, render};

use super::{WAIT, own_writer};

/// Why.
#[derive(Debug, Args)]
pub struct NewEraArgs {
    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "not said")]
    pub reason: String,
    /// Whether it is asked for
    #[command(flatten)]
    pub consent: Consent,
}

/// What was begun: the file `era.json`.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    /// The old book's origin and its last readable checkpoint, base64.
    origin: Origin,
    checkpoint: String,
    /// The folder the old book is moved to.
    closed: String,
    /// The new book's origin.
    new: Origin,
    reason: String,
    /// Why the old book could not be closed; none when it was.
    not_closed: Option<String>,
}

pub(super) fn run(context: &Context, args: &NewEraArgs) -> Result<Report, Problem> {
    let settings = context.settings()?;
    let act = Act {
        command: "book new-era",
        consequence: "this book ends and another one begins, with a new name and a new key; the old one is moved aside and kept as it is. \
                      Who knows the old key must be told the new one",
    };
    consent(context, &act, args.consent)?;
    let _lock = context.folder.lock("keys.lock", WAIT)?;
    nobody_runs(context)?;
    let store = context.secrets(&settings)?;
    let begun = read_plan(context)?;
    let goes_on = begun.is_some();
    let plan = match begun {
        Some(plan) => plan,
        None => {
            let origin = ending(context)?;
            new_plan(context, &settings, store.as_ref(), (origin, &args.reason)).map_err(in_part)?
        }
    };
    let mut report = finish(context, &settings, store.as_ref(), &plan).map_err(in_part)?;
    if goes_on {
        report.text.push_str(&format!(
            "this ended what an earlier `book new-era` had begun; the reason on record is the one given then: {}\n",
            countersign_book::escape(&plan.reason)
        ));
    }
    Ok(report)
}

/// The steps after the plan, each of which can be repeated.
fn finish(
    context: &Context,
    settings: &Settings,
    store: &dyn SecretStore,
    plan: &Plan,
) -> Result<Report, Problem> {
    if origin_at(&context.folder.book()).as_ref() != Some(&plan.new) {
        let key = era_key(store)?;
        make(context, settings, plan, &key)?;
        put_in_place(context, plan)?;
    }
    adopt(store)?;
    repin(context, store)?;
    // The settings in force are recorded anew in the new book.
    remove(&context.folder.run().join("settings.sha256"))?;
    remove(&plan_path(context))?;
    report(context, plan)
}

/// Why the act did not come to its end. Whatever failed says of itself that it changed nothing; the act by then has.
fn in_part(problem: Problem) -> Problem {
    let [message, remedy] =
        [problem.message, problem.remedy].map(|text| text.replace("; nothing was changed", ""));
    let mended = match remedy.as_str() {
        "" => "when that is mended".to_owned(),
        remedy => remedy.to_owned(),
    };
    Problem::new(
        problem.code,
        format!(
            "{message}; the new era is begun and not finished, and whatever was in the book is kept"
        ),
        format!("{mended}; then run `countersign book new-era` again: it goes on where this ended"),
    )
}

/// A book that is open in a running executor can't be moved under it.
fn nobody_runs(context: &Context) -> Result<(), Problem> {
    let living = living(&context.folder.run());
    if living.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = living
        .iter()
        .map(|name| name.split('-').next().unwrap_or(name))
        .collect();
    Err(Problem::new(
        "executors_running",
        format!(
            "executors are running in this folder (process {}); nothing was changed",
            ids.join(", ")
        ),
        "close the clients that started them, then run the command again",
    ))
}

fn plan_path(context: &Context) -> PathBuf {
    context.folder.root().join("era.json")
}

fn read_plan(context: &Context) -> Result<Option<Plan>, Problem> {
    match read_own(&plan_path(context), 1 << 20) {
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
        Ok((bytes, _)) => match serde_json::from_slice::<Plan>(&bytes) {
            Ok(plan) if is_plain_name(&plan.closed) => Ok(Some(plan)),
            _ => Err(Problem::new(
                "era_unreadable",
                "`era.json`, which says what an earlier `book new-era` began, is not one that was written by it; nothing was changed",
                "restore the file from a copy; if `book` is in its place and no `book.new` is there, removing `era.json` loses nothing",
            )),
        },
    }
}

/// What an earlier `book new-era` began and did not end, in words; none where nothing is in the way.
pub fn begun(context: &Context) -> Option<String> {
    match read_plan(context) {
        Ok(None) => None,
        Ok(Some(plan)) => Some(format!(
            "`{}` was to follow `{}`, as `era.json` says",
            plan.new, plan.origin
        )),
        Err(problem) => Some(problem.message.replace("; nothing was changed", "")),
    }
}

/// Whether it names a folder beside the book, and not a place elsewhere.
fn is_plain_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    name.starts_with("book-") && name.bytes().all(plain)
}

/// The origin of the book that ends.
fn ending(context: &Context) -> Result<Origin, Problem> {
    let book = BookFile::read(&context.folder.book()).map_err(|error| {
        Problem::new(
            "book",
            format!("which book ends can't be told: {error}; nothing was changed"),
            "restore the file `BOOK` from a copy, then run the command again",
        )
    })?;
    Ok(book.origin)
}

/// Closes the old book where it can still be signed, and writes down what is to be done.
fn new_plan(
    context: &Context,
    settings: &Settings,
    store: &dyn SecretStore,
    (origin, reason): (Origin, &str),
) -> Result<Plan, Problem> {
    let dir = context.folder.book();
    let reason = plain(reason);
    let closed = BookClosed {
        process: super::process(),
        reason: format!("new era: {reason}"),
    };
    let not_closed = own_writer(context, settings, store)
        .and_then(|mut writer| {
            let closed = writer.commit(vec![Draft::new(closed)]);
            closed.map_err(|error| Problem::new("book", error.to_string(), ""))
        })
        .err();
    let checkpoint = last_checkpoint(&dir).ok().flatten().unwrap_or_default();
    let id: String = origin
        .as_str()
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .chars()
        .take(8)
        .collect();
    let name = (1..=u32::MAX)
        .map(|n| format!("book-{id}-closed-{n}"))
        .find(|name| fs::symlink_metadata(context.folder.root().join(name)).is_err())
        .unwrap_or_default();
    let plan = Plan {
        origin,
        checkpoint,
        closed: name,
        new: Origin::from_id(*random::<16>()?),
        reason,
        not_closed: not_closed.map(|problem| problem.message),
    };
    // A key of an era that never came to be would be taken for this one's.
    store.remove(&Account::book_signing_era())?;
    replace(&plan_path(context), &render(&json!(plan)))?;
    Ok(plan)
}

/// The new book's key: the one that is there, or a fresh one that the store keeps.
fn era_key(store: &dyn SecretStore) -> Result<[u8; 32], Problem> {
    let account = Account::book_signing_era();
    if store.get(&account)?.is_none() {
        store.set(&account, &Secret::new(random::<32>()?.to_vec()))?;
    }
    let stored = store.get(&account)?.and_then(|secret| secret.key());
    stored.map(|key| *key).ok_or_else(|| {
        Problem::new(
            "secret_missing",
            "the secret store did not keep the new book's key; the old book is in its place",
            "look at the secret store with `countersign doctor`, then run the command again",
        )
    })
}

/// Makes the new book beside the old one.
fn make(
    context: &Context,
    settings: &Settings,
    plan: &Plan,
    key: &[u8; 32],
) -> Result<(), Problem> {
    let dir = context.folder.root().join("book.new");
    let signer = Signer::from_seed(*key);
    if BookFile::read(&dir).is_ok_and(|book| book.vkey == signer.vkey(&plan.new)) {
        return Ok(());
    }
    // A part of a book holds no entry anybody saw; one of another key was begun and given up.
    if fs::symlink_metadata(&dir).is_ok() {
        fs::remove_dir_all(&dir).map_err(|error| moved("remove the unfinished", &dir, &error))?;
    }
    let new = NewBook {
        origin: plan.new.clone(),
        development: settings.executor.development,
        name: (!settings.executor.name.is_empty()).then(|| settings.executor.name.clone()),
        program: Some(concat!("countersign ", env!("CARGO_PKG_VERSION")).to_owned()),
        process: super::process(),
    };
    let era = Era {
        origin: plan.origin.clone(),
        checkpoint: plan.checkpoint.clone(),
        reason: plan.reason.clone(),
    };
    countersign_book::create_era(&dir, &new, &era, &signer, &mut sources()).map_err(|error| {
        Problem::new(
            "book",
            format!("the new book can't be made: {error}; the old one is in its place"),
            "look at the disk and the folder's rights, then run the command again",
        )
    })
}

fn put_in_place(context: &Context, plan: &Plan) -> Result<(), Problem> {
    let root = context.folder.root();
    let (book, closed) = (context.folder.book(), root.join(&plan.closed));
    if fs::symlink_metadata(&book).is_ok() {
        fs::rename(&book, &closed).map_err(|error| moved("move aside", &book, &error))?;
    }
    let new = root.join("book.new");
    fs::rename(&new, &book).map_err(|error| moved("put in place", &new, &error))?;
    crate::folder::sync_dir(root).map_err(|error| moved("sync", root, &error))
}

fn moved(what: &str, path: &std::path::Path, error: &std::io::Error) -> Problem {
    Problem::new(
        "era_unfinished",
        format!(
            "can't {what} `{}`: {error}; no book was deleted",
            path.display()
        ),
        "look at the folder's rights, then run `countersign book new-era` again: it goes on where it stopped",
    )
}

/// The new book's key takes its place; the keys of the old one sign nothing any more and go.
fn adopt(store: &dyn SecretStore) -> Result<(), Problem> {
    let era = Account::book_signing_era();
    if let Some(key) = store.get(&era)? {
        store.set(&Account::book_signing(), &key)?;
    }
    for account in [
        Account::book_signing_next(),
        Account::book_signing_before(),
        era,
    ] {
        store.remove(&account)?;
    }
    Ok(())
}

/// What was remembered of the old book gives way to the new one's head.
fn repin(context: &Context, store: &dyn SecretStore) -> Result<(), Problem> {
    let account = Account::book_signing();
    let seed = store.get(&account)?.and_then(|secret| secret.key());
    let seed = seed.ok_or_else(|| super::missing(&account))?;
    let head = countersign_book::head(&context.folder.book(), &Signer::from_seed(*seed))
        .map_err(|error| super::refused(context, &error))?;
    pin::replace(&context.folder, store, &head)
}

fn origin_at(dir: &std::path::Path) -> Option<Origin> {
    BookFile::read(dir).ok().map(|book| book.origin)
}

fn remove(path: &std::path::Path) -> Result<(), Problem> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(moved("remove", path, &error))
        }
        _ => Ok(()),
    }
}

fn report(context: &Context, plan: &Plan) -> Result<Report, Problem> {
    let book = BookFile::read(&context.folder.book())
        .map_err(|error| Problem::new("book", error.to_string(), "run the command again"))?;
    let closed = context.folder.root().join(&plan.closed);
    let mut text = format!(
        "a new book begins; its entry 1 names the old one\n  fingerprint {}\n  {}\nnote the whole line elsewhere\nthe old book is kept as it was in `{}`: \
         `countersign book verify {}`\n",
        book.vkey.fingerprint(),
        book.vkey,
        closed.display(),
        closed.display()
    );
    if let Some(why) = &plan.not_closed {
        text.push_str(&format!(
            "the old book could not be closed by an entry of its own: {why}\n"
        ));
    }
    Ok(Report::new(
        text,
        json!({
            "origin": book.origin.as_str(), "vkey": book.vkey.to_string(), "fingerprint": book.vkey.fingerprint(),
            "before": {"origin": plan.origin.as_str(), "path": closed, "closed": plan.not_closed.is_none(), "why": plan.not_closed},
        }),
    ))
}
