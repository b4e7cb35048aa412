//! `tools`: what is open, and why the rest is not, by the settings and what was seen of the servers. Starts nothing, charges nothing.

use clap::Args;
use countersign_book::Change;
use countersign_gate::facts::ToolSettings;
use countersign_gate::paths::Effect;
use countersign_gate::policy::Policy;
use countersign_permission::Kind;
use serde::Serialize;
use serde_json::json;

use crate::problem::Problem;
use crate::settings::{self, Agent, Name, Server, Settings, State, Watch, may_use, tool_settings};
use crate::store::StateDb;

use super::findings::{Finding, findings};
use super::{Context, Report, plain, table, unknown};

/// For whom.
#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// The agent whose rights count; without it, what the settings leave open to anybody
    #[arg(long, value_name = "NAME")]
    pub agent: Option<Name>,
}

/// Why a tool is closed, in the order they are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Its server is switched off.
    ModuleDisabled,
    /// Its server is in `disabled_servers`.
    ApiOff,
    /// It is hidden, or in `disabled_tools`.
    ToolHidden,
    /// The agent has no permission for it.
    NoPermission,
    /// Its definition is not the pinned one.
    DefinitionChanged,
    /// Its schema can't be enforced.
    SetAside,
}

/// One tool and whether it is open.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Availability {
    /// Its server.
    pub server: String,
    /// Its name, as the server gives it.
    pub name: String,
    /// Whether it writes.
    pub kind: Kind,
    /// The scope it needs.
    pub scope: String,
    /// When it is dangerous: `never`, `always`, `sometimes`.
    pub danger: &'static str,
    /// What it does, in plain words, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verb: Option<String>,
    /// How the agent's write policy meets its calls; nothing for a read, and where there is no policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
    /// Empty where it is open.
    pub closed: Vec<Reason>,
    /// What was found wrong with its definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How a write policy meets the calls of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bounds {
    /// Its declared paths and commands are held to the policy.
    Held,
    /// Nothing is declared of what it writes, so every call is denied.
    Undeclared,
}

impl Reason {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Reason::ModuleDisabled => "its server is switched off",
            Reason::ApiOff => "its server is in disabled_servers",
            Reason::ToolHidden => "it is hidden",
            Reason::NoPermission => "the agent has no permission for it",
            Reason::DefinitionChanged => "its definition has changed",
            Reason::SetAside => "it is set aside",
        }
    }
}

