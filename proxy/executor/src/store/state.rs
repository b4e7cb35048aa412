//! `state.db`: what must survive a crash and be seen by every process at once: agents' keys, uses, first-seen definitions, turns.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_gate::key::KeyMac;
use countersign_gate::ports::{KeyRecord, UseClaim, Uses};
use countersign_permission::Hash;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use crate::folder::Folder;

use super::StoreFault;
use super::sqlite::{Format, WhenMissing, fault, in_transaction, open};

/// The open `state.db`.
#[derive(Debug)]
pub struct StateDb {
    path: PathBuf,
    connection: Mutex<Connection>,
}

/// A tool's definition as it was first seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The tool, as the server names it.
    pub tool: String,
    /// The definition's hash.
    pub definition: Hash,
    /// The definition itself, so that a person can be shown what changed.
    pub text: String,
}

/// Times are milliseconds since 1970; `scopes` a JSON list or null.
const FORMAT: Format = Format {
    version: 6,
    synchronous: "FULL",
    upgrades: &[
        super::idempotency::SCHEMA,
        super::confirmations::SCHEMA,
        super::approvals::SCHEMA,
        super::turns::SCHEMA,
        super::decided::SCHEMA,
    ],
    schema: "
        CREATE TABLE keys (prefix TEXT PRIMARY KEY NOT NULL, agent TEXT NOT NULL, mac BLOB NOT NULL CHECK (length(mac) = 32),
                           scopes TEXT, created INTEGER NOT NULL, expires INTEGER, revoked INTEGER) WITHOUT ROWID;
        CREATE TABLE uses (scope TEXT NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL, total INTEGER NOT NULL,
                           PRIMARY KEY (scope, server, tool)) WITHOUT ROWID;
        CREATE TABLE use_times (scope TEXT NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL, at INTEGER NOT NULL, call TEXT NOT NULL,
                                PRIMARY KEY (scope, server, tool, at, call)) WITHOUT ROWID;
        CREATE TABLE pins (server TEXT NOT NULL, tool TEXT NOT NULL, definition TEXT NOT NULL, text TEXT NOT NULL, seen INTEGER NOT NULL,
                           PRIMARY KEY (server, tool)) WITHOUT ROWID;",
};

impl StateDb {
    /// Makes `state.db`, or opens the one that is there.
    pub fn create(folder: &Folder) -> Result<StateDb, StoreFault> {
        StateDb::connect(folder, WhenMissing::Create)
    }

    /// Opens `state.db`; a missing one is never made silently.
    pub fn open(folder: &Folder) -> Result<StateDb, StoreFault> {
        StateDb::connect(folder, WhenMissing::Refuse)
    }

    fn connect(folder: &Folder, when_missing: WhenMissing) -> Result<StateDb, StoreFault> {
        let path = folder.state_db();
        let connection = open(&path, &FORMAT, when_missing)?;
        Ok(StateDb {
            path,
            connection: Mutex::new(connection),
        })
    }

    /// Reads the whole file and says what is wrong with it.
    pub fn check(&self) -> Result<(), StoreFault> {
        let answer: String = self.with(|connection| {
            connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        })?;
        if answer == "ok" {
            Ok(())
        } else {
            Err(StoreFault::Damaged {
                path: self.path.clone(),
                detail: answer,
            })
        }
    }

