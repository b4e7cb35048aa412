//! Rebuilding checked text: members removed, replaced, added; white space outside strings taken out. What is not named keeps its bytes.

use std::borrow::Cow;

use super::canonical::write_string;
use super::walk::{member, members, white};

/// One change to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The member goes, where it is there.
    Remove(&'a str),
    /// The member's value becomes this raw text, in place; where it is not there, it is appended.
    Set(&'a str, &'a [u8]),
    /// The member is put first with this raw text. The caller knows that it is not there.
    Prepend(&'a str, &'a [u8]),
}

/// The checked object with the changes made, everything else byte for byte.
#[must_use]
pub fn edit(object: &[u8], changes: &[Change<'_>]) -> Vec<u8> {
    let mut out =
        Vec::with_capacity(object.len() + changes.iter().map(Change::room).sum::<usize>());
    let mut parts = Parts {
        out: &mut out,
        any: false,
    };
    parts.out.push(b'{');
    for change in changes {
        if let Change::Prepend(name, value) = change {
            parts.member(name, value);
        }
    }
    let mut end = white(object, 0) + 1;
    let mut lead_from = end;
    for member in members(object) {
        let value_end = member.value_start + member.value.len();
        let trail_end = white(object, value_end);
        match changes.iter().find(|change| change.touches(&member.name)) {
            Some(Change::Remove(_)) => {}
            Some(Change::Set(_, value)) => {
                parts.piece(&[
                    &object[lead_from..member.value_start],
                    value,
                    &object[value_end..trail_end],
                ]);
            }
            Some(Change::Prepend(..)) | None => parts.piece(&[&object[lead_from..trail_end]]),
        }
        end = trail_end;
        lead_from = trail_end + 1;
    }
    for change in changes {
        if let Change::Set(name, value) = change
            && member(object, name).is_none()
        {
            parts.member(name, value);
        }
    }
    // White space of an empty object stays.
    if !parts.any && members(object).next().is_none() {
        let close = white(object, end.min(object.len()));
        parts
            .out
            .extend_from_slice(object.get(end..close).unwrap_or_default());
    }
    out.push(b'}');
    out
}

/// The checked text without a raw CR or LF, which can only be white space outside strings there. Borrowed where there was none.
#[must_use]
pub fn one_line(text: &[u8]) -> Cow<'_, [u8]> {
    let breaks = |byte: &u8| (*byte == b'\n') | (*byte == b'\r');
    // Whole chunks without an early exit, so that the compiler compares many bytes at a time.
    if !text
        .chunks(256)
        .any(|chunk| chunk.iter().fold(false, |found, byte| found | breaks(byte)))
    {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.iter().copied().filter(|byte| !breaks(byte)).collect())
}

struct Parts<'a> {
    out: &'a mut Vec<u8>,
    any: bool,
}

impl Parts<'_> {
    fn piece(&mut self, texts: &[&[u8]]) {
        if self.any {
            self.out.push(b',');
        }
        self.any = true;
        for text in texts {
            self.out.extend_from_slice(text);
        }
    }

    fn member(&mut self, name: &str, value: &[u8]) {
        let mut literal = Vec::with_capacity(name.len() + 2);
        write_string(name, &mut literal);
        self.piece(&[&literal, b":", value]);
    }
}

impl Change<'_> {
    fn touches(&self, member: &str) -> bool {
        match self {
            Self::Remove(name) | Self::Set(name, _) => *name == member,
            Self::Prepend(..) => false,
        }
    }

    fn room(&self) -> usize {
        match self {
            Self::Remove(_) => 0,
            Self::Set(name, value) | Self::Prepend(name, value) => name.len() + value.len() + 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(object: &str, changes: &[Change<'_>], want: &str) {
        assert_eq!(
            String::from_utf8(edit(object.as_bytes(), changes)).unwrap(),
            want,
            "{object} {changes:?}"
        );
    }

    #[test]
    fn everything_else_keeps_its_bytes() {
        let object = r#"{ "a" : 1.0 , "dry_run":true,"\u0062": [1,  2] }"#;
        check(object, &[], object);
        check(
            object,
            &[Change::Remove("dry_run")],
            r#"{ "a" : 1.0 ,"\u0062": [1,  2] }"#,
        );
        check(
            object,
            &[Change::Remove("a")],
            r#"{ "dry_run":true,"\u0062": [1,  2] }"#,
        );
        check(
            object,
            &[Change::Remove("b")],
            r#"{ "a" : 1.0 , "dry_run":true}"#,
        );
        check(
            object,
            &[
                Change::Remove("a"),
                Change::Remove("b"),
                Change::Remove("dry_run"),
            ],
            "{}",
        );
        check(
            object,
            &[Change::Set("a", b"2"), Change::Remove("dry_run")],
            r#"{ "a" : 2 ,"\u0062": [1,  2] }"#,
        );
        check(
            object,
            &[Change::Set("c", b"3")],
            r#"{ "a" : 1.0 , "dry_run":true,"\u0062": [1,  2] ,"c":3}"#,
        );
        check(
            object,
            &[Change::Prepend("t\"", b"{}")],
            r#"{"t\"":{}, "a" : 1.0 , "dry_run":true,"\u0062": [1,  2] }"#,
        );
        check(
            "{ }",
            &[Change::Set("c", b"3"), Change::Remove("x")],
            r#"{"c":3}"#,
        );
        check("{ }", &[], "{ }");
    }

    #[test]
    fn one_line_only_drops_breaks() {
        assert!(matches!(one_line(br#"{"a": 1}"#), Cow::Borrowed(_)));
        assert_eq!(&*one_line(b"{\r\n \"a\\n\":\n1\r}"), b"{ \"a\\n\":1}");
    }
}
