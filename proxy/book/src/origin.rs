//! The name of a book: `countersign.localhost/book/` and 26 base32 characters. Refuses to know who makes the random part.

use std::fmt;

use data_encoding::{Encoding, Specification};
use serde::{Deserialize, Serialize};

const PREFIX: &str = "countersign.localhost/book/";

/// The origin of a book: the first line of its checkpoints and the name of its key.
///
/// `countersign.localhost/book/<26 characters of RFC 4648 base32, lower case, unpadded>` (128 random bits), so that a
/// book made anew never passes for the old one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Origin(String);

/// A text that is not the origin of a book.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a book's origin (`{PREFIX}` and 26 base32 characters)")]
pub struct OriginError(String);

impl Origin {
    /// The origin with these 128 random bits.
    #[must_use]
    pub fn from_id(id: [u8; 16]) -> Self {
        Self(format!("{PREFIX}{}", base32().encode(&id)))
    }

    /// Parses an origin, strictly.
    ///
    /// # Errors
    /// When the text is not the prefix and 26 base32 characters.
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        let wrong = || OriginError(text.chars().take(200).collect());
        let id = text.strip_prefix(PREFIX).ok_or_else(wrong)?;
        match base32().decode(id.as_bytes()) {
            Ok(bytes) if bytes.len() == 16 => Ok(Self(text.to_owned())),
            _ => Err(wrong()),
        }
    }

    /// The whole text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Origin {
    type Error = OriginError;
    fn try_from(text: String) -> Result<Self, OriginError> {
        Self::parse(&text)
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn base32() -> &'static Encoding {
    static BASE32: std::sync::LazyLock<Encoding> = std::sync::LazyLock::new(|| {
        let mut spec = Specification::new();
        spec.symbols.push_str("abcdefghijklmnopqrstuvwxyz234567");
        // The specification is a constant: 32 distinct symbols.
        spec.encoding().unwrap_or(data_encoding::BASE32_NOPAD)
    });
    &BASE32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_parsed_strictly() {
        let good = Origin::from_id([7; 16]);
        assert_eq!(good.as_str().len(), PREFIX.len() + 26);
        assert_eq!(Origin::parse(good.as_str()).unwrap(), good);
        for bad in [
            "",
            PREFIX,
            "countersign.localhost/book/AAAAAAAAAAAAAAAAAAAAAAAAAA",
            "countersign.localhost/book/aaaaaaaaaaaaaaaaaaaaaaaaab",
            "countersign.localhost/book/aaaaaaaaaaaaaaaaaaaaaaaaa",
            "countersign.localhost/book/aaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "countersign.localhost/book/aaaaaaaaaaaaaaaaaaaaaaaaa1",
            "example.com/book/aaaaaaaaaaaaaaaaaaaaaaaaaa",
        ] {
            assert!(Origin::parse(bad).is_err(), "{bad}");
        }
    }
}
