//! `server add|list|remove|check|set`: which servers there are and how they are reached. What their tools may do is `tool`'s.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::problem::Problem;
use crate::secrets::Account;
use crate::settings::{Launch, Name, Pages, Pass, Server, Settings, edit, object, suggest};
use crate::store::StateDb;

use super::suspect::{suspicion, words_with_secrets};
use super::{Context, Report, plain, server_check, table, unknown};

/// What of the servers.
#[derive(Debug, Subcommand)]
pub enum ServerCommand {
    /// Add a server
    Add(AddArgs),
    /// List the servers
    List,
    /// Remove a server
    Remove(OneArgs),
    /// Start a server, list its tools, say what is wrong
    Check(CheckArgs),
    /// Change a server
    Set(SetArgs),
}

/// A server to add.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// Its name
    pub name: Name,
    /// An environment variable (no secret: those are --secret)
    #[arg(long, value_name = "KEY=VALUE")]
    pub env: Vec<String>,
    /// A variable (or header, with --url) whose value is a secret
    #[arg(long, value_name = "KEY")]
    pub secret: Vec<String>,
    /// The folder it works in
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    pub cwd: Option<String>,
    /// What is known of its tools
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Its address, for a server over HTTP
    #[arg(long, conflicts_with = "command")]
    pub url: Option<String>,
    /// The program and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND ARGS")]
    pub command: Vec<String>,
}

/// One server.
#[derive(Debug, Args)]
pub struct OneArgs {
    /// Its name
    pub name: Name,
}

/// A server to check.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Its name
    pub name: Name,
    /// Take its tools as they are now for the pinned ones: a person has looked at what changed
    #[arg(long)]
    pub accept: bool,
}

/// What to change.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub struct SetArgs {
    /// Its name
    pub name: Name,
    /// Switch it on
    #[arg(long, group = "change", conflicts_with = "disable")]
    pub enable: bool,
    /// Switch it off
    #[arg(long, group = "change")]
    pub disable: bool,
    /// Requests of the server that reach the client
    #[arg(
        long,
        group = "change",
        value_delimiter = ',',
        value_name = "roots,sampling,elicitation"
    )]
    pub pass: Vec<Pass>,
    /// None of them
    #[arg(long, group = "change", conflicts_with = "pass")]
    pub no_pass: bool,
    /// Client methods outside the specification that reach the server
    #[arg(long, group = "change", num_args = 1.., value_name = "METHOD")]
    pub methods: Vec<String>,
    /// None of them
    #[arg(long, group = "change", conflicts_with = "methods")]
    pub no_methods: bool,
    /// Keep the pages of its tool list, or make them one
    #[arg(long, group = "change", value_enum)]
    pub pages: Option<Pages>,
    /// What is known of its tools; `none` for nothing
    #[arg(long, group = "change", value_name = "NAME")]
    pub preset: Option<String>,
    /// An environment variable; `KEY=` removes it
    #[arg(long, group = "change", value_name = "KEY=VALUE")]
    pub env: Vec<String>,
    /// A variable or header whose value is a secret
    #[arg(long, group = "change", value_name = "KEY")]
    pub secret: Vec<String>,
    /// The folder it works in
    #[arg(long, group = "change", value_name = "DIR")]
    pub cwd: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, command: ServerCommand) -> Result<Report, Problem> {
    match command {
        ServerCommand::Add(args) => add(context, &args),
        ServerCommand::List => list(context),
        ServerCommand::Remove(args) => remove(context, &args.name),
        ServerCommand::Check(args) => server_check::run(context, &args),
        ServerCommand::Set(args) => set(context, &args),
    }
}

/// The server called `name`, or a problem that says which there are.
pub fn find<'a>(settings: &'a Settings, name: &Name) -> Result<&'a Server, Problem> {
    let known = || -> Vec<&str> {
        settings
            .servers
            .iter()
            .map(|server| server.name.as_str())
            .collect()
    };
    settings
        .server(name.as_str())
        .ok_or_else(|| unknown("server", name, &known()))
}

