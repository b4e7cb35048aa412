//! `book status`: the state of this executor's book in words a person understands, and what belongs to it. Nothing here writes.

use countersign_book::{Look, escape};
use serde_json::{Value, json};

use crate::commands::{Context, Report, not_initialised};
use crate::condition::Condition;
use crate::disk::Place;
use crate::examine::{Examined, Key, examine};
use crate::pin::Remembered;
use crate::problem::Problem;
use crate::settings::{Payloads, Settings};

/// Open calls that are listed; of more, only the number is told.
const MOST_CALLS: usize = 20;

/// Shows the state. Exit code 0 where the book is well, 13 with an unsigned tail, else the code of what is wrong.
pub(super) fn run(context: &Context) -> Result<Report, Problem> {
    let settings = context.settings().ok();
    if settings.is_none() && !context.folder.book().exists() {
        return Err(not_initialised(&context.folder));
    }
    let found = examine(context, settings.as_ref());
    let (condition, exit) = found
        .findings
        .first()
        .map_or((Condition::Ok, 0), |worst| (worst.condition, worst.exit));
    let mut report = Report::new(
        text(context, settings.as_ref(), &found),
        data(context, settings.as_ref(), &found, condition, exit),
    );
    report.exit = exit;
    Ok(report)
}

fn text(context: &Context, settings: Option<&Settings>, found: &Examined) -> String {
    let mut text = String::new();
    if found.findings.is_empty() {
        let words = Condition::Ok.words();
        text.push_str(&format!("{}: {}\n", words.name, words.means));
    }
    for finding in &found.findings {
        let words = finding.condition.words();
        text.push_str(&format!("{}: {}\n", words.name, words.means));
        for (label, line) in [
            ("found", finding.what.as_str()),
            ("not changed", words.untouched),
            ("what to do", words.todo),
        ] {
            text.push_str(&format!("  {label}: {line}\n"));
        }
    }
    let mut row = |label: &str, line: String| text.push_str(&format!("  {label:<11} {line}\n"));
    row("folder", context.folder.book().display().to_string());
    if let Some(look) = &found.look {
        let first = look
            .first_ts
            .as_deref()
            .map_or_else(|| "?".to_owned(), escape);
        let last = look.last_ts.as_deref().unwrap_or("?");
        row("entries", format!("{}, from {first} to {last}", look.size));
        row(
            "on disk",
            format!(
                "{} segments, {} of journal, {} of vault",
                look.segments,
                bytes(look.journal_bytes),
                bytes(look.vault_bytes)
            ),
        );
        row("key", key(found, look));
    }
    row("remembered", remembered(found));
    if let Some(look) = &found.look {
        row("set aside", set_aside(look));
        row("open calls", look.open_calls.len().to_string());
        for call in look.open_calls.iter().take(MOST_CALLS) {
            let process = escape(&call.process);
            let lives = match found.processes.contains(&call.process) {
                true => "which lives",
                false => "which is gone: the next one that opens the book settles it as unknown",
            };
            row(
                "",
                format!("{} (entry {}) of {process}, {lives}", call.call, call.index),
            );
        }
    }
    for (n, leftover) in found.leftovers.iter().enumerate() {
        let label = if n == 0 { "left over" } else { "" };
        row(label, format!("{}; {}", leftover.what, leftover.todo));
    }
    row(
        "open in",
        match found.processes.len() {
            0 => "no process".to_owned(),
            _ => found.processes.join(", "),
        },
    );
    if let Some(settings) = settings {
        let payloads = match settings.book.payloads {
            Payloads::Keep => "kept, encrypted, in the vault",
            Payloads::Digest => "not kept, only committed to",
        };
        row("payloads", payloads.to_owned());
    }
    row("place", place(context, settings, &found.place));
    text
}

fn key(found: &Examined, look: &Look) -> String {
    let vkey = look.key.as_ref().unwrap_or(&look.book.vkey);
    let id = data_encoding::HEXLOWER.encode(&vkey.id());
    let whose = match &found.key {
        Key::Own => "this executor's own".to_owned(),
        Key::NotOurs => "not one this executor has".to_owned(),
        Key::NotAsked(why) => format!("whether this executor has it was not looked at: {why}"),
    };
    format!("{id}, {whose}")
}

