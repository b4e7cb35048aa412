//! Walking text that [`super::check`] accepted: members and elements as raw slices. On unchecked text it ends early, never panics.

use std::borrow::Cow;

use super::scan::plain_run;

/// One member of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its name, decoded.
    pub name: Cow<'a, str>,
    /// Its raw value, no white space around it.
    pub value: &'a [u8],
    /// Offset of the name's opening quote in the object's text.
    pub start: usize,
    /// Offset of the value's first byte; the value ends at `value_start + value.len()`.
    pub value_start: usize,
}

/// The members of an object, in order.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    text: &'a [u8],
    at: usize,
}

/// The elements of an array, in order.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    text: &'a [u8],
    at: usize,
}

/// Walks a checked object. Empty where it is none.
#[must_use]
pub fn members(object: &[u8]) -> Members<'_> {
    Members {
        text: object,
        at: 0,
    }
}

/// Walks a checked array. Empty where it is none.
#[must_use]
pub fn elements(array: &[u8]) -> Elements<'_> {
    Elements { text: array, at: 0 }
}

/// The raw value of the member of that decoded name.
#[must_use]
pub fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    members(object)
        .find(|member| member.name == name)
        .map(|member| member.value)
}

/// The raw value at a JSON Pointer (RFC 6901) of checked text.
#[must_use]
pub fn at_pointer<'a>(text: &'a [u8], pointer: &str) -> Option<&'a [u8]> {
    let mut found = text;
    for step in pointer.split('/').skip(1) {
        let name = step.replace("~1", "/").replace("~0", "~");
        found = match found.first()? {
            b'{' => member(found, &name)?,
            b'[' => elements(found).nth(name.parse().ok()?)?,
            _ => return None,
        };
    }
    Some(found)
}

/// The text of a checked string literal, quotes included in `literal`. `None` where it is none.
#[must_use]
pub fn decode(literal: &[u8]) -> Option<Cow<'_, str>> {
    let inside = literal.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let text = std::str::from_utf8(inside).ok()?;
    if !inside.contains(&b'\\') {
        return Some(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let (letter, after) = escape.split_at_checked(1)?;
        rest = after;
        out.push(match letter {
            "b" => '\u{8}',
            "f" => '\u{c}',
            "n" => '\n',
            "r" => '\r',
            "t" => '\t',
            "u" => unicode_escape(&mut rest)?,
            "\"" | "\\" | "/" => char::from(letter.as_bytes()[0]),
            _ => return None,
        });
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

fn unicode_escape(rest: &mut &str) -> Option<char> {
    let mut unit = || {
        let (hex, after) = rest.split_at_checked(4)?;
        *rest = after.strip_prefix("\\u").unwrap_or(after);
        u16::from_str_radix(hex, 16).ok().map(|unit| (unit, after))
    };
    let (first, after) = unit()?;
    if (0xD800..0xDC00).contains(&first) {
        let (second, after) = unit()?;
        *rest = after;
        return char::decode_utf16([first, second]).next()?.ok();
    }
    *rest = after;
    char::from_u32(u32::from(first))
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let start = next_item(self.text, self.at, b'{')?;
        let name_end = skip(self.text, start)?;
        let name = decode(&self.text[start..name_end])?;
        let colon = white(self.text, name_end);
        if self.text.get(colon) != Some(&b':') {
            return None;
        }
        let value_start = white(self.text, colon + 1);
        let value_end = skip(self.text, value_start)?;
        self.at = value_end;
        Some(Member {
            name,
            value: &self.text[value_start..value_end],
            start,
            value_start,
        })
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = next_item(self.text, self.at, b'[')?;
        let end = skip(self.text, start)?;
        self.at = end;
        Some(&self.text[start..end])
    }
}

/// From the start of a collection or the end of an item to the start of the next item.
fn next_item(text: &[u8], at: usize, open: u8) -> Option<usize> {
    let at = white(text, at);
    let expected = if at == 0 || text[..at].iter().all(u8::is_ascii_whitespace) {
        open
    } else {
        b','
    };
    if text.get(at) != Some(&expected) {
        return None;
    }
    let item = white(text, at + 1);
    (!matches!(text.get(item), None | Some(b'}' | b']'))).then_some(item)
}

pub(super) fn white(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = text.get(at) {
        at += 1;
    }
    at
}

/// The end of the checked value that starts at `at`.
pub(super) fn skip(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => skip_string(text, at),
        b'{' | b'[' => skip_nested(text, at),
        _ => {
            let rest = &text[at..];
            let len = rest.iter().position(|b| {
                matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r' | b':')
            });
            let end = at + len.unwrap_or(rest.len());
            (end > at).then_some(end)
        }
    }
}

fn skip_string(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += plain_run(text.get(at..)?);
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn skip_nested(text: &[u8], mut at: usize) -> Option<usize> {
    let mut open = 0_usize;
    loop {
        match text.get(at)? {
            b'"' => {
                at = skip_string(text, at)?;
                continue;
            }
            b'{' | b'[' => open += 1,
            b'}' | b']' => {
                open -= 1;
                if open == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn members_as_they_stand() {
        let text = br#" { "a" : [1, {"b":"}"}] ,"\u0062":1e5,"c":"x\"," , "":null}"#;
        let got: Vec<_> = members(text)
            .map(|m| {
                (
                    m.name.into_owned(),
                    String::from_utf8_lossy(m.value).into_owned(),
                )
            })
            .collect();
        let want = [
            ("a", r#"[1, {"b":"}"}]"#),
            ("b", "1e5"),
            ("c", r#""x\",""#),
            ("", "null"),
        ];
        assert_eq!(
            got,
            want.map(|(name, value)| (name.to_string(), value.to_string()))
        );
        for member in members(text) {
            assert_eq!(text[member.start], b'"');
            assert_eq!(
                &text[member.value_start..member.value_start + member.value.len()],
                member.value
            );
        }
        assert_eq!(member(text, "b"), Some(&b"1e5"[..]));
        assert_eq!(member(text, "B"), None);
    }

    #[test]
    fn elements_as_they_stand() {
        let got: Vec<_> = elements(b"[ 1 ,[2,3], \"]\" ]")
            .map(|e| String::from_utf8_lossy(e).into_owned())
            .collect();
        assert_eq!(got, ["1", "[2,3]", "\"]\""]);
        for empty in ["[]", "[ ]", "{}", "", "7", "\"[1]\""] {
            assert_eq!(elements(empty.as_bytes()).count(), 0, "{empty}");
        }
    }

    proptest! {
        #[test]
        fn decodes_like_serde(text in any::<String>(), ascii in any::<bool>()) {
            let mut literal = serde_json::to_string(&text).unwrap();
            if ascii {
                literal = literal.chars().map(|c| {
                    let mut units = [0; 2];
                    if c.is_ascii() { c.to_string() } else { c.encode_utf16(&mut units).iter().map(|u| format!("\\u{u:04x}")).collect() }
                }).collect();
            }
            prop_assert_eq!(decode(literal.as_bytes()).unwrap(), text);
        }

        #[test]
        fn never_panics(bytes in prop::collection::vec(prop::sample::select(b"{}[]\",:\\ u1\x0a".to_vec()), 0..30)) {
            members(&bytes).for_each(drop);
            elements(&bytes).for_each(drop);
            let _ = decode(&bytes);
            let _ = super::super::edit::edit(&bytes, &[super::super::Change::Remove("u"), super::super::Change::Set("1", b"2")]);
            let _ = super::super::canonical(&bytes);
        }
    }
}
