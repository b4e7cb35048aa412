//! executor.json after checking: names are names, a server has one way to start, what points somewhere points somewhere. Reads no file.

use super::agent::AgentEntry;
use super::check_tool::{check_tool, is_scope};
use super::file::{
    ApprovalEntry, BookEntry, BucketEntry, BucketsEntry, CopyEntry, ExecutorEntry, LimitsEntry,
    SecretsKind, SettingsFile,
};
use super::named::{Name, Named};
use super::policy::write_policy;
use super::preset::{Preset, preset};
use super::server::{ServerEntry, Setting};
use super::tool::ToolEntry;

/// Checked settings. Members keep the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Who this executor is.
    pub executor: ExecutorEntry,
    /// Whether agents may call at all.
    pub enabled: bool,
    /// Where secrets are kept.
    pub secrets: SecretsKind,
    /// The servers, first first.
    pub servers: Vec<Server>,
    /// The agents, first first.
    pub agents: Vec<Agent>,
    /// Tools that don't exist: `tool` or `server__tool`.
    pub disabled_tools: Vec<String>,
    /// Servers whose tools don't exist.
    pub disabled_servers: Vec<String>,
    /// Servers the person's session may write through.
    pub person_write_servers: Vec<String>,
    /// Sizes of the rate buckets.
    pub buckets: BucketsEntry,
    /// What the book keeps.
    pub book: BookEntry,
    /// Where the copies are.
    pub copies: Vec<CopyEntry>,
    /// The approval page.
    pub approval: ApprovalEntry,
    /// Bounds of a connection.
    pub limits: LimitsEntry,
}

/// One checked server.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Its name.
    pub name: Name,
    /// How it is reached.
    pub launch: Launch,
    /// Its preset, where it names one.
    pub preset: Option<&'static Preset>,
    /// Everything else, as written.
    pub entry: ServerEntry,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Launch {
    /// A child process.
    Child {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its working folder.
        cwd: Option<String>,
        /// Its environment, beside PATH.
        env: Vec<(String, Setting)>,
    },
    /// An address.
    Http {
        /// The address.
        url: String,
        /// Headers sent to it.
        headers: Vec<(String, Setting)>,
    },
}

/// One checked agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Its name.
    pub name: Name,
    /// When its key ends.
    pub expires_at: Option<jiff::Timestamp>,
    /// Everything, as written.
    pub entry: AgentEntry,
}

/// What doesn't fit: the member's path and a sentence.
pub(super) type Fault = (String, String);

impl Settings {
    /// Checks what was written. The error names the first member that doesn't fit.
    pub(super) fn check(file: SettingsFile) -> Result<Settings, Fault> {
        if file.version != SettingsFile::VERSION {
            return Err((
                "version".to_owned(),
                format!("this program reads version 1, not {}", file.version),
            ));
        }
        uuid::Uuid::try_parse(&file.executor.id)
            .map_err(|_| fault("executor.id", "expected a UUID"))?;
        let servers = file
            .servers
            .iter()
            .map(|(name, entry)| check_server(name, entry))
            .collect::<Result<Vec<_>, _>>()?;
        let agents = check_agents(&file.agents)?;
        check_buckets(&file.buckets)?;
        check_limits(&file.limits)?;
        if file.book.retain == Some(0) {
            return Err(fault(
                "book.retain",
                "expected a number of days from 1 on, or null",
            ));
        }
        for (at, copy) in file.copies.iter().enumerate() {
            check_copy(copy).map_err(|words| (format!("copies[{at}]"), words.to_owned()))?;
        }
        Ok(Settings {
            executor: file.executor,
            enabled: file.enabled,
            secrets: file.secrets,
            servers,
            agents,
            disabled_tools: file.disabled_tools,
            disabled_servers: file.disabled_servers,
            person_write_servers: file.person_write_servers,
            buckets: file.buckets,
            book: file.book,
            copies: file.copies,
            approval: file.approval,
            limits: file.limits,
        })
    }

    /// The server called `name`.
    pub fn server(&self, name: &str) -> Option<&Server> {
        self.servers
            .iter()
            .find(|server| server.name.as_str() == name)
    }

    /// The agent called `name`.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.name.as_str() == name)
    }
}

impl Server {
    /// What holds for `tool`: what is written, then the preset; members neither names stay empty.
    pub fn tool(&self, tool: &str) -> ToolEntry {
        let written = self.entry.tools.get(tool).cloned().unwrap_or_default();
        match self.preset.and_then(|preset| preset.tool(tool)) {
            Some(known) => written.or(known),
            None => written,
        }
    }

