//! From what a server lists to what agents see and are held to. A tool whose schema cannot be held is set aside by name; the others stay.

mod close;
mod definition;
mod page;
mod schema;
mod tool;

pub use close::ControlFields;
pub use definition::definition_hash;
pub use page::{MAX_TTL_MS, Page, PageError, items, join, page};
pub use schema::{Schema, Validators};
pub use tool::{Catalog, SetAside, Tool};
