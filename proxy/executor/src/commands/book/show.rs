//! `book show`: one entry (or all of a call), its proof, and what the vault keeps of it. The record is not touched.

use clap::Args;
use countersign_book::{BookError, CallId, Reader, escape};
use serde_json::{Value, json};

use crate::commands::acts::Consent;
use crate::commands::{Context, Report, spelled};
use crate::derived::filter::Filter;
use crate::derived::page::{self, Asked};
use crate::problem::Problem;

use super::kept::{self, Secrets};
use super::{list, proof, unreadable};

/// Which entry is shown.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The entry's number, from 0, or a call's id for all entries of that call
    #[arg(value_name = "N|CALL", value_parser = which)]
    pub which: Which,
    /// Also show the arguments and results that are kept encrypted
    #[arg(long)]
    pub payload: bool,
    /// With --payload: also what looks like passwords and keys
    #[arg(long, requires = "payload")]
    pub secrets: bool,
    /// Whether secrets are asked for
    #[command(flatten)]
    pub consent: Consent,
}

/// What is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// One entry.
    Entry(u64),
    /// The entries of a call.
    Call(CallId),
}

/// Entries of one call that are shown, at most.
const MOST: usize = 1000;

fn which(text: &str) -> Result<Which, String> {
    if let Ok(index) = text.parse() {
        return Ok(Which::Entry(index));
    }
    let call = CallId::parse(text).map(Which::Call);
    call.map_err(|_| "it is neither an entry's number nor a call's id".to_owned())
}

pub(super) fn run(context: &Context, args: &ShowArgs) -> Result<Report, Problem> {
    match &args.which {
        Which::Entry(index) => entry(context, *index, args),
        Which::Call(call) => of_call(context, call, args),
    }
}

/// All entries of a call, one after the other.
fn of_call(context: &Context, call: &CallId, args: &ShowArgs) -> Result<Report, Problem> {
    let asked = Asked {
        filter: Filter::default(),
        call: Some(call.to_string()),
        from: Some(0),
        before: None,
        limit: MOST,
        anew: false,
    };
    let page =
        page::read(&context.folder, &asked).map_err(|error| list::unlisted(context, error))?;
    if page.entries.is_empty() {
        return Err(Problem::new(
            "call_unknown",
            format!("the book has no signed entry of the call `{call}`"),
            "`countersign book list --kind call --json` shows calls with their ids",
        ));
    }
    let mut text = list::lines(&page.entries, &page.outcomes);
    let mut entries = Vec::new();
    for shown in &page.entries {
        let report = entry(context, shown.index, args)?;
        text.push_str(&format!("\n{}", report.text));
        entries.push(report.json);
    }
    Ok(Report::new(
        text,
        json!({"call": call.to_string(), "entries": entries}),
    ))
}

fn entry(context: &Context, index: u64, args: &ShowArgs) -> Result<Report, Problem> {
    let dir = context.folder.book();
    let failed = |error: BookError| unreadable(context, &dir, &error);
    let reader = Reader::open(&dir).map_err(failed)?;
    let shown = reader.show(index).map_err(failed)?;
    let shown = match shown {
        Some(shown) => shown,
        None => return Err(absent(index, reader.first().map_err(failed)?)),
    };
    let (proven, proof) = proof::summary(&dir, &shown.entry).map_err(failed)?;
    let entry = &shown.entry;
    let members: Value = serde_json::from_str(&entry.line).unwrap_or(Value::Null);
    let pretty = serde_json::to_string_pretty(&members).unwrap_or_default();
    let mut text = format!(
        "entry {} ({}), {}\nleaf {}\nin {}, line {}\n{proven}\n\n",
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
        "entry": members, "checkpoint": shown.checkpoint, "proof": proof,
    });
    if args.payload {
        let secrets = match args.secrets {
            true => Secrets::Shown(args.consent),
            false => Secrets::Hidden,
        };
        let kept = kept::show(context, &reader, index, secrets)?;
        text.push_str(&kept.text);
        answer["payloads"] = kept.payloads;
        answer["kept"] = kept.kept;
    }
    Ok(Report::new(text, answer))
}

fn absent(index: u64, first: u64) -> Problem {
    if index >= first {
        return proof::unknown_entry(index);
    }
    Problem::new(
        "entry_pruned",
        format!("entry {index} was pruned: the book begins with entry {first}"),
        "`countersign book list` shows the `prune` entry that says why",
    )
}
