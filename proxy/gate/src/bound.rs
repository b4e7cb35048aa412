//! What an idempotency key, a confirmation and an approval are bound to: a caller, a tool and the arguments it is called with. Owns the
//! arguments hash; refuses to know what is bound to it and where that is kept.

use std::sync::Arc;

use countersign_permission::Hash;

use crate::json::canonical;

/// One caller's call of one tool with one set of arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The caller: `agent/NAME`, `public/NETWORK`, `person/ID`.
    pub actor: Arc<str>,
    /// The server.
    pub server: Arc<str>,
    /// The tool, as the server names it.
    pub tool: Arc<str>,
    /// [`arguments_hash`] of what is to be sent.
    pub arguments: Hash,
}

/// SHA-256 of the arguments without control fields in canonical form: RFC 8785 member order and strings, numbers exactly as received.
/// Missing arguments and `null` are `{}`, as they are everywhere in the flow.
#[must_use]
pub fn arguments_hash(sent: Option<&[u8]>) -> Hash {
    Hash::of(&canonical(object(sent)))
}

/// The arguments as an object.
#[must_use]
pub fn object(sent: Option<&[u8]>) -> &[u8] {
    sent.filter(|text| !text.trim_ascii().eq(b"null"))
        .unwrap_or(b"{}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_over_what_counts_and_nothing_else() {
        let hash = |text: &str| arguments_hash(Some(text.as_bytes()));
        assert_eq!(
            hash(r#"{"b":1,"a":"\u0041"}"#),
            hash(r#" { "a" : "A" , "b" : 1 }"#)
        );
        assert_ne!(
            hash(r#"{"n":9007199254740993}"#),
            hash(r#"{"n":9007199254740992}"#)
        );
        assert_ne!(
            hash(r#"{"n":1.0}"#),
            hash(r#"{"n":1}"#),
            "numbers as received"
        );
        assert_eq!(arguments_hash(None), hash("{}"));
        assert_eq!(hash(" null "), hash("{}"));
        // echo -n '{}' | sha256sum
        assert_eq!(
            data_encoding::HEXLOWER.encode(hash("{}").as_bytes()),
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
    }
}
