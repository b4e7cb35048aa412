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

/// Gives the signing key of a vkey, where it can be had. Asked under the book's lock when another process changed the key.
pub type FetchSigner = Box<dyn FnMut(&Vkey) -> Option<Signer> + Send>;

/// The signing keys of one book at hand: more than one while a key is being replaced.
pub struct Signers {
    given: Vec<Signer>,
    fetch: Option<FetchSigner>,
}

impl Signers {
    /// These keys and no other.
    #[must_use]
    pub fn new(given: Vec<Signer>) -> Self {
        Self { given, fetch: None }
    }

    /// With a way to get the ones that come into force later.
    #[must_use]
    pub fn or_fetch(mut self, fetch: FetchSigner) -> Self {
        self.fetch = Some(fetch);
        self
    }

    /// For the book of that origin.
    pub(crate) fn of(self, origin: &Origin) -> Hand {
        let held = self.given.into_iter();
        Hand {
            held: held.map(|signer| (signer.vkey(origin), signer)).collect(),
            fetch: self.fetch,
        }
    }
}

impl From<Signer> for Signers {
    fn from(signer: Signer) -> Self {
        Self::new(vec![signer])
    }
}

impl fmt::Debug for Signers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signers(..)")
    }
}

/// The keys at hand with their vkeys.
pub(crate) struct Hand {
    held: Vec<(Vkey, Signer)>,
    fetch: Option<FetchSigner>,
}

impl Hand {
    /// Whether the key is at hand, or could be fetched just now.
    pub(crate) fn get(&mut self, vkey: &Vkey) -> bool {
        if self.held.iter().any(|(held, _)| held == vkey) {
            return true;
        }
        let Some(signer) = self.fetch.as_mut().and_then(|fetch| fetch(vkey)) else {
            return false;
        };
        // What was fetched is believed only as far as it is that key.
        self.add(vkey.name(), signer);
        self.held.iter().any(|(held, _)| held == vkey)
    }

    /// Adds a key.
    pub(crate) fn add(&mut self, name: &str, signer: Signer) -> Vkey {
        let vkey = Vkey::ed25519(name, signer.0.verifying_key());
        if !self.held.iter().any(|(held, _)| *held == vkey) {
            self.held.push((vkey.clone(), signer));
        }
        vkey
    }

    /// The key and its signer, where it is at hand.
    pub(crate) fn pair(&self, vkey: &Vkey) -> Option<(&Vkey, &Signer)> {
        let mut held = self.held.iter();
        let (vkey, signer) = held.find(|(held, _)| held == vkey)?;
        Some((vkey, signer))
    }

    /// The vkey of the first key given, for words.
    pub(crate) fn first(&self) -> String {
        self.held
            .first()
            .map_or_else(|| "none".to_owned(), |(vkey, _)| vkey.to_string())
    }

    /// Forgets keys that sign nothing any more.
    pub(crate) fn keep(&mut self, wanted: impl Fn(&Vkey) -> bool) {
        self.held.retain(|(vkey, _)| wanted(vkey));
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
