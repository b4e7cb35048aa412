//! `book verify|list|show`: reading the record. The record's own rules are the book's; nothing here writes.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use countersign_book::{
    Body, BookError, Decision, DecisionVerdict, Entry, Field, FindingKind, Listing, Order, Reader,
    Report as Verified, Signer, VaultKey, Verdict, VerifyOptions, Vkey, escape, verify,
};
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::secrets::{Account, Interaction};

use super::{Context, Report, not_initialised, spelled, table};

/// What of the book.
#[derive(Debug, Subcommand)]
pub enum BookCommand {
    /// Check every entry and signature; names the first bad place
    Verify(VerifyArgs),
    /// List entries
    List(ListArgs),
    /// Show one entry
    Show(ShowArgs),
}

/// Which book is verified.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The book's folder [default: this executor's]
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// The verifier key the book must have, known from elsewhere
    #[arg(long, value_name = "VKEY")]
    pub vkey: Option<String>,
}

/// Which entries are listed.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The first entry
    #[arg(long, value_name = "N")]
    pub from: Option<u64>,
    /// At most so many, the latest where --from is absent
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u64,
}

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

/// Runs the command.
///
/// # Errors
/// When the book cannot be read or its key is not understood. What verification finds is a report with its exit code, not an error.
pub fn run(context: &Context, command: BookCommand) -> Result<Report, Problem> {
    match command {
        BookCommand::Verify(args) => check(context, &args),
        BookCommand::List(args) => list(context, &args),
        BookCommand::Show(args) => show(context, &args),
    }
}

/// Whose word it is that a book is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// The key on the command line.
    Given,
    /// The executor's own, from its secret store.
    Own,
    /// None but the book's.
    None,
}

/// Verifies a book; the exit code is the verdict's (0 whole, 13 unsigned tail, 30 payload missing, 31 changed, 35 replaced, 40 unverifiable).
fn check(context: &Context, args: &VerifyArgs) -> Result<Report, Problem> {
    let dir = args.path.clone().unwrap_or_else(|| context.folder.book());
    let failed = |error: BookError| unreadable(context, &dir, &error);
    let given = args
        .vkey
        .as_deref()
        .map(Vkey::parse)
        .transpose()
        .map_err(|error| {
            Problem::new(
                "vkey",
                format!("the verifier key is not understood: {error}"),
                "give the whole line, as `book verify` prints it",
            )
        })?;
    let own = match args.path {
        Some(_) => None,
        None => own_keys(context),
    };
    let (pinned, held) = match (given, &own) {
        (Some(vkey), _) => (Some(vkey), Held::Given),
        (None, Some((signer, _))) => {
            let reader = Reader::open(&dir).map_err(failed)?;
            (Some(signer.vkey(&reader.book().origin)), Held::Own)
        }
        (None, None) => (None, Held::None),
    };
    let options = VerifyOptions {
        pinned,
        vault: own.and_then(|(_, vault)| vault),
        ..VerifyOptions::default()
    };
    let found = verify(&dir, &options).map_err(failed)?;
    let verdict = found.verdict();
    let mut report = Report::new(
        verified_text(&dir, &found, verdict, held),
        verified_json(&dir, &found, verdict, held),
    );
    report.exit = verdict.exit_code();
    Ok(report)
}

/// The key this executor signs its book with, where its secret store gives it without asking anybody.
pub fn own_key(context: &Context) -> Option<Signer> {
    own_keys(context).map(|(signer, _)| signer)
}

