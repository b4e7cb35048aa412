//! JSON as a signed document may hold it, and its canonical bytes (RFC 8785). Knows no member's meaning.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Deepest nesting of lists and objects.
pub const MAX_DEPTH: usize = 16;

/// Largest document, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// Largest integer either way: beyond it a double, and with it many a reader, no longer tells neighbours apart.
pub const MAX_INTEGER: i64 = (1 << 53) - 1;

/// Why a text is not JSON as a signed document may hold it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrictError {
    /// Larger than [`MAX_BYTES`].
    #[error("it is too large: a document has at most {MAX_BYTES} bytes")]
    TooLarge,
    /// Not JSON, or JSON that two readers may read as two things.
    #[error("{0}")]
    Json(String),
}

/// Reads one JSON text: no member name twice, integers within ±(2^53−1) and no other numbers, at most [`MAX_DEPTH`] deep, no lone
/// surrogate, nothing after it.
///
/// # Errors
/// When it is anything else, with the line and column.
pub fn parse(bytes: &[u8]) -> Result<Value, StrictError> {
    parse_within(bytes, MAX_BYTES, MAX_DEPTH)
}

/// Reads a text that holds documents: larger and deeper by what surrounds them, and else by the rules of [`parse`].
pub(crate) fn parse_within(bytes: &[u8], most: usize, depth: usize) -> Result<Value, StrictError> {
    if bytes.len() > most {
        return Err(StrictError::TooLarge);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| StrictError::Json("the document is not UTF-8".into()))?;
    let json = |error: serde_json::Error| StrictError::Json(error.to_string());
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Level { left: depth }
        .deserialize(&mut reader)
        .map_err(json)?;
    reader.end().map_err(json)?;
    Ok(value)
}

/// Whether a value made in memory could be read by [`parse`]: the same rules, for what was never text.
///
/// # Errors
/// The first rule it breaks.
pub fn check(value: &Value) -> Result<(), StrictError> {
    let refuse = |words: &str| Err(StrictError::Json(words.into()));
    fn walk(value: &Value, depth: usize) -> Result<(), &'static str> {
        match value {
            Value::Number(number) => match number.as_i64() {
                Some(n) if (-MAX_INTEGER..=MAX_INTEGER).contains(&n) => Ok(()),
                _ => Err(NUMBER),
            },
            Value::Array(_) | Value::Object(_) if depth == MAX_DEPTH => Err(DEPTH),
            Value::Array(items) => items.iter().try_for_each(|item| walk(item, depth + 1)),
            Value::Object(members) => members.values().try_for_each(|item| walk(item, depth + 1)),
            Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
        }
    }
    walk(value, 0).or_else(refuse)
}

/// The canonical bytes (RFC 8785) of a value that passes [`check`].
///
/// # Errors
/// When it does not, or is larger than [`MAX_BYTES`] then.
pub fn canonical(value: &Value) -> Result<Vec<u8>, StrictError> {
    check(value)?;
    let bytes = serde_jcs::to_vec(value).map_err(|error| StrictError::Json(error.to_string()))?;
    if bytes.len() > MAX_BYTES {
        return Err(StrictError::TooLarge);
    }
    Ok(bytes)
}

const NUMBER: &str = "a number that is not an integer within ±(2^53−1); write others as text";
const DEPTH: &str = "lists and objects are nested too deep: a document has at most 16 levels";

/// Reads a value in which lists and objects may be nested so deep.
#[derive(Clone, Copy)]
struct Level {
    left: usize,
}

impl Level {
    fn below<E: Error>(self) -> Result<Self, E> {
        match self.left.checked_sub(1) {
            Some(left) => Ok(Self { left }),
            None => Err(E::custom(DEPTH)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
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
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(E::custom(NUMBER)),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        if (-MAX_INTEGER..=MAX_INTEGER).contains(&value) {
            Ok(Value::from(value))
        } else {
            Err(E::custom(NUMBER))
        }
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Value, E> {
        Err(E::custom(NUMBER))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut list = Vec::new();
        while let Some(value) = access.next_element_seed(below)? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut map = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format!("member `{name}` appears twice")));
            }
            let value = access.next_value_seed(below)?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nested(depth: usize) -> String {
        "[".repeat(depth) + &"]".repeat(depth)
    }

    #[test]
    fn k1_t17_what_two_readers_may_read_as_two_things_is_refused() {
        let deep = nested(17);
        let cases: &[(&str, &str)] = &[
            (r#"{"a":1,"a":1}"#, "appears twice"),
            (r#"{"a":1,"\u0061":2}"#, "appears twice"),
            (r#"{"x":[{"b":1,"b":2}]}"#, "appears twice"),
            ("9007199254740992", "within"),
            ("-9007199254740992", "within"),
            ("9007199254740993", "within"),
            ("18446744073709551616", "within"),
            ("1.0", "within"),
            ("0.5", "within"),
            ("1e2", "within"),
            ("-0", "within"),
            (r#""\ud800""#, "escape"),
            (r#""\udc00x""#, "escape"),
            (r#"{"a":1}{"#, "trailing"),
            ("{} null", "trailing"),
            (&deep, "nested"),
            ("\u{feff}{}", "expected value"),
            ("{'a':1}", "key must be a string"),
            ("[1,]", "trailing comma"),
            ("\"\u{1}\"", "control character"),
            ("01", "invalid number"),
            ("NaN", "expected"),
            ("", "EOF"),
        ];
        for (text, want) in cases {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
        assert!(parse(b"\"\xff\"").is_err());
        assert_eq!(
            parse(&vec![b' '; MAX_BYTES + 1]),
            Err(StrictError::TooLarge)
        );
        for good in ["9007199254740991", "-9007199254740991", &nested(16), " {} "] {
            parse(good.as_bytes()).unwrap();
        }
    }

    #[test]
    fn k2_canonical_bytes() {
        let text = "{\"\u{fb33}\":1,\"\\ud83d\\ude00\":2,\"b\":[true, null],\"a\":\"\\u000f\\u0041/\\/\u{e9}\"}";
        let value = parse(text.as_bytes()).unwrap();
        let want = "{\"a\":\"\\u000fA//\u{e9}\",\"b\":[true,null],\"\u{1f600}\":2,\"\u{fb33}\":1}";
        assert_eq!(String::from_utf8(canonical(&value).unwrap()).unwrap(), want);
        assert!(canonical(&serde_json::json!(1.5)).is_err());
        assert!(canonical(&serde_json::json!(u64::MAX)).is_err());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-MAX_INTEGER..=MAX_INTEGER).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn k2_canonical_is_a_fixed_point_and_loses_nothing(value in value()) {
            let bytes = canonical(&value).unwrap();
            let again = parse(&bytes).unwrap();
            prop_assert_eq!(&again, &value);
            prop_assert_eq!(canonical(&again).unwrap(), bytes);
        }
    }
}
