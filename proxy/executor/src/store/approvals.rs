//! Approvals in `state.db`: one row a held call, its arguments, preview and answer sealed. The rules are the gate's.

use countersign_book::{Actor, Decided};
use countersign_gate::approval::{
    self, Approval, ApprovalState, By, DecideError, LIFE, Needs, Pulse, Verdict, stands,
};
use countersign_gate::bound::Bound;
use countersign_gate::facts::APPROVAL;
use countersign_gate::idempotency::{Owner, Stored};
use countersign_gate::ports::{End, Hold, Mark, Waits};
use countersign_permission::Hash;
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::decided::{Made, keep};
use super::serving::Serving;
use super::{Seal, StateDb, StoreFault};

/// Times are milliseconds since 1970.
pub(super) const SCHEMA: &str = "
    CREATE TABLE approvals (id TEXT PRIMARY KEY NOT NULL, actor TEXT NOT NULL, server TEXT NOT NULL, tool TEXT NOT NULL,
                            arguments TEXT NOT NULL, definition TEXT NOT NULL, fingerprint TEXT NOT NULL,
                            needs TEXT NOT NULL CHECK (needs IN ('person', 'passkey')),
                            state TEXT NOT NULL CHECK (state IN ('waiting', 'approved', 'running', 'done', 'failed', 'rejected', 'expired')),
                            created INTEGER NOT NULL, expires INTEGER NOT NULL, decided INTEGER,
                            call TEXT, process TEXT, heartbeat INTEGER, delivered INTEGER NOT NULL DEFAULT 0,
                            held BLOB, preview BLOB, answer BLOB);
    CREATE INDEX approvals_bound ON approvals (actor, server, tool, arguments);";

const COLUMNS: &str = "id, actor, server, tool, arguments, definition, fingerprint, needs, state, expires, call, process, heartbeat, answer, delivered, created";

/// An approval as the person sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// The approval.
    pub approval: Approval,
    /// When it was asked for.
    pub created_at: Timestamp,
}

/// What is decided about, opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The arguments it would run with, JSON text.
    pub arguments: Vec<u8>,
    /// The preview, JSON text.
    pub preview: Vec<u8>,
}

/// Why a decision was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Undecided {
    /// Nobody asked.
    #[error("there is no approval `{0}`")]
    Unknown(String),
    /// It cannot be decided so.
    #[error(transparent)]
    Rule(#[from] DecideError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreFault),
}

/// How to know the living and to open what is sealed; a command that decides can do neither and needs neither.
#[derive(Clone, Copy)]
pub(super) struct Eyes<'a> {
    /// Whether a process lives.
    pub owner: &'a dyn Fn(&str) -> Owner,
    /// Opens answers.
    pub seal: Option<&'a Seal>,
}

impl Serving {
    fn eyes<T>(&self, see: impl FnOnce(Eyes<'_>) -> T) -> T {
        see(Eyes {
            owner: &|process| self.owner(process),
            seal: Some(&self.seal),
        })
    }
}

impl StateDb {
    /// The newest approval of this call that still means something for it.
    pub(super) fn approval_for(
        &self,
        bound: &Bound,
        now: Timestamp,
        serving: &Serving,
    ) -> Result<Option<Approval>, StoreFault> {
        self.with(|connection| serving.eyes(|eyes| meaning(connection, bound, now, eyes)))
    }

    /// The approval of that id.
    pub(super) fn approval(
        &self,
        id: &str,
        now: Timestamp,
        serving: &Serving,
    ) -> Result<Option<Approval>, StoreFault> {
        self.with(|connection| serving.eyes(|eyes| find(connection, id, now, eyes)))
            .map(|found| found.map(|row| row.held.approval))
    }

