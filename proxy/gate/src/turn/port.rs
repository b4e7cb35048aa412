//! Where turns are kept, as a trait: shared by all processes of an executor, one transaction a call. Implemented by the executor over
//! its store; in memory by tests.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::state::{By, Counted, Turn, TurnFact};
use crate::ports::{Pending, StoreError};

/// The turns of all agents. What changes a turn is one transaction of [`super::arrive`], [`super::strike`] or [`super::open`]; the facts
/// are kept as owed in the same transaction until [`Turns::recorded`], so that a crash before they are in the book loses none.
pub trait Turns: Send + Sync {
    /// A call of `agent` arrived. Reads only, as long as nothing changes.
    fn arrive<'a>(
        &'a self,
        agent: &'a str,
        idle_minutes: u32,
        now: Timestamp,
    ) -> Pending<'a, Result<Stands, StoreError>>;

    /// Counts a denial, once per call id.
    fn strike<'a>(&'a self, claim: StrikeClaim<'a>) -> Pending<'a, Result<Struck, StoreError>>;

    /// A person's act. `None`: a hook, and the turn is latched.
    fn open<'a>(
        &'a self,
        agent: &'a str,
        by: By,
        now: Timestamp,
    ) -> Pending<'a, Result<Option<Stands>, StoreError>>;

    /// The turn as it is, if one was ever opened.
    fn show<'a>(&'a self, agent: &'a str) -> Pending<'a, Result<Option<Turn>, StoreError>>;

    /// Facts from before `until` that nobody has recorded yet, oldest first: those of a process that died.
    fn owed(&self, until: Timestamp) -> Pending<'_, Result<Vec<TurnFact>, StoreError>>;

    /// The facts are in the book.
    fn recorded<'a>(&'a self, facts: &'a [TurnFact]) -> Pending<'a, Result<(), StoreError>>;
}

/// A denial to count.
#[derive(Clone, Debug)]
pub struct StrikeClaim<'a> {
    /// Whose.
    pub agent: &'a str,
    /// The denied call.
    pub call_id: &'a str,
    /// What is recorded of it.
    pub facts: &'a Map<String, Value>,
    /// Now.
    pub now: Timestamp,
}

/// A turn and what its caller has to record.
#[derive(Clone, Debug, PartialEq)]
pub struct Stands {
    /// The turn.
    pub turn: Turn,
    /// Its facts, to be recorded in order.
    pub facts: Vec<TurnFact>,
}

/// What a strike came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Struck {
    /// Which it was.
    pub counted: Counted,
    /// The turn after it.
    pub stands: Stands,
}
