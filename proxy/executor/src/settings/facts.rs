//! The settings in the gate's words. Judges nothing; a file that can't be used becomes facts under which nothing is open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use countersign_gate::facts::{
    AgentFacts, DisabledList, ExecutorFacts, Facts, FactsError, FirstSeen, Parts, Preview,
    PreviewRead, ServerFacts, ToolSettings,
};
use countersign_gate::paths::{self, Declared};
use countersign_gate::price;
use countersign_gate::rate::{BucketSize, Buckets};
use countersign_permission as terms;
use jiff::SignedDuration;
use serde_json::Value;

use super::checked::{Agent, Launch, Server, Settings};
use super::file::{BucketEntry, BucketsEntry};
use super::policy::write_policy;
use super::tool::{
    Approval, Audience, Cost, Danger, Effect, Kind, PathEntry, PreviewEntry, ToolEntry, Validation,
};
use super::watch::{Snapshot, State};

/// Why settings are no facts for the gate.
#[derive(Debug, thiserror::Error)]
pub enum NoFacts {
    /// The gate refuses them.
    #[error(transparent)]
    Refused(#[from] FactsError),
    /// A limit on an argument can't be read.
    #[error("{member}: {error}")]
    Limit {
        /// The tool it stands at.
        member: String,
        /// What is wrong.
        error: terms::LimitError,
    },
    /// A write policy can't be read.
    #[error("{member}: {words}")]
    Policy {
        /// Its member.
        member: String,
        /// What is wrong.
        words: String,
    },
    /// The development permission has no canonical form.
    #[error("the permission of agent `{agent}` can't be made: {error}")]
    Permission {
        /// The agent.
        agent: String,
        /// Why.
        error: serde_json::Error,
    },
}

impl Snapshot {
    /// What the gate judges by at this moment. `first_seen` are the pinned definitions of the store.
    pub fn facts(&self, first_seen: Arc<FirstSeen>) -> Result<Facts, NoFacts> {
        match &self.state {
            State::Ready(settings) => facts(settings, self.generation, Open::Yes, first_seen),
            State::Off(settings) => facts(settings, self.generation, Open::No, first_seen),
            State::Broken(_) => Ok(closed(self.generation)?),
        }
    }
}

/// Whether agents may call at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// They may.
    Yes,
    /// The off switch is thrown.
    No,
}

/// Facts of checked settings.
pub fn facts(
    settings: &Settings,
    generation: u64,
    open: Open,
    first_seen: Arc<FirstSeen>,
) -> Result<Facts, NoFacts> {
    let servers = settings
        .servers
        .iter()
        .map(server_facts)
        .collect::<Result<Vec<_>, _>>()?;
    let mut agents = BTreeMap::new();
    for agent in &settings.agents {
        agents.insert(
            agent.name.to_string(),
            Arc::new(agent_facts(settings, agent, &servers)?),
        );
    }
    Ok(Facts::new(Parts {
        generation,
        executor: ExecutorFacts {
            id: settings.executor.id.clone(),
            name: settings.executor.name.clone(),
            development: if settings.executor.development {
                terms::Development::Yes
            } else {
                terms::Development::No
            },
            dry_run: false,
            hold: SignedDuration::from_secs(settings.approval.hold_seconds.into()),
        },
        enabled: open == Open::Yes,
        maintenance: false,
        servers,
        agents,
        disabled_tools: DisabledList::Names(settings.disabled_tools.iter().cloned().collect()),
        disabled_servers: DisabledList::Names(settings.disabled_servers.iter().cloned().collect()),
        person_write_servers: DisabledList::Names(
            settings.person_write_servers.iter().cloned().collect(),
        ),
        buckets: buckets(&settings.buckets),
        first_seen,
    })?)
}

/// Facts of an executor whose settings can't be used: switched off, no server, no agent.
pub fn closed(generation: u64) -> Result<Facts, FactsError> {
    Facts::new(Parts {
        generation,
        executor: ExecutorFacts {
            id: String::new(),
            name: String::new(),
            development: terms::Development::No,
            dry_run: false,
            hold: countersign_gate::facts::HOLD,
        },
        enabled: false,
        maintenance: false,
        servers: Vec::new(),
        agents: BTreeMap::new(),
        disabled_tools: DisabledList::Unreadable,
        disabled_servers: DisabledList::Unreadable,
        person_write_servers: DisabledList::Unreadable,
        buckets: Buckets::default(),
        first_seen: Arc::default(),
    })
}

