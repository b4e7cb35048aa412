//! Frames.

pub mod lines;
pub mod skim;
