//! M28, M29, M13, M60: what is refused does not run, what runs is on record, our own words are ours alone.

use countersign_tests::client::{REFUSAL, code, refusal, text, without_rate};
use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use serde_json::{Value, json};

#[test]
fn m28_m29_what_is_not_open_does_not_run_listed_or_not() {
    let (world, hostile) = Hostile::world(&json!({}));
    world.must(&["tool", "set", "s", "echo", "--hidden"]);
    let mut client = world.connect();
    for tool in ["echo", "no_such_tool", "ECHO", "countersign_nothing"] {
        let answer = client.call(tool, &json!({}));
        assert!(refusal(&answer).is_some(), "{tool}: {answer}");
    }
    client.tools();
    let hidden = client.call("echo", &json!({}));
    let unknown = client.call("no_such_tool", &json!({}));
    let shape = |answer: &Value, tool: &str| {
        let mut error = without_rate(answer)["error"].clone();
        error["data"][REFUSAL]["request_id"] = Value::Null;
        error.to_string().replace(tool, "TOOL")
    };
    assert_eq!(
        shape(&hidden, "echo"),
        shape(&unknown, "no_such_tool"),
        "a hidden tool looks like none"
    );
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    client.fence();
    assert!(hostile.ran().is_empty());
}

#[test]
fn m29_a_refusal_is_a_result_a_model_can_read() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    let answer = client.call("slow", &json!({"ms": "soon", "extra": 1}));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert_eq!(answer["result"]["content"][0]["type"], "text");
    let problem = &answer["result"]["structuredContent"];
    for member in ["type", "title", "status", "detail", "code"] {
        assert!(problem.get(member).is_some(), "`{member}`: {problem}");
    }
    assert_eq!(problem["status"], 422, "{problem}");
    assert!(
        problem.to_string().contains("/ms"),
        "names the place: {problem}"
    );
    assert!(text(&answer).contains("slow"), "names the tool: {answer}");
    assert!(hostile.ran().is_empty());
}

#[test]
fn m35_a_readers_hint_of_the_server_does_not_make_a_read() {
    let tools = [
        r#"{"name":"claims","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
        r#"{"name":"odd","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}}"#,
        r#"{"name":"silent","inputSchema":{"type":"object"}}"#,
    ];
    let (world, _) = Hostile::world(&json!({"tools_raw": tools}));
    let mut client = world.connect();
    for tool in ["claims", "odd", "silent"] {
        assert!(refusal(&client.call(tool, &json!({}))).is_none());
    }
    client.close();
    assert!(
        world.recorded().iter().all(|call| call.effect == "write"),
        "{:?}",
        world.recorded()
    );
}

#[test]
fn control_fields_are_shown_for_writes_and_never_ignored() {
    let (world, hostile) = Hostile::world(&json!({}));
    world.reads("s", &["slow"]);
    let mut client = world.connect();
    let tools = client.tools();
    let of = |name: &str| {
        tools
            .iter()
            .find(|tool| tool["name"] == name)
            .expect("listed")["inputSchema"]["properties"]
            .clone()
    };
    assert!(of("echo").get("dry_run").is_some(), "{}", of("echo"));
    assert!(of("slow").get("dry_run").is_none());
    for field in [
        json!({"dry_run": true}),
        json!({"confirm_token": "x"}),
        json!({"idempotency_key": "k"}),
    ] {
        let answer = client.call("slow", &field);
        assert_eq!(
            code(&answer).as_deref(),
            Some("validation_failed"),
            "a read takes none: {answer}"
        );
    }
    client.call("echo", &json!({"dry_run": true}));
    let answer = client.call("echo", &json!({"confirm_token": "x"}));
    assert_eq!(
        code(&answer).as_deref(),
        Some("confirm_token_invalid"),
        "{answer}"
    );
    let preview = client.call("echo", &json!({"text": "x", "dry_run": true}));
    assert!(!preview["result"].is_null(), "{preview}");
    for field in [
        json!({"dry_run": "yes"}),
        json!({"confirm_token": 7}),
        json!({"dry_run": null}),
    ] {
        assert!(refusal(&client.call("echo", &field)).is_some(), "{field}");
    }
    client.fence();
    assert!(hostile.ran().is_empty(), "nothing ran: {:?}", hostile.ran());
    let answer = client.call("echo", &json!({"text": "y", "dry_run": false}));
    assert!(refusal(&answer).is_none(), "{answer}");
    assert!(
        !text(&answer).contains("dry_run"),
        "control fields are taken out before: {answer}"
    );
    for _ in 0..2 {
        let answer = client.call("echo", &json!({"text": "z", "idempotency_key": "k"}));
        assert!(refusal(&answer).is_none(), "{answer}");
    }
    assert_eq!(
        hostile.ran().len(),
        2,
        "a key runs once: {:?}",
        hostile.ran()
    );
    client.close();
    assert!(
        world.outcomes("echo").contains(&"preview".to_owned()),
        "{:?}",
        world.outcomes("echo")
    );
}

