//! One line, two readings: what some parsers take for a harmless message and others for a call. None of them may run a hidden tool.

use countersign_tests::client::{Client, is_response};
use countersign_tests::hostile::{lines, python};
use countersign_tests::world::World;
use countersign_tests::{binary::tests_file, direct, peers};
use serde_json::{Value, json};

/// Lines with `CALL` standing for the params of the hidden call and `NAME` for its tool's name as JSON text.
const TABLE: [(&str, &str); 30] = [
    (
        "method twice",
        r#"{"jsonrpc":"2.0","id":1000,"method":"ping","method":"tools/call","params":CALL}"#,
    ),
    (
        "method twice, the other way",
        r#"{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":CALL,"method":"ping"}"#,
    ),
    (
        "params twice",
        r#"{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":{"name":"countersign_whoami"},"params":CALL}"#,
    ),
    (
        "escaped method",
        r#"{"jsonrpc":"2.0","id":1000,"\u006dethod":"tools/call","params":CALL}"#,
    ),
    (
        "escaped value",
        r#"{"jsonrpc":"2.0","id":1000,"method":"tools\/c\u0061ll","params":CALL}"#,
    ),
    (
        "escaped twin",
        r#"{"jsonrpc":"2.0","id":1000,"method":"ping","\u006dethod":"tools/call","params":CALL}"#,
    ),
    (
        "case variant",
        r#"{"jsonrpc":"2.0","id":1000,"method":"ping","Method":"tools/call","params":CALL}"#,
    ),
    (
        "case variant alone",
        r#"{"jsonrpc":"2.0","id":1000,"METHOD":"tools/call","params":CALL}"#,
    ),
    (
        "case variant of params",
        r#"{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":{"name":"countersign_whoami"},"Params":CALL}"#,
    ),
    (
        "long s folds to s",
        "{\"jsonrpc\":\"2.0\",\"id\":1000,\"method\":\"tools/call\",\"params\":{\"name\":\"countersign_whoami\"},\"param\u{17f}\":CALL}",
    ),
    (
        "raw CR in white space",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{\"a\":\r{\"jsonrpc\":\"2.0\",\"id\":1000,\"method\":\"tools/call\",\"params\":CALL}\r}}",
    ),
    (
        "raw CR around",
        "{\"jsonrpc\":\"2.0\",\"id\":999,\"method\":\"ping\",\"params\":{\"a\":\r{\"jsonrpc\":\"2.0\",\"id\":1000,\"method\":\"tools/call\",\"params\":CALL}\r}}",
    ),
    (
        "other line ends",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{\"a\":\"\u{2028}{}\u{85}\"}}\u{2028}{\"jsonrpc\":\"2.0\",\"id\":1000,\"method\":\"tools/call\",\"params\":CALL}",
    ),
    (
        "form feed",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\u{c}{\"jsonrpc\":\"2.0\",\"id\":1000,\"method\":\"tools/call\",\"params\":CALL}",
    ),
    (
        "batch",
        r#"[{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":CALL}]"#,
    ),
    (
        "batch after a ping",
        r#"[{"jsonrpc":"2.0","id":999,"method":"ping"},{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":CALL}]"#,
    ),
    (
        "trailing object",
        r#"{"jsonrpc":"2.0","id":999,"method":"ping"}{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":CALL}"#,
    ),
    (
        "trailing object after a space",
        r#"{"jsonrpc":"2.0","id":999,"method":"ping"} {"jsonrpc":"2.0","id":1000,"method":"tools/call","params":CALL}"#,
    ),
    (
        "id null",
        r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":CALL}"#,
    ),
    (
        "id with a point",
        r#"{"jsonrpc":"2.0","id":1.0,"method":"tools/call","params":CALL}"#,
    ),
    (
        "id true",
        r#"{"jsonrpc":"2.0","id":true,"method":"tools/call","params":CALL}"#,
    ),
    (
        "id a list",
        r#"{"jsonrpc":"2.0","id":[1000],"method":"tools/call","params":CALL}"#,
    ),
    (
        "no id",
        r#"{"jsonrpc":"2.0","method":"tools/call","params":CALL}"#,
    ),
    (
        "no version",
        r#"{"id":1000,"method":"tools/call","params":CALL}"#,
    ),
    (
        "version 1",
        r#"{"jsonrpc":"1.0","id":1000,"method":"tools/call","params":CALL}"#,
    ),
    (
        "params a list",
        r#"{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":[CALL]}"#,
    ),
    (
        "not a number",
        r#"{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":CALL,"x":NaN}"#,
    ),
    (
        "byte order mark",
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1000,\"method\":\"tools/call\",\"params\":CALL}",
    ),
    (
        "method and result",
        r#"{"jsonrpc":"2.0","id":1000,"result":{},"method":"tools/call","params":CALL}"#,
    ),
    (
        "the plain call",
        r#"{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":CALL}"#,
    ),
];

/// The same inside the params: name and arguments.
const INSIDE: [(&str, &str); 7] = [
    (
        "name twice",
        r#"{"name":"countersign_whoami","name":NAME,"arguments":ARGS}"#,
    ),
    (
        "name twice, the other way",
        r#"{"name":NAME,"arguments":ARGS,"name":"countersign_whoami"}"#,
    ),
    (
        "escaped twin of name",
        r#"{"name":"countersign_whoami","n\u0061me":NAME,"arguments":ARGS}"#,
    ),
    (
        "case variant of name",
        r#"{"name":"countersign_whoami","Name":NAME,"arguments":ARGS}"#,
    ),
    (
        "name with a trailing NUL",
        r#"{"name":"countersign_whoami\u0000","name":NAME,"arguments":ARGS}"#,
    ),
    (
        "arguments twice",
        r#"{"name":NAME,"arguments":{},"arguments":ARGS}"#,
    ),
    (
        "half a surrogate pair",
        r#"{"name":NAME,"arguments":ARGS,"x":"\ud800"}"#,
    ),
];

fn attacks(name: &str, arguments: &Value) -> Vec<(String, String)> {
    let plain = json!({"name": name, "arguments": arguments}).to_string();
    let fill = |line: &str, params: &str| line.replace("CALL", params);
    let mut all: Vec<(String, String)> = TABLE
        .iter()
        .map(|(what, line)| ((*what).to_owned(), fill(line, &plain)))
        .collect();
    let call = TABLE[TABLE.len() - 1].1;
    for (what, params) in INSIDE {
        let params = params
            .replace("NAME", &json!(name).to_string())
            .replace("ARGS", &arguments.to_string());
        all.push((what.to_owned(), fill(call, &params)));
    }
    all
}

/// A recorder between gate and server, so that what reaches the server is seen.
fn recorded(world: &World, command: &[String]) -> Vec<String> {
    let mut all = vec![
        python(),
        tests_file("fixtures/tee.py").display().to_string(),
        world.text_path("wire"),
    ];
    all.extend_from_slice(command);
    all
}

/// Sends every attack; afterwards no line on the wire is a call of the tool, whoever reads it.
fn check(
    world: World,
    server: &str,
    command: &[String],
    tool: &str,
    arguments: &Value,
) -> (World, Client) {
    world.server("s", &recorded(&world, command));
    world.must(&["tool", "set", "s", tool, "--hidden"]);
    world.agent("a");
    world.unlimited();
    let mut client = world.connect();
    let listed = client.tools();
    assert!(
        listed.iter().all(|entry| entry["name"] != tool),
        "{server}: {tool} is hidden"
    );
    for (what, line) in attacks(tool, arguments) {
        client.raw(format!("{line}\n").as_bytes());
        client.fence();
        for message in client
            .seen()
            .iter()
            .map(|line| serde_json::from_slice::<Value>(line).expect("JSON only"))
        {
            let ran = is_response(&message)
                && message["id"] == json!(1000)
                && message.get("error").is_none()
                && message["result"]["isError"] != json!(true)
                && message["result"].get("content").is_some()
                && !message["result"].to_string().contains("countersign");
            assert!(!ran, "{server}: {what}: {message}");
        }
    }
    let wire = std::fs::read(world.path("wire")).expect("the wire");
    assert!(
        !wire.contains(&b'\r'),
        "{server}: no raw CR reaches the server"
    );
    for line in lines(&world.path("wire")) {
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{server}: {error}: {line}"));
        assert_ne!(message["method"], "tools/call", "{server}: {line}");
        assert!(!line.contains("tools/call"), "{server}: {line}");
    }
    (world, client)
}

#[test]
fn m3_m4_m5_server_everything() {
    check(
        World::new(),
        "server-everything",
        &peers::everything(),
        "echo",
        &json!({"message": "smuggled"}),
    );
}

#[test]
fn m3_m4_m5_mcp_server_time() {
    check(
        World::new(),
        "mcp-server-time",
        &peers::time(),
        "get_current_time",
        &json!({"timezone": "UTC"}),
    );
}

#[test]
fn m3_m4_m5_mcp_server_sqlite() {
    let world = World::new();
    let file = world.text_path("data.db");
    let command = peers::sqlite(&file);
    let mut straight = direct::connect(&command, &[]);
    straight.call(
        "create_table",
        &json!({"query": "CREATE TABLE t (n INTEGER)"}),
    );
    straight.close();
    let insert = json!({"query": "INSERT INTO t VALUES (1)"});
    let (_world, mut client) = check(world, "mcp-server-sqlite", &command, "write_query", &insert);
    let answer = client.call(
        "read_query",
        &json!({"query": "SELECT count(*) AS n FROM t"}),
    );
    assert!(answer.to_string().contains("'n': 0"), "{answer}");
}

/// The same lines do run the tool where no gate stands in between: the table is worth its name.
#[test]
fn the_attacks_work_without_a_gate() {
    let world = World::bare();
    let file = world.text_path("data.db");
    let mut straight = direct::connect(&peers::sqlite(&file), &[]);
    straight.call(
        "create_table",
        &json!({"query": "CREATE TABLE t (n INTEGER)"}),
    );
    let mut ran = 0;
    for (what, line) in attacks("write_query", &json!({"query": "INSERT INTO t VALUES (1)"})) {
        if what == "the plain call" {
            continue;
        }
        straight.raw(format!("{line}\n").as_bytes());
        straight.fence();
        let answer = straight.call(
            "read_query",
            &json!({"query": "SELECT count(*) AS n FROM t"}),
        );
        let count = answer.to_string();
        if !count.contains(&format!("'n': {ran}}}")) {
            ran += 1;
        }
    }
    assert!(ran >= 5, "only {ran} of the attacks work on this server");
}