    /// Stores a new key; other keys of the same agent end with it.
    pub fn add_key(
        &self,
        prefix: &str,
        record: &KeyRecord,
        now: Timestamp,
    ) -> Result<(), StoreFault> {
        let scopes = record
            .scopes
            .as_ref()
            .map(|scopes| serde_json::Value::from(scopes.clone()).to_string());
        self.change(|transaction| {
            revoke(transaction, &record.agent, now)?;
            transaction.execute(
                "INSERT INTO keys (prefix, agent, mac, scopes, created, expires, revoked) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    prefix,
                    record.agent,
                    record.mac.as_bytes().as_slice(),
                    scopes,
                    now.as_millisecond(),
                    record.expires_at.map(Timestamp::as_millisecond),
                    record.revoked_at.map(Timestamp::as_millisecond)
                ],
            )?;
            Ok(())
        })
    }

    /// The record of the key with this visible prefix, as it is now.
    pub fn key(&self, prefix: &str) -> Result<Option<KeyRecord>, StoreFault> {
        self.with(|connection| {
            connection
                .prepare_cached(
                    "SELECT agent, mac, scopes, expires, revoked FROM keys WHERE prefix = ?1",
                )?
                .query_row([prefix], key_record)
                .optional()
        })
    }

    /// Ends every key of `agent`; how many were alive. Counts at the next request of any process.
    pub fn revoke(&self, agent: &str, now: Timestamp) -> Result<usize, StoreFault> {
        self.change(|transaction| revoke(transaction, agent, now))
    }

    /// Whether one more use is allowed now.
    pub fn uses_left(&self, claim: &UseClaim<'_>) -> Result<Uses, StoreFault> {
        self.with(|connection| uses(connection, claim))
    }

    /// Counts one use if it is allowed; durable when this returns.
    pub fn count_use(&self, claim: &UseClaim<'_>) -> Result<Uses, StoreFault> {
        if claim.limits.is_unlimited() {
            return Ok(Uses::Allowed);
        }
        self.change(|transaction| count(transaction, claim))
    }

    /// Every first-seen definition: server, tool, hash.
    pub fn pins(&self) -> Result<BTreeMap<String, BTreeMap<String, Hash>>, StoreFault> {
        let rows = self.with(|connection| {
            connection
                .prepare_cached("SELECT server, tool, definition FROM pins")?
                .query_map([], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?))
                })?
                .collect::<Result<Vec<(String, String, String)>, _>>()
        })?;
        let mut pins: BTreeMap<String, BTreeMap<String, Hash>> = BTreeMap::new();
        for (server, tool, definition) in rows {
            let hash = definition.parse().map_err(|_| StoreFault::Damaged {
                path: self.path.clone(),
                detail: "a pin is no hash".to_owned(),
            })?;
            pins.entry(server).or_default().insert(tool, hash);
        }
        Ok(pins)
    }

    /// The texts of one server's first-seen definitions.
    pub fn pin_texts(&self, server: &str) -> Result<Vec<Pin>, StoreFault> {
        let rows = self.with(|connection| {
            connection
                .prepare_cached(
                    "SELECT tool, definition, text FROM pins WHERE server = ?1 ORDER BY tool",
                )?
                .query_map([server], |row| {
                    Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?))
                })?
                .collect::<Result<Vec<(String, String, String)>, _>>()
        })?;
        rows.into_iter()
            .map(|(tool, definition, text)| match definition.parse() {
                Ok(definition) => Ok(Pin {
                    tool,
                    definition,
                    text,
                }),
                Err(_) => Err(StoreFault::Damaged {
                    path: self.path.clone(),
                    detail: "a pin is no hash".to_owned(),
                }),
            })
            .collect()
    }

    /// Pins the definitions of tools seen for the first time; a tool that has a pin keeps it. How many were new.
    pub fn pin_first_seen(
        &self,
        server: &str,
        seen: &[Pin],
        now: Timestamp,
    ) -> Result<usize, StoreFault> {
        self.change(|transaction| {
            let mut insert = transaction
                .prepare_cached("INSERT OR IGNORE INTO pins (server, tool, definition, text, seen) VALUES (?1, ?2, ?3, ?4, ?5)")?;
            let mut new = 0;
            for Pin { tool, definition, text } in seen {
                new += insert.execute(params![server, tool, definition.to_string(), text, now.as_millisecond()])?;
            }
            Ok(new)
        })
    }

    /// Forgets a server's pins, so that what it shows next is seen for the first time: the person accepts a change, or removes the server.
    pub fn forget_pins(&self, server: &str) -> Result<usize, StoreFault> {
        self.change(|transaction| {
            transaction.execute("DELETE FROM pins WHERE server = ?1", [server])
        })
    }

    /// Something went wrong with what the file holds.
    pub(super) fn fault(&self, detail: &str) -> StoreFault {
        StoreFault::Failed {
            path: self.path.clone(),
            detail: detail.to_owned(),
        }
    }

    pub(super) fn change<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreFault> {
        self.with(|connection| in_transaction(connection, work))
    }

    /// The same for work that may decide against itself: then nothing of it holds.
    pub(super) fn change_or_not<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<Result<T, T>>,
    ) -> Result<T, StoreFault> {
        self.with(|connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            match work(&transaction)? {
                Ok(done) => transaction.commit().map(|()| done),
                Err(against) => transaction.rollback().map(|()| against),
            }
        })
    }

    /// A change that survives every end of the process, but need not survive the machine's.
    pub(super) fn change_unflushed<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreFault> {
        self.with(|connection| {
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            let done = in_transaction(connection, work);
            connection.pragma_update(None, "synchronous", FORMAT.synchronous)?;
            done
        })
    }

    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreFault> {
        work(&mut self.lock()).map_err(|error| fault(&self.path, &error))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn key_record(row: &Row<'_>) -> rusqlite::Result<KeyRecord> {
    let scopes: Option<String> = row.get(2)?;
    let scopes = scopes
        .map(|text| serde_json::from_str(&text))
        .transpose()
        .map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(
                2,
                rusqlite::types::Type::Text,
                Box::new(error),
            )
        })?;
    let time = |at: usize| -> rusqlite::Result<Option<Timestamp>> {
        let millis: Option<i64> = row.get(at)?;
        millis
            .map(Timestamp::from_millisecond)
            .transpose()
            .map_err(|error| {
                rusqlite::Error::FromSqlConversionFailure(
                    at,
                    rusqlite::types::Type::Integer,
                    Box::new(error),
                )
            })
    };
    Ok(KeyRecord {
        agent: row.get(0)?,
        mac: KeyMac::from_bytes(row.get(1)?),
        scopes,
        expires_at: time(3)?,
        revoked_at: time(4)?,
    })
}

