//! Members that have one spelling: ids, names, times, keys, bytes. Each is read strictly and written as it was read.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text that is not the one spelling of what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {need}")]
pub struct SpellError {
    text: String,
    need: &'static str,
}

/// The id of a document: 16 random bytes, base64url without padding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id([u8; 16]);

/// Bytes, base64url without padding.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(Vec<u8>);

/// A moment in whole seconds, `2026-11-30T17:00:00Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Timestamp);

/// The name of an agent or server: `[a-z0-9][a-z0-9_-]{0,31}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// The public prefix of an agent's key: `csk_` and 8 letters or digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPrefix(String);

/// The id of an executor: a UUID in lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutorId(String);

/// The public key of an executor: `ed25519:` and its 32 bytes, base64url without padding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutorKey([u8; 32]);

impl Id {
    /// An id of these bytes, which must come from the system's random source.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl Bytes {
    /// These bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl Time {
    /// The moment, with what is below a second cut off.
    #[must_use]
    pub fn at(moment: Timestamp) -> Self {
        let whole = Timestamp::from_second(moment.as_nanosecond().div_euclid(1_000_000_000) as i64);
        Self(whole.unwrap_or(moment))
    }

    /// The moment.
    #[must_use]
    pub fn timestamp(self) -> Timestamp {
        self.0
    }

    /// Seconds from `earlier` to this moment; negative where it is the later one.
    #[must_use]
    pub fn seconds_after(self, earlier: Self) -> i64 {
        self.0.as_second() - earlier.0.as_second()
    }
}

impl Name {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl KeyPrefix {
    /// The prefix.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ExecutorId {
    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ExecutorKey {
    /// A key of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

fn wrong(text: &str, need: &'static str) -> SpellError {
    SpellError {
        text: text.chars().take(80).collect(),
        need,
    }
}

fn unpadded(text: &str) -> Option<Vec<u8>> {
    BASE64URL_NOPAD.decode(text.as_bytes()).ok()
}

impl FromStr for Id {
    type Err = SpellError;

    fn from_str(text: &str) -> Result<Self, SpellError> {
        let bytes = unpadded(text).and_then(|bytes| bytes.try_into().ok());
        bytes
            .map(Self)
            .ok_or_else(|| wrong(text, "16 bytes in base64url without padding"))
    }
}

impl FromStr for Bytes {
    type Err = SpellError;

    fn from_str(text: &str) -> Result<Self, SpellError> {
        unpadded(text)
            .map(Self)
            .ok_or_else(|| wrong(text, "base64url without padding"))
    }
}

impl FromStr for Time {
    type Err = SpellError;

    fn from_str(text: &str) -> Result<Self, SpellError> {
        let read: Option<Timestamp> = text.parse().ok();
        read.map(Self::at)
            .filter(|time| time.to_string() == text)
            .ok_or_else(|| wrong(text, "a time in whole seconds, `2026-11-30T17:00:00Z`"))
    }
}

impl FromStr for Name {
    type Err = SpellError;

    fn from_str(text: &str) -> Result<Self, SpellError> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = (1..=32).contains(&text.len())
            && plain(text.as_bytes()[0])
            && text
                .bytes()
                .all(|byte| plain(byte) || matches!(byte, b'_' | b'-'));
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(wrong(
                text,
                "a name of up to 32 lower-case letters, digits, `_` and `-` that begins with a letter or digit",
            ))
        }
    }
}

impl FromStr for KeyPrefix {
    type Err = SpellError;

    fn from_str(text: &str) -> Result<Self, SpellError> {
        let rest = text.strip_prefix("csk_").unwrap_or_default();
        if rest.len() == 8 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(wrong(text, "`csk_` and 8 letters or digits"))
        }
    }
}

impl FromStr for ExecutorId {
    type Err = SpellError;

    fn from_str(text: &str) -> Result<Self, SpellError> {
        let fits = text.len() == 36
            && text.bytes().enumerate().all(|(place, byte)| match place {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'),
            });
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(wrong(text, "a UUID in lower case"))
        }
    }
}

impl FromStr for ExecutorKey {
    type Err = SpellError;

    fn from_str(text: &str) -> Result<Self, SpellError> {
        let bytes = text
            .strip_prefix("ed25519:")
            .and_then(unpadded)
            .and_then(|bytes| bytes.try_into().ok());
        bytes
            .map(Self)
            .ok_or_else(|| wrong(text, "`ed25519:` and 32 bytes in base64url without padding"))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64URL_NOPAD.encode(&self.0))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64URL_NOPAD.encode(&self.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for ExecutorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ed25519:{}", BASE64URL_NOPAD.encode(&self.0))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ExecutorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! spelled {
    ($($name:ty),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

spelled!(Id, Bytes, Time, Name, KeyPrefix, ExecutorId, ExecutorKey);

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: FromStr<Err = SpellError> + fmt::Display>(good: &[&str], bad: &[&str]) {
        for text in good {
            match text.parse::<T>() {
                Ok(value) => assert_eq!(value.to_string(), *text),
                Err(error) => panic!("{error}"),
            }
        }
        for text in bad {
            assert!(text.parse::<T>().is_err(), "{text}");
        }
    }

    #[test]
    fn one_spelling_each() {
        check::<Id>(
            &["AAAAAAAAAAAAAAAAAAAAAA", "MFedjpoQMV2IvRlbRY5qBA"],
            &[
                "",
                "AAAA",
                "AAAAAAAAAAAAAAAAAAAAAB",
                "AAAAAAAAAAAAAAAAAAAAAA==",
            ],
        );
        check::<Bytes>(&["", "AA", "_-8"], &["A", "AB", "+/8", "AA==", "A A"]);
        check::<Time>(
            &["2026-11-30T17:00:00Z", "1970-01-01T00:00:00Z"],
            &[
                "2026-11-30T17:00:00.5Z",
                "2026-11-30T17:00:00+00:00",
                "2026-11-30 17:00:00Z",
                "2026-11-30T17:00:60Z",
                "2026-13-30T17:00:00Z",
                "2026-11-30T17:00Z",
                "2026-11-30t17:00:00z",
                "",
            ],
        );
        check::<Name>(
            &["a", "claude-desktop", "0_x"],
            &["", "-a", "A", "a b", "é", &"a".repeat(33)],
        );
        check::<KeyPrefix>(
            &["csk_ab12cd34"],
            &["csk_", "csk_ab12cd3", "csk_ab12cd345", "csx_ab12cd34"],
        );
        check::<ExecutorId>(
            &["6f0c0000-0000-4000-8000-00000000000a"],
            &[
                "6F0C0000-0000-4000-8000-00000000000A",
                "6f0c00000000-4000-8000-00000000000a0",
                "",
            ],
        );
        check::<ExecutorKey>(
            &["ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"],
            &[
                "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                "ed25519:AA",
                "rsa:AA",
            ],
        );
    }

    #[test]
    fn a_moment_before_the_epoch_is_cut_downwards() {
        let moment: Timestamp = "1969-12-31T23:59:58.5Z".parse().unwrap();
        assert_eq!(Time::at(moment).to_string(), "1969-12-31T23:59:58Z");
    }
}
