//! `key show|rotate`: the key the book is signed with. Owns the order of steps that keeps book and secret store in agreement
//! across a crash; the book says which key is in force.

use clap::{Args, Subcommand};
use countersign_book::{BookError, KeyRange, Reader, Signer, Vkey};
use serde_json::{Value, json};

use crate::commands::book::{own_writer, remember, unfinished, unreadable};
use crate::problem::Problem;
use crate::secrets::{Account, Secret, SecretStore, random};
use crate::signing;

use super::acts::{Act, Consent, consent};
use super::{Context, Report};

/// What of the key.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Show the keys the book is signed with, to note elsewhere and to compare by eye
    Show,
    /// Put a new signing key in force
    Rotate(RotateArgs),
}

/// Why.
#[derive(Debug, Args)]
pub struct RotateArgs {
    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "planned")]
    pub reason: String,
    /// Whether it is asked for
    #[command(flatten)]
    pub consent: Consent,
}

/// Runs the command.
///
/// # Errors
/// When the book or the secret store can't be used; what was changed until then is in the words.
pub fn run(context: &Context, command: &KeyCommand) -> Result<Report, Problem> {
    match command {
        KeyCommand::Show => show(context),
        KeyCommand::Rotate(args) => rotate(context, args),
    }
}

fn show(context: &Context) -> Result<Report, Problem> {
    let dir = context.folder.book();
    let failed = |error: BookError| unreadable(context, &dir, &error);
    let settings = context.settings()?;
    let reader = Reader::open(&dir).map_err(failed)?;
    let (size, keys) = reader.keys().map_err(failed)?;
    let store = context.secrets(&settings)?;
    let held: Vec<Vkey> = signing::held(store.as_ref())?
        .iter()
        .map(|signer| signer.vkey(&reader.book().origin))
        .collect();
    let mut text = String::new();
    for key in keys.iter().rev() {
        text.push_str(&format!(
            "{}\n  fingerprint {}\n  signs {}\n  {}\n  {}\n",
            state(key, size),
            key.vkey.fingerprint(),
            sizes(key),
            kept(&held, &key.vkey, store.kind()),
            key.vkey
        ));
    }
    let missing = keys.last().is_some_and(|key| !held.contains(&key.vkey));
    if missing {
        text.push_str(
            "the key in force is not in the secret store: nothing can be added to the book; restore it, or begin a new era with \
             `countersign book new-era`\n",
        );
    }
    text.push_str("note a key's whole line elsewhere: `countersign book verify PATH --vkey LINE` holds a book against it\n");
    let rows: Vec<Value> = keys
        .iter()
        .map(|key| {
            json!({
                "vkey": key.vkey.to_string(), "fingerprint": key.vkey.fingerprint(), "from": key.from, "until": key.until,
                "state": state(key, size), "held": held.contains(&key.vkey),
            })
        })
        .collect();
    let mut report = Report::new(
        text,
        json!({"origin": reader.book().origin.as_str(), "size": size, "store": store.kind(), "keys": rows}),
    );
    report.exit = u8::from(missing);
    Ok(report)
}

fn state(key: &KeyRange, size: u64) -> &'static str {
    match key.until {
        None => "in force",
        Some(until) if until > size => "replaced, still signs beside the one in force",
        Some(_) => "retired",
    }
}

fn sizes(key: &KeyRange) -> String {
    match key.until {
        None => format!("from {} entries on", key.from),
        Some(until) => format!("from {} to {until} entries", key.from),
    }
}

fn kept(held: &[Vkey], vkey: &Vkey, store: &str) -> String {
    let place = if store == "file" {
        "secrets.enc"
    } else {
        "the system's keychain"
    };
    match held.contains(vkey) {
        true => format!("kept in {place}"),
        false => "not kept here".to_owned(),
    }
}

