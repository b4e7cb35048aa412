//! The order of the flow, as one table. Read nowhere else.

use crate::answer::Answer;
use crate::facts::Facts;
use crate::ports::Ports;
use crate::request::Request;
use crate::serve::Listing;

mod cleared;

pub use cleared::{Cleared, What};

/// One row of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number in flow.md (the interim step stands for 7 to 11 and carries 11).
    pub number: u8,
    /// Its key, also the `gate` of the decisions it makes.
    pub key: &'static str,
}
pub(crate) async fn run(_facts: &Facts, _ports: Ports<'_>, request: Request) -> Answer {
    let refusal = crate::Refusal::new(
        crate::Code::InternalError,
        0,
        "the flow is not built yet",
        "try later",
    );
    Answer {
        request_id: request.request_id,
        outcome: crate::Outcome::Refused(Box::new(refusal)),
        rate: None,
    }
}
pub(crate) async fn discover(_facts: &Facts, _ports: Ports<'_>, _request: Request) -> Listing {
    let refusal = crate::Refusal::new(
        crate::Code::InternalError,
        0,
        "the flow is not built yet",
        "try later",
    );
    Listing {
        open: Err(Box::new(refusal)),
        rate: None,
    }
}
