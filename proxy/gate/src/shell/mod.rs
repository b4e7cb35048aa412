//! Shell commands among arguments, by their words: a scan, not a parser. It is a tripwire that catches what is written plainly; a
//! script, a variable or an interpreter gets past it, so every screen that shows its verdict calls it a tripwire.

mod outside;
mod safe;
#[cfg(test)]
mod tests;
mod trespass;
mod words;

pub use outside::outside;
pub use safe::{List, is_safe};
pub(crate) use trespass::trespass;
pub use words::{Command, Role, Text, Word, has_control, words};
