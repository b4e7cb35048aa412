//! `book list`: one line for each entry, all or those a filter lets through. The record is not touched; the index beside it may be.

use clap::Args;
use countersign_book::{Body, Decision, DecisionVerdict, Entry, Outcome, escape};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::commands::{Context, Report, table};
use crate::derived::filter::{self, Filter};
use crate::derived::index::IndexError;
use crate::derived::page::{self, Asked, Next};
use crate::problem::Problem;

use super::unreadable;

/// Which entries are listed. Conditions on agent, server and tool let a call's decisions and outcomes through as well.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only of this agent
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Only of this server
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Only of this tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Only calls that ended so: ok, error, unknown, refused, preview, confirmation_required, pending_approval
    #[arg(long, value_name = "STATUS")]
    pub outcome: Option<String>,
    /// Only calls decided so: allow, deny
    #[arg(long, value_name = "DECISION")]
    pub decision: Option<String>,
    /// Only of this kind: call, decision, outcome, settings, …
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Not before: a time (RFC 3339), a date (UTC), or how long ago: 30m, 2h, 3d
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only before, said the same way
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// The first entry
    #[arg(long, value_name = "N")]
    pub from: Option<u64>,
    /// Only entries before this one
    #[arg(long, value_name = "N")]
    pub before: Option<u64>,
    /// At most so many, the latest where --from is absent
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u64,
    /// Make the index anew first, so that nothing an older one left out is missing
    #[arg(long)]
    pub reindex: bool,
}

/// Entries, oldest first. Without `--from`, the latest.
pub(super) fn run(context: &Context, args: &ListArgs) -> Result<Report, Problem> {
    let now = Timestamp::now();
    let asked = Asked {
        filter: Filter {
            agent: args.agent.clone(),
            server: args.server.clone(),
            tool: args.tool.clone(),
            outcome: args.outcome.clone(),
            decision: args.decision.clone(),
            kind: args.kind.clone(),
            since: moment("--since", args.since.as_deref(), now)?,
            until: moment("--until", args.until.as_deref(), now)?,
        },
        call: None,
        from: args.from,
        before: args.before,
        limit: usize::try_from(args.limit).unwrap_or(usize::MAX),
        anew: args.reindex,
    };
    let page = page::read(&context.folder, &asked).map_err(|error| unlisted(context, error))?;
    let mut text = lines(&page.entries, &page.outcomes);
    if let Some(looked) = page.looked {
        text.push_str(&format!(
            "only the first {looked} entries were looked through: the index is behind\n"
        ));
    }
    let next = page.next.map(|next| match next {
        Next::From(index) => json!({"from": index}),
        Next::Before(index) => json!({"before": index}),
    });
    let entries: Vec<Value> = page
        .entries
        .iter()
        .zip(&page.outcomes)
        .map(|(entry, outcome)| {
            let mut entry = entry_json(entry);
            if let Some(outcome) = outcome {
                entry["outcome"] = entry_json(outcome);
            }
            entry
        })
        .collect();
    Ok(Report::new(
        text,
        json!({"entries": entries, "next": next, "looked": page.looked}),
    ))
}

/// One line for each entry under a heading; a call says how it ended.
pub(super) fn lines(entries: &[Entry], outcomes: &[Option<Entry>]) -> String {
    let rows: Vec<Vec<String>> = entries
        .iter()
        .zip(outcomes)
        .map(|(entry, outcome)| {
            let (subject, mut what) = summary(entry);
            if let Some(Body::Outcome(outcome)) =
                outcome.as_ref().and_then(|outcome| outcome.body.as_ref())
            {
                what.push_str(&format!(": {}", outcome_words(outcome)));
            }
            vec![
                entry.index.to_string(),
                escape(&entry.time),
                escape(&entry.kind),
                escape(&subject),
                escape(&what),
            ]
        })
        .collect();
    table(&["entry", "time", "kind", "of", "what"], &rows)
}

/// Why there is no page.
pub(super) fn unlisted(context: &Context, error: IndexError) -> Problem {
    match error {
        IndexError::Book(error) => unreadable(context, &context.folder.book(), &error),
        IndexError::Store(fault) => Problem::new(
            "index",
            fault.to_string(),
            "the index is derived: delete `index.db`, it is made anew; the record is not concerned",
        ),
        error @ IndexError::Database(_) => Problem::new(
            "index",
            error.to_string(),
            "look at the space on the disk; the index is derived and can be deleted; the record is not concerned",
        ),
    }
}

/// A time as an option of that name gives it, in milliseconds since 1970.
pub(in crate::commands) fn moment(
    option: &str,
    text: Option<&str>,
    now: Timestamp,
) -> Result<Option<i64>, Problem> {
    let Some(text) = text else {
        return Ok(None);
    };
    let wrong = || {
        Problem::new(
            "usage",
            format!("`{}` is no time for {option}", crate::commands::plain(text)),
            "give a time like 2026-11-30T17:00:00Z, a date like 2026-11-30, or how long ago, like 30m, 2h, 3d",
        )
    };
    filter::moment(text, now).map(Some).ok_or_else(wrong)
}

pub(super) fn entry_json(entry: &Entry) -> Value {
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
            let effect = filter::effect(call.effect);
            let who = call.agent.as_deref().unwrap_or("public");
            (
                short(call.call.as_str()),
                format!("{who} calls {}/{} ({effect})", call.server, call.tool),
            )
        }
        Some(Body::Decision(decision)) => (short(decision.call.as_str()), decision_words(decision)),
        Some(Body::Outcome(outcome)) => (
            short(outcome.call.as_str()),
            format!("outcome: {}", outcome_words(outcome)),
        ),
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
        Some(Body::TurnOpen(open)) => (
            open.agent.clone(),
            format!("turn {} began ({})", open.turn.0, open.reason),
        ),
        Some(Body::TurnClose(close)) => (
            close.agent.clone(),
            format!("turn {} ended ({})", close.turn.0, close.reason),
        ),
        Some(Body::TurnFailed(failed)) => (
            failed.agent.clone(),
            format!(
                "turn {} is over until the person opens another ({})",
                failed.turn.0, failed.reason
            ),
        ),
        Some(Body::Approval(approval)) => {
            let what = match approval.verdict {
                countersign_book::Decided::Approve => "approved",
                countersign_book::Decided::Decline => "declined",
                countersign_book::Decided::Withdraw => "taken back",
            };
            (
                format!("{}/{}", approval.server, approval.tool),
                format!("{what} with {}", approval.via),
            )
        }
        Some(_) => (String::new(), String::new()),
        None => (String::new(), "not understood by this version".to_owned()),
    }
}

fn outcome_words(outcome: &Outcome) -> String {
    let code = outcome.code.as_deref().map(|code| format!(" ({code})"));
    let settled = outcome
        .settled
        .as_ref()
        .map(|_| ", settled after its process ended");
    let status = filter::status(outcome.status);
    format!(
        "{status}{}{}",
        code.unwrap_or_default(),
        settled.unwrap_or_default()
    )
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