    /// Keeps a new one, or gives the one there is.
    pub(super) fn hold(&self, hold: &Hold<'_>, serving: &Serving) -> Result<Approval, StoreFault> {
        let approval = hold.approval;
        let seal = |what: &str, text: &[u8]| {
            let sealed = serving.seal.seal(&about(what, &approval.id), text);
            sealed.map_err(|error| self.fault(&error.to_string()))
        };
        let held = seal("arguments", hold.arguments)?;
        let preview = seal("preview", hold.preview)?;
        self.change(|transaction| {
            let found = serving.eyes(|eyes| meaning(transaction, &approval.bound, hold.now, eyes))?;
            if let Some(found) = found {
                return Ok(found);
            }
            let Bound {
                actor,
                server,
                tool,
                arguments,
            } = &approval.bound;
            let needs = match approval.needs {
                Needs::Person => "person",
                Needs::Passkey => "passkey",
            };
            transaction
                .prepare_cached(
                    "INSERT INTO approvals (id, actor, server, tool, arguments, definition, fingerprint, needs, state,
                                            created, expires, held, preview)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'waiting', ?9, ?10, ?11, ?12)",
                )?
                .execute(params![
                    &*approval.id,
                    &**actor,
                    &**server,
                    &**tool,
                    arguments.to_string(),
                    approval.definition.to_string(),
                    approval.fingerprint,
                    needs,
                    hold.now.as_millisecond(),
                    approval.expires_at.as_millisecond(),
                    held,
                    preview
                ])?;
            Ok(approval.clone())
        })
    }

    /// Marks one, where the mark fits.
    pub(super) fn mark(&self, id: &str, mark: Mark, now: Timestamp) -> Result<(), StoreFault> {
        let (set, of) = match mark {
            Mark::Delivered => ("delivered = 1", "'done', 'failed', 'running'"),
            Mark::Changed => ("state = 'expired'", "'waiting', 'approved'"),
            Mark::Withdrawn => ("state = 'rejected'", "'waiting', 'approved'"),
        };
        self.change(|transaction| {
            let marked = transaction.execute(
                &format!(
                    "UPDATE approvals SET {set}, decided = coalesce(decided, ?2) WHERE id = ?1 AND state IN ({of})"
                ),
                params![id, now.as_millisecond()],
            )?;
            if marked == 1 && mark == Mark::Withdrawn {
                let made = Made {
                    verdict: Decided::Withdraw,
                    actor: Actor::Agent,
                    via: APPROVAL,
                    at: now,
                };
                keep(transaction, id, &made)?;
            }
            Ok(())
        })
    }

    /// The person decides; `via` is the command or program they decide with. Kept as owed to the book in the same transaction.
    ///
    /// # Errors
    /// When it is unknown, no longer waiting, or needs a signature.
    pub fn decide(
        &self,
        id: &str,
        verdict: Verdict,
        (by, via): (&By, &str),
        now: Timestamp,
    ) -> Result<ApprovalState, Undecided> {
        let decided = self.change(|transaction| {
            let eyes = Eyes {
                owner: &|_| Owner::Alive,
                seal: None,
            };
            let Some(found) = find(transaction, id, now, eyes)? else {
                return Ok(None);
            };
            let Approval { state, needs, .. } = found.held.approval;
            let decided = approval::decide(state, needs, verdict, by);
            if let Ok(state) = decided {
                transaction.execute(
                    "UPDATE approvals SET state = ?2, decided = ?3 WHERE id = ?1",
                    params![id, state.text(), now.as_millisecond()],
                )?;
                let made = Made {
                    verdict: match verdict {
                        Verdict::Approve => Decided::Approve,
                        Verdict::Decline => Decided::Decline,
                    },
                    actor: Actor::Person,
                    via,
                    at: now,
                };
                keep(transaction, id, &made)?;
            }
            Ok(Some(decided))
        })?;
        match decided {
            None => Err(Undecided::Unknown(id.to_owned())),
            Some(decided) => Ok(decided?),
        }
    }

    /// The newest approvals, newest first. `owner` knows the living processes.
    pub fn approvals(
        &self,
        now: Timestamp,
        most: u32,
        owner: &dyn Fn(&str) -> Owner,
    ) -> Result<Vec<Held>, StoreFault> {
        let eyes = Eyes { owner, seal: None };
        self.with(|connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM approvals ORDER BY created DESC, id DESC LIMIT ?1"
                ))?
                .query_map([most], |row| read(row, now, eyes))?
                .map(|row| row.map(|row| row.held))
                .collect()
        })
    }

    /// What one would run with and what the person is shown, opened with `seal`; nothing where that is no longer kept.
    pub fn open_approval(&self, id: &str, seal: &Seal) -> Result<Option<Opened>, StoreFault> {
        let sealed = self.with(|connection| {
            connection
                .prepare_cached("SELECT held, preview FROM approvals WHERE id = ?1")?
                .query_row([id], |row| {
                    Ok((
                        row.get::<_, Option<Vec<u8>>>(0)?,
                        row.get::<_, Option<Vec<u8>>>(1)?,
                    ))
                })
                .optional()
        })?;
        let Some((Some(held), Some(preview))) = sealed else {
            return Ok(None);
        };
        let open = |what: &str, sealed: &[u8]| {
            let opened = seal.open(&about(what, id), sealed);
            opened.map_err(|error| self.fault(&error.to_string()))
        };
        Ok(Some(Opened {
            arguments: open("arguments", &held)?,
            preview: open("preview", &preview)?,
        }))
    }

    /// A running one made progress: its silence starts anew.
    pub fn heartbeat(&self, id: &str, now: Timestamp) -> Result<(), StoreFault> {
        self.change_unflushed(|transaction| {
            transaction
                .prepare_cached("UPDATE approvals SET heartbeat = max(heartbeat, ?2) WHERE id = ?1 AND state = 'running'")?
                .execute(params![id, now.as_millisecond()])?;
            Ok(())
        })
    }

    /// The same for the one that runs as `call`; nothing where there is none.
    pub fn heartbeat_of(&self, call: &str, now: Timestamp) -> Result<(), StoreFault> {
        let id: Option<String> = self.with(|connection| {
            connection
                .prepare_cached("SELECT id FROM approvals WHERE call = ?1 AND state = 'running'")?
                .query_row([call], |row| row.get(0))
                .optional()
        })?;
        id.map_or(Ok(()), |id| self.heartbeat(&id, now))
    }

    /// Writes down what time and silence ended: waiting and approved ones that expired, running ones that were interrupted. How many.
    pub fn sweep_approvals(
        &self,
        now: Timestamp,
        owner: &dyn Fn(&str) -> Owner,
    ) -> Result<usize, StoreFault> {
        let eyes = Eyes { owner, seal: None };
        self.change(|transaction| {
            let open: Vec<(String, ApprovalState)> = transaction
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM approvals WHERE state IN ('waiting', 'approved', 'running')"
                ))?
                .query_map([], |row| {
                    let seen = read(row, now, eyes)?.held.approval;
                    Ok((seen.id.to_string(), seen.state))
                })?
                .collect::<Result<_, _>>()?;
            let mut ended = 0;
            for (id, state) in open {
                if matches!(state, ApprovalState::Expired | ApprovalState::Failed) {
                    ended += transaction
                        .prepare_cached("UPDATE approvals SET state = ?2 WHERE id = ?1")?
                        .execute([&id, state.text()])?;
                }
            }
            // What is over is told for as long as an approval lives, then what it held goes.
            let life = i64::try_from(LIFE.as_millis()).unwrap_or(i64::MAX);
            transaction
                .prepare_cached(
                    "UPDATE approvals SET held = NULL, preview = NULL, answer = NULL
                     WHERE held IS NOT NULL AND state NOT IN ('waiting', 'approved', 'running') AND expires <= ?1",
                )?
                .execute([now.as_millisecond() - life])?;
            Ok(ended)
        })
    }
}

