//! Step 8: an agent's writes stay within its policy, and its second denied write ends its turn. Joins a call to [`crate::turn::bounded`],
//! which judges and counts, and writes the paths out as they were judged. A person's and a public caller's calls pass.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::call::{Bounded, Call, Denied, Ended, Protected, Subject, Wanted};
use super::protect::{cwd, declared};
use crate::bound::object;
use crate::catalog::Tool;
use crate::facts::{AgentFacts, Facts};
use crate::json::{at_pointer, replace};
use crate::paths::{Place, Written, steps_of};
use crate::policy::{Judge, Judged};
use crate::ports::{DecisionNote, Ports, StoreError};
use crate::refusal::{Code, Refusal};
use crate::turn::{Case, Passed, bounded, over};

pub(super) async fn step(
    facts: &Facts,
    ports: &Ports<'_>,
    call: Call<Protected>,
) -> Result<Call<Bounded>, Ended> {
    let Call {
        base,
        stage: Protected(mut judged),
    } = call;
    let Some(agent) = judged.subject.who.agent() else {
        return Ok(Call {
            base,
            stage: Bounded(judged),
        });
    };
    let agent = Arc::clone(&agent.facts);
    let subject = &judged.subject;
    let arguments = object(subject.sent.as_deref());
    let case = Case {
        agent: &agent.name,
        call_id: &base.request.call_id,
        tool: subject.target.name(),
        idle_minutes: agent.turn_idle_minutes,
        now: ports.clock.now(),
        judge: judge(ports, &agent, subject),
        arguments,
    };
    let bounded = match bounded(case, ports.turns).await {
        Ok(bounded) => bounded,
        Err(error) => {
            let refusal = uncounted(8, &error);
            return Err(base.refused(refusal, judged.subject, judged.decisions));
        }
    };
    let rewritten = match (&bounded.verdict, &subject.target) {
        (Passed::On { judged: paths, .. }, Wanted::Tool(tool)) => {
            written_out(ports, tool, arguments, paths, cwd(facts, subject))
        }
        _ => Ok(None),
    };
    let subject = &mut judged.subject;
    subject.turn = Some(bounded.turn);
    subject.moved = bounded.facts;
    match bounded.verdict {
        Passed::On { decision, .. } => {
            judged.decisions.extend(decision);
            match rewritten {
                Ok(rewritten) => judged.subject.rewritten = rewritten,
                Err(refusal) => {
                    let denial = Denied::Malformed;
                    return Err(base.denied(*refusal, judged.subject, judged.decisions, denial));
                }
            }
        }
        Passed::Refused { refusal, decision } => {
            let denial = decision.map_or(Denied::Malformed, |one| Denied::As(Box::new(one)));
            return Err(base.denied(*refusal, judged.subject, judged.decisions, denial));
        }
    }
    Ok(Call {
        base,
        stage: Bounded(judged),
    })
}

/// Why a call that passed this step before may not be sent any more: its turn was ended while it was held.
///
/// # Errors
/// When the turn cannot be read: then it may not be sent either.
pub(super) async fn ended_meanwhile(
    ports: &Ports<'_>,
    subject: &Subject,
) -> Result<Option<(Refusal, DecisionNote)>, StoreError> {
    let Some(agent) = subject.who.agent() else {
        return Ok(None);
    };
    let turn = ports.turns.show(&agent.facts.name).await?;
    Ok(turn
        .filter(crate::turn::Turn::is_latched)
        .map(|turn| over(&agent.facts.name, subject.target.name(), &turn)))
}

/// The record of turns cannot be used: nothing may be sent, since nobody could count.
pub(super) fn uncounted(step: u8, error: &StoreError) -> Refusal {
    let why = error.why;
    let sentence = format!("the record of turns cannot be used: {why}; the call was not forwarded");
    let next = format!("Try once more; if it happens again, tell the person: {why}.");
    Refusal::new(Code::RecordUnavailable, step, sentence, next).because(error.to_string())
}

fn judge<'a>(ports: &Ports<'a>, agent: &'a AgentFacts, subject: &'a Subject) -> Option<Judge<'a>> {
    let policy = agent.write_policy.as_deref()?;
    Some(Judge {
        files: ports.files,
        policy,
        workspace: agent.workspace.as_deref().unwrap_or_default(),
        tool: subject.target.name(),
        kind: subject.kind,
        declared: declared(subject),
    })
}

/// The arguments with each judged path as the absolute one it was judged by, so that the server takes it for no other. Nothing where they
/// stand so already. Where the tool's schema takes no absolute path, the path stays as it is if it means the same to the server.
fn written_out(
    ports: &Ports<'_>,
    tool: &Tool,
    arguments: &[u8],
    paths: &[Judged],
    cwd: Option<&str>,
) -> Result<Option<Bytes>, Box<Refusal>> {
    let values: Vec<(&str, Vec<u8>)> = paths
        .iter()
        .filter(|path| at_pointer(arguments.trim_ascii(), &path.pointer).is_some())
        .map(|path| (path.pointer.as_str(), literal(&path.absolute)))
        .collect();
    let out = replace(arguments, &values);
    if out == arguments {
        return Ok(None);
    }
    let fits = tool.bare.mismatches(&out).is_empty();
    if fits || !tool.bare.mismatches(arguments).is_empty() {
        return Ok(Some(out.into()));
    }
    let same = |path: &&Judged| {
        let base = cwd.and_then(|cwd| Place::parse(cwd, ports.files.style()));
        base.is_some_and(|base| {
            let Written { root, mut steps } = base.written();
            steps.extend(steps_of(&path.requested, ports.files.style()));
            Written { root, steps }.lexical().text() == path.absolute
        })
    };
    match paths.iter().find(|path| !same(path)) {
        None => Ok(None),
        Some(path) => Err(Box::new(elsewhere(tool, path))),
    }
}

fn literal(text: &str) -> Vec<u8> {
    Value::from(text).to_string().into_bytes()
}

fn elsewhere(tool: &Tool, path: &Judged) -> Refusal {
    let sentence = format!(
        "`{}` was not run: it takes no absolute path at `{}`, and its server works in another folder than the agent's workspace, so the \
         path would mean another file",
        tool.name, path.pointer
    );
    let next = "Use another tool for this file, or ask the person to set the server's `cwd` in executor.json to the workspace. This does not count against you.";
    let message = "means another file to the server than in the workspace";
    Refusal::new(Code::ValidationFailed, 8, sentence, next)
        .with(
            "errors",
            json!([{"pointer": path.pointer, "message": message}]),
        )
        .with("tool", (*tool.name).into())
}
