//! `book verify`: the verdict on a book in words and as data. Nothing here writes.

use std::path::{Path, PathBuf};

use clap::Args;
use countersign_book::{
    BookError, FindingKind, Reader, Report as Verified, Verdict, VerifyOptions, Vkey, escape,
    verify,
};
use serde_json::{Value, json};

use crate::commands::{Context, Report};
use crate::problem::Problem;

use super::own::own;
use super::unreadable;

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

/// Verifies a book; the exit code is the verdict's (0 whole, 13 unsigned tail, 30 payload missing, 31 changed, 32 truncated, 33
/// rewritten, 34 key outside its range, 35 replaced, 40 unverifiable).
pub(super) fn run(context: &Context, args: &VerifyArgs) -> Result<Report, Problem> {
    let dir = args.path.clone().unwrap_or_else(|| context.folder.book());
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
        None => context
            .settings()
            .ok()
            .and_then(|settings| own(context, &settings).ok()),
    };
    let signer = own.as_ref().and_then(|own| own.signers.first());
    let (pinned, held) = match (given, signer) {
        (Some(vkey), _) => (Some(vkey), Held::Given),
        (None, Some(signer)) => {
            let reader = match Reader::open(&dir) {
                Ok(reader) => reader,
                Err(error) => return unverifiable(context, &dir, &error),
            };
            (Some(signer.vkey(&reader.book().origin)), Held::Own)
        }
        (None, None) => (None, Held::None),
    };
    let options = VerifyOptions {
        pinned,
        pin: own.as_ref().and_then(|own| own.remembered.pin().cloned()),
        vault: own.and_then(|own| own.vault),
        ..VerifyOptions::default()
    };
    let found = match verify(&dir, &options) {
        Ok(found) => found,
        Err(error) => return unverifiable(context, &dir, &error),
    };
    let verdict = found.verdict();
    let mut report = Report::new(
        verified_text(&dir, &found, verdict, held),
        verified_json(&dir, &found, verdict, held),
    );
    report.exit = verdict.exit_code();
    Ok(report)
}

/// The answer on a book that is there and can't be read, or not by this version: never success, as FORMAT.md says. Where there is no
/// book, there is no verdict.
fn unverifiable(context: &Context, dir: &Path, error: &BookError) -> Result<Report, Problem> {
    let problem = unreadable(context, dir, error);
    let there = [dir.join("BOOK"), dir.join("book").join("BOOK")];
    if !there.iter().any(|path| path.symlink_metadata().is_ok()) {
        return Err(problem);
    }
    let mut report = Report::new(
        format!(
            "the book cannot be verified: {}\n{}\n",
            escape(&problem.message),
            problem.remedy
        ),
        json!({
            "path": dir.display().to_string(), "verdict": "unverifiable", "exit": BookError::UNVERIFIABLE,
            "error": {"code": problem.code, "message": problem.message, "remedy": problem.remedy},
        }),
    );
    report.exit = BookError::UNVERIFIABLE;
    Ok(report)
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
        Held::None => "with the key in the book itself (give the key you noted with --vkey)",
    };
    let end = match (found.pin, held) {
        (Some(size), _) => format!("as far as this machine remembers it: {size} entries"),
        (None, Held::None) => {
            "against nothing else: no independent reference; a cut end is found only by comparing with a copy".to_owned()
        }
        (None, Held::Own | Held::Given) => {
            "but nothing remembers how long the book was: a cut end is found only by comparing with a copy".to_owned()
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
        Verdict::KeyRange => format!(
            "a key signed what it may not sign, as named above; {} entries before it are as the keys in force signed them; if the \
             key was stolen, begin a new era with `countersign book new-era`",
            found.size
        ),
        Verdict::Truncated => format!(
            "the book's end is missing: it is whole and signed up to entry {}, and this machine remembers {} entries; an old \
             backup was put back, or somebody cut it off",
            last(found),
            found.pin.unwrap_or_default()
        ),
        Verdict::Rewritten => {
            "the book was rewritten: it is whole and signed, and not the one this machine remembers"
                .to_owned()
        }
        Verdict::Replaced => format!("this is another book: it is not signed by {key}"),
        Verdict::Unverifiable => "the book cannot be verified".to_owned(),
    };
    text.push_str(&format!(
        "{headline}\n  verified {reference}\n  {end}\n  {}\n  {}\n",
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
        Verdict::KeyRange => "key_range",
        Verdict::Truncated => "truncated",
        Verdict::Rewritten => "rewritten",
        Verdict::Replaced => "replaced",
        Verdict::Unverifiable => "unverifiable",
    };
    json!({
        "path": dir.display().to_string(), "verdict": verdict_word, "exit": verdict.exit_code(), "origin": found.origin.as_str(), "vkey": found.vkey,
        "reference": match held { Held::Given => "pinned", Held::Own => "own", Held::None => "none" },
        "pin": found.pin, "first": found.first, "size": found.size, "root": found.root.to_string(), "checkpoints": found.checkpoints, "segments": found.segments, "bytes": found.bytes,
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
        FindingKind::PayloadErased => "payload erased, on record",
        FindingKind::Pruned => "pruned, on record",
        FindingKind::KeyRange => "key outside its range",
        FindingKind::Truncated => "truncated",
        FindingKind::Rewritten => "rewritten",
        FindingKind::Replaced => "replaced",
        FindingKind::Unverifiable => "unverifiable",
    }
}
