//! M1–M9: what is on the wire, in both directions.

use countersign_tests::client::{Client, refusal, text};
use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use serde_json::{Value, json};

/// stdout of a run that cannot work: only JSON-RPC, and the client gets an answer.
fn failing(
    world: &World,
    arguments: &[&str],
    change: impl FnOnce(&mut std::process::Command),
) -> (Vec<Value>, String) {
    let mut command = world.command(arguments);
    change(&mut command);
    let mut client = Client::start(&mut command);
    client.try_raw(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}\n");
    client.close_stdin();
    let mut messages = Vec::new();
    while let Some(line) = client.next_line() {
        assert_eq!(line.last(), Some(&b'\n'));
        let message: Value = serde_json::from_slice(&line)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&line)));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        messages.push(message);
    }
    client.wait();
    (messages, client.stderr())
}

#[test]
fn m1_stdout_carries_only_the_protocol_whatever_fails() {
    let run = ["run", "--agent", "a", "--server", "s"];
    let (world, _) =
        Hostile::world(&json!({"stderr_first": "noise of the child", "banner": ["banner"]}));

    let mut talkative = world.command(&run);
    let mut client = Client::start(
        talkative
            .env("RUST_LOG", "trace")
            .env("RUST_BACKTRACE", "1"),
    );
    client.initialize();
    client.tools();
    client.call("stderr", &json!({"n": 100}));
    assert!(client.aside().is_empty(), "{:?}", client.aside());
    assert!(client.close().success());

    let (messages, said) = failing(
        &world,
        &["run", "--agent", "nobody", "--server", "s"],
        |_| {},
    );
    assert!(
        messages
            .iter()
            .any(|message| message.get("error").is_some())
            || said.contains("nobody"),
        "{messages:?} {said}"
    );

    let (messages, said) = failing(
        &world,
        &["run", "--agent", "a", "--server", "nowhere"],
        |_| {},
    );
    assert!(
        messages
            .iter()
            .any(|message| message.get("error").is_some())
            || said.contains("nowhere"),
        "{messages:?} {said}"
    );

    let (messages, _) = failing(&world, &["run", "--no-such-option"], |_| {});
    assert!(messages.is_empty());

    // A wrong passphrase: nothing gated works, and it is said.
    let wrong = world.path("wrong");
    std::fs::write(&wrong, "wrong\n").expect("written");
    let (_, said) = failing(&world, &run, |command| {
        command.env("COUNTERSIGN_PASSPHRASE_FILE", &wrong);
    });
    assert!(!said.contains("panicked"), "{said}");

    world.edit(|settings| settings["no_such_member"] = json!(1));
    let (messages, said) = failing(&world, &run, |_| {});
    let told = format!("{messages:?}{said}");
    assert!(told.contains("no_such_member"), "{told}");

    std::fs::write(world.dir().join("executor.json"), "{").expect("written");
    let (messages, said) = failing(&world, &run, |_| {});
    assert!(!messages.is_empty() || !said.is_empty());
    let empty = World::bare();
    let (messages, said) = failing(&empty, &run, |_| {});
    assert!(
        format!("{messages:?}{said}").contains("init"),
        "the remedy: {messages:?} {said}"
    );
}

#[test]
fn m2_every_line_is_one_object_with_its_end() {
    let (world, _) = Hostile::world(&json!({}));
    let mut client = world.connect();
    client.tools();
    client.call("echo", &json!({"text": "line\r\nbreak\u{2028}\u{85}"}));
    client.call(
        "result",
        &json!({"raw": "{\"content\":[],\n\r \"x\":\t1}".replace(['\n', '\r'], " ")}),
    );
    for line in client.seen() {
        let body = &line[..line.len() - 1];
        assert!(
            !body.contains(&b'\n') && !body.contains(&b'\r'),
            "{}",
            String::from_utf8_lossy(line)
        );
        std::str::from_utf8(line).expect("UTF-8");
        assert!(
            serde_json::from_slice::<Value>(line)
                .expect("JSON")
                .is_object()
        );
    }
}

