//! `turn show|open|report` and `agent report`: how an agent's turn stands, the person's act that lets it go on, and what it did. A report is
//! told by the book alone.

use clap::{Args, Subcommand};
use countersign_gate::turn::{By, LIMIT, Turn};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::account::{Account, Asked, account};
use crate::problem::Problem;
use crate::settings::{Name, Settings};
use crate::store::StateDb;

use super::book::list::moment;
use super::{Context, Report, owed, plain, table, unknown};

/// What to do with turns.
#[derive(Debug, Subcommand)]
pub enum TurnCommand {
    /// How an agent's turn stands, and its strikes
    Show(AgentArg),
    /// Let an agent go on: its turn ends and a new one begins, without strikes
    Open(AgentArg),
    /// What happened in one turn, told by the book alone
    Report(TurnReportArgs),
}

/// An agent.
#[derive(Debug, Args)]
pub struct AgentArg {
    /// The agent
    #[arg(long, value_name = "NAME")]
    pub agent: Name,
}

/// Which turn.
#[derive(Debug, Args)]
pub struct TurnReportArgs {
    /// The agent
    #[arg(long, value_name = "NAME")]
    pub agent: Name,
    /// The turn's number [default: the last one in the book]
    #[arg(long, value_name = "N")]
    pub turn: Option<u64>,
    /// An agent that works for it: its denials are counted with it; may be given several times
    #[arg(long, value_name = "NAME")]
    pub child: Vec<Name>,
}

/// What a report of an agent is about.
#[derive(Debug, Args)]
pub struct AgentReportArgs {
    /// The agent
    #[arg(long, value_name = "NAME")]
    pub agent: Name,
    /// Not before: a time, a date, or how long ago (30m, 2h, 3d)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Before: as --since
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// An agent that works for it: its denials are counted with it; may be given several times
    #[arg(long, value_name = "NAME")]
    pub child: Vec<Name>,
}

/// Runs one of them.
pub fn run(context: &Context, command: TurnCommand) -> Result<Report, Problem> {
    match command {
        TurnCommand::Show(args) => show(context, &args.agent),
        TurnCommand::Open(args) => open(context, &args.agent),
        TurnCommand::Report(args) => report(context, &args),
    }
}

/// `agent report`.
pub(super) fn agent_report(context: &Context, args: &AgentReportArgs) -> Result<Report, Problem> {
    let now = Timestamp::now();
    let asked = Asked {
        agent: args.agent.to_string(),
        children: names(&args.child),
        turn: None,
        since: moment("--since", args.since.as_deref(), now)?,
        until: moment("--until", args.until.as_deref(), now)?,
    };
    Ok(told(&account(&context.folder.book(), asked), "agent"))
}

fn report(context: &Context, args: &TurnReportArgs) -> Result<Report, Problem> {
    let book = context.folder.book();
    let whole = Asked {
        agent: args.agent.to_string(),
        children: names(&args.child),
        ..Asked::default()
    };
    let turn = match args.turn {
        Some(turn) => Some(turn),
        None => {
            let found = account(&book, whole.clone());
            if found.unavailable.is_some() {
                return Ok(told(&found, "turn"));
            }
            found.turns.iter().map(|line| line.turn).max()
        }
    };
    let Some(turn) = turn else {
        return Err(no_turn(&args.agent, None));
    };
    let asked = Asked {
        turn: Some(turn),
        ..whole
    };
    let account = account(&book, asked);
    if account.unavailable.is_none() && account.turns.is_empty() && account.calls.is_empty() {
        return Err(no_turn(&args.agent, Some(turn)));
    }
    Ok(told(&account, "turn"))
}

/// A report; its exit code is 1 where the book could not be read.
fn told(account: &Account, report: &str) -> Report {
    let exit = u8::from(account.unavailable.is_some());
    Report {
        exit,
        ..Report::new(account.text(), account.document(report))
    }
}

fn show(context: &Context, agent: &Name) -> Result<Report, Problem> {
    let settings = context.settings()?;
    known(&settings, agent)?;
    let state = StateDb::open(&context.folder)?;
    let Some(turn) = state.turn_show(agent.as_str())? else {
        let text = format!("{agent} has no turn yet: one begins with its first call\n");
        return Ok(Report::new(
            text,
            json!({"agent": agent.as_str(), "turn": null}),
        ));
    };
    Ok(Report::new(
        text(agent, &turn),
        json!({"agent": agent.as_str(), "turn": document(&turn)}),
    ))
}

