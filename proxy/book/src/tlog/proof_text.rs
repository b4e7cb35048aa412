//! The text of an inclusion proof that can be checked offline (C2SP tlog-proof): index, hashes, signed checkpoint. Refuses to say
//! what the entry is: a verifier hashes the line it was given beside it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::checkpoint::Checkpoint;
use crate::note::{MAX_NOTE, Note, NoteError, Vkey};
use crate::proof::{ProofError, verify_inclusion};
use crate::tree::{Hash, leaf_hash};

const HEAD: &str = "c2sp.org/tlog-proof@v1";
/// A tree of 2^64 leaves has no longer path.
const MAX_HASHES: usize = 64;
/// The longest text that is read, in bytes: hashes, an `extra` line of 64 KiB, a note.
const MAX_TEXT: usize = MAX_NOTE + (96 << 10);

/// A proof that one entry is in a signed tree.
///
/// ```text
/// c2sp.org/tlog-proof@v1
/// index 12
/// <base64 of each hash of the path, leaf's sibling first>
///
/// <signed checkpoint>
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlogProof {
    /// The entry's index.
    pub index: u64,
    /// The path (RFC 6962 2.1.1), at most 64 hashes.
    pub hashes: Vec<Hash>,
    /// The text of the signed checkpoint.
    pub note: String,
}

/// Why a proof is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlogProofError {
    /// The text is not a proof.
    #[error("not a tlog-proof: {0}")]
    Malformed(&'static str),
    /// Its checkpoint is refused.
    #[error("its checkpoint is refused: {0}")]
    Note(#[from] NoteError),
    /// The path does not lead to the signed root.
    #[error(transparent)]
    Proof(#[from] ProofError),
}

impl TlogProof {
    /// The proof's text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}\nindex {}\n", self.index);
        for hash in &self.hashes {
            STANDARD.encode_string(hash.0, &mut text);
            text.push('\n');
        }
        text.push('\n');
        text.push_str(&self.note);
        text
    }

    /// Reads a proof's text, strictly. An `extra` line, which nothing authenticates, is passed over.
    ///
    /// # Errors
    /// [`TlogProofError::Malformed`]. The note is not looked at yet.
    pub fn parse(text: &str) -> Result<Self, TlogProofError> {
        let wrong = TlogProofError::Malformed;
        if text.len() > MAX_TEXT {
            return Err(wrong("it is too long"));
        }
        let mut rest = text
            .strip_prefix(HEAD)
            .and_then(|rest| rest.strip_prefix('\n'))
            .ok_or(wrong("its first line is another"))?;
        let mut line = || {
            let (line, after) = rest.split_once('\n')?;
            rest = after;
            Some(line)
        };
        let cut = wrong("it ends too early");
        let mut first = line().ok_or(cut.clone())?;
        if let Some(extra) = first.strip_prefix("extra ") {
            STANDARD
                .decode(extra)
                .map_err(|_| wrong("its line `extra` is not base64"))?;
            first = line().ok_or(cut.clone())?;
        }
        let index = first
            .strip_prefix("index ")
            .ok_or(wrong("it has no line `index`"))?;
        let index = match index.parse::<u64>() {
            Ok(number) if number.to_string() == index => number,
            _ => return Err(wrong("the index is not a plain decimal number")),
        };
        let mut hashes = Vec::new();
        loop {
            let encoded = line().ok_or(cut.clone())?;
            if encoded.is_empty() {
                break;
            }
            let hash = STANDARD.decode(encoded).ok();
            let hash = hash.and_then(|hash| hash.try_into().ok());
            hashes.push(Hash(hash.ok_or(wrong("a line is not a hash in base64"))?));
            if hashes.len() > MAX_HASHES {
                return Err(wrong("it has too many hashes"));
            }
        }
        Ok(Self {
            index,
            hashes,
            note: rest.to_owned(),
        })
    }

    /// Checks that `line` (without its line feed) is entry `index` of a tree that one of `keys` signed.
    ///
    /// # Errors
    /// When it is not proven. The checkpoint it was proven against otherwise.
    pub fn verify(&self, keys: &[Vkey], line: &[u8]) -> Result<Checkpoint, TlogProofError> {
        let note = Note::parse(self.note.as_bytes())?;
        note.verify(keys)?;
        let checkpoint = Checkpoint::from_note(&note)?;
        verify_inclusion(
            &self.hashes,
            self.index,
            leaf_hash(line),
            checkpoint.size,
            checkpoint.root,
        )?;
        Ok(checkpoint)
    }
}
