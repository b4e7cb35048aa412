//! Step 4: the tool exists for this caller, its server is on, its scope is effective, its definition is the pinned one. In this order:
//! hidden beats disabled, both beat rights. A public caller pays one unit before any of it; an agent's refusal here pays one.

use std::sync::Arc;

use countersign_permission::{Hash, InForce, Kind, Pin};

use super::call::{Agent, Authenticated, Base, Call, Ended, Visible, Wanted, Who};
use super::charge::{bucket, charge};
use super::person::may_write;
use crate::catalog::Tool;
use crate::facts::{APPROVAL, DisabledList, Facts, WHOAMI};
use crate::ports::Ports;
use crate::rate::RateState;
use crate::refusal::{Code, Refusal};
use crate::request::{Audience, ReadMethod, Target};
use crate::serve::Open;

pub(super) async fn step(
    facts: &Facts,
    ports: &Ports<'_>,
    mut call: Call<Authenticated>,
) -> Result<Call<Visible>, Ended> {
    if let Who::Public { network } = &call.stage.who {
        let network = network.clone();
        if let Err(refusal) = charge(facts, ports, &mut call.base, &network, 1).await {
            return Err(call.base.counted(refusal, Some(&call.stage.who)));
        }
    }
    match look_up(facts, ports, &call.base, &call.stage.who) {
        Ok(target) => {
            let Call {
                base,
                stage: Authenticated { who },
            } = call;
            Ok(Call {
                base,
                stage: Visible { who, target },
            })
        }
        Err(refusal) => {
            let refusal = match &call.stage.who {
                Who::Public { .. } => refusal,
                Who::Agent(_) | Who::Person(_) => {
                    let bucket = bucket(&call.stage.who);
                    charge(facts, ports, &mut call.base, &bucket, 1)
                        .await
                        .err()
                        .unwrap_or(refusal)
                }
            };
            Err(call.base.counted(refusal, Some(&call.stage.who)))
        }
    }
}

/// A list: one unit, then every tool the look-up would let through.
pub(super) async fn list(
    facts: &Facts,
    ports: &Ports<'_>,
    mut call: Call<Authenticated>,
) -> Result<(Open, Option<RateState>), Ended> {
    let bucket = bucket(&call.stage.who);
    if let Err(refusal) = charge(facts, ports, &mut call.base, &bucket, 1).await {
        return Err(call.base.counted(refusal, Some(&call.stage.who)));
    }
    let server = call.base.request.server.as_deref();
    let mut tools = ports.registry.tools(server);
    tools.retain(|tool| see(facts, &call.stage.who, tool).is_ok());
    let own = if call.stage.who.agent().is_some() {
        vec![super::own::WHOAMI_ITEM, super::approval_tool::APPROVAL_ITEM]
    } else {
        Vec::new()
    };
    Ok((Open { tools, own }, call.base.rate))
}

fn look_up(facts: &Facts, ports: &Ports<'_>, base: &Base, who: &Who) -> Result<Wanted, Refusal> {
    let server = base.request.server.as_deref();
    match &base.request.target {
        Target::Tool(name) if name == WHOAMI && who.agent().is_some() => Ok(Wanted::Whoami),
        Target::Tool(name) if name == APPROVAL && who.agent().is_some() => Ok(Wanted::Approval),
        Target::Tool(name) => {
            let tool = ports
                .registry
                .resolve(server, name)
                .ok_or_else(|| not_found(name))?;
            see(facts, who, &tool)?;
            Ok(Wanted::Tool(tool))
        }
        Target::Method(method) => read_method(facts, who, server, *method),
        Target::Discovery => Err(not_found("tools/list")),
    }
}

/// Whether this caller may see and call this tool. The one rule for calls and lists.
pub(super) fn see(facts: &Facts, who: &Who, tool: &Tool) -> Result<(), Refusal> {
    let audience = match who {
        Who::Agent(_) | Who::Person(_) => Audience::Agent,
        Who::Public { .. } => Audience::Public,
    };
    let unreadable = facts.disabled_tools == DisabledList::Unreadable
        || facts.disabled_servers == DisabledList::Unreadable;
    let listed = || {
        facts.disabled_tools.has(&tool.name)
            || facts
                .disabled_tools
                .has(&format!("{}__{}", tool.server, tool.name))
    };
    let settings = facts.server(&tool.server);
    if unreadable
        || settings.is_none()
        || tool.settings.hidden
        || tool.settings.audience != audience
        || facts.disabled_servers.has(&tool.server)
        || listed()
    {
        return Err(not_found(&tool.name));
    }
    if !settings.is_some_and(|server| server.enabled) {
        return Err(module_disabled(&tool.server));
    }
    let pin = match who {
        Who::Public { .. } => Pin::FirstSeen,
        Who::Person(person) => {
            may_write(facts, person, tool)?;
            Pin::FirstSeen
        }
        Who::Agent(agent) => granted(agent, tool)?,
    };
    pinned(facts, pin, tool)
}

