//! `book show`: one entry, with what the vault keeps of it. Nothing here writes.

use clap::Args;
use countersign_book::{BookError, Field, Reader, VaultKey, escape};
use serde_json::{Value, json};

use crate::commands::{Context, Report, spelled};
use crate::problem::Problem;
use crate::secrets::Account;

use super::unreadable;

/// Which entry is shown.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The entry's number, from 0
    #[arg(value_name = "N")]
    pub index: u64,
    /// Also show the arguments and results that are kept encrypted
    #[arg(long)]
    pub payload: bool,
}

pub(super) fn run(context: &Context, args: &ShowArgs) -> Result<Report, Problem> {
    let dir = context.folder.book();
    let failed = |error: BookError| unreadable(context, &dir, &error);
    let reader = Reader::open(&dir).map_err(failed)?;
    let shown = reader.show(args.index).map_err(failed)?.ok_or_else(|| {
        Problem::new(
            "entry_unknown",
            format!("the book has no signed entry {}", args.index),
            "`countersign book list` shows the latest",
        )
    })?;
    let entry = &shown.entry;
    let members: Value = serde_json::from_str(&entry.line).unwrap_or(Value::Null);
    let pretty = serde_json::to_string_pretty(&members).unwrap_or_default();
    let mut text = format!(
        "entry {} ({}), {}\nleaf {}\nin {}, line {}\n\n",
        entry.index,
        escape(&entry.kind),
        escape(&entry.time),
        entry.leaf,
        escape(&shown.file),
        shown.line
    );
    text.push_str(&spelled(&pretty));
    text.push('\n');
    text.push_str(&format!(
        "\nsigned by the checkpoint\n{}",
        shown
            .checkpoint
            .lines()
            .map(|line| format!("  {}\n", escape(line)))
            .collect::<String>()
    ));
    let mut answer = json!({
        "index": entry.index, "kind": entry.kind, "time": entry.time, "leaf": entry.leaf.to_string(), "file": shown.file, "line": shown.line,
        "entry": members, "checkpoint": shown.checkpoint,
    });
    if args.payload {
        let payloads = payloads(context, &reader, args.index)?;
        for (field, payload) in &payloads {
            text.push_str(&format!("\n{field}\n"));
            for line in payload.lines() {
                text.push_str(&format!("  {}\n", escape(line)));
            }
        }
        answer["payloads"] = payloads
            .into_iter()
            .map(|(field, payload)| (field.to_owned(), Value::String(payload)))
            .collect::<serde_json::Map<_, _>>()
            .into();
    }
    Ok(Report::new(text, answer))
}

/// The kept payloads of an entry, decrypted, as text.
fn payloads(
    context: &Context,
    reader: &Reader,
    index: u64,
) -> Result<Vec<(&'static str, String)>, Problem> {
    let settings = context.settings()?;
    let account = Account::book_vault();
    let secret = context.secrets(&settings)?.get(&account)?;
    let key = secret.and_then(|secret| secret.key()).ok_or_else(|| {
        Problem::new(
            "secret_missing",
            format!("the secret `{account}` is not in the secret store"),
            "unlock the keychain, or restore it from a backup",
        )
    })?;
    let key = VaultKey::from_bytes(*key);
    let mut found = Vec::new();
    for field in [Field::Args, Field::Sent, Field::Result] {
        match reader.payload(&key, index, field) {
            Ok(bytes) => found.push((field.as_str(), String::from_utf8_lossy(&bytes).into_owned())),
            Err(BookError::NotFound(_)) => {}
            Err(error) => return Err(unreadable(context, &context.folder.book(), &error)),
        }
    }
    Ok(found)
}
