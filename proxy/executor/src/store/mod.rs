//! State that processes share: `state.db` (must survive) and `buckets.db` (need not). Judges nothing; the gate does.

mod approvals;
mod buckets;
mod confirmations;
mod decided;
mod error;
mod idempotency;
mod port;
mod seal;
mod serving;
pub(crate) mod sqlite;
mod state;
mod take;
#[cfg(test)]
mod tests;
mod turns;

pub use approvals::{Held, Opened, Undecided};
pub use buckets::{BucketsDb, RefusalCount};
pub use decided::DecidedFact;
pub use error::StoreFault;
pub use port::SharedStore;
pub use seal::{Seal, SealError};
pub use serving::Serving;
pub use state::{Pin, StateDb};
