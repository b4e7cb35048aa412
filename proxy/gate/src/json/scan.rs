//! The check: one pass over the bytes, no allocation unless an object has many members or escaped names.

/// Depth of nesting allowed in frames and arguments.
pub const MAX_DEPTH: usize = 128;

/// Why a text is not strict JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {at}")]
pub struct Fault {
    /// Byte offset.
    pub at: usize,
    /// What is wrong there.
    pub kind: FaultKind,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// Nothing but white space.
    #[error("no JSON value")]
    Empty,
    /// The text ends in the middle.
    #[error("unexpected end")]
    Cut,
    /// A byte-order mark.
    #[error("a byte-order mark")]
    Bom,
    /// A byte that cannot stand here.
    #[error("unexpected byte")]
    Unexpected,
    /// Something after the value.
    #[error("something after the value")]
    Trailing,
    /// A malformed number.
    #[error("malformed number")]
    Number,
    /// A control character in a string.
    #[error("control character in a string")]
    Control,
    /// A malformed escape.
    #[error("malformed escape")]
    Escape,
    /// Half of a surrogate pair.
    #[error("lone surrogate")]
    Surrogate,
    /// Not UTF-8.
    #[error("not UTF-8")]
    Utf8,
    /// Two members of one name in one object, compared decoded.
    #[error("duplicate member name")]
    Duplicate,
    /// Nested too deep.
    #[error("nested too deep")]
    Depth,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`.
    Null,
}

/// Checks that `text` is exactly one strict JSON value, and says which kind. White space around it is allowed.
///
/// # Errors
/// The first fault: anything outside RFC 8259, not UTF-8, a byte-order mark, a lone surrogate, a duplicate member name at any depth
/// (compared decoded), nesting deeper than `max_depth`.
pub fn check(text: &[u8], max_depth: usize) -> Result<Kind, Fault> {
    let _ = (text, max_depth);
    Err(Fault {
        at: 0,
        kind: FaultKind::Empty,
    })
}
