//! Turns and strikes in `state.db`: each change one transaction of the gate's automaton, seen by every process at once. Judges nothing.

use countersign_gate::ports::{Pending, StoreError};
use countersign_gate::turn::{
    By, Moved, Stands, Strike, StrikeClaim, Struck, Turn, TurnFact, Turns, What, arrive, open,
    strike,
};
use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde_json::{Map, Value, json};

use super::{StateDb, StoreFault};

/// Times are milliseconds since 1970; `strikes` a list of `{"call","at","facts"}`. A fact stays until it is in the book.
pub(super) const SCHEMA: &str = "
    CREATE TABLE turns (agent TEXT PRIMARY KEY NOT NULL, number INTEGER NOT NULL, opened INTEGER NOT NULL, last INTEGER NOT NULL,
                        strikes TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE turn_facts (id INTEGER PRIMARY KEY, agent TEXT NOT NULL, turn INTEGER NOT NULL, kind TEXT NOT NULL,
                             reason TEXT NOT NULL, at INTEGER NOT NULL, UNIQUE (agent, turn, kind));";

impl StateDb {
    /// A call arrived. Nothing is written unless something changed.
    pub fn turn_arrive(
        &self,
        agent: &str,
        idle_minutes: u32,
        now: Timestamp,
    ) -> Result<Stands, StoreFault> {
        let seen = self.with(|connection| read(connection, agent))?;
        let moved = arrive(agent, seen, idle_minutes, now);
        if !moved.changed {
            return Ok(stands(moved));
        }
        // Another process may have been first: what it left decides.
        self.change(|transaction| {
            let moved = arrive(agent, read(transaction, agent)?, idle_minutes, now);
            keep(transaction, agent, &moved)?;
            Ok(stands(moved))
        })
    }

    /// Counts a denial, once per call; durable when this returns.
    pub fn turn_strike(&self, claim: &StrikeClaim<'_>) -> Result<Struck, StoreFault> {
        self.change(|transaction| {
            let turn = read(transaction, claim.agent)?;
            let (moved, counted) = strike(claim.agent, turn, claim.call_id, claim.facts, claim.now);
            keep(transaction, claim.agent, &moved)?;
            Ok(Struck {
                counted,
                stands: stands(moved),
            })
        })
    }

    /// A person's act; `None` where a hook meets a latched turn.
    pub fn turn_open(
        &self,
        agent: &str,
        by: By,
        now: Timestamp,
    ) -> Result<Option<Stands>, StoreFault> {
        self.change(|transaction| {
            let turn = read(transaction, agent)?;
            let Some(moved) = open(agent, turn.as_ref(), by, now) else {
                return Ok(None);
            };
            keep(transaction, agent, &moved)?;
            Ok(Some(stands(moved)))
        })
    }

    /// The agent's turn as it is.
    pub fn turn_show(&self, agent: &str) -> Result<Option<Turn>, StoreFault> {
        self.with(|connection| read(connection, agent))
    }

    /// Facts from before `until` that are not in the book yet, oldest first.
    pub fn turn_facts_owed(&self, until: Timestamp) -> Result<Vec<TurnFact>, StoreFault> {
        self.with(|connection| {
            connection
                .prepare_cached(
                    "SELECT agent, turn, kind, reason, at FROM turn_facts WHERE at < ?1 ORDER BY id",
                )?
                .query_map([until.as_millisecond()], fact)?
                .collect()
        })
    }

    /// The facts are in the book.
    pub fn turn_facts_recorded(&self, facts: &[TurnFact]) -> Result<(), StoreFault> {
        if facts.is_empty() {
            return Ok(());
        }
        self.change(|transaction| {
            let mut delete = transaction.prepare_cached(
                "DELETE FROM turn_facts WHERE agent = ?1 AND turn = ?2 AND kind = ?3",
            )?;
            for fact in facts {
                delete.execute(params![fact.agent, integer(fact.turn)?, fact.what.kind()])?;
            }
            Ok(())
        })
    }
}

impl Turns for StateDb {
    fn arrive<'a>(
        &'a self,
        agent: &'a str,
        idle_minutes: u32,
        now: Timestamp,
    ) -> Pending<'a, Result<Stands, StoreError>> {
        Box::pin(async move {
            self.turn_arrive(agent, idle_minutes, now)
                .map_err(|fault| said(&fault))
        })
    }

    fn strike<'a>(&'a self, claim: StrikeClaim<'a>) -> Pending<'a, Result<Struck, StoreError>> {
        Box::pin(async move { self.turn_strike(&claim).map_err(|fault| said(&fault)) })
    }

    fn open<'a>(
        &'a self,
        agent: &'a str,
        by: By,
        now: Timestamp,
    ) -> Pending<'a, Result<Option<Stands>, StoreError>> {
        Box::pin(async move { self.turn_open(agent, by, now).map_err(|fault| said(&fault)) })
    }

    fn show<'a>(&'a self, agent: &'a str) -> Pending<'a, Result<Option<Turn>, StoreError>> {
        Box::pin(async move { self.turn_show(agent).map_err(|fault| said(&fault)) })
    }

    fn owed(&self, until: Timestamp) -> Pending<'_, Result<Vec<TurnFact>, StoreError>> {
        Box::pin(async move { self.turn_facts_owed(until).map_err(|fault| said(&fault)) })
    }

    fn recorded<'a>(&'a self, facts: &'a [TurnFact]) -> Pending<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.turn_facts_recorded(facts)
                .map_err(|fault| said(&fault))
        })
    }
}