/// The same, and the key of the vault where the store has it.
fn own_keys(context: &Context) -> Option<(Signer, Option<VaultKey>)> {
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

fn verified_text(dir: &Path, found: &Verified, verdict: Verdict, held: Held) -> String {
    let mut text = String::new();
    for finding in &found.findings {
        let line = if finding.line == 0 {
            String::new()
        } else {
            format!(", line {}", finding.line)
        };
        text.push_str(&format!(
            "{}: {}{line}, entry {}: {}\n",
            word(finding.kind),
            finding.file.display(),
            finding.index,
            escape(&finding.what)
        ));
    }
    if found.more > 0 {
        text.push_str(&format!("and {} more findings\n", found.more));
    }
    let key = match held {
        Held::Own => "this executor's own key",
        Held::Given | Held::None => "the key you gave",
    };
    let reference = match held {
        Held::Own => "with this executor's own key, from its secret store",
        Held::Given => "with the key you gave",
        Held::None => {
            "with the key in the book itself: no independent reference (give the key you noted with --vkey)"
        }
    };
    let headline = match verdict {
        Verdict::Ok => format!(
            "the book is whole and signed: {} entries, {} checkpoints, {} payloads{}",
            found.size,
            found.checkpoints,
            found.payloads,
            found.unopened()
        ),
        Verdict::UnsignedTail => format!(
            "the book is whole and signed up to entry {}; what follows is not signed (a crash, or lines put in by hand)",
            last(found)
        ),
        Verdict::PayloadMissing => {
            "the record is whole, but kept content is missing without a word about it".to_owned()
        }
        Verdict::PayloadChanged => {
            "the record is whole, but kept content is not what its entries commit to".to_owned()
        }
        Verdict::Changed => format!(
            "the book was changed; the first bad place is named above; {} entries before it are as they were signed",
            found.size
        ),
        Verdict::Replaced => format!("this is another book: it is not signed by {key}"),
        Verdict::Unverifiable => "the book cannot be verified".to_owned(),
    };
    text.push_str(&format!(
        "{headline}\n  verified {reference}\n  {}\n  {}\n",
        dir.display(),
        found.vkey
    ));
    text
}

fn last(found: &Verified) -> String {
    found
        .size
        .checked_sub(1)
        .map_or_else(|| "(none)".to_owned(), |last| last.to_string())
}

fn verified_json(dir: &Path, found: &Verified, verdict: Verdict, held: Held) -> Value {
    let findings: Vec<Value> = found
        .findings
        .iter()
        .map(|finding| {
            json!({"kind": word(finding.kind), "file": finding.file.display().to_string(), "line": finding.line, "index": finding.index, "what": finding.what})
        })
        .collect();
    let verdict_word = match verdict {
        Verdict::Ok => "ok",
        Verdict::UnsignedTail => "unsigned_tail",
        Verdict::PayloadMissing => "payload_missing",
        Verdict::PayloadChanged => "payload_changed",
        Verdict::Changed => "changed",
        Verdict::Replaced => "replaced",
        Verdict::Unverifiable => "unverifiable",
    };
    json!({
        "path": dir.display().to_string(), "verdict": verdict_word, "exit": verdict.exit_code(), "origin": found.origin.as_str(), "vkey": found.vkey,
        "reference": match held { Held::Given => "pinned", Held::Own => "own", Held::None => "none" },
        "size": found.size, "root": found.root.to_string(), "checkpoints": found.checkpoints, "segments": found.segments, "bytes": found.bytes,
        "open_calls": found.open_calls, "not_understood": found.not_understood, "payloads": found.payloads, "opened": found.opened, "findings": findings, "more": found.more,
    })
}

fn word(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Changed => "changed",
        FindingKind::Removed => "removed",
        FindingKind::UnsignedTail => "unsigned tail",
        FindingKind::PayloadMissing => "payload missing",
        FindingKind::PayloadChanged => "payload changed",
        FindingKind::SecondOutcome => "note, second outcome",
        FindingKind::PayloadAbsentOnRecord => "payload absent, on record",
        FindingKind::Replaced => "replaced",
        FindingKind::Unverifiable => "unverifiable",
    }
}

/// Entries, oldest first. Without `--from`, the latest.
fn list(context: &Context, args: &ListArgs) -> Result<Report, Problem> {
    let dir = context.folder.book();
    let failed = |error: BookError| unreadable(context, &dir, &error);
    let reader = Reader::open(&dir).map_err(failed)?;
    let order = if args.from.is_some() {
        Order::OldestFirst
    } else {
        Order::NewestFirst
    };
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut entries = reader
        .list(Listing {
            from: args.from,
            limit,
            order,
        })
        .map_err(failed)?;
    if order == Order::NewestFirst {
        entries.reverse();
    }
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            let (subject, what) = summary(entry);
            vec![
                entry.index.to_string(),
                escape(&entry.time),
                escape(&entry.kind),
                escape(&subject),
                escape(&what),
            ]
        })
        .collect();
    let text = table(&["entry", "time", "kind", "of", "what"], &rows);
    let entries: Vec<Value> = entries.iter().map(entry_json).collect();
    Ok(Report::new(text, json!({"entries": entries})))
}