fn revoke(transaction: &Transaction<'_>, agent: &str, now: Timestamp) -> rusqlite::Result<usize> {
    transaction.execute(
        "UPDATE keys SET revoked = ?2 WHERE agent = ?1 AND revoked IS NULL",
        params![agent, now.as_millisecond()],
    )
}

/// Counts one use if it is allowed.
pub(super) fn count(transaction: &Transaction<'_>, claim: &UseClaim<'_>) -> rusqlite::Result<Uses> {
    let allowed = uses(transaction, claim)?;
    if allowed != Uses::Allowed {
        return Ok(allowed);
    }
    let scope = scope(claim);
    transaction
        .prepare_cached(
            "INSERT INTO uses (scope, server, tool, total) VALUES (?1, ?2, ?3, 1)
             ON CONFLICT (scope, server, tool) DO UPDATE SET total = total + 1",
        )?
        .execute(params![scope, claim.server, claim.tool])?;
    if let Some(rate) = claim.limits.rate {
        let now = claim.now.as_millisecond();
        transaction
            .prepare_cached(
                "DELETE FROM use_times WHERE scope = ?1 AND server = ?2 AND tool = ?3 AND at <= ?4",
            )?
            .execute(params![
                scope,
                claim.server,
                claim.tool,
                now - i64::from(rate.per_seconds) * 1000
            ])?;
        transaction
            .prepare_cached(
                "INSERT INTO use_times (scope, server, tool, at, call) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![scope, claim.server, claim.tool, now, claim.call_id])?;
    }
    Ok(Uses::Allowed)
}

/// What uses are counted under. The development permission's own text changes with the settings, so the agent stands for it.
fn scope(claim: &UseClaim<'_>) -> String {
    if claim.development {
        format!("development/{}", claim.agent)
    } else {
        claim.permission.to_string()
    }
}

fn uses(connection: &Connection, claim: &UseClaim<'_>) -> rusqlite::Result<Uses> {
    let scope = scope(claim);
    if let Some(most) = claim.limits.max_calls {
        let total: Option<i64> = connection
            .prepare_cached(
                "SELECT total FROM uses WHERE scope = ?1 AND server = ?2 AND tool = ?3",
            )?
            .query_row(params![scope, claim.server, claim.tool], |row| row.get(0))
            .optional()?;
        if u64::try_from(total.unwrap_or(0)).unwrap_or(u64::MAX) >= most {
            return Ok(Uses::MaxCalls);
        }
    }
    let Some(rate) = claim.limits.rate else {
        return Ok(Uses::Allowed);
    };
    let span = i64::from(rate.per_seconds) * 1000;
    if rate.max == 0 {
        return Ok(Uses::Rate {
            free_at: Timestamp::MAX,
        });
    }
    // The `max`-th latest use decides: while it lies in the window, the window is full.
    let deciding: Option<i64> = connection
        .prepare_cached(
            "SELECT at FROM use_times WHERE scope = ?1 AND server = ?2 AND tool = ?3 ORDER BY at DESC LIMIT 1 OFFSET ?4",
        )?
        .query_row(params![scope, claim.server, claim.tool, rate.max - 1], |row| row.get(0))
        .optional()?;
    Ok(match deciding {
        Some(at) if at.saturating_add(span) > claim.now.as_millisecond() => Uses::Rate {
            free_at: Timestamp::from_millisecond(at.saturating_add(span)).unwrap_or(Timestamp::MAX),
        },
        _ => Uses::Allowed,
    })
}

#[cfg(test)]
mod tests {
    use countersign_permission::{CallLimits, Rate};

    use super::*;

    fn world() -> (tempfile::TempDir, Folder, StateDb) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::resolve(Some(&temp.path().join("dir"))).unwrap();
        folder.create().unwrap();
        let state = StateDb::create(&folder).unwrap();
        (temp, folder, state)
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn record(agent: &str) -> KeyRecord {
        KeyRecord {
            agent: agent.to_owned(),
            mac: KeyMac::from_bytes([3; 32]),
            scopes: Some(vec!["files:read".to_owned()]),
            expires_at: Some(at(5000)),
            revoked_at: None,
        }
    }

    #[test]
    fn a_revocation_of_another_process_counts_at_once() {
        let (_temp, folder, state) = world();
        let other = StateDb::open(&folder).unwrap();
        other
            .add_key("csk_aaaaaaaa", &record("bar"), at(1))
            .unwrap();
        assert_eq!(state.key("csk_aaaaaaaa").unwrap(), Some(record("bar")));
        assert_eq!(state.key("csk_bbbbbbbb").unwrap(), None);
        assert_eq!(other.revoke("bar", at(2)).unwrap(), 1);
        assert_eq!(
            state.key("csk_aaaaaaaa").unwrap().unwrap().revoked_at,
            Some(at(2))
        );
        assert_eq!(other.revoke("bar", at(3)).unwrap(), 0);
        // A new key of the same agent ends the old ones.
        other
            .add_key("csk_bbbbbbbb", &record("foo"), at(4))
            .unwrap();
        other
            .add_key("csk_cccccccc", &record("foo"), at(5))
            .unwrap();
        assert_eq!(
            state.key("csk_bbbbbbbb").unwrap().unwrap().revoked_at,
            Some(at(5))
        );
        assert_eq!(state.key("csk_cccccccc").unwrap().unwrap().revoked_at, None);
    }

    #[test]
    fn r94_uses_are_counted_across_processes() {
        let (_temp, folder, state) = world();
        let other = StateDb::open(&folder).unwrap();
        let permission = Hash::of(b"p");
        let claim = |limits, now, call| UseClaim {
            permission: &permission,
            development: true,
            agent: "bar",
            server: "s",
            tool: "t",
            call_id: call,
            limits,
            now: at(now),
        };
        let most = CallLimits {
            max_calls: Some(2),
            rate: None,
        };
        for (db, call, expected) in [
            (&state, "1", Uses::Allowed),
            (&other, "2", Uses::Allowed),
            (&state, "3", Uses::MaxCalls),
            (&other, "3", Uses::MaxCalls),
        ] {
            assert_eq!(db.uses_left(&claim(most, 0, call)).unwrap(), expected);
            assert_eq!(db.count_use(&claim(most, 0, call)).unwrap(), expected);
        }
        let signed = UseClaim {
            development: false,
            ..claim(most, 0, "4")
        };
        assert_eq!(
            state.count_use(&signed).unwrap(),
            Uses::Allowed,
            "a permission has its own count"
        );

        let rate = CallLimits {
            max_calls: None,
            rate: Some(Rate {
                per_seconds: 10,
                max: 2,
            }),
        };
        let claim = |now, call| UseClaim {
            tool: "r",
            ..claim(rate, now, call)
        };
        for (now, call, expected) in [
            (1000, "1", Uses::Allowed),
            (3000, "2", Uses::Allowed),
            (
                10_999,
                "3",
                Uses::Rate {
                    free_at: at(11_000),
                },
            ),
            (11_000, "3", Uses::Allowed),
            (
                11_001,
                "4",
                Uses::Rate {
                    free_at: at(13_000),
                },
            ),
        ] {
            assert_eq!(
                other.count_use(&claim(now, call)).unwrap(),
                expected,
                "at {now}"
            );
        }
        let unlimited = UseClaim {
            limits: CallLimits::default(),
            ..claim(0, "5")
        };
        assert_eq!(state.count_use(&unlimited).unwrap(), Uses::Allowed);
    }

    #[test]
    fn the_first_definition_stays_until_it_is_forgotten() {
        let (_temp, _folder, state) = world();
        let pin = |tool: &str, text: &str| Pin {
            tool: tool.to_owned(),
            definition: Hash::of(text.as_bytes()),
            text: text.to_owned(),
        };
        assert_eq!(
            state
                .pin_first_seen("s", &[pin("a", "1"), pin("b", "1")], at(0))
                .unwrap(),
            2
        );
        assert_eq!(
            state
                .pin_first_seen("s", &[pin("a", "2"), pin("c", "1")], at(1))
                .unwrap(),
            1
        );
        assert_eq!(state.pins().unwrap()["s"]["a"], Hash::of(b"1"));
        assert_eq!(
            state.pin_texts("s").unwrap(),
            [pin("a", "1"), pin("b", "1"), pin("c", "1")]
        );
        assert_eq!(state.forget_pins("s").unwrap(), 3);
        assert!(state.pins().unwrap().is_empty());
    }

    #[test]
    fn broken_missing_and_newer_files_are_said() {
        let (_temp, folder, state) = world();
        drop(state);
        let connection = Connection::open(folder.state_db()).unwrap();
        connection.pragma_update(None, "user_version", 7).unwrap();
        drop(connection);
        assert!(matches!(
            StateDb::open(&folder),
            Err(StoreFault::Newer { version: 7, .. })
        ));
        crate::folder::replace(&folder.state_db(), &[b'x'; 4096]).unwrap();
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(folder.root().join(format!("state.db{suffix}")));
        }
        assert!(matches!(
            StateDb::open(&folder),
            Err(StoreFault::Damaged { .. })
        ));
        std::fs::remove_file(folder.state_db()).unwrap();
        assert!(matches!(
            StateDb::open(&folder),
            Err(StoreFault::Missing(_))
        ));
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            StateDb::create(&folder).unwrap();
            assert_eq!(
                std::fs::metadata(folder.state_db()).unwrap().mode() & 0o777,
                0o600
            );
        }
    }
}
