//! `tool set`: what holds for one tool of one server. What the members mean is the settings'.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::problem::Problem;
use crate::settings::{Kind, Name, Validation, object};

use super::server::{change, find};
use super::{Context, Report, plain};

/// What of the tools.
#[derive(Debug, Subcommand)]
pub enum ToolCommand {
    /// Say what holds for a tool
    Set(SetArgs),
}

/// What holds. Members that are not named stay as they are.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub struct SetArgs {
    /// The server
    pub server: Name,
    /// The tool, as the server names it
    pub tool: String,
    /// Whether it only reads; a tool that is not said to read counts as a write
    #[arg(long, group = "change", value_enum)]
    pub kind: Option<Kind>,
    /// Whether its calls are dangerous
    #[arg(long, group = "change", value_parser = ["never", "always"])]
    pub danger: Option<String>,
    /// Who says yes to a dangerous call
    #[arg(long, group = "change", value_parser = ["none", "person", "passkey"])]
    pub approval: Option<String>,
    /// No agent sees it
    #[arg(long, group = "change", conflicts_with = "shown")]
    pub hidden: bool,
    /// Agents see it
    #[arg(long, group = "change")]
    pub shown: bool,
    /// The scope it needs
    #[arg(long, group = "change")]
    pub scope: Option<String>,
    /// The longest list it takes
    #[arg(long, group = "change", value_name = "N")]
    pub max_items: Option<u32>,
    /// The largest arguments it takes, in bytes
    #[arg(long, group = "change", value_name = "N")]
    pub max_bytes: Option<u64>,
    /// What a call costs, in units
    #[arg(long, group = "change", value_name = "N")]
    pub cost: Option<u32>,
    /// How often it may be called under one permission
    #[arg(long, group = "change", value_name = "N")]
    pub max_calls: Option<u64>,
    /// How often in a span: 10/3600 is ten times an hour
    #[arg(long, group = "change", value_name = "MAX/SECONDS", value_parser = rate)]
    pub rate: Option<(u32, u32)>,
    /// Whether wrong arguments are refused or only recorded
    #[arg(long, group = "change", value_enum)]
    pub validation: Option<Validation>,
    /// Whether arguments beyond its schema pass
    #[arg(long, group = "change", value_name = "true|false")]
    pub open_arguments: Option<bool>,
    /// Whether a repeated call may be answered from its first answer
    #[arg(long, group = "change", value_name = "true|false")]
    pub replay: Option<bool>,
    /// Take a member back to its default
    #[arg(long, group = "change", value_name = "MEMBER")]
    pub unset: Vec<String>,
}

/// Runs the command.
pub fn run(context: &Context, command: ToolCommand) -> Result<Report, Problem> {
    match command {
        ToolCommand::Set(args) => set(context, &args),
    }
}

fn set(context: &Context, args: &SetArgs) -> Result<Report, Problem> {
    let settings = context.settings()?;
    find(&settings, &args.server)?;
    change(context, "tool set", |map| {
        let server = object(object(map, "servers")?, args.server.as_str())?;
        apply(object(object(server, "tools")?, &args.tool)?, args)
    })?;
    let settings = context.settings()?;
    let entry = find(&settings, &args.server)?
        .entry
        .tools
        .get(&args.tool)
        .cloned()
        .unwrap_or_default();
    let written = json!(entry);
    let members: Vec<String> = written
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name} {}", plain(&text(value))))
        .collect();
    let said = if members.is_empty() {
        "the defaults".to_owned()
    } else {
        members.join(", ")
    };
    let report = format!(
        "{}: {}: {said}\nnext: `countersign tools` shows what is open\n",
        args.server,
        plain(&args.tool)
    );
    Ok(Report::new(
        report,
        json!({"server": args.server, "tool": args.tool, "settings": written}),
    ))
}

fn apply(entry: &mut Map<String, Value>, args: &SetArgs) -> Result<(), Problem> {
    for member in &args.unset {
        entry.shift_remove(member.as_str());
    }
    let hidden = if args.hidden || args.shown {
        Some(json!(args.hidden))
    } else {
        None
    };
    let plain_members = [
        ("kind", args.kind.map(|kind| json!(kind))),
        ("danger", args.danger.as_ref().map(|danger| json!(danger))),
        (
            "approval",
            args.approval.as_ref().map(|approval| json!(approval)),
        ),
        ("hidden", hidden),
        ("scope", args.scope.as_ref().map(|scope| json!(scope))),
        ("max_items", args.max_items.map(|items| json!(items))),
        ("max_bytes", args.max_bytes.map(|bytes| json!(bytes))),
        ("cost", args.cost.map(|cost| json!(cost))),
        (
            "validation",
            args.validation.map(|validation| json!(validation)),
        ),
        (
            "open_arguments",
            args.open_arguments.map(|open| json!(open)),
        ),
        ("replay", args.replay.map(|replay| json!(replay))),
    ];
    for (member, value) in plain_members {
        if let Some(value) = value {
            entry.insert(member.to_owned(), value);
        }
    }
    if args.max_calls.is_some() || args.rate.is_some() {
        let limits = object(entry, "limits")?;
        if let Some(calls) = args.max_calls {
            limits.insert("max_calls".to_owned(), json!(calls));
        }
        if let Some((max, per_seconds)) = args.rate {
            limits.insert(
                "rate".to_owned(),
                json!({"per_seconds": per_seconds, "max": max}),
            );
        }
    }
    Ok(())
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn rate(text: &str) -> Result<(u32, u32), String> {
    let parts = text
        .split_once('/')
        .and_then(|(max, seconds)| Some((max.parse().ok()?, seconds.parse().ok()?)));
    parts
        .filter(|(max, seconds)| *max > 0 && *seconds > 0)
        .ok_or_else(|| "expected MAX/SECONDS, like 10/3600".to_owned())
}
