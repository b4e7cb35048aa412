//! Gives back what the vault keeps of an entry, checked against what the entry commits to. Refuses to write.

use std::collections::VecDeque;

use crate::commitment::{Field, SecretAt, commit_bytes, unpad};
use crate::entry::{Common, Entry};
use crate::error::BookError;
use crate::facts::{self, Fact, Stored};
use crate::files::{self, Lines};
use crate::journal::segment::CP;
use crate::key::VaultKey;
use crate::kinds::Body;
use crate::origin::Origin;
use crate::reader::Reader;
use crate::vault::{self, Found, Subject};

/// A payload an entry refers to.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Which.
    pub field: Field,
    /// Whether it is there.
    pub state: KeptState,
    /// What looks like a secret in it; empty for a view, where it is hidden.
    pub secrets: Vec<SecretAt>,
}

/// Whether a payload is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptState {
    /// Kept, encrypted.
    Kept,
    /// Its key and salt were destroyed.
    Erased,
    /// Not in the vault.
    Missing,
}

/// What an entry says of a payload it refers to: enough to judge the bytes of a vault segment, wherever they come from.
#[derive(Clone, Debug)]
pub struct Promise {
    origin: Origin,
    index: u64,
    stored: Stored,
}

impl Promise {
    /// Which payload.
    #[must_use]
    pub fn field(&self) -> Field {
        self.stored.target.f
    }

    /// The number of the vault segment.
    #[must_use]
    pub fn segment(&self) -> u64 {
        self.stored.at.seg
    }

    /// Whether it is in the bytes of that segment, as far as that can be seen without a key.
    #[must_use]
    pub fn look(&self, segment: &[u8]) -> KeptState {
        let found = self.object(segment).map_or(Found::Missing, |object| {
            vault::look(self.subject(), self.stored.at, object)
        });
        found.into()
    }

    /// Decrypts it from the bytes of that segment and checks it against the entry's commitment.
    ///
    /// # Errors
    /// [`BookError::Vault`] when the object is not what the entry says.
    pub fn open(&self, key: &VaultKey, segment: &[u8]) -> Result<Vec<u8>, BookError> {
        let object = self.object(segment);
        let object = object.ok_or_else(|| self.refused("its vault segment ends before it"))?;
        self.open_object(key, object)
    }

    fn open_object(&self, key: &VaultKey, object: &[u8]) -> Result<Vec<u8>, BookError> {
        let stored = &self.stored;
        let (sealed, salt) =
            vault::open(key, self.subject(), object).map_err(|why| self.refused(why))?;
        unpad(&sealed, stored.n, stored.padded)
            .filter(|payload| {
                commit_bytes(&salt, stored.target.f, &stored.call, payload) == stored.c
            })
            .map(<[u8]>::to_vec)
            .ok_or_else(|| self.refused("it is not what the entry commits to"))
    }

    fn object<'a>(&self, segment: &'a [u8]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.stored.at.off).ok()?;
        let length = usize::try_from(self.stored.at.len).ok()?;
        segment.get(start..start.checked_add(length)?)
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            origin: &self.origin,
            call: &self.stored.call,
            field: self.stored.target.f,
        }
    }

    fn refused(&self, why: &str) -> BookError {
        BookError::Vault {
            index: self.index,
            field: self.field().as_str(),
            why: why.to_owned(),
        }
    }
}

impl From<Found> for KeptState {
    fn from(found: Found) -> Self {
        match found {
            Found::Present => Self::Kept,
            Found::Erased => Self::Erased,
            Found::Missing => Self::Missing,
        }
    }
}

impl Reader {
    /// What entry `index` says of the payloads it refers to.
    ///
    /// # Errors
    /// [`BookError::NotFound`] when the book has no such entry; [`BookError::Io`].
    pub fn promises(&self, index: u64) -> Result<Vec<Promise>, BookError> {
        let (_, stored) = self.stored(index)?;
        let promise = |stored| self.promise(index, stored);
        Ok(stored.into_iter().map(promise).collect())
    }

    fn promise(&self, index: u64, stored: Stored) -> Promise {
        Promise {
            origin: self.book.origin.clone(),
            index,
            stored,
        }
    }

    /// The payloads entry `index` refers to, views first. Opens none of them.
    ///
    /// # Errors
    /// [`BookError::NotFound`] when the book has no such entry; [`BookError::Io`].
    pub fn kept(&self, index: u64) -> Result<Vec<Kept>, BookError> {
        let (entry, stored) = self.stored(index)?;
        stored
            .iter()
            .map(|stored| {
                let path = self.layout.vault_segment(stored.at.seg);
                let found = match files::open_if_there(&path)? {
                    None => Found::Missing,
                    Some(file) => vault::find(&file, self.subject(stored), stored.at)
                        .map_err(BookError::io("read", &path))?,
                };
                let field = stored.target.f;
                Ok(Kept {
                    field,
                    state: found.into(),
                    secrets: secrets(&entry, field),
                })
            })
            .collect()
    }

