//! `countersign.revocation/1`: what no longer holds. It only takes away, so nobody has to sign it.

use serde::{Deserialize, Serialize};

use super::{Body, Bytes, ExecutorRef, Id, Time, check_text};
use crate::{Hash, Refusal};

/// `countersign.revocation/1`: a permission, or a passkey with all that it signed and that still stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// 16 random bytes of the executor.
    pub id: Id,
    /// The executor it counts in.
    pub executor: ExecutorRef,
    /// What is revoked.
    pub revokes: Revoked,
    /// When.
    pub at: Time,
    /// Why, in the person's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a revocation takes away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Revoked {
    /// This permission.
    Permission(Hash),
    /// This passkey: it signs nothing new, and what it signed and still stands is suspended until signed again.
    Credential(Bytes),
}

impl Body for Revocation {
    const TYPE: &'static str = "countersign.revocation/1";

    fn check(&self) -> Result<(), Refusal> {
        match &self.reason {
            Some(reason) => check_text("reason", reason, 280),
            None => Ok(()),
        }
    }
}
