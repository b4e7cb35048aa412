//! The six characters by which a person compares two screens. Knows only a hash.

use std::fmt;

use data_encoding::BASE32_NOPAD;

use crate::Hash;

/// The first 30 bits of a document's hash as six base32 characters (RFC 4648): shown in the app, on the page and in the terminal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code([u8; 6]);

impl Code {
    /// The code of this hash.
    #[must_use]
    pub fn of(hash: Hash) -> Self {
        let text = BASE32_NOPAD.encode(&hash.as_bytes()[..5]);
        let mut code = [b'A'; 6];
        code.iter_mut()
            .zip(text.bytes())
            .for_each(|(to, from)| *to = from);
        Self(code)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(f, "{}", char::from(*byte)))
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k25_the_first_thirty_bits_and_no_more() {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&[0x08, 0x42, 0x10, 0x84]);
        assert_eq!(Code::of(Hash::from_bytes(bytes)).to_string(), "BBBBBB");
        bytes[3] = 0x87;
        assert_eq!(Code::of(Hash::from_bytes(bytes)).to_string(), "BBBBBB");
        bytes[3] = 0x88;
        assert_eq!(Code::of(Hash::from_bytes(bytes)).to_string(), "BBBBBC");
    }
}
