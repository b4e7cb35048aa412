//! Turns in memory, for tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use super::{By, Moved, Stands, StrikeClaim, Struck, Turn, TurnFact, Turns, arrive, open, strike};
use crate::ports::{Pending, StoreError};

/// Turns of one test.
#[derive(Debug, Default)]
pub struct MemoryTurns {
    state: Mutex<State>,
    /// What fails: `arrive`, `strike`, `show`.
    pub fails_at: Mutex<Option<&'static str>>,
    /// The step at which the process dies, before it is done; `recorded` too.
    pub dies_at: Mutex<Option<&'static str>>,
}

#[derive(Debug, Default)]
struct State {
    turns: BTreeMap<String, Turn>,
    owed: Vec<TurnFact>,
}

impl MemoryTurns {
    fn works(&self, name: &'static str) -> Result<(), StoreError> {
        let dies = *self.dies_at.lock().unwrap_or_else(PoisonError::into_inner) == Some(name);
        // Quietly: a death is no failure of the test.
        if dies {
            std::panic::resume_unwind(Box::new(name));
        }
        let fails = *self.fails_at.lock().unwrap_or_else(PoisonError::into_inner);
        if fails == Some(name) {
            return Err(StoreError {
                why: "the store is made to fail",
                detail: format!("{name} failed"),
            });
        }
        Ok(())
    }

    fn change<T>(
        &self,
        agent: &str,
        work: impl FnOnce(Option<Turn>) -> (Option<Moved>, T),
    ) -> (Option<Stands>, T) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (moved, value) = work(state.turns.get(agent).cloned());
        let stands = moved.map(|moved| {
            state.turns.insert(agent.to_string(), moved.turn.clone());
            state.owed.extend(moved.facts.clone());
            Stands {
                turn: moved.turn,
                facts: moved.facts,
            }
        });
        (stands, value)
    }
}

impl Turns for MemoryTurns {
    fn arrive<'a>(
        &'a self,
        agent: &'a str,
        idle_minutes: u32,
        now: Timestamp,
    ) -> Pending<'a, Result<Stands, StoreError>> {
        if let Err(error) = self.works("arrive") {
            return Box::pin(async move { Err(error) });
        }
        let (stands, ()) = self.change(agent, |turn| {
            (Some(arrive(agent, turn, idle_minutes, now)), ())
        });
        Box::pin(async move { Ok(stands.expect("a call always has a turn")) })
    }

    fn strike<'a>(&'a self, claim: StrikeClaim<'a>) -> Pending<'a, Result<Struck, StoreError>> {
        if let Err(error) = self.works("strike") {
            return Box::pin(async move { Err(error) });
        }
        let (stands, counted) = self.change(claim.agent, |turn| {
            let (moved, counted) = strike(claim.agent, turn, claim.call_id, claim.facts, claim.now);
            (Some(moved), counted)
        });
        let stands = stands.expect("a strike always has a turn");
        Box::pin(async move { Ok(Struck { counted, stands }) })
    }

    fn open<'a>(
        &'a self,
        agent: &'a str,
        by: By,
        now: Timestamp,
    ) -> Pending<'a, Result<Option<Stands>, StoreError>> {
        let (stands, ()) = self.change(agent, |turn| (open(agent, turn.as_ref(), by, now), ()));
        Box::pin(async move { Ok(stands) })
    }

    fn show<'a>(&'a self, agent: &'a str) -> Pending<'a, Result<Option<Turn>, StoreError>> {
        let (_, turn) = self.change(agent, |turn| (None, turn));
        let works = self.works("show");
        Box::pin(async move { works.map(|()| turn) })
    }

    fn owed(&self, until: Timestamp) -> Pending<'_, Result<Vec<TurnFact>, StoreError>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let owed = state
            .owed
            .iter()
            .filter(|fact| fact.at < until)
            .cloned()
            .collect();
        Box::pin(async move { Ok(owed) })
    }

    fn recorded<'a>(&'a self, facts: &'a [TurnFact]) -> Pending<'a, Result<(), StoreError>> {
        if let Err(error) = self.works("recorded") {
            return Box::pin(async move { Err(error) });
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.owed.retain(|fact| !facts.contains(fact));
        Box::pin(async move { Ok(()) })
    }
}
