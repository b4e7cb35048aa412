//! Step 6 and what this version cannot hold: what is refused, what is sent.

use countersign_permission::{ArgumentLimit, CallLimits, Kind, Rate, Validation};
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};

use super::world::{World, code};
use crate::answer::Outcome;
use crate::paths::{Declared, Effect};
use crate::request::Request;

/// A call of a fresh world; what it comes to, and what the server got.
fn check(world: &World, tool: &str, arguments: &str, want: &str, sent: Option<&str>) {
    world.memory.sent.lock().unwrap().clear();
    assert_eq!(world.call(tool, arguments), want, "{tool} {arguments}");
    let got = world.memory.sent.lock().unwrap().pop();
    let got = got.map(|(_, arguments)| arguments.unwrap_or_default());
    assert_eq!(got.as_deref(), sent, "{tool} {arguments}");
}

fn refused(world: &World, tool: &str, arguments: &str) -> (String, Value) {
    let Outcome::Refused(refusal) = world.send(world.request(tool, arguments)).outcome else {
        panic!("{tool} {arguments}")
    };
    (refusal.code.text().to_string(), refusal.document("r1"))
}

#[test]
fn arg_the_shapes_of_arguments() {
    let world = World::new();
    check(&world, "look", "", "ok", Some(""));
    check(&world, "look", "null", "ok", Some("null"));
    check(&world, "look", "{ }", "ok", Some("{ }"));
    for bad in [
        "[]",
        "\"abc\"",
        "7",
        "true",
        "{\"a\":1,\"a\":2}",
        "{",
        "{\"path\":\"\\ud800\"}",
        "{\"path\":NaN}",
    ] {
        check(&world, "look", bad, "validation_failed", None);
    }
    let deep = format!("{{\"list\":{}{}}}", "[".repeat(128), "]".repeat(128));
    check(&world, "look", &deep, "validation_failed", None);
}

