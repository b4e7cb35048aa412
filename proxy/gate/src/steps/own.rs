//! The executor's own tools: they describe the calling key, need no scope, pay one unit, and answer here.

use std::collections::BTreeSet;

use countersign_permission::InForce;
use serde_json::{Value, json};

use super::approval_tool;
use super::call::{Agent, Call, Charged, Ended, ForServer, How, Looked, Subject, Wanted};
use super::visible::see;
use crate::answer::Finished;
use crate::facts::{Facts, WHOAMI};
use crate::json::member;
use crate::ports::Ports;
use crate::refusal::{Code, Refusal};

/// `countersign_whoami` as a `tools/list` item.
pub(super) const WHOAMI_ITEM: &str = r#"{"name":"countersign_whoami","title":"What may I do here?","description":"Describes the calling key: agent, scopes, permission, open tools, expiry and how much of the rate limit is left.","inputSchema":{"type":"object","properties":{},"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#;

pub(super) async fn step(
    facts: &Facts,
    ports: &Ports<'_>,
    call: Call<Charged>,
) -> Result<Call<ForServer>, Ended> {
    let Call {
        base,
        stage: Charged { subject, arguments },
    } = call;
    if let (Wanted::Approval, Some(agent)) = (&subject.target, subject.who.agent()) {
        let given = subject
            .received
            .as_deref()
            .filter(|_| arguments == Looked::Object);
        return Err(match approval_tool::answer(ports, agent, given).await {
            Ok(how) => Ended { base, how },
            Err(refusal) => base.counted(refusal, Some(&subject.who)),
        });
    }
    let (Wanted::Whoami, Some(agent)) = (&subject.target, subject.who.agent()) else {
        return Ok(Call {
            base,
            stage: ForServer { subject, arguments },
        });
    };
    if !is_empty(&subject, arguments) {
        let next = "Call it again without arguments.";
        let refusal = Refusal::new(
            Code::ValidationFailed,
            5,
            format!("`{WHOAMI}` takes no arguments"),
            next,
        );
        let errors = json!([{"pointer": "", "message": "only an empty object is taken"}]);
        let who = subject.who.clone();
        return Err(base.counted(refusal.with("errors", errors), Some(&who)));
    }
    let mut document = describe(
        facts,
        ports,
        base.request.server.as_deref(),
        agent,
        &subject,
    );
    if let Some(rate) = &base.rate {
        document["rate"] = rate.meta();
    }
    let document = document.to_string();
    let finished = Finished {
        text: document.clone(),
        document,
        status: 200,
    };
    Err(Ended {
        base,
        how: How::Own { finished },
    })
}

fn is_empty(subject: &Subject, arguments: Looked) -> bool {
    match arguments {
        Looked::None => true,
        Looked::Object => {
            let raw = subject.received.as_deref().unwrap_or_default();
            member(raw, "").is_none() && crate::json::members(raw).next().is_none()
        }
        Looked::Other | Looked::Broken(_) | Looked::TooLarge => false,
    }
}

fn describe(
    facts: &Facts,
    ports: &Ports<'_>,
    server: Option<&str>,
    agent: &Agent,
    subject: &Subject,
) -> Value {
    let open: Vec<_> = ports
        .registry
        .tools(server)
        .into_iter()
        .filter(|tool| see(facts, &subject.who, tool).is_ok())
        .collect();
    let servers: BTreeSet<&str> = open.iter().map(|tool| &*tool.server).collect();
    let tools: Vec<Value> = open
        .iter()
        .map(|tool| json!({"server": &*tool.server, "name": &*tool.name, "kind": tool.kind, "scope": &*tool.scope}))
        .collect();
    let permission = match &agent.in_force {
        InForce::Granted(permission) => json!({
            "in_force": true, "label": permission.label(), "hash": permission.document.to_string(),
            "expires_at": permission.expires_at.map(|at| at.to_string()),
        }),
        InForce::Nothing(why) => json!({"in_force": false, "reason": why.to_string()}),
    };
    json!({
        "executor": facts.executor.name, "agent": agent.facts.name, "key": agent.facts.key_prefix,
        "scopes": agent.scopes, "mode": agent.facts.mode, "permission": permission,
        "workspace": agent.facts.workspace, "write_policy": agent.facts.write_policy.as_ref().map(|policy| policy.metadata()),
        "expires_at": agent.expires_at.map(|at| at.to_string()), "servers": servers, "tools": tools,
    })
}