fn said(fault: &StoreFault) -> StoreError {
    StoreError {
        why: "the record of turns can't be read or written",
        detail: fault.to_string(),
    }
}

fn stands(moved: Moved) -> Stands {
    Stands {
        turn: moved.turn,
        facts: moved.facts,
    }
}

fn read(connection: &Connection, agent: &str) -> rusqlite::Result<Option<Turn>> {
    connection
        .prepare_cached("SELECT number, opened, last, strikes FROM turns WHERE agent = ?1")?
        .query_row([agent], |row| {
            let strikes: String = row.get(3)?;
            Ok(Turn {
                number: number(row, 0)?,
                opened_at: time(row, 1)?,
                last_at: time(row, 2)?,
                strikes: strikes_from(&strikes)
                    .ok_or_else(|| wrong(3, "the strikes of a turn are no list of strikes"))?,
            })
        })
        .optional()
}

fn keep(transaction: &Transaction<'_>, agent: &str, moved: &Moved) -> rusqlite::Result<()> {
    if !moved.changed {
        return Ok(());
    }
    let turn = &moved.turn;
    let strikes: Vec<Value> = turn
        .strikes
        .iter()
        .map(|strike| json!({"call": strike.call_id, "at": strike.at.as_millisecond(), "facts": strike.facts}))
        .collect();
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO turns (agent, number, opened, last, strikes) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            agent,
            integer(turn.number)?,
            turn.opened_at.as_millisecond(),
            turn.last_at.as_millisecond(),
            Value::from(strikes).to_string()
        ])?;
    let mut insert = transaction.prepare_cached(
        "INSERT INTO turn_facts (agent, turn, kind, reason, at) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for fact in &moved.facts {
        insert.execute(params![
            fact.agent,
            integer(fact.turn)?,
            fact.what.kind(),
            fact.reason,
            fact.at.as_millisecond()
        ])?;
    }
    Ok(())
}

fn strikes_from(text: &str) -> Option<Vec<Strike>> {
    let list: Vec<Value> = serde_json::from_str(text).ok()?;
    list.into_iter()
        .map(|strike| {
            let facts: Map<String, Value> = strike.get("facts")?.as_object()?.clone();
            Some(Strike {
                call_id: strike.get("call")?.as_str()?.to_owned(),
                at: Timestamp::from_millisecond(strike.get("at")?.as_i64()?).ok()?,
                facts,
            })
        })
        .collect()
}

fn fact(row: &Row<'_>) -> rusqlite::Result<TurnFact> {
    let kind: String = row.get(2)?;
    Ok(TurnFact {
        agent: row.get(0)?,
        turn: number(row, 1)?,
        what: What::from_kind(&kind).ok_or_else(|| wrong(2, "no kind of turn fact"))?,
        reason: row.get(3)?,
        at: time(row, 4)?,
    })
}

fn number(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    u64::try_from(row.get::<_, i64>(at)?).map_err(|_| wrong(at, "a negative number of a turn"))
}

fn integer(number: u64) -> rusqlite::Result<i64> {
    i64::try_from(number).map_err(|_| wrong(0, "a number of a turn beyond all counting"))
}

fn time(row: &Row<'_>, at: usize) -> rusqlite::Result<Timestamp> {
    Timestamp::from_millisecond(row.get(at)?).map_err(|_| wrong(at, "no time"))
}

fn wrong(column: usize, what: &'static str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into())
}

#[cfg(test)]
mod tests {
    use countersign_gate::turn::Counted;

