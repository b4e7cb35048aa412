//! M9, M10: whatever a body holds, it arrives; whatever the order, answers find their question.

use countersign_tests::client::text;
use countersign_tests::hostile::Hostile;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?(0|[1-9][0-9]{0,30})",
        "-?(0|[1-9][0-9]{0,5})\\.[0-9]{1,25}",
        "-?(0|[1-9][0-9]{0,5})(\\.[0-9]{1,5})?[eE][+-]?[0-9]{1,2}",
    ]
}

fn string() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>().prop_map(|text| json!(text).to_string()),
        "\"(\\\\u00[0-9a-f]{2}|\\\\[nrtbf/\"]|[a-z]){0,12}\"",
        Just(r#""\ud83d\ude00 \/ é""#.to_owned()),
    ]
}

/// JSON text with the spelling a serializer would not choose.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        number(),
        string(),
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("null".to_owned())
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6)
                .prop_map(|items| format!("[{}]", items.join(" , "))),
            prop::collection::btree_map("[a-zA-Zéß_ ]{0,8}", inner, 0..6).prop_map(|members| {
                let all: Vec<String> = members
                    .iter()
                    .rev()
                    .map(|(name, value)| format!("{} :{value}", json!(name)))
                    .collect();
                format!("{{ {} }}", all.join(","))
            }),
        ]
    })
}

#[test]
fn m9_bodies_arrive_with_every_digit_and_in_their_order() {
    let cases = if std::env::var_os("COUNTERSIGN_LONG").is_some() {
        100_000
    } else {
        200
    };
    let (world, _) = Hostile::world(&json!({}));
    world.unlimited();
    world.reads("s", &["echo", "result"]);
    let client = std::cell::RefCell::new(world.connect());
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&value(), |body| {
            let mut client = client.borrow_mut();
            let arguments = format!(r#"{{"value":{body}}}"#);
            client.line(&format!(
                r#"{{"jsonrpc":"2.0","id":"p","method":"tools/call","params":{{"x-extra":{body},"name":"echo","arguments":{arguments}}}}}"#
            ));
            let answer = client.answer(&json!("p"));
            let seen = text(&answer);
            prop_assert!(seen.contains(&arguments), "sent {arguments}, the server read {seen}");
            prop_assert!(seen.contains(&format!(r#""x-extra":{body}"#)), "{seen}");
            let line = client.raw_answer(&json!("p"));
            prop_assert!(line.contains(&arguments), "{line}");
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(client.into_inner().close().success());
}

#[test]
fn m10_a_hundred_in_flight_with_shuffled_answers() {
    let (world, _) = Hostile::world(&json!({}));
    world.unlimited();
    let mut client = world.connect();
    let mut asked = Vec::new();
    for n in 0..100_u64 {
        // A fixed shuffle: delays that have nothing to do with the order of asking.
        let delay = (n * 37) % 101;
        asked.push((
            client.ask_call("slow", &json!({"ms": delay, "text": format!("call {n}")})),
            n,
        ));
    }
    for (id, n) in asked.into_iter().rev() {
        assert_eq!(text(&client.answer(&id)), format!("call {n}"));
    }
}