    /// Names of all tools something is known of: written ones first.
    pub fn known_tools(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.entry.tools.iter().map(|(name, _)| name).collect();
        for name in self.preset.map(Preset::tools).unwrap_or_default() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The accounts of the secrets it is started with: (variable or header, place).
    pub fn secrets(&self) -> impl Iterator<Item = (&str, &str)> {
        let values = match &self.launch {
            Launch::Child { env, .. } => env,
            Launch::Http { headers, .. } => headers,
        };
        values.iter().filter_map(|(name, value)| match value {
            Setting::Secret(place) => Some((name.as_str(), place.as_str())),
            Setting::Text(_) => None,
        })
    }
}

pub(super) fn fault(path: &str, words: &str) -> Fault {
    (path.to_owned(), words.to_owned())
}

fn check_server(name: &str, entry: &ServerEntry) -> Result<Server, Fault> {
    let at = format!("servers.{name}");
    let name = Name::parse(name).map_err(|words| (at.clone(), words))?;
    let launch = check_launch(entry).map_err(|(member, words)| (format!("{at}{member}"), words))?;
    let (Launch::Child { env: values, .. }
    | Launch::Http {
        headers: values, ..
    }) = &launch;
    for (key, value) in values {
        check_value(&name, key, value).map_err(|words| (format!("{at}: `{key}`"), words))?;
    }
    let preset = match &entry.preset {
        None => None,
        Some(wanted) => Some(preset(wanted).ok_or_else(|| {
            let known = super::preset::names().join(", ");
            (
                format!("{at}.preset"),
                format!("no preset is called `{wanted}`; there are {known}"),
            )
        })?),
    };
    for (at_method, method) in entry.methods.iter().enumerate() {
        if method.is_empty() || method.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err((
                format!("{at}.methods[{at_method}]"),
                "expected a method name".to_owned(),
            ));
        }
    }
    for (tool, settings) in entry.tools.iter() {
        check_tool(settings)
            .map_err(|(member, words)| (format!("{at}.tools.{tool}.{member}"), words))?;
    }
    Ok(Server {
        name,
        launch,
        preset,
        entry: entry.clone(),
    })
}

fn check_launch(entry: &ServerEntry) -> Result<Launch, Fault> {
    let pairs = |members: &Named<Setting>| {
        members
            .iter()
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect()
    };
    match (&entry.command, &entry.url) {
        (Some(command), None) => {
            if command.is_empty() || command.contains('\0') {
                return Err(fault(".command", "expected a program"));
            }
            if entry.args.iter().any(|arg| arg.contains('\0')) {
                return Err(fault(".args", "an argument can't hold a zero byte"));
            }
            if !entry.headers.is_empty() {
                return Err(fault(".headers", "only a server with `url` has headers"));
            }
            Ok(Launch::Child {
                command: command.clone(),
                args: entry.args.clone(),
                cwd: entry.cwd.clone(),
                env: pairs(&entry.env),
            })
        }
        (None, Some(url)) => {
            let host = url
                .strip_prefix("https://")
                .or_else(|| url.strip_prefix("http://"));
            let authority = host.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
            match authority {
                None | Some("") => {
                    return Err(fault(
                        ".url",
                        "expected an address that starts with https:// or http://",
                    ));
                }
                Some(authority) if authority.contains('@') => {
                    return Err(fault(
                        ".url",
                        "an address can't hold a user or password; use `headers` with a secret",
                    ));
                }
                Some(_) => {}
            }
            if !entry.args.is_empty() || entry.cwd.is_some() || !entry.env.is_empty() {
                return Err(fault(
                    "",
                    "`args`, `cwd` and `env` belong to a server with `command`",
                ));
            }
            Ok(Launch::Http {
                url: url.clone(),
                headers: pairs(&entry.headers),
            })
        }
        (None, None) => Err(fault("", "expected `command` or `url`")),
        (Some(_), Some(_)) => Err(fault("", "`command` and `url` exclude each other")),
    }
}

