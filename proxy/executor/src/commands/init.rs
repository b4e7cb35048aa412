//! `init`: makes an executor. One that was cut short is finished by the same command; one that is whole is never touched.

use std::fs;

use clap::Args;
use countersign_book::{BookError, NewBook, Origin, Signer, Sources};
use serde_json::{Value, json};

use crate::disk;
use crate::folder::{read_own, replace};
use crate::pin;
use crate::problem::Problem;
use crate::secrets::{self, Account, Secret, SecretStore, random};
use crate::settings::{self, ExecutorEntry, SecretsKind, authors, render};
use crate::store::{BucketsDb, StateDb};

use super::{Context, Report, plain};

/// What kind of executor.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// A name for people [default: this machine's user]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Where secrets are kept
    #[arg(long, value_enum, default_value = "keychain")]
    pub secrets: SecretsKind,
    /// Let an unsigned permission count; it can't be switched on later
    #[arg(long)]
    pub development: bool,
    /// Make it also where locks and flushes can't be relied on: a network file system, a synchronised folder
    #[arg(long)]
    pub allow_network_folder: bool,
}

/// What an unfinished `init` was making: the file `init.json`, gone when it is done.
#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Draft {
    executor: ExecutorEntry,
    secrets: SecretsKind,
    #[serde(default)]
    allow_network_folder: bool,
    /// Whether keys may be in the secret store already. A draft that doesn't say is taken to have some.
    #[serde(default = "yes")]
    keys: bool,
}

fn yes() -> bool {
    true
}

/// Runs the command. executor.json is written last: while it is missing, there is no executor.
pub fn run(context: &Context, args: &InitArgs) -> Result<Report, Problem> {
    let folder = &context.folder;
    if fs::symlink_metadata(folder.settings()).is_ok() {
        return Err(Problem::new(
            "already_initialised",
            format!(
                "there is an executor in `{}` already",
                folder.root().display()
            ),
            "use it, or name another folder with --dir; `countersign doctor` says whether it is well",
        ));
    }
    if !args.allow_network_folder {
        disk::refuse(&folder.book())?;
    }
    folder.create()?;
    let _lock = folder.lock("init.lock", std::time::Duration::from_secs(1))?;
    let mut draft = draft(context, args)?;
    let store = secrets::create(folder, &draft.executor, draft.secrets, context.interaction)?;
    draft.keys = true;
    replace(&draft_path(context), &render(&json!(draft)))?;
    let seed = key(store.as_ref(), &Account::book_signing())?;
    key(store.as_ref(), &Account::book_vault())?;
    key(store.as_ref(), &Account::pepper())?;
    StateDb::create(folder)?;
    BucketsDb::open(folder)?;
    make_book(context, &draft, &seed)?;
    remember(context, store.as_ref(), &seed)?;
    replace(&folder.schema(), &render(&settings::schema()))?;
    let document = document(&draft);
    let bytes = render(&document);
    settings::check_bytes(&folder.settings(), &bytes)?;
    authors::announce(folder, &[], &bytes, "init")?;
    replace(&folder.settings(), &bytes)?;
    // A draft that stays is harmless: the executor is whole, so no `init` looks at it again.
    let _ = fs::remove_file(draft_path(context));
    Ok(report(context, &draft))
}

fn report(context: &Context, draft: &Draft) -> Report {
    let root = context.folder.root().display();
    let place = match draft.secrets {
        SecretsKind::Keychain => "the system's keychain",
        SecretsKind::File => "secrets.enc, under your passphrase",
    };
    let development = match draft.executor.development {
        true => {
            "made for development: an unsigned permission counts, shown as (development); the book says so in its first entry\n"
        }
        false => "nothing is granted until a permission is signed\n",
    };
    let text = format!(
        "made an executor in {root}\nits keys are in {place}\n{development}next: `countersign server add NAME -- COMMAND ARGS…`\n"
    );
    Report::new(
        text,
        json!({
            "dir": context.folder.root(), "id": draft.executor.id, "name": draft.executor.name,
            "secrets": draft.secrets, "development": draft.executor.development, "next": "countersign server add",
        }),
    )
}

fn draft_path(context: &Context) -> std::path::PathBuf {
    context.folder.root().join("init.json")
}

/// The draft of an earlier, unfinished `init`, or a new one on disk. One whose secret store was never opened has made nothing
/// that could be lost, so it gives way to other options.
fn draft(context: &Context, args: &InitArgs) -> Result<Draft, Problem> {
    let path = draft_path(context);
    let has_book = fs::symlink_metadata(context.folder.book().join("BOOK")).is_ok();
    match read_own(&path, 1 << 16) {
        Ok((bytes, _)) => {
            let Ok(draft) = serde_json::from_slice::<Draft>(&bytes) else {
                return Err(unreadable_draft(context));
            };
            if fits(&draft, args) {
                return Ok(draft);
            }
            if draft.keys || has_book {
                return Err(other_draft(context, &draft));
            }
            // A file of secrets that holds none yet: the draft says so.
            match fs::remove_file(context.folder.secrets()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Problem::new(
                    "folder",
                    format!(
                        "can't remove the empty `{}`: {error}",
                        context.folder.secrets().display()
                    ),
                    "remove it and try again",
                )),
                _ => new_draft(context, args),
            }
        }
        Err(error) if error.is_not_found() && has_book => Err(Problem::new(
            "settings_missing",
            format!(
                "`{}` holds a book, but executor.json is missing",
                context.folder.root().display()
            ),
            "restore executor.json from a copy; a new executor needs another folder",
        )),
        Err(error) if error.is_not_found() => new_draft(context, args),
        Err(error) => Err(error.into()),
    }
}

