//! The vault: payloads and their salts, encrypted, in append-only segments. Refuses to know entries and the journal;
//! whoever holds the book's lock says where an object goes.
//!
//! A segment `vault/<20 digits>.seg` is 32 bytes of head and then objects. Integers are big-endian.
//! ```text
//!  8  "CSVOBJ1\n"
//!  8  bytes of the whole object
//!  1  length of the call id      then the call id
//!  1  length of the field        then the field
//! 24  nonce of the wrapped part              } zeroed in place by an erasure:
//! 80  XChaCha20-Poly1305(key of the vault;   } with them go the data key and
//!     data key 32, salt 32), with its tag    } the commitment's salt
//! 24  nonce of the payload
//!  …  XChaCha20-Poly1305(data key; payload), with its tag of 16
//! ```
//! Additional data of both: a label, origin, call id and field, joined by NUL.

use std::fs::File;

use chacha20poly1305::XChaCha20Poly1305;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload as Message};
use zeroize::Zeroizing;

use crate::commitment::{At, Field, Salt};
use crate::entry::CallId;
use crate::files;
use crate::key::VaultKey;
use crate::origin::Origin;

/// The first bytes of a segment.
pub(crate) const SEGMENT_HEAD: &[u8; 32] = b"countersign vault segment 1\n\n\n\n\n";

const MAGIC: &[u8; 8] = b"CSVOBJ1\n";
const WRAPPED: usize = 24 + 80;
const OVERHEAD: u64 = 8 + 8 + 1 + 1 + WRAPPED as u64 + 24 + 16;
/// The longest payload an object may hold.
const MAX_PAYLOAD: u64 = 64 << 20;
/// The longest object.
const LONGEST: u64 = OVERHEAD + 512 + MAX_PAYLOAD;
/// A disk writes whole sectors of this many bytes.
const SECTOR: u64 = 512;

/// Whose payload an object holds.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub origin: &'a Origin,
    pub call: &'a CallId,
    pub field: Field,
}

/// What lies where an entry says its object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The object.
    Present,
    /// The object, its key and salt overwritten.
    Erased,
    /// Nothing, or something else.
    Missing,
}

/// Randomness of one object.
pub(crate) struct Seeds {
    pub key: Zeroizing<[u8; 32]>,
    pub wrap_nonce: [u8; 24],
    pub nonce: [u8; 24],
}

/// The object of a payload.
pub(crate) fn seal(
    vault: &VaultKey,
    subject: Subject<'_>,
    salt: &Salt,
    seeds: &Seeds,
    payload: &[u8],
) -> Option<Vec<u8>> {
    let length = object_length(subject, payload.len() as u64)?;
    let mut wrapped = Zeroizing::new([0; 64]);
    wrapped[..32].copy_from_slice(&*seeds.key);
    wrapped[32..].copy_from_slice(&salt.0);
    let wrapped = encrypt(
        vault.bytes(),
        &seeds.wrap_nonce,
        &wrapped[..],
        &subject.data("countersign-vault-key-1"),
    )?;
    let body = encrypt(
        &seeds.key,
        &seeds.nonce,
        payload,
        &subject.data("countersign-vault-payload-1"),
    )?;

    let mut object = Vec::with_capacity(usize::try_from(length).ok()?);
    object.extend_from_slice(MAGIC);
    object.extend_from_slice(&length.to_be_bytes());
    for name in [subject.call.as_str(), subject.field.as_str()] {
        object.push(u8::try_from(name.len()).ok()?);
        object.extend_from_slice(name.as_bytes());
    }
    object.extend_from_slice(&seeds.wrap_nonce);
    object.extend_from_slice(&wrapped);
    object.extend_from_slice(&seeds.nonce);
    object.extend_from_slice(&body);
    Some(object)
}

/// Bytes of the object of a payload of `payload` bytes; nothing when it is too long for one.
fn object_length(subject: Subject<'_>, payload: u64) -> Option<u64> {
    let names = subject.call.as_str().len() + subject.field.as_str().len();
    (payload <= MAX_PAYLOAD).then_some(OVERHEAD + names as u64 + payload)
}

