//! `server check`: whether a server can be started, what tools it has, and what is open of them. Talking to it is the relay's.

use serde_json::{Value, json};

use crate::problem::Problem;
use crate::settings::{Launch, Server, Setting, may_use, tool_settings};
use crate::upstream::path::{Surroundings, find as find_command};

use super::server::{CheckArgs, find};
use super::{Context, Report, plain, table};

/// A tool as a started server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTool {
    /// Its name, as the server gives it.
    pub name: String,
    /// Why it can't be used (its schema doesn't compile, its definition changed, …); `None` where nothing is wrong.
    pub set_aside: Option<String>,
    /// Its input schema, as the server gives it; `None` where it can't be used.
    pub schema: Option<Value>,
}

/// Runs the command.
pub fn run(context: &Context, args: &CheckArgs) -> Result<Report, Problem> {
    let settings = context.settings()?;
    let server = find(&settings, &args.name)?;
    startable(server)?;
    let store = server
        .secrets()
        .next()
        .map(|_| context.secrets(&settings))
        .transpose()?;
    for (_, place) in server.secrets() {
        let account = crate::secrets::Account::server(place);
        if store
            .as_ref()
            .map(|store| store.get(&account))
            .transpose()?
            .flatten()
            .is_none()
        {
            return Err(Problem::new(
                "secret_missing",
                format!(
                    "the secret `{place}` of server `{}` has no value",
                    server.name
                ),
                format!("`countersign secret set {place}`"),
            ));
        }
    }
    let tools = super::probe::probe(context, &settings, server, args)?;
    let mut rows = Vec::new();
    let mut json_tools = Vec::new();
    for tool in &tools {
        let set = tool_settings(server, &tool.name).map_err(|error| {
            Problem::new(
                "settings_invalid",
                error.to_string(),
                "correct executor.json",
            )
        })?;
        let kind = json!(set.kind);
        let state = match (&tool.set_aside, set.hidden) {
            (Some(why), _) => format!("set aside: {}", plain(why)),
            (None, true) => "hidden".to_owned(),
            (None, false) => "open".to_owned(),
        };
        let verb = server.tool(&tool.name).verb;
        json_tools.push(json!({"name": tool.name, "kind": kind, "state": state, "verb": verb}));
        rows.push(vec![
            plain(&tool.name),
            kind.as_str().unwrap_or_default().to_owned(),
            state,
            plain(&verb.unwrap_or_default()),
        ]);
    }
    let agents: Vec<&str> = settings
        .agents
        .iter()
        .filter(|agent| may_use(agent, server.name.as_str()))
        .map(|agent| agent.name.as_str())
        .collect();
    let next = if agents.is_empty() {
        "countersign agent add NAME"
    } else {
        "countersign tools"
    };
    let preset = super::preset_words::said(server, &tools);
    let text = format!(
        "server {} starts and has {} tools\n{}{}next: `{next}`\n",
        server.name,
        tools.len(),
        table(&["tool", "kind", "state", "what it does"], &rows),
        preset.text
    );
    Ok(Report::new(
        text,
        json!({"server": server.name, "tools": json_tools, "preset": preset.json, "agents": agents, "next": next}),
    ))
}

/// Whether what the entry names is there to be started at all.
pub fn startable(server: &Server) -> Result<(), Problem> {
    let Launch::Child {
        command, cwd, env, ..
    } = &server.launch
    else {
        return Ok(());
    };
    if let Some(cwd) = cwd
        && !std::path::Path::new(cwd).is_dir()
    {
        return Err(Problem::new(
            "server_cwd",
            format!(
                "server `{}` works in `{}`, which is no folder",
                server.name,
                plain(cwd)
            ),
            format!(
                "make the folder, or `countersign server set {} --cwd DIR`",
                server.name
            ),
        ));
    }
    let given = server_path(env);
    let around = Surroundings::here(given, cwd.as_deref().map(std::path::Path::new));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Problem::new("no_runtime", error.to_string(), "try again"))?;
    runtime
        .block_on(find_command(command, &around))
        .map(drop)
        .map_err(|_| {
            Problem::new(
                "server_command",
                format!(
                    "server `{}` is started with `{}`, which is not found",
                    server.name,
                    plain(command)
                ),
                "install it, or name it with its whole path: clients start programs with a shorter PATH than a terminal has",
            )
        })
}

/// The `PATH` an entry sets for its server, if it does.
fn server_path(env: &[(String, Setting)]) -> Option<std::ffi::OsString> {
    env.iter().find_map(|(name, value)| match value {
        Setting::Text(text) if name == "PATH" => Some(text.into()),
        _ => None,
    })
}
