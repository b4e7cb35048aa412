//! What can be done to a draft before it has its place: payloads are looked through, committed to and sealed, and its line is
//! written but for what the place decides. Takes no lock and touches no file, so every caller can do it for itself.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::commitment::{At, Commitment, Field, Keep, Salt, View, commit_bytes, pad};
use crate::entry::{self, CallId, Count, Draft, EntryError};
use crate::error::BookError;
use crate::journal::api::Payloads;
use crate::journal::blank::Blank;
use crate::key::VaultKey;
use crate::kinds::Body;
use crate::origin::Origin;
use crate::redact::{self, Redacted};
use crate::vault::{self, Seeds, Subject};

/// A draft whose payloads are committed to and sealed. It only lacks its place. Made by a [`Preparer`].
pub struct Prepared {
    pub(crate) line: Blank,
    /// In the order they lie in the vault: a payload's view before itself, as the end of the vault is where the payload's own
    /// object ends.
    pub(crate) objects: Vec<(Field, Vec<u8>)>,
    /// Who sealed the objects.
    by: Option<Preparer>,
}

/// Prepares drafts for one book, on any thread, beside the writer that appends them. Given by
/// [`Writer::preparer`](crate::Writer::preparer); copies share the vault's key, which is zeroised with the last of them.
#[derive(Clone)]
pub struct Preparer(Arc<Means>);

struct Means {
    origin: Origin,
    key: VaultKey,
    payloads: Payloads,
}

/// Fills the slice with random bytes from the system.
type Random<'a> = &'a mut dyn FnMut(&mut [u8]) -> std::io::Result<()>;

struct Sealer<'a> {
    means: &'a Means,
    entropy: Random<'a>,
}

struct Sealed {
    commitment: Commitment,
    object: Vec<u8>,
    /// The object of the view, where the payload has one.
    view: Vec<u8>,
}

/// Where an object lies before it lies anywhere.
const NOWHERE: At = At {
    len: 0,
    off: 0,
    seg: 0,
};

impl Preparer {
    pub(crate) fn new(origin: Origin, key: VaultKey, payloads: Payloads) -> Self {
        Self(Arc::new(Means {
            origin,
            key,
            payloads,
        }))
    }

    /// Commits to the draft's payloads, seals them with random bytes of `entropy`, and refuses what could not be written later.
    ///
    /// # Errors
    /// [`BookError::Entry`] when no entry can be made of the draft, [`BookError::Entropy`]. Nothing has happened then.
    pub fn prepare(
        &self,
        draft: Draft,
        entropy: &mut dyn FnMut(&mut [u8]) -> std::io::Result<()>,
    ) -> Result<Prepared, BookError> {
        let mut sealer = Sealer {
            means: &self.0,
            entropy,
        };
        let mut prepared = sealer.prepare(draft)?;
        if !prepared.objects.is_empty() {
            prepared.by = Some(self.clone());
        }
        Ok(prepared)
    }

    pub(crate) fn key(&self) -> &VaultKey {
        &self.0.key
    }

    /// Whether what the one seals opens where the other's objects lie.
    fn is_of_the_same_book(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.origin == other.0.origin && self.0.key.bytes() == other.0.key.bytes())
    }
}

impl fmt::Debug for Preparer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Preparer({})", self.0.origin)
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prepared({} bytes)", self.bytes())
    }
}

impl Prepared {
    /// A body without payloads whose length is known to be small.
    pub(crate) fn plain(body: impl Into<Body>) -> Result<Self, EntryError> {
        Ok(Self {
            line: Blank::of(&body.into())?,
            objects: Vec::new(),
            by: None,
        })
    }

    /// A body without payloads; refused when its line could be too long.
    pub(crate) fn checked(body: impl Into<Body>) -> Result<Self, EntryError> {
        let body = body.into();
        entry::check_length(&body, &[])?;
        Self::plain(body)
    }

    /// Bytes it takes in memory, about: its line and its objects.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.line.len()
            + self
                .objects
                .iter()
                .map(|(_, object)| object.len())
                .sum::<usize>()
    }

    /// Bytes its objects take in the vault.
    pub(crate) fn vault_bytes(&self) -> u64 {
        self.objects
            .iter()
            .map(|(_, object)| object.len() as u64)
            .sum()
    }

    /// Refuses objects that were sealed for another book or under another key: nobody would open them here.
    pub(crate) fn check(&self, book: &Preparer) -> Result<(), EntryError> {
        match &self.by {
            Some(by) if !by.is_of_the_same_book(book) => Err(EntryError::OtherBook),
            _ => Ok(()),
        }
    }
}

impl Sealer<'_> {
    fn prepare(&mut self, draft: Draft) -> Result<Prepared, BookError> {
        let Draft { mut body, payloads } = draft;
        if body.is_act() {
            return Err(EntryError::NotADraft { kind: body.kind() }.into());
        }
        let fields: Vec<Field> = payloads.iter().map(|(field, _)| *field).collect();
        let mut room = entry::check_length(&body, &fields)?;
        let mut objects = Vec::with_capacity(payloads.len());
        for (field, payload) in payloads {
            let call = body.call().cloned().ok_or(EntryError::NoSuchField {
                kind: body.kind(),
                field: field.as_str(),
            })?;
            let sealed = self.seal(field, &call, payload.bytes(), &mut room)?;
            entry::place(&mut body, field, sealed.commitment)?;
            let both = [(field.view(), sealed.view), (field, sealed.object)];
            objects.extend(both.into_iter().filter(|(_, object)| !object.is_empty()));
        }
        Ok(Prepared {
            line: Blank::of(&body)?,
            objects,
            by: None,
        })
    }

    fn seal(
        &mut self,
        field: Field,
        call: &CallId,
        bytes: &[u8],
        room: &mut usize,
    ) -> Result<Sealed, BookError> {
        let kept = match self.means.payloads {
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
                    commitment: Commitment {
                        at: Some(lying(&object)),
                        ..commitment(c, bytes.len() as u64)
                    },
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
        let mut commitment = commitment(c, n);
        commitment.secrets = found.secrets;
        commitment.at = Some(lying(&object));
        commitment.view = Some(View {
            at: lying(&view),
            c: view_c,
            n: Count(found.view.len() as u64),
        });
        Ok(Sealed {
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
            origin: &self.means.origin,
            call,
            field,
        };
        let object = vault::seal(&self.means.key, subject, &salt, &seeds, stored);
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

/// An object's place as far as it is known: its length.
fn lying(object: &[u8]) -> At {
    At {
        len: object.len() as u64,
        ..NOWHERE
    }
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

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}
