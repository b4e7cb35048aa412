//! One CBOR item off the front of some bytes. Knows no key of any map.

use ciborium::Value;

/// Nesting beyond which an item is refused.
const DEPTH: usize = 8;

/// The first item and what follows it; nothing when there is none, or a map names a key twice.
pub(super) fn first(bytes: &[u8]) -> Option<(Value, &[u8])> {
    let mut rest = bytes;
    let value: Value = ciborium::de::from_reader_with_recursion_limit(&mut rest, DEPTH).ok()?;
    is_plain(&value).then_some((value, rest))
}

/// The only item.
pub(super) fn only(bytes: &[u8]) -> Option<Value> {
    first(bytes)
        .filter(|(_, rest)| rest.is_empty())
        .map(|(value, _)| value)
}

/// The member of a map under a text key.
pub(super) fn member<'a>(map: &'a [(Value, Value)], name: &str) -> Option<&'a Value> {
    map.iter()
        .find(|(key, _)| key.as_text() == Some(name))
        .map(|(_, value)| value)
}

fn is_plain(value: &Value) -> bool {
    match value {
        Value::Map(members) => {
            let repeated = members
                .iter()
                .enumerate()
                .any(|(place, (key, _))| members[..place].iter().any(|(other, _)| other == key));
            !repeated
                && members
                    .iter()
                    .all(|(key, value)| is_plain(key) && is_plain(value))
        }
        Value::Array(items) => items.iter().all(is_plain),
        Value::Tag(..) => false,
        _ => true,
    }
}
