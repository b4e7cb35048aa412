//! `agent add|list|revoke`: who may call. An agent's key goes to the secret store; executor.json and state.db hold nothing that opens anything.

use std::time::Duration;

use clap::{Args, Subcommand};
use countersign_gate::key::{KeyText, Pepper};
use countersign_gate::ports::KeyRecord;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::problem::Problem;
use crate::secrets::{Account, Secret, random};
use crate::settings::{Name, SecretsKind, Settings, is_scope, may_use, object};
use crate::store::StateDb;

use super::server::{change, find};
use super::{Context, Report, table, unknown};

/// What of the agents.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Add an agent; prints the entry for its client's config
    Add(AddArgs),
    /// List the agents
    List,
    /// End an agent's key at once
    Revoke(RevokeArgs),
    /// What an agent did, told by the book alone
    Report(super::turn::AgentReportArgs),
}

/// An agent to add.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// Its name
    pub name: Name,
    /// The servers it may use [default: all]
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub servers: Option<Vec<Name>>,
    /// The scopes it has [default: all]
    #[arg(long, value_delimiter = ',', value_name = "S,T")]
    pub scopes: Option<Vec<String>>,
    /// When its key ends
    #[arg(long, value_name = "2026-12-31T23:59:59Z")]
    pub expires: Option<Timestamp>,
}

/// An agent to revoke.
#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// Its name
    pub name: Name,
}

/// How long another command about agents may take.
const WAIT: Duration = Duration::from_secs(30);

/// Runs the command.
pub fn run(context: &Context, command: AgentCommand) -> Result<Report, Problem> {
    match command {
        AgentCommand::Add(args) => add(context, &args),
        AgentCommand::List => list(context),
        AgentCommand::Revoke(args) => revoke(context, &args.name),
        AgentCommand::Report(args) => super::turn::agent_report(context, &args),
    }
}

/// Key first, record second, executor.json last: while it doesn't name the agent, the key opens nothing and the command can be repeated.
fn add(context: &Context, args: &AddArgs) -> Result<Report, Problem> {
    context.settings()?;
    // Two commands for one name would end each other's key.
    let _lock = context.folder.lock("agents.lock", WAIT)?;
    let settings = context.settings()?;
    refuse_existing(settings.agent(args.name.as_str()).is_some(), &args.name)?;
    for server in args.servers.iter().flatten() {
        find(&settings, server)?;
    }
    if let Some(scope) = args.scopes.iter().flatten().find(|scope| !is_scope(scope)) {
        return Err(Problem::new(
            "usage",
            format!("`{}` is not a scope", super::plain(scope)),
            "a scope is like `files:read`",
        ));
    }
    let now = Timestamp::now();
    if args.expires.is_some_and(|end| end <= now) {
        return Err(Problem::new(
            "usage",
            "the key would have ended already",
            "give a time that is still to come",
        ));
    }
    let store = context.secrets(&settings)?;
    let state = StateDb::open(&context.folder)?;
    let pepper = store
        .get(&Account::pepper())?
        .and_then(|secret| secret.key())
        .ok_or_else(|| {
            Problem::new(
                "secrets_damaged",
                "the secret `pepper` is missing, so no key can be made",
                "restore the secrets from a copy",
            )
        })?;
    let key = KeyText::make(*random::<8>()?, *random::<32>()?);
    let prefix = key.prefix().unwrap_or_default().to_owned();
    store.set(
        &Account::agent(&args.name),
        &Secret::new(key.reveal().as_bytes().to_vec()),
    )?;
    let record = KeyRecord {
        agent: args.name.to_string(),
        mac: key.mac(&Pepper::new(*pepper)),
        scopes: args.scopes.clone(),
        expires_at: args.expires,
        revoked_at: None,
    };
    state.add_key(&prefix, &record, now)?;
    change(context, &format!("agent add {}", args.name), |map| {
        let agents = object(map, "agents")?;
        refuse_existing(agents.contains_key(args.name.as_str()), &args.name)?;
        agents.insert(args.name.to_string(), Value::Object(entry(args, &prefix)));
        Ok(())
    })?;
    let settings = context.settings()?;
    let mut report = report(context, &settings, &args.name);
    let warnings = idle_scopes(&settings, args)?;
    for warning in &warnings {
        report.text.push_str(&format!("{warning}\n"));
    }
    report.json["warnings"] = json!(warnings);
    Ok(report)
}

