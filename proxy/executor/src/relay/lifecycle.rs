//! The deliberate edits of capabilities and of what a server may ask, and nothing else of the handshake. All of them:
//!
//! - towards the server, in `initialize` and in each modern request's `_meta`: `roots`, `sampling`, `elicitation` are taken out unless the
//!   entry passes them, also as kinds of requests a client would run as tasks;
//! - towards the client, in the results of `initialize` and `server/discover`: `tools.listChanged` becomes `true` where there are tools,
//!   since we announce changes ourselves;
//! - an `input_required` result with a withheld request in it becomes an error.

use countersign_gate::json::{Change, decode, edit, member, members};

use super::methods::Passing;

/// The `_meta` key of a modern request's protocol version.
pub const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The `_meta` key of a modern request's client capabilities.
pub const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The `_meta` key that ties a modern notification to its listen request.
pub const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// The `_meta` key of a modern request's client.
pub const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";

/// Whether a request says of itself that it is of the era without a handshake.
#[must_use]
pub fn is_modern(params: Option<&[u8]>) -> bool {
    params
        .and_then(|params| member(params, "_meta"))
        .is_some_and(|meta| member(meta, META_VERSION).is_some())
}

/// The params of `initialize` with the withheld capabilities taken out.
#[must_use]
pub fn initialize_params(params: &[u8], passing: &Passing) -> Vec<u8> {
    match member(params, "capabilities") {
        Some(capabilities) => edit(
            params,
            &[Change::Set(
                "capabilities",
                &without_withheld(capabilities, passing),
            )],
        ),
        None => params.to_vec(),
    }
}

/// The params of any modern request with the withheld capabilities taken out. `None` where there is nothing to change.
#[must_use]
pub fn request_params(params: &[u8], passing: &Passing) -> Option<Vec<u8>> {
    let meta = member(params, "_meta")?;
    let capabilities = member(meta, META_CAPABILITIES)?;
    let edited = without_withheld(capabilities, passing);
    if edited == capabilities {
        return None;
    }
    let meta = edit(meta, &[Change::Set(META_CAPABILITIES, &edited)]);
    Some(edit(params, &[Change::Set("_meta", &meta)]))
}

fn without_withheld(capabilities: &[u8], passing: &Passing) -> Vec<u8> {
    let changes: Vec<Change<'_>> = passing
        .withheld()
        .map(|feature| feature.name())
        .filter(|name| member(capabilities, name).is_some())
        .map(Change::Remove)
        .collect();
    let out = if changes.is_empty() {
        capabilities.to_vec()
    } else {
        edit(capabilities, &changes)
    };
    let Some(tasks) = member(&out, "tasks") else {
        return out;
    };
    let Some(requests) = member(tasks, "requests") else {
        return out;
    };
    let changes: Vec<Change<'_>> = passing
        .withheld()
        .map(|feature| feature.name())
        .filter(|name| member(requests, name).is_some())
        .map(Change::Remove)
        .collect();
    if changes.is_empty() {
        return out;
    }
    let requests = edit(requests, &changes);
    let tasks = edit(tasks, &[Change::Set("requests", &requests)]);
    edit(&out, &[Change::Set("tasks", &tasks)])
}

/// The result of `initialize` or `server/discover` with `tools.listChanged` set. `None` where there is nothing to change.
#[must_use]
pub fn opening_result(result: &[u8]) -> Option<Vec<u8>> {
    let capabilities = member(result, "capabilities")?;
    let tools = member(capabilities, "tools").filter(|tools| tools.first() == Some(&b'{'))?;
    if member(tools, "listChanged") == Some(b"true") {
        return None;
    }
    let tools = edit(tools, &[Change::Set("listChanged", b"true")]);
    let capabilities = edit(capabilities, &[Change::Set("tools", &tools)]);
    Some(edit(result, &[Change::Set("capabilities", &capabilities)]))
}

/// The first withheld method a result asks the client for, where it is an `input_required` one.
#[must_use]
pub fn withheld_input(result: &[u8], passing: &Passing) -> Option<String> {
    let requests = member(result, "inputRequests")?;
    members(requests)
        .filter_map(|request| {
            member(request.value, "method")
                .and_then(decode)
                .map(std::borrow::Cow::into_owned)
        })
        .find(|method| passing.withholds(method))
}

/// A string member, decoded.
#[must_use]
pub fn text(object: Option<&[u8]>, name: &str) -> Option<String> {
    object
        .and_then(|object| member(object, name))
        .and_then(decode)
        .map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::methods::Feature;

    fn passing(features: &[Feature]) -> Passing {
        Passing {
            features: features.to_vec(),
            methods: Vec::new(),
        }
    }

    #[test]
    fn m14_m20_capabilities_are_edited_and_nothing_else() {
        let check = |features: &[Feature], input: &str, expected: &str| {
            let out = initialize_params(input.as_bytes(), &passing(features));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        let all = r#"{"protocolVersion":"2099-01-01","capabilities":{"roots":{"listChanged":true},"x":1.0,"sampling":{}},"clientInfo":{}}"#;
        check(
            &[],
            all,
            r#"{"protocolVersion":"2099-01-01","capabilities":{"x":1.0},"clientInfo":{}}"#,
        );
        check(&Feature::ALL, all, all);
        check(
            &[Feature::Roots],
            r#"{"capabilities":{"elicitation":{},"tasks":{"list":{},"requests":{"elicitation":{"create":{}}}}}}"#,
            r#"{"capabilities":{"tasks":{"list":{},"requests":{}}}}"#,
        );
        check(
            &[],
            r#"{"protocolVersion":"x"}"#,
            r#"{"protocolVersion":"x"}"#,
        );
    }

    #[test]
    fn m18_m19_modern_requests_keep_everything_but_the_withheld() {
        let params = r#"{"name":"t","_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"traceparent":"00","v":1e2}}"#;
        let out = request_params(params.as_bytes(), &passing(&[])).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"name":"t","_meta":{"io.modelcontextprotocol/clientCapabilities":{},"traceparent":"00","v":1e2}}"#
        );
        assert_eq!(
            request_params(params.as_bytes(), &passing(&[Feature::Sampling])),
            None
        );
        assert_eq!(request_params(b"{}", &passing(&[])), None);
        assert!(!is_modern(Some(b"{}")) && !is_modern(None));
    }

    #[test]
    fn m20_the_change_of_lists_is_declared_where_there_are_tools() {
        let check = |input: &str, expected: Option<&str>| {
            let out = opening_result(input.as_bytes()).map(|out| String::from_utf8(out).unwrap());
            assert_eq!(out.as_deref(), expected);
        };
        check(
            r#"{"capabilities":{"tools":{}},"z":1}"#,
            Some(r#"{"capabilities":{"tools":{"listChanged":true}},"z":1}"#),
        );
        check(
            r#"{"capabilities":{"tools":{"listChanged":false}}}"#,
            Some(r#"{"capabilities":{"tools":{"listChanged":true}}}"#),
        );
        check(r#"{"capabilities":{"tools":{"listChanged":true}}}"#, None);
        check(r#"{"capabilities":{"resources":{}}}"#, None);
        check("{}", None);
    }

    #[test]
    fn m43_withheld_requests_inside_a_result_are_seen() {
        let result = br#"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{}}}}"#;
        assert_eq!(
            withheld_input(result, &passing(&[])).as_deref(),
            Some("elicitation/create")
        );
        assert_eq!(
            withheld_input(result, &passing(&[Feature::Elicitation])),
            None
        );
    }
}
