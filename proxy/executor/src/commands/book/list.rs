//! `book list`: one line for each entry. Nothing here writes.

use clap::Args;
use countersign_book::{
    Body, BookError, Decision, DecisionVerdict, Entry, Listing, Order, Reader, escape,
};
use serde_json::{Value, json};

use crate::commands::{Context, Report, table};
use crate::problem::Problem;

use super::unreadable;

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

/// Entries, oldest first. Without `--from`, the latest.
pub(super) fn run(context: &Context, args: &ListArgs) -> Result<Report, Problem> {
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
        Some(Body::KeyRotate(rotate)) => (
            "the signing key".to_owned(),
            format!(
                "replaced from {} entries on: {}",
                rotate.from.0, rotate.reason
            ),
        ),
        Some(Body::EraOpen(era)) => (
            "the book before".to_owned(),
            format!("{} ended: {}", era.origin, era.reason),
        ),
        Some(Body::Erase(erase)) => {
            let targets: Vec<String> = erase
                .targets
                .iter()
                .map(|target| format!("{} of {}", target.f.as_str(), target.i.0))
                .collect();
            (
                "what is kept".to_owned(),
                format!("erased {}: {}", targets.join(", "), erase.reason),
            )
        }
        Some(Body::Prune(prune)) => (
            "the entries".to_owned(),
            format!("below {} were removed: {}", prune.minimum.0, prune.reason),
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
