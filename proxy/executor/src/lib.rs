//! The executor.
pub mod demo;
pub mod ids;
pub mod recorder;
