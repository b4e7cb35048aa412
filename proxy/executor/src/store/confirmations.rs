//! Confirmations in `state.db`: one row a code, which is kept as its HMAC only. The rules are the gate's.

use countersign_gate::bound::Bound;
use countersign_gate::confirmation::{Confirmation, ConfirmationState, Reason, TRIES, stands};
use countersign_gate::ports::Prompt;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::{StateDb, StoreFault};

/// Times are milliseconds since 1970.
pub(super) const SCHEMA: &str = "
    CREATE TABLE confirmations (id TEXT PRIMARY KEY NOT NULL, mac BLOB NOT NULL UNIQUE CHECK (length(mac) = 32),
                                actor TEXT NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL, arguments TEXT NOT NULL,
                                fingerprint TEXT NOT NULL, tries INTEGER NOT NULL, expires INTEGER NOT NULL,
                                state TEXT NOT NULL CHECK (state IN ('waiting', 'used', 'rejected', 'expired')));
    CREATE INDEX confirmations_over ON confirmations (expires);";

/// How long a row stays after its time, so that its code is told apart from an unknown one.
const REMEMBERED: i64 = 24 * 3600 * 1000;

impl StateDb {
    /// The confirmation whose code has this HMAC.
    pub(super) fn confirmation(&self, mac: &[u8; 32]) -> Result<Option<Confirmation>, StoreFault> {
        self.with(|connection| {
            connection
                .prepare_cached(
                    "SELECT id, actor, server, tool, arguments, fingerprint, state, expires
                     FROM confirmations WHERE mac = ?1",
                )?
                .query_row([mac.as_slice()], read)
                .optional()
        })
    }

    /// The confirmation of that id.
    pub(super) fn held_confirmation(&self, id: &str) -> Result<Option<Confirmation>, StoreFault> {
        self.with(|connection| {
            connection
                .prepare_cached(
                    "SELECT id, actor, server, tool, arguments, fingerprint, state, expires
                     FROM confirmations WHERE id = ?1",
                )?
                .query_row([id], read)
                .optional()
        })
    }

    /// Keeps a new one in the place of another. Not flushed: one that is lost is an unknown code.
    pub(super) fn prompt(&self, prompt: &Prompt<'_>) -> Result<(), StoreFault> {
        let Confirmation {
            id,
            bound,
            fingerprint,
            expires_at,
            ..
        } = prompt.confirmation;
        let Bound {
            actor,
            server,
            tool,
            arguments,
        } = bound;
        self.change_unflushed(|transaction| {
            if let Some(old) = prompt.replaces {
                end(transaction, old, "expired")?;
            }
            transaction
                .prepare_cached("DELETE FROM confirmations WHERE expires <= ?1")?
                .execute([prompt.now.as_millisecond() - REMEMBERED])?;
            transaction
                .prepare_cached(
                    "INSERT INTO confirmations (id, mac, actor, server, tool, arguments, fingerprint, tries, expires, state)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, 'waiting')",
                )?
                .execute(params![
                    &**id,
                    prompt.mac.as_slice(),
                    &**actor,
                    &**server,
                    &**tool,
                    arguments.to_string(),
                    fingerprint,
                    expires_at.as_millisecond()
                ])?;
            Ok(())
        })
    }

    /// Counts a wrong code against the newest waiting confirmation of the call.
    pub(super) fn wrong_code(&self, bound: &Bound, now: Timestamp) -> Result<(), StoreFault> {
        let Bound {
            actor,
            server,
            tool,
            arguments,
        } = bound;
        self.change(|transaction| {
            transaction
                .prepare_cached(
                    "UPDATE confirmations SET tries = tries + 1,
                            state = CASE WHEN tries + 1 >= ?6 THEN 'expired' ELSE state END
                     WHERE id = (SELECT id FROM confirmations
                                 WHERE actor = ?1 AND server = ?2 AND tool = ?3 AND arguments = ?4
                                       AND state = 'waiting' AND expires > ?5
                                 ORDER BY id DESC LIMIT 1)",
                )?
                .execute(params![
                    &**actor,
                    &**server,
                    &**tool,
                    arguments.to_string(),
                    now.as_millisecond(),
                    TRIES
                ])?;
            Ok(())
        })
    }
}

/// Spends a confirmation, if it can be spent now.
pub(super) fn spend(
    transaction: &Transaction<'_>,
    id: &str,
    now: Timestamp,
) -> rusqlite::Result<Result<(), Reason>> {
    let found = find(transaction, id)?;
    let Some((state, expires_at)) = found else {
        return Ok(Err(Reason::Invalid));
    };
    if let Err(reason) = stands(state, expires_at, now) {
        return Ok(Err(reason));
    }
    end(transaction, id, "used").map(Ok)
}

fn find(
    connection: &Connection,
    id: &str,
) -> rusqlite::Result<Option<(ConfirmationState, Timestamp)>> {
    connection
        .prepare_cached("SELECT state, expires FROM confirmations WHERE id = ?1")?
        .query_row([id], |row| {
            Ok((state(&row.get::<_, String>(0)?), time(row.get(1)?)))
        })
        .optional()
}

fn end(transaction: &Transaction<'_>, id: &str, state: &str) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE confirmations SET state = ?2 WHERE id = ?1 AND state = 'waiting'")?
        .execute([id, state])?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Confirmation> {
    let text = |at: usize| row.get::<_, String>(at);
    Ok(Confirmation {
        id: text(0)?.into(),
        bound: Bound {
            actor: text(1)?.into(),
            server: text(2)?.into(),
            tool: text(3)?.into(),
            // A hash that cannot be read is no call's.
            arguments: text(4)?
                .parse()
                .unwrap_or(countersign_permission::Hash::from_bytes([0; 32])),
        },
        fingerprint: text(5)?,
        state: state(&text(6)?),
        expires_at: time(row.get(7)?),
    })
}

fn state(text: &str) -> ConfirmationState {
    match text {
        "waiting" => ConfirmationState::Waiting,
        "used" => ConfirmationState::Used,
        "rejected" => ConfirmationState::Rejected,
        _ => ConfirmationState::Expired,
    }
}

/// A time that cannot be read is long over.
fn time(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MIN)
}
