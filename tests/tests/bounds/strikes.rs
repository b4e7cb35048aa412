//! Bounded writes and two strikes: across processes and reconnects, with the server's own tools, told by the book.

use countersign_tests::client::{code, refusal};
use countersign_tests::peers;
use countersign_tests::world::World;
use serde_json::json;

use super::{bound, decisions, patient, said};
use crate::presets::tools::repository;
use crate::presets::under;

/// The filesystem server over `files`, agent `a` bounded to `files/ok`.
fn world() -> (World, String) {
    let world = World::new();
    std::fs::create_dir(world.path("files/ok")).expect("made");
    let files = world.path("files").canonicalize().expect("it is there");
    let files = files
        .into_os_string()
        .into_string()
        .expect("a temporary path is text");
    under(&world, "filesystem", &[], &peers::filesystem(&files));
    bound(&world, &files, &["ok/**"]);
    (world, files)
}

#[test]
fn p54_p57_strikes_are_counted_across_processes_and_reconnects_until_the_person_lets_go_on() {
    let (world, files) = world();
    let bad = |name: &str| json!({"path": format!("{files}/{name}"), "content": "x"});
    let good = json!({"path": format!("{files}/ok/a.txt"), "content": "x"});
    let (mut one, mut two) = (world.connect(), world.connect());
    let answer = one.call("write_file", &bad("no.txt"));
    assert_eq!(code(&answer).as_deref(), Some("write_policy_denied"));
    assert!(answer.to_string().contains("next_actions"), "{answer}");
    assert_eq!(
        said(&mut two, "write_file", &good),
        None,
        "the turn goes on"
    );
    let ended = said(&mut two, "write_file", &bad("no2.txt"));
    assert_eq!(ended.as_deref(), Some("turn_terminated"));
    let read = json!({"path": format!("{files}/ok/a.txt")});
    for client in [&mut one, &mut two, &mut world.connect()] {
        for (tool, arguments) in [("read_text_file", &read), ("write_file", &good)] {
            let answer = said(client, tool, arguments);
            assert_eq!(answer.as_deref(), Some("turn_terminated"), "{tool}");
        }
    }
    world.must(&["turn", "open", "--agent", "a"]);
    assert_eq!(said(&mut one, "read_text_file", &read), None);
    assert_eq!(said(&mut two, "write_file", &good), None);
    assert!(one.close().success() && two.close().success());
    assert!(!world.path("files/no.txt").exists() && !world.path("files/no2.txt").exists());

    let turns: Vec<_> = world
        .journal()
        .into_iter()
        .filter(|entry| {
            entry["k"]
                .as_str()
                .is_some_and(|kind| kind.starts_with("turn."))
        })
        .map(|entry| json!([entry["k"], entry["turn"], entry["reason"]]))
        .collect();
    let want = json!([
        ["turn.open", 1, "first_call"],
        ["turn.failed", 1, "write_policy_denied"],
        ["turn.open", 2, "person_command"],
    ]);
    assert_eq!(json!(turns), want);
    // What opened the turn stands before its first call, what ended it after the denial and before the outcome.
    let journal = world.journal();
    let at = |kind: &str| {
        let place = journal.iter().position(|entry| entry["k"] == kind);
        place.unwrap_or_else(|| panic!("no {kind}"))
    };
    let (opened, failed) = (at("turn.open"), at("turn.failed"));
    assert_eq!(journal[opened + 1]["k"], "call");
    assert_eq!(journal[opened + 1]["turn"], 1);
    let denial = &journal[failed - 1];
    assert_eq!(
        (&denial["k"], &denial["decision"]),
        (&json!("decision"), &json!("deny"))
    );
    assert_eq!(denial["bounds"]["policy_id"], "notes");
    assert_eq!(denial["bounds"]["tool"], "write_file");
    assert_eq!(journal[failed + 1]["k"], "outcome");
    let report = world.json(&["turn", "report", "--agent", "a", "--turn", "1"]);
    let denials = &report["write_denials"];
    assert_eq!(denials["count"], 2, "{report}");
    assert_eq!(denials["denials"][0]["disposition"], "recovered");
    assert_eq!(denials["denials"][1]["disposition"], "fatal");
    assert_eq!(
        denials["denials"][1]["normalized_path"],
        format!("{files}/no2.txt")
    );
}

