//! Every argument of a call as a line, numbers with the digits they were received with. Knows no tool.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Line, Source};

/// Deepest nesting of arguments, as frames have it.
const DEPTH: usize = 128;

/// One line for every value in `arguments`, in their order; nothing when they are not JSON or name a member twice.
pub(super) fn lines(arguments: &[u8]) -> Option<Vec<Line>> {
    let mut lines = Vec::new();
    for (pointer, value) in leaves(arguments)? {
        let line = match pointer.as_str() {
            "" => Line::ours("all arguments: "),
            pointer => Line::default().quote(Source::Agent, pointer).and(": "),
        };
        lines.push(value.after(line));
    }
    Some(lines)
}

/// The value of every pointer.
pub(super) fn leaves(arguments: &[u8]) -> Option<Vec<(String, Leaf)>> {
    let raw: &RawValue = serde_json::from_slice(arguments).ok()?;
    let mut found = Vec::new();
    walk(raw, String::new(), DEPTH, &mut found)?;
    Some(found)
}

/// A value with nothing inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    Text(String),
    Literal(String),
    EmptyObject,
    EmptyList,
}

impl Leaf {
    /// The line with this value after it.
    pub(super) fn after(&self, line: Line) -> Line {
        match self {
            Self::Text(text) => line.quote(Source::Agent, text),
            Self::Literal(text) => line.literal(text.clone()),
            Self::EmptyObject => line.and("an empty object"),
            Self::EmptyList => line.and("an empty list"),
        }
    }
}

fn walk(
    raw: &RawValue,
    pointer: String,
    depth: usize,
    into: &mut Vec<(String, Leaf)>,
) -> Option<()> {
    let text = raw.get();
    let below = depth.checked_sub(1)?;
    match text.as_bytes().first()? {
        b'{' => {
            let Members(members) = serde_json::from_str(text).ok()?;
            if members.is_empty() {
                into.push((pointer, Leaf::EmptyObject));
                return Some(());
            }
            for (name, value) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                walk(value, format!("{pointer}/{name}"), below, into)?;
            }
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            if items.is_empty() {
                into.push((pointer, Leaf::EmptyList));
                return Some(());
            }
            for (place, value) in items.into_iter().enumerate() {
                walk(value, format!("{pointer}/{place}"), below, into)?;
            }
        }
        b'"' => into.push((pointer, Leaf::Text(serde_json::from_str(text).ok()?))),
        _ => into.push((pointer, Leaf::Literal(text.to_owned()))),
    }
    Some(())
}

/// The members of an object in their order, none of them twice.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Members<'de>, A::Error> {
        let mut members: Vec<(String, &'de RawValue)> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        while let Some((name, value)) = access.next_entry::<String, &'de RawValue>()? {
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom("a member appears twice"));
            }
            members.push((name, value));
        }
        Ok(Members(members))
    }
}
