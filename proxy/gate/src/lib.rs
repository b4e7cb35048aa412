//! The gate: what happens between "a call arrived" and "here is the answer". One file per step, one list that orders them.
//! Touches no socket, process, clock, environment or random source; those are [`ports`] it is handed.
//!
//! How an executor uses it:
//! 1. Per settings generation: [`Facts::new`] (checked), shared as `Arc<Facts>`.
//! 2. Per server, when its `tools/list` was read to the end or the settings changed: [`catalog::Catalog::build`].
//! 3. Per `tools/call`: [`serve::call`] with a [`Request`]; per `tools/list`: [`serve::list`], then [`catalog::page`] for every raw
//!    page; per `resources/read` and `prompts/get`: [`serve::call`] with [`Target::Method`].
//! 4. The [`Answer`] is rendered by the transport: [`answer`] and [`Refusal`] give the text and the document, encoded once.
//!
//! The future of [`serve::call`] is driven to its end, never dropped: a client's cancel is told to the [`ports::Upstream`], which then
//! answers [`ports::Failure::Cancelled`], so that every noted call has an outcome.

pub mod answer;
pub mod approval;
pub mod availability;
pub mod bound;
pub mod bucket;
pub mod catalog;
pub mod confirmation;
pub mod diff;
pub mod facts;
pub mod id;
pub mod idempotency;
pub mod json;
pub mod key;
pub mod paths;
pub mod policy;
pub mod ports;
pub mod price;
pub mod rate;
pub mod refusal;
pub mod request;
pub mod serve;
pub mod session;
pub mod shell;
pub mod steps;
#[cfg(test)]
mod tests;
pub mod turn;

pub use answer::{Answer, Finished, Outcome};
pub use facts::Facts;
pub use refusal::{Code, Refusal};
pub use request::{Arguments, Audience, Request, Target};
pub use steps::Cleared;