/// A warning for each scope that no server's tool needs: most likely a slip.
fn idle_scopes(settings: &Settings, args: &AddArgs) -> Result<Vec<String>, Problem> {
    let Some(scopes) = &args.scopes else {
        return Ok(Vec::new());
    };
    let tools = super::tools::availability(settings, None, |_| Vec::new())?;
    let mut needed: Vec<String> = tools.into_iter().map(|tool| tool.scope).collect();
    for server in &settings.servers {
        needed.extend(["read", "write"].map(|word| format!("{}:{word}", server.name)));
    }
    needed.sort();
    needed.dedup();
    let idle = scopes.iter().filter(|scope| !needed.contains(scope));
    Ok(idle
        .map(|scope| {
            format!(
                "warning: no server or tool has the scope `{scope}`; there are {}",
                needed.join(", ")
            )
        })
        .collect())
}

fn refuse_existing(exists: bool, name: &Name) -> Result<(), Problem> {
    if !exists {
        return Ok(());
    }
    Err(Problem::new(
        "agent_exists",
        format!("there is an agent called `{name}` already"),
        format!(
            "choose another name; for a new key of the same agent, `countersign agent revoke {name}` first"
        ),
    ))
}

fn entry(args: &AddArgs, prefix: &str) -> Map<String, Value> {
    let mut entry = Map::new();
    entry.insert("key".to_owned(), Value::from(prefix));
    if let Some(servers) = &args.servers {
        entry.insert("servers".to_owned(), json!(servers));
    }
    if let Some(scopes) = &args.scopes {
        entry.insert("scopes".to_owned(), json!(scopes));
    }
    if let Some(expires) = args.expires {
        entry.insert("expires_at".to_owned(), Value::from(expires.to_string()));
    }
    entry
}

fn report(context: &Context, settings: &Settings, name: &Name) -> Report {
    let entries = client_entries(context, settings, name);
    let document = json!({"mcpServers": entries});
    let mut text = format!("added agent {name}\n");
    if entries.is_empty() {
        text.push_str("there is no server it may use yet\nnext: `countersign server add NAME -- COMMAND ARGS…`\n");
    } else {
        text.push_str(&format!("put this into its client's config, in place of the servers' own entries (it holds no secret):\n{document:#}\n"));
        if settings.secrets == SecretsKind::File
            && std::env::var_os("COUNTERSIGN_PASSPHRASE_FILE").is_none()
        {
            text.push_str("the secrets are in a file: add \"env\": {\"COUNTERSIGN_PASSPHRASE_FILE\": \"…\"} to each entry, since a client can't ask for the passphrase\n");
        }
        if !settings.executor.development {
            text.push_str("nothing is granted until a permission is signed\n");
        }
        text.push_str(&format!(
            "next: `countersign tools --agent {name}` shows what is open\n"
        ));
    }
    Report::new(text, json!({"agent": name, "client": document}))
}

/// One entry for each server the agent may use, as MCP clients write them: absolute paths, no secret.
fn client_entries(context: &Context, settings: &Settings, name: &Name) -> Map<String, Value> {
    let binary = std::env::current_exe()
        .ok()
        .and_then(|path| path.to_str().map(str::to_owned));
    let binary = binary.unwrap_or_else(|| "countersign".to_owned());
    let Some(agent) = settings.agent(name.as_str()) else {
        return Map::new();
    };
    let passphrase = std::env::var_os("COUNTERSIGN_PASSPHRASE_FILE")
        .and_then(|path| std::path::absolute(path).ok());
    let one = |server: &str| {
        let args = [
            "run",
            "--dir",
            &context.folder.root().to_string_lossy(),
            "--agent",
            name.as_str(),
            "--server",
            server,
        ]
        .map(str::to_owned);
        let mut entry = json!({"command": binary, "args": args});
        if let (SecretsKind::File, Some(path)) = (settings.secrets, &passphrase) {
            entry["env"] = json!({"COUNTERSIGN_PASSPHRASE_FILE": path});
        }
        (server.to_owned(), entry)
    };
    settings
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .filter(|server| may_use(agent, server))
        .map(one)
        .collect()
}

