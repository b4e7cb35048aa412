//! Idempotency keys in `state.db`: one row a key, for the book's life; its answer, sealed, for a day. The rules are the gate's.

use countersign_gate::bound::Bound;
use countersign_gate::idempotency::{KEPT, KeyRow, KeyState, Stored, Twin, twin};
use countersign_gate::ports::{End, KeyClaim};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::serving::Serving;
use super::{StateDb, StoreFault};

/// Times are milliseconds since 1970.
pub(super) const SCHEMA: &str = "
    CREATE TABLE idempotency (actor TEXT NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL, key TEXT NOT NULL,
                              arguments TEXT NOT NULL, call TEXT NOT NULL, process TEXT NOT NULL,
                              state TEXT NOT NULL CHECK (state IN ('running', 'done', 'unknown')), at INTEGER NOT NULL, answer BLOB,
                              PRIMARY KEY (actor, server, tool, key));
    CREATE INDEX idempotency_answers ON idempotency (at) WHERE answer IS NOT NULL;";

impl StateDb {
    /// What is under a key.
    pub(super) fn twin(
        &self,
        claim: &KeyClaim<'_>,
        now: Timestamp,
        serving: &Serving,
    ) -> Result<Twin, StoreFault> {
        self.with(|connection| look(connection, claim, now, serving))
    }
}

/// What is under a key, for a call with the claim's arguments.
pub(super) fn look(
    connection: &Connection,
    claim: &KeyClaim<'_>,
    now: Timestamp,
    serving: &Serving,
) -> rusqlite::Result<Twin> {
    let Bound {
        actor,
        server,
        tool,
        arguments,
    } = claim.bound;
    let row = connection
        .prepare_cached(
            "SELECT arguments, call, process, state, at, answer FROM idempotency
             WHERE actor = ?1 AND server = ?2 AND tool = ?3 AND key = ?4",
        )?
        .query_row(params![&**actor, &**server, &**tool, claim.key], |row| {
            let process: String = row.get(2)?;
            let state: String = row.get(3)?;
            let sealed: Option<Vec<u8>> = row.get(5)?;
            let state = match state.as_str() {
                "running" => KeyState::Running {
                    owner: serving.owner(&process),
                },
                "done" => KeyState::Done {
                    at: Timestamp::from_millisecond(row.get(4)?).unwrap_or_default(),
                    // One that cannot be opened is not given: the call is told that its answer is gone.
                    answer: sealed
                        .and_then(|sealed| serving.seal.open(&about(claim), &sealed).ok())
                        .and_then(|text| Stored::decode(&text)),
                },
                _ => KeyState::Unknown,
            };
            let arguments: String = row.get(0)?;
            Ok((arguments, row.get(1)?, state))
        })
        .optional()?;
    let row = row.map(|(hash, call_id, state)| KeyRow {
        // A hash that cannot be read is no call's.
        arguments: hash.parse().unwrap_or(NO_HASH),
        call_id,
        state,
    });
    Ok(twin(row.as_ref(), arguments, now))
}

const NO_HASH: countersign_permission::Hash = countersign_permission::Hash::from_bytes([0; 32]);

/// Claims a key nothing is under.
pub(super) fn claim(
    transaction: &Transaction<'_>,
    claim: &KeyClaim<'_>,
    (call, now): (&str, Timestamp),
    serving: &Serving,
) -> rusqlite::Result<()> {
    let Bound {
        actor,
        server,
        tool,
        arguments,
    } = claim.bound;
    transaction
        .prepare_cached(
            "INSERT INTO idempotency (actor, server, tool, key, arguments, call, process, state, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'running', ?8)",
        )?
        .execute(params![
            &**actor,
            &**server,
            &**tool,
            claim.key,
            arguments.to_string(),
            call,
            serving.process,
            now.as_millisecond()
        ])?;
    Ok(())
}

/// Settles the key `call` still holds, and forgets answers whose day is over. `sealed` is the answer of [`End::Answered`].
pub(super) fn settle(
    transaction: &Transaction<'_>,
    claim: &KeyClaim<'_>,
    (call, now): (&str, Timestamp),
    end: &End,
    sealed: Option<&[u8]>,
) -> rusqlite::Result<()> {
    let Bound {
        actor,
        server,
        tool,
        ..
    } = claim.bound;
    let held =
        "actor = ?1 AND server = ?2 AND tool = ?3 AND key = ?4 AND call = ?5 AND state = 'running'";
    let state = match end {
        End::NotSent => {
            transaction
                .prepare_cached(&format!("DELETE FROM idempotency WHERE {held}"))?
                .execute(params![&**actor, &**server, &**tool, claim.key, call])?;
            return Ok(());
        }
        End::Answered(_) => "done",
        End::Unknown => "unknown",
    };
    let now = now.as_millisecond();
    transaction
        .prepare_cached(&format!(
            "UPDATE idempotency SET state = ?6, at = ?7, answer = ?8 WHERE {held}"
        ))?
        .execute(params![
            &**actor, &**server, &**tool, claim.key, call, state, now, sealed
        ])?;
    transaction
        .prepare_cached(
            "UPDATE idempotency SET answer = NULL WHERE answer IS NOT NULL AND at <= ?1",
        )?
        .execute([now - i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX)])?;
    Ok(())
}

/// What an answer is sealed for: an answer moved to another key does not open.
pub(super) fn about(claim: &KeyClaim<'_>) -> String {
    let Bound {
        actor,
        server,
        tool,
        arguments,
    } = claim.bound;
    format!(
        "idempotency\0{actor}\0{server}\0{tool}\0{}\0{arguments}",
        claim.key
    )
}
