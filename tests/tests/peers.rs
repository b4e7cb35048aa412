//! The real binary before real servers: the list is the direct one, a read, a write and a refused call go as they should.

use countersign_tests::client::{Client, code, refusal};
use countersign_tests::world::World;
use countersign_tests::{direct, peers};
use serde_json::{Value, json};

use crate::lists::{of_the_server, same_list};

/// What is checked with one server.
struct Row {
    name: &'static str,
    command: Vec<String>,
    environment: Vec<(&'static str, String)>,
    /// Tool, arguments, a word of the answer. Marked as a read.
    read: Option<(&'static str, Value, &'static str)>,
    /// Tool, arguments, a word of the answer. Left unmarked: a write.
    write: Option<(&'static str, Value, &'static str)>,
    /// Arguments of the write's (or a listed) tool that its schema refuses.
    refused: (&'static str, Value),
}

fn check(world: World, row: &Row) -> (World, Client) {
    let environment: Vec<(&str, &str)> = row
        .environment
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let mut straight = direct::connect(&row.command, &environment);
    let expected = straight.tools();
    straight.close_stdin();

    let variables: Vec<String> = environment
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut options = Vec::new();
    for variable in &variables {
        options.extend(["--env", variable.as_str()]);
    }
    world.server_with("s", &options, &row.command);
    if let Some((tool, ..)) = &row.read {
        world.reads("s", &[tool]);
    }
    world.agent("a");
    let mut client = world.connect();
    let all = client.tools();
    assert!(
        all.iter().any(|tool| tool["name"] == "countersign_whoami"),
        "{}: our own tool",
        row.name
    );
    same_list(row.name, &expected, &of_the_server(all));

    for (tool, arguments, word) in row.read.iter().chain(&row.write) {
        let answer = client.call(tool, arguments);
        assert!(refusal(&answer).is_none(), "{}: {tool}: {answer}", row.name);
        assert!(
            answer.to_string().contains(word),
            "{}: {tool}: no `{word}` in {answer}",
            row.name
        );
    }
    let (tool, arguments) = &row.refused;
    let answer = client.call(tool, arguments);
    assert_eq!(
        code(&answer).as_deref(),
        Some("validation_failed"),
        "{}: {tool}: {answer}",
        row.name
    );
    assert!(
        refusal(&client.call("no_such_tool", &json!({}))).is_some(),
        "{}",
        row.name
    );

    // What is on record once the process has ended.
    assert!(client.close().success(), "{}", row.name);
    if let Some((tool, ..)) = &row.read {
        assert_eq!(world.outcomes(tool)[0], "ok", "{}", row.name);
    }
    if let Some((tool, ..)) = &row.write {
        let recorded = world.recorded();
        let call = recorded
            .iter()
            .find(|call| call.tool == *tool)
            .expect("the write is on record");
        assert_eq!(
            (call.effect.as_str(), call.outcomes.as_slice()),
            ("write", ["ok".to_owned()].as_slice()),
            "{}",
            row.name
        );
    }
    let refused = world.recorded().into_iter().any(|call| {
        call.outcomes == ["refused"] && call.code.as_deref() == Some("validation_failed")
    });
    assert!(refused, "{}: the refusal is on record", row.name);
    let client = world.connect();
    (world, client)
}

#[test]
fn everything() {
    let (_world, mut client) = check(
        World::new(),
        &Row {
            name: "server-everything",
            command: peers::everything(),
            environment: vec![],
            read: Some(("echo", json!({"message": "grüße"}), "grüße")),
            write: Some(("get-sum", json!({"a": 2, "b": 3}), "5")),
            refused: ("get-sum", json!({"a": "two", "b": 3})),
        },
    );
    let answer = client.call("get-structured-content", &json!({"location": "New York"}));
    assert!(
        answer["result"]["structuredContent"].is_object(),
        "{answer}"
    );
    let prompts = client.request("prompts/list", &json!({}));
    assert!(
        prompts["result"]["prompts"]
            .as_array()
            .is_some_and(|prompts| !prompts.is_empty()),
        "{prompts}"
    );
    let resources = client.request("resources/list", &json!({}));
    assert!(resources["result"]["resources"].is_array(), "{resources}");
}

#[test]
fn filesystem() {
    let world = World::new();
    let files = world.text_path("files");
    std::fs::write(world.path("files/a.txt"), "hello\n").expect("written");
    let (world, mut client) = check(
        world,
        &Row {
            name: "server-filesystem",
            command: peers::filesystem(&files),
            environment: vec![],
            read: Some((
                "read_text_file",
                json!({"path": format!("{files}/a.txt")}),
                "hello",
            )),
            write: Some((
                "write_file",
                json!({"path": format!("{files}/b.txt"), "content": "x"}),
                "b.txt",
            )),
            refused: (
                "write_file",
                json!({"path": format!("{files}/c.txt"), "content": "x", "extra": 1}),
            ),
        },
    );
    assert_eq!(
        std::fs::read_to_string(world.path("files/b.txt")).expect("b.txt"),
        "x"
    );
    assert!(!world.path("files/c.txt").exists());
    // A hidden tool is not there, listed or not.
    world.must(&["tool", "set", "s", "move_file", "--hidden"]);
    let answer = client.call(
        "move_file",
        &json!({"source": format!("{files}/a.txt"), "destination": format!("{files}/z.txt")}),
    );
    assert!(refusal(&answer).is_some(), "{answer}");
    assert!(world.path("files/a.txt").exists());
    assert!(client.close().success());
}

#[test]
fn memory() {
    let world = World::new();
    let file = world.text_path("memory.jsonl");
    let entities = json!({"entities": [{"name": "Ada", "entityType": "person", "observations": ["wrote notes"]}]});
    let (world, _client) = check(
        world,
        &Row {
            name: "server-memory",
            command: peers::memory(),
            environment: vec![("MEMORY_FILE_PATH", file)],
            read: Some(("read_graph", json!({}), "entities")),
            write: Some(("create_entities", entities, "Ada")),
            refused: ("create_entities", json!({"entities": [{"name": 7}]})),
        },
    );
    assert!(
        std::fs::read_to_string(world.path("memory.jsonl"))
            .expect("the file")
            .contains("Ada")
    );
}

#[test]
fn github_lists() {
    check(
        World::new(),
        &Row {
            name: "server-github",
            command: peers::github(),
            environment: vec![],
            read: None,
            write: None,
            refused: ("create_issue", json!({"owner": "o", "repo": "r"})),
        },
    );
}

#[test]
fn time() {
    check(
        World::new(),
        &Row {
            name: "mcp-server-time",
            command: peers::time(),
            environment: vec![],
            read: Some(("get_current_time", json!({"timezone": "UTC"}), "UTC")),
            write: Some((
                "convert_time",
                json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "UTC"}),
                "12:00",
            )),
            refused: (
                "convert_time",
                json!({"source_timezone": "UTC", "time": 12}),
            ),
        },
    );
}