    /// Decrypts the payload `field` of entry `index` and checks it against the entry's commitment.
    ///
    /// # Errors
    /// [`BookError::NotFound`] when nothing is kept, [`BookError::Vault`] when the object is not what the entry says.
    pub fn payload(&self, key: &VaultKey, index: u64, field: Field) -> Result<Vec<u8>, BookError> {
        let (entry, stored) = self.stored(index)?;
        let Some(stored) = stored.into_iter().find(|stored| stored.target.f == field) else {
            let why = match has_commitment(&entry, field) {
                true => "keeps only a commitment, not the payload".to_owned(),
                false => format!("has no payload `{}`", field.as_str()),
            };
            return Err(BookError::NotFound(format!("entry {index} {why}")));
        };
        let promise = self.promise(index, stored);
        let at = promise.stored.at;
        let path = self.layout.vault_segment(at.seg);
        let file = files::open_if_there(&path)?
            .ok_or_else(|| promise.refused("its vault segment is not there"))?;
        let object = vault::read(&file, at).map_err(BookError::io("read", &path))?;
        let object = object.ok_or_else(|| promise.refused("its vault segment ends before it"))?;
        promise.open_object(key, &object)
    }

    /// The `erase` entry that names the payload `field` of entry `index`. Reads on from that entry.
    ///
    /// # Errors
    /// [`BookError::Io`].
    pub fn erased_by(&self, index: u64, field: Field) -> Result<Option<u64>, BookError> {
        let kind = memchr::memmem::Finder::new(br#""k":"erase""#);
        let segments = self.layout.segments()?;
        let start = segments.partition_point(|first| *first <= index);
        for first in segments.into_iter().skip(start.saturating_sub(1)) {
            let path = self.layout.segment(first);
            let io = || BookError::io("read", &path);
            let mut lines = Lines::at(&files::open_read(&path)?, 0, 0).map_err(io())?;
            let mut found: VecDeque<u64> = VecDeque::new();
            while let Some(line) = lines.next().map_err(io())? {
                let bytes = lines.bytes();
                if !line.whole {
                    break;
                }
                if bytes.starts_with(CP) && !found.is_empty() {
                    return Ok(found.pop_front());
                }
                if !bytes.starts_with(b"{") || kind.find(bytes).is_none() {
                    continue;
                }
                let entry = std::str::from_utf8(bytes)
                    .ok()
                    .and_then(|text| Entry::parse(text).ok());
                let Some(Entry {
                    index: at,
                    body: Some(Body::Erase(erase)),
                    ..
                }) = entry
                else {
                    continue;
                };
                let mut targets = erase.targets.iter();
                if targets.any(|target| target.i.0 == index && target.f == field) {
                    found.push_back(at);
                }
            }
        }
        Ok(None)
    }

    /// The first entry that can be read: more than 0 when entries before were pruned.
    ///
    /// # Errors
    /// [`BookError::Io`].
    pub fn first(&self) -> Result<u64, BookError> {
        Ok(self.layout.segments()?.first().copied().unwrap_or(0))
    }

    fn stored(&self, index: u64) -> Result<(Entry, Vec<Stored>), BookError> {
        let first = self.first()?;
        if index < first {
            return Err(BookError::NotFound(format!(
                "entry {index} was pruned: the book begins with entry {first}"
            )));
        }
        let entry = self
            .show(index)?
            .ok_or_else(|| BookError::NotFound(format!("entry {index} is not in the book")))?;
        let entry = entry.entry;
        let facts = serde_json::from_str::<Common<'_>>(&entry.line)
            .ok()
            .and_then(|common| facts::of(&common, &entry.line));
        let stored = facts
            .into_iter()
            .flatten()
            .filter_map(|fact| match fact {
                Fact::Stored(stored) => Some(stored),
                _ => None,
            })
            .collect();
        Ok((entry, stored))
    }

    fn subject<'a>(&'a self, stored: &'a Stored) -> Subject<'a> {
        Subject {
            origin: &self.book.origin,
            call: &stored.call,
            field: stored.target.f,
        }
    }
}

fn secrets(entry: &Entry, field: Field) -> Vec<SecretAt> {
    let commitment = match (entry.body.as_ref(), field) {
        (Some(Body::Call(call)), Field::Args) => call.args.as_ref(),
        (Some(Body::Call(call)), Field::Sent) => call.sent.as_ref(),
        (Some(Body::Outcome(outcome)), Field::Result) => outcome.result.as_ref(),
        _ => None,
    };
    commitment.map_or_else(Vec::new, |commitment| commitment.secrets.clone())
}

fn has_commitment(entry: &Entry, field: Field) -> bool {
    match (entry.body.as_ref(), field) {
        (Some(Body::Call(call)), Field::Args) => call.args.is_some(),
        (Some(Body::Call(call)), Field::Sent) => call.sent.is_some(),
        (Some(Body::Outcome(outcome)), Field::Result) => outcome.result.is_some(),
        _ => false,
    }
}
