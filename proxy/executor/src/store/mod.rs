//! State that processes share: `state.db` (must survive) and `buckets.db` (need not). Judges nothing; the gate does.

mod buckets;
mod error;
mod port;
mod sqlite;
mod state;
mod turns;

pub use buckets::{BucketsDb, RefusalCount};
pub use error::StoreFault;
pub use port::SharedStore;
pub use state::{Pin, StateDb};