#[test]
fn control_fields_step_aside_where_the_tool_has_one_of_that_name() {
    let tool = r#"{"name":"own","inputSchema":{"type":"object","properties":{"dry_run":{"type":"string"}}}}"#;
    let (world, hostile) = Hostile::world(&json!({"tools_raw": [tool]}));
    let mut client = world.connect();
    let properties = client.tools()[0]["inputSchema"]["properties"].clone();
    assert_eq!(properties["dry_run"], json!({"type": "string"}));
    assert!(
        properties.get("countersign_dry_run").is_some(),
        "{properties}"
    );
    assert!(refusal(&client.call("own", &json!({"dry_run": "of the server"}))).is_none());
    assert_eq!(
        hostile.calls()[0]["arguments"],
        json!({"dry_run": "of the server"})
    );
    client.call("own", &json!({"dry_run": "x", "countersign_dry_run": true}));
    client.fence();
    assert_eq!(hostile.ran().len(), 1);
}

#[test]
fn m13_an_answer_from_the_wrong_side_is_nobodys() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    let id = client.ask_call("slow", &json!({"ms": 800, "text": "true answer"}));
    // The client answers its own question; the server's answer is still the one that counts.
    client.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "forged"}]}}));
    assert_eq!(text(&client.answer(&id)), "true answer");
    client.fence();
    assert!(
        hostile
            .received()
            .iter()
            .all(|line| !line.contains("forged"))
    );
}

#[test]
fn our_own_tool_tells_who_is_calling() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    let answer = client.call("countersign_whoami", &json!({}));
    assert!(refusal(&answer).is_none(), "{answer}");
    let said = answer["result"].to_string();
    assert!(
        said.contains("(development)"),
        "the permission is named for what it is: {said}"
    );
    assert!(
        said.contains("\"a\"") || said.contains("\\\"a\\\""),
        "{said}"
    );
    assert!(
        !said.contains("csk_") || !said.contains(&"x".repeat(32)),
        "{said}"
    );
    client.fence();
    assert!(hostile.ran().is_empty());
}

#[test]
fn without_a_signed_permission_nothing_is_open() {
    let world = World::bare();
    world.must(&["init", "--secrets", "file"]);
    let hostile = Hostile::new(&world, "s", &json!({}));
    world.server("s", &hostile.command);
    world.agent("a");
    let mut client = world.connect();
    let names: Vec<Value> = client
        .tools()
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert!(
        names.iter().all(|name| name
            .as_str()
            .is_some_and(|name| name.starts_with("countersign_"))),
        "{names:?}"
    );
    let answer = client.call("slow", &json!({}));
    assert_eq!(code(&answer).as_deref(), Some("forbidden"), "{answer}");
    client.fence();
    assert!(hostile.ran().is_empty());
}

