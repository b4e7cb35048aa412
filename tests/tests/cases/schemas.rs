//! SCH: schemas of every kind. One bad schema costs its own tool; a listed schema is the enforced one.

use countersign_tests::binary::tests_file;
use countersign_tests::client::{Client, code, refusal, text};
use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use serde_json::{Map, Value, json};

const GOOD: &str = r#"{"name":"good","description":"fine","inputSchema":{"type":"object","properties":{"x":{"type":"integer"}}}}"#;

fn tool(name: &str, schema: &str) -> String {
    format!(r#"{{"name":"{name}","description":"d","inputSchema":{schema}}}"#)
}

fn with(name: &str, schema: &str) -> (World, Hostile, Client) {
    let (world, hostile) = Hostile::world(
        &json!({"tools_raw": [GOOD, tool(name, schema), tool("last", r#"{"type":"object"}"#)]}),
    );
    let client = world.connect();
    (world, hostile, client)
}

fn names(client: &mut Client) -> Vec<String> {
    client
        .tools()
        .iter()
        .filter_map(|tool| Some(tool["name"].as_str()?.to_owned()))
        .filter(|name| !name.starts_with("countersign_"))
        .collect()
}

/// The tool is not offered, a call by name is refused, `countersign tools` names it, and its neighbours work.
fn set_aside(report: u32, schema: &str) {
    let (world, hostile, mut client) = with("odd", schema);
    assert_eq!(
        names(&mut client),
        ["good", "last"],
        "report {report}: {schema}"
    );
    assert!(
        refusal(&client.call("odd", &json!({}))).is_some(),
        "report {report}: {schema}"
    );
    assert_eq!(text(&client.call("good", &json!({"x": 1}))), "ran good");
    assert_eq!(hostile.ran(), ["good"]);
    assert!(client.close().success());
    let said = world.must(&["tools"]);
    let line = said
        .lines()
        .find(|line| line.contains("odd"))
        .unwrap_or_else(|| panic!("report {report}: not named in {said}"));
    assert!(
        line.len() > "odd".len() + 8,
        "report {report}: a reason is given: {line}"
    );
}

/// The tool is offered; `accepted` runs, `refused` does not and is told so by name.
fn enforced(report: u32, schema: &str, accepted: &[Value], refused: &[Value]) {
    let (_world, hostile, mut client) = with("odd", schema);
    assert_eq!(
        names(&mut client),
        ["good", "odd", "last"],
        "report {report}: {schema}"
    );
    for arguments in accepted {
        let answer = client.call("odd", arguments);
        assert_eq!(
            text(&answer),
            "ran odd",
            "report {report}: {schema} takes {arguments}"
        );
    }
    assert_eq!(hostile.ran().len(), accepted.len());
    for arguments in refused {
        let answer = client.call("odd", arguments);
        assert_eq!(
            code(&answer).as_deref(),
            Some("validation_failed"),
            "report {report}: {schema} with {arguments}: {answer}"
        );
        assert!(
            answer.to_string().contains("odd"),
            "report {report}: the tool is named: {answer}"
        );
    }
    client.fence();
    assert_eq!(hostile.ran().len(), accepted.len());
}

#[test]
fn sch_37_a_draft_7_root_with_combinators_is_set_aside() {
    set_aside(
        37,
        r#"{"$schema":"http://json-schema.org/draft-07/schema#","anyOf":[{"type":"object"},{"type":"array"}]}"#,
    );
}

#[test]
fn sch_37_a_2020_root_with_combinators_is_closed() {
    enforced(
        37,
        r#"{"type":"object","anyOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"integer"}},"required":["b"]}]}"#,
        &[json!({"a": 1}), json!({"b": 1})],
        &[json!({}), json!({"a": 1, "c": 1}), json!({"a": "x"})],
    );
}

#[test]
fn sch_38_a_root_that_is_no_object_is_set_aside() {
    set_aside(38, r#"{"type":"string"}"#);
    set_aside(38, r#"{"type":"array","items":{}}"#);
}

#[test]
fn sch_39_a_schema_that_is_no_schema_is_set_aside() {
    set_aside(39, "7");
    set_aside(39, "[]");
    set_aside(39, r#"{"type":"objekt"}"#);
    set_aside(
        39,
        r#"{"type":"object","properties":{"x":{"$ref":"https://example.com/schema.json"}}}"#,
    );
    set_aside(
        39,
        r#"{"type":"object","properties":{"x":{"$ref":"file:///etc/passwd"}}}"#,
    );
    set_aside(
        39,
        r#"{"$schema":"https://vendor.example/dialect","type":"object"}"#,
    );
}

#[test]
fn sch_39_null_is_a_tool_without_parameters_or_set_aside() {
    let (_world, hostile, mut client) = with("odd", "null");
    let listed = client
        .tools()
        .into_iter()
        .find(|tool| tool["name"] == "odd");
    let answer = client.call("odd", &json!({}));
    assert_eq!(listed.is_some(), refusal(&answer).is_none(), "{answer}");
    if let Some(listed) = listed {
        assert_eq!(
            listed["inputSchema"]["type"], "object",
            "strict clients need an object: {listed}"
        );
        assert_eq!(
            code(&client.call("odd", &json!({"x": 1}))).as_deref(),
            Some("validation_failed")
        );
    }
    assert!(hostile.ran().len() <= 1);
    assert_eq!(text(&client.call("good", &json!({}))), "ran good");
}

#[test]
fn sch_41_42_bare_schemas_take_an_empty_object() {
    enforced(
        41,
        r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#,
        &[json!({})],
        &[json!({"x": 1})],
    );
    enforced(41, "{}", &[json!({})], &[json!({"x": 1})]);
    enforced(42, r#"{"type":"object"}"#, &[json!({})], &[json!({"x": 1})]);
}

#[test]
fn sch_44_the_message_names_tool_and_place() {
    let schema = r#"{"type":"object","properties":{"place":{"type":"string","anyOf":[{"minLength":3},{"pattern":"^x"}]}},"required":["place"]}"#;
    enforced(
        44,
        schema,
        &[json!({"place": "abc"}), json!({"place": "x"})],
        &[json!({"place": "a"}), json!({"place": 5}), json!({})],
    );
    let (_world, _hostile, mut client) = with("odd", schema);
    let answer = client.call("odd", &json!({"place": 5}));
    assert!(
        answer.to_string().contains("/place"),
        "the place is named: {answer}"
    );
}

#[test]
fn sch_45_46_what_a_schema_says_is_listed_as_it_was_written() {
    let definitions = r##""definitions":{"Point":{"type":"object","properties":{"x":{"type":"number","default":1.0},"y":{"type":"number"}},"required":["x","y"],"additionalProperties":false}}"##;
    let schema = format!(
        r##"{{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{{"at":{{"$ref":"#/definitions/Point"}}}},"required":["at"],{definitions},"additionalProperties":false}}"##
    );
    let (_world, hostile, mut client) = with("odd", &schema);
    let id = client.ask("tools/list", &json!({}));
    let answer = client.answer(&id);
    let frame = client.raw_answer(&id);
    assert!(
        frame.contains(definitions),
        "definitions as written: {frame}"
    );
    assert!(
        frame.contains(r##"{"$ref":"#/definitions/Point"}"##),
        "{frame}"
    );
    let odd = answer["result"]["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .find(|tool| tool["name"] == "odd")
        .expect("odd")
        .clone();
    assert_eq!(odd["inputSchema"]["additionalProperties"], json!(false));
    assert_eq!(odd["inputSchema"]["required"], json!(["at"]));
    assert_eq!(
        text(&client.call("odd", &json!({"at": {"x": 1, "y": 2}}))),
        "ran odd"
    );
    assert!(refusal(&client.call("odd", &json!({"at": {"x": 1, "y": 2, "z": 3}}))).is_some());
    assert_eq!(hostile.ran(), ["odd"]);
}

#[test]
fn sch_47_48_49_references_into_defs_are_followed() {
    for defs in ["$defs", "definitions"] {
        let schema = format!(
            r##"{{"type":"object","properties":{{"order":{{"$ref":"#/{defs}/Order"}}}},"required":["order"],"{defs}":{{"Order":{{"type":"object","properties":{{"lines":{{"type":"array","items":{{"$ref":"#/{defs}/Line"}}}}}},"required":["lines"]}},"Line":{{"type":"object","properties":{{"sku":{{"type":"string"}},"count":{{"type":"integer","minimum":1}}}},"required":["sku","count"]}}}}}}"##
        );
        enforced(
            47,
            &schema,
            &[
                json!({"order": {"lines": [{"sku": "a", "count": 1}]}}),
                json!({"order": {"lines": []}}),
            ],
            &[
                json!({"order": {"lines": [{"sku": "a"}]}}),
                json!({"order": {"lines": [{"sku": "a", "count": 0}]}}),
                json!({"order": {}}),
            ],
        );
    }
}

#[test]
fn sch_47_a_reference_that_leads_nowhere_sets_the_tool_aside() {
    set_aside(
        47,
        r##"{"type":"object","properties":{"x":{"$ref":"#/$defs/Missing"}}}"##,
    );
}

#[test]
fn sch_52_draft_4_exclusive_minimum() {
    let schema = |dialect: &str| {
        format!(
            r#"{{{dialect}"type":"object","properties":{{"n":{{"type":"number","minimum":0,"exclusiveMinimum":true}}}},"required":["n"]}}"#
        )
    };
    enforced(
        52,
        &schema(r#""$schema":"http://json-schema.org/draft-04/schema#","#),
        &[json!({"n": 1}), json!({"n": 0.5})],
        &[json!({"n": 0}), json!({"n": -1})],
    );
    // Without a dialect it is either no schema at all, or the dialect that gives it a meaning.
    let (_world, hostile, mut client) = with("odd", &schema(""));
    let listed = names(&mut client).contains(&"odd".to_owned());
    for (n, accepted) in [(0, false), (-1, false), (1, true)] {
        let answer = client.call("odd", &json!({"n": n}));
        assert_eq!(
            refusal(&answer).is_none(),
            listed && accepted,
            "{n}: {answer}"
        );
    }
    assert_eq!(hostile.ran().len(), usize::from(listed));
}

#[test]
fn sch_53_an_unknown_member_is_refused_and_the_list_says_so() {
    let schema = r#"{"type":"object","properties":{"x":{"type":"integer"}}}"#;
    enforced(
        53,
        schema,
        &[json!({"x": 1}), json!({})],
        &[json!({"y": 1}), json!({"x": 1, "X": 2})],
    );
    let (_world, _hostile, mut client) = with("odd", schema);
    let tools = client.tools();
    let odd = tools
        .iter()
        .find(|tool| tool["name"] == "odd")
        .expect("odd");
    assert_eq!(
        odd["inputSchema"]["additionalProperties"],
        json!(false),
        "what is enforced is listed"
    );
}

#[test]
fn sch_63_64_65_unknown_members_of_tools_and_results_pass() {
    let listed = r#"{"name":"rich","title":"Rich","description":"d","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]},"annotations":{"readOnlyHint":true,"destructiveHint":false,"x-vendor":1.0},"execution":{"taskSupport":"optional"},"icons":[{"src":"data:image/png;base64,AA==","x":1}],"_meta":{"vendor/x":[1e2]},"x-more":null}"#;
    let result = r#"{"content":[{"type":"text","text":"{\"n\":1}","annotations":{"audience":["user"]},"_meta":{"a":1}},{"type":"x-unknown","deep":{"k":[1.0]}}],"structuredContent":{"n":1.0},"isError":false,"_meta":{"vendor/y":"kept"},"x-extra":{"big":12345678901234567890123}}"#;
    let (world, _) = Hostile::world(&json!({"more_tools": [listed]}));
    let mut client = world.connect();
    let id = client.ask("tools/list", &json!({}));
    let answer = client.answer(&id);
    let original: Map<String, Value> = serde_json::from_str(listed).expect("a tool");
    let seen = answer["result"]["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .find(|tool| tool["name"] == "rich")
        .expect("rich")
        .clone();
    for (member, value) in &original {
        if member != "inputSchema" {
            assert_eq!(&seen[member.as_str()], value, "member `{member}`");
        }
    }
    assert!(client.raw_answer(&id).contains(r#""x-vendor":1.0"#));
    assert!(
        client.raw_answer(&id).contains(r#""x-list":{"n":1e2}"#),
        "members of the result beside the tools"
    );
    let answer = client.call("result", &json!({"raw": result}));
    let line = client.raw_answer(&answer["id"]);
    let (before, after) = result
        .split_once(r#""_meta":{"vendor/y":"kept""#)
        .expect("a _meta");
    let after = after.trim_start_matches('}');
    assert!(
        line.contains(before) && line.contains(after),
        "the result as the server wrote it: {line}"
    );
    assert_eq!(answer["result"]["_meta"]["vendor/y"], "kept", "{answer}");
}

/// Every schema of fourteen servers people use compiles, is listed closed, and is enforced.
#[test]
fn sch_schemas_of_real_servers_compile_close_list_and_enforce() {
    let file = std::fs::read_to_string(tests_file("cases/tool_schemas.json")).expect("the schemas");
    let servers: Map<String, Value> = serde_json::from_str(&file).expect("JSON");
    let mut checked = 0;
    for (server, tools) in &servers {
        let tools = tools.as_array().expect("tools");
        let raw: Vec<String> = tools.iter().map(Value::to_string).collect();
        let (world, hostile) = Hostile::world(&json!({"tools_raw": raw, "page_size": 20}));
        world.unlimited();
        let mut client = world.connect();
        let listed: Vec<Value> = client
            .tools()
            .into_iter()
            .filter(|tool| {
                !tool["name"]
                    .as_str()
                    .unwrap_or_default()
                    .starts_with("countersign_")
            })
            .collect();
        assert_eq!(listed.len(), tools.len(), "{server}: every tool is listed");
        for (was, is) in tools.iter().zip(&listed) {
            crate::lists::same_tool(server, was, is);
            let answer = client.call(
                is["name"].as_str().expect("a name"),
                &json!({"no such member of any tool": 1}),
            );
            assert_eq!(
                code(&answer).as_deref(),
                Some("validation_failed"),
                "{server}: {}: {answer}",
                is["name"]
            );
            checked += 1;
        }
        assert!(hostile.ran().is_empty(), "{server}: nothing ran");
    }
    assert!(checked >= 146, "{checked} schemas");
}
