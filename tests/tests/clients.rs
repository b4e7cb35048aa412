//! Clients people use, before the real binary: each connects in its own way, lists, calls, and takes a refusal without an exception.

use std::process::Command;

use countersign_tests::binary::{countersign, tests_file};
use countersign_tests::peers;
use countersign_tests::world::World;
use serde_json::{Value, json};

/// How a client opens.
#[derive(Clone, Copy)]
enum Opens {
    /// With `initialize`.
    Legacy,
    /// With a probe, then as the server answers.
    Auto,
    /// With 2026-07-28 or not at all.
    Modern,
}

impl Opens {
    fn word(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Auto => "auto",
            Self::Modern => "modern",
        }
    }
}

/// The worlds a client meets: a server of the handshake alone, and one of both eras.
fn worlds() -> Vec<(&'static str, World)> {
    let files = World::new();
    files.server("s", &peers::filesystem(&files.text_path("files")));
    files.reads("s", &["list_directory"]);
    let time = World::new();
    time.server("s", &peers::time());
    time.reads("s", &["get_current_time"]);
    for world in [&files, &time] {
        world.agent("a");
    }
    vec![("filesystem", files), ("time", time)]
}

/// A call that goes through, one that the schema refuses (of a tool with an output schema), one of a tool that is not there.
fn calls(server: &str, world: &World) -> [(&'static str, Value); 3] {
    match server {
        "filesystem" => [
            ("list_directory", json!({"path": world.text_path("files")})),
            (
                "list_directory",
                json!({"path": world.text_path("files"), "extra": 1}),
            ),
            ("no_such_tool", json!({})),
        ],
        _ => [
            ("get_current_time", json!({"timezone": "UTC"})),
            ("get_current_time", json!({"timezone": 7})),
            ("no_such_tool", json!({})),
        ],
    }
}

fn driven(client: &str, server: &str, world: &World, command: &mut Command) {
    let calls = calls(server, world);
    let specification = json!({
        "command": countersign(),
        "args": ["run", "--agent", "a", "--server", "s"],
        "env": {"COUNTERSIGN_DIR": world.dir(), "COUNTERSIGN_PASSPHRASE_FILE": world.path("passphrase")},
        "calls": calls.iter().map(|(name, arguments)| json!({"name": name, "arguments": arguments})).collect::<Vec<_>>(),
    });
    let file = world.path("client.json");
    std::fs::write(&file, specification.to_string()).expect("written");
    let output = command.arg(&file).output().expect("the client starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let said: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{client} before {server}: {error}: {output:?}"));
    assert!(
        said.get("thrown").is_none(),
        "{client} before {server}: {said} {stderr}"
    );
    let tools = said["tools"].to_string();
    assert!(
        tools.contains(calls[0].0) && tools.contains("countersign_whoami"),
        "{client} before {server}: {tools}"
    );
    let answers = said["calls"].as_array().expect("answers");
    assert_ne!(
        answers[0]["isError"],
        json!(true),
        "{client} before {server}: {}",
        answers[0]
    );
    assert!(
        answers[0].get("thrown").is_none(),
        "{client} before {server}: {} {stderr}",
        answers[0]
    );
    // A refusal is a result, not an exception, also for a tool with an output schema.
    assert_eq!(
        answers[1]["isError"],
        json!(true),
        "{client} before {server}: {}",
        answers[1]
    );
    assert!(
        answers[1].to_string().contains("validation_failed"),
        "{client} before {server}: {}",
        answers[1]
    );
    assert!(
        answers[2].get("thrown").is_some() || answers[2]["isError"] == json!(true),
        "{client} before {server}: {}",
        answers[2]
    );
    // What the client closed is closed: the book is whole and one call ran.
    let recorded = world.recorded();
    assert_eq!(
        recorded
            .iter()
            .filter(|call| call.outcomes == ["ok"])
            .count(),
        1,
        "{client} before {server}: {recorded:?}"
    );
    assert_eq!(
        recorded
            .iter()
            .filter(|call| call.outcomes == ["refused"])
            .count(),
        1,
        "{client} before {server}: {recorded:?}"
    );
}

