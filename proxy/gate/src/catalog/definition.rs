//! What a tool's definition is, as one hash: the rug-pull check.

use countersign_permission::Hash;

use crate::json::{self, Fault, FaultKind, Kind};

/// The members that make a tool what it is, in canonical order.
const DEFINING: [&str; 5] = [
    "annotations",
    "description",
    "inputSchema",
    "name",
    "outputSchema",
];

/// SHA-256 over the canonical text of name, description, inputSchema, outputSchema and annotations (members sorted, strings as in RFC
/// 8785, numbers exactly as received; absent members left out).
///
/// # Errors
/// When `item` is not strict JSON or not an object.
pub fn definition_hash(item: &[u8]) -> Result<Hash, Fault> {
    if json::check(item, json::MAX_DEPTH)? != Kind::Object {
        return Err(Fault {
            at: 0,
            kind: FaultKind::Unexpected,
        });
    }
    Ok(hash_checked(item))
}

/// The same for an item that is known to be a strict object.
pub(super) fn hash_checked(item: &[u8]) -> Hash {
    let mut text = vec![b'{'];
    for name in DEFINING {
        let Some(value) = json::member(item, name) else {
            continue;
        };
        if text.len() > 1 {
            text.push(b',');
        }
        text.extend_from_slice(format!("\"{name}\":").as_bytes());
        json::canonical_into(value, &mut text);
    }
    text.push(b'}');
    Hash::of(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = r#"{"name":"a","description":"d","inputSchema":{"type":"object","maximum":1.0},"annotations":{"readOnlyHint":true}}"#;

    #[test]
    fn what_counts_and_what_does_not() {
        let hash = |text: &str| definition_hash(text.as_bytes()).unwrap();
        let base = hash(BASE);
        let same = [
            r#" {"annotations":{"readOnlyHint":true},"inputSchema":{"maximum":1.0, "type":"object"},"name":"\u0061","description":"d"}"#,
            &BASE.replace(
                "{\"name\"",
                "{\"title\":\"T\",\"icons\":[],\"_meta\":{},\"name\"",
            ),
        ];
        same.iter()
            .for_each(|text| assert_eq!(hash(text), base, "{text}"));
        let other = [
            BASE.replace("\"d\"", "\"e\""),
            BASE.replace("true", "false"),
            BASE.replace("1.0", "1"),
            BASE.replace("{\"name\"", "{\"outputSchema\":{},\"name\""),
            BASE.replace("\"a\"", "\"A\""),
        ];
        other
            .iter()
            .for_each(|text| assert_ne!(hash(text), base, "{text}"));
        assert!(definition_hash(b"[]").is_err());
        assert!(definition_hash(br#"{"name":"a","name":"b"}"#).is_err());
    }
}
