//! Step 15: what the transport renders. A server's own answer passes unchanged; a failure becomes a generic text, its detail apart.

use super::call::{Call, Ended, Recorded, Shaped};
use super::record::code;
use crate::answer::Outcome;
use crate::facts::Facts;
use crate::ports::{Failure, Forwarded, Ports, Ran as RunEnd};
use crate::refusal::{Code, Refusal};

pub(super) async fn step(
    _: &Facts,
    _: &Ports<'_>,
    call: Call<Recorded>,
) -> Result<Call<Shaped>, Ended> {
    let Call {
        base,
        stage: Recorded { ran },
    } = call;
    let outcome = match ran {
        RunEnd::Result { body, is_error } => Outcome::Result { body, is_error },
        RunEnd::ProtocolError { body } => Outcome::ProtocolError { body },
        RunEnd::Failed {
            failure: Failure::Cancelled,
            ..
        } => Outcome::Cancelled,
        RunEnd::Failed {
            failure,
            forwarded,
            detail,
        } => Outcome::Refused(Box::new(failed(failure, forwarded).because(detail))),
    };
    Ok(Call {
        base,
        stage: Shaped { outcome },
    })
}

fn failed(failure: Failure, forwarded: Forwarded) -> Refusal {
    let what = match failure {
        Failure::Timeout => "the server did not answer in time",
        Failure::Server | Failure::Cancelled => "the server failed",
    };
    let (sentence, next) = match forwarded {
        Forwarded::Yes => (
            format!("{what}; the call had been sent, so whether it took effect is unknown"),
            "Do not repeat a change blindly: first read the current state, then decide.",
        ),
        Forwarded::No => (
            format!("{what}; the call was not sent"),
            "Try again in a moment; if it stays so, tell the person.",
        ),
    };
    Refusal::new(
        code(failure).unwrap_or(Code::UpstreamFailed),
        13,
        sentence,
        next,
    )
}
