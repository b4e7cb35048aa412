//! `countersign.act/1`: one act that widens, resets, erases or drops evidence, signed before it is done.

use serde::{Deserialize, Serialize};

use super::{
    Body, ExecutorKey, ExecutorRef, Id, KeyringRef, Name, Time, check_distinct, check_text,
};
use crate::{Hash, Reason, Refusal};

/// Seconds a person has to sign an act, and the executor to do it.
const ACT_SECONDS: i64 = 300;

/// `countersign.act/1`: done at most once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActDocument {
    /// 16 random bytes of the executor; an act is done once for each.
    pub id: Id,
    /// The executor it is done in.
    pub executor: ExecutorRef,
    /// The keyring as it stood.
    pub keyring: KeyringRef,
    /// What is done.
    pub act: Act,
    /// When it was asked for.
    pub issued_at: Time,
    /// First moment it can no longer be done.
    pub expires_at: Time,
}

/// What is done. A growing list: a new act is a new member of this table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Act {
    /// A new turn for an agent, whatever latched the last one.
    TurnOpen {
        /// The agent.
        agent: Name,
    },
    /// The payloads of one call are erased.
    BookErase {
        /// The call's id.
        call: String,
    },
    /// Entries before an index are removed.
    BookPrune {
        /// The first index that stays.
        before: u64,
    },
    /// The book starts anew behind the old one.
    BookNewEra {
        /// Entries of the old book.
        size: u64,
        /// Its root hash.
        root: Hash,
    },
    /// The executor signs with another key from now on.
    KeyRotate {
        /// The key until now.
        from: ExecutorKey,
        /// The key from now on.
        to: ExecutorKey,
    },
    /// A copy of the book is no longer kept.
    CopyRemove {
        /// The folder or witness.
        copy: String,
    },
    /// A secret is handed to a server of another identity than the one it was stored for.
    SecretUse {
        /// The secret's place, `<server>/<KEY>`.
        secret: String,
        /// The server.
        server: Name,
        /// The hash of its identity.
        identity: Hash,
    },
    /// The clock is right although it is behind the book.
    ClockReset {
        /// The time of the last entry.
        last: Time,
        /// The time now.
        now: Time,
    },
    /// The person's own session may write through these servers and no others.
    PersonWrites {
        /// Their names.
        servers: Vec<Name>,
    },
}

/// Every act with its word.
pub const ACTS: [&str; 9] = [
    "turn_open",
    "book_erase",
    "book_prune",
    "book_new_era",
    "key_rotate",
    "copy_remove",
    "secret_use",
    "clock_reset",
    "person_writes",
];

impl Act {
    /// The word it is written as.
    #[must_use]
    pub fn word(&self) -> &'static str {
        let place = match self {
            Self::TurnOpen { .. } => 0,
            Self::BookErase { .. } => 1,
            Self::BookPrune { .. } => 2,
            Self::BookNewEra { .. } => 3,
            Self::KeyRotate { .. } => 4,
            Self::CopyRemove { .. } => 5,
            Self::SecretUse { .. } => 6,
            Self::ClockReset { .. } => 7,
            Self::PersonWrites { .. } => 8,
        };
        ACTS[place]
    }
}

impl Body for ActDocument {
    const TYPE: &'static str = "countersign.act/1";

    fn check(&self) -> Result<(), Refusal> {
        match &self.act {
            Act::BookErase { call } => check_text("act.book_erase.call", call, 128)?,
            Act::CopyRemove { copy } => check_text("act.copy_remove.copy", copy, 4096)?,
            Act::SecretUse { secret, .. } => check_text("act.secret_use.secret", secret, 256)?,
            Act::PersonWrites { servers } => {
                check_distinct(
                    "act.person_writes.servers",
                    servers.iter().map(Name::as_str),
                )?;
            }
            Act::TurnOpen { .. }
            | Act::BookPrune { .. }
            | Act::BookNewEra { .. }
            | Act::KeyRotate { .. }
            | Act::ClockReset { .. } => {}
        }
        let life = self.expires_at.seconds_after(self.issued_at);
        if !(1..=ACT_SECONDS).contains(&life) {
            return Err(Reason::Times.because("an act is signed and done within 5 minutes"));
        }
        Ok(())
    }
}
