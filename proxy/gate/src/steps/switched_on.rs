//! Step 1: the executor is enabled and not in maintenance. Before anything else is looked at.

use super::call::{Arrived, Call, Ended, SwitchedOn};
use crate::facts::Facts;
use crate::ports::Ports;
use crate::refusal::{Code, Refusal};

pub(super) async fn step(
    facts: &Facts,
    _: &Ports<'_>,
    call: Call<Arrived>,
) -> Result<Call<SwitchedOn>, Ended> {
    let refusal = match (facts.enabled, facts.maintenance) {
        (true, false) => return Ok(call.at(SwitchedOn)),
        (false, _) => Refusal::new(
            Code::ApiDisabled,
            1,
            "the person has switched every agent off",
            "Stop calling tools; only the person can switch them on again.",
        ),
        (true, true) => Refusal::new(
            Code::Maintenance,
            1,
            "the executor is in maintenance",
            "Try again in a few minutes.",
        ),
    };
    Err(call.base.counted(refusal, None))
}
