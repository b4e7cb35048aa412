//! Looks for what looks like a secret in bytes of text: one pass with one automaton, then a closer look at each place it stops.
//! Refuses to know JSON.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::table::{Rest, SHAPES, STEMS, is_secret_name};

/// A place that looks like a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub range: Range<usize>,
    pub detector: &'static str,
}

/// What a pattern is of.
#[derive(Clone, Copy)]
enum Of {
    Stem,
    Shape(usize),
    PrivateKey,
    Jwt,
    Url,
    /// An escaped ASCII character: a name or value may be hidden behind such.
    Escape,
}

struct Patterns {
    automaton: Option<AhoCorasick>,
    of: Vec<Of>,
}

/// How far a value is followed.
const LONGEST: usize = 4096;
/// How far a private key is.
const LONGEST_KEY: usize = 64 << 10;
/// Letters of a name on either side of its stem.
const NAME: usize = 64;

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let mut texts: Vec<&str> = STEMS.to_vec();
    let mut of = vec![Of::Stem; STEMS.len()];
    for (at, shape) in SHAPES.iter().enumerate() {
        texts.push(shape.prefix);
        of.push(Of::Shape(at));
    }
    for (text, what) in [
        ("-----begin", Of::PrivateKey),
        ("eyj", Of::Jwt),
        ("://", Of::Url),
        ("\\u00", Of::Escape),
    ] {
        texts.push(text);
        of.push(what);
    }
    // The patterns are constants, so this does not fail; without an automaton nothing is found, and a test says so.
    let automaton = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .match_kind(MatchKind::LeftmostLongest)
        .build(&texts)
        .ok();
    Patterns { automaton, of }
});

/// Whether a closer look is worth it. No allocation.
pub(super) fn is_suspect(bytes: &[u8]) -> bool {
    let Some(automaton) = &PATTERNS.automaton else {
        return false;
    };
    automaton.find_iter(bytes).any(|found| {
        let range = found.start()..found.end();
        match PATTERNS.of[found.pattern().as_usize()] {
            Of::Escape => true,
            Of::Stem => is_name(bytes, &range),
            of => place(bytes, &range, of).is_some(),
        }
    })
}

/// The places in `bytes` that look like secrets, ascending, none within another.
pub(super) fn places(bytes: &[u8]) -> Vec<Place> {
    let mut found: Vec<Place> = Vec::new();
    let Some(automaton) = &PATTERNS.automaton else {
        return found;
    };
    let mut at = 0;
    while let Some(hit) = automaton.find(aho_corasick::Input::new(bytes).range(at..)) {
        let range = hit.start()..hit.end();
        at = hit.end();
        if let Some(place) = place(bytes, &range, PATTERNS.of[hit.pattern().as_usize()])
            && found
                .last()
                .is_none_or(|last| last.range.end <= place.range.start)
        {
            at = at.max(place.range.end);
            found.push(place);
        }
    }
    found
}

fn place(bytes: &[u8], hit: &Range<usize>, of: Of) -> Option<Place> {
    let place = |range, detector| Some(Place { range, detector });
    match of {
        Of::Escape => None,
        Of::Shape(at) => {
            let shape = SHAPES.get(at)?;
            let exact = &bytes[hit.clone()] == shape.prefix.as_bytes();
            let end = run(bytes, hit.end, |byte| shape.rest.has(byte));
            let whole = exact && begins(bytes, hit.start) && end - hit.end >= shape.least;
            whole.then_some(())?;
            place(hit.start..end, shape.detector)
        }
        Of::PrivateKey => {
            let head = &bytes[hit.end..bytes.len().min(hit.end + 40)];
            memchr::memmem::find(head, b"PRIVATE KEY")?;
            let rest = &bytes[hit.end..bytes.len().min(hit.end + LONGEST_KEY)];
            let end = memchr::memmem::find(rest, b"-----END").map_or(rest.len(), |end| {
                let tail = &rest[end + 8..];
                end + 8 + memchr::memmem::find(tail, b"-----").map_or(tail.len(), |dash| dash + 5)
            });
            place(hit.start..hit.end + end, "private_key")
        }
        Of::Jwt => {
            if &bytes[hit.clone()] != b"eyJ" || !begins(bytes, hit.start) {
                return None;
            }
            let end = run(bytes, hit.end, |byte| Rest::Word.has(byte) || byte == b'.');
            let mut parts = bytes[hit.start..end].split(|byte| *byte == b'.');
            let long = |part: Option<&[u8]>| part.is_some_and(|part| part.len() >= 8);
            let three = long(parts.next()) && long(parts.next()) && parts.next().is_some();
            three.then_some(())?;
            place(hit.start..end, "jwt")
        }
        Of::Url => {
            let end = run(bytes, hit.end, |byte| {
                byte.is_ascii_graphic()
                    && !matches!(
                        byte,
                        b'/' | b'"' | b'\'' | b'\\' | b'<' | b'>' | b'@' | b'?' | b'#'
                    )
            });
            let user = end > hit.end && bytes.get(end) == Some(&b'@');
            user.then_some(())?;
            place(hit.end..end, "url_userinfo")
        }
        Of::Stem => assignment(bytes, hit),
    }
}

/// Whether what is around the stem is a name with something after it.
fn is_name(bytes: &[u8], hit: &Range<usize>) -> bool {
    let end = run_at_most(bytes, hit.end, NAME, is_name_byte);
    let after = run_at_most(bytes, end, 8, |byte| {
        matches!(byte, b'"' | b'\'' | b'\\' | b' ' | b'\t' | b'\r' | b'\n')
    });
    matches!(bytes.get(after), Some(b':' | b'='))
        || bytes
            .get(end)
            .is_some_and(|byte| byte.is_ascii_whitespace())
            && bytes[hit.clone()].eq_ignore_ascii_case(b"bearer")
}

