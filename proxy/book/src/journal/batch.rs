//! Turns drafts into the bytes of one batch: payloads sealed before the lock is taken, lines and checkpoint under it.
//! Refuses to write them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use zeroize::Zeroizing;

use crate::checkpoint::Checkpoint;
use crate::commitment::{At, Commitment, Field, Keep, Salt, commit_bytes};
use crate::entry::{self, CallId, Count, Draft, EntryError};
use crate::error::BookError;
use crate::journal::api::{Entropy, Payloads, Recorded};
use crate::journal::chain::{Chain, VaultEnd};
use crate::journal::segment::CP;
use crate::key::{Hand, VaultKey};
use crate::kinds::Body;
use crate::note;
use crate::origin::Origin;
use crate::tree::leaf_hash;
use crate::vault::{self, Seeds, Subject};

/// The most entries a caller may put into one batch. Well below what readers accept, so that the entries recovery adds
/// for a lost one fit.
pub(crate) const MAX_BATCH: usize = 1024;

/// A draft whose payloads are committed to and sealed. It only lacks its place.
pub(crate) struct Prepared {
    body: Body,
    payloads: Vec<Sealed>,
}

struct Sealed {
    field: Field,
    commitment: Commitment,
    object: Vec<u8>,
}

/// What sealing needs.
pub(crate) struct Sealer<'a> {
    pub origin: &'a Origin,
    pub key: &'a VaultKey,
    pub payloads: Payloads,
    pub entropy: &'a mut Entropy,
}

/// The bytes of a batch. The chain it was made with has advanced over it.
#[derive(Default)]
pub(crate) struct Lines {
    pub journal: Vec<u8>,
    pub vault: Vec<u8>,
    pub entries: Vec<Recorded>,
    pub lines: u64,
    pub checkpoint: String,
}

impl Sealer<'_> {
    /// Commits to the draft's payloads, seals them, and refuses what could not be written later.
    pub(crate) fn prepare(&mut self, draft: Draft) -> Result<Prepared, BookError> {
        let Draft { mut body, payloads } = draft;
        if body.is_act() {
            return Err(EntryError::NotADraft { kind: body.kind() }.into());
        }
        let fields: Vec<Field> = payloads.iter().map(|(field, _)| *field).collect();
        entry::check_length(&body, &fields)?;
        let mut sealed = Vec::with_capacity(payloads.len());
        for (field, payload) in payloads {
            let call = body.call().cloned().ok_or(EntryError::NoSuchField {
                kind: body.kind(),
                field: field.as_str(),
            })?;
            let (commitment, object) = self.seal(field, &call, payload.bytes())?;
            entry::place(&mut body, field, commitment.clone())?;
            sealed.push(Sealed {
                field,
                commitment,
                object,
            });
        }
        Ok(Prepared {
            body,
            payloads: sealed,
        })
    }

    fn seal(
        &mut self,
        field: Field,
        call: &CallId,
        bytes: &[u8],
    ) -> Result<(Commitment, Vec<u8>), BookError> {
        let mut random = Zeroizing::new([0; 32 + 32 + 24 + 24]);
        (self.entropy)(&mut random[..]).map_err(BookError::Entropy)?;
        let (salt, rest) = random.split_at(32);
        let (key, nonces) = rest.split_at(32);
        let salt = Salt::from_bytes(array(salt));
        let length = bytes.len() as u64;
        let mut commitment = Commitment {
            at: None,
            c: commit_bytes(&salt, field, call, bytes),
            keep: None,
            n: Count(length),
            secrets: Vec::new(),
            view: None,
        };
        let kept = match self.payloads {
            Payloads::Digest => Err(Keep::None),
            Payloads::Keep { limit } if length > limit => Err(Keep::TooLarge),
            Payloads::Keep { .. } => {
                let seeds = Seeds {
                    key: Zeroizing::new(array(key)),
                    wrap_nonce: array(&nonces[..24]),
                    nonce: array(&nonces[24..]),
                };
                let subject = Subject {
                    origin: self.origin,
                    call,
                    field,
                };
                vault::seal(self.key, subject, &salt, &seeds, bytes).ok_or(Keep::TooLarge)
            }
        };
        let object = kept.unwrap_or_else(|keep| {
            commitment.keep = Some(keep);
            Vec::new()
        });
        Ok((commitment, object))
    }
}