/// One tool's effective settings: what is written, then the preset, then the defaults.
pub fn tool_settings(server: &Server, tool: &str) -> Result<ToolSettings, NoFacts> {
    let entry = server.tool(tool);
    let limit = |error| NoFacts::Limit {
        member: format!("servers.{}.tools.{tool}", server.name),
        error,
    };
    let arguments = argument_limits(&entry).map_err(limit)?;
    let defaults = ToolSettings::default();
    let limits = entry.limits.unwrap_or_default();
    Ok(ToolSettings {
        kind: kind(entry.kind),
        hidden: entry.hidden.unwrap_or(false),
        scope: entry.scope,
        danger: match entry.danger {
            // Who says who approves a tool's dangerous calls and not which these are, means all of them.
            None if entry
                .approval
                .is_some_and(|approval| approval != Approval::None) =>
            {
                terms::Danger::Always
            }
            None | Some(Danger::Never) => terms::Danger::Never,
            Some(Danger::Always) => terms::Danger::Always,
            Some(Danger::When(schema)) => terms::Danger::When(Value::Object(schema)),
        },
        approval: match entry.approval {
            None | Some(Approval::None) => terms::Approval::None,
            Some(Approval::Person) => terms::Approval::Person,
            Some(Approval::Passkey) => terms::Approval::Passkey,
        },
        paths: entry
            .paths
            .unwrap_or_default()
            .into_iter()
            .map(declared)
            .collect(),
        preview: entry.preview.map(preview),
        limits: terms::CallLimits {
            max_calls: limits.max_calls,
            rate: limits.rate.map(|rate| terms::Rate {
                per_seconds: rate.per_seconds,
                max: rate.max,
            }),
        },
        arguments,
        max_items: entry.max_items.map(u64::from),
        max_bytes: entry.max_bytes.unwrap_or(defaults.max_bytes),
        cost: entry.cost.map(|cost| match cost {
            Cost::Units(units) => price::Cost::Units(units),
            Cost::Per(pointer) => price::Cost::Per(pointer),
        }),
        replay: entry.replay.unwrap_or(defaults.replay),
        validation: match entry.validation {
            None | Some(Validation::Strict) => terms::Validation::Strict,
            Some(Validation::Warn) => terms::Validation::Warn,
        },
        open_arguments: entry.open_arguments.unwrap_or(false),
        require_copy: entry.require_copy.unwrap_or(false),
        audience: match entry.audience {
            None | Some(Audience::Agent) => countersign_gate::Audience::Agent,
            Some(Audience::Public) => countersign_gate::Audience::Public,
        },
        client_token: entry.client_token,
    })
}

fn preview(entry: PreviewEntry) -> Preview {
    match entry.argument {
        Some(argument) => Preview::Argument {
            pointer: argument.pointer,
            value: argument.value,
        },
        None => Preview::Reads {
            reads: entry
                .reads
                .into_iter()
                .map(|read| PreviewRead {
                    tool: read.tool,
                    arguments: read.arguments,
                    when: read.when,
                    ignore: read.ignore,
                    text: read.text,
                })
                .collect(),
            new: entry.diff.map(|diff| diff.new),
        },
    }
}

fn declared(path: PathEntry) -> Declared {
    Declared {
        pointer: path.pointer,
        effect: match path.effect {
            Effect::Read => paths::Effect::Read,
            Effect::Create => paths::Effect::Create,
            Effect::Write => paths::Effect::Write,
            Effect::Command => paths::Effect::Command,
            Effect::Folder => paths::Effect::Folder,
        },
    }
}

/// The absolute folder a server that we start runs in; one over HTTP has none here. Where the entry names none it is this process's own.
fn working_folder(server: &Server) -> Option<String> {
    let Launch::Child { cwd, .. } = &server.launch else {
        return None;
    };
    let here = std::env::current_dir().ok();
    let folder = match (cwd, here) {
        (Some(cwd), Some(here)) => here.join(cwd),
        (Some(cwd), None) => cwd.into(),
        (None, here) => here?,
    };
    folder.into_os_string().into_string().ok()
}

fn server_facts(server: &Server) -> Result<ServerFacts, NoFacts> {
    let mut tools = BTreeMap::new();
    for tool in server.known_tools() {
        tools.insert(tool.to_owned(), tool_settings(server, tool)?);
    }
    Ok(ServerFacts {
        name: server.name.as_str().into(),
        enabled: server.entry.enabled.0,
        cwd: working_folder(server),
        tools,
    })
}

