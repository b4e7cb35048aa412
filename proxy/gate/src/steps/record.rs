//! Step 14: the outcome is in the book before the answer leaves: queued for a read, on disk for a write.

use countersign_permission::Kind;

use super::call::{Call, Ended, Ran, Recorded};
use super::ending::span;
use crate::facts::Facts;
use crate::ports::{
    BookError, Durability, Ended as CallEnd, Failure, Forwarded, OutcomeNote, Ports, Ran as RunEnd,
};
use crate::refusal::{Code, Refusal};

pub(super) async fn step(
    _: &Facts,
    ports: &Ports<'_>,
    call: Call<Ran>,
) -> Result<Call<Recorded>, Ended> {
    let Call {
        base,
        stage: Ran { kind, ran },
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
    let at = ports.clock.now();
    let duration = span(base.arrived, at);
    let outcome = OutcomeNote {
        call_id: base.request.call_id.clone(),
        at,
        ended,
        code,
        result,
        duration,
    };
    let durability = if kind == Kind::Read {
        Durability::Batched
    } else {
        Durability::Strict
    };
    match ports.book.record(outcome, durability).await {
        Ok(()) => Ok(Call {
            base,
            stage: Recorded { ran },
        }),
        Err(error) => Err(base.plain(withheld(&error))),
    }
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
