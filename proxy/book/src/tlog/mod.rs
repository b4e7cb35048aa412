//! The derived log: the book as a C2SP tlog-tiles folder that any static web server can serve, the proofs that can be read from
//! it, and the text of a proof. Everything in it can be made again from the journal, and nothing in it is trusted.

mod build;
mod edge;
mod path;
mod proof_text;
mod prove;
mod store;
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests damage files on purpose")]
mod tests;

pub use build::{Tlog, TlogReport};
pub use path::{Level, TilePath};
pub use proof_text::{TlogProof, TlogProofError};
pub use prove::{Located, Prover};
pub use store::{Disagreement, TlogFinding};