fn add(context: &Context, args: &AddArgs) -> Result<Report, Problem> {
    if args.command.is_empty() && args.url.is_none() {
        return Err(Problem::new(
            "usage",
            format!("nothing says how server `{}` is reached", args.name),
            "give a command after `--`, or --url",
        ));
    }
    context.settings()?;
    let mut values = Map::new();
    let mut notes = Vec::new();
    for pair in &args.env {
        let (key, value) = split(pair)?;
        if suspicion(key, value).is_some() {
            notes.push(format!(
                "warning: `{key}` looks like a secret, and executor.json is no place for one. Better: \
                 `countersign server set {} --secret {key}`, then `countersign secret set {}/{key}`",
                args.name, args.name
            ));
        }
        values.insert(key.to_owned(), Value::from(value));
    }
    for key in &args.secret {
        values.insert(
            key.clone(),
            json!({"secret": format!("{}/{key}", args.name)}),
        );
    }
    let words = args.command.iter().chain(&args.url);
    notes.extend(words_with_secrets(words.map(String::as_str)));
    let mut entry = Map::new();
    let start = args.command.split_first();
    if let Some((command, rest)) = start {
        entry.insert("command".to_owned(), Value::from(command.as_str()));
        entry.insert("args".to_owned(), json!(rest));
        if let Some(cwd) = &args.cwd {
            entry.insert("cwd".to_owned(), Value::from(cwd.as_str()));
        }
    } else if let Some(url) = &args.url {
        entry.insert("url".to_owned(), Value::from(url.as_str()));
    }
    if !values.is_empty() {
        entry.insert(
            if start.is_some() { "env" } else { "headers" }.to_owned(),
            Value::Object(values),
        );
    }
    let suggested = start
        .and_then(|(command, rest)| suggest(command, rest))
        .filter(|_| args.preset.is_none());
    if let Some(preset) = &args.preset {
        entry.insert("preset".to_owned(), Value::from(preset.as_str()));
    }
    entry.insert("tools".to_owned(), json!({}));
    change(context, &format!("server add {}", args.name), |map| {
        let servers = object(map, "servers")?;
        if servers.contains_key(args.name.as_str()) {
            return Err(Problem::new(
                "server_exists",
                format!("there is a server called `{}` already", args.name),
                "choose another name, change it with `countersign server set`, or remove it first",
            ));
        }
        servers.insert(args.name.to_string(), Value::Object(entry));
        Ok(())
    })?;
    let mut text = format!("added server {}\n", args.name);
    for note in &notes {
        text.push_str(&format!("{note}\n"));
    }
    if let Some(preset) = suggested {
        text.push_str(&super::preset_words::offer(args.name.as_str(), preset));
    }
    let mut next: Vec<String> = args
        .secret
        .iter()
        .map(|key| format!("countersign secret set {}/{key}", args.name))
        .collect();
    next.push(format!("countersign server check {}", args.name));
    let unknown = match &args.preset {
        Some(preset) => format!("each of its tools that the preset `{preset}` doesn't know"),
        None => "each of its tools".to_owned(),
    };
    text.push_str(&format!(
        "without more, {unknown} counts as a write\nnext: `{}`\n",
        next.join("`, then `")
    ));
    Ok(Report::new(
        text,
        json!({"server": args.name, "warnings": notes, "preset_suggested": suggested, "next": next}),
    ))
}

fn list(context: &Context) -> Result<Report, Problem> {
    let settings = context.settings()?;
    let start = |server: &Server| match &server.launch {
        Launch::Child { command, args, .. } => plain(
            &std::iter::once(command)
                .chain(args)
                .cloned()
                .collect::<Vec<_>>()
                .join(" "),
        ),
        Launch::Http { url, .. } => plain(url),
    };
    let state = |server: &Server| {
        let off = !server.entry.enabled.0
            || settings
                .disabled_servers
                .iter()
                .any(|name| name == server.name.as_str());
        if off { "off" } else { "on" }
    };
    let rows: Vec<Vec<String>> = settings
        .servers
        .iter()
        .map(|server| {
            vec![
                server.name.to_string(),
                state(server).to_owned(),
                server.entry.preset.clone().unwrap_or_default(),
                start(server),
            ]
        })
        .collect();
    let json: Vec<Value> = settings
        .servers
        .iter()
        .map(|server| json!({"name": server.name, "state": state(server), "preset": server.entry.preset, "start": start(server),
                             "secrets": server.secrets().map(|(_, place)| place).collect::<Vec<_>>()}))
        .collect();
    let text = match rows.is_empty() {
        true => "no server yet\nnext: `countersign server add NAME -- COMMAND ARGS…`\n".to_owned(),
        false => table(&["server", "state", "preset", "start"], &rows),
    };
    Ok(Report::new(text, json!({"servers": json})))
}

