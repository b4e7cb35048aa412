//! What is open to an agent and why the rest is not: a report for a person, over every tool of every server. Charges and writes
//! nothing. Open here is exactly what a call would be let through step 4 for.

use countersign_permission::{Danger, Kind};
use jiff::Timestamp;
use serde::Serialize;

use crate::catalog::{Catalog, Tool};
use crate::facts::{AgentFacts, DisabledList, Facts};
use crate::request::Audience;
use crate::steps::{Rights, closes_by_pin, writes_are_open};

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
    /// When a call of it is dangerous: `never`, `always`, `when`; `None` for a tool set aside.
    pub danger: Option<&'static str>,
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
    /// It may change something, and people may not change anything through its server.
    AgentWritesOff,
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
    report(facts, catalogs, |tool| rights.closes(facts, tool))
}

/// The report for a person's own session, sorted by server, then tool: the same rules as [`crate::session::visible_for`] with
/// [`crate::session::Allow::All`], so what is open here is exactly what that lists. A person has every right executor.json has on.
#[must_use]
pub fn tool_availability(facts: &Facts, catalogs: &[(&str, &Catalog)]) -> Vec<Availability> {
    report(facts, catalogs, |tool| {
        if tool.kind == Kind::Write && !writes_are_open(facts, &tool.server) {
            return Some(Closed::AgentWritesOff);
        }
        closes_by_pin(facts, tool)
    })
}

fn report(
    facts: &Facts,
    catalogs: &[(&str, &Catalog)],
    closes: impl Fn(&Tool) -> Option<Closed>,
) -> Vec<Availability> {
    let mut report = Vec::new();
    for (server, catalog) in catalogs {
        for tool in catalog
            .tools
            .iter()
            .filter(|tool| tool.settings.audience == Audience::Agent)
        {
            let mut closed = switches(facts, server, &tool.name, tool.settings.hidden);
            closed.extend(closes(tool));
            closed.sort();
            report.push(Availability {
                server: (*server).to_string(),
                tool: tool.name.to_string(),
                kind: Some(tool.kind),
                scope: Some(tool.scope.to_string()),
                danger: Some(match tool.settings.danger {
                    Danger::Never => "never",
                    Danger::Always => "always",
                    Danger::When(_) => "when",
                }),
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
                danger: None,
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
