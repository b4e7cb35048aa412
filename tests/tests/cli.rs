//! The command line as a person and a script use it: the contract of each command, its errors, what it leaves on disk.

use std::os::unix::fs::PermissionsExt;

use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use serde_json::{Value, json};

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .permissions()
        .mode()
        & 0o777
}

#[test]
fn init_makes_a_private_folder_once() {
    let world = World::bare();
    world.must(&[
        "init",
        "--name",
        "Maria's laptop",
        "--secrets",
        "file",
        "--development",
    ]);
    assert_eq!(mode(&world.dir()), 0o700);
    assert_eq!(mode(&world.dir().join("executor.json")), 0o600);
    assert_eq!(mode(&world.dir().join("secrets.enc")), 0o600);
    let settings = world.settings();
    assert_eq!(settings["version"], 1);
    assert_eq!(settings["executor"]["name"], "Maria's laptop");
    assert_eq!(settings["executor"]["development"], true);
    assert_eq!(settings["secrets"], "file");
    let id = settings["executor"]["id"].clone();
    let said = world.fails(&["init", "--secrets", "file", "--development"]);
    assert!(said.stderr.contains("dir"), "names the folder: {said:?}");
    assert_eq!(
        world.settings()["executor"]["id"],
        id,
        "nothing is overwritten"
    );
}

#[test]
fn the_folder_comes_by_option_or_environment() {
    let world = World::bare();
    let other = world.text_path("elsewhere");
    world.must(&[
        "init",
        "--dir",
        &other,
        "--secrets",
        "file",
        "--development",
    ]);
    assert!(std::path::Path::new(&other).join("executor.json").is_file());
    assert!(!world.dir().exists(), "the option goes before the variable");
    world.must(&["server", "add", "s", "--dir", &other, "--", "true"]);
    assert!(
        world
            .json(&["server", "list", "--dir", &other])
            .to_string()
            .contains("\"s\"")
    );
}

#[test]
fn the_default_folder_is_the_platforms() {
    let world = World::bare();
    let mut command = world.command(&["init", "--secrets", "file", "--development"]);
    assert!(
        command
            .env_remove("COUNTERSIGN_DIR")
            .stdin(std::process::Stdio::null())
            .status()
            .expect("starts")
            .success()
    );
    assert!(
        world
            .path(".local/share/countersign/executor.json")
            .is_file()
    );
}

#[test]
fn servers_are_added_listed_changed_and_removed() {
    let world = World::new();
    let hostile = Hostile::new(&world, "s", &json!({}));
    world.server_with(
        "s",
        &["--env", "LEVEL=info", "--cwd", &world.text_path("files")],
        &hostile.command,
    );
    let entry = world.settings()["servers"]["s"].clone();
    assert_eq!(entry["env"]["LEVEL"], "info");
    assert_eq!(entry["cwd"], json!(world.text_path("files")));
    assert_eq!(entry["args"].as_array().map(Vec::len), Some(2));
    let listed = world.json(&["server", "list"]).to_string();
    assert!(
        listed.contains("\"s\"") && listed.contains("hostile.py"),
        "{listed}"
    );
    world.must(&["server", "check", "s"]);
    world.fails(&["server", "add", "s", "--", "true"]);
    world.must(&[
        "server",
        "set",
        "s",
        "--pass",
        "roots,sampling",
        "--methods",
        "x/one",
    ]);
    assert_eq!(
        world.settings()["servers"]["s"]["pass"],
        json!(["roots", "sampling"])
    );
    assert_eq!(
        world.settings()["servers"]["s"]["methods"],
        json!(["x/one"])
    );
    world.fails(&["server", "set", "s", "--pass", "everything"]);
    world.must(&["server", "remove", "s"]);
    assert!(world.settings()["servers"].get("s").is_none());
    let said = world.fails(&["server", "remove", "s"]);
    assert!(said.stderr.contains('s'), "{said:?}");
}

#[test]
fn names_have_one_form() {
    let world = World::new();
    for name in ["Upper", "-x", "a b", "", "ä", "a/b", "..", &"x".repeat(33)] {
        let said = world.fails(&["server", "add", name, "--", "true"]);
        assert!(
            name.is_empty() || said.all().contains(name),
            "{name:?}: {said:?}"
        );
        world.fails(&["agent", "add", name]);
    }
}

