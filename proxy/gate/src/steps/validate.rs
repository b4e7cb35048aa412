//! Step 6: size, strict JSON, an object, control fields, `max_items`, the closed schema, and last the permission's limits. From here on
//! a refusal is an entry. What passes is what will be sent: the received bytes without the control fields.

use std::borrow::Cow;

use bytes::Bytes;
use countersign_permission::{
    CallLimits, Permission, Test, ToolGrant, Validation, check_arguments,
};
use serde_json::{Map, json};

use super::call::{
    Base, Call, Control, Ended, ForServer, Judged, Looked, Subject, Validated, Wanted,
};
use super::ending::{policy, stateless};
use super::person::Person;
use crate::catalog::{Mismatch, PLAIN_NAMES, Tool, value_of};
use crate::facts::Facts;
use crate::json::{self as raw, Change};
use crate::ports::{DecisionNote, Ports, UseClaim, Uses, Verdict};
use crate::refusal::{Code, Refusal};

pub(super) async fn step(
    _: &Facts,
    ports: &Ports<'_>,
    call: Call<ForServer>,
) -> Result<Call<Validated>, Ended> {
    let Call {
        base,
        stage: ForServer {
            mut subject,
            arguments,
        },
    } = call;
    let mut decisions = Vec::new();
    let header = base.request.idempotency_header.as_deref();
    let judged = match subject.target.clone() {
        Wanted::Tool(tool) => judge(&tool, &mut subject, arguments, header, &mut decisions),
        Wanted::Method { .. } | Wanted::Whoami | Wanted::Approval => {
            shape_of(subject.target.name(), arguments).map(|()| Control::default())
        }
    };
    let judged = judged.and_then(|control| {
        let kept = subject.who.person().map_or(Ok(()), |person| {
            of_a_session(person, subject.target.name(), &control)
        });
        kept.map(|()| control)
    });
    let control = match judged {
        Ok(control) => control,
        Err(refusal) => return Err(base.refused(refusal, subject, decisions)),
    };
    subject.sent = subject.sent.take().map(|sent| match raw::one_line(&sent) {
        Cow::Borrowed(_) => sent.clone(),
        Cow::Owned(line) => line.into(),
    });
    let left = match claim(&base, &subject) {
        Some(claim) => ports.store.uses_left(claim).await,
        None => Ok(Uses::Allowed),
    };
    match left {
        Ok(Uses::Allowed) => Ok(Call {
            base,
            stage: Validated(Judged {
                subject,
                control,
                decisions,
            }),
        }),
        Ok(used) => Err(base.refused(
            outside_uses(6, subject.target.name(), used),
            subject,
            decisions,
        )),
        Err(error) => Err(base.refused(stateless(6, &error), subject, decisions)),
    }
}

/// The use this call would count, where its tool is limited.
pub(super) fn claim<'a>(base: &'a Base, subject: &'a Subject) -> Option<UseClaim<'a>> {
    let Wanted::Tool(tool) = &subject.target else {
        return None;
    };
    let agent = subject.who.agent()?;
    let permission = agent.permission()?;
    let limits = stricter(
        permission.grant(&tool.server, &tool.name)?.limits,
        tool.settings.limits,
    );
    (!limits.is_unlimited()).then(|| UseClaim {
        permission: &permission.document,
        development: permission.authority == countersign_permission::Authority::Development,
        agent: &agent.facts.name,
        server: &tool.server,
        tool: &tool.name,
        call_id: &base.request.call_id,
        limits,
        now: base.arrived,
    })
}

/// Outside `max_calls` or a rate.
pub(super) fn outside_uses(step: u8, tool: &str, used: Uses) -> Refusal {
    let (limit, next) = match used {
        Uses::Rate { free_at } => (
            "rate",
            format!("Wait until {free_at}, then make the call again."),
        ),
        Uses::MaxCalls | Uses::Allowed => (
            "max_calls",
            "Ask the person for a new permission; this one's calls are used up.".to_string(),
        ),
    };
    let sentence =
        format!("`{tool}` has no call left under the permission: its `{limit}` is reached");
    Refusal::new(Code::OutsidePermission, step, sentence, next)
        .with("rule", limit.into())
        .with("limit", limit.into())
        .with("tool", tool.into())
}

