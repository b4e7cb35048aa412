//! From what a server lists to what agents see and are held to. A tool whose schema cannot be held is set aside by name; the others stay.

mod close;
mod definition;
mod inspect;
mod page;
mod schema;
#[cfg(test)]
mod tests;
mod tool;
mod work;

pub use close::{Closed, Closing, ControlFields, PLAIN_NAMES, Replay, Root, close};
pub use definition::definition_hash;
pub use inspect::Unfit;
pub use page::{MAX_TTL_MS, Page, PageError, items, join, page};
pub use schema::{LazySchema, Mismatch, Schema, Validators, value_of};
pub use tool::{Catalog, SetAside, Tool};