fn rotate(context: &Context, args: &RotateArgs) -> Result<Report, Problem> {
    let settings = context.settings()?;
    let act = Act {
        command: "key rotate",
        consequence: "a new key signs the book from here on; the old one signs beside it for 1,024 entries and never again",
    };
    consent(context, &act, args.consent)?;
    let _lock = context.folder.lock("keys.lock", super::book::WAIT)?;
    let store = context.secrets(&settings)?;
    let mut writer = own_writer(context, &settings, store.as_ref())?;
    let failed = |error: BookError| unreadable(context, &context.folder.book(), &error);
    let origin = Reader::open(&context.folder.book())
        .map_err(failed)?
        .book()
        .origin
        .clone();
    if let Some(next) = store.get(&Account::book_signing_next())? {
        let signer = next.key().map(|key| Signer::from_seed(*key));
        let in_force = writer.keys().last().map(|key| key.vkey.clone());
        if signer.is_some_and(|signer| Some(signer.vkey(&origin)) == in_force) {
            adopt(store.as_ref(), &next)?;
            return Ok(rotated(
                writer.keys(),
                "an earlier rotation was cut short after the book had taken the new key; it is finished now, and no other key was made",
            ));
        }
    }
    // In the store, and readable from it, before anything says it is in force.
    let fresh = Secret::new(random::<32>()?.to_vec());
    store.set(&Account::book_signing_next(), &fresh)?;
    let stored = store.get(&Account::book_signing_next())?;
    let key = stored.filter(|stored| *stored == fresh);
    let key = key.and_then(|key| key.key()).ok_or_else(|| {
        Problem::new(
            "secret_missing",
            "the secret store did not keep the new key; the old one stays in force and the book was not changed",
            "look at the secret store with `countersign doctor`, then try again",
        )
    })?;
    writer
        .rotate_key(Signer::from_seed(*key), &super::plain(&args.reason))
        .map_err(|error| unfinished(context, act.command, &error))?;
    remember(context, store.as_ref(), &writer);
    adopt(store.as_ref(), &fresh).map_err(|error| {
        Problem::new(
            "rotation_unfinished",
            format!("the book has taken the new key, but the secret store could not be put in order: {error}"),
            "nothing is lost: executors find the new key where it is; run `countersign key rotate` again to finish",
        )
    })?;
    Ok(rotated(writer.keys(), "a new key is in force"))
}

/// The key that is in force now takes its place in the store; the one before stays for as long as it still signs.
fn adopt(store: &dyn SecretStore, next: &Secret) -> Result<(), crate::secrets::SecretsError> {
    let before = store.get(&Account::book_signing())?;
    if let Some(before) = before.filter(|before| before != next) {
        store.set(&Account::book_signing_before(), &before)?;
    }
    store.set(&Account::book_signing(), next)?;
    store.remove(&Account::book_signing_next()).map(|_| ())
}

fn rotated(keys: &[KeyRange], headline: &str) -> Report {
    let Some(key) = keys.last() else {
        return Report::new(String::new(), json!({}));
    };
    let until = keys.iter().rev().nth(1).and_then(|before| before.until);
    let text = format!(
        "{headline}\n  fingerprint {}\n  signs {}\n  {}\nnote the whole line elsewhere; running executors take the new key by themselves\n",
        key.vkey.fingerprint(),
        sizes(key),
        key.vkey
    );
    Report::new(
        text,
        json!({
            "vkey": key.vkey.to_string(), "fingerprint": key.vkey.fingerprint(), "from": key.from, "before_until": until,
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::MemoryStore;

    #[test]
    fn adopting_is_repeatable_and_keeps_the_key_before() {
        let store = MemoryStore::default();
        let (old, new) = (Secret::new(vec![1; 32]), Secret::new(vec![2; 32]));
        store.set(&Account::book_signing(), &old).unwrap();
        for _ in 0..2 {
            store.set(&Account::book_signing_next(), &new).unwrap();
            adopt(&store, &new).unwrap();
            assert_eq!(
                store.get(&Account::book_signing()).unwrap(),
                Some(new.clone())
            );
            assert_eq!(
                store.get(&Account::book_signing_before()).unwrap(),
                Some(old.clone())
            );
            assert_eq!(store.get(&Account::book_signing_next()).unwrap(), None);
        }
    }
}