/// Begins to run an approved one; its state where it is not approved.
pub(super) fn run(
    transaction: &Transaction<'_>,
    id: &str,
    (call, now): (&str, Timestamp),
    serving: &Serving,
) -> rusqlite::Result<Result<(), Option<ApprovalState>>> {
    let found = serving.eyes(|eyes| find(transaction, id, now, eyes))?;
    let state = found.map(|row| row.held.approval.state);
    if state != Some(ApprovalState::Approved) {
        return Ok(Err(state));
    }
    transaction
        .prepare_cached(
            "UPDATE approvals SET state = 'running', call = ?2, process = ?3, heartbeat = ?4 WHERE id = ?1",
        )?
        .execute(params![id, call, serving.process, now.as_millisecond()])?;
    Ok(Ok(()))
}

/// Settles the one `call` still runs under.
pub(super) fn settle(
    transaction: &Transaction<'_>,
    id: &str,
    call: &str,
    (end, waits): (&End, Waits),
    sealed: Option<&[u8]>,
) -> rusqlite::Result<()> {
    let (state, delivered) = match end {
        End::Answered(_) => ("done", waits == Waits::Agent),
        End::Unknown => ("failed", false),
        End::NotSent => ("approved", false),
    };
    transaction
        .prepare_cached(
            "UPDATE approvals SET state = ?3, delivered = ?4, answer = ?5 WHERE id = ?1 AND call = ?2 AND state = 'running'",
        )?
        .execute(params![id, call, state, delivered, sealed])?;
    Ok(())
}