fn open(context: &Context, agent: &Name) -> Result<Report, Problem> {
    let settings = context.settings()?;
    known(&settings, agent)?;
    let state = StateDb::open(&context.folder)?;
    let before = state.turn_show(agent.as_str())?;
    let opened = state.turn_open(agent.as_str(), By::Command, Timestamp::now())?;
    let Some(stands) = opened else {
        return Err(Problem::new(
            "turn_latched",
            format!("the turn of `{agent}` could not be opened; nothing was changed"),
            "`countersign turn show --agent NAME` says how it stands",
        ));
    };
    let on_record = owed::bring(context, &settings, &state, &stands.facts);
    let was = match &before {
        None => String::new(),
        Some(turn) if turn.is_latched() => {
            format!("; turn {} was over after two strikes", turn.number)
        }
        Some(turn) => format!(
            "; turn {} ended with {} of {LIMIT} strikes",
            turn.number,
            turn.strikes.len()
        ),
    };
    let said = format!(
        "{agent} may go on: turn {} is open, without strikes{was}\n{}",
        stands.turn.number,
        on_record.text()
    );
    Ok(Report::new(
        said,
        json!({
            "agent": agent.as_str(), "turn": document(&stands.turn), "before": before.as_ref().map(document),
            "on_record": on_record.json(),
        }),
    ))
}

fn text(agent: &Name, turn: &Turn) -> String {
    let stands = match (turn.is_latched(), turn.strikes.len()) {
        (true, _) => {
            "over: no call of it is run, reads included, until you let it go on".to_owned()
        }
        (false, 0) => "open, without strikes".to_owned(),
        (false, strikes) => {
            format!("open, with {strikes} of {LIMIT} strikes; the next one ends it")
        }
    };
    let mut text = format!(
        "{agent}, turn {}: {stands}\nsince {}\n",
        turn.number, turn.opened_at
    );
    if !turn.strikes.is_empty() {
        let rows: Vec<Vec<String>> = turn
            .strikes
            .iter()
            .map(|strike| {
                let fact = |name: &str| {
                    let text = strike.facts.get(name).and_then(Value::as_str);
                    plain(text.unwrap_or_default())
                };
                let aim = ["requested_path", "requested_command", "normalized_path"]
                    .into_iter()
                    .map(fact)
                    .find(|aim| !aim.is_empty());
                vec![
                    strike.at.to_string(),
                    fact("tool"),
                    fact("matched_rule"),
                    strike.call_id.clone(),
                    aim.unwrap_or_default(),
                ]
            })
            .collect();
        text.push_str(&table(&["strike", "tool", "rule", "call", "aim"], &rows));
    }
    if turn.is_latched() {
        text.push_str(&format!(
            "next: look at both with `countersign book show CALL`; `countersign turn open --agent {agent}` lets it go on\n"
        ));
    }
    text
}

fn document(turn: &Turn) -> Value {
    let strikes: Vec<Value> = turn
        .strikes
        .iter()
        .map(|strike| {
            let mut facts = strike.facts.clone();
            facts.insert("call_id".to_owned(), strike.call_id.clone().into());
            facts.insert("at".to_owned(), strike.at.to_string().into());
            Value::Object(facts)
        })
        .collect();
    json!({
        "number": turn.number, "opened_at": turn.opened_at.to_string(), "is_over": turn.is_latched(),
        "strikes": strikes, "limit": LIMIT,
    })
}

fn known(settings: &Settings, agent: &Name) -> Result<(), Problem> {
    if settings.agent(agent.as_str()).is_some() {
        return Ok(());
    }
    let names: Vec<&str> = settings
        .agents
        .iter()
        .map(|agent| agent.name.as_str())
        .collect();
    Err(unknown("agent", agent, &names))
}

fn names(names: &[Name]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn no_turn(agent: &Name, turn: Option<u64>) -> Problem {
    let what = match turn {
        Some(turn) => format!("the book has nothing of turn {turn} of `{agent}`"),
        None => format!("the book has no turn of `{agent}`"),
    };
    Problem::new(
        "turn_unknown",
        what,
        "`countersign agent report --agent NAME` lists its turns; one begins with the agent's first call",
    )
}
