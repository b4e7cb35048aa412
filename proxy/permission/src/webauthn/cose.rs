//! Public keys of passkeys: COSE in exactly one encoding, and the check of a signature. Knows ES256, EdDSA and RS256 and no other.

use std::fmt;

use ciborium::Value;
use data_encoding::BASE64URL_NOPAD;
use ed25519_dalek::VerifyingKey as EdKey;
use p256::ecdsa::signature::Verifier as _;
use p256::ecdsa::{DerSignature, VerifyingKey as EcKey};
use rsa::pkcs1v15::{Signature as RsaSignature, VerifyingKey as RsaKey};
use rsa::{BoxedUint, PublicKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Sha256;

use super::cbor;

/// Shortest RSA modulus, in bytes.
const RSA_LEAST: usize = 256;

/// Longest RSA modulus, in bytes.
const RSA_MOST: usize = 512;

/// A public key with its one COSE encoding.
#[derive(Clone)]
pub struct CoseKey {
    bytes: Vec<u8>,
    key: Key,
}

/// What a key signs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA over P-256 with SHA-256, COSE −7.
    Es256,
    /// Ed25519, COSE −8.
    EdDsa,
    /// RSASSA-PKCS1-v1_5 with SHA-256, COSE −257.
    Rs256,
}

/// Bytes that are no public key of a known kind in its one encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an ES256, EdDSA or RS256 public key in canonical COSE")]
pub struct CoseError;

#[derive(Clone)]
enum Key {
    Ec(EcKey),
    Ed(EdKey),
    Rsa(RsaKey<Sha256>),
}

impl CoseKey {
    /// Reads a key from exactly these bytes.
    ///
    /// # Errors
    /// When they are of another algorithm or curve, not a valid point, or another encoding than the canonical one.
    pub fn read(bytes: &[u8]) -> Result<Self, CoseError> {
        let Some(Value::Map(map)) = cbor::only(bytes) else {
            return Err(CoseError);
        };
        let key = key(&map).filter(|(_, encoded)| encoded == bytes);
        key.map(|(key, bytes)| Self { bytes, key }).ok_or(CoseError)
    }

    /// The COSE bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What it signs with.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self.key {
            Key::Ec(_) => Algorithm::Es256,
            Key::Ed(_) => Algorithm::EdDsa,
            Key::Rsa(_) => Algorithm::Rs256,
        }
    }

    /// Whether `signature` is this key's over `message`.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.key {
            Key::Ec(key) => DerSignature::from_bytes(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
            Key::Ed(key) => ed25519_dalek::Signature::from_slice(signature)
                .is_ok_and(|signature| key.verify_strict(message, &signature).is_ok()),
            Key::Rsa(key) => RsaSignature::try_from(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
        }
    }
}

fn key(map: &[(Value, Value)]) -> Option<(Key, Vec<u8>)> {
    let integer = |label: i64| {
        find(map, label)?
            .as_integer()
            .and_then(|n| i64::try_from(n).ok())
    };
    let bytes = |label: i64| find(map, label)?.as_bytes();
    match (integer(1)?, integer(3)?) {
        (2, -7) if integer(-1)? == 1 => {
            let (x, y) = (bytes(-2)?, bytes(-3)?);
            if x.len() != 32 || y.len() != 32 {
                return None;
            }
            let point = [&[4], x.as_slice(), y.as_slice()].concat();
            let key = EcKey::from_sec1_bytes(&point).ok()?;
            let head = [0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01];
            let encoded = [&head, &[0x21, 0x58, 32][..], x, &[0x22, 0x58, 32], y].concat();
            Some((Key::Ec(key), encoded))
        }
        (1, -8) if integer(-1)? == 6 => {
            let x = bytes(-2)?;
            let key = EdKey::from_bytes(x.as_slice().try_into().ok()?).ok()?;
            if key.is_weak() {
                return None;
            }
            let head = [0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 32];
            Some((Key::Ed(key), [&head, x.as_slice()].concat()))
        }
        (3, -257) => {
            let (n, e) = (bytes(-1)?, bytes(-2)?);
            let sized = (RSA_LEAST..=RSA_MOST).contains(&n.len()) && n[0] != 0;
            let exponent = (1..=8).contains(&e.len()) && e[0] != 0;
            if !sized || !exponent {
                return None;
            }
            let key = PublicKey::new(
                BoxedUint::from_be_slice_vartime(n),
                BoxedUint::from_be_slice_vartime(e),
            );
            let [high, low] = u16::try_from(n.len()).ok()?.to_be_bytes();
            let head = [
                0xa4, 0x01, 0x03, 0x03, 0x39, 0x01, 0x00, 0x20, 0x59, high, low,
            ];
            let size = 0x40 | u8::try_from(e.len()).ok()?;
            let encoded = [&head, n.as_slice(), &[0x21, size], e].concat();
            Some((Key::Rsa(RsaKey::new(key.ok()?)), encoded))
        }
        _ => None,
    }
}

fn find(map: &[(Value, Value)], label: i64) -> Option<&Value> {
    map.iter()
        .find(|(key, _)| key.as_integer() == Some(label.into()))
        .map(|(_, value)| value)
}

impl PartialEq for CoseKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for CoseKey {}

impl fmt::Debug for CoseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}:{}",
            self.algorithm(),
            BASE64URL_NOPAD.encode(&self.bytes)
        )
    }
}

impl Serialize for CoseKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64URL_NOPAD.encode(&self.bytes))
    }
}

impl<'de> Deserialize<'de> for CoseKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = BASE64URL_NOPAD
            .decode(text.as_bytes())
            .map_err(serde::de::Error::custom)?;
        Self::read(&bytes).map_err(serde::de::Error::custom)
    }
}
