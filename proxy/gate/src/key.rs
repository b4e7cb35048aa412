//! An agent's key: its text, its visible prefix, its MAC under the pepper. The random bytes are handed in; where keys are kept is
//! not known here. `csk_` + 8 public characters + `_` + 32 random bytes in base62 (43 characters, zero-padded).

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop};

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const PUBLIC_ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
const START: &str = "csk_";
const PREFIX_LEN: usize = 12;
const SECRET_LEN: usize = 43;

/// The text of a key, or what was presented as one. Never shown by `Debug`; wiped when dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct KeyText(String);

/// HMAC-SHA256 of a key's text under the pepper. Compared in constant time only.
#[derive(Clone)]
pub struct KeyMac([u8; 32]);

/// The executor's secret for [`KeyMac`]: 32 bytes, kept in the keychain. Wiped when dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Pepper([u8; 32]);

impl KeyText {
    /// A new key: `public` picks its 8 visible characters, `secret` is the key.
    #[must_use]
    pub fn make(public: [u8; 8], mut secret: [u8; 32]) -> Self {
        let mut text = String::with_capacity(PREFIX_LEN + 1 + SECRET_LEN);
        text.push_str(START);
        text.extend(
            public
                .iter()
                .map(|byte| char::from(PUBLIC_ALPHABET[usize::from(byte % 32)])),
        );
        text.push('_');
        let mut digits = base62(&mut secret);
        text.extend(digits.iter().map(|&digit| char::from(digit)));
        digits.zeroize();
        secret.zeroize();
        Self(text)
    }

    /// Whatever a caller presented; its form is judged by [`KeyText::prefix`].
    #[must_use]
    pub fn presented(text: String) -> Self {
        Self(text)
    }

    /// The visible prefix (`csk_` and 8 characters), if the text has a key's form.
    #[must_use]
    pub fn prefix(&self) -> Option<&str> {
        let (prefix, secret) = self.0.split_at_checked(PREFIX_LEN)?;
        let public = prefix.strip_prefix(START)?;
        let secret = secret.strip_prefix('_')?;
        let well_formed = public.bytes().all(|b| PUBLIC_ALPHABET.contains(&b))
            && secret.len() == SECRET_LEN
            && secret.bytes().all(|b| b.is_ascii_alphanumeric());
        well_formed.then_some(prefix)
    }

    /// Its MAC under the pepper.
    #[must_use]
    pub fn mac(&self, pepper: &Pepper) -> KeyMac {
        // RFC 2104: a key shorter than the block is padded with zeros.
        let mut block = [0_u8; 64];
        block[..32].copy_from_slice(&pepper.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        block.zeroize();
        mac.update(self.0.as_bytes());
        KeyMac(mac.finalize().into_bytes().into())
    }

    /// The text itself, to show once or to put in the keychain.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText(..)")
    }
}

impl KeyMac {
    /// A stored MAC.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// For the store.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for KeyMac {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for KeyMac {}

impl fmt::Debug for KeyMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyMac(..)")
    }
}

impl Pepper {
    /// The secret from the keychain.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl Pepper {
    /// HMAC-SHA256 of a confirmation code, apart from every key's.
    #[must_use]
    pub fn code_mac(&self, code: &str) -> [u8; 32] {
        let mut block = [0_u8; 64];
        block[..32].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        block.zeroize();
        mac.update(b"countersign confirmation 1\0");
        mac.update(code.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for Pepper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pepper(..)")
    }
}

/// Big-endian base62 of 32 bytes, padded to 43 digits. Destroys its input.
fn base62(bytes: &mut [u8; 32]) -> [u8; SECRET_LEN] {
    let mut digits = [b'0'; SECRET_LEN];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0_u32;
        for byte in bytes.iter_mut() {
            let value = rest * 256 + u32::from(*byte);
            *byte = u8::try_from(value / 62).unwrap_or(u8::MAX);
            rest = value % 62;
        }
        *digit = ALPHABET[rest as usize];
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_keys_have_the_form() {
        let key = KeyText::make([0, 31, 32, 255, 1, 2, 3, 4], [0xff; 32]);
        assert_eq!(key.reveal().len(), 56);
        assert_eq!(key.prefix(), Some("csk_a9a9bcde"));
        assert!(
            KeyText::make([0; 8], [0; 32])
                .reveal()
                .ends_with(&"0".repeat(43))
        );
        // 2^256 - 1 in base62.
        assert_eq!(
            &key.reveal()[13..],
            "yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp1"
        );
    }

    #[test]
    fn other_texts_are_no_keys() {
        let good = KeyText::make([7; 8], [9; 32]).reveal().to_string();
        assert!(KeyText::presented(good.clone()).prefix().is_some());
        let bad = [
            "",
            "csk_",
            "ä",
            &good[..55],
            &format!("{good}0"),
            &good.replace("csk_", "CSK_"),
            &good.replace("_", "-"),
            &format!(" {good}"),
        ];
        for text in bad {
            assert_eq!(
                KeyText::presented(text.to_string()).prefix(),
                None,
                "{text}"
            );
        }
    }

    #[test]
    fn the_whole_text_and_the_pepper_count() {
        let key = KeyText::make([7; 8], [9; 32]);
        let pepper = Pepper::new([1; 32]);
        let mac = key.mac(&pepper);
        assert_eq!(
            mac,
            KeyMac::from_bytes(*key.clone().mac(&pepper).as_bytes())
        );
        assert_ne!(mac, key.mac(&Pepper::new([2; 32])));
        let mut secret = [9; 32];
        secret[31] = 8;
        assert_ne!(mac, KeyText::make([7; 8], secret).mac(&pepper));
        assert_ne!(mac, KeyText::make([8; 8], [9; 32]).mac(&pepper));
    }

    #[test]
    fn no_secret_in_debug() {
        let key = KeyText::make([7; 8], [9; 32]);
        let shown = format!(
            "{:?} {:?} {:?}",
            key,
            key.mac(&Pepper::new([1; 32])),
            Pepper::new([1; 32])
        );
        assert_eq!(shown, "KeyText(..) KeyMac(..) Pepper(..)");
    }
}