#[test]
fn m3_what_is_refused_is_answered_and_forwarded_to_nobody() {
    // Line, whether its id can be read, accepted error codes.
    let table: [(&[u8], Option<Value>, &[i64]); 20] = [
        (b"", None, &[]),
        (b"not json", None, &[-32700]),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":50,\"method\":\"ping\"",
            None,
            &[-32700],
        ),
        (b"\xff\xfe{}", None, &[-32700]),
        (b"\"text\"", None, &[-32600, -32700]),
        (b"7", None, &[-32600, -32700]),
        (b"null", None, &[-32600, -32700]),
        (b"[]", None, &[-32600, -32700]),
        (
            br#"{"jsonrpc":"2.0","id":50,"method":"ping","method":"ping"}"#,
            Some(json!(50)),
            &[-32600],
        ),
        (
            br#"{"jsonrpc":"2.0","id":50,"method":"ping","params":{"a":1,"a":2}}"#,
            Some(json!(50)),
            &[-32600],
        ),
        (
            br#"{"jsonrpc":"2.0","id":50,"method":"ping","params":{"b":{"a":1,"\u0061":2}}}"#,
            Some(json!(50)),
            &[-32600],
        ),
        (
            br#"{"jsonrpc":"2.0","id":"fifty","method":"ping","Method":"ping"}"#,
            Some(json!("fifty")),
            &[-32600],
        ),
        (
            br#"{"jsonrpc":"2.0","id":50,"method":"ping","params":[]}"#,
            Some(json!(50)),
            &[-32600, -32602],
        ),
        (
            br#"{"jsonrpc":"2.0","id":50,"method":"ping","params":"x"}"#,
            Some(json!(50)),
            &[-32600, -32602],
        ),
        (
            br#"{"jsonrpc":"2.0","id":50,"method":7}"#,
            Some(json!(50)),
            &[-32600],
        ),
        (br#"{"jsonrpc":"2.0","id":50}"#, None, &[-32600]),
        (br#"{"id":50,"method":"ping"}"#, Some(json!(50)), &[-32600]),
        (
            br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            None,
            &[-32600],
        ),
        (
            br#"{"jsonrpc":"2.0","id":50,"method":"ping"} x"#,
            Some(json!(50)),
            &[-32700, -32600],
        ),
        (
            br#"{"jsonrpc":"2.0","id":50,"method":"ping","params":{"n":01}}"#,
            Some(json!(50)),
            &[-32700, -32600],
        ),
    ];
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    client.fence();
    let arrived = hostile.received().len();
    let mut fences = 0;
    for (line, id, codes) in table {
        let shown = String::from_utf8_lossy(line).into_owned();
        client.raw(&[line, b"\n"].concat());
        let before = client.seen().len();
        client.fence();
        fences += 1;
        let answers: Vec<Value> = client.seen()[before..]
            .iter()
            .map(|line| serde_json::from_slice(line).expect("JSON"))
            .filter(|message: &Value| message.get("error").is_some())
            .collect();
        assert!(answers.len() <= 1, "{shown}: {answers:?}");
        if id.is_some() {
            assert_eq!(answers.len(), 1, "{shown} has an id and gets an answer");
        }
        for answer in answers {
            let code = answer["error"]["code"].as_i64().expect("a code");
            assert!(codes.contains(&code), "{shown}: {answer}");
            let expected = id.clone().unwrap_or(Value::Null);
            // A line that is no JSON may still show its id, and may not.
            assert!(
                answer["id"] == expected || (codes.contains(&-32700) && answer["id"].is_null()),
                "{shown}: {answer}"
            );
        }
    }
    assert_eq!(
        hostile.received().len(),
        arrived + fences,
        "only the fences arrived: {:?}",
        hostile.received()
    );
}

#[test]
fn m6_m39_deep_and_large_messages_cost_only_themselves() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    for depth in [129, 200, 3_000, 200_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        client.line(&format!(r#"{{"jsonrpc":"2.0","id":"deep","method":"tools/call","params":{{"name":"echo","arguments":{{"value":{deep}}}}}}}"#));
        let answer =
            client.wait_for(|message| message.get("error").is_some() || message["id"] == "deep");
        assert!(refusal(&answer).is_some(), "depth {depth}: {answer}");
        client.fence();
    }
    let shallow = format!("{}{}", "[".repeat(100), "]".repeat(100));
    client.line(&format!(r#"{{"jsonrpc":"2.0","id":"ok","method":"tools/call","params":{{"name":"echo","arguments":{{"value":{shallow}}}}}}}"#));
    assert!(refusal(&client.answer(&json!("ok"))).is_none());
    for surrogate in [r"\ud800", r"\udc00x", r"\ud800\ud800"] {
        client.line(&format!(r#"{{"jsonrpc":"2.0","id":"half","method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{surrogate}"}}}}}}"#));
        let answer =
            client.wait_for(|message| message.get("error").is_some() || message["id"] == "half");
        assert!(refusal(&answer).is_some(), "{surrogate}: {answer}");
    }
    client.fence();
    assert_eq!(hostile.ran(), ["echo"]);
    assert!(client.close().success());
}

#[test]
fn m6_a_line_over_the_limit_does_not_grow_the_process() {
    let (world, _) = Hostile::world(&json!({}));
    world.edit(|settings| settings["limits"]["frame_bytes"] = json!(1_048_576));
    let mut client = world.connect();
    client.fence();
    let chunk = vec![b'y'; 1 << 20];
    client.raw(br#"{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"echo","arguments":{"text":""#);
    for _ in 0..64 {
        client.raw(&chunk);
    }
    let resident = resident_kib(client.pid());
    client.raw(b"\"}}}\n");
    let answer = client.wait_for(|message| message.get("error").is_some() || message["id"] == 77);
    assert!(refusal(&answer).is_some(), "{answer}");
    assert!(resident < 48 * 1024, "{resident} KiB while 64 MiB went by");
    client.fence();
}

#[test]
fn m7_a_cut_last_line_of_a_child_never_reaches_the_client() {
    let (world, _) = Hostile::world(&json!({}));
    let mut client = world.connect();
    let answer = client.call("partial_then_die", &json!({}));
    assert!(refusal(&answer).is_some());
    let status = client.close_with_stderr().0;
    assert!(status.success());
}

#[test]
fn m8_lists_are_taken_only_where_2025_03_26_is_spoken() {
    let call = |id: i64, tool: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}});
    let (world, hostile) = Hostile::world(&json!({}));
    world.must(&["tool", "set", "s", "pid", "--hidden"]);
    let mut client = world.connect();
    client.send(&json!([call(600, "slow"), call(601, "slow")]));
    let answer = client.wait_for(|message| message.get("error").is_some());
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    client.fence();
    assert!(hostile.ran().is_empty());

    let mut client = world.run("a", "s");
    client.initialize_as("2025-03-26", &json!({}));
    client.send(&json!([call(600, "slow"), call(601, "pid"), {"jsonrpc": "2.0", "method": "notifications/x"}]));
    let line = client.next_line().expect("an answer");
    let answers: Value = serde_json::from_slice(&line).expect("JSON");
    let answers = answers
        .as_array()
        .unwrap_or_else(|| panic!("answers are recombined: {answers}"))
        .clone();
    assert_eq!(answers.len(), 2);
    let of = |id: i64| {
        answers
            .iter()
            .find(|answer| answer["id"] == id)
            .unwrap_or_else(|| panic!("{id}: {answers:?}"))
    };
    assert_eq!(text(of(600)), "slow");
    assert!(
        refusal(of(601)).is_some(),
        "each element is decided by itself"
    );
    assert_eq!(hostile.ran(), ["slow"]);
    assert!(
        hostile.received().iter().all(|line| !line.starts_with('[')),
        "no list goes on"
    );
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("VmRSS");
    line.split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok())
        .expect("a number")
}
