//! C2SP signed notes (signed-note v1.0.0) and their Ed25519 keys (type 0x01). Refuses to know what a note says.
//!
//! ```text
//! text, one or more lines, each ending with a line feed
//!
//! — <key name> <base64 of 4-byte key id and signature>
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest, Sha256};

use crate::key::Signer;

const ED25519: u8 = 0x01;
/// The most signature lines a note may have; the specification asks for at least 16.
const MAX_SIGNATURES: usize = 64;
/// The longest note that is read, in bytes.
pub(crate) const MAX_NOTE: usize = 32 * 1024;

/// A verifier key: `<name>+<hex key id>+<base64 of type and public key>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vkey {
    name: String,
    id: [u8; 4],
    key: VerifyingKey,
}

/// A parsed note. Its signatures are not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    text: String,
    signatures: Vec<SignatureLine>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SignatureLine {
    name: String,
    id: [u8; 4],
    signature: Vec<u8>,
}

/// Why a note or a verifier key is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// The bytes are not a note.
    #[error("not a signed note: {0}")]
    Malformed(&'static str),
    /// The text is not a verifier key.
    #[error("not a verifier key: {0}")]
    NotAVkey(&'static str),
    /// A key that is known signed something else.
    #[error("the signature of `{0}` does not match")]
    BadSignature(String),
    /// No signature is by a known key.
    #[error("no signature by a known key")]
    NoKnownKey,
    /// The text is not a checkpoint.
    #[error("not a checkpoint: {0}")]
    NotACheckpoint(&'static str),
}

impl Vkey {
    pub(crate) fn ed25519(name: &str, key: VerifyingKey) -> Self {
        Self {
            name: name.to_owned(),
            id: key_id(name, &key),
            key,
        }
    }

    /// Parses the text of a vkey, strictly.
    ///
    /// # Errors
    /// When a part is missing, the key id is not the key's, or the type is not Ed25519 (0x01).
    pub fn parse(text: &str) -> Result<Self, NoteError> {
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(id), Some(data)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(NoteError::NotAVkey("it has not three parts"));
        };
        if !valid_name(name) {
            return Err(NoteError::NotAVkey("the name is empty or has spaces"));
        }
        let id: [u8; 4] = data_encoding::HEXLOWER
            .decode(id.as_bytes())
            .ok()
            .and_then(|id| id.try_into().ok())
            .ok_or(NoteError::NotAVkey(
                "the key id is not 8 hexadecimal digits",
            ))?;
        let data = STANDARD
            .decode(data)
            .map_err(|_| NoteError::NotAVkey("the key is not base64"))?;
        let [ED25519, key @ ..] = data.as_slice() else {
            return Err(NoteError::NotAVkey("the key type is not Ed25519"));
        };
        let key: [u8; 32] = key
            .try_into()
            .map_err(|_| NoteError::NotAVkey("the key is not 32 bytes"))?;
        let key = VerifyingKey::from_bytes(&key)
            .map_err(|_| NoteError::NotAVkey("the key is no point of the curve"))?;
        if key.is_weak() {
            return Err(NoteError::NotAVkey("the key is of small order"));
        }
        let vkey = Self::ed25519(name, key);
        if vkey.id != id {
            return Err(NoteError::NotAVkey("the key id is not the key's"));
        }
        Ok(vkey)
    }

    /// The key's name; of a book's key the origin.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What people compare by eye: 16 bytes of SHA-256 over the name and the key, in groups of four digits. The first eight digits
    /// are the key id.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let digest = key_digest(&self.name, &self.key);
        let digits = data_encoding::HEXLOWER.encode(&digest[..16]);
        let groups = digits.as_bytes().chunks(4);
        let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
        groups.join(" ")
    }

    /// The 4-byte key id.
    #[must_use]
    pub fn id(&self) -> [u8; 4] {
        self.id
    }
}

impl std::fmt::Display for Vkey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut data = vec![ED25519];
        data.extend_from_slice(self.key.as_bytes());
        write!(
            f,
            "{}+{}+{}",
            self.name,
            data_encoding::HEXLOWER.encode(&self.id),
            STANDARD.encode(data)
        )
    }
}

