//! NOT: list changes, cancellation, progress, requests of the server in the middle of a call.

use countersign_tests::client::{Client, refusal, text};
use countersign_tests::hostile::Hostile;
use countersign_tests::process::until;
use countersign_tests::world::World;
use serde_json::{Value, json};

fn names(client: &mut Client) -> Vec<String> {
    client
        .tools()
        .iter()
        .filter_map(|tool| Some(tool["name"].as_str()?.to_owned()))
        .collect()
}

#[test]
fn not_74_76_a_tool_added_in_mid_session_is_announced_and_unseen_until_open() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    let before = names(&mut client);
    assert_eq!(
        text(&client.call("add_tool", &json!({"text": "added"}))),
        "added"
    );
    client.incoming("notifications/tools/list_changed");
    let after = names(&mut client);
    // What is listed is what may be called, before and after.
    let answer = client.call("added", &json!({}));
    assert_eq!(
        after.contains(&"added".to_owned()),
        refusal(&answer).is_none(),
        "{answer}"
    );
    world.must(&["tool", "set", "s", "added", "--hidden"]);
    let hidden = names(&mut client);
    assert_eq!(hidden, before);
    let ran = hostile.ran().len();
    assert!(refusal(&client.call("added", &json!({}))).is_some());
    assert_eq!(hostile.ran().len(), ran);
}

#[test]
fn not_74_other_notices_of_the_server_pass() {
    let (world, _) = Hostile::world(&json!({"capabilities": {
        "tools": {"listChanged": true}, "prompts": {"listChanged": true}, "resources": {"listChanged": true, "subscribe": true}, "logging": {}
    }}));
    let mut client = world.connect();
    for (method, params) in [
        ("notifications/prompts/list_changed", json!({})),
        ("notifications/resources/list_changed", json!({})),
        (
            "notifications/resources/updated",
            json!({"uri": "test://x", "x-more": 1}),
        ),
        (
            "notifications/message",
            json!({"level": "info", "logger": "x", "data": {"deep": [1.5]}}),
        ),
    ] {
        client.call("notify", &json!({"method": method, "params": params}));
        assert_eq!(client.incoming(method)["params"], params, "{method}");
    }
}

#[test]
fn not_75_a_change_of_what_is_open_is_announced() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    assert!(names(&mut client).contains(&"pid".to_owned()));
    world.must(&["tool", "set", "s", "pid", "--hidden"]);
    let refused = client.call("pid", &json!({}));
    assert!(
        refusal(&refused).is_some(),
        "the next message is judged by the new settings: {refused}"
    );
    client.incoming("notifications/tools/list_changed");
    assert!(!names(&mut client).contains(&"pid".to_owned()));
    world.must(&["tool", "set", "s", "pid", "--shown"]);
    assert!(refusal(&client.call("pid", &json!({}))).is_none());
    client.incoming("notifications/tools/list_changed");
    assert_eq!(hostile.ran(), ["pid"]);
}

#[test]
fn not_75_an_unchanged_list_read_again_raises_nothing() {
    let (world, _) = Hostile::world(&json!({}));
    let mut client = world.connect();
    let before = client.tools();
    client.call("relist", &json!({}));
    client.fence();
    assert_eq!(client.tools(), before);
    assert_eq!(
        text(&client.call("slow", &json!({"text": "still open"}))),
        "still open"
    );
}

#[test]
fn not_m36_a_changed_definition_is_seen_before_the_next_call() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    assert!(refusal(&client.call("echo", &json!({}))).is_none());
    client.call("change_tool", &json!({"text": "echo"}));
    client.incoming("notifications/tools/list_changed");
    let answer = client.call("echo", &json!({}));
    let listed = client.tools();
    let echo = listed.iter().find(|tool| tool["name"] == "echo");
    // Either it waits for the person, unlisted, or it is open with the new definition shown.
    match refusal(&answer) {
        Some(said) => {
            assert!(said.contains("definition_changed"), "{said}");
            assert!(echo.is_none(), "{echo:?}");
            assert_eq!(hostile.ran(), ["echo", "change_tool"]);
        }
        None => assert_eq!(
            echo.expect("listed")["description"],
            "now it does something else"
        ),
    }
    client.close();
    let changed = world
        .journal()
        .into_iter()
        .any(|entry| entry["k"] == "catalog" && entry["change"] == "changed");
    assert!(changed, "the change is on record");
}

