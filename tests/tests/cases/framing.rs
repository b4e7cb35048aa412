//! FR: frames that are too long, malformed or of the wrong form.

use countersign_tests::client::{code, refusal, text};
use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use serde_json::{Value, json};

#[test]
fn fr_1_2_long_result_lines_arrive_whole() {
    let (world, _) = Hostile::world(&json!({}));
    let mut client = world.connect();
    for bytes in [65_535, 65_536, 65_537, 5_000_000] {
        let answer = client.call("size", &json!({"n": bytes}));
        let frame = client.raw_answer(&answer["id"]);
        let letters = text(&answer);
        assert!(letters.bytes().all(|letter| letter == b'x'));
        // What is around the text is the same for all sizes but for the id.
        let around = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"\"}}]}}}}\n",
            answer["id"]
        );
        assert_eq!(
            letters.len(),
            bytes - around.len(),
            "a line of {bytes} bytes"
        );
        assert!(frame.ends_with('\n'));
    }
    assert!(client.close().success());
}

#[test]
fn fr_1_2_long_request_lines_arrive_whole() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    for bytes in [65_535, 65_536, 65_537, 1_500_000] {
        let sent = "é".repeat(bytes / 2);
        let answer = client.call("echo", &json!({"text": sent}));
        assert_eq!(
            answer["result"]["structuredContent"]["params"]["arguments"]["text"],
            json!(sent)
        );
    }
    assert_eq!(hostile.ran().len(), 4);
}

#[test]
fn fr_3_after_a_line_over_the_limit_the_connection_works() {
    let (world, _) = Hostile::world(&json!({}));
    world.edit(|settings| settings["limits"]["frame_bytes"] = json!(1_048_576));
    let mut client = world.connect();
    let answer = client.call("size", &json!({"n": 2_000_000}));
    let said = refusal(&answer).expect("a result over the limit is refused");
    assert!(said.len() < 10_000, "the refusal does not carry the line");
    assert_eq!(
        text(&client.call("slow", &json!({"text": "small"}))),
        "small"
    );
    client.fence();

    // The other direction: a request over the limit gets an answer and is not forwarded.
    let id = client.ask_call("echo", &json!({"text": "y".repeat(2_000_000)}));
    let answer =
        client.wait_for(|message| message.get("error").is_some() || message.get("id") == Some(&id));
    assert!(refusal(&answer).is_some(), "{answer}");
    assert_eq!(
        text(&client.call("slow", &json!({"text": "small"}))),
        "small"
    );
    assert!(client.close().success());
    assert_eq!(world.outcomes("slow"), ["ok", "ok"]);
}

#[test]
fn fr_3_arguments_over_two_megabytes_are_too_large_and_the_connection_lives() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    let answer = client.call("echo", &json!({"text": "y".repeat(2_200_000)}));
    assert_eq!(code(&answer).as_deref(), Some("too_large"), "{answer}");
    client.fence();
    assert!(hostile.ran().is_empty());
}

#[test]
fn fr_5_forty_servers_are_listed_whole() {
    let world = World::new();
    let long = "d".repeat(2_000);
    let tools: Vec<String> = (0..10)
        .map(|n| json!({"name": format!("tool_{n}"), "description": long, "inputSchema": {"type": "object"}}).to_string())
        .collect();
    let hostile = Hostile::new(&world, "many", &json!({"tools_raw": tools}));
    for n in 0..40 {
        world.server(&format!("server-{n}"), &hostile.command);
    }
    world.agent("a");
    for n in 0..40 {
        let mut client = world.run("a", &format!("server-{n}"));
        client.initialize();
        client.tools();
        client.close();
    }
    let listed = world.json(&["tools"]).to_string();
    for n in 0..40 {
        assert!(
            listed.contains(&format!("server-{n}\"")),
            "server-{n} is missing from {} bytes",
            listed.len()
        );
    }
}

#[test]
fn fr_6_malformed_answers_are_no_success() {
    let (world, _) = Hostile::world(&json!({}));
    let mut client = world.connect();
    let malformed = [
        r#"{"id":%ID%,"result":{"content":[{"type":"text","text":"bad"}]}}"#,
        r#"{"jsonrpc":"1.0","id":%ID%,"result":{"content":[{"type":"text","text":"bad"}]}}"#,
        r#"{"jsonrpc":"2.0","id":{"n":%ID%},"result":{"content":[{"type":"text","text":"bad"}]}}"#,
        r#"[{"jsonrpc":"2.0","id":%ID%,"result":{"content":[{"type":"text","text":"bad"}]}}]"#,
        r#"{"jsonrpc":"2.0","id":%ID%,"id":%ID%,"result":{"content":[{"type":"text","text":"bad"}]}}"#,
        r#"{"jsonrpc":"2.0","id":%ID%,"result":{"content":[{"type":"text","text":"bad"}]},"error":{"code":1,"message":"bad"}}"#,
        r#"{"jsonrpc":"2.0","id":%ID%}"#,
        r#"{"jsonrpc":"2.0","id":%ID%,"result":{"content":[{"type":"text","text":"bad"}]}} trailing"#,
        r#"{"jsonrpc":"2.0","id":%ID%,"result":{"content":[{"type":"text","text":NaN}]}}"#,
    ];
    for frame in malformed {
        let answer = client.call("lines", &json!({"items": [frame]}));
        assert!(
            !answer.to_string().contains("\"bad\""),
            "passed on: {frame} as {answer}"
        );
        client.fence();
    }
    // One answer for each call, nothing malformed in between.
    let ids: Vec<Value> = client
        .seen()
        .iter()
        .map(|line| serde_json::from_slice::<Value>(line).expect("JSON")["id"].clone())
        .collect();
    for id in &ids {
        assert_eq!(
            ids.iter().filter(|other| *other == id).count(),
            1,
            "{id} answered once"
        );
    }
    assert!(client.close().success());
}

#[test]
fn fr_8_params_that_are_a_list_are_not_forwarded() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    client.line(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":[]}"#);
    client.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}"#);
    client.fence();
    assert!(
        hostile.received().iter().all(|line| !line.contains('[')),
        "{:?}",
        hostile.received()
    );
    let answer = client.call(
        "lines",
        &json!({"items": [r#"{"jsonrpc":"2.0","method":"notifications/message","params":[]}"#]}),
    );
    assert_eq!(text(&answer), "after the lines");
    client.fence();
    assert!(client.aside().is_empty(), "{:?}", client.aside());
}
