//! Compiled schemas, cached by their text: drafts 4 to 2020-12, local references only, bounded, linear-time patterns.

use std::collections::HashMap;
use std::sync::Arc;

use countersign_permission::Hash;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    text: bytes::Bytes,
}

impl Schema {
    /// Its text.
    #[must_use]
    pub fn text(&self) -> &bytes::Bytes {
        &self.text
    }
}

/// Compiled schemas by the hash of their text. One per executor; survives settings generations.
#[derive(Debug, Default)]
pub struct Validators {
    #[expect(dead_code)]
    by_text: HashMap<Hash, Arc<Schema>>,
}