fn judge(
    tool: &Tool,
    subject: &mut Subject,
    arguments: Looked,
    header: Option<&str>,
    decisions: &mut Vec<DecisionNote>,
) -> Result<Control, Refusal> {
    if arguments == Looked::TooLarge {
        let limit = tool.settings.max_bytes;
        let sentence = format!(
            "the arguments of `{}` are larger than {limit} bytes",
            tool.name
        );
        let next = "Split the work into smaller calls.";
        return Err(Refusal::new(Code::TooLarge, 6, sentence, next).with("max_bytes", limit.into()));
    }
    shape_of(&tool.name, arguments)?;
    let received = subject
        .received
        .clone()
        .filter(|_| arguments == Looked::Object);
    let text = received
        .clone()
        .unwrap_or_else(|| Bytes::from_static(b"{}"));
    let text = with_header(tool, subject, text, header)?;
    let control = control_fields(tool, &text)?;
    if let Some(most) = tool.settings.max_items.filter(|most| subject.rows > *most) {
        let message = format!(
            "a list of {} items, more than `max_items` {most}",
            subject.rows
        );
        let mismatch = Mismatch {
            pointer: longest(&text),
            message,
        };
        return Err(invalid(&tool.name, &[mismatch]).with("rule", "max_items".into()));
    }
    let changes: Vec<_> = tool.control.names().map(Change::Remove).collect();
    let has_control = control != Control::default()
        || tool
            .control
            .names()
            .any(|name| raw::member(&text, name).is_some());
    let stripped: Bytes = if has_control {
        raw::edit(&text, &changes).into()
    } else {
        text.clone()
    };
    let mut mismatches = tool.schema.mismatches(&text);
    if mismatches.is_empty() && has_control {
        mismatches = tool.bare.mismatches(&stripped);
    }
    if !mismatches.is_empty() {
        let refusal = invalid(&tool.name, &mismatches).with("rule", "schema".into());
        if tool.settings.validation == Validation::Strict {
            return Err(refusal);
        }
        decisions.push(DecisionNote {
            gate: "validate",
            rule: "schema_warn".to_string(),
            verdict: Verdict::Allow,
            policy: policy(subject),
            aim: mismatches.first().map(|first| first.pointer.clone()),
            bounds: Map::new(),
        });
    }
    within_limits(tool, subject, &stripped)?;
    if has_control {
        subject.sent = Some(stripped);
    }
    Ok(control)
}

/// An object, or nothing at all.
fn shape_of(name: &str, arguments: Looked) -> Result<(), Refusal> {
    let message = match arguments {
        Looked::None | Looked::Object => return Ok(()),
        Looked::Other => "arguments are an object, `null`, or left out".to_string(),
        Looked::Broken(fault) => format!("not strict JSON: {fault}"),
        Looked::TooLarge => {
            let sentence = format!("the params of `{name}` are too large");
            return Err(Refusal::new(
                Code::TooLarge,
                6,
                sentence,
                "Ask for less in one request.",
            ));
        }
    };
    Err(invalid(
        name,
        &[Mismatch {
            pointer: String::new(),
            message,
        }],
    )
    .with("rule", "json".into()))
}

/// REST: the header of a write is the field, before anything is judged.
fn with_header(
    tool: &Tool,
    subject: &Subject,
    text: Bytes,
    header: Option<&str>,
) -> Result<Bytes, Refusal> {
    let (Some(header), countersign_permission::Kind::Write) = (header, subject.kind) else {
        return Ok(text);
    };
    let name = tool.control.idempotency_key.unwrap_or("idempotency_key");
    match raw::member(&text, name) {
        None => {
            let literal = serde_json::Value::from(header).to_string();
            Ok(raw::edit(&text, &[Change::Set(name, literal.as_bytes())]).into())
        }
        Some(literal) if raw::decode(literal).is_some_and(|field| field == header) => Ok(text),
        Some(_) => {
            let message = "differs from the `Idempotency-Key` header".to_string();
            Err(invalid(
                &tool.name,
                &[Mismatch {
                    pointer: format!("/{name}"),
                    message,
                }],
            ))
        }
    }
}

/// Reads the control fields. A malformed one, or one this tool does not take, is refused whatever the settings relax.
fn control_fields(tool: &Tool, text: &[u8]) -> Result<Control, Refusal> {
    let mut control = Control::default();
    let mut faults = Vec::new();
    for member in raw::members(text) {
        let Some(field) = PLAIN_NAMES.iter().position(|plain| {
            member.name == *plain
                || member
                    .name
                    .strip_prefix("countersign_")
                    .is_some_and(|rest| rest == *plain)
        }) else {
            continue;
        };
        let taken = [
            tool.control.dry_run,
            tool.control.confirm_token,
            tool.control.idempotency_key,
        ][field];
        let fault = if taken != Some(&*member.name) {
            if declares(tool, &member.name) {
                continue;
            }
            "this tool does not take it"
        } else if !well_formed(field, member.value) {
            [
                "true or false",
                "a text of 1 to 128 characters",
                "1 to 255 visible ASCII characters",
            ][field]
        } else {
            match field {
                0 => control.dry_run = member.value == b"true",
                1 => control.confirm_token = raw::decode(member.value).map(Cow::into_owned),
                _ => control.idempotency_key = raw::decode(member.value).map(Into::into),
            }
            continue;
        };
        faults.push(Mismatch {
            pointer: format!("/{}", member.name),
            message: fault.to_string(),
        });
    }
    if faults.is_empty() {
        Ok(control)
    } else {
        Err(invalid(&tool.name, &faults).with("rule", "control_field".into()))
    }
}