/// Runs the command.
pub fn run(context: &Context, args: &ToolsArgs) -> Result<Report, Problem> {
    let settings = context.settings()?;
    let agent = match &args.agent {
        None => None,
        Some(name) => {
            let known = || -> Vec<&str> {
                settings
                    .agents
                    .iter()
                    .map(|agent| agent.name.as_str())
                    .collect()
            };
            Some(
                settings
                    .agent(name.as_str())
                    .ok_or_else(|| unknown("agent", name, &known()))?,
            )
        }
    };
    let seen = StateDb::open(&context.folder)?.pins()?;
    let servers = settings
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    let found = findings(&context.folder, servers).map_err(|error| {
        Problem::new(
            "book_unreadable",
            error.to_string(),
            "`countersign book verify` says more",
        )
    })?;
    // A changed definition that was accepted since is the pinned one.
    let holds = |server: &str, finding: &Finding| {
        finding.change == Change::SetAside
            || seen.get(server).is_some_and(|tools| {
                tools.iter().any(|(name, pin)| {
                    plain(name) == finding.tool && pin.as_bytes() != &finding.hash.0
                })
            })
    };
    let names = |server: &Server| {
        let name = server.name.as_str();
        let pinned = seen.get(name).into_iter().flat_map(|tools| tools.keys());
        let pinned: Vec<String> = pinned.cloned().collect();
        let aside: Vec<String> = found
            .get(name)
            .into_iter()
            .flatten()
            .map(|finding| finding.tool.clone())
            .filter(|tool| pinned.iter().all(|name| plain(name) != *tool))
            .collect();
        pinned.into_iter().chain(aside).collect()
    };
    let mut tools = availability(&settings, agent, names)?;
    for tool in &mut tools {
        let of_server = found.get(&tool.server).into_iter().flatten();
        for finding in of_server.filter(|finding| finding.tool == plain(&tool.name)) {
            if holds(&tool.server, finding) {
                tool.closed.push(match finding.change {
                    Change::SetAside => Reason::SetAside,
                    _ => Reason::DefinitionChanged,
                });
                tool.why = Some(finding.why.clone());
            }
        }
    }
    let off = matches!(Watch::new(&context.folder).now().state, State::Off(_));
    let rows: Vec<Vec<String>> = tools
        .iter()
        .map(|tool| {
            let why: Vec<&str> = tool.closed.iter().map(|reason| reason.words()).collect();
            let state = match (&tool.why, why.is_empty()) {
                (_, true) if tool.bounds == Some(Bounds::Undeclared) => {
                    "denied by the write policy: its `paths` are not declared".to_owned()
                }
                (_, true) if tool.bounds.is_some() => "open, within the write policy".to_owned(),
                (_, true) => "open".to_owned(),
                (None, false) => format!("closed: {}", why.join(", ")),
                (Some(found), false) => format!("closed: {} ({found})", why.join(", ")),
            };
            vec![
                tool.server.clone(),
                plain(&tool.name),
                json!(tool.kind).as_str().unwrap_or_default().to_owned(),
                tool.scope.clone(),
                state,
                plain(tool.verb.as_deref().unwrap_or_default()),
            ]
        })
        .collect();
    let mut text = String::new();
    if off {
        text.push_str("everything is off: `countersign on` lets agents go on\n");
    }
    if settings.executor.development {
        text.push_str("permission: (development), unsigned\n");
    } else if agent.is_some() {
        text.push_str("permission: none is signed yet, so nothing is granted\n");
    }
    let bounded = agent.and_then(|agent| Some((agent, policy_of(agent)?)));
    if let Some((agent, policy)) = &bounded {
        let rules: Vec<String> = policy
            .allow_texts()
            .iter()
            .map(|rule| plain(rule))
            .collect();
        let rules = match rules.is_empty() {
            true => "nothing".to_owned(),
            false => rules.join(", "),
        };
        text.push_str(&format!(
            "write policy `{}`: {rules} below {}\n",
            plain(policy.id()),
            plain(agent.entry.workspace.as_deref().unwrap_or_default())
        ));
    }
    if settings.servers.is_empty() {
        text.push_str("no server yet\nnext: `countersign server add NAME -- COMMAND ARGS…`\n");
    } else if !rows.is_empty() {
        text.push_str(&table(
            &["server", "tool", "kind", "scope", "state", "what it does"],
            &rows,
        ));
    }
    let unseen: Vec<&Server> = settings
        .servers
        .iter()
        .filter(|server| !seen.contains_key(server.name.as_str()))
        .filter(|server| found.get(server.name.as_str()).is_none_or(Vec::is_empty))
        .collect();
    for server in &unseen {
        let listed = tools.iter().any(|tool| tool.server == server.name.as_str());
        let which = if listed { "every other" } else { "every" };
        text.push_str(&unseen_words(&settings, agent, server, which)?);
    }
    if unseen.len() < settings.servers.len() {
        text.push_str(
            "a tool a server shows later counts as a write until something is set for it\n",
        );
    }
    let unseen: Vec<&Name> = unseen.iter().map(|server| &server.name).collect();
    Ok(Report::new(
        text,
        json!({
            "agent": args.agent, "write_policy": bounded.map(|(_, policy)| policy.metadata()), "off": off, "development": settings.executor.development, "tools": tools, "never_looked_at": unseen,
        }),
    ))
}

/// What holds for the tools of a server nobody has looked at: what would hold for one of which nothing is known.
fn unseen_words(
    settings: &Settings,
    agent: Option<&Agent>,
    server: &Server,
    which: &str,
) -> Result<String, Problem> {
    let any = one(settings, agent, server, String::new())?;
    let why: Vec<&str> = any.closed.iter().map(|reason| reason.words()).collect();
    let what = match why.is_empty() {
        true => format!(
            "{which} tool of this server is open to the agent as a write until you say otherwise"
        ),
        false => format!("{which} tool of this server is closed: {}", why.join(", ")),
    };
    Ok(format!(
        "server `{0}` was never looked at: {what}; `countersign server check {0}` lists them\n",
        server.name
    ))
}

/// Every tool that is known, by server, then name. `seen` gives the names a server was seen with.
pub fn availability(
    settings: &Settings,
    agent: Option<&Agent>,
    seen: impl Fn(&Server) -> Vec<String>,
) -> Result<Vec<Availability>, Problem> {
    let mut all = Vec::new();
    for server in &settings.servers {
        let mut names: Vec<String> = server
            .known_tools()
            .into_iter()
            .map(str::to_owned)
            .chain(seen(server))
            .collect();
        names.sort();
        names.dedup();
        for name in names {
            all.push(one(settings, agent, server, name)?);
        }
    }
    all.sort_by(|a, b| (&a.server, &a.name).cmp(&(&b.server, &b.name)));
    Ok(all)
}

