//! JSON as a settings file may hold it: no member twice, at any depth. Knows no member's meaning.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses `bytes` as one JSON document, refusing a repeated member name. The error says the path, or the line where it isn't JSON at all.
pub fn parse(bytes: &[u8]) -> Result<Value, (String, String)> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let strict: Strict = serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| (path_text(error.path()), error.inner().to_string()))?;
    deserializer
        .end()
        .map_err(|error| (String::new(), error.to_string()))?;
    Ok(strict.0)
}

/// The path in words, empty at the root.
pub fn path_text(path: &serde_path_to_error::Path) -> String {
    let text = path.to_string();
    text.trim_end_matches(['.', '?']).to_owned()
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(value)) = access.next_element()? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format!("member `{name}` appears twice")));
            }
            let Strict(value) = access.next_value()?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_members_are_refused_by_path() {
        let cases = [
            (r#"{"a":1,"b":{"c":[1,{"d":1}]}}"#, Ok(())),
            (r#"{"a":1,"a":2}"#, Err(("", "member `a` appears twice"))),
            (
                r#"{"a":{"b":[0,{"c":1,"\u0063":2}]}}"#,
                Err(("a.b[1]", "member `c` appears twice")),
            ),
            (r#"{"a":1} x"#, Err(("", "trailing characters"))),
            ("{", Err(("", "EOF while parsing"))),
            ("", Err(("", "EOF while parsing"))),
        ];
        for (text, expected) in cases {
            match (parse(text.as_bytes()), expected) {
                (Ok(value), Ok(())) => {
                    assert_eq!(value, serde_json::from_str::<Value>(text).unwrap())
                }
                (Err((path, message)), Err((at, words))) => {
                    assert_eq!(path, at, "{text}");
                    assert!(message.starts_with(words), "{text}: {message}");
                }
                (got, expected) => panic!("{text}: {got:?}, expected {expected:?}"),
            }
        }
    }
}
