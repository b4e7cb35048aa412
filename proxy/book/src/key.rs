//! The two secrets of a book: the signing seed and the key that wraps the vault's data keys. Refuses to know where they
//! are stored and never shows them.

use std::fmt;

use ed25519_dalek::{Signer as _, SigningKey};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::note::Vkey;
use crate::origin::Origin;

/// The book's Ed25519 signing key. Zeroised when dropped; has no way out but signatures.
#[derive(Clone)]
pub struct Signer(SigningKey);

/// The 32-byte key under which the vault's data keys are wrapped. Zeroised when dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct VaultKey([u8; 32]);

impl Signer {
    /// The signer of a 32-byte Ed25519 seed (RFC 8032), which is zeroised.
    #[must_use]
    pub fn from_seed(mut seed: [u8; 32]) -> Self {
        let key = SigningKey::from_bytes(&seed);
        seed.zeroize();
        Self(key)
    }

    /// The verifier key of the book `origin` signed by this key, as a C2SP vkey.
    #[must_use]
    pub fn vkey(&self, origin: &Origin) -> Vkey {
        Vkey::ed25519(origin.as_str(), self.0.verifying_key())
    }

    pub(crate) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(..)")
    }
}

impl VaultKey {
    /// The vault key of these 32 bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for VaultKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VaultKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_show_in_debug() {
        assert_eq!(format!("{:?}", Signer::from_seed([9; 32])), "Signer(..)");
        assert_eq!(
            format!("{:?}", VaultKey::from_bytes([9; 32])),
            "VaultKey(..)"
        );
    }
}
