//! The form hashes are taken over: RFC 8785 member order and strings, numbers exactly as received (RFC 8785 alone would give
//! 9007199254740993 and …992 one form).

use std::borrow::Cow;

use super::MAX_DEPTH;
use super::walk::{decode, elements, members, skip, white};

/// The canonical form of checked text.
#[must_use]
pub fn canonical(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    canonical_into(text, &mut out);
    out
}

/// Appends the canonical form of checked text.
pub fn canonical_into(text: &[u8], out: &mut Vec<u8>) {
    let start = white(text, 0);
    let Some(end) = skip(text, start) else { return };
    value_into(&text[start..end], MAX_DEPTH, out);
}

fn value_into(value: &[u8], depth: usize, out: &mut Vec<u8>) {
    match value.first() {
        Some(b'{') if depth > 0 => {
            let mut sorted: Vec<_> = members(value).collect();
            sorted.sort_by(|a, b| a.name.encode_utf16().cmp(b.name.encode_utf16()));
            out.push(b'{');
            for (at, member) in sorted.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_string(&member.name, out);
                out.push(b':');
                value_into(member.value, depth - 1, out);
            }
            out.push(b'}');
        }
        Some(b'[') if depth > 0 => {
            out.push(b'[');
            for (at, element) in elements(value).enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                value_into(element, depth - 1, out);
            }
            out.push(b']');
        }
        Some(b'"') => match decode(value) {
            Some(Cow::Owned(text)) => write_string(&text, out),
            _ => out.extend_from_slice(value),
        },
        _ => out.extend_from_slice(value),
    }
}

/// Appends a string literal as RFC 8785 spells it.
pub(super) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x09 => out.extend_from_slice(b"\\t"),
            0x0A => out.extend_from_slice(b"\\n"),
            0x0C => out.extend_from_slice(b"\\f"),
            0x0D => out.extend_from_slice(b"\\r"),
            0x00..0x20 => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: &str) {
        assert_eq!(String::from_utf8(canonical(text.as_bytes())).unwrap(), want);
    }

    #[test]
    fn order_strings_and_white_space_go_numbers_stay() {
        check(
            " { \"b\" : [ 1.0 , 1e2 ] , \"a\" : { } } ",
            r#"{"a":{},"b":[1.0,1e2]}"#,
        );
        check(
            r#"["\u0041\/\u001F\u000a\ud83d\ude00","ä"]"#,
            "[\"A/\\u001f\\n😀\",\"ä\"]",
        );
        // RFC 8785 3.2.3: by UTF-16 units, so an emoji (a surrogate pair) stands before U+FB33.
        check(
            r#"{"\ufb33":1,"\ud83d\ude00":2,"\u20ac":3,"1":4}"#,
            "{\"1\":4,\"€\":3,\"😀\":2,\"\u{fb33}\":1}",
        );
        assert_ne!(
            canonical(b"9007199254740993"),
            canonical(b"9007199254740992")
        );
    }
}
