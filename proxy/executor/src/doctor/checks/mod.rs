//! The checks themselves, one function each, a file a theme. Each opens what it looks at on its own, so that one broken part hides no
//! other.

mod agents;
mod book;
mod folder;
mod machine;
mod secrets;
mod servers;
mod stores;

pub(super) use agents::{agents, permission};
pub(super) use book::{book, pin};
pub(super) use folder::{folder, settings, switch};
pub(super) use machine::{clock, disk};
pub(super) use secrets::{secrets, separation};
pub(super) use servers::{names, presets, servers};
pub(super) use stores::{buckets, state};
