//! M42–M52: what passes beside tools, and what does not.

use countersign_tests::client::{code, refusal, text, without_rate};
use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use countersign_tests::{direct, peers};
use serde_json::{Value, json};

const ALL: &str = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}"#;

fn world() -> (World, Hostile) {
    Hostile::world(&json!({"capabilities": serde_json::from_str::<Value>(ALL).expect("JSON")}))
}

#[test]
fn m42_m47_the_specifications_other_methods_pass_both_ways_as_written() {
    let (world, hostile) = world();
    let mut client = world.connect();
    for method in [
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "logging/setLevel",
        "tasks/get",
        "tasks/list",
        "tasks/result",
        "tasks/cancel",
    ] {
        let params = r#"{"uri":"test://x","name":"p","level":"debug","taskId":"t","x-more":[1.0,12345678901234567890123]}"#;
        client.line(&format!(
            r#"{{"jsonrpc":"2.0","id":"{method}","method":"{method}","params":{params}}}"#
        ));
        let answer = client.answer(&json!(method));
        assert_eq!(answer["result"]["method"], method, "{answer}");
        assert!(
            client
                .raw_answer(&json!(method))
                .contains(&format!(r#""echo":{params}"#)),
            "{method}: {answer}"
        );
    }
    assert_eq!(hostile.calls().len(), 13);
    client.close();
    let recorded = world.recorded();
    for method in ["resources/read", "prompts/get"] {
        assert!(
            recorded.iter().any(|call| call.tool == method),
            "{method} is on record: {recorded:?}"
        );
    }
}

#[test]
fn m42_everything_answers_as_directly() {
    let command = peers::everything();
    let mut straight = direct::connect(&command, &[]);
    let world = World::of(&command);
    let mut gated = world.connect();
    for (method, params) in [
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "simple-prompt"})),
        ("prompts/get", json!({"name": "no-such-prompt"})),
        ("resources/read", json!({"uri": "no-such://resource"})),
        ("logging/setLevel", json!({"level": "debug"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "completable-prompt"}, "argument": {"name": "department", "value": "E"}}),
        ),
        ("tasks/list", json!({})),
        ("ping", json!({})),
    ] {
        let (expected, seen) = (
            straight.request(method, &params),
            gated.request(method, &params),
        );
        assert_eq!(
            expected.get("result"),
            without_rate(&seen).get("result"),
            "{method} {params}"
        );
        assert_eq!(
            expected.get("error"),
            without_rate(&seen).get("error"),
            "{method} {params}"
        );
    }
    let resources = straight.request("resources/list", &json!({}));
    for resource in resources["result"]["resources"]
        .as_array()
        .expect("resources")
        .iter()
        .take(5)
    {
        let params = json!({"uri": resource["uri"]});
        let (expected, seen) = (
            straight.request("resources/read", &params),
            gated.request("resources/read", &params),
        );
        assert_eq!(expected["result"], without_rate(&seen)["result"]);
    }
}

#[test]
fn m44_server_filesystem_follows_the_clients_roots_only_where_they_pass() {
    for passed in [true, false] {
        let world = World::new();
        let (inside, outside) = (world.text_path("files"), world.text_path("other"));
        std::fs::create_dir(&outside).expect("created");
        std::fs::write(format!("{inside}/a.txt"), "inside").expect("written");
        std::fs::write(format!("{outside}/b.txt"), "outside").expect("written");
        world.server("s", &peers::filesystem(&inside));
        world.reads("s", &["read_text_file", "list_allowed_directories"]);
        if passed {
            world.must(&["server", "set", "s", "--pass", "roots"]);
        }
        world.agent("a");
        let mut client = world.run("a", "s");
        client.initialize_as("2025-11-25", &json!({"roots": {"listChanged": true}}));
        if passed {
            let question = client.incoming("roots/list");
            client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": [{"uri": format!("file://{outside}")}]}}));
            countersign_tests::process::until("the roots are taken in", || {
                text(&client.call("list_allowed_directories", &json!({}))).contains("other")
            });
        }
        let answer = client.call(
            "read_text_file",
            &json!({"path": format!("{outside}/b.txt")}),
        );
        assert_eq!(refusal(&answer).is_none(), passed, "{answer}");
        assert!(
            client
                .aside()
                .iter()
                .all(|message| message["method"] != "roots/list"),
            "withheld: {:?}",
            client.aside()
        );
    }
}

#[test]
fn m43_server_everything_asks_its_client() {
    let world = World::of(&peers::everything());
    world.must(&["server", "set", "s", "--pass", "sampling,elicitation"]);
    let mut client = world.run("a", "s");
    client.initialize_as("2025-11-25", &json!({"sampling": {}, "elicitation": {}}));
    let names: Vec<Value> = client
        .tools()
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert!(
        names.contains(&json!("trigger-sampling-request")),
        "the server sees the capability: {names:?}"
    );
    let id = client.ask_call(
        "trigger-sampling-request",
        &json!({"prompt": "a poem", "maxTokens": 20}),
    );
    let question = client.incoming("sampling/createMessage");
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {
        "role": "assistant", "model": "m", "content": {"type": "text", "text": "roses are red"}}}));
    let answer = client.answer(&id);
    assert!(answer.to_string().contains("roses are red"), "{answer}");
}

