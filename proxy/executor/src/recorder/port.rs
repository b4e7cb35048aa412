//! The gate's `Book` port on the recorder: the gate's notes become the book's entries. Owns the translation and the limits on what
//! clients call themselves; refuses to know how entries are written.

use std::sync::Arc;

use countersign_book::{self as book, Count, Draft, Field, Payload};
use countersign_gate::ports::{self as gate, Pending};

use super::decisions::Decisions;
use super::{Recorder, Stopped, When};

/// Longest self-description of a client, request id or reason kept in an entry, in bytes.
const TEXT: usize = 256;

/// The gate's record.
#[derive(Clone)]
pub struct BookPort {
    recorder: Recorder,
    process: Arc<str>,
    decisions: Option<Decisions>,
}

impl BookPort {
    /// A port whose `call` entries name `process` as the one that carries them.
    #[must_use]
    pub fn new(recorder: Recorder, process: &str) -> Self {
        Self {
            recorder,
            process: process.into(),
            decisions: None,
        }
    }

    /// The same, with decisions about held calls that are owed to the book written before the calls that run under them.
    #[must_use]
    pub fn with_decisions(mut self, decisions: Decisions) -> Self {
        self.decisions = Some(decisions);
        self
    }
}

impl gate::Book for BookPort {
    fn note(&self, note: gate::Note) -> Pending<'_, Result<(), gate::BookError>> {
        Box::pin(async move {
            let when = when(note.durability);
            let ahead = match (&self.decisions, &note.call.links.approval) {
                (Some(decisions), Some(approval)) => {
                    let ahead = decisions.about(approval).await;
                    Some(ahead.map_err(undecided)?)
                }
                _ => None,
            };
            let mut drafts = Vec::with_capacity(2 + note.decisions.len());
            drafts.extend(ahead.iter().flat_map(|ahead| ahead.drafts.clone()));
            let id = call_id(&note.call.call_id)?;
            let (call, mut bytes) = call(note.call, id.clone(), &self.process);
            drafts.push(call);
            drafts.extend(
                note.decisions
                    .into_iter()
                    .map(|decision| self::decision(decision, id.clone())),
            );
            if let Some(outcome) = note.outcome {
                let (outcome, more) = self::outcome(outcome, id);
                bytes += more;
                drafts.push(outcome);
            }
            self.recorder
                .submit(drafts, bytes, when)
                .await
                .map_err(words)?;
            if let Some(ahead) = ahead {
                ahead.written();
            }
            Ok(())
        })
    }

    fn record(
        &self,
        outcome: gate::OutcomeNote,
        durability: gate::Durability,
    ) -> Pending<'_, Result<(), gate::BookError>> {
        Box::pin(async move {
            let id = call_id(&outcome.call_id)?;
            let (draft, bytes) = self::outcome(outcome, id);
            self.recorder
                .submit(vec![draft], bytes, when(durability))
                .await
                .map_err(words)
        })
    }
}

/// The `call` entry and the bytes of its payloads. What is committed to is the arguments without control fields; where what was
/// sent differs from that, it is committed to as well.
fn call(note: gate::CallNote, id: book::CallId, process: &str) -> (Draft, usize) {
    let client = note
        .client
        .map(|client| cut(format!("{} {}", client.name, client.version)));
    let body = book::Call {
        actor: match (&note.agent, &note.person) {
            (Some(_), _) => book::Actor::Agent,
            (None, Some(_)) => book::Actor::Person,
            (None, None) => book::Actor::Public,
        },
        agent: note.agent,
        approval: linked(note.links.approval),
        args: None,
        call: id,
        client,
        confirmation: linked(note.links.confirmation),
        def: note.definition.map(hash),
        effect: match note.kind {
            countersign_permission::Kind::Read => book::Effect::Read,
            countersign_permission::Kind::Write => book::Effect::Write,
        },
        key: note.key_prefix,
        permission: note.permission.map(hash),
        process: process.to_owned(),
        purpose: match note.purpose {
            gate::Purpose::Call => None,
            gate::Purpose::Preview => Some("preview".to_owned()),
        },
        request: Some(cut(note.request_id.to_string())),
        rows: (note.rows > 0).then_some(Count(note.rows)),
        sent: None,
        server: note.server,
        session: note
            .person
            .as_ref()
            .map(|person| person.session.to_string()),
        tool: note.tool,
        turn: None,
        via: note
            .person
            .map_or_else(|| note.via.to_owned(), |person| cut(person.via.to_string())),
    };
    let mut draft = Draft::new(body);
    let mut bytes = 0;
    for (field, payload) in [(Field::Args, note.received), (Field::Sent, note.sent)] {
        if let Some(payload) = payload {
            bytes += payload.len();
            draft = draft.with(field, Payload::new(payload));
        }
    }
    (draft, bytes)
}

fn decision(note: gate::DecisionNote, id: book::CallId) -> Draft {
    Draft::new(book::Decision {
        aim: note.aim.map(cut),
        bounds: None,
        call: id,
        decision: match note.verdict {
            gate::Verdict::Allow => book::DecisionVerdict::Allow,
            gate::Verdict::Deny => book::DecisionVerdict::Deny,
        },
        gate: note.gate.to_owned(),
        policy: note.policy.map(hash),
        rule: Some(cut(note.rule)),
    })
}

fn outcome(note: gate::OutcomeNote, id: book::CallId) -> (Draft, usize) {
    let draft = Draft::new(book::Outcome {
        approval: linked(note.links.approval),
        call: id,
        code: note.code.map(|code| code.text().to_owned()),
        confirmation: linked(note.links.confirmation),
        ms: Some(Count(
            u64::try_from(note.duration.as_millis()).unwrap_or(u64::MAX),
        )),
        replaces: linked(note.links.replaces),
        result: None,
        settled: None,
        status: match note.ended {
            gate::Ended::Ok => book::Status::Ok,
            gate::Ended::Error => book::Status::Error,
            gate::Ended::Unknown => book::Status::Unknown,
            gate::Ended::Preview => book::Status::Preview,
            gate::Ended::PendingApproval => book::Status::PendingApproval,
            gate::Ended::ConfirmationRequired => book::Status::ConfirmationRequired,
            gate::Ended::Refused => book::Status::Refused,
        },
        why: None,
    });
    match note.result {
        None => (draft, 0),
        Some(result) => {
            let bytes = result.len();
            (draft.with(Field::Result, Payload::new(result)), bytes)
        }
    }
}

fn linked(id: Option<Arc<str>>) -> Option<String> {
    id.map(|id| id.to_string())
}

fn when(durability: gate::Durability) -> When {
    match durability {
        gate::Durability::Batched => When::Queued,
        gate::Durability::Strict => When::Durable,
    }
}

fn call_id(text: &str) -> Result<book::CallId, gate::BookError> {
    book::CallId::parse(text).map_err(|error| gate::BookError {
        why: "the call has no valid id",
        detail: error.to_string(),
        held: None,
    })
}

fn hash(hash: countersign_permission::Hash) -> book::Hash {
    book::Hash(*hash.as_bytes())
}

fn undecided(detail: String) -> gate::BookError {
    gate::BookError {
        why: "what was decided about this call can't be brought into the record now",
        detail,
        held: None,
    }
}

#[allow(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn words(stopped: Stopped) -> gate::BookError {
    gate::BookError {
        why: stopped.why(),
        held: stopped.held(),
        detail: stopped.to_string(),
    }
}

/// Cuts text that others chose to what an entry has room for, at a character's end.
fn cut(mut text: String) -> String {
    if text.len() > TEXT {
        let end = (0..=TEXT)
            .rev()
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}
