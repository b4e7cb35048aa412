//! M14–M20: handshakes, and the revision that has none.

use countersign_tests::client::{code, refusal, text};
use countersign_tests::hostile::Hostile;
use countersign_tests::peers;
use countersign_tests::world::World;
use serde_json::{Value, json};

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    })
}

#[test]
fn m15_a_probe_of_a_legacy_server_fails_and_the_same_connection_goes_on() {
    let world = World::of(&peers::everything());
    let mut client = world.run("a", "s");
    let probe = client.request("server/discover", &json!({"_meta": meta()}));
    assert_eq!(probe["error"]["code"], -32601, "{probe}");
    let answer = client.initialize();
    assert_eq!(
        answer["result"]["protocolVersion"], "2025-11-25",
        "{answer}"
    );
    let answer = client.call("echo", &json!({"message": "on"}));
    assert!(text(&answer).contains("on"));
}

#[test]
fn m15_m16_m18_a_modern_client_reaches_a_dual_server() {
    let world = World::of(&peers::time());
    world.reads("s", &["get_current_time"]);
    let mut client = world.run("a", "s");
    let found = client.request("server/discover", &json!({"_meta": meta()}));
    assert!(
        found["result"]["supportedVersions"]
            .to_string()
            .contains("2026-07-28"),
        "{found}"
    );
    let listed = client.request("tools/list", &json!({"_meta": meta()}));
    assert_eq!(listed["result"]["resultType"], "complete", "{listed}");
    let call =
        json!({"name": "get_current_time", "arguments": {"timezone": "UTC"}, "_meta": meta()});
    let answer = client.request("tools/call", &call);
    assert!(
        refusal(&answer).is_none() && answer["result"]["resultType"] == "complete",
        "{answer}"
    );
    // Without the members every request of this revision carries: the server says so, not we.
    let bare = client.request("tools/list", &json!({}));
    assert!(bare.get("error").is_some(), "{bare}");
    let refused = client.request(
        "tools/call",
        &json!({"name": "get_current_time", "arguments": {"timezone": 7}, "_meta": meta()}),
    );
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert_eq!(refused["result"]["resultType"], "complete", "{refused}");
}

#[test]
fn m16_the_gate_never_speaks_the_other_era_to_a_child() {
    for legacy in [true, false] {
        let (world, hostile) = Hostile::world(&json!({"modern": true}));
        let mut client = world.run("a", "s");
        if legacy {
            client.initialize();
            client.tools();
            client.call("slow", &json!({}));
        } else {
            client.request("server/discover", &json!({"_meta": meta()}));
            client.request("tools/list", &json!({"_meta": meta()}));
            client.request(
                "tools/call",
                &json!({"name": "slow", "arguments": {}, "_meta": meta()}),
            );
        }
        client.close();
        for line in hostile.received() {
            let message: Value = serde_json::from_str(&line).expect("JSON");
            let modern = message["method"] == "server/discover"
                || message["params"]["_meta"]
                    .to_string()
                    .contains("protocolVersion");
            let handshake = message["method"] == "initialize"
                || message["method"] == "notifications/initialized";
            assert!(if legacy { !modern } else { !handshake }, "{line}");
            if !legacy {
                assert!(
                    modern,
                    "every request of ours carries what the revision requires: {line}"
                );
            }
        }
    }
}

#[test]
fn m19_meta_arrives_as_it_was_sent() {
    let (world, _) = Hostile::world(&json!({}));
    let mut client = world.connect();
    let sent = r#"{"progressToken":1.0,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=b","baggage":"k=v","com.example/x":{"n":1e300}}"#;
    client.line(&format!(
        r#"{{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":{{"x-first":[1.50],"_meta":{sent},"name":"echo","arguments":{{}}}}}}"#
    ));
    let answer = client.answer(&json!(1000));
    assert!(text(&answer).contains(sent), "{answer}");
    assert!(text(&answer).contains(r#""x-first":[1.50]"#), "{answer}");
    let id = client.ask("tools/call", &json!({"name": "result", "arguments": {"raw": r#"{"content":[],"_meta":{"com.example/y":[1.0]}}"#}}));
    client.answer(&id);
    assert!(client.raw_answer(&id).contains(r#""com.example/y":[1.0]"#));
}

#[test]
fn m20_what_is_withheld_is_neither_claimed_nor_served() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.run("a", "s");
    client.initialize_as(
        "2025-11-25",
        &json!({"roots": {}, "sampling": {}, "elicitation": {}, "x-kept": {"a": 1}}),
    );
    client.fence();
    let opening: Value = hostile
        .received()
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .find(|message| message["method"] == "initialize")
        .expect("initialize");
    assert_eq!(
        opening["params"]["capabilities"],
        json!({"x-kept": {"a": 1}})
    );
    assert_eq!(opening["params"]["clientInfo"]["name"], "countersign-tests");
    client.close();

    world.must(&["server", "set", "s", "--pass", "roots"]);
    let mut client = world.run("a", "s");
    client.initialize_as(
        "2025-11-25",
        &json!({"roots": {"listChanged": true}, "sampling": {}}),
    );
    client.fence();
    let last = hostile
        .received()
        .into_iter()
        .rev()
        .find(|line| line.contains("\"initialize\""))
        .expect("initialize");
    assert!(
        last.contains("roots") && !last.contains("sampling"),
        "{last}"
    );
}

#[test]
fn m30_a_refused_call_that_asked_for_a_task_is_a_protocol_error() {
    let (world, hostile) = Hostile::world(&json!({}));
    world.must(&["tool", "set", "s", "echo", "--hidden"]);
    let mut client = world.connect();
    let answer = client.request(
        "tools/call",
        &json!({"name": "slow", "arguments": {"ms": "soon"}, "task": {"ttl": 1000}}),
    );
    let number = answer["error"]["code"]
        .as_i64()
        .unwrap_or_else(|| panic!("an error, not a result: {answer}"));
    assert!(
        !(-32768..=-32000).contains(&number),
        "outside the reserved range: {answer}"
    );
    assert_eq!(
        code(&answer).as_deref(),
        Some("validation_failed"),
        "{answer}"
    );
    assert!(hostile.ran().is_empty());
    let answer = client.request(
        "tools/call",
        &json!({"name": "echo", "arguments": {}, "task": {"ttl": 1000}}),
    );
    assert!(answer.get("error").is_some(), "{answer}");
}
