//! Closing, listing and holding, over many real schemas and the odd ones users reported.

use std::collections::BTreeMap;

use bytes::Bytes;
use countersign_permission::Kind;
use serde_json::{Value, json};

use super::*;
use crate::facts::{ServerFacts, ToolSettings};
use crate::serve::Open;

fn server(tools: &[(&str, ToolSettings)]) -> ServerFacts {
    let tools: BTreeMap<_, _> = tools
        .iter()
        .map(|(name, settings)| (name.to_string(), settings.clone()))
        .collect();
    ServerFacts {
        name: "files".into(),
        enabled: true,
        cwd: None,
        tools,
    }
}

fn read() -> ToolSettings {
    ToolSettings {
        kind: Kind::Read,
        ..ToolSettings::default()
    }
}

fn build(items: &[&str], settings: &[(&str, ToolSettings)]) -> Catalog {
    let items: Vec<_> = items
        .iter()
        .map(|item| Bytes::copy_from_slice(item.as_bytes()))
        .collect();
    Catalog::build(&server(settings), &items, &mut Validators::default())
}

fn closed(schema: Option<&str>, kind: Kind) -> Result<String, String> {
    let closing = Closing {
        kind,
        replay: Replay::Yes,
        root: Root::Closed,
    };
    close(schema.map(str::as_bytes), closing)
        .map(|closed| String::from_utf8(closed.text).unwrap())
        .map_err(|unfit| unfit.pointer)
}

/// What a read tool's schema becomes.
fn check(schema: &str, want: Result<&str, &str>) {
    assert_eq!(
        closed(Some(schema), Kind::Read)
            .as_deref()
            .map_err(String::as_str),
        want,
        "{schema}"
    );
}