fn typescript(line: &str, opens: Opens, servers: &[&str]) {
    for (server, world) in worlds()
        .iter()
        .filter(|(server, _)| servers.contains(server))
    {
        let mut command = Command::new(peers::node());
        command
            .arg(tests_file("fixtures/clients/typescript.mjs"))
            .args([line, opens.word()])
            .arg(peers::folder().join("node_modules"));
        driven(
            &format!("TypeScript {line} {}", opens.word()),
            server,
            world,
            &mut command,
        );
    }
}

fn python(mode: &str, servers: &[&str]) {
    for (server, world) in worlds()
        .iter()
        .filter(|(server, _)| servers.contains(server))
    {
        let mut command = Command::new(peers::python_current("python"));
        command
            .arg(tests_file("fixtures/clients/python_client.py"))
            .arg(mode);
        driven(&format!("Python {mode}"), server, world, &mut command);
    }
}

fn inspector(opens: Opens, servers: &[&str]) {
    for (server, world) in worlds()
        .iter()
        .filter(|(server, _)| servers.contains(server))
    {
        // The file a person's client reads: the entry by name.
        let config = json!({"mcpServers": {"gate": {
            "command": countersign(),
            "args": ["run", "--agent", "a", "--server", "s"],
            "env": {"COUNTERSIGN_DIR": world.dir(), "COUNTERSIGN_PASSPHRASE_FILE": world.path("passphrase")},
        }}});
        let file = world.path("mcp.json");
        std::fs::write(&file, config.to_string()).expect("written");
        let run = |arguments: &[String]| {
            let output = Command::new(peers::node())
                .arg(peers::node_module(".bin/mcp-inspector"))
                .args(["--cli", "--protocol-era", opens.word(), "--config"])
                .arg(&file)
                .args(["--server", "gate"])
                .args(arguments)
                .env("HOME", world.root())
                .output()
                .expect("the Inspector starts");
            (
                String::from_utf8_lossy(&output.stdout).into_owned(),
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )
        };
        let [good, bad, _] = calls(server, world);
        let (listed, errors) = run(&["--method".into(), "tools/list".into()]);
        assert!(
            listed.contains(good.0) && listed.contains("countersign_whoami"),
            "{server}: {listed} {errors}"
        );
        for ((tool, arguments), word) in [
            (&good, if *server == "time" { "UTC" } else { "content" }),
            (&bad, "validation_failed"),
        ] {
            let mut all = vec![
                "--method".to_owned(),
                "tools/call".into(),
                "--tool-name".into(),
                (*tool).into(),
            ];
            for (name, value) in arguments.as_object().expect("arguments") {
                let value = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                all.extend(["--tool-arg".to_owned(), format!("{name}={value}")]);
            }
            let (answered, errors) = run(&all);
            assert!(
                format!("{answered}{errors}").contains(word),
                "{server}: {tool}: {answered} {errors}"
            );
        }
    }
}

#[test]
fn typescript_v1() {
    typescript("v1", Opens::Legacy, &["filesystem", "time"]);
}

#[test]
fn typescript_v2_legacy() {
    typescript("v2", Opens::Legacy, &["filesystem", "time"]);
}

#[test]
fn m15_typescript_v2_auto_probes_with_a_sibling() {
    typescript("v2", Opens::Auto, &["filesystem", "time"]);
}

#[test]
fn m16_typescript_v2_modern() {
    typescript("v2", Opens::Modern, &["time"]);
}

#[test]
fn m15_python_probes_the_same_child() {
    python("auto", &["filesystem", "time"]);
}

#[test]
fn python_legacy() {
    python("legacy", &["filesystem"]);
}

#[test]
fn m16_python_modern() {
    python("2026-07-28", &["time"]);
}

#[test]
fn inspector_legacy() {
    inspector(Opens::Legacy, &["filesystem", "time"]);
}

#[test]
fn m15_inspector_auto() {
    inspector(Opens::Auto, &["filesystem", "time"]);
}

#[test]
fn m16_inspector_modern() {
    inspector(Opens::Modern, &["time"]);
}