fn remove(context: &Context, name: &Name) -> Result<Report, Problem> {
    let settings = context.settings()?;
    let server = find(&settings, name)?;
    let places: Vec<String> = server
        .secrets()
        .map(|(_, place)| place.to_owned())
        .collect();
    change(context, &format!("server remove {name}"), |map| {
        object(map, "servers")?.shift_remove(name.as_str());
        Ok(())
    })?;
    let mut left = Vec::new();
    if let Err(problem) =
        StateDb::open(&context.folder).and_then(|state| state.forget_pins(name.as_str()))
    {
        left.push(format!("its pinned tools stay in state.db: {problem}"));
    }
    if !places.is_empty() {
        let removed = context.secrets(&settings).and_then(|store| {
            places
                .iter()
                .try_for_each(|place| store.remove(&Account::server(place)).map(drop))
                .map_err(Problem::from)
        });
        if let Err(problem) = removed {
            left.push(format!(
                "its secrets stay ({}): `countersign secret remove {}`",
                problem.message,
                places.join("`, `countersign secret remove ")
            ));
        }
    }
    let mut text = format!(
        "removed server {name}{}\n",
        if places.is_empty() {
            ""
        } else {
            " and its secrets"
        }
    );
    for line in &left {
        text.push_str(&format!("note: {line}\n"));
    }
    Ok(Report::new(text, json!({"server": name, "left": left})))
}

fn set(context: &Context, args: &SetArgs) -> Result<Report, Problem> {
    let settings = context.settings()?;
    let server = find(&settings, &args.name)?;
    let values = if matches!(server.launch, Launch::Child { .. }) {
        "env"
    } else {
        "headers"
    };
    let mut notes = Vec::new();
    change(context, &format!("server set {}", args.name), |map| {
        let entry = object(object(map, "servers")?, args.name.as_str())?;
        if args.enable || args.disable {
            entry.insert("enabled".to_owned(), Value::Bool(args.enable));
        }
        if !args.pass.is_empty() || args.no_pass {
            entry.insert("pass".to_owned(), json!(args.pass));
        }
        if !args.methods.is_empty() || args.no_methods {
            entry.insert("methods".to_owned(), json!(args.methods));
        }
        if let Some(pages) = args.pages {
            entry.insert("pages".to_owned(), json!(pages));
        }
        if let Some(cwd) = &args.cwd {
            entry.insert("cwd".to_owned(), Value::from(cwd.as_str()));
        }
        match args.preset.as_deref() {
            None => {}
            Some("none") => drop(entry.shift_remove("preset")),
            Some(preset) => drop(entry.insert("preset".to_owned(), Value::from(preset))),
        }
        for pair in &args.env {
            let (key, value) = split(pair)?;
            let variables = object(entry, values)?;
            if value.is_empty() {
                variables.shift_remove(key);
                continue;
            }
            if suspicion(key, value).is_some() {
                notes.push(format!(
                    "warning: `{key}` looks like a secret; use --secret {key} instead"
                ));
            }
            variables.insert(key.to_owned(), Value::from(value));
        }
        for key in &args.secret {
            object(entry, values)?.insert(
                key.clone(),
                json!({"secret": format!("{}/{key}", args.name)}),
            );
        }
        Ok(())
    })?;
    let next: Vec<String> = args
        .secret
        .iter()
        .map(|key| format!("countersign secret set {}/{key}", args.name))
        .collect();
    let mut text = format!("changed server {}\n", args.name);
    for note in &notes {
        text.push_str(&format!("{note}\n"));
    }
    if !next.is_empty() {
        text.push_str(&format!("next: `{}`\n", next.join("`, then `")));
    }
    Ok(Report::new(
        text,
        json!({"server": args.name, "warnings": notes, "next": next}),
    ))
}

