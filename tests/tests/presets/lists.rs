//! Each preset knows every tool of its server and no other, and the arguments it speaks of are there: by the real `tools/list`.

use std::collections::BTreeSet;

use countersign_tests::binary::root;
use countersign_tests::direct;
use countersign_tests::hostile::Hostile;
use countersign_tests::peers;
use countersign_tests::world::World;
use serde_json::{Value, json};

use super::under;

/// A server whose package a registry has.
struct Row {
    preset: &'static str,
    command: Vec<String>,
    environment: Vec<(&'static str, &'static str)>,
    /// Tools it lists for a client with more capabilities than a check has.
    more: &'static [&'static str],
}

fn row(preset: &'static str, command: Vec<String>) -> Row {
    Row {
        preset,
        command,
        environment: Vec::new(),
        more: &[],
    }
}

fn check(world: &World, row: &Row) {
    let Row {
        preset, command, ..
    } = row;
    let capabilities: Value = serde_json::from_str(peers::EVERY_CAPABILITY).expect("JSON");
    let mut straight = direct::start(command, &row.environment);
    straight.initialize_as("2025-11-25", &capabilities);
    let known = known_tools(preset);
    let listed = names(&straight.tools());
    drop(straight);
    let unknown: Vec<_> = listed.difference(&known).collect();
    let gone: Vec<_> = known.difference(&listed).collect();
    assert!(
        unknown.is_empty(),
        "{preset}: not in the preset: {unknown:?}"
    );
    assert!(gone.is_empty(), "{preset}: not on the server: {gone:?}");

    let mut add = vec!["server", "add", "plain", "--json", "--"];
    add.extend(command.iter().map(String::as_str));
    let added: Value = serde_json::from_str(&world.must(&add)).expect("JSON");
    assert_eq!(added["preset_suggested"], json!(preset), "by its command");
    under(world, preset, &row.environment, command);
    let report = world.json(&["server", "check", "s"]);
    let differences = report["preset"]["differences"].as_array().expect("a list");
    let expected: Vec<Value> = row
        .more
        .iter()
        .map(|tool| json!({"tool": tool, "what": "not_listed"}))
        .collect();
    assert_eq!(differences, &expected, "{preset}");
    for tool in report["tools"].as_array().expect("a list") {
        assert!(tool["verb"].is_string(), "{preset}: {tool}");
    }
}

/// The names in the preset's file.
fn known_tools(preset: &str) -> BTreeSet<String> {
    let path = root().join(format!("proxy/executor/presets/{preset}.json"));
    let text = std::fs::read_to_string(&path).expect("a preset");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let tools = file["tools"].as_object().expect("its tools");
    tools.keys().cloned().collect()
}

fn names(tools: &[Value]) -> BTreeSet<String> {
    tools
        .iter()
        .map(|tool| tool["name"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn filesystem() {
    let world = World::new();
    let files = world.text_path("files");
    check(&world, &row("filesystem", peers::filesystem(&files)));
}

#[test]
fn memory() {
    check(&World::new(), &row("memory", peers::memory()));
}

#[test]
fn everything() {
    check(
        &World::new(),
        &Row {
            more: &[
                "get-roots-list",
                "trigger-elicitation-request",
                "trigger-elicitation-request-async",
                "trigger-sampling-request",
                "trigger-sampling-request-async",
                "trigger-url-elicitation",
            ],
            ..row("everything", peers::everything())
        },
    );
}

#[test]
fn github() {
    check(&World::new(), &row("github", peers::github()));
}

#[test]
fn git() {
    let world = World::new();
    let files = world.text_path("files");
    super::tools::repository(&world.path("files"));
    check(&world, &row("git", peers::git(&files)));
}

#[test]
fn time() {
    check(&World::new(), &row("time", peers::time()));
}

#[test]
fn fetch() {
    check(&World::new(), &row("fetch", peers::fetch()));
}

#[test]
fn sqlite() {
    let world = World::new();
    let file = world.text_path("data.db");
    check(&world, &row("sqlite", peers::sqlite(&file)));
}

#[test]
fn postgres() {
    check(&World::new(), &row("postgres", peers::postgres()));
}

#[test]
fn slack() {
    check(
        &World::new(),
        &Row {
            environment: vec![("SLACK_BOT_TOKEN", "none"), ("SLACK_TEAM_ID", "T1")],
            ..row("slack", peers::slack())
        },
    );
}

#[test]
fn notion() {
    check(
        &World::new(),
        &Row {
            environment: vec![("NOTION_TOKEN", "none")],
            ..row("notion", peers::notion())
        },
    );
}

#[test]
fn playwright() {
    check(&World::new(), &row("playwright", peers::playwright()));
}

/// The package of this server brings 190 MB along, so its list is a recorded one.
#[test]
fn gmail_as_recorded() {
    let world = World::new();
    let text = std::fs::read_to_string(root().join("tests/cases/gmail_tools.json")).expect("it");
    let recorded: Value = serde_json::from_str(&text).expect("JSON");
    let tools = recorded["tools"].as_array().expect("its tools");
    assert_eq!(names(tools), known_tools("gmail"));
    let raw: Vec<String> = tools.iter().map(Value::to_string).collect();
    let server = Hostile::new(&world, "s", &json!({"tools_raw": raw}));
    under(&world, "gmail", &[], &server.command);
    let report = world.json(&["server", "check", "s"]);
    assert_eq!(report["preset"]["differences"], json!([]));
}

/// What a person is told when a server has grown: by name, in `server check` and in `doctor`.
#[test]
fn a_server_that_differs_is_named() {
    let world = World::new();
    let text = json!({"type": "string"});
    let tool = |name: &str, properties: Value| {
        json!({"name": name, "inputSchema": {"type": "object", "properties": properties}})
            .to_string()
    };
    let tools = vec![
        tool(
            "fetch",
            json!({"url": text, "saveTo": text, "outputFile": text}),
        ),
        tool(
            "fetch_all",
            json!({"urls": {"type": "array", "items": text}}),
        ),
    ];
    let server = Hostile::new(&world, "s", &json!({"tools_raw": tools}));
    under(&world, "fetch", &[], &server.command);
    let report = world.json(&["server", "check", "s"]);
    assert_eq!(
        report["preset"]["differences"],
        json!([
            {"tool": "fetch", "what": "undeclared_path", "pointer": "/outputFile"},
            {"tool": "fetch_all", "what": "unknown_tool"},
        ])
    );
    let said = world.must(&["server", "check", "s"]);
    assert!(
        said.contains("`/outputFile` of `fetch` is named like a path"),
        "{said}"
    );
    assert!(
        said.contains("`fetch_all` is not known to the preset"),
        "{said}"
    );
    let found = world.cs(&["doctor"]).all();
    assert!(
        found.contains("the preset of server `s` doesn't know `fetch_all`"),
        "{found}"
    );
    // Until it is said otherwise, it is a write.
    let tools = world.json(&["tools"]);
    let all = tools["tools"].as_array().expect("a list");
    let new = all
        .iter()
        .find(|tool| tool["name"] == "fetch_all")
        .expect("it");
    assert_eq!(new["kind"], "write", "{new}");
}
