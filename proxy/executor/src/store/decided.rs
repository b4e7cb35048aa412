//! What was decided about held calls and is not in the book yet, in `state.db`: written with the decision in one transaction, forgotten
//! once it is on record. Decides nothing.

use countersign_book::{Actor, Decided};
use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, Transaction, params};

use super::{StateDb, StoreFault};

/// Times are milliseconds since 1970.
pub(super) const SCHEMA: &str = "
    CREATE TABLE approval_facts (id INTEGER PRIMARY KEY, approval TEXT NOT NULL, verdict TEXT NOT NULL, actor TEXT NOT NULL,
                                 via TEXT NOT NULL, at INTEGER NOT NULL, UNIQUE (approval, verdict));";

const COLUMNS: &str = "f.approval, f.verdict, f.actor, f.via, f.at, a.actor, a.server, a.tool";

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedFact {
    /// The approval.
    pub approval: String,
    /// What.
    pub verdict: Decided,
    /// Who.
    pub actor: Actor,
    /// The command, program or tool.
    pub via: String,
    /// When.
    pub at: Timestamp,
    /// The agent whose call it is.
    pub agent: Option<String>,
    /// The server.
    pub server: String,
    /// The tool.
    pub tool: String,
}

/// A decision as it is made.
pub(super) struct Made<'a> {
    pub verdict: Decided,
    pub actor: Actor,
    pub via: &'a str,
    pub at: Timestamp,
}

impl StateDb {
    /// Every decision that is not in the book yet, oldest first.
    pub fn decisions_owed(&self) -> Result<Vec<DecidedFact>, StoreFault> {
        self.with(|connection| owed(connection, None))
    }

    /// Those about one approval.
    pub fn decisions_owed_of(&self, approval: &str) -> Result<Vec<DecidedFact>, StoreFault> {
        self.with(|connection| owed(connection, Some(approval)))
    }

    /// The decisions are in the book.
    pub fn decisions_recorded(&self, facts: &[DecidedFact]) -> Result<(), StoreFault> {
        if facts.is_empty() {
            return Ok(());
        }
        self.change_unflushed(|transaction| {
            let mut delete = transaction.prepare_cached(
                "DELETE FROM approval_facts WHERE approval = ?1 AND verdict = ?2",
            )?;
            for fact in facts {
                delete.execute(params![fact.approval, text(fact.verdict)])?;
            }
            Ok(())
        })
    }
}

/// Keeps a decision until it is in the book. To be called in the transaction that makes it.
pub(super) fn keep(
    transaction: &Transaction<'_>,
    approval: &str,
    made: &Made<'_>,
) -> rusqlite::Result<()> {
    let actor = match made.actor {
        Actor::Agent => "agent",
        Actor::Person => "person",
        Actor::Public => "public",
    };
    transaction
        .prepare_cached("INSERT OR IGNORE INTO approval_facts (approval, verdict, actor, via, at) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![approval, text(made.verdict), actor, made.via, made.at.as_millisecond()])?;
    Ok(())
}

fn owed(connection: &Connection, approval: Option<&str>) -> rusqlite::Result<Vec<DecidedFact>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM approval_facts f JOIN approvals a ON a.id = f.approval
             WHERE ?1 IS NULL OR f.approval = ?1 ORDER BY f.id"
        ))?
        .query_map([approval], read)?
        .collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<DecidedFact> {
    let wrong = |column: usize, what: &'static str| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into())
    };
    let of: String = row.get(5)?;
    Ok(DecidedFact {
        approval: row.get(0)?,
        verdict: match row.get::<_, String>(1)?.as_str() {
            "approve" => Decided::Approve,
            "decline" => Decided::Decline,
            "withdraw" => Decided::Withdraw,
            _ => return Err(wrong(1, "no verdict")),
        },
        actor: match row.get::<_, String>(2)?.as_str() {
            "agent" => Actor::Agent,
            "person" => Actor::Person,
            "public" => Actor::Public,
            _ => return Err(wrong(2, "nobody who decides")),
        },
        via: row.get(3)?,
        at: Timestamp::from_millisecond(row.get(4)?).map_err(|_| wrong(4, "no time"))?,
        agent: of.strip_prefix("agent/").map(str::to_owned),
        server: row.get(6)?,
        tool: row.get(7)?,
    })
}

fn text(verdict: Decided) -> &'static str {
    match verdict {
        Decided::Approve => "approve",
        Decided::Decline => "decline",
        Decided::Withdraw => "withdraw",
    }
}
