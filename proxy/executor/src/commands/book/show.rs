//! `book show`: one entry, with what the vault keeps of it. Nothing here writes.

use clap::Args;
use countersign_book::{BookError, Reader, escape};
use serde_json::{Value, json};

use crate::commands::acts::Consent;
use crate::commands::{Context, Report, spelled};
use crate::problem::Problem;

use super::kept::{self, Secrets};
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
    /// With --payload: also what looks like passwords and keys
    #[arg(long, requires = "payload")]
    pub secrets: bool,
    /// Whether secrets are asked for
    #[command(flatten)]
    pub consent: Consent,
}

pub(super) fn run(context: &Context, args: &ShowArgs) -> Result<Report, Problem> {
    let dir = context.folder.book();
    let failed = |error: BookError| unreadable(context, &dir, &error);
    let reader = Reader::open(&dir).map_err(failed)?;
    let first = reader.first().map_err(failed)?;
    let shown = reader.show(args.index).map_err(failed)?.ok_or_else(|| {
        if args.index < first {
            return Problem::new(
                "entry_pruned",
                format!(
                    "entry {} was pruned: the book begins with entry {first}",
                    args.index
                ),
                "`countersign book list` shows the `prune` entry that says why",
            );
        }
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
        let secrets = match args.secrets {
            true => Secrets::Shown(args.consent),
            false => Secrets::Hidden,
        };
        let kept = kept::show(context, &reader, args.index, secrets)?;
        text.push_str(&kept.text);
        answer["payloads"] = kept.payloads;
        answer["kept"] = kept.kept;
    }
    Ok(Report::new(text, answer))
}
