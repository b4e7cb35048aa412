//! Strict JSON over raw bytes (RFC 8259, UTF-8): check, walk, edit, minify, canonical form. Nothing is decoded that need not be;
//! numbers are never turned into doubles. What the members mean is not known here.

mod canonical;
mod edit;
mod number;
mod replace;
mod scan;
mod walk;

pub use canonical::{canonical, canonical_into};
pub use edit::{Change, edit, one_line};
pub use number::{is_exact, is_whole, numbers};
pub use replace::replace;
pub use scan::{Fault, FaultKind, Kind, Lone, MAX_DEPTH, check, check_with};
pub use walk::{Elements, Member, Members, at_pointer, decode, elements, member, members};
