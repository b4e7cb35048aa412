//! The kinds of entries that change the book itself: its keys, its eras, what was erased or pruned. The writer makes them in
//! acts of its own ([`crate::Writer::rotate_key`], [`crate::Writer::erase`], [`crate::Writer::prune`]); refuses to know how.

use serde::{Deserialize, Serialize};

use crate::entry::Count;
use crate::kinds::{Body, Target};
use crate::origin::Origin;

/// `key.rotate`: another key signs from here on. The last entry of its batch, so that the key in force signs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRotate {
    /// The first size the new key signs: the entry's index + 2.
    pub from: Count,
    /// Why, for people.
    pub reason: String,
    /// The last size the key before may sign beside the new one; none is the size that covers this entry.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<Count>,
    /// The new verifier key.
    pub vkey: String,
}

/// `era.open`: entry 1 of a book that goes on where another one ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EraOpen {
    /// The last checkpoint of the book before that could be read, base64; empty where none could.
    pub checkpoint: String,
    /// The origin of the book before.
    pub origin: Origin,
    /// Why, for people.
    pub reason: String,
}

/// `erase`: payloads whose keys and salts are destroyed. Durable before the first byte of them is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Erase {
    /// The command or program that asked for it.
    pub by: String,
    /// Why, for people.
    pub reason: String,
    /// The payloads.
    pub targets: Vec<Target>,
}

/// `prune`: entries whose lines are removed, with their payloads. Durable before the first of them is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prune {
    /// The command or program that asked for it.
    pub by: String,
    /// The smallest index that is kept: the first of a segment.
    pub minimum: Count,
    /// Why, for people.
    pub reason: String,
}

impl Body {
    /// Whether the kind is made by an act of the writer only, never handed in as a draft.
    pub(crate) fn is_act(&self) -> bool {
        matches!(
            self,
            Self::KeyRotate(_) | Self::EraOpen(_) | Self::Erase(_) | Self::Prune(_)
        )
    }
}
