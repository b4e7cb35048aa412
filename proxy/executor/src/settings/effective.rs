//! What holds for a tool once the preset and the defaults have filled what is left out. Judges no call.

use serde_json::{Value, json};

use super::checked::Settings;
use super::tool::{Approval, Audience, Danger, Kind, ToolEntry, Validation};

/// The largest arguments a tool takes where nothing is said, in bytes.
pub const MAX_BYTES: u64 = 2_000_000;

impl ToolEntry {
    /// This entry, with what it leaves out taken from `base`.
    pub fn or(self, base: &ToolEntry) -> ToolEntry {
        let base = base.clone();
        ToolEntry {
            kind: self.kind.or(base.kind),
            hidden: self.hidden.or(base.hidden),
            scope: self.scope.or(base.scope),
            danger: self.danger.or(base.danger),
            approval: self.approval.or(base.approval),
            paths: self.paths.or(base.paths),
            preview: self.preview.or(base.preview),
            limits: self.limits.or(base.limits),
            arguments: self.arguments.or(base.arguments),
            max_items: self.max_items.or(base.max_items),
            max_bytes: self.max_bytes.or(base.max_bytes),
            cost: self.cost.or(base.cost),
            replay: self.replay.or(base.replay),
            validation: self.validation.or(base.validation),
            open_arguments: self.open_arguments.or(base.open_arguments),
            require_copy: self.require_copy.or(base.require_copy),
            audience: self.audience.or(base.audience),
            client_token: self.client_token.or(base.client_token),
            verb: self.verb.or(base.verb),
        }
    }

    /// What holds for a tool of `server` of which nothing else is said: a write, in the open, with every check on.
    pub fn defaults(server: &str, kind: Kind) -> ToolEntry {
        let scope = match kind {
            Kind::Read => format!("{server}:read"),
            Kind::Write => format!("{server}:write"),
        };
        ToolEntry {
            kind: Some(kind),
            hidden: Some(false),
            scope: Some(scope),
            danger: Some(Danger::Never),
            approval: Some(Approval::None),
            max_bytes: Some(MAX_BYTES),
            replay: Some(true),
            validation: Some(Validation::Strict),
            open_arguments: Some(false),
            require_copy: Some(false),
            audience: Some(Audience::Agent),
            ..ToolEntry::default()
        }
    }
}

/// The whole of the settings as it holds, presets and defaults applied: what `config show --effective` prints.
pub fn effective_document(settings: &Settings) -> Value {
    let mut servers = serde_json::Map::new();
    for server in &settings.servers {
        let mut entry = json!(server.entry);
        let mut tools = serde_json::Map::new();
        for tool in server.known_tools() {
            let set = server.tool(tool);
            let kind = set.kind.unwrap_or(Kind::Write);
            tools.insert(
                tool.to_owned(),
                json!(set.or(&ToolEntry::defaults(server.name.as_str(), kind))),
            );
        }
        entry["tools"] = Value::Object(tools);
        servers.insert(server.name.to_string(), entry);
    }
    let agents: serde_json::Map<String, Value> = settings
        .agents
        .iter()
        .map(|agent| (agent.name.to_string(), json!(agent.entry)))
        .collect();
    json!({
        "version": super::SettingsFile::VERSION, "executor": settings.executor, "enabled": settings.enabled,
        "secrets": settings.secrets, "servers": servers, "agents": agents,
        "disabled_tools": settings.disabled_tools, "disabled_servers": settings.disabled_servers,
        "person_write_servers": settings.person_write_servers, "buckets": settings.buckets, "book": settings.book,
        "copies": settings.copies, "approval": settings.approval, "limits": settings.limits,
    })
}

/// Refuses a bucket that could never pay for some call: the formula gives up to 20 units, a tool's own `cost` may be more.
pub(super) fn check_prices(settings: &Settings) -> Result<(), super::checked::Fault> {
    let mut agents = (
        countersign_gate::price::MAX_FORMULA_PRICE,
        "any write tool".to_owned(),
    );
    let mut public = (1, "any public tool".to_owned());
    for server in &settings.servers {
        for name in server.known_tools() {
            let tool = super::tool_settings(server, name)
                .map_err(|error| (format!("servers.{}", server.name), error.to_string()))?;
            let most = countersign_gate::price::largest(&tool);
            let slot = if tool.audience == countersign_gate::Audience::Public {
                &mut public
            } else {
                &mut agents
            };
            if most > slot.0 {
                *slot = (most, format!("{}/{name}", server.name));
            }
        }
    }
    let buckets = &settings.buckets;
    let rows = [
        ("key", buckets.key, &agents),
        ("person", buckets.person, &agents),
        ("network", buckets.network, &public),
        ("token", buckets.token, &public),
    ];
    match rows
        .iter()
        .find(|(_, bucket, (price, _))| bucket.size < *price)
    {
        Some((name, bucket, (price, tool))) => Err((
            format!("buckets.{name}.size"),
            format!(
                "it is {}, but `{tool}` can cost {price}: such a call could never be paid for",
                bucket.size
            ),
        )),
        None => Ok(()),
    }
}
