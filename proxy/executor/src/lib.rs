//! The executor.

pub mod downstream;
pub mod frame;
pub mod platform;
pub mod relay;
pub mod upstream;