fn fits(draft: &Draft, args: &InitArgs) -> bool {
    let same_name = args
        .name
        .as_ref()
        .is_none_or(|name| *name == draft.executor.name);
    draft.secrets == args.secrets
        && draft.allow_network_folder == args.allow_network_folder
        && draft.executor.development == args.development
        && same_name
}

fn new_draft(context: &Context, args: &InitArgs) -> Result<Draft, Problem> {
    let draft = Draft {
        executor: ExecutorEntry {
            id: uuid::Uuid::new_v4().to_string(),
            name: name(args)?,
            development: args.development,
        },
        secrets: args.secrets,
        allow_network_folder: args.allow_network_folder,
        keys: false,
    };
    replace(&draft_path(context), &render(&json!(draft)))?;
    Ok(draft)
}

/// The name that was given, or this machine's user; never empty.
fn name(args: &InitArgs) -> Result<String, Problem> {
    match &args.name {
        Some(name) if name.trim().is_empty() => Err(Problem::new(
            "usage",
            "the name is empty",
            "give a name for people, or leave --name out",
        )),
        Some(name) => Ok(name.clone()),
        None => {
            let users = ["USER", "LOGNAME", "USERNAME"].into_iter();
            let user = users
                .filter_map(|variable| std::env::var(variable).ok())
                .find(|user| !user.trim().is_empty());
            Ok(user.unwrap_or_else(|| "executor".to_owned()))
        }
    }
}

fn other_draft(context: &Context, draft: &Draft) -> Problem {
    let root = context.folder.root().display();
    let kind = json!(draft.secrets);
    let mut options = format!("--secrets {}", kind.as_str().unwrap_or_default());
    if draft.executor.development {
        options.push_str(" --development");
    }
    if draft.allow_network_folder {
        options.push_str(" --allow-network-folder");
    }
    Problem::new(
        "init_unfinished",
        format!(
            "an earlier `init` in `{root}` was cut short after its keys were made, and had other options"
        ),
        format!(
            "finish it with its own options: `countersign init {options}` (its name is `{}`); \
             or leave it and name another folder with --dir; or, since it never was in use, remove `{root}` and run this again",
            plain(&draft.executor.name)
        ),
    )
}

fn unreadable_draft(context: &Context) -> Problem {
    let root = context.folder.root().display();
    Problem::new(
        "init_unfinished",
        format!("an earlier `init` in `{root}` was cut short, and its init.json can't be read"),
        format!(
            "name another folder with --dir; or, since that executor never was in use, remove `{root}` and run this again"
        ),
    )
}

/// The 32-byte key of `account`: the one that is there, or a fresh one.
fn key(store: &dyn SecretStore, account: &Account) -> Result<[u8; 32], Problem> {
    if let Some(secret) = store.get(account)? {
        return secret.key().map(|key| *key).ok_or_else(|| {
            Problem::new(
                "secrets_damaged",
                format!("the stored secret `{account}` is not a key"),
                "use another folder",
            )
        });
    }
    let fresh = random::<32>()?;
    store.set(account, &Secret::new(fresh.to_vec()))?;
    Ok(*fresh)
}

/// Makes the book with its first entry. Parts of a book that was never finished have no `BOOK` file and hold no entry anybody saw.
fn make_book(context: &Context, draft: &Draft, seed: &[u8; 32]) -> Result<(), Problem> {
    let dir = context.folder.book();
    if fs::symlink_metadata(dir.join("BOOK")).is_ok() {
        return Ok(());
    }
    if fs::symlink_metadata(&dir).is_ok() {
        fs::remove_dir_all(&dir).map_err(|error| {
            Problem::new(
                "folder",
                format!("can't remove the unfinished `{}`: {error}", dir.display()),
                "remove it and try again",
            )
        })?;
    }
    let new = NewBook {
        origin: Origin::from_id(*random::<16>()?),
        development: draft.executor.development,
        name: (!draft.executor.name.is_empty()).then(|| draft.executor.name.clone()),
        program: Some(concat!("countersign ", env!("CARGO_PKG_VERSION")).to_owned()),
        process: format!("init-{}", std::process::id()),
    };
    let mut sources = Sources {
        clock: Box::new(jiff::Timestamp::now),
        entropy: Box::new(|bytes| getrandom::fill(bytes).map_err(std::io::Error::other)),
    };
    countersign_book::create(&dir, &new, &Signer::from_seed(*seed), &mut sources).map_err(|error| {
        Problem::new(
            "book",
            error.to_string(),
            "look at the disk and the folder's rights, then run `countersign init` again",
        )
    })
}

/// Remembers how long the new book is, so that its end can't be cut off unnoticed from its first entry on.
fn remember(context: &Context, store: &dyn SecretStore, seed: &[u8; 32]) -> Result<(), Problem> {
    let dir = context.folder.book();
    let wrong = |error: BookError| {
        Problem::new(
            "book",
            error.to_string(),
            "look at the disk and the folder's rights, then run `countersign init` again",
        )
    };
    let head = countersign_book::head(&dir, &Signer::from_seed(*seed)).map_err(wrong)?;
    pin::raise(&context.folder, store, &head)?;
    Ok(())
}

fn document(draft: &Draft) -> Value {
    let mut document = json!({
        "$schema": "./executor.schema.json", "version": settings::SettingsFile::VERSION, "executor": draft.executor,
        "enabled": true, "secrets": draft.secrets, "servers": {}, "agents": {},
    });
    if draft.allow_network_folder {
        document["book"] = json!({"allow_network_folder": true});
    }
    document
}
