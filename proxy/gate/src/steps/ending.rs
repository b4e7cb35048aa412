//! What an early end owes: a count before step 6, entries from it on. The answer stays what it was.

use std::sync::Arc;
use std::time::Duration;

use countersign_permission::Hash;
use jiff::Timestamp;
use serde_json::Map;

use super::call::{Base, Denied, Ended, How, Subject, Wanted};
use crate::answer::{Answer, Outcome};
use crate::ports::{
    BookError, CallNote, CountedRefusal, DecisionNote, Durability, Ended as CallEnd, Links, Note,
    OutcomeNote, PersonNote, Ports, StoreError, Verdict,
};
use crate::refusal::{Code, Refusal};

/// Writes what is owed and makes the answer.
pub(super) async fn settle(ports: &Ports<'_>, ended: Ended) -> Answer {
    let Ended { base, how } = ended;
    let mut replayed = false;
    let outcome = match how {
        How::Counted { refusal, agent } => {
            let counted = CountedRefusal {
                agent: agent.as_deref(),
                code: refusal.code,
                at: base.arrived,
            };
            let note = ports.store.count_refusal(counted).await;
            Outcome::Refused(Box::new(with_detail(
                refusal,
                note.err().map(|error| error.to_string()),
            )))
        }
        How::Plain { refusal } => Outcome::Refused(Box::new(refusal)),
        How::Own { finished } => Outcome::Finished(finished),
        How::Replayed { outcome } => {
            replayed = true;
            outcome
        }
        How::Refused {
            refusal,
            subject,
            mut decisions,
            denial,
        } => {
            match denial {
                Denied::Plain => decisions.push(as_said(&refusal, &subject)),
                Denied::As(decision) => decisions.push(*decision),
                Denied::Malformed => {}
            }
            let end = (CallEnd::Refused, Some(refusal.code));
            let written = write(ports, &base, &subject, decisions, end).await;
            let failed = written.err().map(|error| error.to_string());
            Outcome::Refused(Box::new(with_detail(refusal, failed)))
        }
        How::Finished {
            finished,
            subject,
            decisions,
            ended,
            replayed: again,
        } => match write(ports, &base, &subject, decisions, (ended, None)).await {
            Ok(()) => {
                replayed = again;
                Outcome::Finished(finished)
            }
            Err(error) => Outcome::Refused(Box::new(unrecorded(12, &error))),
        },
    };
    Answer {
        request_id: base.request.request_id,
        outcome,
        rate: base.rate,
        replayed,
    }
}

/// The `call` entry of a subject.
pub(super) fn call_note(base: &Base, subject: &Subject) -> CallNote {
    let agent = subject.who.agent();
    let (server, definition) = match &subject.target {
        Wanted::Tool(tool) => (tool.server.to_string(), Some(tool.definition)),
        Wanted::Method { server, .. } => (server.to_string(), None),
        Wanted::Whoami | Wanted::Approval => (String::new(), None),
    };
    CallNote {
        call_id: base.request.call_id.clone(),
        request_id: base.request.request_id.clone(),
        at: base.arrived,
        agent: agent.map(|agent| agent.facts.name.clone()),
        person: subject.who.person().map(|person| PersonNote {
            person: Arc::clone(&person.id),
            session: Arc::clone(&person.session),
            via: Arc::clone(person.used.via.text()),
        }),
        key_prefix: agent.map(|agent| agent.facts.key_prefix.clone()),
        via: base.request.via,
        client: base.request.client.clone(),
        server,
        tool: subject.target.name().to_string(),
        kind: subject.kind,
        definition,
        permission: policy(subject),
        purpose: base.purpose,
        links: Links::default(),
        rows: subject.rows,
        turn: subject.turn,
        received: subject.sent.clone(),
        sent: subject.rewritten.clone(),
    }
}

/// The document decisions are made under.
pub(super) fn policy(subject: &Subject) -> Option<Hash> {
    subject
        .who
        .agent()
        .and_then(|agent| agent.permission())
        .map(|permission| permission.document)
}

/// A rule that this version cannot hold a call for, so the call is refused.
pub(super) fn cannot_hold(step: u8, tool: &str, rule: &str, why: &str) -> Refusal {
    let sentence =
        format!("`{tool}` was not run: {why}, and this version cannot hold a call for that yet");
    let next = "Ask the person to make this change themselves, or to change the setting.";
    Refusal::new(Code::PermissionDenied, step, sentence, next)
        .with("rule", rule.into())
        .with("tool", tool.into())
}