#[test]
fn m47_a_task_of_server_everything_is_made_asked_for_and_fetched() {
    let world = World::of(&peers::everything());
    let mut client = world.connect();
    let made = client.request("tools/call", &json!({"name": "simulate-research-query", "arguments": {"topic": "gates"}, "task": {"ttl": 60000}}));
    let task = made["result"]["task"]["taskId"]
        .as_str()
        .unwrap_or_else(|| panic!("a task: {made}"))
        .to_owned();
    countersign_tests::process::until("the task ends", || {
        let state = client.request("tasks/get", &json!({"taskId": task}));
        state["result"]["status"] == "completed"
    });
    let result = client.request("tasks/result", &json!({"taskId": task}));
    assert!(result["result"]["content"].is_array(), "{result}");
    client.close();
    assert_eq!(world.outcomes("simulate-research-query").len(), 1);
}

#[test]
fn m49_a_subscription_stays_open_while_others_go_on() {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let world = World::of(&crate::conformance::fixture());
    let mut client = world.run("a", "s");
    client.request("server/discover", &json!({"_meta": meta}));
    let listening = client.ask(
        "subscriptions/listen",
        &json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}, "_meta": meta}),
    );
    let acknowledged = client.incoming("notifications/subscriptions/acknowledged");
    let subscription = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(
        acknowledged["params"]["_meta"][subscription], listening,
        "{acknowledged}"
    );
    for (tool, method) in [
        (
            "test_trigger_tool_change",
            "notifications/tools/list_changed",
        ),
        (
            "test_trigger_prompt_change",
            "notifications/prompts/list_changed",
        ),
    ] {
        let answer = client.request(
            "tools/call",
            &json!({"name": tool, "arguments": {}, "_meta": meta}),
        );
        assert!(refusal(&answer).is_none(), "{answer}");
        let notice = client.incoming(method);
        assert_eq!(
            notice["params"]["_meta"][subscription], listening,
            "{notice}"
        );
    }
    // Ended by its client it is no call that came to nothing: no answer, and the connection goes on.
    client.notify("notifications/cancelled", &json!({"requestId": listening}));
    let answer = client.request(
        "tools/call",
        &json!({"name": "test_simple_text", "arguments": {}, "_meta": meta}),
    );
    assert!(refusal(&answer).is_none(), "{answer}");
    assert!(client.close().success());
}

#[test]
fn m50_a_filtered_list_is_nobody_elses() {
    let (world, _) = Hostile::world(&json!({"modern": true}));
    world.must(&["tool", "set", "s", "pid", "--hidden"]);
    let mut client = world.run("a", "s");
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    client.request("server/discover", &json!({"_meta": meta}));
    let listed = client.request("tools/list", &json!({"_meta": meta}));
    assert_eq!(listed["result"]["cacheScope"], "private", "{listed}");
    assert!(
        listed["result"]["ttlMs"]
            .as_u64()
            .is_some_and(|milliseconds| milliseconds <= 60_000),
        "{listed}"
    );
}

#[test]
fn m51_methods_outside_the_specification_pass_only_by_name() {
    let (world, hostile) = world();
    let mut client = world.connect();
    let refused = client.request("x-vendor/method", &json!({"a": 1}));
    assert!(refused.get("error").is_some(), "{refused}");
    client.fence();
    assert!(hostile.calls().is_empty());
    client.close();

    world.must(&["server", "set", "s", "--methods", "x-vendor/method"]);
    let mut client = world.connect();
    let answer = client.request("x-vendor/method", &json!({"a": 1}));
    assert_eq!(answer["result"]["echo"], json!({"a": 1}), "{answer}");
    assert!(
        client
            .request("x-vendor/other", &json!({}))
            .get("error")
            .is_some()
    );
    assert_eq!(hostile.calls().len(), 1);
}

#[test]
fn m51_notices_and_contents_nobody_knows_pass() {
    let (world, _) = world();
    let mut client = world.connect();
    let members =
        r#"{"content":[{"type":"x-hologram","data":{"n":1.0}}],"resultType":"x-new","x":null"#;
    let id = client.ask_call("result", &json!({"raw": format!("{members}}}")}));
    client.answer(&id);
    assert!(
        client.raw_answer(&id).contains(members),
        "{}",
        client.raw_answer(&id)
    );
    // A method outside the specification, so it goes on only where the settings name it.
    let notify = json!({"method": "notifications/x-vendor", "params": {"a": [1]}});
    client.call("notify", &notify);
    client.fence();
    assert!(client.aside().is_empty(), "{:?}", client.aside());
    client.close();
    world.must(&["server", "set", "s", "--methods", "notifications/x-vendor"]);
    let mut client = world.connect();
    client.call("notify", &notify);
    assert_eq!(
        client.incoming("notifications/x-vendor")["params"],
        json!({"a": [1]})
    );
}

#[test]
fn m52_errors_of_the_server_pass_as_written_and_ours_can_be_told_apart() {
    let (world, _) = world();
    let mut client = world.connect();
    for error in [
        r#"{"code":-32602,"message":"no","data":null}"#,
        r#"{"code":-32002,"message":"Resource not found","data":{"uri":"test://x"}}"#,
        r#"{"code":-32042,"message":"URL needed","data":{"elicitations":[{"mode":"url","url":"https://example.com/","elicitationId":"1"}]}}"#,
        r#"{"code":-32021,"message":"missing","data":{"requiredCapabilities":{"elicitation":{}}}}"#,
        r#"{"code":7,"message":"","x-more":[1.0]}"#,
    ] {
        let id = client.ask_call("error", &json!({"raw": error}));
        client.answer(&id);
        let line = client.raw_answer(&id);
        assert!(line.contains(error), "{error} became {line}");
    }
    let ours = client.request("x-vendor/method", &json!({}));
    assert!(
        ours["error"]["data"].to_string().contains("countersign") || code(&ours).is_some(),
        "{ours}"
    );
}
