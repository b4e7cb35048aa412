//! The whole flow over ports in memory.

mod approvals;
mod danger;
mod flow;
mod keys;
mod machine;
mod rates;
mod rights;
mod validation;
mod world;
