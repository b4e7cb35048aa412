//! Step 8 whole: the latch, the policy's verdict, the count, and the answer. What is recorded is handed to the caller.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::port::{StrikeClaim, Turns};
use super::state::{Counted, Turn, TurnFact};
use crate::paths::shown;
use crate::policy::{Denial, GATE, Judge, Judged, Judgement};
use crate::ports::{DecisionNote, StoreError, Verdict};
use crate::refusal::{Code, Refusal};

/// The gate of decisions that a latched turn makes; never part of `write_denials`.
pub const TURN_GATE: &str = "turn";

/// One call at step 8.
pub struct Case<'a> {
    /// Whose.
    pub agent: &'a str,
    /// Its id in the book.
    pub call_id: &'a str,
    /// The tool as the server names it, or the method.
    pub tool: &'a str,
    /// After how many idle minutes a turn without a strike ends; 0 never.
    pub idle_minutes: u32,
    /// Now.
    pub now: Timestamp,
    /// The agent's policy on this call; `None` where it has none.
    pub judge: Option<Judge<'a>>,
    /// Checked arguments.
    pub arguments: &'a [u8],
}

/// What step 8 comes to, with the turn's facts to record first.
#[derive(Debug, PartialEq)]
pub struct Bounded {
    /// The turn's number, for the call's entry.
    pub turn: u64,
    /// To be recorded, in order.
    pub facts: Vec<TurnFact>,
    /// The verdict.
    pub verdict: Passed,
}

/// Whether the call goes on.
#[derive(Debug, PartialEq)]
pub enum Passed {
    /// It does.
    On {
        /// The decision of a bounded write; none for a read or without a policy.
        decision: Option<DecisionNote>,
        /// The paths as they were judged.
        judged: Vec<Judged>,
    },
    /// It does not.
    Refused {
        /// The answer.
        refusal: Box<Refusal>,
        /// Its decision, in place of the one made from the refusal; `None` for a malformed call.
        decision: Option<DecisionNote>,
    },
}

/// Judges and counts.
///
/// # Errors
/// When the turn cannot be read or the strike not be counted: then nothing may be forwarded.
pub async fn bounded(case: Case<'_>, turns: &dyn Turns) -> Result<Bounded, StoreError> {
    let stands = turns
        .arrive(case.agent, case.idle_minutes, case.now)
        .await?;
    let turn = stands.turn.number;
    let done = |facts, verdict| {
        Ok(Bounded {
            turn,
            facts,
            verdict,
        })
    };
    if stands.turn.is_latched() {
        return done(stands.facts, latched(&case, &stands.turn));
    }
    let Some(judge) = &case.judge else {
        return done(stands.facts, on(None, Vec::new()));
    };
    let denial = match judge.judge(case.arguments) {
        Judgement::NotBounded => return done(stands.facts, on(None, Vec::new())),
        Judgement::Allowed(judged) => {
            let decision = allowed(judge, &judged);
            return done(stands.facts, on(Some(decision), judged));
        }
        Judgement::Malformed { pointer, message } => {
            let verdict = malformed(case.tool, &pointer, message);
            return done(stands.facts, verdict);
        }
        Judgement::Denied(denial) => denial,
    };
    if !denial.strikes() {
        return done(stands.facts, refused(denial.refusal(), &denial));
    }
    let mut kept = denial.facts();
    kept.insert("why".to_string(), denial.why().into());
    let claim = StrikeClaim {
        agent: case.agent,
        call_id: case.call_id,
        facts: &kept,
        now: case.now,
    };
    let struck = turns.strike(claim).await?;
    let mut facts = stands.facts;
    facts.extend(struck.stands.facts);
    let verdict = match struck.counted {
        Counted::First => refused(denial.refusal(), &denial),
        Counted::Second => {
            let why = format!(
                "{}, and this was the second refusal of this kind in this turn, so the turn is over",
                denial.why()
            );
            refused(
                terminated((case.agent, case.tool), &why, &struck.stands.turn),
                &denial,
            )
        }
        Counted::Latched => latched(&case, &struck.stands.turn),
    };
    Ok(Bounded {
        turn: struck.stands.turn.number,
        facts,
        verdict,
    })
}

/// `turn_terminated`, with the second denial and both calls.
fn terminated((agent, tool): (&str, &str), why: &str, turn: &Turn) -> Refusal {
    let calls: Vec<Value> = turn
        .strikes
        .iter()
        .map(|strike| strike.call_id.clone().into())
        .collect();
    let mut second = turn
        .strikes
        .last()
        .map(|strike| strike.facts.clone())
        .unwrap_or_default();
    second.remove("why");
    let sentence = format!(
        "`{tool}` was not run: {why}. Nothing was changed, and no call of yours, reads included, is run until the person opens a new turn."
    );
    let stop = "Stop calling tools now. Tell the person what you tried to write both times, why, and which paths you would need.";
    let mut refusal = Refusal::new(Code::TurnTerminated, 8, sentence, stop)
        .with("turn", turn.number.into())
        .with("strikes", calls.into())
        .with("denial", Value::Object(second))
        .with("actions", json!(["stop", "ask_person_to_open_a_new_turn"]));
    refusal.next_actions.push(format!(
        "Only the person can let you go on: with `let it go on` in the app, or with `countersign turn open --agent {}`.",
        agent
    ));
    refusal
}

/// The answer and the decision of every call of an agent whose turn is latched.
#[must_use]
pub fn over(agent: &str, tool: &str, turn: &Turn) -> (Refusal, DecisionNote) {
    let second = turn
        .strikes
        .last()
        .and_then(|strike| strike.facts.get("why"));
    let second = second
        .and_then(Value::as_str)
        .unwrap_or("a write was outside the policy");
    let why =
        format!("this turn is over since two writes were refused in it (the second: {second})");
    let decision = DecisionNote {
        gate: TURN_GATE,
        rule: Code::TurnTerminated.text().to_string(),
        verdict: Verdict::Deny,
        policy: None,
        aim: Some(shown(tool)),
        bounds: Map::new(),
    };
    (terminated((agent, tool), &why, turn), decision)
}

fn latched(case: &Case<'_>, turn: &Turn) -> Passed {
    let (refusal, decision) = over(case.agent, case.tool, turn);
    Passed::Refused {
        refusal: Box::new(refusal),
        decision: Some(decision),
    }
}

fn malformed(tool: &str, pointer: &str, message: &str) -> Passed {
    let refusal = Refusal::new(
        Code::ValidationFailed,
        8,
        format!("`{tool}` was not run: `{pointer}` {message}."),
        "Give that argument and call again. This does not count against you.",
    );
    Passed::Refused {
        refusal: Box::new(
            refusal.with("errors", json!([{"pointer": pointer, "message": message}])),
        ),
        decision: None,
    }
}

fn refused(refusal: Refusal, denial: &Denial) -> Passed {
    Passed::Refused {
        refusal: Box::new(refusal),
        decision: Some(denial.note()),
    }
}

fn on(decision: Option<DecisionNote>, judged: Vec<Judged>) -> Passed {
    Passed::On { decision, judged }
}

fn allowed(judge: &Judge<'_>, judged: &[Judged]) -> DecisionNote {
    let first = judged.first();
    DecisionNote {
        gate: GATE,
        rule: "allow_match".to_string(),
        verdict: Verdict::Allow,
        policy: Some(judge.policy.hash()),
        aim: first.map(|path| shown(&path.requested)),
        bounds: crate::policy::allowed_facts(judge, judged),
    }
}