fn list(context: &Context) -> Result<Report, Problem> {
    let settings = context.settings()?;
    let state = StateDb::open(&context.folder)?;
    let now = Timestamp::now();
    let (mut rows, mut json_rows) = (Vec::new(), Vec::new());
    for agent in &settings.agents {
        let ended = agent.expires_at.is_some_and(|end| end <= now);
        let key = match state.key(&agent.entry.key)? {
            None => "no record",
            Some(record) if record.agent != agent.name.as_str() => "no record",
            Some(record) if record.revoked_at.is_some() => "revoked",
            Some(record) if ended || record.expires_at.is_some_and(|end| end <= now) => "expired",
            Some(_) => "good",
        };
        let all = |list: &Option<Vec<String>>| {
            list.as_ref()
                .map_or_else(|| "all".to_owned(), |list| list.join(","))
        };
        rows.push(vec![
            agent.name.to_string(),
            agent.entry.key.clone(),
            key.to_owned(),
            all(&agent.entry.servers),
            all(&agent.entry.scopes),
        ]);
        json_rows.push(json!({"name": agent.name, "key": agent.entry.key, "state": key, "servers": agent.entry.servers,
                              "scopes": agent.entry.scopes, "expires_at": agent.entry.expires_at, "mode": agent.entry.mode}));
    }
    let text = match rows.is_empty() {
        true => "no agent yet\nnext: `countersign agent add NAME`\n".to_owned(),
        false => table(&["agent", "key", "state", "servers", "scopes"], &rows),
    };
    Ok(Report::new(text, json!({"agents": json_rows})))
}

/// The record first: from then on the key opens nothing, whatever else fails.
fn revoke(context: &Context, name: &Name) -> Result<Report, Problem> {
    let state = StateDb::open(&context.folder)?;
    let ended = state.revoke(name.as_str(), Timestamp::now())?;
    let mut notes = Vec::new();
    match context.settings() {
        Err(problem) if ended == 0 => return Err(problem),
        Err(problem) => notes.push(format!(
            "executor.json still names it ({})",
            problem.message
        )),
        Ok(settings) => {
            if settings.agent(name.as_str()).is_some() {
                change(context, &format!("agent revoke {name}"), |map| {
                    object(map, "agents")?.shift_remove(name.as_str());
                    Ok(())
                })?;
            } else if ended == 0 {
                let known: Vec<&str> = settings
                    .agents
                    .iter()
                    .map(|agent| agent.name.as_str())
                    .collect();
                return Err(unknown("agent", name, &known));
            }
            let removed = context
                .secrets(&settings)
                .and_then(|store| Ok(store.remove(&Account::agent(name))?));
            if let Err(problem) = removed {
                notes.push(format!(
                    "the key's text stays in the secret store ({}); it opens nothing any more",
                    problem.message
                ));
            }
        }
    }
    let mut text = format!("revoked agent {name}: its next call is refused\n");
    for note in &notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text.push_str("its entry can be taken out of the client's config\n");
    Ok(Report::new(
        text,
        json!({"agent": name, "keys_ended": ended, "notes": notes}),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing::world;
    use crate::folder::replace;

    #[test]
    fn revoking_works_while_the_settings_are_broken() {
        let (_temp, context) = world();
        let state = StateDb::open(&context.folder).unwrap();
        let name = Name::parse("bar").unwrap();
        let record = KeyRecord {
            agent: name.to_string(),
            mac: countersign_gate::key::KeyMac::from_bytes([1; 32]),
            scopes: None,
            expires_at: None,
            revoked_at: None,
        };
        state
            .add_key("csk_aaaaaaaa", &record, Timestamp::now())
            .unwrap();
        replace(&context.folder.settings(), b"broken").unwrap();
        let report = revoke(&context, &name).unwrap();
        assert!(
            report.text.contains("executor.json still names it"),
            "{}",
            report.text
        );
        assert!(
            state
                .key("csk_aaaaaaaa")
                .unwrap()
                .unwrap()
                .revoked_at
                .is_some()
        );
        assert_eq!(
            revoke(&context, &name).unwrap_err().code,
            "settings_invalid"
        );
    }
}