/// A session never brings a code, and redeems without any control field.
fn of_a_session(person: &Person, tool: &str, control: &Control) -> Result<(), Refusal> {
    let brought = [
        (control.confirm_token.is_some(), "/confirm_token"),
        (control.dry_run, "/dry_run"),
        (control.idempotency_key.is_some(), "/idempotency_key"),
    ];
    let taken = if person.used.redeems.is_some() { 0 } else { 2 };
    let faults: Vec<Mismatch> = brought
        .iter()
        .take(3 - taken)
        .filter(|(brought, _)| *brought)
        .map(|(_, pointer)| Mismatch {
            pointer: (*pointer).to_string(),
            message: "a person's session does not take it here".to_string(),
        })
        .collect();
    if faults.is_empty() {
        return Ok(());
    }
    Err(invalid(tool, &faults).with("rule", "control_field".into()))
}

fn well_formed(field: usize, value: &[u8]) -> bool {
    let text = raw::decode(value);
    match field {
        0 => value == b"true" || value == b"false",
        1 => text.is_some_and(|text| (1..=128).contains(&text.chars().count())),
        _ => text.is_some_and(|text| {
            (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        }),
    }
}

/// Whether the server's own schema has a property of that name.
fn declares(tool: &Tool, name: &str) -> bool {
    raw::member(tool.bare.text(), "properties")
        .is_some_and(|properties| raw::member(properties, name).is_some())
}

fn within_limits(tool: &Tool, subject: &Subject, stripped: &[u8]) -> Result<(), Refusal> {
    let permission = subject.who.agent().and_then(|agent| agent.permission());
    let grant = permission.and_then(|permission: &std::sync::Arc<Permission>| {
        permission.grant(&tool.server, &tool.name)
    });
    let granted = grant
        .map(|grant: &ToolGrant| grant.arguments.as_slice())
        .unwrap_or_default();
    let set = tool.settings.arguments.as_slice();
    let set = if set == granted { &[] } else { set };
    let limits = || granted.iter().chain(set);
    if limits().next().is_none() {
        return Ok(());
    }
    let outside = |pointer: &str, limit: &str| {
        let sentence = format!(
            "the argument at `{pointer}` of `{}` is outside the permission: {limit}",
            tool.name
        );
        Refusal::new(
            Code::OutsidePermission,
            6,
            sentence,
            "Call it with arguments inside the limit, or ask the person.",
        )
        .with("rule", "argument_limit".into())
        .with("pointer", pointer.into())
        .with("limit", limit.into())
        .with("tool", (*tool.name).into())
    };
    let on_path = limits().find(|limit| {
        matches!(limit.test, Test::Prefix(_))
            && tool
                .settings
                .paths
                .iter()
                .any(|path| path.pointer == limit.pointer)
    });
    if let Some(limit) = on_path {
        return Err(outside(
            &limit.pointer,
            "prefix of a path, which this version cannot resolve yet",
        ));
    }
    let (value, exact) =
        value_of(stripped).map_err(|fault| outside(&fault.pointer, &fault.message))?;
    if !exact {
        return Err(outside(
            "",
            "a number with more digits than can be judged exactly",
        ));
    }
    for list in [granted, set] {
        check_arguments(list, &value).map_err(|fault| outside(&fault.pointer, &fault.limit))?;
    }
    Ok(())
}

fn stricter(granted: CallLimits, set: CallLimits) -> CallLimits {
    let max_calls = match (granted.max_calls, set.max_calls) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    let rate = match (granted.rate, set.rate) {
        (Some(a), Some(b)) => {
            let slower = u64::from(a.max) * u64::from(b.per_seconds)
                <= u64::from(b.max) * u64::from(a.per_seconds);
            Some(if slower { a } else { b })
        }
        (a, b) => a.or(b),
    };
    CallLimits { max_calls, rate }
}

fn longest(object: &[u8]) -> String {
    let count = |value: &[u8]| raw::elements(value).count();
    let longest = raw::members(object).max_by_key(|member| count(member.value));
    longest
        .map(|member| format!("/{}", member.name.replace('~', "~0").replace('/', "~1")))
        .unwrap_or_default()
}

fn invalid(tool: &str, mismatches: &[Mismatch]) -> Refusal {
    let first = mismatches
        .first()
        .map(|first| format!(": at `{}` {}", first.pointer, first.message))
        .unwrap_or_default();
    let sentence = format!("the arguments of `{tool}` are not valid{first}");
    let errors: Vec<_> = mismatches.iter().map(Mismatch::document).collect();
    Refusal::new(
        Code::ValidationFailed,
        6,
        sentence,
        "Correct the arguments by the tool's inputSchema and call again.",
    )
    .with("tool", tool.into())
    .with("errors", json!(errors))
}