#[test]
fn off_stops_every_agent_at_once_and_on_lets_them_go_on() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    assert!(refusal(&client.call("slow", &json!({}))).is_none());
    // `off` needs nothing: not even the passphrase.
    let mut off = world.command(&["off"]);
    assert!(
        off.env_remove("COUNTERSIGN_PASSPHRASE_FILE")
            .stdin(std::process::Stdio::null())
            .status()
            .expect("starts")
            .success()
    );
    let answer = client.call("slow", &json!({}));
    assert_eq!(code(&answer).as_deref(), Some("api_disabled"), "{answer}");
    assert_eq!(hostile.ran().len(), 1);
    world.must(&["on"]);
    assert!(refusal(&client.call("slow", &json!({}))).is_none());
}

#[test]
fn a_revoked_agent_is_refused_from_its_next_request_on() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    assert!(refusal(&client.call("slow", &json!({}))).is_none());
    world.must(&["agent", "revoke", "a"]);
    let answer = client.call("slow", &json!({}));
    assert_eq!(code(&answer).as_deref(), Some("unauthorized"), "{answer}");
    assert_eq!(hostile.ran().len(), 1);
}

#[test]
fn m60_each_call_is_on_record_with_who_what_and_how_it_ended_and_no_payload() {
    let (world, _) = Hostile::world(&json!({}));
    world.reads("s", &["slow"]);
    let mut client = world.connect();
    client.call("slow", &json!({"text": "PAYLOADMARK"}));
    client.call("echo", &json!({"text": "PAYLOADMARK"}));
    client.call("echo", &json!({"n": "PAYLOADMARK"}));
    client.call(
        "error",
        &json!({"raw": "{\"code\":-1,\"message\":\"PAYLOADMARK\"}"}),
    );
    client.call(
        "result",
        &json!({"raw": "{\"content\":[],\"isError\":true}"}),
    );
    assert!(client.close().success());
    let recorded: Vec<(String, String, String)> = world
        .recorded()
        .into_iter()
        .map(|call| (call.tool, call.effect, call.outcomes.join("+")))
        .collect();
    let row = |tool: &str, effect: &str, outcome: &str| {
        (tool.to_owned(), effect.to_owned(), outcome.to_owned())
    };
    assert_eq!(
        recorded,
        [
            row("slow", "read", "ok"),
            row("echo", "write", "ok"),
            row("echo", "write", "refused"),
            row("error", "write", "error"),
            row("result", "write", "error"),
        ]
    );
    for call in world.journal().iter().filter(|entry| entry["k"] == "call") {
        assert_eq!(call["agent"], "a");
        assert_eq!(call["server"], "s");
        assert!(
            call["args"].is_object() || call["args"].is_string(),
            "a commitment: {call}"
        );
        assert!(
            call["client"].to_string().contains("countersign-tests"),
            "{call}"
        );
    }
    assert!(
        !world.in_clear("PAYLOADMARK"),
        "a payload lies on disk in clear"
    );
}

#[test]
fn agents_see_only_the_servers_and_scopes_they_were_given() {
    let world = World::new();
    for name in ["one", "two"] {
        let hostile = Hostile::new(&world, name, &json!({}));
        world.server(name, &hostile.command);
        world.reads(name, &["slow"]);
    }
    world.must(&[
        "agent",
        "add",
        "narrow",
        "--servers",
        "one",
        "--scopes",
        "one:read",
    ]);
    let mut client = world.run("narrow", "one");
    client.initialize();
    let names: Vec<Value> = crate::lists::of_the_server(client.tools())
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    assert_eq!(names, [json!("slow")]);
    assert!(refusal(&client.call("slow", &json!({}))).is_none());
    assert_eq!(
        code(&client.call("echo", &json!({}))).as_deref(),
        Some("forbidden")
    );
    let (answer, said) = world.first_answer("narrow", "two");
    assert!(
        answer
            .as_ref()
            .is_none_or(|answer| refusal(answer).is_some()),
        "{answer:?}"
    );
    assert!(
        format!("{answer:?}{said}").contains("two"),
        "{answer:?} {said}"
    );
}
