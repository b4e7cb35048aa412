//! One entry of the book: its common members, its canonical line, drafts before they have a place. Refuses to know the
//! tree, the files and what a kind means.

use std::fmt;
use std::sync::Arc;

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::canonical;
use crate::commitment::{Commitment, Field, SecretAt};
use crate::kinds::Body;
use crate::tree::{Hash, leaf_hash};

/// The longest line of an entry the writer makes, in bytes without the line feed.
pub const MAX_LINE: usize = 16 * 1024;

/// The version of the entry schema written here.
pub(crate) const VERSION: u64 = 1;

/// The largest integer every JSON reader keeps: 2^53 − 1.
pub(crate) const MAX_SAFE: u64 = (1 << 53) - 1;

/// The `prev` of entry 0.
pub(crate) const NO_PREV: Hash = Hash([0; 32]);

/// The id of a call: a ULID (26 characters of Crockford's base32, upper case), given by the caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CallId(Arc<str>);

/// An integer of an entry. Written as a number up to 2^53 − 1 and as a decimal string beyond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Count(pub u64);

/// Why an entry can't be written. Nothing has happened when this is returned.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// The line would be longer than [`MAX_LINE`].
    #[error("an entry of kind `{kind}` would be {length} bytes long, the limit is {MAX_LINE}")]
    TooLong {
        /// Kind of the entry.
        kind: &'static str,
        /// Bytes its line would have.
        length: usize,
    },
    /// A payload was given for a member the kind does not have, or twice.
    #[error("an entry of kind `{kind}` takes no payload `{field}` here")]
    NoSuchField {
        /// Kind of the entry.
        kind: &'static str,
        /// Name of the field.
        field: &'static str,
    },
    /// The kind is made by an act of the writer only.
    #[error("an entry of kind `{kind}` can't be handed in as a draft")]
    NotADraft {
        /// Kind of the entry.
        kind: &'static str,
    },
    /// What was written for the entry is not what a reader would take.
    #[error("an entry of kind `{kind}` can't be read back as it would be written")]
    Unreadable {
        /// Kind of the entry.
        kind: &'static str,
    },
    /// The entry was prepared for another book, or under another vault key.
    #[error("the entry was prepared for another book")]
    OtherBook,
    /// The text is not a call id.
    #[error("`{0}` is not a call id (a ULID: 26 characters of Crockford's base32)")]
    NotACallId(String),
    /// A batch without entries or with more than the limit.
    #[error("a batch holds 1 to {limit} entries, not {count}")]
    BatchSize {
        /// Entries given.
        count: usize,
        /// The most a batch may hold.
        limit: usize,
    },
    /// The entry could not be put into canonical form.
    #[error("an entry can't be put into canonical form")]
    Canonical(#[from] serde_json::Error),
}

/// Bytes to commit to and, where the settings say so, to keep encrypted in the vault. Never shown.
#[derive(Clone)]
pub struct Payload(Arc<dyn AsRef<[u8]> + Send + Sync>);

/// An entry before it has an index: a body and the payloads its commitments will stand for.
#[derive(Clone, Debug)]
pub struct Draft {
    pub(crate) body: Body,
    pub(crate) payloads: Vec<(Field, Payload)>,
}

/// An entry as read from the book.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Index in the book, from 0.
    pub index: u64,
    /// Its kind, also when this version does not know it.
    pub kind: String,
    /// Time as written: RFC 3339, UTC, milliseconds.
    pub time: String,
    /// The typed body; nothing when version, kind or a member is not understood or the line is not canonical.
    pub body: Option<Body>,
    /// The line as stored: the leaf's bytes. From a file, so never print it without [`crate::escape`].
    pub line: String,
    /// The leaf hash.
    pub leaf: Hash,
}

/// The members every entry has, whatever its version and kind.
#[derive(Deserialize)]
pub(crate) struct Common<'a> {
    pub i: u64,
    #[serde(borrow)]
    pub k: std::borrow::Cow<'a, str>,
    pub prev: Hash,
    #[serde(borrow)]
    pub ts: std::borrow::Cow<'a, str>,
    pub v: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    i: Count,
    prev: Hash,
    ts: &'a str,
    v: u64,
    #[serde(flatten)]
    body: &'a Body,
}

