//! One server's signed terms against what is found of it: out as a whole, or met tool by tool. Knows no agent.

use std::collections::BTreeMap;

use super::meet::{Change, Changes, Way, lower, text};
use super::{Effective, Found};
use crate::document::{Audience, Cost, LimitTerms, OtherMembers, ServerTerms, ToolTerms};
use crate::{Danger, Kind, Rate, Validation};

/// A server or tool that is signed and not in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Out {
    /// The server.
    pub server: String,
    /// The tool; nothing where it is the whole server.
    pub tool: Option<String>,
    /// Why.
    pub reason: OutReason,
}

/// Why a server or tool is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutReason {
    /// executor.json has it no more.
    #[error("executor.json no longer has it")]
    Gone,
    /// It is switched off.
    #[error("it is switched off")]
    Off,
    /// It is hidden.
    #[error("it is hidden")]
    Hidden,
    /// What it is cannot be found out.
    #[error("what its command leads to can't be found out")]
    Unresolved,
    /// It is another program, package or address.
    #[error("it is another program, package or address than was signed")]
    Identity,
    /// It would start otherwise.
    #[error("its working folder, environment or headers are others than were signed")]
    Start,
    /// Its definition is another.
    #[error("its definition is another than was signed")]
    Definition,
    /// It needs a scope the agent does not have.
    #[error("executor.json asks for a scope that the agent does not have")]
    Scope,
}

/// What an absent `max_bytes` means, in bytes.
const MAX_BYTES: u64 = 2_000_000;

pub(super) fn servers(
    changes: &mut Changes<'_>,
    signed: &[ServerTerms],
    effective: &Effective,
) -> (Vec<ServerTerms>, Vec<Out>) {
    let now: BTreeMap<&str, &ServerTerms> = effective
        .terms
        .servers
        .iter()
        .map(|server| (server.name.as_str(), server))
        .collect();
    let mut in_force = Vec::new();
    let mut out = Vec::new();
    for terms in signed {
        let name = terms.name.as_str();
        let mut inside = changes.inside(&format!("servers.{name}"));
        let found = effective.found.get(name);
        match (now.get(name), found) {
            (Some(now), Some(found)) => {
                let met = server(&mut inside, terms, now, found, effective, &mut out);
                in_force.extend(met);
            }
            _ => out.push(whole(name, OutReason::Gone)),
        }
    }
    for name in now.keys() {
        if signed.iter().all(|server| server.name.as_str() != *name) {
            changes.note(
                &format!("servers.{name}"),
                None,
                Some(text(name)),
                Way::Ignored,
            );
        }
    }
    (in_force, out)
}

fn whole(server: &str, reason: OutReason) -> Out {
    Out {
        server: server.to_owned(),
        tool: None,
        reason,
    }
}

fn server(
    changes: &mut Changes<'_>,
    signed: &ServerTerms,
    now: &ServerTerms,
    found: &Found,
    effective: &Effective,
    out: &mut Vec<Out>,
) -> Option<ServerTerms> {
    let name = signed.name.as_str();
    if let Some(reason) = closed(changes, signed, now, found) {
        out.push(whole(name, reason));
        return None;
    }
    let mut tools = Vec::new();
    for tool in &signed.tools {
        let offered = now.tools.iter().find(|other| other.name == tool.name);
        let reason = match offered {
            None => Some(OutReason::Gone),
            Some(_) if found.hidden.contains(&tool.name) => Some(OutReason::Hidden),
            Some(offered) => {
                moved(tool, offered, found).or_else(|| unscoped(name, tool, offered, effective))
            }
        };
        match (reason, offered) {
            (None, Some(offered)) => {
                let mut inside = changes.inside(&format!("tools.{}", tool.name));
                tools.push(met(&mut inside, name, tool, offered));
            }
            (reason, _) => out.push(Out {
                server: name.to_owned(),
                tool: Some(tool.name.clone()),
                reason: reason.unwrap_or(OutReason::Gone),
            }),
        }
    }
    for new in &now.tools {
        if signed.tools.iter().all(|tool| tool.name != new.name) {
            changes.note(
                &format!("tools.{}", new.name),
                None,
                Some(text(&new.name)),
                Way::Ignored,
            );
        }
    }
    let mut terms = passing(changes, signed, now);
    terms.tools = tools;
    Some(terms)
}

/// What passes between server and client, tools apart.
pub(crate) fn passing(
    changes: &mut Changes<'_>,
    signed: &ServerTerms,
    now: &ServerTerms,
) -> ServerTerms {
    ServerTerms {
        name: signed.name.clone(),
        identity: signed.identity,
        cwd: signed.cwd.clone(),
        env: signed.env.clone(),
        headers: signed.headers.clone(),
        pass: changes.both("pass", &signed.pass, &now.pass),
        methods: changes.both("methods", &signed.methods, &now.methods),
        other_members: changes.stricter(
            "other_members",
            &signed.other_members,
            &now.other_members,
            |now, _| *now == OtherMembers::Deny,
        ),
        context: changes.stricter("context", &signed.context, &now.context, |now, _| !*now),
        tools: Vec::new(),
    }
}

/// How a server is started.
pub(crate) fn start(changes: &mut Changes<'_>, signed: &ServerTerms, now: &ServerTerms) {
    changes.signed("cwd", &signed.cwd, &now.cwd);
    changes.signed("env", &signed.env, &now.env);
    changes.signed("headers", &signed.headers, &now.headers);
}