fn agent_facts(
    settings: &Settings,
    agent: &Agent,
    servers: &[ServerFacts],
) -> Result<AgentFacts, NoFacts> {
    let mode = match agent.entry.mode {
        super::Mode::Auto => terms::Mode::Auto,
        super::Mode::Ask => terms::Mode::Ask,
        super::Mode::ReadOnly => terms::Mode::ReadOnly,
    };
    let scopes = agent
        .entry
        .scopes
        .as_ref()
        .map(|scopes| scopes.iter().cloned().collect::<BTreeSet<_>>());
    let permission = if settings.executor.development {
        let granted = servers
            .iter()
            .filter(|server| may_use(agent, &server.name))
            .map(server_view)
            .collect();
        let view = terms::SettingsView {
            executor: &settings.executor.id,
            agent: agent.name.as_str(),
            key: &agent.entry.key,
            mode,
            servers: granted,
        };
        let made = terms::development(&view).map_err(|error| NoFacts::Permission {
            agent: agent.name.to_string(),
            error,
        })?;
        Some(Arc::new(made))
    } else {
        None
    };
    let policy = agent.entry.write_policy.as_ref();
    let policy = policy
        .map(|entry| write_policy(entry, agent.entry.workspace.as_deref()))
        .transpose()
        .map_err(|(member, words)| NoFacts::Policy {
            member: format!("agents.{}.{member}", agent.name),
            words,
        })?;
    Ok(AgentFacts {
        name: agent.name.to_string(),
        key_prefix: agent.entry.key.clone(),
        scopes,
        expires_at: agent.expires_at,
        mode,
        requires_approval: agent.entry.requires_approval,
        workspace: agent.entry.workspace.clone(),
        write_policy: policy.map(Arc::new),
        turn_idle_minutes: agent.entry.turn_idle_minutes,
        permission,
    })
}

/// Whether executor.json lets the agent use the server: all where it names none.
pub fn may_use(agent: &Agent, server: &str) -> bool {
    agent
        .entry
        .servers
        .as_ref()
        .is_none_or(|servers| servers.iter().any(|name| name == server))
}

fn server_view(server: &ServerFacts) -> terms::ServerView<'_> {
    let tools = server.tools.iter().map(|(name, tool)| terms::ToolView {
        name,
        kind: tool.kind,
        scope: tool.scope.as_deref(),
        limits: tool.limits,
        arguments: &tool.arguments,
    });
    terms::ServerView {
        name: &server.name,
        tools: tools.collect(),
    }
}

fn argument_limits(entry: &ToolEntry) -> Result<Vec<terms::ArgumentLimit>, terms::LimitError> {
    let one = |limit: &super::ArgumentEntry| {
        terms::ArgumentLimit::read(&limit.pointer, limit.op.word(), limit.value.as_ref())
    };
    entry.arguments.iter().flatten().map(one).collect()
}

fn kind(kind: Option<Kind>) -> terms::Kind {
    match kind {
        Some(Kind::Read) => terms::Kind::Read,
        Some(Kind::Write) | None => terms::Kind::Write,
    }
}

fn buckets(entry: &BucketsEntry) -> Buckets {
    let size = |bucket: BucketEntry| BucketSize {
        size: bucket.size,
        per_minute: bucket.per_minute,
    };
    Buckets {
        key: size(entry.key),
        person: size(entry.person),
        network: size(entry.network),
        token: size(entry.token),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::settings::check_bytes;

    fn settings(text: &str) -> Settings {
        check_bytes(Path::new("executor.json"), text.as_bytes()).unwrap()
    }

    const FULL: &str = include_str!("../../testdata/settings/full.json");

    #[test]
    fn the_gate_sees_what_is_written() {
        let made = facts(&settings(FULL), 3, Open::Yes, Arc::default()).unwrap();
        assert!(made.enabled && made.generation == 3);
        let files = made.server("files").unwrap();
        let write = &files.tools["write_file"];
        assert_eq!(
            (write.kind, &write.danger, write.approval),
            (
                terms::Kind::Write,
                &terms::Danger::Always,
                terms::Approval::Passkey
            )
        );
        assert_eq!(write.limits.max_calls, Some(50));
        assert!(write.preview.is_some() && write.arguments.len() == 1);
        assert_eq!(
            files.tools["read_text_file"].kind,
            terms::Kind::Read,
            "the preset the entry names counts"
        );
        let agent = &made.agents["claude-desktop"];
        assert!(agent.write_policy.is_some() && agent.workspace.is_some());
        assert!(
            agent.permission.is_none(),
            "without development nothing is granted"
        );
        assert!(
            !facts(&settings(FULL), 3, Open::No, Arc::default())
                .unwrap()
                .enabled
        );
        let shut = closed(1).unwrap();
        assert!(!shut.enabled && shut.disabled_tools.has("anything"));
    }

    #[test]
    fn development_grants_the_agents_servers_only() {
        let text = FULL
            .replace("\"development\": false", "\"development\": true")
            .replace(
                "\"scopes\": [\"files:read\"",
                "\"servers\": [\"search\"], \"scopes\": [\"files:read\"",
            );
        let made = facts(&settings(&text), 1, Open::Yes, Arc::default()).unwrap();
        let permission = made.agents["claude-desktop"].permission.clone().unwrap();
        assert!(permission.grant("search", "x").is_some());
        assert!(permission.grant("files", "write_file").is_none());
    }
}
