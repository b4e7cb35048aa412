//! The servers' side: finding and starting a server's process, its streams, its last words, its end.
//! Knows nothing of what a message means.

pub mod child;
pub mod diagnostics;
pub mod path;