#[test]
fn tools_are_set_and_what_is_not_touched_stays() {
    let (world, _) = Hostile::world(&json!({}));
    world.edit(|settings| {
        settings["servers"]["s"]["tools"] = json!({"echo": {"cost": 3, "max_items": 7}})
    });
    world.must(&["tool", "set", "s", "echo", "--kind", "read"]);
    assert_eq!(
        world.settings()["servers"]["s"]["tools"]["echo"],
        json!({"cost": 3, "max_items": 7, "kind": "read"})
    );
    world.must(&[
        "tool",
        "set",
        "s",
        "echo",
        "--kind",
        "write",
        "--danger",
        "never",
        "--hidden",
        "--max-items",
        "9",
        "--cost",
        "2",
    ]);
    let echo = world.settings()["servers"]["s"]["tools"]["echo"].clone();
    for (member, value) in [
        ("kind", json!("write")),
        ("danger", json!("never")),
        ("hidden", json!(true)),
        ("max_items", json!(9)),
        ("cost", json!(2)),
    ] {
        assert_eq!(echo[member], value, "{echo}");
    }
    world.must(&["tool", "set", "s", "echo", "--shown"]);
    assert_ne!(
        world.settings()["servers"]["s"]["tools"]["echo"]["hidden"],
        json!(true)
    );
    world.fails(&["tool", "set", "s", "echo", "--kind", "reed"]);
    let said = world.fails(&["tool", "set", "nowhere", "echo", "--kind", "read"]);
    assert!(said.stderr.contains("nowhere"), "{said:?}");
}

#[test]
fn agents_are_added_listed_and_revoked_and_their_key_is_nowhere() {
    let (world, _) = Hostile::world(&json!({}));
    let printed = world.must(&["agent", "add", "second", "--servers", "s"]);
    assert!(
        printed.contains("\"run\""),
        "the entry for the client's config: {printed}"
    );
    let listed = world.json(&["agent", "list"]).to_string();
    assert!(
        listed.contains("\"a\"") && listed.contains("\"second\""),
        "{listed}"
    );
    let key = world.settings()["agents"]["a"]["key"]
        .as_str()
        .expect("a public prefix")
        .to_owned();
    assert!(key.starts_with("csk_") && key.len() == 12, "{key}");
    assert!(
        !world.in_clear(&format!("{key}_")),
        "the key itself lies on disk"
    );
    world.must(&["agent", "revoke", "a"]);
    let listed = world.must(&["agent", "list"]);
    assert!(listed.contains("second"), "{listed}");
    world.fails(&["agent", "revoke", "nobody"]);
}

#[test]
fn secrets_come_from_stdin_and_are_shown_to_nobody() {
    let world = World::new();
    let hostile = Hostile::new(&world, "s", &json!({}));
    world.server_with("s", &["--secret", "TOKEN"], &hostile.command);
    let mut set = world.command(&["secret", "set", "s/TOKEN"]);
    let mut child = set
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    std::io::Write::write_all(child.stdin.as_mut().expect("piped"), b"sk-secret-4411\n")
        .expect("written");
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{output:?}");
    let said = world.cs(&["secret", "list"]);
    assert!(said.stdout.contains("TOKEN"), "{said:?}");
    assert!(!said.all().contains("sk-secret-4411"));
    assert!(!world.in_clear("sk-secret-4411"));
    assert_eq!(
        world.settings()["servers"]["s"]["env"]["TOKEN"],
        json!({"secret": "s/TOKEN"})
    );
    world.agent("a");
    let mut client = world.connect();
    let environment: Value = serde_json::from_str(&countersign_tests::client::text(
        &client.call("environment", &json!({})),
    ))
    .expect("JSON");
    assert_eq!(environment["TOKEN"], "sk-secret-4411");
    client.close();
    assert!(!world.in_clear("sk-secret-4411"), "nor after it was used");
    world.must(&["secret", "remove", "s/TOKEN"]);
    let mut client = world.run("a", "s");
    let answer = client.initialize();
    let said = answer.to_string() + &client.close_with_stderr().1;
    assert!(said.contains("TOKEN"), "a missing secret is named: {said}");
}

