//! The executor.
pub mod demo;
