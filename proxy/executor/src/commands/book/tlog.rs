//! `book tlog`: the derived log brought up to date, or compared with the journal. The record itself is never touched.

use std::time::Duration;

use clap::Args;
use countersign_book::{BookError, Disagreement, Tlog, TlogReport, escape};
use serde_json::{Value, json};

use crate::commands::{Context, Report};
use crate::derived;
use crate::examine::{Finding, in_the_way};
use crate::problem::Problem;

use super::unreadable;

/// Exit code: only behind, as a copy would be.
const BEHIND: u8 = 11;
/// Exit code: something in it is not what the journal says, as of a copy that was altered.
const ALTERED: u8 = 20;

/// How long another process may be at work on it.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is done.
#[derive(Debug, Args)]
pub struct TlogArgs {
    /// Compare every file with the journal and change nothing
    #[arg(long)]
    pub check: bool,
}

/// Exit code 0: as the journal says, or made so; where the book is not well, its state's code, and nothing is touched. With `--check` 11: behind; 20: something is missing or differs.
pub(super) fn run(context: &Context, args: &TlogArgs) -> Result<Report, Problem> {
    let dir = context.folder.book();
    if !args.check
        && let Some(finding) = in_the_way(context, context.settings().ok().as_ref())
    {
        return Ok(refused(&finding));
    }
    let failed = |error: BookError| match error {
        BookError::NotFound(what) => Problem::new(
            "tlog_lost",
            what,
            "restore the folder `book/tlog` from a copy",
        ),
        error => unreadable(context, &dir, &error),
    };
    let mut tlog = Tlog::open(&dir).map_err(failed)?;
    let report = if args.check {
        tlog.check().map_err(failed)?
    } else {
        let _held = context.folder.lock(derived::LOCK, PATIENCE)?;
        tlog.rebuild().map_err(failed)?
    };
    let exit = match args.check {
        true => verdict(&report),
        false => 0,
    };
    Ok(Report {
        text: words(&report, args.check, &dir.join("tlog").display().to_string()),
        json: data(&report),
        exit,
    })
}

/// The state of the book, in which nothing is derived from it.
fn refused(finding: &Finding) -> Report {
    let words = finding.condition.words();
    let mut report = Report::new(
        format!(
            "{}: {}\n  found: {}\n  not changed: the record and what is derived from it: nothing was published\n  what to do: {}\n",
            words.name, words.means, finding.what, words.todo
        ),
        json!({
            "state": words.name, "means": words.means, "found": finding.what,
            "not_changed": "the record and what is derived from it", "what_to_do": words.todo,
        }),
    );
    report.exit = finding.exit;
    report
}

fn verdict(report: &TlogReport) -> u8 {
    match report.findings.as_slice() {
        [] => 0,
        found
            if found
                .iter()
                .all(|finding| finding.kind == Disagreement::Behind) =>
        {
            BEHIND
        }
        _ => ALTERED,
    }
}

fn words(report: &TlogReport, check: bool, folder: &str) -> String {
    let size = report.head.size;
    let mut text = match (check, report.findings.is_empty()) {
        (true, true) => format!("`{folder}` is what the journal says, up to entry {}\n", size - 1),
        (true, false) => {
            "the derived log is not what the journal says; the record itself is not concerned, and nothing was changed\n".to_owned()
        }
        (false, _) => format!(
            "`{folder}` is up to date with {size} entries: {} files written, {} were as they must be\n",
            report.written, report.same
        ),
    };
    if report.from > 0 {
        text.push_str(&format!(
            "entries before {} were not looked at: they were pruned from the journal\n",
            report.from
        ));
    }
    for finding in &report.findings {
        text.push_str(&format!(
            "  {}: {}",
            escape(&finding.file),
            escape(&finding.what)
        ));
        if let Some(evidence) = &finding.evidence {
            text.push_str(&format!(
                "; what was there is kept as `{}`",
                evidence.display()
            ));
        }
        text.push('\n');
    }
    if report.more > 0 {
        text.push_str(&format!("  and {} more\n", report.more));
    }
    if check && !report.findings.is_empty() {
        text.push_str("  what to do: `countersign book tlog` makes it anew from the journal and keeps what differs\n");
    }
    text
}

fn data(report: &TlogReport) -> Value {
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| {
            json!({
                "kind": match finding.kind {
                    Disagreement::Missing => "missing",
                    Disagreement::Differs => "differs",
                    Disagreement::Stray => "stray",
                    Disagreement::Behind => "behind",
                },
                "file": finding.file,
                "what": finding.what,
                "evidence": finding.evidence,
            })
        })
        .collect();
    json!({
        "size": report.head.size, "root": report.head.root.to_string(), "published": report.published, "from": report.from,
        "written": report.written, "same": report.same, "findings": findings, "more": report.more,
        "checkpoint": report.head.note,
    })
}