#[test]
fn arg_what_passes_is_sent_byte_for_byte() {
    let world = World::new();
    let text = r#"{ "n" : 1.0, "path":"\u0061\/ä", "list":[9007199254740993,1e400,123456789012345678901234567890,null] }"#;
    check(&world, "look", text, "ok", Some(text));
    check(&world, "look", "{\"n\":\r\n1}", "ok", Some("{\"n\":1}"));
    check(&world, "look", r#"{"n":"448"}"#, "validation_failed", None);
    check(
        &world,
        "put",
        r#"{"n":9007199254740993}"#,
        "ok",
        Some(r#"{"n":9007199254740993}"#),
    );
}

#[test]
fn r34_r36_refusals_name_tool_and_place() {
    let world = World::with_tool("put", |tool| tool.max_items = Some(2));
    let (code, document) = refused(&world, "look", r#"{"other":1}"#);
    assert_eq!(code, "validation_failed");
    assert_eq!(document["status"], 422);
    assert_eq!(document["context"]["tool"], "look");
    assert!(document["detail"].as_str().unwrap().contains("`look`"));
    assert!(
        document["context"]["errors"][0]["message"]
            .as_str()
            .unwrap()
            .contains("other"),
        "{document}"
    );
    let (_, document) = refused(&world, "look", r#"{"path":7}"#);
    assert_eq!(document["context"]["errors"][0]["pointer"], "/path");
    let (code, document) = refused(&world, "put", r#"{"rows":[1,2,3]}"#);
    assert_eq!(
        (code.as_str(), &document["context"]["errors"][0]["pointer"]),
        ("validation_failed", &json!("/rows"))
    );
}

#[test]
fn r43_too_large_is_refused_before_it_is_parsed() {
    let world = World::with_tool("look", |tool| tool.max_bytes = 20);
    check(
        &world,
        "look",
        r#"{"path":"12345678"}"#,
        "ok",
        Some(r#"{"path":"12345678"}"#),
    );
    check(
        &world,
        "look",
        "this is not even JSON at all",
        "too_large",
        None,
    );
    let world = World::new();
    check(
        &world,
        "look",
        &format!("{{\"path\":\"{}\"}}", "x".repeat(2_000_000)),
        "too_large",
        None,
    );
}

#[test]
fn r37_r38_r39_control_fields() {
    let world = World::new();
    for field in [
        r#""dry_run":false"#,
        r#""dry_run":true"#,
        r#""confirm_token":"x""#,
        r#""idempotency_key":"x""#,
    ] {
        check(
            &world,
            "look",
            &format!("{{{field}}}"),
            "validation_failed",
            None,
        );
    }
    check(
        &world,
        "put",
        r#"{"path":"a","dry_run":false,"n":1}"#,
        "ok",
        Some(r#"{"path":"a","n":1}"#),
    );
    check(&world, "put", r#"{"\u0064ry_run":false}"#, "ok", Some("{}"));
    check(
        &world,
        "put",
        r#"{"dry_run":"true"}"#,
        "validation_failed",
        None,
    );
    check(
        &world,
        "put",
        r#"{"countersign_dry_run":true}"#,
        "validation_failed",
        None,
    );
    check(
        &world,
        "own_dry",
        r#"{"dry_run":"all"}"#,
        "ok",
        Some(r#"{"dry_run":"all"}"#),
    );
    check(
        &world,
        "own_dry",
        r#"{"dry_run":"all","countersign_dry_run":false}"#,
        "ok",
        Some(r#"{"dry_run":"all"}"#),
    );
    check(
        &world,
        "own_dry",
        r#"{"countersign_dry_run":true}"#,
        "finished",
        None,
    );
    let world = World::with_tool("put", |tool| tool.replay = false);
    check(
        &world,
        "put",
        r#"{"idempotency_key":"x"}"#,
        "validation_failed",
        None,
    );
}

#[test]
fn warn_and_open_arguments_never_relax_control_fields() {
    let relaxed = |kind| {
        World::with_tool("open_put", |tool| {
            tool.kind = kind;
            tool.validation = Validation::Warn;
            tool.open_arguments = true;
            tool.replay = false;
        })
    };
    let world = relaxed(Kind::Write);
    check(
        &world,
        "open_put",
        r#"{"anything":1}"#,
        "ok",
        Some(r#"{"anything":1}"#),
    );
    for bad in [
        r#"{"dry_run":1}"#,
        r#"{"confirm_token":""}"#,
        r#"{"idempotency_key":"x"}"#,
        r#"{"countersign_dry_run":true}"#,
        "[]",
    ] {
        check(&world, "open_put", bad, "validation_failed", None);
    }
    check(
        &relaxed(Kind::Read),
        "open_put",
        r#"{"dry_run":true}"#,
        "validation_failed",
        None,
    );
    let world = World::with_tool("put", |tool| tool.validation = Validation::Warn);
    check(
        &world,
        "put",
        r#"{"n":"x","zzz":1}"#,
        "ok",
        Some(r#"{"n":"x","zzz":1}"#),
    );
    let decisions = world.memory.notes.lock().unwrap()[0].decisions.clone();
    assert_eq!(
        (decisions[0].rule.as_str(), decisions.len()),
        ("schema_warn", 1)
    );
}

#[test]
fn r41_r42_the_idempotency_header() {
    let world = World::new();
    let send = |tool: &str, arguments: &str, header: &str| {
        let request = Request {
            idempotency_header: Some(header.into()),
            ..world.request(tool, arguments)
        };
        let Outcome::Refused(refusal) = world.send(request).outcome else {
            return "ok".to_string();
        };
        format!("{} {}", refusal.code.text(), refusal.step)
    };
    assert_eq!(send("put", "{}", "k1"), "ok");
    assert_eq!(
        send("put", r#"{"n":1,"idempotency_key":"k1"}"#, "k1"),
        "idempotency_key_reused 10",
        "taken as the field"
    );
    assert_eq!(
        send("put", r#"{"idempotency_key":"k2"}"#, "k1"),
        "validation_failed 6"
    );
    assert_eq!(
        send("put", "{}", "a b"),
        "validation_failed 6",
        "held to the field's form"
    );
    assert_eq!(send("look", "{}", "k1"), "ok", "not read for a read");
    let world = World::with_tool("put", |tool| tool.replay = false);
    let request = Request {
        idempotency_header: Some("k".into()),
        ..world.request("put", "{}")
    };
    assert_eq!(code(&world.send(request)), "validation_failed");
}

#[test]
fn the_permissions_limits() {
    let limit = |pointer: &str, op: &str, value: Value| {
        ArgumentLimit::read(pointer, op, Some(&value)).unwrap()
    };
    let world = World::with_tool("put", |tool| {
        tool.arguments = vec![
            limit("/path", "prefix", json!("/home/")),
            limit("/n", "max", json!(5)),
        ]
    });
    check(
        &world,
        "put",
        r#"{"path":"/home/a","n":5}"#,
        "ok",
        Some(r#"{"path":"/home/a","n":5}"#),
    );
    for bad in [
        r#"{"path":"/etc","n":5}"#,
        r#"{"path":"/home/a","n":6}"#,
        r#"{"path":"/home/a"}"#,
        r#"{"path":"/home/a","n":5,"rows":[1e400]}"#,
    ] {
        check(&world, "put", bad, "outside_permission", None);
    }
    let (_, document) = refused(&world, "put", r#"{"path":"/etc","n":5}"#);
    assert_eq!(document["context"]["limit"], "prefix \"/home/\"");
    let world = World::with_tool("put", |tool| {
        tool.arguments = vec![limit("/path", "prefix", json!("/home/"))];
        tool.paths = vec![Declared {
            pointer: "/path".into(),
            effect: Effect::Write,
        }];
    });
    check(
        &world,
        "put",
        r#"{"path":"/home/../etc"}"#,
        "outside_permission",
        None,
    );
}

#[test]
fn max_calls_and_rates_are_counted_before_anything_is_sent() {
    let limited = |limits| World::with_tool("put", |tool| tool.limits = limits);
    let world = limited(CallLimits {
        max_calls: Some(2),
        rate: None,
    });
    world.call("put", r#"{"dry_run":true}"#);
    assert_eq!(world.trail(), "key resolve charge uses note");
    assert_eq!(world.call("put", "{}"), "ok");
    assert_eq!(
        world.trail(),
        "key resolve charge uses take note run record"
    );
    assert_eq!(world.call("put", "{}"), "ok");
    let (code, document) = refused(&world, "put", "{}");
    assert_eq!(
        (code.as_str(), &document["context"]["limit"]),
        ("outside_permission", &json!("max_calls"))
    );
    let world = limited(CallLimits {
        max_calls: None,
        rate: Some(Rate {
            per_seconds: 60,
            max: 0,
        }),
    });
    assert_eq!(refused(&world, "put", "{}").1["context"]["limit"], "rate");
}

#[test]
fn what_later_steps_would_hold_is_refused_and_never_ignored() {
    let tool = |change: &dyn Fn(&mut crate::facts::ToolSettings)| World::with_tool("put", change);
    let held = [tool(&|tool| tool.require_copy = true)];
    for world in held {
        check(&world, "put", "{}", "permission_denied", None);
        check(&world, "look", "{}", "ok", Some("{}"));
    }
}

#[test]
fn r50_a_dry_run_shows_the_arguments_and_runs_nothing() {
    let world = World::new();
    let answer = world.send(world.request("put", r#"{"n": 9007199254740993,"dry_run":true}"#));
    let Outcome::Finished(finished) = answer.outcome else {
        panic!()
    };
    assert!(
        finished
            .document
            .contains(r#""arguments":{"n": 9007199254740993}"#),
        "{}",
        finished.document
    );
    assert!(finished.document.contains("arguments_only"));
    assert_eq!(finished.status, 202);
    assert!(world.memory.sent.lock().unwrap().is_empty());
    let note = world.memory.notes.lock().unwrap()[0].clone();
    assert_eq!(note.outcome.unwrap().ended, crate::ports::Ended::Preview);
}

proptest! {
    /// What the listed schema takes is, minus control fields, what the schema without them takes; and what is sent is the rest, as it stood.
    #[test]
    fn r40_listed_is_enforced_and_the_rest_keeps_its_bytes(
        names in prop::collection::btree_set(prop::sample::select(vec!["path", "n", "rows", "zzz", "dry_run"]), 0..5),
        number in any::<i64>(), text in any::<String>(), dry in any::<bool>(), space in " {0,3}",
    ) {
        let world = World::new();
        let tool = world.catalogs["files"].find("put").unwrap().clone();
        let value = |name: &str| match name {
            "path" => Value::from(text.clone()).to_string(),
            "n" | "zzz" => number.to_string(),
            "dry_run" => dry.to_string(),
            _ => format!("[{number}]"),
        };
        let member = |name: &&str| format!("\"{name}\"{space}:{space}{}", value(name));
        let object = |names: Vec<&str>| format!("{{{}}}", names.iter().map(member).collect::<Vec<_>>().join(","));
        let whole = object(names.iter().copied().collect());
        let rest = object(names.iter().copied().filter(|name| *name != "dry_run").collect());
        let fits = tool.schema.mismatches(whole.as_bytes()).is_empty();
        prop_assert_eq!(fits, tool.bare.mismatches(rest.as_bytes()).is_empty());
        let answer = code(&world.send(world.request("put", &whole)));
        let preview = dry && names.contains("dry_run");
        prop_assert_eq!(answer, match (fits, preview) { (false, _) => "validation_failed", (true, true) => "finished", (true, false) => "ok" });
        let sent = world.memory.sent.lock().unwrap().pop();
        prop_assert!(sent.is_none() == (answer != "ok"));
        if let Some((_, Some(sent))) = sent {
            prop_assert_eq!(sent, rest);
        }
    }
}
