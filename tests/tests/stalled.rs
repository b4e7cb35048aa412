//! Peers that stop reading: a server, a client. Half a minute later they count as gone, and nobody else is held up for longer.

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use countersign_tests::PATIENCE;
use countersign_tests::client::code;
use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use serde_json::json;

/// More than a pipe and a queue of the relay hold.
const MUCH: usize = 300_000;
const MANY: usize = 8;

/// A server that reads until the first call and never again.
const DEAF: &str = r#"
import json, sys, time
for line in sys.stdin:
    message = json.loads(line)
    method, result = message.get("method"), None
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "deaf", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "keep", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]}
    elif method == "tools/call":
        time.sleep(600)
    if result is not None and "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

#[test]
fn a_server_that_stops_reading_is_ended_and_its_calls_are_answered() {
    let command = ["python3", "-u", "-c", DEAF].map(str::to_owned);
    let world = World::of(&command);
    world.unlimited();
    // What reaches the server that is started again may be too little to stall it: silence ends that.
    world.edit(|settings| settings["limits"]["call_seconds"] = json!(45));
    let mut client = world.connect();
    client.tools();
    for id in 100..100 + MANY {
        client.send(&json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "keep", "arguments": {"text": "x".repeat(MUCH)}},
        }));
    }
    for id in 100..100 + MANY {
        let answer = client.late_answer(&json!(id), PATIENCE * 3);
        let failed = answer["error"].is_object() || answer["result"]["isError"] == true;
        assert!(
            failed,
            "{:?}: {}",
            code(&answer),
            answer["result"]["structuredContent"]
        );
    }
    assert!(
        client.stderr().contains("it does not read what it is sent"),
        "{}",
        client.stderr()
    );
    assert!(client.close().success());
    for call in world.recorded() {
        assert_eq!(call.outcomes.len(), 1, "{call:?}");
        assert_ne!(call.outcomes[0], "ok", "{call:?}");
    }
}

#[test]
fn a_client_that_stops_reading_counts_as_gone() {
    let (world, _) = Hostile::world(&json!({}));
    world.unlimited();
    let log = world.path("said");
    let mut child = world
        .command(&["run", "--agent", "a", "--server", "s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&log).expect("made"))
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut say = |message: serde_json::Value| {
        writeln!(stdin, "{message}").expect("it reads as long as it lives");
    };
    say(json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "stalled", "version": "1"}},
    }));
    say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    // Nothing of it is ever read; our end of the pipe stays open.
    for id in 100..100 + MANY {
        say(json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "size", "arguments": {"n": MUCH}},
        }));
    }
    let end = Instant::now() + PATIENCE + Duration::from_secs(45);
    while child.try_wait().expect("ours").is_none() {
        if Instant::now() > end {
            let _ = child.kill();
            panic!(
                "it still waits: {}",
                std::fs::read_to_string(&log).unwrap_or_default()
            );
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let said = std::fs::read_to_string(&log).expect("read") + &world.logs();
    assert!(
        said.contains("the client does not read what it is sent"),
        "{said}"
    );
    // What ran is on record, once.
    for call in world.recorded() {
        assert_eq!(call.outcomes.len(), 1, "{call:?}");
    }
    drop(stdin);
}
