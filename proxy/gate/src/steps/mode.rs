//! Step 9: how an agent's writes are treated as a whole. `auto` lets on and says nothing; `ask` lets on to be held for the person;
//! `read_only` refuses writes. What `ask` and `read_only` decide is a decision, allows included. Holding is step 11's.

use countersign_permission::{Kind, Mode};
use serde_json::Map;

use super::call::{Agent, Bounded, Call, Ended, Subject, Willing};
use super::ending::policy;
use crate::facts::Facts;
use crate::ports::{DecisionNote, Ports, Verdict};
use crate::refusal::{Code, Refusal};

pub(super) async fn step(
    _: &Facts,
    _: &Ports<'_>,
    call: Call<Bounded>,
) -> Result<Call<Willing>, Ended> {
    let Call {
        base,
        stage: Bounded(mut judged),
    } = call;
    let mode = judged.subject.who.agent().map_or(Mode::Auto, mode_of);
    let rule = match mode {
        Mode::Auto => None,
        Mode::Ask => Some("ask"),
        Mode::ReadOnly if judged.subject.kind == Kind::Write => {
            let refusal = refused(&judged.subject);
            return Err(base.refused(refusal, judged.subject, judged.decisions));
        }
        Mode::ReadOnly => Some("read_only"),
    };
    // A write under `ask` is decided by the person: step 11 holds it and notes that.
    let decided = rule.filter(|_| judged.subject.kind == Kind::Read);
    judged.decisions.extend(decided.map(|rule| DecisionNote {
        gate: "mode",
        rule: rule.to_string(),
        verdict: Verdict::Allow,
        policy: policy(&judged.subject),
        aim: None,
        bounds: Map::new(),
    }));
    Ok(Call {
        base,
        stage: Willing { judged, mode },
    })
}

/// The stricter of what executor.json says now and what the permission says.
fn mode_of(agent: &Agent) -> Mode {
    let strictness = |mode: &Mode| match mode {
        Mode::Auto => 0,
        Mode::Ask => 1,
        Mode::ReadOnly => 2,
    };
    let granted = agent.permission().map(|permission| permission.mode);
    [Some(agent.facts.mode), granted]
        .into_iter()
        .flatten()
        .max_by_key(strictness)
        .unwrap_or(Mode::ReadOnly)
}

fn refused(subject: &Subject) -> Refusal {
    let tool = subject.target.name();
    let sentence = format!("`{tool}` was not run: this agent only reads");
    let next = "Use tools that only read, or ask the person to change this agent's mode.";
    Refusal::new(Code::PermissionDenied, 9, sentence, next)
        .with("rule", "read_only".into())
        .with("tool", tool.into())
}