#[test]
fn not_78_80_a_cancel_overtakes_the_open_call_with_its_id() {
    for id in [json!("cancel-me"), json!(41)] {
        let (world, hostile) = Hostile::world(&json!({}));
        let mut client = world.connect();
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "wait", "arguments": {"text": "late"}}}));
        until("the call reaches the server", || hostile.ran() == ["wait"]);
        client.notify(
            "notifications/cancelled",
            &json!({"requestId": id, "reason": "changed my mind"}),
        );
        until("the cancel reaches the server", || {
            hostile.received().iter().any(|line| {
                serde_json::from_str::<Value>(line).is_ok_and(|message| {
                    message["method"] == "notifications/cancelled"
                        && message["params"]["requestId"] == id
                })
            })
        });
        // The late answer is dropped: nothing but the fence's answer arrives.
        client.fence();
        assert_eq!(text(&client.call("slow", &json!({"text": "next"}))), "next");
        let late = client
            .seen()
            .iter()
            .any(|line| String::from_utf8_lossy(line).contains("too late"));
        assert!(!late, "a late answer reached the client");
        assert!(client.close().success());
        assert_eq!(world.outcomes("wait"), ["unknown"]);
    }
}

#[test]
fn not_80_cancel_in_the_era_without_a_handshake() {
    let (world, hostile) = Hostile::world(&json!({"modern": true}));
    let mut client = world.run("a", "s");
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    client.request("server/discover", &json!({"_meta": meta}));
    let id = client.ask(
        "tools/call",
        &json!({"name": "wait", "arguments": {}, "_meta": meta}),
    );
    until("the call reaches the server", || hostile.ran() == ["wait"]);
    client.notify("notifications/cancelled", &json!({"requestId": id}));
    until("the cancel reaches the server", || {
        hostile.received().iter().any(|line| {
            line.contains("notifications/cancelled")
                && line.contains(&format!("\"requestId\":{id}"))
        })
    });
    assert!(client.close().success());
    assert_eq!(world.outcomes("wait"), ["unknown"]);
}

#[test]
fn not_80_initialize_and_unknown_ids_cancel_nothing() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    client.notify(
        "notifications/cancelled",
        &json!({"requestId": "never asked"}),
    );
    client.notify("notifications/cancelled", &json!({"requestId": 1}));
    client.notify("notifications/cancelled", &json!({}));
    assert_eq!(text(&client.call("slow", &json!({"text": "on"}))), "on");
    assert_eq!(hostile.ran(), ["slow"]);
    assert!(client.close().success());
}