#[test]
fn git() {
    let world = World::new();
    let repository = world.text_path("repository");
    let git = |arguments: &[&str]| {
        let status = std::process::Command::new("git")
            .args([
                "-c",
                "init.defaultBranch=main",
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@example.com",
            ])
            .args(arguments)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .status()
            .expect("git starts");
        assert!(status.success(), "git {arguments:?}");
    };
    git(&["init", "--quiet", &repository]);
    std::fs::write(world.path("repository/a.txt"), "hello\n").expect("written");
    let (world, _client) = check(
        world,
        &Row {
            name: "mcp-server-git",
            command: peers::git(&repository),
            environment: vec![],
            read: Some(("git_status", json!({"repo_path": repository}), "a.txt")),
            write: Some((
                "git_add",
                json!({"repo_path": repository, "files": ["a.txt"]}),
                "staged",
            )),
            refused: (
                "git_add",
                json!({"repo_path": repository, "files": "a.txt"}),
            ),
        },
    );
    let index = std::fs::read(world.path("repository/.git/index")).expect("an index");
    assert!(
        index.windows(5).any(|window| window == b"a.txt"),
        "the file is staged"
    );
}

#[test]
fn sqlite() {
    let world = World::new();
    let file = world.text_path("data.db");
    let (_world, mut client) = check(
        world,
        &Row {
            name: "mcp-server-sqlite",
            command: peers::sqlite(&file),
            environment: vec![],
            read: Some(("list_tables", json!({}), "[")),
            write: Some((
                "create_table",
                json!({"query": "CREATE TABLE notes (n INTEGER)"}),
                "created",
            )),
            refused: ("create_table", json!({"query": 7})),
        },
    );
    let answer = client.call(
        "write_query",
        &json!({"query": "INSERT INTO notes VALUES (9007199254740993)"}),
    );
    assert!(refusal(&answer).is_none(), "{answer}");
    let answer = client.call("read_query", &json!({"query": "SELECT n FROM notes"}));
    assert!(answer.to_string().contains("9007199254740993"), "{answer}");
    let memo = client.request("resources/list", &json!({}));
    assert!(memo.to_string().contains("memo://insights"), "{memo}");
    let memo = client.request("resources/read", &json!({"uri": "memo://insights"}));
    assert!(memo["result"]["contents"].is_array(), "{memo}");
}

/// The gate changes nothing of a handshake but what is written down.
#[test]
fn m14_initialize_is_answered_as_the_server_answers() {
    for (name, command) in [
        ("everything", peers::everything()),
        ("github", peers::github()),
        ("time", peers::time()),
    ] {
        let world = World::of(&command);
        world.must(&["server", "set", "s", "--pass", "roots,sampling,elicitation"]);
        for version in [
            "2024-11-05",
            "2025-03-26",
            "2025-06-18",
            "2025-11-25",
            "2099-01-01",
        ] {
            let capabilities =
                json!({"sampling": {}, "roots": {"listChanged": true}, "x-vendor": {"a": 1}});
            let mut straight = direct::start(&command, &[]);
            let mut gated = world.run("a", "s");
            let expected = straight.initialize_as(version, &capabilities);
            let mut seen = gated.initialize_as(version, &capabilities);
            // The one documented edit: list changes are ours, too, so they are declared.
            let declared = expected["result"]["capabilities"]["tools"].clone();
            assert!(
                seen["result"]["capabilities"]["tools"].is_object(),
                "{name} {version}: {seen}"
            );
            seen["result"]["capabilities"]["tools"] = declared;
            assert_eq!(expected["result"], seen["result"], "{name} {version}");
        }
    }
}
