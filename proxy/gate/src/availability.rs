//! What is open to an agent and why the rest is not: a report for a person, over every tool of every server. Charges and writes
//! nothing. Open here is exactly what a call would be let through step 4 for.

use countersign_permission::Kind;
use jiff::Timestamp;
use serde::Serialize;

use crate::catalog::Catalog;
use crate::facts::{AgentFacts, DisabledList, Facts};
use crate::request::Audience;
use crate::steps::Rights;

/// One tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Availability {
    /// Its server.
    pub server: String,
    /// Its name, as the server gives it.
    pub tool: String,
    /// Read or write; `None` for a tool set aside.
    pub kind: Option<Kind>,
    /// The scope it needs; `None` for a tool set aside.
    pub scope: Option<String>,
    /// Why it is closed, in a fixed order; empty where it is open.
    pub closed: Vec<Closed>,
}

/// Why a tool is closed. The order here is the order of the report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Closed {
    /// Its server is switched off.
    ModuleDisabled,
    /// Its server is in `disabled_servers`, or a disabled list is unreadable.
    ApiOff,
    /// It is hidden, or in `disabled_tools`.
    ToolHidden,
    /// Nothing grants it.
    NoPermission {
        /// In words.
        detail: String,
    },
    /// Its definition is not the pinned one, or not looked at yet.
    DefinitionChanged {
        /// In words.
        detail: String,
    },
    /// It cannot be held to its schema.
    SetAside {
        /// Where and why.
        detail: String,
    },
}

/// The report for one agent, sorted by server, then tool. `key_scopes` are those of the key's record. Public tools are left out.
#[must_use]
pub fn availability(
    facts: &Facts,
    agent: &std::sync::Arc<AgentFacts>,
    key_scopes: Option<&[String]>,
    catalogs: &[(&str, &Catalog)],
    now: Timestamp,
) -> Vec<Availability> {
    let rights = Rights::of(facts, agent, key_scopes, now);
    let mut report = Vec::new();
    for (server, catalog) in catalogs {
        for tool in catalog
            .tools
            .iter()
            .filter(|tool| tool.settings.audience == Audience::Agent)
        {
            let mut closed = switches(facts, server, &tool.name, tool.settings.hidden);
            closed.extend(rights.closes(facts, tool));
            closed.sort();
            report.push(Availability {
                server: (*server).to_string(),
                tool: tool.name.to_string(),
                kind: Some(tool.kind),
                scope: Some(tool.scope.to_string()),
                closed,
            });
        }
        for aside in &catalog.set_aside {
            let mut closed = switches(facts, server, &aside.tool, false);
            closed.push(Closed::SetAside {
                detail: format!("{} (at `{}`)", aside.reason, aside.pointer),
            });
            report.push(Availability {
                server: (*server).to_string(),
                tool: aside.tool.clone(),
                kind: None,
                scope: None,
                closed,
            });
        }
    }
    report.sort_by(|a, b| (&a.server, &a.tool).cmp(&(&b.server, &b.tool)));
    report
}

fn switches(facts: &Facts, server: &str, tool: &str, hidden: bool) -> Vec<Closed> {
    let unreadable =
        [&facts.disabled_tools, &facts.disabled_servers].contains(&&DisabledList::Unreadable);
    let settings = facts.server(server);
    let named =
        facts.disabled_tools.has(tool) || facts.disabled_tools.has(&format!("{server}__{tool}"));
    let table = [
        (
            !settings.is_some_and(|server| server.enabled),
            Closed::ModuleDisabled,
        ),
        (
            unreadable || facts.disabled_servers.has(server),
            Closed::ApiOff,
        ),
        (hidden || (!unreadable && named), Closed::ToolHidden),
    ];
    table
        .into_iter()
        .filter(|(closed, _)| *closed)
        .map(|(_, reason)| reason)
        .collect()
}