fn remembered(found: &Examined) -> String {
    match (&found.remembered, &found.look) {
        (None, _) => "not looked at, since the secret store can't be asked".to_owned(),
        (Some(Remembered::Pin(pin)), Some(look)) if pin.origin == look.book.origin => {
            match look.size.checked_sub(pin.size) {
                Some(0) => format!("{} entries", pin.size),
                Some(behind) => format!("{} entries, {behind} behind the book", pin.size),
                None => format!("{} entries, more than the book has", pin.size),
            }
        }
        (Some(Remembered::Pin(pin)), _) => format!("{} entries of `{}`", pin.size, pin.origin),
        (Some(other), _) => other.warning().unwrap_or_default(),
    }
}

fn set_aside(look: &Look) -> String {
    let total: u64 = look.quarantine.iter().map(|(_, bytes)| bytes).sum();
    match look.quarantine.len() {
        0 => "nothing".to_owned(),
        files => format!("{files} files in `quarantine`, {}", bytes(total)),
    }
}

fn place(context: &Context, settings: Option<&Settings>, place: &Place) -> String {
    let allowed = settings.is_some_and(|settings| settings.book.allow_network_folder);
    match (place.trouble(&context.folder.book()), allowed) {
        (None, _) => "a disk of this machine".to_owned(),
        (Some(trouble), true) => format!("{trouble}; allowed in executor.json"),
        (Some(trouble), false) => format!("{trouble}; no call is let through"),
    }
}

/// Bytes as a person reads them.
fn bytes(bytes: u64) -> String {
    match bytes {
        ..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

fn data(
    context: &Context,
    settings: Option<&Settings>,
    found: &Examined,
    condition: Condition,
    exit: u8,
) -> Value {
    let findings: Vec<Value> = found
        .findings
        .iter()
        .map(|finding| {
            let words = finding.condition.words();
            json!({
                "state": finding.condition, "what": finding.what, "means": words.means, "unchanged": words.untouched,
                "remedy": words.todo,
            })
        })
        .collect();
    let pin = found.remembered.as_ref().and_then(Remembered::pin);
    let look = found.look.as_ref();
    let calls: Vec<Value> = look
        .iter()
        .flat_map(|look| &look.open_calls)
        .map(|call| {
            json!({
                "call": call.call.as_str(), "index": call.index, "process": call.process,
                "alive": found.processes.contains(&call.process),
            })
        })
        .collect();
    let quarantine: Vec<Value> = look
        .iter()
        .flat_map(|look| &look.quarantine)
        .map(|(name, bytes)| json!({"name": name, "bytes": bytes}))
        .collect();
    let leftovers: Vec<Value> = found
        .leftovers
        .iter()
        .map(|left| json!({"what": left.what, "remedy": left.todo}))
        .collect();
    json!({
        "left_over": leftovers, "state": condition, "exit": exit, "findings": findings, "path": context.folder.book(),
        "origin": look.map(|look| look.book.origin.as_str()), "vkey": look.map(|look| look.key.as_ref().unwrap_or(&look.book.vkey).to_string()),
        "key": match &found.key { Key::Own => "own", Key::NotOurs => "missing", Key::NotAsked(_) => "not_asked" },
        "entries": look.map(|look| look.size), "first": look.and_then(|look| look.first_ts.clone()),
        "last": look.and_then(|look| look.last_ts.clone()), "segments": look.map(|look| look.segments),
        "journal_bytes": look.map(|look| look.journal_bytes), "vault_bytes": look.map(|look| look.vault_bytes),
        "pin": pin.map(|pin| json!({
            "origin": pin.origin.as_str(), "size": pin.size, "root": pin.root.to_string(),
            "behind": look.and_then(|look| look.size.checked_sub(pin.size)),
        })),
        "remembered": remembered(found), "quarantine": quarantine, "open_calls": calls, "processes": found.processes,
        "payloads": settings.map(|settings| settings.book.payloads), "place": place(context, settings, &found.place),
        "allow_network_folder": settings.map(|settings| settings.book.allow_network_folder),
    })
}
