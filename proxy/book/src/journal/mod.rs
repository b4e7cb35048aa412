//! The journal: the files a book is, and the writer that appends to them.

mod api;
pub(crate) mod batch;
mod blame;
mod blank;
pub(crate) mod chain;
pub(crate) mod continuity;
pub(crate) mod follow;
mod heartbeat;
pub(crate) mod layout;
mod objects;
pub(crate) mod obstacles;
pub(crate) mod prepare;
pub(crate) mod recover;
mod removal;
pub(crate) mod ring;
mod rotate;
pub(crate) mod scan;
pub(crate) mod segment;
mod writer;

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests damage files on purpose")]
pub(crate) mod tests;

pub use api::{Committed, Entropy, OpenCall, Payloads, Recorded, Recovery, Sources, WriterOptions};
pub use follow::SignedHead;
pub use layout::BookFile;
pub use prepare::{Prepared, Preparer};
pub use removal::{Erased, Pruned};
pub use ring::KeyRange;
pub use writer::Writer;
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the model's crashes cut files")]
mod model;
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests damage files on purpose")]
mod rec;