/// Edits executor.json. `by` is the command and what it is about, as the record will name it.
pub fn change<T>(
    context: &Context,
    by: &str,
    change: impl FnOnce(&mut Map<String, Value>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    edit(&context.folder, by, change).map(|(value, ..)| value)
}

fn split(pair: &str) -> Result<(&str, &str), Problem> {
    // The value is not shown: it may be a secret given to the wrong option.
    pair.split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| {
            Problem::new(
                "usage",
                "--env expects KEY=VALUE",
                "write the variable's name, `=` and its value",
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing::world;

    fn server(context: &Context, line: &str) -> Result<Report, Problem> {
        use clap::Parser;
        let args = ["countersign", "server"].into_iter().chain(line.split(' '));
        match crate::cli::Cli::try_parse_from(args).unwrap().command {
            crate::cli::Command::Server(command) => run(context, command),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn servers_come_change_and_go() {
        let (_temp, context) = world();
        let report = server(&context, "add files --env LOG=info --secret TOKEN -- npx -y @modelcontextprotocol/server-filesystem@1 /x").unwrap();
        assert!(
            report.text.contains("the preset `filesystem` knows"),
            "{}",
            report.text
        );
        assert!(report.text.contains(
            "`countersign secret set files/TOKEN`, then `countersign server check files`"
        ));
        assert_eq!(
            context.settings().unwrap().server("files").unwrap().preset,
            None,
            "a suggestion is not applied"
        );
        assert_eq!(
            server(&context, "add files -- x").unwrap_err().code,
            "server_exists"
        );
        server(&context, "set files --preset filesystem --pass roots,sampling --methods a/b --pages one --disable").unwrap();
        let settings = context.settings().unwrap();
        let files = settings.server("files").unwrap();
        assert_eq!(files.entry.pass, [Pass::Roots, Pass::Sampling]);
        assert_eq!(files.entry.methods, ["a/b"]);
        assert_eq!(
            files.secrets().collect::<Vec<_>>(),
            [("TOKEN", "files/TOKEN")]
        );
        assert!(!files.entry.enabled.0 && files.preset.is_some());
        server(
            &context,
            "set files --preset none --no-pass --env LOG= --enable",
        )
        .unwrap();
        let settings = context.settings().unwrap();
        let files = settings.server("files").unwrap();
        assert!(
            files.entry.pass.is_empty() && files.preset.is_none() && files.entry.env.len() == 1
        );
        assert!(
            server(&context, "list")
                .unwrap()
                .text
                .contains("npx -y @modelcontextprotocol/server-filesystem@1 /x")
        );
        assert_eq!(
            server(&context, "set files --preset nope")
                .unwrap_err()
                .code,
            "change_refused"
        );
        assert_eq!(
            server(&context, "remove nope").unwrap_err().remedy,
            "there are: files"
        );
        server(&context, "remove files").unwrap();
        assert!(context.settings().unwrap().servers.is_empty());
    }

    #[test]
    fn a_command_that_holds_a_secret_is_warned_of() {
        let (_temp, context) = world();
        let report = server(
            &context,
            "add one -- x --token=sk-abc123 https://u:abc123@h/",
        )
        .unwrap();
        assert_eq!(
            report.json["warnings"].as_array().map(Vec::len),
            Some(2),
            "{}",
            report.json
        );
        assert!(!report.text.contains("abc123") && !report.json.to_string().contains("abc123"));
        let refused = server(&context, "add two").unwrap_err();
        assert_eq!(refused.remedy, "give a command after `--`, or --url");
    }

    #[test]
    fn a_value_that_looks_like_a_secret_is_warned_of_and_not_repeated() {
        let (_temp, context) = world();
        for (pair, warned) in [
            ("GITHUB_TOKEN=abc123", true),
            ("X=ghp_abc123", true),
            ("LOG=info", false),
            ("db_password=abc123", true),
            ("DATABASE=postgres://u:abc123@db/x", true),
        ] {
            let report = server(
                &context,
                &format!("add s{} --env {pair} -- x", warned as u8 + pair.len() as u8),
            )
            .unwrap();
            assert_eq!(
                report.text.contains("looks like a secret"),
                warned,
                "{pair}"
            );
            assert!(!report.text.contains("abc123") && !report.json.to_string().contains("abc123"));
        }
    }
}