fn entry_json(entry: &Entry) -> Value {
    let members: Value = serde_json::from_str(&entry.line).unwrap_or(Value::Null);
    json!({"index": entry.index, "kind": entry.kind, "time": entry.time, "leaf": entry.leaf.to_string(), "entry": members})
}

/// What a line of the list says of an entry: whom it is about, and what happened.
fn summary(entry: &Entry) -> (String, String) {
    let short = |id: &str| {
        id.get(id.len().saturating_sub(6)..)
            .unwrap_or(id)
            .to_owned()
    };
    match &entry.body {
        Some(Body::Call(call)) => {
            let effect = match call.effect {
                countersign_book::Effect::Read => "read",
                countersign_book::Effect::Write => "write",
            };
            let who = call.agent.as_deref().unwrap_or("public");
            (
                short(call.call.as_str()),
                format!("{who} calls {}/{} ({effect})", call.server, call.tool),
            )
        }
        Some(Body::Decision(decision)) => (short(decision.call.as_str()), decision_words(decision)),
        Some(Body::Outcome(outcome)) => {
            let status = serde_json::to_value(outcome.status)
                .ok()
                .and_then(|value| value.as_str().map(str::to_owned))
                .unwrap_or_default();
            let code = outcome
                .code
                .as_deref()
                .map(|code| format!(" ({code})"))
                .unwrap_or_default();
            let settled = outcome
                .settled
                .as_ref()
                .map(|_| ", settled after its process ended")
                .unwrap_or_default();
            (
                short(outcome.call.as_str()),
                format!("outcome: {status}{code}{settled}"),
            )
        }
        Some(Body::Refusals(refusals)) => {
            let counts: Vec<String> = refusals
                .counts
                .iter()
                .map(|count| format!("{} × {}", count.n.0, count.code))
                .collect();
            (
                refusals.agent.clone().unwrap_or_default(),
                format!("refused before validation: {}", counts.join(", ")),
            )
        }
        Some(Body::Catalog(catalog)) => {
            let what = match catalog.change {
                countersign_book::Change::Shown => {
                    format!("{} tools known", catalog.tools.map_or(0, |count| count.0))
                }
                countersign_book::Change::Changed => format!(
                    "{} has changed",
                    catalog.tool.as_deref().unwrap_or("a tool")
                ),
                countersign_book::Change::SetAside => {
                    format!("{} set aside", catalog.tool.as_deref().unwrap_or("a tool"))
                }
            };
            (catalog.server.clone(), what)
        }
        Some(Body::BookOpen(open)) => {
            let development = if open.development {
                "made for development"
            } else {
                "made"
            };
            (
                open.name.clone().unwrap_or_default(),
                development.to_owned(),
            )
        }
        Some(Body::Settings(settings)) => {
            let hash = settings.hash.to_string();
            let short = hash.get(..15).unwrap_or(&hash);
            (
                "executor.json".to_owned(),
                format!("in force from here on: {short}…"),
            )
        }
        Some(Body::BookRecovered(recovered)) => (
            String::new(),
            format!("{} bytes set aside, never signed", recovered.bytes.0),
        ),
        Some(Body::Permission(permission)) => (
            permission.agent.clone(),
            if permission.development {
                "(development)".to_owned()
            } else {
                "signed".to_owned()
            },
        ),
        Some(_) => (String::new(), String::new()),
        None => (String::new(), "not understood by this version".to_owned()),
    }
}

fn decision_words(decision: &Decision) -> String {
    let verdict = match decision.decision {
        DecisionVerdict::Allow => "allowed",
        DecisionVerdict::Deny => "denied",
    };
    let rule = decision
        .rule
        .as_deref()
        .map(|rule| format!(", {rule}"))
        .unwrap_or_default();
    let aim = decision
        .aim
        .as_deref()
        .map(|aim| format!(" at {aim}"))
        .unwrap_or_default();
    format!("{verdict} by {}{rule}{aim}", decision.gate)
}

fn show(context: &Context, args: &ShowArgs) -> Result<Report, Problem> {
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

/// Why a book can't be read, and what to do: other words for this executor's own than for one named on the command line.
fn unreadable(context: &Context, dir: &Path, error: &BookError) -> Problem {
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
