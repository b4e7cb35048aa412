//! Comparing a tool list that came through the gate with the direct one.

use serde_json::{Map, Value};

/// Members of an input schema that closing the root may set.
const CLOSING: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];

/// Control fields of write tools, with and without prefix.
const CONTROL: [&str; 6] = [
    "dry_run",
    "confirm_token",
    "idempotency_key",
    "countersign_dry_run",
    "countersign_confirm_token",
    "countersign_idempotency_key",
];

/// The tools that are not ours.
pub(crate) fn of_the_server(tools: Vec<Value>) -> Vec<Value> {
    tools
        .into_iter()
        .filter(|tool| {
            !tool["name"]
                .as_str()
                .unwrap_or_default()
                .starts_with("countersign_")
        })
        .collect()
}

/// Same tools in the same order, every member equal but for the closing of input schemas.
pub(crate) fn same_list(of: &str, direct: &[Value], gated: &[Value]) {
    let names = |tools: &[Value]| {
        tools
            .iter()
            .map(|tool| tool["name"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(direct), names(gated), "{of}: names and order");
    for (was, is) in direct.iter().zip(gated) {
        same_tool(of, was, is);
    }
}

/// One tool, every member equal but for the closing of its input schema.
pub(crate) fn same_tool(of: &str, was: &Value, is: &Value) {
    let name = &was["name"];
    let (was, is) = (members(was), members(is));
    assert_eq!(keys(was), keys(is), "{of}: members of {name}");
    for (member, value) in was {
        if member != "inputSchema" {
            assert_eq!(value, &is[member], "{of}: `{member}` of {name}");
        }
    }
    same_schema(
        &format!("{of}: {name}"),
        &was["inputSchema"],
        &is["inputSchema"],
    );
}

fn same_schema(of: &str, was: &Value, is: &Value) {
    let (was, is) = (members(was), members(is));
    for (member, value) in was {
        match member.as_str() {
            closing if CLOSING.contains(&closing) => {}
            "properties" => {
                for (property, schema) in members(value) {
                    assert_eq!(
                        schema, &is["properties"][property],
                        "{of}: property `{property}`"
                    );
                }
            }
            _ => assert_eq!(
                Some(value),
                is.get(member),
                "{of}: `{member}` of the schema"
            ),
        }
    }
    for member in is.keys().filter(|member| !was.contains_key(*member)) {
        let ours = CLOSING.contains(&member.as_str()) || member == "properties" || member == "type";
        assert!(ours, "{of}: the schema gained `{member}`");
    }
    let declared = was.get("properties").map(members);
    for property in is
        .get("properties")
        .map(members)
        .into_iter()
        .flat_map(Map::keys)
    {
        let known = declared.is_some_and(|properties| properties.contains_key(property));
        assert!(
            known || CONTROL.contains(&property.as_str()),
            "{of}: gained property `{property}`"
        );
    }
    let closed = CLOSING
        .iter()
        .any(|member| is.get(*member) == Some(&Value::Bool(false)));
    assert!(closed, "{of}: the root is not closed");
}

fn members(value: &Value) -> &Map<String, Value> {
    value
        .as_object()
        .unwrap_or_else(|| panic!("an object is expected, not {value}"))
}

fn keys(members: &Map<String, Value>) -> Vec<&String> {
    members.keys().collect()
}
