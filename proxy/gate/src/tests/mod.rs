//! The whole flow over ports in memory.

mod flow;
mod rates;
mod rights;
mod validation;
pub(crate) mod world;
