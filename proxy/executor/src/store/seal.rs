//! Encrypts what `state.db` keeps of calls: answers, held arguments. Owns the form; refuses to know what is sealed and when it goes.

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Length of the nonce in front of a sealed text.
const NONCE: usize = 24;

/// The key of one executor's `state.db`. Never shown; wiped when dropped.
pub struct Seal(Zeroizing<[u8; 32]>);

/// Why a text cannot be sealed or opened. Holds nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    NoRandom,
    /// It was sealed under another key, for something else, or changed.
    #[error("what is kept sealed cannot be opened")]
    NotOurs,
}

impl Seal {
    /// The key for `state.db`, made from the vault's: HMAC-SHA256 of its purpose.
    #[must_use]
    pub fn from_vault(vault: &[u8; 32]) -> Self {
        let mut block = Zeroizing::new([0_u8; 64]);
        block[..32].copy_from_slice(vault);
        let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new(&(*block).into());
        mac.update(b"countersign state.db 1");
        Self(Zeroizing::new(mac.finalize().into_bytes().into()))
    }

    /// `nonce (24) || XChaCha20-Poly1305(text, associated data = about)`.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn seal(&self, about: &str, text: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0_u8; NONCE];
        getrandom::fill(&mut nonce).map_err(|_| SealError::NoRandom)?;
        let payload = Payload {
            msg: text,
            aad: about.as_bytes(),
        };
        let sealed = self
            .cipher()
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| SealError::NotOurs)?;
        Ok([&nonce[..], &sealed].concat())
    }

    /// The reverse.
    ///
    /// # Errors
    /// When it was sealed under another key or for something else, or was changed.
    pub fn open(&self, about: &str, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let (nonce, sealed) = sealed
            .split_first_chunk::<NONCE>()
            .ok_or(SealError::NotOurs)?;
        let payload = Payload {
            msg: sealed,
            aad: about.as_bytes(),
        };
        self.cipher()
            .decrypt(&XNonce::from(*nonce), payload)
            .map_err(|_| SealError::NotOurs)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&(*self.0).into())
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_key_and_purpose_open_it() {
        let (seal, other) = (Seal::from_vault(&[1; 32]), Seal::from_vault(&[2; 32]));
        let sealed = seal.seal("a", b"secret text").unwrap();
        assert_eq!(seal.open("a", &sealed).unwrap(), b"secret text");
        assert!(!sealed.windows(6).any(|part| part == b"secret"));
        assert_ne!(sealed, seal.seal("a", b"secret text").unwrap());
        assert_eq!(seal.open("b", &sealed), Err(SealError::NotOurs));
        assert_eq!(other.open("a", &sealed), Err(SealError::NotOurs));
        assert_eq!(seal.open("a", &sealed[..20]), Err(SealError::NotOurs));
        let mut changed = sealed;
        changed[30] ^= 1;
        assert_eq!(seal.open("a", &changed), Err(SealError::NotOurs));
        assert_eq!(format!("{seal:?}"), "Seal(..)");
    }
}
