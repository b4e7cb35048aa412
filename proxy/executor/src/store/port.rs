//! The gate's `Store` port over both files. Translates, decides nothing.

use countersign_gate::approval::Approval;
use countersign_gate::bound::Bound;
use countersign_gate::confirmation::Confirmation;
use countersign_gate::idempotency::Twin;
use countersign_gate::ports::{
    Charge, CountedRefusal, Hold, KeyClaim, KeyRecord, Mark, Pending, Prompt, Settle, Store,
    StoreError, Take, Taken, UseClaim, Uses,
};
use countersign_gate::rate::Charged;
use jiff::Timestamp;

use crate::folder::Folder;

use super::{BucketsDb, Serving, StateDb, StoreFault};

/// The stores of one executor, as the gate uses them. Every call is short (tens of microseconds; a counted use one flush) and is made
/// where it is awaited.
#[derive(Debug)]
pub struct SharedStore {
    /// What must survive.
    pub state: StateDb,
    /// What need not.
    pub buckets: BucketsDb,
    /// The process that runs calls through it; without one nothing can be claimed.
    serving: Option<Serving>,
}

impl SharedStore {
    /// Opens both.
    pub fn open(folder: &Folder) -> Result<SharedStore, StoreFault> {
        Ok(SharedStore {
            state: StateDb::open(folder)?,
            buckets: BucketsDb::open(folder)?,
            serving: None,
        })
    }

    /// The same for a process that runs calls.
    #[must_use]
    pub fn serving(mut self, serving: Serving) -> SharedStore {
        self.serving = Some(serving);
        self
    }

    /// The arguments of a held call, opened; nothing where they are no longer kept.
    ///
    /// # Errors
    /// When the store fails or they cannot be opened.
    pub fn held_arguments(&self, id: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let seal = &self.served()?.seal;
        let opened = self.state.open_approval(id, seal);
        opened
            .map(|opened| opened.map(|opened| opened.arguments))
            .map_err(|fault| said(&fault))
    }

    pub(super) fn served(&self) -> Result<&Serving, StoreError> {
        self.serving.as_ref().ok_or_else(|| StoreError {
            why: "this process runs no calls",
            detail: "this process does not run calls".to_owned(),
        })
    }
}

impl Store for SharedStore {
    fn key<'a>(&'a self, prefix: &'a str) -> Pending<'a, Result<Option<KeyRecord>, StoreError>> {
        Box::pin(async move { self.state.key(prefix).map_err(|fault| said(&fault)) })
    }

    fn charge<'a>(&'a self, charge: Charge<'a>) -> Pending<'a, Result<Charged, StoreError>> {
        let Charge {
            bucket,
            size,
            units,
            now,
        } = charge;
        Box::pin(async move {
            self.buckets
                .charge(
                    bucket.class(),
                    bucket.owner(),
                    size,
                    units,
                    now.as_millisecond(),
                )
                .map_err(|fault| said(&fault))
        })
    }

    fn balance<'a>(&'a self, charge: Charge<'a>) -> Pending<'a, Result<Charged, StoreError>> {
        let Charge {
            bucket, size, now, ..
        } = charge;
        Box::pin(async move {
            self.buckets
                .balance(bucket.class(), bucket.owner(), size, now.as_millisecond())
                .map_err(|fault| said(&fault))
        })
    }

    fn count_refusal<'a>(
        &'a self,
        refusal: CountedRefusal<'a>,
    ) -> Pending<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.buckets
                .count_refusal(
                    refusal.agent,
                    refusal.code.text(),
                    refusal.at.as_millisecond(),
                )
                .map_err(|fault| said(&fault))
        })
    }

    fn uses_left<'a>(&'a self, claim: UseClaim<'a>) -> Pending<'a, Result<Uses, StoreError>> {
        Box::pin(async move { self.state.uses_left(&claim).map_err(|fault| said(&fault)) })
    }

    fn twin<'a>(
        &'a self,
        claim: KeyClaim<'a>,
        now: Timestamp,
    ) -> Pending<'a, Result<Twin, StoreError>> {
        Box::pin(async move {
            let serving = self.served()?;
            self.state
                .twin(&claim, now, serving)
                .map_err(|fault| said(&fault))
        })
    }

    fn confirmation<'a>(
        &'a self,
        mac: &'a [u8; 32],
    ) -> Pending<'a, Result<Option<Confirmation>, StoreError>> {
        Box::pin(async move { self.state.confirmation(mac).map_err(|fault| said(&fault)) })
    }

    fn held_confirmation<'a>(
        &'a self,
        id: &'a str,
    ) -> Pending<'a, Result<Option<Confirmation>, StoreError>> {
        Box::pin(async move {
            self.state
                .held_confirmation(id)
                .map_err(|fault| said(&fault))
        })
    }

    fn prompt<'a>(&'a self, prompt: Prompt<'a>) -> Pending<'a, Result<(), StoreError>> {
        Box::pin(async move { self.state.prompt(&prompt).map_err(|fault| said(&fault)) })
    }

    fn wrong_code<'a>(
        &'a self,
        bound: &'a Bound,
        now: Timestamp,
    ) -> Pending<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.state
                .wrong_code(bound, now)
                .map_err(|fault| said(&fault))
        })
    }

    fn approval_for<'a>(
        &'a self,
        bound: &'a Bound,
        now: Timestamp,
    ) -> Pending<'a, Result<Option<Approval>, StoreError>> {
        Box::pin(async move {
            let serving = self.served()?;
            self.state
                .approval_for(bound, now, serving)
                .map_err(|fault| said(&fault))
        })
    }

    fn approval<'a>(
        &'a self,
        id: &'a str,
        now: Timestamp,
    ) -> Pending<'a, Result<Option<Approval>, StoreError>> {
        Box::pin(async move {
            let serving = self.served()?;
            self.state
                .approval(id, now, serving)
                .map_err(|fault| said(&fault))
        })
    }

    fn hold<'a>(&'a self, hold: Hold<'a>) -> Pending<'a, Result<Approval, StoreError>> {
        Box::pin(async move {
            let serving = self.served()?;
            self.state
                .hold(&hold, serving)
                .map_err(|fault| said(&fault))
        })
    }

    fn mark<'a>(
        &'a self,
        id: &'a str,
        mark: Mark,
        now: Timestamp,
    ) -> Pending<'a, Result<(), StoreError>> {
        Box::pin(async move { self.state.mark(id, mark, now).map_err(|fault| said(&fault)) })
    }

    fn take<'a>(&'a self, take: Take<'a>) -> Pending<'a, Result<Taken, StoreError>> {
        Box::pin(async move {
            let serving = self.served()?;
            self.state
                .take(&take, serving)
                .map_err(|fault| said(&fault))
        })
    }

    fn settle<'a>(&'a self, settle: Settle<'a>) -> Pending<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let serving = self.served()?;
            self.state.settle(&settle, serving).map_err(|fault| {
                tracing::error!(error = %fault, call = settle.call_id, "a call's end cannot be settled in the store");
                said(&fault)
            })
        })
    }
}

fn said(fault: &StoreFault) -> StoreError {
    StoreError {
        why: fault.why(),
        detail: fault.to_string(),
    }
}