/// The book cannot take the entry: nothing was forwarded. A state that lasts until a person acts is named.
pub(super) fn unrecorded(step: u8, error: &BookError) -> Refusal {
    let Some(held) = error.held else {
        let why = error.why;
        return Refusal::new(
            Code::RecordUnavailable,
            step,
            format!("the record cannot be written: {why}; the call was not forwarded"),
            format!("Tell the person that the record cannot be written ({why}); the same call can be tried again once that is repaired."),
        )
        .because(error.to_string());
    };
    let (code, next) = if held.restart {
        (
            Code::RestartRequired,
            "Tell the person to restart their client with the newer version; calling again does not help before that.",
        )
    } else {
        (
            Code::RecordUnavailable,
            "Tell the person to run `countersign book status`, which says what it means and what to do; calling again does not \
             help before that.",
        )
    };
    let sentence = format!(
        "the record cannot be written ({}: {}), so the call was not forwarded",
        held.state, held.sentence
    );
    Refusal::new(code, step, sentence, next)
        .with("book", held.state.into())
        .because(error.to_string())
}

/// The store cannot answer: nothing was forwarded.
pub(super) fn stateless(step: u8, error: &StoreError) -> Refusal {
    let why = error.why;
    Refusal::new(
        Code::InternalError,
        step,
        format!("the executor's state cannot be used: {why}; the call was not forwarded"),
        format!("Try once more; if it happens again, tell the person: {why}."),
    )
    .because(error.to_string())
}

/// Ours, generic; the detail is for the log.
pub(super) fn broken(step: u8, detail: impl Into<String>) -> Refusal {
    let next = "Try once more; if it happens again, tell the person.";
    Refusal::new(
        Code::InternalError,
        step,
        "something failed inside the executor",
        next,
    )
    .because(detail)
}

/// Writes a call down. What happened to its turn and what a write policy said of it is on disk when this returns; the former is then
/// owed by nobody.
pub(super) async fn write_down(ports: &Ports<'_>, mut note: Note) -> Result<(), BookError> {
    let bounded = note
        .decisions
        .iter()
        .any(|decision| !decision.bounds.is_empty());
    if bounded || !note.turns.is_empty() {
        note.durability = Durability::Strict;
    }
    let moved = note.turns.clone();
    ports.book.note(note).await?;
    if !moved.is_empty() {
        // Where this fails they are looked for in the book before anybody writes them again.
        let _ = ports.turns.recorded(&moved).await;
    }
    Ok(())
}

/// From `from` to `to`, never negative.
pub(super) fn span(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}

async fn write(
    ports: &Ports<'_>,
    base: &Base,
    subject: &Subject,
    decisions: Vec<DecisionNote>,
    (ended, code): (CallEnd, Option<Code>),
) -> Result<(), BookError> {
    let at = ports.clock.now();
    let outcome = OutcomeNote {
        call_id: base.request.call_id.clone(),
        at,
        ended,
        code,
        result: None,
        duration: span(base.arrived, at),
        links: subject.links.clone(),
    };
    let note = Note {
        call: call_note(base, subject),
        turns: subject.moved.clone(),
        decisions,
        outcome: Some(outcome),
        durability: Durability::Batched,
    };
    write_down(ports, note).await
}

fn as_said(refusal: &Refusal, subject: &Subject) -> DecisionNote {
    let step = super::STEPS
        .iter()
        .rfind(|step| step.number == refusal.step);
    let text = |member: &str| {
        refusal
            .context
            .get(member)
            .and_then(|value| value.as_str())
            .map(String::from)
    };
    DecisionNote {
        gate: step.map_or("executor", |step| step.key),
        rule: text("rule").unwrap_or_else(|| refusal.code.text().to_string()),
        verdict: Verdict::Deny,
        policy: policy(subject),
        aim: text("limit").or_else(|| text("pointer")),
        bounds: Map::new(),
    }
}

fn with_detail(mut refusal: Refusal, detail: Option<String>) -> Refusal {
    if let Some(detail) = detail {
        let before = refusal
            .detail
            .take()
            .map(|before| format!("{before}; "))
            .unwrap_or_default();
        refusal.detail = Some(format!("{before}{detail}"));
    }
    refusal
}
