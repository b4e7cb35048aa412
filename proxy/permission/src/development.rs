//! The unsigned development permission: everything executor.json has on, recomputed at each load, labelled "(development)".

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::{
    ArgumentLimit, Authority, CallLimits, Hash, Kind, Mode, Permission, Pin, ServerGrant,
    ToolGrant, Tools,
};

/// What the development permission needs to know of executor.json, for one agent.
#[derive(Clone, Debug)]
pub struct SettingsView<'a> {
    /// The executor's id.
    pub executor: &'a str,
    /// The agent's name.
    pub agent: &'a str,
    /// The visible prefix of its key.
    pub key: &'a str,
    /// Its mode.
    pub mode: Mode,
    /// Every server of executor.json.
    pub servers: Vec<ServerView<'a>>,
}

/// One server of executor.json.
#[derive(Clone, Debug)]
pub struct ServerView<'a> {
    /// Its name.
    pub name: &'a str,
    /// The tools that have settings.
    pub tools: Vec<ToolView<'a>>,
}

/// One tool with settings.
#[derive(Clone, Debug)]
pub struct ToolView<'a> {
    /// The tool's name as the server gives it.
    pub name: &'a str,
    /// Its configured kind.
    pub kind: Kind,
    /// Its configured scope, where it is not the default.
    pub scope: Option<&'a str>,
    /// How often it may be called.
    pub limits: CallLimits,
    /// What its arguments may be.
    pub arguments: &'a [ArgumentLimit],
}

/// The development permission of one agent: all servers, all tools, with the limits their settings carry.
///
/// # Errors
/// When the settings have no canonical form.
pub fn development(settings: &SettingsView<'_>) -> Result<Permission, serde_json::Error> {
    let mut scopes = BTreeSet::new();
    let mut servers = BTreeMap::new();
    for server in &settings.servers {
        scopes.insert(format!("{}:read", server.name));
        scopes.insert(format!("{}:write", server.name));
        scopes.extend(
            server
                .tools
                .iter()
                .filter_map(|tool| tool.scope)
                .map(String::from),
        );
        let tools = server
            .tools
            .iter()
            .map(|tool| (tool.name.to_string(), grant(tool)))
            .collect();
        servers.insert(
            server.name.to_string(),
            ServerGrant {
                identity: None,
                tools: Tools::Every(tools),
            },
        );
    }
    Ok(Permission {
        authority: Authority::Development,
        document: Hash::of(&serde_jcs::to_vec(&document(settings))?),
        agent: settings.agent.to_string(),
        scopes,
        servers,
        mode: settings.mode,
        not_before: None,
        expires_at: None,
    })
}

fn grant(tool: &ToolView<'_>) -> ToolGrant {
    ToolGrant {
        pin: Pin::FirstSeen,
        kind: tool.kind,
        limits: tool.limits,
        arguments: tool.arguments.to_vec(),
    }
}

fn document(settings: &SettingsView<'_>) -> serde_json::Value {
    let tool = |tool: &ToolView<'_>| {
        json!({
            "name": tool.name, "kind": tool.kind, "scope": tool.scope, "limits": tool.limits,
            "arguments": tool.arguments.iter().map(ArgumentLimit::document).collect::<Vec<_>>(),
        })
    };
    let servers: Vec<_> = settings
        .servers
        .iter()
        .map(|server| json!({"name": server.name, "tools": server.tools.iter().map(tool).collect::<Vec<_>>()}))
        .collect();
    json!({
        "type": "countersign.development/1", "executor": settings.executor,
        "agent": {"name": settings.agent, "key": settings.key}, "mode": settings.mode, "servers": servers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Test;

    fn view<'a>(arguments: &'a [ArgumentLimit], scope: Option<&'a str>) -> SettingsView<'a> {
        let limits = CallLimits {
            max_calls: Some(5),
            rate: None,
        };
        let tool = ToolView {
            name: "write_file",
            kind: Kind::Write,
            scope,
            limits,
            arguments,
        };
        SettingsView {
            executor: "id",
            agent: "claude",
            key: "csk_ab12cd34",
            mode: Mode::Auto,
            servers: vec![ServerView {
                name: "files",
                tools: vec![tool],
            }],
        }
    }

    #[test]
    fn grants_every_tool_of_listed_servers_and_names_itself() {
        let permission = development(&view(&[], Some("notes"))).unwrap();
        assert_eq!(permission.label(), "(development)");
        let scopes: Vec<_> = permission.scopes.iter().map(String::as_str).collect();
        assert_eq!(scopes, ["files:read", "files:write", "notes"]);
        assert_eq!(
            permission
                .grant("files", "write_file")
                .unwrap()
                .limits
                .max_calls,
            Some(5)
        );
        assert_eq!(
            permission.grant("files", "unheard_of").unwrap(),
            &ToolGrant::UNSET
        );
        assert!(permission.grant("mail", "send").is_none());
    }

    #[test]
    fn the_hash_follows_the_settings() {
        let limits = [ArgumentLimit {
            pointer: "/path".into(),
            test: Test::Prefix("/a/".into()),
        }];
        let plain = development(&view(&[], None)).unwrap().document;
        assert_eq!(plain, development(&view(&[], None)).unwrap().document);
        assert_ne!(plain, development(&view(&limits, None)).unwrap().document);
        assert_ne!(plain, development(&view(&[], Some("s"))).unwrap().document);
    }
}