/// What something of an approval is sealed for.
pub(super) fn about(what: &str, id: &str) -> String {
    format!("approval\0{what}\0{id}")
}

struct Seen {
    held: Held,
    delivered: bool,
}

fn meaning(
    connection: &Connection,
    bound: &Bound,
    now: Timestamp,
    eyes: Eyes<'_>,
) -> rusqlite::Result<Option<Approval>> {
    let Bound {
        actor,
        server,
        tool,
        arguments,
    } = bound;
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM approvals WHERE actor = ?1 AND server = ?2 AND tool = ?3 AND arguments = ?4
         ORDER BY created DESC, id DESC"
    ))?;
    let rows = statement.query_map(
        params![&**actor, &**server, &**tool, arguments.to_string()],
        |row| read(row, now, eyes),
    )?;
    for row in rows {
        let Seen { held, delivered } = row?;
        let means = match held.approval.state {
            ApprovalState::Waiting | ApprovalState::Approved | ApprovalState::Running => true,
            ApprovalState::Done | ApprovalState::Failed => !delivered,
            ApprovalState::Rejected => now < held.approval.expires_at,
            ApprovalState::Expired => false,
        };
        if means {
            return Ok(Some(held.approval));
        }
    }
    Ok(None)
}

fn find(
    connection: &Connection,
    id: &str,
    now: Timestamp,
    eyes: Eyes<'_>,
) -> rusqlite::Result<Option<Seen>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM approvals WHERE id = ?1"))?
        .query_row([id], |row| read(row, now, eyes))
        .optional()
}

fn read(row: &Row<'_>, now: Timestamp, eyes: Eyes<'_>) -> rusqlite::Result<Seen> {
    let text = |at: usize| row.get::<_, String>(at);
    // A hash that cannot be read is no call's and no tool's.
    let hash = |text: String| text.parse().unwrap_or(Hash::from_bytes([0; 32]));
    let time = |millis| Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MIN);
    let id = text(0)?;
    let written = text(8)?;
    let written = ApprovalState::ALL
        .into_iter()
        .find(|state| state.text() == written)
        .unwrap_or(ApprovalState::Expired);
    let expires_at = time(row.get(9)?);
    let process: Option<String> = row.get(11)?;
    let heartbeat: Option<i64> = row.get(12)?;
    let pulse = process
        .filter(|_| written == ApprovalState::Running)
        .zip(heartbeat)
        .map(|(process, heartbeat)| Pulse {
            heartbeat: time(heartbeat),
            owner: (eyes.owner)(&process),
        });
    let sealed: Option<Vec<u8>> = row.get(13)?;
    let answer = eyes.seal.zip(sealed).and_then(|(seal, sealed)| {
        Stored::decode(&seal.open(&about("answer", &id), &sealed).ok()?)
    });
    Ok(Seen {
        held: Held {
            created_at: time(row.get(15)?),
            approval: Approval {
                bound: Bound {
                    actor: text(1)?.into(),
                    server: text(2)?.into(),
                    tool: text(3)?.into(),
                    arguments: hash(text(4)?),
                },
                definition: hash(text(5)?),
                fingerprint: text(6)?,
                // Whatever is not exactly `person` must be signed.
                needs: if text(7)? == "person" {
                    Needs::Person
                } else {
                    Needs::Passkey
                },
                state: stands(written, expires_at, pulse, now),
                expires_at,
                call_id: row.get(10)?,
                answer,
                id: id.into(),
            },
        },
        delivered: row.get(14)?,
    })
}