/// A secret belongs to the server it was stored for, so its place starts with the server's own name.
fn check_value(server: &Name, key: &str, value: &Setting) -> Result<(), String> {
    if key.is_empty() || key.contains(['=', '\0', '\n', '\r']) {
        return Err("this can't be the name of a variable or header".to_owned());
    }
    match value {
        Setting::Text(text) if text.contains(['\0', '\r']) => {
            Err("a value can't hold this control character".to_owned())
        }
        Setting::Text(_) => Ok(()),
        Setting::Secret(place) => match place.split_once('/') {
            Some((owner, key)) if owner == server.as_str() && is_secret_key(key) => Ok(()),
            _ => Err(format!(
                "a secret of this server is named `{server}/KEY`, not `{}`",
                crate::commands::plain(place)
            )),
        },
    }
}

/// A secret's own name: 1 to 64 of letters, digits, `_`, `-` and `.`.
pub fn is_secret_key(key: &str) -> bool {
    (1..=64).contains(&key.len())
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}

fn check_agents(agents: &Named<AgentEntry>) -> Result<Vec<Agent>, Fault> {
    let mut checked: Vec<Agent> = Vec::new();
    for (name, entry) in agents.iter() {
        let at = format!("agents.{name}");
        let name = Name::parse(name).map_err(|words| (at.clone(), words))?;
        let public = entry.key.strip_prefix("csk_");
        if !public.is_some_and(|public| {
            public.len() == 8
                && public
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        }) {
            return Err((
                format!("{at}.key"),
                "expected `csk_` and 8 characters: the key's public prefix, never the key"
                    .to_owned(),
            ));
        }
        if let Some(other) = checked.iter().find(|other| other.entry.key == entry.key) {
            return Err((
                format!("{at}.key"),
                format!("agent `{}` has this key", other.name),
            ));
        }
        let expires_at = match &entry.expires_at {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| {
                (
                    format!("{at}.expires_at"),
                    format!(
                        "`{}` is not a time like 2026-12-31T23:59:59Z",
                        crate::commands::plain(text)
                    ),
                )
            })?),
        };
        if let Some(scope) = entry.scopes.iter().flatten().find(|scope| !is_scope(scope)) {
            return Err((
                format!("{at}.scopes"),
                format!("`{}` is not a scope", crate::commands::plain(scope)),
            ));
        }
        if let Some(policy) = &entry.write_policy {
            if policy.version != 1 {
                return Err((
                    format!("{at}.write_policy.version"),
                    format!("this program reads version 1, not {}", policy.version),
                ));
            }
            write_policy(policy, entry.workspace.as_deref())
                .map_err(|(member, words)| (format!("{at}.{member}"), words))?;
        }
        checked.push(Agent {
            name,
            expires_at,
            entry: entry.clone(),
        });
    }
    Ok(checked)
}

fn check_buckets(buckets: &BucketsEntry) -> Result<(), Fault> {
    let all = [
        ("key", buckets.key),
        ("person", buckets.person),
        ("network", buckets.network),
        ("token", buckets.token),
    ];
    for (name, BucketEntry { size, per_minute }) in all {
        if size == 0 || size > 1_000_000 || per_minute == 0 || per_minute > 1_000_000 {
            return Err((
                format!("buckets.{name}"),
                "`size` and `per_minute` are whole numbers from 1 to 1000000".to_owned(),
            ));
        }
    }
    Ok(())
}

fn check_limits(limits: &LimitsEntry) -> Result<(), Fault> {
    let rows: [(&str, u64, u64, u64); 4] = [
        ("limits.frame_bytes", limits.frame_bytes, 4096, 1 << 30),
        ("limits.depth", u64::from(limits.depth), 16, 512),
        (
            "limits.start_seconds",
            u64::from(limits.start_seconds),
            1,
            3600,
        ),
        (
            "limits.call_seconds",
            u64::from(limits.call_seconds),
            1,
            86400,
        ),
    ];
    match rows
        .iter()
        .find(|(_, value, least, most)| value < least || value > most)
    {
        Some((path, _, least, most)) => Err((
            (*path).to_owned(),
            format!("expected a whole number from {least} to {most}"),
        )),
        None => Ok(()),
    }
}

fn check_copy(copy: &CopyEntry) -> Result<(), &'static str> {
    match (&copy.folder, &copy.witness) {
        (Some(_), None) if copy.key.is_none() => Ok(()),
        (Some(_), None) => Err("a folder has no `key`"),
        (None, Some(_)) if copy.key.is_some() => Ok(()),
        (None, Some(_)) => Err("a witness needs its `key`"),
        _ => Err("expected either `folder` or `witness`"),
    }
}
