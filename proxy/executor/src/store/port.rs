//! The gate's `Store` port over both files. Translates, decides nothing.

use countersign_gate::ports::{
    Charge, CountedRefusal, KeyRecord, Pending, Store, StoreError, UseClaim, Uses,
};
use countersign_gate::rate::Charged;

use crate::folder::Folder;

use super::{BucketsDb, StateDb, StoreFault};

/// The stores of one executor, as the gate uses them. Every call is short (tens of microseconds; a counted use one flush) and is made
/// where it is awaited.
#[derive(Debug)]
pub struct SharedStore {
    /// What must survive.
    pub state: StateDb,
    /// What need not.
    pub buckets: BucketsDb,
}

impl SharedStore {
    /// Opens both.
    pub fn open(folder: &Folder) -> Result<SharedStore, StoreFault> {
        Ok(SharedStore {
            state: StateDb::open(folder)?,
            buckets: BucketsDb::open(folder)?,
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

    fn count_use<'a>(&'a self, claim: UseClaim<'a>) -> Pending<'a, Result<Uses, StoreError>> {
        Box::pin(async move { self.state.count_use(&claim).map_err(|fault| said(&fault)) })
    }
}

fn said(fault: &StoreFault) -> StoreError {
    StoreError {
        why: fault.why(),
        detail: fault.to_string(),
    }
}
