//! Named members in the order a person wrote them, and the names of servers and agents. Knows no other setting.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};

/// An object whose member names are free, in the order of the file: the first of two that clash wins.
#[derive(Debug, Clone, PartialEq)]
pub struct Named<T>(Vec<(String, T)>);

/// The name of a server or an agent: `[a-z0-9][a-z0-9_-]{0,31}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Name(String);

impl<T> Named<T> {
    /// The member called `name`.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }

    /// All members, first first.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named(Vec::new())
    }
}

impl<T> FromIterator<(String, T)> for Named<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(members: I) -> Self {
        Named(members.into_iter().collect())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Named<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Named<T>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = access.next_entry()? {
                    members.push(member);
                }
                Ok(Named(members))
            }
        }
        deserializer.deserialize_map(Members(PhantomData))
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Named_{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let member = generator.subschema_for::<T>();
        schemars::json_schema!({"type": "object", "additionalProperties": member})
    }
}

impl Name {
    /// Longest name, in characters.
    pub const MAX: usize = 32;

    /// The pattern, as a person reads it.
    pub const PATTERN: &'static str = "[a-z0-9][a-z0-9_-]{0,31}";

    /// Checks `text`; the error is a whole sentence.
    pub fn parse(text: &str) -> Result<Name, String> {
        let first = text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let rest = text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
        if first && rest && text.len() <= Name::MAX {
            return Ok(Name(text.to_owned()));
        }
        Err(format!(
            "`{}` is not a name: use 1 to 32 of a-z, 0-9, `_` and `-`, starting with a letter or digit",
            crate::commands::plain(text)
        ))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Name {
    type Err = String;
    fn from_str(text: &str) -> Result<Name, String> {
        Name::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_not_guessed() {
        let long = "a".repeat(33);
        let cases = [
            ("files", true),
            ("a", true),
            ("0", true),
            ("a-b_c9", true),
            (&long[..32], true),
            ("", false),
            ("-a", false),
            ("_a", false),
            ("A", false),
            ("a b", false),
            ("a/b", false),
            ("ä", false),
            (long.as_str(), false),
            ("a\u{1b}[0m", false),
        ];
        for (text, good) in cases {
            let parsed = Name::parse(text);
            assert_eq!(parsed.is_ok(), good, "{text}");
            if let Err(message) = parsed {
                assert!(
                    !message.contains('\u{1b}'),
                    "control characters never reach a terminal"
                );
            }
        }
    }

    #[test]
    fn order_of_the_file_is_kept() {
        let members: Named<u8> = serde_json::from_str(r#"{"z":1,"a":2,"m":3}"#).unwrap();
        assert_eq!(
            members.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            ["z", "a", "m"]
        );
        assert_eq!(
            serde_json::to_string(&members).unwrap(),
            r#"{"z":1,"a":2,"m":3}"#
        );
    }
}