/// `name: value`, `name=value`, `"name": "value"`, `Bearer value` in text.
fn assignment(bytes: &[u8], hit: &Range<usize>) -> Option<Place> {
    if bytes[hit.clone()].eq_ignore_ascii_case(b"bearer") && begins(bytes, hit.start) {
        let start = run_at_most(bytes, hit.end, 4, |byte| byte == b' ');
        let end = run(bytes, start, is_token_byte);
        if start > hit.end && end - start >= 8 {
            return Some(Place {
                range: start..end,
                detector: "bearer",
            });
        }
    }
    let first = (hit.start.saturating_sub(NAME)..hit.start)
        .rev()
        .take_while(|at| is_name_byte(bytes[*at]))
        .last()
        .unwrap_or(hit.start);
    let last = run_at_most(bytes, hit.end, NAME, is_name_byte);
    let name = std::str::from_utf8(&bytes[first..last]).ok()?;
    if !is_secret_name(name) {
        return None;
    }
    let space = |byte| matches!(byte, b' ' | b'\t');
    let quote = |byte| matches!(byte, b'"' | b'\'' | b'\\' | b'`');
    let sign = run_at_most(bytes, run_at_most(bytes, last, 4, quote), 4, space);
    if !matches!(bytes.get(sign), Some(b':' | b'=')) {
        return None;
    }
    let open = run_at_most(bytes, sign + 1, 4, space);
    let start = run_at_most(bytes, open, 4, quote);
    let quoted = start > open;
    let end = run(bytes, start, |byte| {
        !quote(byte)
            && byte >= b' '
            && (quoted
                || !matches!(
                    byte,
                    b' ' | b',' | b';' | b'&' | b'}' | b']' | b')' | b'<' | b'>'
                ))
    });
    let value = &bytes[start..end];
    const NOTHING: [&[u8]; 6] = [b"null", b"none", b"true", b"false", b"undefined", b"string"];
    let real = value.len() >= 4
        && !NOTHING.iter().any(|word| value.eq_ignore_ascii_case(word))
        && !matches!(value[0], b'$' | b'{' | b'*' | b'[');
    real.then_some(Place {
        range: start..end,
        detector: "assignment",
    })
}

/// Whether no word goes on here.
fn begins(bytes: &[u8], at: usize) -> bool {
    // A letter after a backslash is an escape of the text around: `\nghp_…`.
    let before = |back: usize| at.checked_sub(back).map(|at| bytes[at]);
    match before(1) {
        None => true,
        Some(b'n' | b't' | b'r') if before(2) == Some(b'\\') => true,
        Some(byte) => !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')),
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
}

fn run(bytes: &[u8], start: usize, is: impl Fn(u8) -> bool) -> usize {
    run_at_most(bytes, start, LONGEST, is)
}

fn run_at_most(bytes: &[u8], start: usize, most: usize, is: impl Fn(u8) -> bool) -> usize {
    let start = start.min(bytes.len());
    let length = bytes[start..]
        .iter()
        .take(most)
        .take_while(|byte| is(**byte));
    start + length.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_found_in_text_and_words_are_not() {
        assert!(PATTERNS.automaton.is_some());
        let word = "Abcdefghij0123456789Abcdefghij0123456789";
        for (text, detector, hidden) in [
            (
                format!("key ghp_{word} here"),
                "github_token",
                format!("ghp_{word}"),
            ),
            (
                format!("a\\nghp_{word}"),
                "github_token",
                format!("ghp_{word}"),
            ),
            (
                "id AKIAIOSFODNN7EXAMPLE.".into(),
                "aws_key",
                "AKIAIOSFODNN7EXAMPLE".into(),
            ),
            (format!("Bearer {word}"), "bearer", word.into()),
            (
                "postgres://maria:hunter2@db/x".into(),
                "url_userinfo",
                "maria:hunter2".into(),
            ),
            (
                "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.c2ln x".into(),
                "jwt",
                "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.c2ln".into(),
            ),
            (
                "DB_PASSWORD=hunter22 next".into(),
                "assignment",
                "hunter22".into(),
            ),
            (
                "{\\\"api_key\\\": \\\"ab cd ef\\\"}".into(),
                "assignment",
                "ab cd ef".into(),
            ),
            (
                "x?access_token=abcdef&y=1".into(),
                "assignment",
                "abcdef".into(),
            ),
            (
                "-----BEGIN RSA PRIVATE KEY-----\\nMIIE\\n-----END RSA PRIVATE KEY-----\\n.".into(),
                "private_key",
                "-----BEGIN RSA PRIVATE KEY-----\\nMIIE\\n-----END RSA PRIVATE KEY-----".into(),
            ),
        ] {
            let found = places(text.as_bytes());
            assert_eq!(found.len(), 1, "{text} {found:?}");
            assert_eq!(
                (found[0].detector, &text[found[0].range.clone()]),
                (detector, hidden.as_str()),
                "{text}"
            );
            assert!(is_suspect(text.as_bytes()), "{text}");
        }
        for text in [
            "the password must be changed",
            "tokens: 12",
            "max_tokens=4096",
            "see https://example.com/a@b",
            "task-sk-1",
            "desk-",
            "-----BEGIN CERTIFICATE-----",
            "progressToken: 12345",
            "bearer of news",
            "AKIA",
            "password: null",
            "passed: 1234 tests",
        ] {
            assert_eq!(places(text.as_bytes()), [], "{text}");
        }
    }
}
