//! Step 8, bounded writes: the policy's document and rules, where a call's paths lie, the verdict, and what a denial says. Strikes are
//! counted by [`crate::turn`].

mod denial;
mod document;
mod judge;
mod read;
mod rule;
mod target;
#[cfg(test)]
mod tests;

pub(crate) use denial::allowed_facts;
pub use denial::{Denial, FACTS, GATE, Reason, STRIKE};
pub use document::{
    DEFAULT_PREFIXES, IMPLICIT_DENIES, MOST_COMMANDS, MOST_RULES, NotWithin, Policy, PolicyFault,
    Ruling, Shell,
};
pub use judge::{Judge, Judged, Judgement};
pub use rule::{Rule, RuleFault};
pub use target::{Target, TargetFault, Workspace};
