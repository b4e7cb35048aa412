//! `countersign.approval/1`: the person's yes to one held call. Holds commitments to the arguments, never the arguments.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::{AgentRef, Body, ExecutorRef, Id, KeyringRef, Name, Time, check_text};
use crate::{Hash, Reason, Refusal};

/// Seconds a person has to sign once the page is open.
pub const APPROVAL_SECONDS: i64 = 300;

const DOMAIN: &str = "countersign.approval/1 arguments";

/// `countersign.approval/1`: one call, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalDocument {
    /// 16 random bytes of the executor.
    pub id: Id,
    /// The executor that holds the call.
    pub executor: ExecutorRef,
    /// The keyring as it stood.
    pub keyring: KeyringRef,
    /// The permission the call is made under.
    pub permission: Hash,
    /// The agent that calls.
    pub agent: AgentRef,
    /// The server.
    pub server: ServerRef,
    /// The tool.
    pub tool: ToolRef,
    /// The arguments.
    pub arguments: ApprovedArguments,
    /// What the preview saw: 1 to 64 bytes of text.
    pub fingerprint: String,
    /// When the page was opened.
    pub issued_at: Time,
    /// First moment it can no longer be signed.
    pub expires_at: Time,
}

/// Which server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerRef {
    /// Its name.
    pub name: Name,
    /// The hash of its identity.
    pub identity: Hash,
}

/// Which tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRef {
    /// Its name.
    pub name: String,
    /// The hash of its definition.
    pub definition: Hash,
}

/// Which arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovedArguments {
    /// The salted [`commitment`] to them.
    pub commitment: String,
    /// The arguments hash that also binds idempotency and confirmations.
    pub hash: Hash,
}

/// The commitment to `arguments` (their canonical text, numbers as received) in the approval `id`: `hmac-sha256:` and lower-case hex of
/// HMAC-SHA-256 under the salt over `countersign.approval/1 arguments`, a line feed, the id, a line feed and the text.
#[must_use]
pub fn commitment(salt: &[u8; 32], id: Id, arguments: &[u8]) -> String {
    // HMAC takes keys of any length; the error type has no value that could be met.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(salt) else {
        return String::new();
    };
    mac.update(format!("{DOMAIN}\n{id}\n").as_bytes());
    mac.update(arguments);
    format!(
        "hmac-sha256:{}",
        HEXLOWER.encode(&mac.finalize().into_bytes())
    )
}

impl Body for ApprovalDocument {
    const TYPE: &'static str = "countersign.approval/1";

    fn check(&self) -> Result<(), Refusal> {
        check_text("tool.name", &self.tool.name, 256)?;
        let hex = self.arguments.commitment.strip_prefix("hmac-sha256:");
        let bytes = hex.and_then(|hex| HEXLOWER.decode(hex.as_bytes()).ok());
        if bytes.is_none_or(|bytes| bytes.len() != 32) {
            return Err(Reason::Shape
                .because("`arguments.commitment` is `hmac-sha256:` and 64 lower-case hex digits"));
        }
        if !(1..=64).contains(&self.fingerprint.len()) {
            return Err(Reason::Shape.because("`fingerprint` has from 1 to 64 bytes"));
        }
        let life = self.expires_at.seconds_after(self.issued_at);
        if !(1..=APPROVAL_SECONDS).contains(&life) {
            return Err(Reason::Times.because("an approval can be signed for at most 5 minutes"));
        }
        Ok(())
    }
}

impl ApprovalDocument {
    /// Whether these are the approved arguments.
    #[must_use]
    pub fn is_for(&self, salt: &[u8; 32], arguments: &[u8]) -> bool {
        Hash::of(arguments) == self.arguments.hash
            && commitment(salt, self.id, arguments) == self.arguments.commitment
    }
}