/// The kind a call of this tool is judged by.
pub(super) fn kind(who: &Who, target: &Wanted) -> Kind {
    let Wanted::Tool(tool) = target else {
        return Kind::Read;
    };
    let grant = who
        .agent()
        .and_then(Agent::permission)
        .and_then(|permission| permission.grant(&tool.server, &tool.name));
    grant.map_or(tool.kind, |grant| tool.kind.stricter(grant.kind))
}

pub(super) fn granted(agent: &Agent, tool: &Tool) -> Result<Pin, Refusal> {
    let grant = match agent.permission() {
        Some(permission) if agent.scopes.contains(&*tool.scope) => {
            permission.grant(&tool.server, &tool.name)
        }
        _ => None,
    };
    grant
        .map(|grant| grant.pin)
        .ok_or_else(|| forbidden(agent, &tool.name, &tool.scope))
}

pub(super) fn pinned(facts: &Facts, pin: Pin, tool: &Tool) -> Result<(), Refusal> {
    let expected: Option<Hash> = match pin {
        Pin::Definition(hash) => Some(hash),
        Pin::FirstSeen => facts
            .first_seen
            .get(&*tool.server)
            .and_then(|tools| tools.get(&*tool.name))
            .copied(),
    };
    if expected == Some(tool.definition) {
        return Ok(());
    }
    let sentence = match expected {
        Some(_) => format!(
            "the server changed the definition of `{}` since it was permitted",
            tool.name
        ),
        None => format!("`{}` is new and was not looked at yet", tool.name),
    };
    let next = "Use another tool, or ask the person to look at the change and permit it.";
    Err(Refusal::new(Code::DefinitionChanged, 4, sentence, next).with("tool", (*tool.name).into()))
}

fn read_method(
    facts: &Facts,
    who: &Who,
    server: Option<&str>,
    method: ReadMethod,
) -> Result<Wanted, Refusal> {
    let name = method.name();
    let settings = server
        .and_then(|server| facts.server(server))
        .ok_or_else(|| not_found(name))?;
    let agent = who.agent().ok_or_else(|| not_found(name))?;
    if facts.disabled_servers.has(&settings.name) {
        return Err(not_found(name));
    }
    if !settings.enabled {
        return Err(module_disabled(&settings.name));
    }
    let scope = format!("{}:read", settings.name);
    if !agent.scopes.contains(&scope) {
        return Err(forbidden(agent, name, &scope));
    }
    Ok(Wanted::Method {
        method,
        server: Arc::clone(&settings.name),
    })
}

fn not_found(name: &str) -> Refusal {
    let name: String = name.chars().take(200).collect();
    let next = "List the tools again and use a name from the list.";
    Refusal::new(
        Code::NotFound,
        4,
        format!("there is no tool `{name}`"),
        next,
    )
    .with("tool", name.into())
}

fn module_disabled(server: &str) -> Refusal {
    let next = "Use another server's tools, or ask the person to switch this one on.";
    let sentence = format!("the server `{server}` is switched off");
    Refusal::new(Code::ModuleDisabled, 4, sentence, next).with("server", server.into())
}

fn forbidden(agent: &Agent, name: &str, scope: &str) -> Refusal {
    let (sentence, next) = match &agent.in_force {
        InForce::Nothing(why) => (
            format!("`{name}` is not permitted: {why}"),
            "Ask the person to sign a permission for this agent.",
        ),
        InForce::Granted(permission) => (
            format!(
                "`{name}` needs the scope `{scope}`, which this key does not have {}",
                permission.label()
            ),
            "Use a tool from the list, or ask the person to permit this one.",
        ),
    };
    Refusal::new(Code::Forbidden, 4, sentence.trim_end(), next)
        .with("tool", name.into())
        .with("scope", scope.into())
}
