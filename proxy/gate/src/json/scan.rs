//! The check: one pass over the bytes, no allocation unless an object has many members or escaped names.

use std::borrow::Cow;
use std::collections::HashSet;

/// Depth of nesting allowed in frames and arguments.
pub const MAX_DEPTH: usize = 128;

/// Why a text is not strict JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {at}")]
pub struct Fault {
    /// Byte offset.
    pub at: usize,
    /// What is wrong there.
    pub kind: FaultKind,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// Nothing but white space.
    #[error("no JSON value")]
    Empty,
    /// The text ends in the middle.
    #[error("unexpected end")]
    Cut,
    /// A byte-order mark.
    #[error("a byte-order mark")]
    Bom,
    /// A byte that cannot stand here.
    #[error("unexpected byte")]
    Unexpected,
    /// Something after the value.
    #[error("something after the value")]
    Trailing,
    /// A malformed number.
    #[error("malformed number")]
    Number,
    /// A control character in a string.
    #[error("control character in a string")]
    Control,
    /// A malformed escape.
    #[error("malformed escape")]
    Escape,
    /// Half of a surrogate pair.
    #[error("lone surrogate")]
    Surrogate,
    /// Not UTF-8.
    #[error("not UTF-8")]
    Utf8,
    /// Two members of one name in one object, compared decoded.
    #[error("duplicate member name")]
    Duplicate,
    /// Nested too deep.
    #[error("nested too deep")]
    Depth,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`.
    Null,
}

/// Checks that `text` is exactly one strict JSON value, and says which kind. White space around it is allowed.
///
/// # Errors
/// The first fault: anything outside RFC 8259, not UTF-8, a byte-order mark, a lone surrogate, a duplicate member name at any depth
/// (compared decoded), nesting deeper than `max_depth`.
pub fn check(text: &[u8], max_depth: usize) -> Result<Kind, Fault> {
    check_with(text, max_depth, Lone::Refused)
}

/// What becomes of half a surrogate pair in a string that is not a member's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lone {
    /// It is a fault: text that is judged must have one meaning.
    Refused,
    /// It passes: text that is only handed on, as JavaScript makes it by cutting inside an emoji.
    Passes,
}

/// As [`check`], with lone surrogates as said; in a member's name they are always refused.
///
/// # Errors
/// As [`check`].
pub fn check_with(text: &[u8], max_depth: usize, lone: Lone) -> Result<Kind, Fault> {
    if text.starts_with(&[0xEF, 0xBB, 0xBF]) {
        return Err(Fault {
            at: 0,
            kind: FaultKind::Bom,
        });
    }
    if let Err(error) = std::str::from_utf8(text) {
        return Err(Fault {
            at: error.valid_up_to(),
            kind: FaultKind::Utf8,
        });
    }
    let mut scan = Scan {
        text,
        at: 0,
        depth_left: max_depth,
        names: Vec::new(),
        lone,
    };
    scan.white();
    if scan.at == text.len() {
        return Err(scan.fault(FaultKind::Empty));
    }
    let kind = scan.value()?;
    scan.white();
    if scan.at < text.len() {
        return Err(scan.fault(FaultKind::Trailing));
    }
    Ok(kind)
}

/// Objects with more members than this are checked for duplicates with a hash set instead of by looking at each.
const FEW: usize = 16;

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    depth_left: usize,
    /// Decoded member names of all open objects, innermost last.
    names: Vec<Cow<'a, [u8]>>,
    lone: Lone,
}

impl<'a> Scan<'a> {
    fn fault(&self, kind: FaultKind) -> Fault {
        Fault { at: self.at, kind }
    }

    fn peek(&self) -> Result<u8, Fault> {
        self.text
            .get(self.at)
            .copied()
            .ok_or_else(|| self.fault(FaultKind::Cut))
    }

    fn white(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Kind, Fault> {
        match self.peek()? {
            b'"' => self.string(self.lone).map(|_| Kind::String),
            b'{' => self.nested(Self::object).map(|()| Kind::Object),
            b'[' => self.nested(Self::array).map(|()| Kind::Array),
            b't' => self.literal(b"true").map(|()| Kind::Bool),
            b'f' => self.literal(b"false").map(|()| Kind::Bool),
            b'n' => self.literal(b"null").map(|()| Kind::Null),
            b'-' | b'0'..=b'9' => self.number().map(|()| Kind::Number),
            _ => Err(self.fault(FaultKind::Unexpected)),
        }
    }

    fn nested(&mut self, inside: fn(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        if self.depth_left == 0 {
            return Err(self.fault(FaultKind::Depth));
        }
        self.depth_left -= 1;
        self.at += 1;
        inside(self)?;
        self.depth_left += 1;
        Ok(())
    }

    fn object(&mut self) -> Result<(), Fault> {
        let base = self.names.len();
        let mut many: Option<HashSet<Cow<'a, [u8]>>> = None;
        self.white();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.white();
            if self.peek()? != b'"' {
                return Err(self.fault(FaultKind::Unexpected));
            }
            let start = self.at;
            let escaped = self.string(Lone::Refused)?;
            self.name(start, escaped, base, &mut many)?;
            self.white();
            if self.peek()? != b':' {
                return Err(self.fault(FaultKind::Unexpected));
            }
            self.at += 1;
            self.white();
            self.value()?;
            self.white();
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => break,
                _ => return Err(self.fault(FaultKind::Unexpected)),
            }
        }
        self.at += 1;
        self.names.truncate(base);
        Ok(())
    }

    fn name(
        &mut self,
        start: usize,
        escaped: bool,
        base: usize,
        many: &mut Option<HashSet<Cow<'a, [u8]>>>,
    ) -> Result<(), Fault> {
        let text: &'a [u8] = self.text;
        let literal = &text[start..self.at];
        let name: Cow<'a, [u8]> = if escaped {
            let decoded =
                super::walk::decode(literal).ok_or_else(|| self.fault(FaultKind::Escape))?;
            Cow::Owned(decoded.into_owned().into_bytes())
        } else {
            Cow::Borrowed(&literal[1..literal.len() - 1])
        };
        let fresh = match many {
            Some(set) => set.insert(name),
            None => {
                let fresh = !self.names[base..].contains(&name);
                self.names.push(name);
                if self.names.len() - base > FEW {
                    *many = Some(self.names.drain(base..).collect());
                }
                fresh
            }
        };
        if fresh {
            Ok(())
        } else {
            Err(Fault {
                at: start,
                kind: FaultKind::Duplicate,
            })
        }
    }

    fn array(&mut self) -> Result<(), Fault> {
        self.white();
        if self.peek()? == b']' {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.white();
            self.value()?;
            self.white();
            match self.peek()? {
                b',' => self.at += 1,
                b']' => break,
                _ => return Err(self.fault(FaultKind::Unexpected)),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Fault> {
        let rest = &self.text[self.at..];
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        let same = rest.iter().zip(word).take_while(|(a, b)| a == b).count();
        self.at += same;
        Err(self.fault(if self.at == self.text.len() {
            FaultKind::Cut
        } else {
            FaultKind::Unexpected
        }))
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.text[self.at] == b'-' {
            self.at += 1;
        }
        if self.text.get(self.at) == Some(&b'0') {
            self.at += 1;
            if self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
                return Err(self.fault(FaultKind::Number));
            }
        } else {
            self.digits()?;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at > start {
            Ok(())
        } else {
            Err(self.fault(FaultKind::Number))
        }
    }

    /// Stands on the opening quote; ends behind the closing one. Says whether there were escapes.
    fn string(&mut self, lone: Lone) -> Result<bool, Fault> {
        self.at += 1;
        let mut escaped = false;
        loop {
            self.at += plain_run(&self.text[self.at..]);
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    return Ok(escaped);
                }
                b'\\' => {
                    escaped = true;
                    self.escape(lone)?;
                }
                _ => return Err(self.fault(FaultKind::Control)),
            }
        }
    }

    fn escape(&mut self, passes: Lone) -> Result<(), Fault> {
        let start = self.at;
        self.at += 1;
        match self.peek()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                self.at += 1;
                Ok(())
            }
            b'u' => {
                self.at += 1;
                let lone = match passes {
                    Lone::Passes => Ok(()),
                    Lone::Refused => Err(Fault {
                        at: start,
                        kind: FaultKind::Surrogate,
                    }),
                };
                match self.four_hex()? {
                    0xDC00..=0xDFFF => lone,
                    0xD800..=0xDBFF => {
                        if !self.text[self.at..].starts_with(b"\\u") {
                            return lone;
                        }
                        let next = self.at;
                        self.at += 2;
                        if (0xDC00..=0xDFFF).contains(&self.four_hex()?) {
                            Ok(())
                        } else {
                            // The second escape is looked at again for itself.
                            self.at = next;
                            lone
                        }
                    }
                    _ => Ok(()),
                }
            }
            _ => Err(self.fault(FaultKind::Escape)),
        }
    }

    fn four_hex(&mut self) -> Result<u32, Fault> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = char::from(self.peek()?)
                .to_digit(16)
                .ok_or_else(|| self.fault(FaultKind::Escape))?;
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }
}

/// How many bytes at the start need no look in a string: no quote, no backslash, no control character. Eight at a time.
pub(super) fn plain_run(text: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    let zero_byte = |word: u64| word.wrapping_sub(ONES) & !word & TOPS;
    let mut run = 0;
    for chunk in text.chunks_exact(8) {
        let Ok(bytes) = <[u8; 8]>::try_from(chunk) else {
            break;
        };
        let word = u64::from_le_bytes(bytes);
        let quote = zero_byte(word ^ (ONES * u64::from(b'"')));
        let backslash = zero_byte(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word & TOPS;
        let found = quote | backslash | control;
        if found != 0 {
            // Borrows only travel upwards, so the lowest marked byte is a true one.
            return run + found.trailing_zeros() as usize / 8;
        }
        run += 8;
    }
    run + text[run..]
        .iter()
        .take_while(|&&byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
        .count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::*;

    type Case<'a> = (&'a str, Result<Kind, (usize, FaultKind)>);

    fn check_all(cases: &[Case<'_>]) {
        for (text, want) in cases {
            let got = check(text.as_bytes(), 4).map_err(|fault| (fault.at, fault.kind));
            assert_eq!(got, *want, "{text:?}");
        }
    }

    #[test]
    fn values() {
        check_all(&[
            ("{}", Ok(Kind::Object)),
            (" [ ] \n", Ok(Kind::Array)),
            ("\"\\u00e4\\ud83d\\ude00ä\"", Ok(Kind::String)),
            ("-0.5E+10", Ok(Kind::Number)),
            ("123456789012345678901234567890", Ok(Kind::Number)),
            ("1e400", Ok(Kind::Number)),
            ("true", Ok(Kind::Bool)),
            ("null", Ok(Kind::Null)),
            (r#"{"a":{"b":1},"b":{"b":1}}"#, Ok(Kind::Object)),
            ("[[[[]]]]", Ok(Kind::Array)),
        ]);
    }

    #[test]
    fn faults_say_where_and_what() {
        use FaultKind as K;
        check_all(&[
            ("", Err((0, K::Empty))),
            (" \n", Err((2, K::Empty))),
            ("\u{feff}{}", Err((0, K::Bom))),
            ("{", Err((1, K::Cut))),
            ("\"abc", Err((4, K::Cut))),
            ("tru", Err((3, K::Cut))),
            ("{} {}", Err((3, K::Trailing))),
            ("NaN", Err((0, K::Unexpected))),
            ("nul1", Err((3, K::Unexpected))),
            ("{a:1}", Err((1, K::Unexpected))),
            ("[1,]", Err((3, K::Unexpected))),
            (r#"{"a":1,}"#, Err((7, K::Unexpected))),
            ("01", Err((1, K::Number))),
            ("1.", Err((2, K::Number))),
            ("-", Err((1, K::Number))),
            ("1e", Err((2, K::Number))),
            ("\"a\nb\"", Err((2, K::Control))),
            (r#""\x""#, Err((2, K::Escape))),
            (r#""\u12g4""#, Err((5, K::Escape))),
            (r#""\ud800""#, Err((1, K::Surrogate))),
            (r#""\ud800\u0041""#, Err((1, K::Surrogate))),
            (r#""a\udc00""#, Err((2, K::Surrogate))),
            (r#"{"a":1,"a":2}"#, Err((7, K::Duplicate))),
            (r#"{"method":1,"\u006dethod":2}"#, Err((12, K::Duplicate))),
            (r#"[{"x":{"a":1,"b":2,"a":3}}]"#, Err((19, K::Duplicate))),
            ("[[[[[]]]]]", Err((4, K::Depth))),
        ]);
        assert_eq!(
            check(b"\"\xff\"", 4),
            Err(Fault {
                at: 1,
                kind: K::Utf8
            })
        );
        assert_eq!(
            check(b"\"\xed\xa0\x80\"", 4),
            Err(Fault {
                at: 1,
                kind: K::Utf8
            })
        );
    }

    #[test]
    fn duplicates_among_many() {
        let object = |last: &str| {
            let members: String = (0..100)
                .map(|n| format!("\"k{n}\":{{\"k{n}\":1}},"))
                .collect();
            format!("{{{members}\"{last}\":0}}")
        };
        assert!(check(object("k100").as_bytes(), 4).is_ok());
        for last in ["k0", "k15", "k16", "k17", "k99", "\\u006b5"] {
            assert_eq!(
                check(object(last).as_bytes(), 4).map_err(|f| f.kind),
                Err(FaultKind::Duplicate),
                "{last}"
            );
        }
    }

    proptest! {
        #[test]
        fn agrees_with_serde_where_it_is_as_strict(text in "[\\[\\]{}\",:\\\\ue0-9a-f.\\- \nAntrls]{0,24}") {
            // serde_json accepts duplicate names in a plain value; everything else it checks as we do.
            let ours = check(text.as_bytes(), MAX_DEPTH);
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            let duplicate = matches!(ours, Err(Fault { kind: FaultKind::Duplicate, .. }));
            let range = matches!(&theirs, Err(error) if error.to_string().contains("out of range"));
            if !duplicate && !range {
                prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?}", ours);
            }
        }

        #[test]
        fn any_written_value_passes(strings in prop::collection::vec(any::<String>(), 0..6), number in any::<f64>()) {
            let text = serde_json::json!({"s": strings, "n": number}).to_string();
            prop_assert_eq!(check(text.as_bytes(), 4), Ok(Kind::Object));
        }

        #[test]
        fn plain_runs(text in prop::collection::vec(any::<u8>(), 0..40)) {
            let want = text.iter().take_while(|&&b| b >= 0x20 && b != b'"' && b != b'\\').count();
            prop_assert_eq!(plain_run(&text), want);
        }
    }
}