impl Note {
    /// Parses a note, strictly. Signatures by types and keys not known here are kept and ignored later.
    ///
    /// # Errors
    /// When the bytes do not have the form of a note.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoteError> {
        if bytes.len() > MAX_NOTE {
            return Err(NoteError::Malformed("it is too long"));
        }
        let note =
            std::str::from_utf8(bytes).map_err(|_| NoteError::Malformed("it is not UTF-8"))?;
        if note.bytes().any(|b| b < 0x20 && b != b'\n' || b == 0x7f) {
            return Err(NoteError::Malformed("it has control characters"));
        }
        let split = note
            .rfind("\n\n")
            .ok_or(NoteError::Malformed("it has no signatures"))?;
        let (text, lines) = (&note[..=split], &note[split + 2..]);
        let lines = lines
            .strip_suffix('\n')
            .ok_or(NoteError::Malformed("its last line does not end"))?;
        if text == "\n" {
            return Err(NoteError::Malformed("it has no text"));
        }
        let signatures = lines
            .split('\n')
            .map(SignatureLine::parse)
            .collect::<Result<Vec<_>, _>>()?;
        if signatures.len() > MAX_SIGNATURES {
            return Err(NoteError::Malformed("it has too many signatures"));
        }
        Ok(Self {
            text: text.to_owned(),
            signatures,
        })
    }

    /// The signed text, with its last line feed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Verifies every signature by one of `keys` (`verify_strict`: no malleable signature passes).
    ///
    /// # Errors
    /// When a known key's signature does not match, or none is by a known key.
    pub fn verify(&self, keys: &[Vkey]) -> Result<(), NoteError> {
        let mut known = false;
        for line in &self.signatures {
            let Some(key) = keys
                .iter()
                .find(|key| key.id == line.id && key.name == line.name)
            else {
                continue;
            };
            let bad = || NoteError::BadSignature(line.name.clone());
            let signature = Signature::from_slice(&line.signature).map_err(|_| bad())?;
            key.key
                .verify_strict(self.text.as_bytes(), &signature)
                .map_err(|_| bad())?;
            known = true;
        }
        if known {
            Ok(())
        } else {
            Err(NoteError::NoKnownKey)
        }
    }

    /// Whether one of the signatures claims to be by `key`.
    pub(crate) fn names(&self, key: &Vkey) -> bool {
        self.signatures
            .iter()
            .any(|line| line.id == key.id && line.name == key.name)
    }
}

impl SignatureLine {
    fn parse(line: &str) -> Result<Self, NoteError> {
        let wrong = NoteError::Malformed("a signature line is not `— name base64`");
        let Some((name, data)) = line
            .strip_prefix("— ")
            .and_then(|rest| rest.split_once(' '))
        else {
            return Err(wrong);
        };
        let Ok(data) = STANDARD.decode(data) else {
            return Err(wrong);
        };
        match data.split_first_chunk::<4>() {
            Some((id, signature)) if !signature.is_empty() && valid_name(name) => Ok(Self {
                name: name.to_owned(),
                id: *id,
                signature: signature.to_vec(),
            }),
            _ => Err(wrong),
        }
    }
}

/// The note of `text` (which ends with a line feed) signed by every one of `signers`, in order.
pub(crate) fn sign(text: &str, signers: &[(&Vkey, &Signer)]) -> String {
    let mut note = String::with_capacity(text.len() + signers.len() * 200);
    note.push_str(text);
    note.push('\n');
    for (vkey, signer) in signers {
        let mut data = vkey.id.to_vec();
        data.extend_from_slice(&signer.sign(text.as_bytes()));
        note.push_str("— ");
        note.push_str(&vkey.name);
        note.push(' ');
        STANDARD.encode_string(data, &mut note);
        note.push('\n');
    }
    note
}

fn valid_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '+')
}

fn key_id(name: &str, key: &VerifyingKey) -> [u8; 4] {
    let hash = key_digest(name, key);
    [hash[0], hash[1], hash[2], hash[3]]
}

fn key_digest(name: &str, key: &VerifyingKey) -> [u8; 32] {
    Sha256::new()
        .chain_update(name)
        .chain_update([b'\n', ED25519])
        .chain_update(key.as_bytes())
        .finalize()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: &str = "countersign.localhost/book/aaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn key(seed: u8) -> (Vkey, Signer) {
        let signer = Signer::from_seed([seed; 32]);
        (signer.vkey(&crate::Origin::parse(ORIGIN).unwrap()), signer)
    }

    #[test]
    fn the_specifications_example_verifies() {
        let vkey =
            Vkey::parse("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")
                .unwrap();
        let note = "If you think cryptography is the answer to your problem,\n\
                    then you don't know what your problem is.\n\n\
                    — PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";
        Note::parse(note.as_bytes())
            .unwrap()
            .verify(std::slice::from_ref(&vkey))
            .unwrap();
        assert_eq!(
            vkey.to_string(),
            "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
        );
    }

    #[test]
    fn several_signatures_and_strangers() {
        let (a, b, c) = (key(1), key(2), key(3));
        let note = Note::parse(sign("x\n", &[(&a.0, &a.1), (&b.0, &b.1)]).as_bytes()).unwrap();
        let check = |keys: &[Vkey]| note.verify(keys);
        assert_eq!(check(std::slice::from_ref(&a.0)), Ok(()));
        assert_eq!(check(&[b.0.clone(), a.0.clone()]), Ok(()));
        assert_eq!(
            check(std::slice::from_ref(&c.0)),
            Err(NoteError::NoKnownKey)
        );
        // A known key with a bad signature rejects the note, whatever the others say.
        let forged = sign("x\n", &[(&a.0, &a.1), (&b.0, &c.1)]);
        let forged = Note::parse(forged.as_bytes()).unwrap();
        assert_eq!(forged.verify(std::slice::from_ref(&a.0)), Ok(()));
        assert!(matches!(
            forged.verify(&[a.0, b.0]),
            Err(NoteError::BadSignature(_))
        ));
    }
}
