//! Turns drafts into the bytes of one batch: payloads sealed before the lock is taken, lines and checkpoint under it.
//! Refuses to write them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use zeroize::Zeroizing;

use crate::checkpoint::Checkpoint;
use crate::commitment::{At, Commitment, Field, Keep, Salt, View, commit_bytes, pad};
use crate::entry::{self, CallId, Count, Draft, EntryError};
use crate::error::BookError;
use crate::journal::api::{Entropy, Payloads, Recorded};
use crate::journal::chain::{Chain, VaultEnd};
use crate::journal::segment::CP;
use crate::key::{Hand, VaultKey};
use crate::kinds::Body;
use crate::note;
use crate::origin::Origin;
use crate::redact::{self, Redacted};
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
    /// The object of the view, where the payload has one.
    view: Vec<u8>,
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
        let mut room = entry::check_length(&body, &fields)?;
        let mut sealed = Vec::with_capacity(payloads.len());
        for (field, payload) in payloads {
            let call = body.call().cloned().ok_or(EntryError::NoSuchField {
                kind: body.kind(),
                field: field.as_str(),
            })?;
            let new = self.seal(field, &call, payload.bytes(), &mut room)?;
            entry::place(&mut body, field, new.commitment.clone())?;
            sealed.push(new);
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
        room: &mut usize,
    ) -> Result<Sealed, BookError> {
        let kept = match self.payloads {
            Payloads::Digest => Err(Keep::None),
            Payloads::Keep { limit } if bytes.len() as u64 > limit => Err(Keep::TooLarge),
            Payloads::Keep { .. } => Ok(()),
        };
        if let Err(keep) = kept {
            return self.commit_only(field, call, bytes, keep);
        }
        match redact::find(bytes).and_then(|found| fitting(found, room)) {
            Some(found) => self.seal_apart(field, call, bytes, found),
            None => match self.object(field, call, bytes, bytes)? {
                Some((c, object)) => Ok(Sealed {
                    field,
                    commitment: commitment(c, bytes.len() as u64),
                    object,
                    view: Vec::new(),
                }),
                None => self.commit_only(field, call, bytes, Keep::TooLarge),
            },
        }
    }

    /// A payload with secrets: itself, its length hidden, and apart from it what may be shown.
    fn seal_apart(
        &mut self,
        field: Field,
        call: &CallId,
        bytes: &[u8],
        found: Redacted,
    ) -> Result<Sealed, BookError> {
        let (padded, n) = pad(bytes);
        let raw = self.object(field, call, bytes, &padded)?;
        let shown = self.object(field.view(), call, &found.view, &found.view)?;
        let (Some((c, object)), Some((view_c, view))) = (raw, shown) else {
            return self.commit_only(field, call, bytes, Keep::TooLarge);
        };
        let nowhere = At {
            len: 0,
            off: 0,
            seg: 0,
        };
        let mut commitment = commitment(c, n);
        commitment.secrets = found.secrets;
        commitment.view = Some(View {
            at: nowhere,
            c: view_c,
            n: Count(found.view.len() as u64),
        });
        Ok(Sealed {
            field,
            commitment,
            object,
            view,
        })
    }

    /// The commitment to a payload that is not kept: its salt is discarded.
    fn commit_only(
        &mut self,
        field: Field,
        call: &CallId,
        bytes: &[u8],
        keep: Keep,
    ) -> Result<Sealed, BookError> {
        let mut salt = Zeroizing::new([0; 32]);
        (self.entropy)(&mut salt[..]).map_err(BookError::Entropy)?;
        let c = commit_bytes(&Salt::from_bytes(*salt), field, call, bytes);
        let mut commitment = commitment(c, bytes.len() as u64);
        commitment.keep = Some(keep);
        Ok(Sealed {
            field,
            commitment,
            object: Vec::new(),
            view: Vec::new(),
        })
    }

    /// The commitment to `bytes` and the object that holds `stored`; nothing when that is too long for one.
    fn object(
        &mut self,
        field: Field,
        call: &CallId,
        bytes: &[u8],
        stored: &[u8],
    ) -> Result<Option<(String, Vec<u8>)>, BookError> {
        let mut random = Zeroizing::new([0; 32 + 32 + 24 + 24]);
        (self.entropy)(&mut random[..]).map_err(BookError::Entropy)?;
        let (salt, rest) = random.split_at(32);
        let (key, nonces) = rest.split_at(32);
        let salt = Salt::from_bytes(array(salt));
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
        let object = vault::seal(self.key, subject, &salt, &seeds, stored);
        Ok(object.map(|object| (commit_bytes(&salt, field, call, bytes), object)))
    }
}

/// As much of the list of secrets as the entry has room for; nothing when not even the view has.
fn fitting(mut found: Redacted, room: &mut usize) -> Option<Redacted> {
    while entry::apart_length(&found.secrets) > *room {
        found.secrets.pop()?;
    }
    // An entry that says nothing of the secrets would not say why its payload is padded.
    if found.secrets.is_empty() {
        return None;
    }
    *room -= entry::apart_length(&found.secrets);
    Some(found)
}

fn commitment(c: String, n: u64) -> Commitment {
    Commitment {
        at: None,
        c,
        keep: None,
        n: Count(n),
        secrets: Vec::new(),
        view: None,
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
            .map(|sealed| (sealed.object.len() + sealed.view.len()) as u64)
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
            view,
        } in payloads
        {
            // The view first: the end of the vault is where the payload's own object ends.
            if let Some(shown) = &mut commitment.view {
                shown.at = self.put(vault, &view);
            }
            if !object.is_empty() {
                commitment.at = Some(self.put(vault, &object));
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

    /// Adds an object to the bytes for the vault.
    fn put(&mut self, vault: VaultEnd, object: &[u8]) -> At {
        let at = At {
            len: object.len() as u64,
            off: vault.end + self.vault.len() as u64,
            seg: vault.seg,
        };
        self.vault.extend_from_slice(object);
        at
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