fn closed(
    changes: &mut Changes<'_>,
    signed: &ServerTerms,
    now: &ServerTerms,
    found: &Found,
) -> Option<OutReason> {
    if !found.enabled {
        return Some(OutReason::Off);
    }
    let Some(identity) = &found.identity else {
        return Some(OutReason::Unresolved);
    };
    if !identity.is_signed_as(signed.identity) {
        let now = identity.hash().ok().map(|hash| text(&hash));
        changes.note("identity", Some(text(&signed.identity)), now, Way::Ignored);
        return Some(OutReason::Identity);
    }
    let before = changes.all.len();
    start(changes, signed, now);
    (changes.all.len() > before).then_some(OutReason::Start)
}

fn moved(signed: &ToolTerms, now: &ToolTerms, found: &Found) -> Option<OutReason> {
    let seen = found
        .definitions
        .get(&signed.name)
        .unwrap_or(&now.definition);
    (*seen != signed.definition).then_some(OutReason::Definition)
}

/// A tool whose scope was renamed stays under the signed one, and needs the new one too.
fn unscoped(
    server: &str,
    signed: &ToolTerms,
    now: &ToolTerms,
    effective: &Effective,
) -> Option<OutReason> {
    let (label, scopes) = (now.scope_on(server), effective.terms.scopes.as_ref()?);
    let renamed = label != signed.scope_on(server);
    (renamed && !scopes.contains(&label)).then_some(OutReason::Scope)
}

pub(crate) fn met(
    changes: &mut Changes<'_>,
    server: &str,
    signed: &ToolTerms,
    now: &ToolTerms,
) -> ToolTerms {
    let kind = changes.stricter("kind", &signed.kind, &now.kind, |now, _| {
        *now == Kind::Write
    });
    ToolTerms {
        name: signed.name.clone(),
        definition: signed.definition,
        kind,
        scope: scope(changes, server, kind, signed, now),
        danger: danger(changes, &signed.danger, &now.danger),
        approval: changes.stricter(
            "approval",
            &signed.approval,
            &now.approval,
            |now, signed| now > signed,
        ),
        validation: changes.stricter(
            "validation",
            &signed.validation,
            &now.validation,
            |now, _| *now == Validation::Strict,
        ),
        open_arguments: changes.stricter(
            "open_arguments",
            &signed.open_arguments,
            &now.open_arguments,
            |now, _| !*now,
        ),
        paths: changes.signed("paths", &signed.paths, &now.paths),
        preview: changes.signed("preview", &signed.preview, &now.preview),
        limits: limits(&mut changes.inside("limits"), signed.limits, now.limits),
        arguments: changes.all_of("arguments", &signed.arguments, &now.arguments),
        max_items: changes.stricter("max_items", &signed.max_items, &now.max_items, lower),
        max_bytes: changes.stricter(
            "max_bytes",
            &signed.max_bytes,
            &now.max_bytes,
            |now, signed| now.unwrap_or(MAX_BYTES) < signed.unwrap_or(MAX_BYTES),
        ),
        cost: changes.stricter("cost", &signed.cost, &now.cost, |now, signed| {
            match (now, signed) {
                (Some(Cost::Units(now)), Some(Cost::Units(signed))) => now > signed,
                _ => false,
            }
        }),
        replay: changes.signed("replay", &signed.replay, &now.replay),
        require_copy: changes.stricter(
            "require_copy",
            &signed.require_copy,
            &now.require_copy,
            |now, _| *now,
        ),
        audience: changes.stricter("audience", &signed.audience, &now.audience, |now, _| {
            *now == Audience::Agent
        }),
        client_token: changes.signed("client_token", &signed.client_token, &now.client_token),
    }
}

/// The scope that was signed, also where it followed from a kind that is another now.
fn scope(
    changes: &mut Changes<'_>,
    server: &str,
    kind: Kind,
    signed: &ToolTerms,
    now: &ToolTerms,
) -> Option<String> {
    let (then, label) = (signed.scope_on(server), now.scope_on(server));
    if then != label && (&signed.scope, &now.scope) != (&None, &None) {
        changes.note("scope", Some(text(&then)), Some(text(&label)), Way::Ignored);
    }
    match &signed.scope {
        None if kind != signed.kind => Some(then),
        scope => scope.clone(),
    }
}

/// The stricter of two; of two conditions neither is, so every call counts as dangerous until one of them is signed.
fn danger(changes: &mut Changes<'_>, signed: &Danger, now: &Danger) -> Danger {
    match (signed, now) {
        (Danger::When(a), Danger::When(b)) if a != b => {
            changes.note("danger", Some(text(signed)), Some(text(now)), Way::Narrowed);
            Danger::Always
        }
        _ => changes.stricter("danger", signed, now, |now, signed| {
            matches!(
                (now, signed),
                (Danger::Always, _) | (Danger::When(_), Danger::Never)
            )
        }),
    }
}

fn limits(changes: &mut Changes<'_>, signed: LimitTerms, now: LimitTerms) -> LimitTerms {
    let fewer =
        |now: &Rate, signed: &Rate| now.max <= signed.max && now.per_seconds >= signed.per_seconds;
    LimitTerms {
        max_calls: changes.stricter("max_calls", &signed.max_calls, &now.max_calls, lower),
        rate: changes.stricter("rate", &signed.rate, &now.rate, |now, signed| {
            match (now, signed) {
                (Some(now), Some(signed)) => fewer(now, signed),
                (now, _) => now.is_some() && signed.is_none(),
            }
        }),
    }
}

impl Change {
    /// Whether it does not count until it is signed.
    #[must_use]
    pub fn is_ignored(&self) -> bool {
        self.way == Way::Ignored
    }
}
