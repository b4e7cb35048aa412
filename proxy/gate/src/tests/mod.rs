//! The whole flow over ports in memory.

mod approvals;
mod bounds;
mod danger;
mod flow;
mod keys;
mod machine;
mod rates;
mod rights;
mod session;
mod validation;
pub(crate) mod world;
