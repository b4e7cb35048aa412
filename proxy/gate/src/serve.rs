//! The two ways in: a call and a list. Runs the chain of [`crate::steps`], then writes what a refusal or an early end owes the book
//! or the counters. Has no rule of its own.

use std::sync::Arc;

use crate::answer::Answer;
use crate::catalog::Tool;
use crate::facts::Facts;
use crate::ports::Ports;
use crate::rate::RateState;
use crate::refusal::Refusal;
use crate::request::Request;

/// One call, from arrival to answer. Always answers; never panics on input. Not to be dropped before its end (see the crate's head).
pub async fn call(facts: &Facts, ports: Ports<'_>, request: Request) -> Answer {
    crate::steps::run(facts, ports, request).await
}

/// What a caller may see: steps 1 to 3, a charge of 1, then exactly the tools step 4 would let through.
pub async fn list(facts: &Facts, ports: Ports<'_>, request: Request) -> Listing {
    crate::steps::discover(facts, ports, request).await
}

/// The answer to a list.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The tools, or why not.
    pub open: Result<Open, Box<Refusal>>,
    /// How the limiter stands; `Some` exactly when it was reached.
    pub rate: Option<RateState>,
}

/// The tools a caller may see, in the registry's order. What [`crate::catalog::page`] filters a raw page by.
#[derive(Clone, Debug, Default)]
pub struct Open {
    /// Tools of servers.
    pub tools: Vec<Arc<Tool>>,
    /// The executor's own tools as raw `tools/list` items, to append to the last page.
    pub own: Vec<&'static str>,
}
