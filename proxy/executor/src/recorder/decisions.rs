//! What a person or an agent decided about held calls, as entries, and that the decision stands in the book before the call it lets run.
//! Owns the wording and the order; refuses to decide.

use std::sync::Arc;
use std::time::Duration;

use countersign_book::{Approval, Draft};

use crate::commands::plain;
use crate::folder::{FileLock, Folder};
use crate::store::{DecidedFact, SharedStore};

use super::turns::moment;

/// The lock in `run/` of whoever brings what the store owes into the book.
pub const LOCK: &str = "owed.lock";

/// How long an approved call waits for another process that is at it.
const WAIT: Duration = Duration::from_secs(5);

/// Decisions that are owed to the book, for calls that are about to be written there.
#[derive(Clone)]
pub struct Decisions {
    folder: Folder,
    store: Arc<SharedStore>,
}

/// Decisions about one approval, to stand before its call. Nobody else writes them as long as this lives.
pub struct Ahead {
    /// Their entries.
    pub drafts: Vec<Draft>,
    facts: Vec<DecidedFact>,
    store: Arc<SharedStore>,
    _lock: Option<FileLock>,
}

impl Decisions {
    /// Those of this executor.
    #[must_use]
    pub fn new(folder: &Folder, store: &Arc<SharedStore>) -> Self {
        Self {
            folder: folder.clone(),
            store: Arc::clone(store),
        }
    }

    /// What is owed about `approval`.
    ///
    /// # Errors
    /// Why it cannot be told, for the log: then its call must not run.
    pub async fn about(&self, approval: &str) -> Result<Ahead, String> {
        let (own, approval) = (self.clone(), approval.to_owned());
        tokio::task::spawn_blocking(move || own.look(&approval))
            .await
            .unwrap_or_else(|error| Err(error.to_string()))
    }

    fn look(&self, approval: &str) -> Result<Ahead, String> {
        let owed = || {
            let owed = self.store.state.decisions_owed_of(approval);
            owed.map_err(|fault| fault.to_string())
        };
        let (mut facts, mut lock) = (owed()?, None);
        if !facts.is_empty() {
            let held = self.folder.lock(LOCK, WAIT);
            lock = Some(held.map_err(|error| error.to_string())?);
            // Whoever had the lock may have written them.
            facts = owed()?;
        }
        Ok(Ahead {
            drafts: facts.iter().map(draft).collect(),
            facts,
            store: Arc::clone(&self.store),
            _lock: lock,
        })
    }
}

impl Ahead {
    /// They are in the book.
    pub fn written(self) {
        if let Err(error) = self.store.state.decisions_recorded(&self.facts) {
            tracing::warn!(%error, "a decision that is in the book is looked for there again");
        }
    }
}

/// The entry of a decision.
#[must_use]
pub fn draft(fact: &DecidedFact) -> Draft {
    Draft::new(Approval {
        actor: fact.actor,
        agent: fact.agent.as_deref().map(plain),
        approval: fact.approval.clone(),
        at: moment(fact.at),
        hash: None,
        proof: None,
        server: plain(&fact.server),
        tool: plain(&fact.tool),
        verdict: fact.verdict,
        via: fact.via.clone(),
    })
}