impl CallId {
    /// Parses a ULID.
    ///
    /// # Errors
    /// When the text is not 26 characters of Crockford's base32, upper case, of at most 128 bits.
    pub fn parse(text: &str) -> Result<Self, EntryError> {
        let crockford = |b: u8| {
            matches!(b, b'0'..=b'9' | b'A'..=b'Z') && !matches!(b, b'I' | b'L' | b'O' | b'U')
        };
        if text.len() == 26 && text.bytes().all(crockford) && text.as_bytes()[0] <= b'7' {
            return Ok(Self(text.into()));
        }
        Err(EntryError::NotACallId(text.chars().take(64).collect()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for CallId {
    type Error = EntryError;
    fn try_from(text: String) -> Result<Self, EntryError> {
        Self::parse(&text)
    }
}

impl From<CallId> for String {
    fn from(id: CallId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 <= MAX_SAFE {
            serializer.serialize_u64(self.0)
        } else {
            serializer.collect_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(u64),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Number(n) if n <= MAX_SAFE => Ok(Self(n)),
            Form::Number(n) => Err(D::Error::invalid_value(
                Unexpected::Unsigned(n),
                &"a string beyond 2^53 - 1",
            )),
            Form::Text(text) => match text.parse() {
                Ok(n) if n > MAX_SAFE && text == format!("{n}") => Ok(Self(n)),
                _ => Err(D::Error::invalid_value(
                    Unexpected::Str(&text),
                    &"a decimal integer beyond 2^53 - 1",
                )),
            },
        }
    }
}

impl Payload {
    /// A payload of received bytes, shared and not copied.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_ref().as_ref()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.bytes().len())
    }
}

impl Draft {
    /// A draft of a body without payloads.
    pub fn new(body: impl Into<Body>) -> Self {
        Self {
            body: body.into(),
            payloads: Vec::new(),
        }
    }

    /// Adds the payload whose commitment the writer puts into the member `field` of a `call` (`args`, `sent`) or an
    /// `outcome` (`result`).
    #[must_use]
    pub fn with(mut self, field: Field, payload: Payload) -> Self {
        self.payloads.push((field, payload));
        self
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &Body {
        &self.body
    }
}

impl Entry {
    /// Reads a stored line. A line with an unknown version, kind or member is still an entry, without a typed body.
    ///
    /// # Errors
    /// When the line is not in the one form an entry has, or does not have the members every entry has.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        canonical::check(text.as_bytes()).map_err(serde_json::Error::custom)?;
        let common: Common<'_> = serde_json::from_str(text)?;
        if !is_time(&common.ts) {
            return Err(serde_json::Error::custom(NO_TIME));
        }
        // What a reader of this version would spell in another way is shown as not understood.
        let body = Body::parse(&common.k, text)
            .filter(|_| common.v == VERSION)
            .filter(|body| {
                line(body, common.i, common.prev, &common.ts)
                    .is_ok_and(|line| line == text.as_bytes())
            });
        Ok(Self {
            index: common.i,
            kind: common.k.into_owned(),
            time: common.ts.into_owned(),
            body,
            leaf: leaf_hash(text.as_bytes()),
            line: text.to_owned(),
        })
    }
}

/// What is said of an entry whose `ts` is none.
pub(crate) const NO_TIME: &str = "its `ts` is no time in UTC with milliseconds";

/// Whether a text has the form of an entry's `ts`: `2026-11-30T17:00:00.000Z`. Whether there is such a day is not asked.
pub(crate) fn is_time(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000Z";
    text.len() == FORM.len()
        && text.bytes().zip(FORM).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            form => byte == *form,
        })
}

/// The canonical line (RFC 8785) of a body at its place.
pub(crate) fn line(body: &Body, index: u64, prev: Hash, ts: &str) -> Result<Vec<u8>, EntryError> {
    let line = serde_jcs::to_vec(&Line {
        i: Count(index),
        prev,
        ts,
        v: VERSION,
        body,
    })?;
    if line.len() > MAX_LINE {
        return Err(EntryError::TooLong {
            kind: body.kind(),
            length: line.len(),
        });
    }
    Ok(line)
}

/// The members of a line in the order they are declared in, each in canonical form.
pub(crate) fn unsorted(
    body: &Body,
    index: u64,
    prev: Hash,
    ts: &str,
) -> Result<Vec<u8>, EntryError> {
    let mut line = Vec::with_capacity(512);
    let members = Line {
        i: Count(index),
        prev,
        ts,
        v: VERSION,
        body,
    };
    serde_json::to_writer(&mut line, &members)?;
    Ok(line)
}

/// Refuses a body whose line could be too long wherever it is put; costs a pass over the body, no canonical form. Answers how
/// many bytes are left.
pub(crate) fn check_length(body: &Body, fields: &[Field]) -> Result<usize, EntryError> {
    // Commitments are filled in later: reserve their longest form.
    const COMMITMENT: usize =
        r#","result":{"at":{"len":,"off":,"seg":},"c":"hmac-sha256:","n":}"#.len() + 64 + 4 * 16;
    let mut length = Length(0);
    let longest = Line {
        i: Count(MAX_SAFE),
        prev: NO_PREV,
        ts: "2026-11-30T17:00:00.000Z",
        v: VERSION,
        body,
    };
    serde_json::to_writer(&mut length, &longest)?;
    let length = length.0 + fields.len() * COMMITMENT;
    if length > MAX_LINE {
        Err(EntryError::TooLong {
            kind: body.kind(),
            length,
        })
    } else {
        Ok(MAX_LINE - length)
    }
}

/// Bytes the list of a payload's secrets and its view take at most.
pub(crate) fn apart_length(secrets: &[SecretAt]) -> usize {
    const VIEW: usize =
        r#","secrets":[],"view":{"at":{"len":,"off":,"seg":},"c":"hmac-sha256:","n":}"#.len()
            + 64
            + 4 * 16;
    secrets.iter().fold(VIEW, |bytes, secret| {
        // Escapes at their longest.
        bytes + r#"{"d":"","p":""},"#.len() + secret.d.len() + secret.p.len() * 6
    })
}

/// Counts what is written to it.
struct Length(usize);

impl std::io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Puts `commitment` into the member `field` of `body`, where the kind has it and it is empty.
pub(crate) fn place(
    body: &mut Body,
    field: Field,
    commitment: Commitment,
) -> Result<(), EntryError> {
    let kind = body.kind();
    match slot(body, field) {
        Some(slot @ None) => {
            *slot = Some(commitment);
            Ok(())
        }
        _ => Err(EntryError::NoSuchField {
            kind,
            field: field.as_str(),
        }),
    }
}

/// The member `field` of `body`, where the kind has it.
pub(crate) fn slot(body: &mut Body, field: Field) -> Option<&mut Option<Commitment>> {
    match (body, field) {
        (Body::Call(call), Field::Args) => Some(&mut call.args),
        (Body::Call(call), Field::Sent) => Some(&mut call.sent),
        (Body::Outcome(outcome), Field::Result) => Some(&mut outcome.result),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b9_integers_beyond_the_safe_range_are_strings() {
        for (value, text) in [
            (0, "0"),
            (MAX_SAFE, "9007199254740991"),
            (MAX_SAFE + 1, "\"9007199254740992\""),
            (MAX_SAFE + 2, "\"9007199254740993\""),
            (u64::MAX, "\"18446744073709551615\""),
        ] {
            assert_eq!(serde_jcs::to_string(&Count(value)).unwrap(), text);
            assert_eq!(serde_json::from_str::<Count>(text).unwrap(), Count(value));
        }
        for bad in [
            "9007199254740992",
            "\"7\"",
            "1.5",
            "-1",
            "\"09007199254740993\"",
            "null",
        ] {
            assert!(serde_json::from_str::<Count>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn call_ids_are_ulids() {
        assert!(CallId::parse("7ZZZZZZZZZZZZZZZZZZZZZZZZZ").is_ok());
        for bad in [
            "",
            "01ARZ3NDEKTSV4RRFFQ69G5FA",
            "01arz3ndektsv4rrffq69g5fav",
            "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "01ARZ3NDEKTSV4RRFFQ69G5FAU",
        ] {
            assert!(CallId::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn b8_a_supplementary_plane_key_does_not_reorder_text() {
        let mut outcome = crate::kinds::Outcome::new(
            CallId::parse("01ARZ3NDEKTSV4RRFFQ69G5FAV").unwrap(),
            crate::kinds::Status::Error,
        );
        outcome.why = Some("\u{1f600}\u{e000}\u{7f}\u{1b}\"\\/\u{2028}\n".into());
        let line = line(&outcome.into(), 0, NO_PREV, "t").unwrap();
        let expected = "\"why\":\"\u{1f600}\u{e000}\u{7f}\\u001b\\\"\\\\/\u{2028}\\n\"}";
        assert!(String::from_utf8(line).unwrap().ends_with(expected));
    }
}