    use super::*;
    use crate::folder::Folder;

    fn world() -> (tempfile::TempDir, Folder, StateDb) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::resolve(Some(&temp.path().join("dir"))).unwrap();
        folder.create().unwrap();
        let state = StateDb::create(&folder).unwrap();
        (temp, folder, state)
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn count(state: &StateDb, call_id: &str) -> Counted {
        let facts = json!({"tool": "write_file", "requested_path": call_id});
        let claim = StrikeClaim {
            agent: "a",
            call_id,
            facts: facts.as_object().unwrap(),
            now: at(1),
        };
        state.turn_strike(&claim).unwrap().counted
    }

    #[test]
    fn p57_strikes_survive_a_reopening_and_only_a_person_ends_them() {
        let (_temp, folder, state) = world();
        let first = state.turn_arrive("a", 0, at(0)).unwrap();
        assert_eq!((first.turn.number, first.facts.len()), (1, 1));
        assert!(state.turn_arrive("a", 0, at(1)).unwrap().facts.is_empty());
        assert_eq!(count(&state, "c1"), Counted::First);
        drop(state);
        let state = StateDb::open(&folder).unwrap();
        assert_eq!(count(&state, "c1"), Counted::First, "the same call again");
        assert_eq!(count(&state, "c2"), Counted::Second);
        drop(state);
        let state = StateDb::open(&folder).unwrap();
        assert_eq!(count(&state, "c3"), Counted::Latched);
        let turn = state.turn_show("a").unwrap().unwrap();
        assert!(turn.is_latched());
        assert_eq!(turn.strikes[1].facts["requested_path"], "c2");
        assert_eq!(state.turn_open("a", By::Hook, at(2)).unwrap(), None);
        let opened = state.turn_open("a", By::Command, at(3)).unwrap().unwrap();
        assert_eq!((opened.turn.number, opened.turn.strikes.len()), (2, 0));
        let owed = state.turn_facts_owed(at(9)).unwrap();
        let kinds: Vec<_> = owed.iter().map(|fact| (fact.turn, fact.what)).collect();
        assert_eq!(
            kinds,
            [(1, What::Opened), (1, What::Failed), (2, What::Opened)]
        );
        state.turn_facts_recorded(&owed[..2]).unwrap();
        assert_eq!(state.turn_facts_owed(at(9)).unwrap(), owed[2..]);
        assert!(state.turn_facts_owed(at(3)).unwrap().is_empty());
    }

    #[test]
    fn twenty_at_once_make_one_turn_and_two_strikes() {
        let (_temp, folder, state) = world();
        drop(state);
        let (mut opened, mut counted) = (0, Vec::new());
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..20)
                .map(|n| {
                    let folder = &folder;
                    scope.spawn(move || {
                        // A connection of its own, as another process has.
                        let state = StateDb::open(folder).unwrap();
                        let facts = state.turn_arrive("a", 0, at(0)).unwrap().facts.len();
                        (facts, count(&state, &format!("c{n}")))
                    })
                })
                .collect();
            for worker in workers {
                let (facts, kind) = worker.join().unwrap();
                opened += facts;
                counted.push(kind);
            }
        });
        assert_eq!(opened, 1);
        let of = |kind| counted.iter().filter(|counted| **counted == kind).count();
        assert_eq!(
            (
                of(Counted::First),
                of(Counted::Second),
                of(Counted::Latched)
            ),
            (1, 1, 18)
        );
        let state = StateDb::open(&folder).unwrap();
        assert_eq!(state.turn_facts_owed(at(9)).unwrap().len(), 2);
    }

    #[test]
    fn a_file_of_the_version_before_gets_the_tables() {
        let (_temp, folder, state) = world();
        drop(state);
        let connection = Connection::open(folder.state_db()).unwrap();
        connection
            .execute_batch("DROP TABLE turns; DROP TABLE turn_facts; DROP TABLE approval_facts; PRAGMA user_version = 4;")
            .unwrap();
        drop(connection);
        let state = StateDb::open(&folder).unwrap();
        assert_eq!(count(&state, "c1"), Counted::First);
    }

    #[test]
    fn a_broken_turn_is_an_error_and_no_fresh_one() {
        let (_temp, _folder, state) = world();
        count(&state, "c1");
        state
            .with(|connection| connection.execute("UPDATE turns SET strikes = '[{}]'", []))
            .unwrap();
        assert!(state.turn_arrive("a", 0, at(2)).is_err());
        assert!(state.turn_show("a").is_err());
    }
}
