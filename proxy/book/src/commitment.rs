//! Commitments to payloads: HMAC-SHA-256 under a fresh 32-byte salt, over the received bytes. Refuses to parse what it commits to.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::entry::{CallId, Count};

const DOMAIN: &[u8] = b"book-commit-v1";

/// The salt of one commitment: exactly 32 random bytes. Lives in the vault, wrapped with the payload's key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Salt(pub(crate) [u8; 32]);

/// The member of an entry a payload belongs to; part of what is committed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// The arguments as received, without control fields.
    Args,
    /// What was sent to the server, where it differs.
    Sent,
    /// The result as received from the server.
    Result,
}

/// Why a payload is not in the vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The setting `payloads: digest`: the commitment's salt was discarded at once, nothing can be proven about the value.
    None,
    /// Longer than the limit for kept payloads; the salt was discarded too.
    TooLarge,
}

/// Where in the vault a payload's object lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct At {
    /// Bytes of the whole object.
    pub len: u64,
    /// Offset of the object's first byte in its segment.
    pub off: u64,
    /// Number of the vault segment.
    pub seg: u64,
}

/// A commitment as it stands in an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commitment {
    /// The vault object, when the payload is kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub at: Option<At>,
    /// `hmac-sha256:` and 64 lower-case hexadecimal digits.
    pub c: String,
    /// Present when the payload is not kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub keep: Option<Keep>,
    /// Bytes of the payload.
    pub n: Count,
}

impl Field {
    /// The name of the field in entries, commitments and vault objects.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Args => "args",
            Self::Sent => "sent",
            Self::Result => "result",
        }
    }

    /// The field of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Args, Self::Sent, Self::Result]
            .into_iter()
            .find(|field| field.as_str() == name)
    }
}

impl Salt {
    /// A salt of these bytes, which must come from the system's random source.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt(..)")
    }
}

/// `hmac-sha256:<hex>` of `HMAC-SHA-256(salt, "book-commit-v1" 0x00 field 0x00 call 0x00 bytes)`.
#[must_use]
pub fn commit_bytes(salt: &Salt, field: Field, call: &CallId, bytes: &[u8]) -> String {
    // RFC 2104: a key shorter than the block is padded with zeros; the salt's fixed length keeps that unambiguous.
    let mut block = [0; 64];
    block[..32].copy_from_slice(&salt.0);
    let mut mac = <Hmac<Sha256>>::new(&block.into());
    block.zeroize();
    for part in [DOMAIN, field.as_str().as_bytes(), call.as_str().as_bytes()] {
        mac.update(part);
        mac.update(&[0]);
    }
    mac.update(bytes);
    format!(
        "hmac-sha256:{}",
        data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b37_salt_field_and_call_are_bound() {
        let id = |t: &str| CallId::parse(t).unwrap();
        let (a, b) = (
            id("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
            id("01ARZ3NDEKTSV4RRFFQ69G5FAW"),
        );
        let salt = |n| Salt::from_bytes([n; 32]);
        let base = commit_bytes(&salt(1), Field::Args, &a, b"{}");
        assert_eq!(base, commit_bytes(&salt(1), Field::Args, &a, b"{}"));
        for other in [
            commit_bytes(&salt(2), Field::Args, &a, b"{}"),
            commit_bytes(&salt(1), Field::Sent, &a, b"{}"),
            commit_bytes(&salt(1), Field::Args, &b, b"{}"),
            commit_bytes(&salt(1), Field::Args, &a, b"{ }"),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn b10_received_bytes_are_committed_to_not_values() {
        let call = CallId::parse("01ARZ3NDEKTSV4RRFFQ69G5FAV").unwrap();
        let of = |bytes: &[u8]| commit_bytes(&Salt::from_bytes([3; 32]), Field::Args, &call, bytes);
        let mut seen = std::collections::HashSet::new();
        for bytes in [
            &br#"{"n":9007199254740992}"#[..],
            br#"{"n":9007199254740993}"#,
            br#"{"n":9007199254740993,"n":9007199254740993}"#,
            br#"{"n": 9007199254740993}"#,
        ] {
            assert!(seen.insert(of(bytes)));
        }
    }
}