#[test]
fn what_the_server_gets_is_the_path_that_was_judged() {
    let (world, files) = world();
    let mut client = world.connect();
    // Relative paths begin at the workspace, wherever the server works.
    for (written, name) in [("ok/b.txt", "b.txt"), ("./ok/x/../c.txt", "c.txt")] {
        let arguments = json!({"path": written, "content": "x"});
        let answer = client.call("write_file", &arguments);
        assert!(refusal(&answer).is_none(), "{answer}");
        assert!(world.path("files/ok").join(name).exists(), "{written}");
    }
    for step in [
        json!({"source": "ok/b.txt", "destination": "ok/d.txt"}),
        json!({"source": "ok/d.txt", "destination": format!("{files}/ok/b.txt")}),
    ] {
        assert_eq!(said(&mut client, "move_file", &step), None);
    }
    // Its preview reads what it would write.
    let dry = json!({"path": "ok/b.txt", "content": "y", "dry_run": true});
    let answer = client.call("write_file", &dry);
    assert!(answer.to_string().contains("-x"), "{answer}");
    std::os::unix::fs::symlink("../..", world.path("files/ok/out")).expect("made");
    let escape = json!({"path": "ok/out/z.txt", "content": "x"});
    let answer = client.call("write_file", &escape);
    assert_eq!(code(&answer).as_deref(), Some("write_policy_denied"));
    assert!(
        answer.to_string().contains("symlink_path_component"),
        "{answer}"
    );
    assert!(client.close().success());
    assert!(!world.path("z.txt").exists());
}

#[test]
fn p24_git_and_sqlite_write_what_no_policy_can_bound() {
    let world = World::new();
    repository(&world.path("repository"));
    let folder = world.text_path("repository");
    under(&world, "git", &[], &peers::git(&folder));
    bound(&world, &folder, &["**/*"]);
    patient(&world);
    let mut client = world.connect();
    client.tools();
    let status = json!({"repo_path": folder});
    assert_eq!(said(&mut client, "git_status", &status), None);
    // The repository is the workspace itself, and what git writes lies in `.git`.
    let add = json!({"repo_path": folder, "files": ["a.txt"]});
    let answer = client.call("git_add", &add);
    assert_eq!(code(&answer).as_deref(), Some("write_policy_denied"));
    assert!(
        answer.to_string().contains("workspace_root_not_writable"),
        "{answer}"
    );
    assert!(client.close().success());

    let world = World::new();
    let file = world.text_path("files/data.db");
    under(&world, "sqlite", &[], &peers::sqlite(&file));
    bound(&world, &world.text_path("files"), &["**/*"]);
    patient(&world);
    let mut client = world.connect();
    client.tools();
    assert_eq!(said(&mut client, "list_tables", &json!({})), None);
    let table = json!({"query": "CREATE TABLE notes (n INTEGER)"});
    let answer = said(&mut client, "create_table", &table);
    assert_eq!(answer.as_deref(), Some("write_policy_denied"));
    let answer = said(&mut client, "create_table", &table);
    assert_eq!(answer.as_deref(), Some("turn_terminated"));
    assert!(client.close().success());
    let rules: Vec<String> = decisions(&world)
        .into_iter()
        .map(|(_, _, rule)| rule)
        .collect();
    assert_eq!(rules, ["unsupported_mutating_tool"; 2]);
}

#[test]
fn tools_says_what_a_policy_means_for_each() {
    let (world, files) = world();
    let text = world.must(&["tools", "--agent", "a"]);
    assert!(
        text.contains(&format!("write policy `notes`: ok/** below {files}")),
        "{text}"
    );
    let document = world.json(&["tools", "--agent", "a"]);
    assert_eq!(document["write_policy"]["id"], "notes");
    let of = |name: &str| {
        let tools = document["tools"].as_array().expect("a list");
        let tool = tools.iter().find(|tool| tool["name"] == name);
        tool.map(|tool| tool["bounds"].clone())
    };
    assert_eq!(of("write_file"), Some(json!("held")));
    assert_eq!(of("read_text_file"), Some(json!(null)));
    assert!(world.json(&["tools"])["write_policy"].is_null());
}
