//! Commitments to payloads: HMAC-SHA-256 under a fresh 32-byte salt, over the received bytes. Refuses to parse what it commits to.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

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
    /// The arguments with what looks like a secret hidden.
    #[serde(rename = "args.view")]
    ArgsView,
    /// What was sent, with what looks like a secret hidden.
    #[serde(rename = "sent.view")]
    SentView,
    /// The result with what looks like a secret hidden.
    #[serde(rename = "result.view")]
    ResultView,
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
    /// Bytes of the payload; where it has `secrets`, rounded up to a power of two.
    pub n: Count,
    /// What looks like a secret in it: where, and what found it. Never the value.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub secrets: Vec<SecretAt>,
    /// The payload with what looks like a secret hidden, kept apart. Present where `secrets` is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub view: Option<View>,
}

/// A place in a payload that looks like a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretAt {
    /// What found it.
    pub d: String,
    /// Where: a JSON pointer (RFC 6901); empty for a payload that is one value. Long names in it are shortened to `*`.
    pub p: String,
}

/// The commitment to a payload with its secrets hidden, under a salt of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// The vault object.
    pub at: At,
    /// `hmac-sha256:` and 64 lower-case hexadecimal digits.
    pub c: String,
    /// Its bytes.
    pub n: Count,
}

/// A payload that holds secrets as it is sealed, and the `n` its entry states: lengthened so that neither the object's length
/// nor `n` tells the payload's. `payload 0x80 0x00…`, `n` + 1 bytes; `n` is the payload's length rounded up to a power of two.
pub(crate) fn pad(payload: &[u8]) -> (Zeroizing<Vec<u8>>, u64) {
    let n = payload.len().next_power_of_two();
    let mut padded = Zeroizing::new(Vec::with_capacity(n + 1));
    padded.extend_from_slice(payload);
    padded.push(0x80);
    padded.resize(n + 1, 0);
    (padded, n as u64)
}

/// The payload of `n`, unpadded where it is `padded`; nothing when its length is not what the entry states.
pub(crate) fn unpad(stored: &[u8], n: u64, padded: bool) -> Option<&[u8]> {
    if !padded {
        return (stored.len() as u64 == n).then_some(stored);
    }
    let end = stored.iter().rposition(|byte| *byte != 0)?;
    let payload = stored.get(..end).filter(|_| stored[end] == 0x80)?;
    let fits = stored.len() as u64 == n + 1 && payload.len().next_power_of_two() as u64 == n;
    fits.then_some(payload)
}

impl Field {
    /// Every field, payloads before their views.
    pub const ALL: [Self; 6] = [
        Self::Args,
        Self::Sent,
        Self::Result,
        Self::ArgsView,
        Self::SentView,
        Self::ResultView,
    ];

    /// The field of the payload's view.
    #[must_use]
    pub fn view(self) -> Self {
        match self {
            Self::Args | Self::ArgsView => Self::ArgsView,
            Self::Sent | Self::SentView => Self::SentView,
            Self::Result | Self::ResultView => Self::ResultView,
        }
    }

    /// Whether it is a view.
    #[must_use]
    pub fn is_view(self) -> bool {
        self.view() == self
    }
    /// The name of the field in entries, commitments and vault objects.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Args => "args",
            Self::Sent => "sent",
            Self::Result => "result",
            Self::ArgsView => "args.view",
            Self::SentView => "sent.view",
            Self::ResultView => "result.view",
        }
    }

    /// The field of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.as_str() == name)
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
    fn padding_hides_the_length_and_comes_off() {
        for length in [1, 2, 3, 255, 256, 257, 70_000] {
            let payload = vec![7; length];
            let (padded, n) = pad(&payload);
            assert_eq!((padded.len() as u64, n.is_power_of_two()), (n + 1, true));
            assert_eq!(unpad(&padded, n, true), Some(&payload[..]));
            assert_eq!(unpad(&padded, n * 2, true), None);
            assert_eq!(unpad(&padded[..n as usize], n, true), None);
            assert_eq!(unpad(&payload, length as u64, false), Some(&payload[..]));
        }
        assert_eq!(unpad(&[0; 9], 8, true), None);
        assert_eq!(unpad(&[], 0, true), None);
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