/// Decrypts an object read whole; the reason when it can't be.
pub(crate) fn open(
    vault: &VaultKey,
    subject: Subject<'_>,
    object: &[u8],
) -> Result<(Zeroizing<Vec<u8>>, Salt), &'static str> {
    let head = subject.head(object.len() as u64);
    let rest = object
        .strip_prefix(head.as_slice())
        .ok_or("the object is another one")?;
    let (wrapped, rest) = rest
        .split_at_checked(WRAPPED)
        .ok_or("the object is too short")?;
    if wrapped.iter().all(|byte| *byte == 0) {
        return Err("it was erased");
    }
    let (nonce, body) = rest
        .split_first_chunk::<24>()
        .ok_or("the object is too short")?;
    let (wrap_nonce, wrapped) = wrapped
        .split_first_chunk::<24>()
        .ok_or("the object is too short")?;
    let keys = decrypt(
        vault.bytes(),
        wrap_nonce,
        wrapped,
        &subject.data("countersign-vault-key-1"),
    )
    .ok_or("the vault's key does not open it")?;
    let (key, salt) = keys
        .split_first_chunk::<32>()
        .ok_or("the wrapped key is too short")?;
    let salt: [u8; 32] = salt
        .try_into()
        .map_err(|_| "the wrapped salt is too short")?;
    let payload = decrypt(
        key,
        nonce,
        body,
        &subject.data("countersign-vault-payload-1"),
    )
    .ok_or("its bytes were changed")?;
    Ok((payload, Salt::from_bytes(salt)))
}

/// Looks whether the object of `subject` lies at `at`, without any key, by its head, its names and its last bytes.
pub(crate) fn find(file: &File, subject: Subject<'_>, at: At) -> std::io::Result<Found> {
    let head = subject.head(at.len);
    let mut bytes = vec![0; head.len() + WRAPPED];
    if !possible(at, bytes.len())
        || !files::read_at(file, at.off, &mut bytes)?
        || bytes[..head.len()] != head
    {
        return Ok(Found::Missing);
    }
    let mut end = [0; 16];
    if !files::read_at(file, at.off + at.len - 16, &mut end)? || end == [0; 16] {
        return Ok(Found::Missing);
    }
    Ok(if bytes[head.len()..].iter().all(|byte| *byte == 0) {
        Found::Erased
    } else {
        Found::Present
    })
}

/// As [`find`], on the whole object: also finds a sector that never reached the disk, which is all zero as no ciphertext is.
pub(crate) fn look(subject: Subject<'_>, at: At, object: &[u8]) -> Found {
    let head = subject.head(at.len);
    if !possible(at, head.len() + WRAPPED)
        || object.len() as u64 != at.len
        || !object.starts_with(&head)
    {
        return Found::Missing;
    }
    let (wrapped, rest) = object[head.len()..].split_at(WRAPPED);
    let mut offset = at.off + (head.len() + WRAPPED) as u64;
    let mut rest = rest;
    while !rest.is_empty() {
        let (sector, after) = rest.split_at(rest.len().min((SECTOR - offset % SECTOR) as usize));
        if sector.len() >= 4 && sector.iter().all(|byte| *byte == 0) {
            return Found::Missing;
        }
        offset += sector.len() as u64;
        rest = after;
    }
    if wrapped.iter().all(|byte| *byte == 0) {
        Found::Erased
    } else {
        Found::Present
    }
}

/// Overwrites the wrapped data key and salt of an object that is there with zeros. Nothing else of the file is touched.
pub(crate) fn wipe(file: &File, subject: Subject<'_>, at: At) -> std::io::Result<()> {
    if find(file, subject, at)? == Found::Present {
        let head = subject.head(at.len).len() as u64;
        files::write_at(file, at.off + head, &[0; WRAPPED])?;
    }
    Ok(())
}

