//! `tool set`: what holds for one tool of one server. What the members mean is the settings'.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::problem::Problem;
use crate::settings::{Kind, Name, Server, ToolEntry, Validation, object};
use crate::store::StateDb;

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
    if args.tool.is_empty() {
        return Err(Problem::new(
            "usage",
            "the tool's name is empty",
            format!("`countersign server check {}` lists the names", args.server),
        ));
    }
    check_members(&args.unset)?;
    let settings = context.settings()?;
    let warnings: Vec<String> = unseen(context, find(&settings, &args.server)?, &args.tool)
        .into_iter()
        .collect();
    change(
        context,
        &format!("tool set {} {}", args.server, args.tool),
        |map| {
            let server = object(object(map, "servers")?, args.server.as_str())?;
            apply(object(object(server, "tools")?, &args.tool)?, args)
        },
    )?;
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
    let warned: String = warnings
        .iter()
        .map(|warning| format!("{warning}\n"))
        .collect();
    let report = format!(
        "{}: {}: {said}\n{warned}next: `countersign tools` shows what is open\n",
        args.server,
        plain(&args.tool)
    );
    Ok(Report::new(
        report,
        json!({"server": args.server, "tool": args.tool, "settings": written, "warnings": warnings}),
    ))
}

fn check_members(unset: &[String]) -> Result<(), Problem> {
    let schema = schemars::schema_for!(ToolEntry).to_value();
    let known: Vec<&str> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    match unset
        .iter()
        .find(|member| !known.contains(&member.as_str()))
    {
        None => Ok(()),
        Some(member) => Err(Problem::new(
            "usage",
            format!("a tool has no member `{}`", plain(member)),
            format!("there are: {}", known.join(", ")),
        )),
    }
}

/// What is to be said of a tool the server was not seen with; nothing where the server itself was never looked at.
fn unseen(context: &Context, server: &Server, tool: &str) -> Option<String> {
    let pins = StateDb::open(&context.folder).and_then(|state| state.pins());
    let mut pins = pins.ok()?;
    let seen = pins.remove(server.name.as_str())?;
    if seen.contains_key(tool) {
        return None;
    }
    let near = seen
        .keys()
        .map(|name| (distance(name, tool), name))
        .min()
        .filter(|(far, name)| *far <= 1 + name.chars().count() / 3);
    let hint = near.map_or_else(
        || format!("`countersign server check {}` lists them", server.name),
        |(_, name)| format!("did you mean `{}`?", plain(name)),
    );
    Some(format!(
        "warning: no tool of that name was seen on `{}`; {hint}",
        server.name
    ))
}

/// The Levenshtein distance of two names, of which no more than 64 characters count; letters of either case are the same.
fn distance(a: &str, b: &str) -> usize {
    let chars = |text: &str| -> Vec<char> {
        text.chars()
            .take(64)
            .map(|c| c.to_ascii_lowercase())
            .collect()
    };
    let (a, b) = (chars(a), chars(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing::world;
    use crate::store::Pin;

    fn set(context: &Context, line: &[&str]) -> Result<Report, Problem> {
        use clap::Parser;
        let args = ["countersign", "tool", "set"].iter().chain(line);
        match crate::cli::Cli::try_parse_from(args).unwrap().command {
            crate::cli::Command::Tool(command) => run(context, command),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_name_that_was_never_seen_is_warned_of_and_nonsense_refused() {
        let (_temp, context) = world();
        change(&context, "test", |map| {
            object(map, "servers")?.insert("files".to_owned(), json!({"command": "x"}));
            Ok(())
        })
        .unwrap();
        let warnings = |line: &[&str]| set(&context, line).unwrap().json["warnings"].clone();
        assert_eq!(
            warnings(&["files", "writ_file", "--hidden"]),
            json!([]),
            "nothing is known of the server"
        );
        let pins = ["write_file", "read_file"].map(|tool| Pin {
            tool: tool.to_owned(),
            definition: countersign_permission::Hash::from_bytes([1; 32]),
            text: "{}".to_owned(),
        });
        StateDb::open(&context.folder)
            .unwrap()
            .pin_first_seen("files", &pins, jiff::Timestamp::now())
            .unwrap();
        assert_eq!(warnings(&["files", "write_file", "--hidden"]), json!([]));
        for (tool, words) in [
            ("writ_file", "did you mean `write_file`?"),
            ("Write_File", "did you mean `write_file`?"),
            ("other", "`countersign server check files` lists them"),
        ] {
            let warned = warnings(&["files", tool, "--hidden"]);
            let text = warned[0].as_str().unwrap();
            assert!(
                text.contains("no tool of that name was seen on `files`") && text.contains(words),
                "{text}"
            );
            let stored = context.settings().unwrap();
            assert!(
                stored
                    .server("files")
                    .unwrap()
                    .entry
                    .tools
                    .get(tool)
                    .is_some()
            );
        }
        for (line, words, remedy) in [
            (
                &["files", "", "--hidden"][..],
                "name is empty",
                "server check files",
            ),
            (
                &["files", "t", "--unset", "nope"],
                "no member `nope`",
                "kind, hidden, scope",
            ),
        ] {
            let refused = set(&context, line).unwrap_err();
            assert_eq!(refused.code, "usage");
            assert!(refused.message.contains(words), "{}", refused.message);
            assert!(refused.remedy.contains(remedy), "{}", refused.remedy);
        }
        set(&context, &["files", "write_file", "--unset", "hidden"]).unwrap();
    }

    #[test]
    fn distances() {
        for (a, b, far) in [
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("same", "same", 0),
            ("Ab", "aB", 0),
        ] {
            assert_eq!(distance(a, b), far, "{a} {b}");
        }
    }
}