#[test]
fn settings_with_a_mistake_are_refused_by_path() {
    for (path, change) in [
        (
            "servers.s.comand",
            json!({"servers": {"s": {"comand": "x"}}}),
        ),
        ("agents.a.scope", json!({"agents": {"a": {"scope": []}}})),
        ("limits.depht", json!({"limits": {"depht": 1}})),
        (
            "buckets.key.size",
            json!({"buckets": {"key": {"size": "many"}}}),
        ),
    ] {
        let (world, _) = Hostile::world(&json!({}));
        world.edit(|settings| merge(settings, &change));
        let said = world.fails(&["server", "list"]);
        let last = path.rsplit('.').next().expect("a last part");
        assert!(said.stderr.contains(last), "{path}: {said:?}");
        assert!(said.stderr.contains("executor.json"), "{path}: {said:?}");
        let before = std::fs::read(world.dir().join("executor.json")).expect("read");
        world.fails(&["tool", "set", "s", "echo", "--kind", "read"]);
        assert_eq!(
            std::fs::read(world.dir().join("executor.json")).expect("read"),
            before,
            "left as it was"
        );
    }
}

#[test]
fn the_schema_accepts_what_the_commands_write() {
    let (world, _) = Hostile::world(&json!({}));
    world.must(&["tool", "set", "s", "echo", "--kind", "read", "--cost", "2"]);
    let schema: Value = serde_json::from_str(&world.must(&["config", "schema"])).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let settings = world.settings();
    let errors: Vec<String> = validator
        .iter_errors(&settings)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    let mut wrong = settings.clone();
    wrong["servers"]["s"]["comand"] = json!("x");
    assert!(
        !validator.is_valid(&wrong),
        "unknown members are refused by the schema, too"
    );
}

#[test]
fn tools_shows_what_is_open_and_why_not() {
    let (world, _) = Hostile::world(
        &json!({"more_tools": [r#"{"name":"broken","inputSchema":{"type":"string"}}"#]}),
    );
    world.must(&["tool", "set", "s", "pid", "--hidden"]);
    let mut client = world.connect();
    client.tools();
    assert!(client.close().success());
    let said = world.must(&["tools"]);
    for tool in ["echo", "pid", "broken"] {
        assert!(said.contains(tool), "{tool}: {said}");
    }
    assert!(said.contains("(development)"), "{said}");
    let document = world.json(&["tools", "--agent", "a"]).to_string();
    assert!(
        document.contains("tool_hidden") && document.contains("set_aside"),
        "{document}"
    );
}

#[test]
fn the_book_is_listed_shown_and_verified() {
    let (world, _) = Hostile::world(&json!({}));
    let mut client = world.connect();
    client.call("echo", &json!({"text": "\u{1b}[31mred\u{202e}"}));
    client.close();
    let entries = world.book();
    assert_eq!(
        entries.len(),
        world.journal().len(),
        "every entry is listed"
    );
    let listed = world.must(&["book", "list"]);
    assert!(listed.contains("echo"), "{listed}");
    let n = world
        .journal()
        .iter()
        .position(|entry| entry["k"] == "call")
        .expect("a call")
        .to_string();
    let shown = world.must(&["book", "show", &n]);
    assert!(shown.contains("echo"), "{shown}");
    assert!(
        !shown.contains('\u{1b}') && !shown.contains('\u{202e}'),
        "text of others is neutralised: {shown:?}"
    );
    world.must(&[
        "book",
        "verify",
        &world.dir().join("book").display().to_string(),
    ]);
    world.fails(&["book", "show", "99999"]);
    world.fails(&["book", "verify", &world.text_path("files")]);
}

#[test]
fn doctor_is_content_with_a_good_set_up_and_names_what_is_wrong() {
    let (world, _) = Hostile::world(&json!({}));
    world.must(&["doctor"]);
    std::fs::set_permissions(world.dir(), std::fs::Permissions::from_mode(0o755)).expect("changed");
    world.server("lost", &["no-such-command-anywhere".into()]);
    let said = world.fails(&["doctor"]);
    assert!(said.all().contains("no-such-command-anywhere"), "{said:?}");
    assert!(
        said.all().contains("700") || said.all().contains("permission"),
        "{said:?}"
    );
}

#[test]
fn help_names_every_command() {
    let world = World::bare();
    let help = world.must(&["--help"]);
    for command in [
        "init", "server", "tool", "agent", "secret", "tools", "run", "book", "doctor", "off", "on",
        "try", "config",
    ] {
        assert!(help.contains(command), "{command}: {help}");
    }
    assert!(
        world
            .must(&["--version"])
            .contains(env!("CARGO_PKG_VERSION"))
    );
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (member, value) in from {
                merge(into.entry(member.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