#[test]
fn not_82_progress_keeps_its_token_and_late_progress_is_dropped() {
    let (world, _) = Hostile::world(&json!({}));
    let mut client = world.connect();
    for token in [json!("token-ü"), json!(7), json!(9_007_199_254_740_993_u64)] {
        let id = client.ask("tools/call", &json!({"name": "progress", "arguments": {}, "_meta": {"progressToken": token, "x": 1}}));
        for step in 1..=3 {
            let notice = client.incoming("notifications/progress");
            assert_eq!(notice["params"]["progressToken"], token);
            assert_eq!(notice["params"]["x-step"], json!(step), "in order");
        }
        assert_eq!(text(&client.answer(&id)), "done");
    }
    let whole = client
        .seen()
        .iter()
        .any(|line| String::from_utf8_lossy(line).contains(r#""progress":1.0,"total":3"#));
    assert!(whole, "numbers keep their text");

    let id = client.ask(
        "tools/call",
        &json!({"name": "late_progress", "arguments": {}, "_meta": {"progressToken": "late"}}),
    );
    assert_eq!(text(&client.answer(&id)), "done");
    client.fence();
    assert!(
        client
            .aside()
            .iter()
            .all(|message| message["method"] != "notifications/progress"),
        "{:?}",
        client.aside()
    );

    // Without a token of the client's there is none.
    assert_eq!(text(&client.call("progress", &json!({}))), "done");
    client.fence();
    assert!(client.aside().is_empty(), "{:?}", client.aside());
}

fn asking(options: &[&str]) -> (World, Hostile, Client) {
    let world = World::new();
    let hostile = Hostile::new(&world, "s", &json!({}));
    world.server("s", &hostile.command);
    if !options.is_empty() {
        let mut arguments = vec!["server", "set", "s"];
        arguments.extend_from_slice(options);
        world.must(&arguments);
    }
    world.agent("a");
    let mut client = world.run("a", "s");
    client.initialize_as(
        "2025-11-25",
        &json!({"sampling": {}, "elicitation": {}, "roots": {"listChanged": true}}),
    );
    (world, hostile, client)
}

const ASKED: [(&str, &str); 3] = [
    (
        "sampling/createMessage",
        r#"{"content":{"type":"text","text":"a poem"},"model":"m","role":"assistant","x":1.0}"#,
    ),
    (
        "elicitation/create",
        r#"{"action":"accept","content":{"name":"Ada"}}"#,
    ),
    (
        "roots/list",
        r#"{"roots":[{"uri":"file:///tmp/x","name":"x"}]}"#,
    ),
];

#[test]
fn not_84_85_the_server_asks_in_mid_call_where_the_settings_pass_it() {
    let (_world, _hostile, mut client) = asking(&["--pass", "roots,sampling,elicitation"]);
    for (method, reply) in ASKED {
        // The server's id equals the id of the client's own call: two name spaces.
        let id = json!(500);
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "ask", "arguments": {"method": method, "params": {"x-asked": [1]}, "id": 500}}}));
        let question = client.incoming(method);
        assert_eq!(question["params"], json!({"x-asked": [1]}), "{method}");
        client.line(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{reply}}}"#,
            question["id"]
        ));
        let told: Value = serde_json::from_str(&text(&client.answer(&id))).expect("JSON");
        assert_eq!(
            told["result"],
            serde_json::from_str::<Value>(reply).expect("JSON"),
            "{method}"
        );
    }
    // An error of the client passes, too.
    let id = client.ask_call(
        "ask",
        &json!({"method": "sampling/createMessage", "params": {}}),
    );
    let question = client.incoming("sampling/createMessage");
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "User rejected", "data": null}}));
    let told: Value = serde_json::from_str(&text(&client.answer(&id))).expect("JSON");
    assert_eq!(told["error"]["message"], "User rejected");
    // An answer to a question nobody asked reaches nobody.
    client.send(&json!({"jsonrpc": "2.0", "id": "never", "result": {}}));
    client.fence();
}

#[test]
fn not_84_85_withheld_questions_are_answered_and_the_client_sees_nothing() {
    let (_world, hostile, mut client) = asking(&[]);
    let opening = hostile
        .received()
        .into_iter()
        .find(|line| line.contains("\"initialize\""))
        .expect("initialize");
    for capability in ["sampling", "elicitation", "roots"] {
        assert!(
            !opening.contains(capability),
            "withheld for good, so not claimed: {opening}"
        );
    }
    for (method, _) in ASKED {
        let answer = client.call("ask", &json!({"method": method, "params": {}}));
        let told: Value = serde_json::from_str(&text(&answer)).expect("JSON");
        let declined = told.get("error").is_some() || told["result"]["action"] == "decline";
        assert!(declined, "{method}: the server is told {told}");
        assert!(
            client.aside().is_empty(),
            "{method}: the client saw {:?}",
            client.aside()
        );
    }
    client.notify("notifications/roots/list_changed", &json!({}));
    client.fence();
    assert!(
        hostile
            .received()
            .iter()
            .all(|line| !line.contains("roots/list_changed")),
        "withheld towards the server"
    );
}

#[test]
fn not_85_a_ping_of_the_server_reaches_its_client() {
    let (_world, _hostile, mut client) = asking(&[]);
    let id = client.ask_call("ask", &json!({"method": "ping", "params": {}}));
    let question = client.incoming("ping");
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {}}));
    assert_eq!(text(&client.answer(&id)), r#"{"result": {}}"#);
}