fn one(
    settings: &Settings,
    agent: Option<&Agent>,
    server: &Server,
    name: String,
) -> Result<Availability, Problem> {
    let tool = tool_settings(server, &name).map_err(|error| {
        Problem::new(
            "settings_invalid",
            error.to_string(),
            "correct executor.json",
        )
    })?;
    let word = if tool.kind == Kind::Read {
        "read"
    } else {
        "write"
    };
    let scope = tool
        .scope
        .clone()
        .unwrap_or_else(|| format!("{}:{word}", server.name));
    let listed =
        |list: &[String], wanted: &[&str]| list.iter().any(|item| wanted.contains(&item.as_str()));
    let public = format!("{}__{name}", server.name);
    let granted = |agent: &Agent| {
        settings.executor.development
            && may_use(agent, server.name.as_str())
            && agent
                .entry
                .scopes
                .as_ref()
                .is_none_or(|scopes| scopes.contains(&scope))
    };
    let reasons = [
        (Reason::ModuleDisabled, !server.entry.enabled.0),
        (
            Reason::ApiOff,
            listed(&settings.disabled_servers, &[server.name.as_str()]),
        ),
        (
            Reason::ToolHidden,
            tool.hidden || listed(&settings.disabled_tools, &[&name, &public]),
        ),
        (
            Reason::NoPermission,
            agent.is_some_and(|agent| !granted(agent)),
        ),
    ];
    let danger = match tool.danger {
        countersign_permission::Danger::Never => "never",
        countersign_permission::Danger::Always => "always",
        countersign_permission::Danger::When(_) => "sometimes",
    };
    let closed = reasons
        .into_iter()
        .filter(|(_, holds)| *holds)
        .map(|(reason, _)| reason)
        .collect();
    let verb = server.tool(&name).verb;
    let bounds = agent
        .filter(|agent| agent.entry.write_policy.is_some())
        .and_then(|_| bounds(&tool));
    Ok(Availability {
        server: server.name.to_string(),
        verb,
        name,
        kind: tool.kind,
        scope,
        danger,
        bounds,
        closed,
        why: None,
    })
}

/// The agent's policy. Settings that were read have only policies that can be.
fn policy_of(agent: &Agent) -> Option<Policy> {
    let entry = agent.entry.write_policy.as_ref()?;
    settings::write_policy(entry, agent.entry.workspace.as_deref()).ok()
}

/// How a policy would meet the tool.
fn bounds(tool: &ToolSettings) -> Option<Bounds> {
    let has = |wanted: &[Effect]| tool.paths.iter().any(|path| wanted.contains(&path.effect));
    match (tool.kind, has(&[Effect::Command])) {
        (Kind::Read, false) => None,
        (_, true) => Some(Bounds::Held),
        (Kind::Write, false) if has(&[Effect::Write, Effect::Create]) => Some(Bounds::Held),
        (Kind::Write, false) => Some(Bounds::Undeclared),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::settings::check_bytes;

    #[test]
    fn reasons_come_in_their_order() {
        let text = r#"{"version":1,"executor":{"id":"6d1c2c35-3f0f-4e0c-9d7e-0a1b2c3d4e5f","development":true},"secrets":"file",
            "servers":{
                "off":{"command":"x","enabled":false,"tools":{"t":{"hidden":true},"u":{"kind":"read"}}},
                "on":{"command":"x","tools":{"r":{"kind":"read"},"w":{},"h":{"scope":"own:one"}}}},
            "agents":{"a":{"key":"csk_ab12cd34","servers":["on"],"scopes":["on:read"]}},
            "disabled_tools":["on__h"],"disabled_servers":["off"]}"#;
        let settings = check_bytes(Path::new("executor.json"), text.as_bytes()).unwrap();
        let seen = |server: &Server| {
            if server.name.as_str() == "on" {
                vec!["new".to_owned(), "r".to_owned()]
            } else {
                vec![]
            }
        };
        let check = |agent: Option<&str>, expected: &[(&str, &str, &[Reason])]| {
            let agent = agent.map(|name| settings.agent(name).unwrap());
            let got = availability(&settings, agent, seen).unwrap();
            let got: Vec<_> = got
                .iter()
                .map(|tool| {
                    (
                        tool.server.as_str(),
                        tool.name.as_str(),
                        tool.closed.as_slice(),
                    )
                })
                .collect();
            assert_eq!(got, expected);
        };
        use Reason::{ApiOff, ModuleDisabled, NoPermission, ToolHidden};
        check(
            None,
            &[
                ("off", "t", &[ModuleDisabled, ApiOff, ToolHidden]),
                ("off", "u", &[ModuleDisabled, ApiOff]),
                ("on", "h", &[ToolHidden]),
                ("on", "new", &[]),
                ("on", "r", &[]),
                ("on", "w", &[]),
            ],
        );
        check(
            Some("a"),
            &[
                (
                    "off",
                    "t",
                    &[ModuleDisabled, ApiOff, ToolHidden, NoPermission],
                ),
                ("off", "u", &[ModuleDisabled, ApiOff, NoPermission]),
                ("on", "h", &[ToolHidden, NoPermission]),
                ("on", "new", &[NoPermission]),
                ("on", "r", &[]),
                ("on", "w", &[NoPermission]),
            ],
        );
    }
}
