//! Step 14: the outcome is in the book before the answer leaves: queued for a read, on disk for a write.

use countersign_permission::Kind;
use jiff::Timestamp;

use super::call::{Base, Call, Ended, Ran, Recorded, Takes};
use super::ending::span;
use crate::facts::Facts;
use crate::idempotency::Stored;
use crate::ports::{
    BookError, Durability, End, Ended as CallEnd, Failure, Forwarded, KeyClaim, OutcomeNote, Ports,
    Ran as RunEnd, Settle, Waits,
};
use crate::refusal::{Code, Refusal};
use crate::request::QUEUE;

pub(super) async fn step(
    _: &Facts,
    ports: &Ports<'_>,
    call: Call<Ran>,
) -> Result<Call<Recorded>, Ended> {
    let Call {
        base,
        stage: Ran { kind, takes, ran },
    } = call;
    let (ended, code, result) = match &ran {
        RunEnd::Result {
            body,
            is_error: false,
        } => (CallEnd::Ok, None, Some(body.clone())),
        RunEnd::Result {
            body,
            is_error: true,
        }
        | RunEnd::ProtocolError { body } => (CallEnd::Error, None, Some(body.clone())),
        RunEnd::Failed {
            failure, forwarded, ..
        } => {
            let ended = if *forwarded == Forwarded::Yes {
                CallEnd::Unknown
            } else {
                CallEnd::Error
            };
            (ended, code(*failure), None)
        }
    };
    let end = match (&ran, Stored::of(&ran)) {
        (_, Some(stored)) => End::Answered(stored),
        (
            RunEnd::Failed {
                forwarded: Forwarded::No,
                ..
            },
            None,
        ) => End::NotSent,
        (_, None) => End::Unknown,
    };
    let at = ports.clock.now();
    let duration = span(base.arrived, at);
    let outcome = OutcomeNote {
        call_id: base.request.call_id.clone(),
        at,
        ended,
        code,
        result,
        duration,
        links: takes.links(),
    };
    let durability = if kind == Kind::Read {
        Durability::Batched
    } else {
        Durability::Strict
    };
    let recorded = ports.book.record(outcome, durability).await;
    // The outcome first: a claim that is not settled says less than one that is, and what it says is never wrong.
    let end = match end {
        // An answer that is not recorded is not given to a twin either.
        End::Answered(_) if recorded.is_err() => End::Unknown,
        end => end,
    };
    if let Some(settle) = settlement(&base, &takes, end, at) {
        // The store says in the log what it could not keep. The answer is the server's all the same, and no twin runs for it.
        let _ = ports.store.settle(settle).await;
    }
    match recorded {
        Ok(()) => Ok(Call {
            base,
            stage: Recorded { ran },
        }),
        Err(error) => Err(base.plain(withheld(&error))),
    }
}

/// What is settled with the end of a call that took something.
pub(super) fn settlement<'a>(
    base: &'a Base,
    takes: &'a Takes,
    end: End,
    now: Timestamp,
) -> Option<Settle<'a>> {
    let key = takes
        .key
        .as_ref()
        .map(|(bound, key)| KeyClaim { bound, key });
    let approval = takes.approval.as_deref();
    (key.is_some() || approval.is_some()).then_some(Settle {
        call_id: &base.request.call_id,
        now,
        key,
        approval,
        waits: if base.request.via == QUEUE {
            Waits::Nobody
        } else {
            Waits::Agent
        },
        end,
    })
}

/// The code a failed run answers with; none for a cancelled one.
pub(super) fn code(failure: Failure) -> Option<Code> {
    match failure {
        Failure::Server => Some(Code::UpstreamFailed),
        Failure::Timeout => Some(Code::UpstreamTimeout),
        Failure::Cancelled => None,
    }
}

fn withheld(error: &BookError) -> Refusal {
    let why = error.why;
    Refusal::new(
        Code::RecordUnavailable,
        14,
        format!("the call was sent, but its outcome cannot be recorded ({why}), so the result is withheld"),
        format!("Do not repeat the call: it may have taken effect. Tell the person that the record cannot be written: {why}."),
    )
    .because(error.to_string())
}
