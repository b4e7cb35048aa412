//! What the end-to-end tests stand on: a throw-away executor, a raw client that sees every byte, the pinned peers.
//! Knows the command line and the wire, nothing of the crates inside.

pub mod binary;
pub mod client;
pub mod direct;
pub mod hostile;
pub mod peers;
pub mod process;
pub mod world;

/// Longest wait for anything that must happen. A bound on failure, never a measurement.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);