impl Prepared {
    /// A body without payloads whose length is known to be small.
    pub(crate) fn plain(body: impl Into<Body>) -> Self {
        Self {
            body: body.into(),
            payloads: Vec::new(),
        }
    }

    /// A body without payloads; refused when its line could be too long.
    pub(crate) fn checked(body: impl Into<Body>) -> Result<Self, EntryError> {
        let body = body.into();
        entry::check_length(&body, &[])?;
        Ok(Self {
            body,
            payloads: Vec::new(),
        })
    }

    /// Bytes its objects take in the vault.
    pub(crate) fn vault_bytes(&self) -> u64 {
        self.payloads
            .iter()
            .map(|sealed| sealed.object.len() as u64)
            .sum()
    }
}

impl Lines {
    /// Makes the lines of `batch` and their checkpoint; objects go to the vault from `vault` on. Advances `chain`, which
    /// stays at its last checkpoint when this fails.
    pub(crate) fn make(
        batch: Vec<Prepared>,
        chain: &mut Chain,
        vault: VaultEnd,
        now: Timestamp,
        signers: &mut Hand,
    ) -> Result<Self, BookError> {
        let mut lines = Self::default();
        let time = timestamp(now);
        for prepared in batch {
            if let Err(error) = lines.push(prepared, chain, vault, &time) {
                chain.drop_unsigned();
                return Err(error);
            }
        }
        if let Err(error) = lines.sign(chain, signers) {
            chain.drop_unsigned();
            return Err(error);
        }
        Ok(lines)
    }

    fn push(
        &mut self,
        prepared: Prepared,
        chain: &mut Chain,
        vault: VaultEnd,
        time: &str,
    ) -> Result<(), BookError> {
        let Prepared { mut body, payloads } = prepared;
        for Sealed {
            field,
            mut commitment,
            object,
        } in payloads
        {
            if !object.is_empty() {
                let off = vault.end + self.vault.len() as u64;
                commitment.at = Some(At {
                    len: object.len() as u64,
                    off,
                    seg: vault.seg,
                });
                self.vault.extend_from_slice(&object);
            }
            if let Some(slot) = entry::slot(&mut body, field) {
                *slot = Some(commitment);
            }
        }
        let index = chain.next();
        let line = entry::line(&body, index, chain.last(), time)?;
        // The writer's own lines pass the reader's checks before they are signed.
        chain
            .leaf(&line)
            .map_err(|flaw| BookError::NotFound(flaw.what))?;
        self.entries.push(Recorded {
            index,
            leaf: leaf_hash(&line),
        });
        self.journal.extend_from_slice(&line);
        self.journal.push(b'\n');
        self.lines += 1;
        Ok(())
    }

    /// Signs with the key in force, and beside it with those before that may still sign and are at hand.
    fn sign(&mut self, chain: &mut Chain, signers: &mut Hand) -> Result<(), BookError> {
        let size = chain.next();
        if let Some(key) = chain.keys.in_force(size)
            && !signers.get(&key.vkey)
        {
            return Err(BookError::KeyMissing {
                vkey: key.vkey.to_string(),
            });
        }
        let keys: Vec<_> = chain
            .keys
            .signing(size)
            .filter_map(|vkey| signers.pair(vkey))
            .collect();
        let checkpoint = Checkpoint {
            origin: chain.origin.to_string(),
            size,
            root: chain.next_root(),
        };
        self.checkpoint = note::sign(&checkpoint.text(), &keys);
        let encoded = STANDARD.encode(&self.checkpoint);
        chain
            .checkpoint(encoded.as_bytes())
            .map_err(|flaw| BookError::NotFound(flaw.what))?;
        self.journal.extend_from_slice(CP);
        self.journal.extend_from_slice(encoded.as_bytes());
        self.journal.push(b'\n');
        self.lines += 1;
        Ok(())
    }
}

/// RFC 3339, UTC, milliseconds.
pub(crate) fn timestamp(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}