#[test]
fn every_real_schema_compiles_closes_lists_and_enforces() {
    let text = include_str!("../../../../tests/cases/tool_schemas.json");
    let all: BTreeMap<String, Vec<Box<serde_json::value::RawValue>>> =
        serde_json::from_str(text).unwrap();
    let (mut schemas, mut validators) = (0, Validators::default());
    for tools in all.values() {
        let items: Vec<_> = tools
            .iter()
            .map(|item| Bytes::copy_from_slice(item.get().as_bytes()))
            .collect();
        let catalog = Catalog::build(&server(&[]), &items, &mut validators);
        assert_eq!(catalog.set_aside, []);
        assert_eq!(catalog.tools.len(), items.len());
        let result = format!(
            "{{\"tools\":[{}]}}",
            tools.iter().map(|t| t.get()).collect::<Vec<_>>().join(",")
        );
        let open = Open {
            tools: catalog.tools.clone(),
            own: vec![],
        };
        let listed = page(
            Page {
                result: result.as_bytes(),
                server: "files",
                append: &[],
            },
            &open,
        )
        .unwrap();
        let listed: Value = serde_json::from_slice(&listed).unwrap();
        for (at, tool) in catalog.tools.iter().enumerate() {
            let before: Value = serde_json::from_slice(&items[at]).unwrap();
            let mut after = listed["tools"][at].clone();
            assert_eq!(
                after["inputSchema"],
                serde_json::from_slice::<Value>(tool.schema.text()).unwrap()
            );
            assert_eq!(
                after["inputSchema"]["properties"]["dry_run"]["type"], "boolean",
                "{}",
                tool.name
            );
            after["inputSchema"] = before["inputSchema"].clone();
            assert_eq!(after, before);
            let unknown = tool.schema.mismatches(br#"{"no_such_argument_at_all":1}"#);
            assert!(!unknown.is_empty(), "{}", tool.name);
            schemas += 1;
            if let Some(output) = before.get("outputSchema") {
                validators.get(Bytes::from(output.to_string())).unwrap();
                schemas += 1;
            }
        }
    }
    assert_eq!(schemas, 146 + 27);
}

#[test]
fn sch_roots_that_must_stay_usable() {
    let empty = r#"{"type":"object","additionalProperties":false,"properties":{}}"#;
    assert_eq!(closed(None, Kind::Read).unwrap(), empty);
    check("null", Ok(empty));
    check("{}", Ok(empty));
    check(
        r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#,
        Ok(
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","additionalProperties":false,"properties":{}}"#,
        ),
    );
    check(
        r#"{"type":"object"}"#,
        Ok(r#"{"type":"object","additionalProperties":false,"properties":{}}"#),
    );
    check(
        r#"{"properties":{"a":{}}}"#,
        Ok(r#"{"properties":{"a":{}},"type":"object","additionalProperties":false}"#),
    );
    check(
        r#"{"type":["object","null"]}"#,
        Ok(r#"{"type":"object","additionalProperties":false,"properties":{}}"#),
    );
}

#[test]
fn sch_roots_that_are_no_object_schema() {
    check(r#"{"type":"string"}"#, Err("/type"));
    check(r#"{"type":["string","null"]}"#, Err("/type"));
    check(
        r#"{"anyOf":[{"type":"object"},{"type":"object"}]}"#,
        Err("/anyOf"),
    );
    check("true", Err(""));
    check("[]", Err(""));
    check(r#""object""#, Err(""));
    check(r#"{"type":"object","properties":[]}"#, Err("/properties"));
}

#[test]
fn r34_r35_closing_touches_nothing_else() {
    check(
        "{ \"type\" : \"object\",\n \"properties\":{\"a\":{\"type\":\"object\",\"additionalProperties\":true,\"maximum\":1.0}}, \"additionalProperties\": {\"type\":\"string\"}, \"definitions\":{\"x\":{}}, \"x-y\":1e2}",
        Ok(
            r#"{ "type" : "object", "properties":{"a":{"type":"object","additionalProperties":true,"maximum":1.0}}, "additionalProperties": false, "definitions":{"x":{}}, "x-y":1e2}"#,
        ),
    );
    let nested = r#"{"type":"object","properties":{"a":{"type":"object","properties":{}}}}"#;
    let schema = Schema::compile(closed(Some(nested), Kind::Read).unwrap().into()).unwrap();
    assert_eq!(schema.mismatches(br#"{"a":{"extra":1}}"#), []);
    assert_eq!(schema.mismatches(br#"{"extra":1}"#).len(), 1);
}

#[test]
fn branches_are_closed_or_the_tool_is_set_aside() {
    let branches = r#""properties":{"a":{}},"anyOf":[{"required":["a"]},{"properties":{"b":{}},"required":["b"]}]"#;
    let modern = closed(
        Some(&format!(
            "{{\"type\":\"object\",\"additionalProperties\":true,{branches}}}"
        )),
        Kind::Read,
    )
    .unwrap();
    assert_eq!(
        modern,
        format!("{{\"type\":\"object\",{branches},\"unevaluatedProperties\":false}}")
    );
    let schema = Schema::compile(modern.into()).unwrap();
    for (text, fits) in [
        (r#"{"a":1}"#, true),
        (r#"{"b":1}"#, true),
        (r#"{"a":1,"b":1}"#, true),
        ("{}", false),
        (r#"{"a":1,"c":1}"#, false),
    ] {
        assert_eq!(
            schema.mismatches(text.as_bytes()).is_empty(),
            fits,
            "{text}"
        );
    }
    let seven = "\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"type\":\"object\"";
    check(&format!("{{{seven},{branches}}}"), Err(""));
    assert!(
        closed(
            Some(&format!(
                "{{{seven},\"additionalProperties\":false,{branches}}}"
            )),
            Kind::Read
        )
        .is_ok()
    );
    check(
        &format!("{{{seven},\"$ref\":\"#/definitions/a\",\"definitions\":{{\"a\":{{}}}}}}"),
        Err("/$ref"),
    );
    check(
        r#"{"type":"object","oneOf":[{"additionalProperties":true},{"required":["a"]}]}"#,
        Err(""),
    );
    let reference = r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"x":{"$ref":"#/$defs/b"}},"required":["x"]},"b":{"type":"object","required":["y"]}}}"##;
    let schema = Schema::compile(closed(Some(reference), Kind::Write).unwrap().into()).unwrap();
    for (text, fits) in [
        (r#"{"x":{"y":1}}"#, true),
        (r#"{"x":{}}"#, false),
        (r#"{"x":{"y":1},"z":1}"#, false),
        (r#"{"x":{"y":1},"dry_run":true}"#, true),
    ] {
        assert_eq!(
            schema.mismatches(text.as_bytes()).is_empty(),
            fits,
            "{text}"
        );
    }
}

#[test]
fn sch_52_boolean_exclusive_minimum() {
    for dialect in [
        "",
        "\"$schema\":\"http://json-schema.org/draft-04/schema#\",",
    ] {
        let text = format!(
            "{{{dialect}\"type\":\"object\",\"properties\":{{\"n\":{{\"type\":\"number\",\"minimum\":0,\"exclusiveMinimum\":true}}}}}}"
        );
        let schema = Schema::compile(closed(Some(&text), Kind::Write).unwrap().into()).unwrap();
        for (text, fits) in [
            (r#"{"n":0}"#, false),
            (r#"{"n":0.1}"#, true),
            (r#"{"n":-1}"#, false),
            (r#"{"n":1,"m":1}"#, false),
        ] {
            assert_eq!(
                schema.mismatches(text.as_bytes()).is_empty(),
                fits,
                "{dialect} {text}"
            );
        }
    }
    // A keyword the older dialect would pass over: not guessed at.
    let mixed = r#"{"type":"object","properties":{"n":{"const":1,"exclusiveMinimum":true}}}"#;
    let mixed = format!("{{\"name\":\"a\",\"inputSchema\":{mixed}}}");
    let catalog = build(&[&mixed], &[]);
    assert_eq!(
        catalog.set_aside[0].pointer,
        "/inputSchema/properties/n/exclusiveMinimum"
    );
}

#[test]
fn r37_r38_r39_control_fields() {
    let names = |schema: &str, kind, replay| {
        let closing = Closing {
            kind,
            replay,
            root: Root::Closed,
        };
        let closed = close(Some(schema.as_bytes()), closing).unwrap();
        let value: Value = serde_json::from_slice(&closed.text).unwrap();
        value["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let plain = r#"{"type":"object","properties":{"a":{}}}"#;
    assert_eq!(
        names(plain, Kind::Write, Replay::Yes),
        "a dry_run confirm_token idempotency_key"
    );
    assert_eq!(
        names(plain, Kind::Write, Replay::No),
        "a dry_run confirm_token"
    );
    assert_eq!(names(plain, Kind::Read, Replay::Yes), "a");
    let own = r#"{"type":"object","properties":{"dry_run":{"type":"string"}}}"#;
    assert_eq!(
        names(own, Kind::Write, Replay::Yes),
        "dry_run countersign_dry_run confirm_token idempotency_key"
    );
    assert_eq!(names(own, Kind::Read, Replay::Yes), "dry_run");
    let both = r#"{"type":"object","properties":{"dry_run":{},"countersign_dry_run":{}}}"#;
    assert_eq!(
        closed(Some(both), Kind::Write),
        Err("/properties/countersign_dry_run".to_string())
    );
}

#[test]
fn sch_one_bad_tool_is_set_aside_by_name_and_the_others_stay() {
    let good = r#"{"name":"good","inputSchema":{"type":"object"}}"#;
    let catalog = build(
        &[
            good,
            r#"{"name":"bad","inputSchema":{"type":"string"}}"#,
            "7",
            r#"{"description":"x"}"#,
            r#"{"name":"countersign_whoami"}"#,
        ],
        &[],
    );
    assert_eq!(
        catalog
            .tools
            .iter()
            .map(|tool| &*tool.name)
            .collect::<Vec<_>>(),
        ["good"]
    );
    let aside: Vec<_> = catalog
        .set_aside
        .iter()
        .map(|aside| (aside.tool.as_str(), aside.pointer.as_str()))
        .collect();
    assert_eq!(
        aside,
        [
            ("bad", "/inputSchema/type"),
            ("#2", ""),
            ("#3", "/name"),
            ("countersign_whoami", "/name")
        ]
    );
    assert_eq!(
        catalog.set_aside[0].to_string(),
        "tool `bad` is set aside: the root is not an object schema (at `/inputSchema/type`)"
    );
}

#[test]
fn nam_names_are_matched_exactly() {
    let long = "n".repeat(2048);
    let names = [
        "a.b",
        "a/b",
        "a b",
        "a",
        "а",
        "A",
        "",
        long.as_str(),
        "a\u{301}",
        "á",
    ];
    let items: Vec<_> = names
        .iter()
        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}).to_string())
        .collect();
    let catalog = build(
        &items.iter().map(String::as_str).collect::<Vec<_>>(),
        &[("a", read())],
    );
    assert_eq!(catalog.tools.len(), names.len());
    for name in names {
        let tool = catalog.find(name).unwrap();
        assert_eq!(&*tool.name, name);
        assert_eq!(
            tool.kind,
            if name == "a" { Kind::Read } else { Kind::Write },
            "{name}"
        );
    }
}

#[test]
fn duplicates_in_one_list() {
    let one = r#"{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#;
    let other = r#"{"name":"a","inputSchema":{"type":"object"}}"#;
    assert_eq!(build(&[one, one], &[]).tools.len(), 1);
    for items in [
        vec![one, other],
        vec![one, other, one],
        vec![one, one, other],
    ] {
        let catalog = build(&items, &[]);
        assert!(catalog.tools.is_empty());
        assert_eq!(catalog.set_aside.len(), 1);
    }
}

#[test]
fn r44_hints_only_make_more_careful() {
    let item = |annotations: &str| {
        format!("{{\"name\":\"a\",\"inputSchema\":{{}},\"annotations\":{annotations}}}")
    };
    let kind = |annotations: &str, settings: ToolSettings| {
        build(&[&item(annotations)], &[("a", settings)]).tools[0].kind
    };
    let cases = [
        (
            r#"{"readOnlyHint":true}"#,
            ToolSettings::default(),
            Kind::Write,
        ),
        ("{}", read(), Kind::Read),
        (r#"{"readOnlyHint":"yes"}"#, read(), Kind::Read),
        (r#"{"destructiveHint":true}"#, read(), Kind::Write),
        (
            r#"{"destructiveHint":true,"readOnlyHint":true}"#,
            read(),
            Kind::Read,
        ),
    ];
    for (annotations, settings, want) in cases {
        assert_eq!(kind(annotations, settings), want, "{annotations}");
    }
}

#[test]
fn a_page_keeps_what_it_does_not_know() {
    let shown = r#"{ "name":"a", "icons":[ {"src":"x"} ],"inputSchema": {"type":"object","$defs":{}} ,"annotations":{"readOnlyHint":true},"execution":{"taskSupport":"forbidden"}}"#;
    let hidden = r#"{"name":"b","inputSchema":{"type":"object"}}"#;
    let catalog = build(&[shown, hidden], &[("a", read())]);
    let open = Open {
        tools: vec![catalog.find("a").unwrap().clone()],
        own: vec![],
    };
    let result = format!(
        "{{\"tools\":[{hidden},\n{shown},{shown}],\"nextCursor\":\"\",\"_meta\":{{\"k\":1.0}}}}"
    );
    let got = page(
        Page {
            result: result.as_bytes(),
            server: "files",
            append: &[r#"{"name":"own"}"#],
        },
        &open,
    )
    .unwrap();
    let listed = shown.replace(
        r#"{"type":"object","$defs":{}}"#,
        r#"{"type":"object","$defs":{},"additionalProperties":false,"properties":{}}"#,
    );
    let want = format!(
        "{{\"tools\":[{listed},{{\"name\":\"own\"}}],\"nextCursor\":\"\",\"_meta\":{{\"k\":1.0}}}}"
    );
    assert_eq!(String::from_utf8(got).unwrap(), want);
    let elsewhere = page(
        Page {
            result: result.as_bytes(),
            server: "other",
            append: &[],
        },
        &open,
    )
    .unwrap();
    assert_eq!(
        elsewhere,
        br#"{"tools":[],"nextCursor":"","_meta":{"k":1.0}}"#
    );
    let changed = result.replace("readOnlyHint\":true", "readOnlyHint\":false");
    let changed = page(
        Page {
            result: changed.as_bytes(),
            server: "files",
            append: &[],
        },
        &open,
    )
    .unwrap();
    assert_eq!(
        changed,
        br#"{"tools":[],"nextCursor":"","_meta":{"k":1.0}}"#
    );
}

#[test]
fn a_modern_page_is_private_and_short_lived() {
    let cases = [
        (
            r#"{"resultType":"complete","tools":[],"ttlMs":3600000,"cacheScope":"public"}"#,
            r#"{"resultType":"complete","tools":[],"ttlMs":60000,"cacheScope":"private"}"#,
        ),
        (
            r#"{"resultType":"complete","tools":[],"ttlMs":5}"#,
            r#"{"resultType":"complete","tools":[],"ttlMs":5,"cacheScope":"private"}"#,
        ),
        (
            r#"{"ttlMs":-1,"tools":[]}"#,
            r#"{"ttlMs":60000,"tools":[],"cacheScope":"private"}"#,
        ),
        (r#"{"tools":[]}"#, r#"{"tools":[]}"#),
    ];
    for (result, want) in cases {
        let got = page(
            Page {
                result: result.as_bytes(),
                server: "files",
                append: &[],
            },
            &Open::default(),
        )
        .unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), want);
    }
    for bad in ["{}", r#"{"tools":{}}"#, "[]", r#"{"tools":[],"tools":[]}"#] {
        assert!(
            page(
                Page {
                    result: bad.as_bytes(),
                    server: "files",
                    append: &[]
                },
                &Open::default()
            )
            .is_err(),
            "{bad}"
        );
    }
}

#[test]
fn nam_73_pages_joined() {
    let pages = [
        r#"{"tools":[1,2],"nextCursor":"x"}"#,
        r#"{"tools":[],"nextCursor":"y"}"#,
        r#"{"_meta":{},"tools":[{"a":3}]}"#,
    ];
    let pages: Vec<_> = pages
        .iter()
        .map(|page| Bytes::from_static(page.as_bytes()))
        .collect();
    assert_eq!(
        &join(&pages).unwrap()[..],
        br#"{"_meta":{},"tools":[1,2,{"a":3}]}"#
    );
    assert_eq!(items(&pages[0]).unwrap(), [&b"1"[..], b"2"]);
    assert!(join(&[]).is_err());
}

/// A value a schema might take: required members only, first choices.
fn sample(root: &Value, schema: &Value) -> Value {
    if let Some(target) = schema["$ref"].as_str() {
        return sample(root, root.pointer(&target[1..]).unwrap());
    }
    for (word, first) in [("const", ""), ("enum", "/0"), ("default", "")] {
        if let Some(value) = schema.get(word).and_then(|value| value.pointer(first)) {
            return value.clone();
        }
    }
    if let Some(branch) = ["anyOf", "oneOf", "allOf"]
        .iter()
        .find_map(|word| schema[*word].get(0))
    {
        return sample(root, branch);
    }
    match schema["type"].as_str() {
        Some("string") => json!("x".repeat(schema["minLength"].as_u64().unwrap_or(1) as usize)),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("array") => {
            json!(vec![
                sample(root, &schema["items"]);
                schema["minItems"].as_u64().unwrap_or(0) as usize
            ])
        }
        Some("object") => {
            let required = schema["required"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            required
                .map(|name| (name.to_string(), sample(root, &schema["properties"][name])))
                .collect()
        }
        _ => Value::Null,
    }
}

#[test]
fn r40_over_real_schemas_listed_enforced_and_the_servers_own_agree() {
    let text = include_str!("../../../../tests/cases/tool_schemas.json");
    let all: BTreeMap<String, Vec<Box<serde_json::value::RawValue>>> =
        serde_json::from_str(text).unwrap();
    let (mut fitting, mut tried) = (0, 0);
    for item in all.values().flatten() {
        let catalog = build(&[item.get()], &[]);
        let tool = &catalog.tools[0];
        let own = crate::json::member(item.get().as_bytes(), "inputSchema").unwrap();
        let value: Value = serde_json::from_slice(own).unwrap();
        let own = Schema::compile(Bytes::copy_from_slice(own)).unwrap();
        let full = sample(&value, &value);
        let without = |name: &String| {
            let mut less = full.clone();
            less.as_object_mut().unwrap().remove(name);
            less
        };
        let mut cases: Vec<Value> = full.as_object().unwrap().keys().map(without).collect();
        cases.push(full);
        for case in cases {
            let fits = |schema: &dyn Fn(&[u8]) -> Vec<Mismatch>, case: &Value| {
                schema(case.to_string().as_bytes()).is_empty()
            };
            let by_server = fits(&|text| own.mismatches(text), &case);
            assert_eq!(
                fits(&|text| tool.schema.mismatches(text), &case),
                by_server,
                "{} {case}",
                tool.name
            );
            assert_eq!(
                fits(&|text| tool.bare.mismatches(text), &case),
                by_server,
                "{} {case}",
                tool.name
            );
            let mut with_control = case.clone();
            with_control[tool.control.dry_run.unwrap()] = json!(true);
            assert_eq!(
                fits(&|text| tool.schema.mismatches(text), &with_control),
                by_server,
                "{} {case}",
                tool.name
            );
            let mut unknown = case.clone();
            unknown["no_such_argument_at_all"] = json!(1);
            assert!(
                !fits(&|text| tool.schema.mismatches(text), &unknown),
                "{} {case}",
                tool.name
            );
            fitting += usize::from(by_server);
            tried += 1;
        }
    }
    assert!(
        fitting > 130 && tried - fitting > 130,
        "{fitting} of {tried}"
    );
}
