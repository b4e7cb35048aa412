//! Closing a schema: the raw text the server sent, edited in place so that unknown root members are refused and a write tool's control
//! fields are there. Every other member keeps its order and its bytes.

/// The names the three control fields have for one tool: their own, or prefixed `countersign_` where the tool's schema has a property
/// of that name. `None`: the tool takes no such field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlFields {
    /// `dry_run`: boolean.
    pub dry_run: Option<&'static str>,
    /// `confirm_token`: text of 1 to 128 characters.
    pub confirm_token: Option<&'static str>,
    /// `idempotency_key`: 1 to 255 visible ASCII characters.
    pub idempotency_key: Option<&'static str>,
}