/// Whether a loss of power explains that the object is not there: the file ends before it does, or one of its sectors
/// is all zero.
pub(crate) fn is_unwritten(file: &File, at: At) -> std::io::Result<bool> {
    let Some(end) = at.off.checked_add(at.len.min(LONGEST)) else {
        return Ok(false);
    };
    let (mut offset, mut buffer) = (at.off, [0; SECTOR as usize]);
    while offset < end {
        let next = (offset / SECTOR + 1).saturating_mul(SECTOR).min(end);
        let part = &mut buffer[..(next - offset) as usize];
        if !files::read_at(file, offset, part)? {
            return Ok(true);
        }
        if part.len() >= 4 && part.iter().all(|byte| *byte == 0) {
            return Ok(true);
        }
        offset = next;
    }
    Ok(false)
}

fn possible(at: At, least: usize) -> bool {
    (least as u64 + 40..=LONGEST).contains(&at.len) && at.off.checked_add(at.len).is_some()
}

/// Reads the object at `at` whole.
pub(crate) fn read(file: &File, at: At) -> std::io::Result<Option<Vec<u8>>> {
    if at.len > LONGEST {
        return Ok(None);
    }
    let mut object = vec![0; usize::try_from(at.len).unwrap_or(0)];
    Ok(files::read_at(file, at.off, &mut object)?.then_some(object))
}

impl Subject<'_> {
    fn head(&self, length: u64) -> Vec<u8> {
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&length.to_be_bytes());
        for name in [self.call.as_str(), self.field.as_str()] {
            head.push(name.len().min(255) as u8);
            head.extend_from_slice(name.as_bytes());
        }
        head
    }

    fn data(&self, label: &str) -> Vec<u8> {
        [
            label,
            self.origin.as_str(),
            self.call.as_str(),
            self.field.as_str(),
        ]
        .join("\0")
        .into_bytes()
    }
}

fn encrypt(key: &[u8; 32], nonce: &[u8; 24], msg: &[u8], aad: &[u8]) -> Option<Vec<u8>> {
    XChaCha20Poly1305::new(key.into())
        .encrypt(nonce.into(), Message { msg, aad })
        .ok()
}

fn decrypt(key: &[u8; 32], nonce: &[u8; 24], msg: &[u8], aad: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    XChaCha20Poly1305::new(key.into())
        .decrypt(nonce.into(), Message { msg, aad })
        .ok()
        .map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_open_only_where_they_belong() {
        let (origin, other) = (Origin::from_id([1; 16]), Origin::from_id([2; 16]));
        let call = CallId::parse("01ARZ3NDEKTSV4RRFFQ69G5FAV").unwrap();
        let second = CallId::parse("01ARZ3NDEKTSV4RRFFQ69G5FAW").unwrap();
        let subject = Subject {
            origin: &origin,
            call: &call,
            field: Field::Args,
        };
        let vault = VaultKey::from_bytes([5; 32]);
        let seeds = Seeds {
            key: Zeroizing::new([6; 32]),
            wrap_nonce: [7; 24],
            nonce: [8; 24],
        };
        let object = seal(
            &vault,
            subject,
            &Salt::from_bytes([9; 32]),
            &seeds,
            b"{\"secret\":1}",
        )
        .unwrap();
        assert!(!object.windows(6).any(|w| w == b"secret"));
        let (payload, salt) = open(&vault, subject, &object).unwrap();
        assert_eq!(
            (payload.as_slice(), salt.0),
            (&b"{\"secret\":1}"[..], [9; 32])
        );

        for wrong in [
            Subject {
                origin: &other,
                ..subject
            },
            Subject {
                call: &second,
                ..subject
            },
            Subject {
                field: Field::Sent,
                ..subject
            },
        ] {
            assert!(open(&vault, wrong, &object).is_err());
        }
        assert!(open(&VaultKey::from_bytes([4; 32]), subject, &object).is_err());
        for at in 0..object.len() {
            let mut changed = object.clone();
            changed[at] ^= 1;
            assert!(open(&vault, subject, &changed).is_err(), "byte {at}");
            assert!(open(&vault, subject, &object[..at]).is_err(), "cut {at}");
        }
        let head = subject.head(object.len() as u64).len();
        let mut erased = object.clone();
        erased[head..head + WRAPPED].fill(0);
        assert_eq!(open(&vault, subject, &erased).unwrap_err(), "it was erased");
    }
}
