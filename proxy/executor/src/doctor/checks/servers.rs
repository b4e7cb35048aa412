//! The servers: whether they can be started, and whether their tools' names are their own.

use std::collections::BTreeMap;

use crate::commands::Context;
use crate::commands::preset_words::names as named;
use crate::commands::server_check::startable;
use crate::settings::{Difference, Launch, Server, Settings, by_name};
use crate::store::StateDb;

use super::super::Found;

pub(in crate::doctor) fn servers(_context: &Context, settings: &Settings) -> Vec<Found> {
    let mut found: Vec<Found> = settings
        .servers
        .iter()
        .filter(|server| server.entry.enabled.0)
        .filter_map(|server| startable(server).err())
        .map(Found::fail)
        .collect();
    for server in settings
        .servers
        .iter()
        .filter(|server| matches!(server.launch, Launch::Http { .. }))
    {
        let note = "is reached over HTTP, which this version can't do yet";
        found.push(Found::warn(
            format!("server `{}` {note}", server.name),
            "use a server that is started as a program",
        ));
    }
    if found.is_empty() {
        found.push(match settings.servers.len() {
            0 => Found::warn(
                "there is none",
                "`countersign server add NAME -- COMMAND ARGS…`",
            ),
            1 => Found::ok("1, its program is found"),
            many => Found::ok(format!("{many}, their programs are found")),
        });
    }
    found
}

/// Servers and the presets their entries name, by the tools they were last seen with.
pub(in crate::doctor) fn presets(context: &Context, settings: &Settings) -> Vec<Found> {
    let seen = StateDb::open(&context.folder)
        .and_then(|state| state.pins())
        .unwrap_or_default();
    let mut found = Vec::new();
    let mut fitting = 0;
    for server in &settings.servers {
        let name = server.name.as_str();
        let (Some(known), Some(tools)) = (server.preset, seen.get(name)) else {
            continue;
        };
        let misfits = by_name(known, tools.keys().map(String::as_str));
        let unknown = named(&misfits, Difference::UnknownTool);
        if unknown.is_empty() {
            fitting += 1;
            continue;
        }
        found.push(Found::warn(
            format!("the preset of server `{name}` doesn't know {}, so each counts as a write", unknown.join(", ")),
            format!("`countersign server check {name}`, then `countersign tool set {name} TOOL --kind read` for one that only reads"),
        ));
    }
    if found.is_empty() {
        found.push(Found::ok(match fitting {
            0 => "no server that was seen has one".to_owned(),
            1 => "1 server's tools are known to its preset".to_owned(),
            many => format!("{many} servers' tools are known to their presets"),
        }));
    }
    found
}

/// Two tools of one public name (`server__tool`): the first in executor.json keeps it.
pub(in crate::doctor) fn names(context: &Context, settings: &Settings) -> Vec<Found> {
    let seen = StateDb::open(&context.folder)
        .and_then(|state| state.pins())
        .unwrap_or_default();
    let tools = |server: &Server| -> Vec<String> {
        let pinned = seen
            .get(server.name.as_str())
            .into_iter()
            .flat_map(|tools| tools.keys().cloned());
        server
            .known_tools()
            .into_iter()
            .map(str::to_owned)
            .chain(pinned)
            .collect()
    };
    let mut owners: BTreeMap<String, (&str, String)> = BTreeMap::new();
    let mut found = Vec::new();
    for server in &settings.servers {
        for tool in tools(server) {
            let public = format!("{}__{tool}", server.name);
            let (owner, first) = owners
                .entry(public.clone())
                .or_insert_with(|| (server.name.as_str(), tool.clone()));
            if *owner != server.name.as_str() {
                found.push(Found::warn(
                    format!("`{}` of server `{}` and `{first}` of `{owner}` are both `{}`; the first keeps the name", crate::commands::plain(&tool), server.name, crate::commands::plain(&public)),
                    "rename one of the servers",
                ));
            }
        }
    }
    if found.is_empty() {
        found.push(Found::ok("no two tools share a public name"));
    }
    found
}
