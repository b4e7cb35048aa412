//! The executor's own folder before every tool of the filesystem server, which is allowed to touch it.

use std::collections::BTreeMap;
use std::path::Path;

use countersign_tests::client::refusal;
use countersign_tests::peers;
use countersign_tests::world::World;
use serde_json::{Value, json};

use super::{decisions, said};
use crate::presets::under;

/// Tools that take one path, and what else they take.
fn one_path() -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({})),
        ("read_text_file", json!({})),
        ("read_media_file", json!({})),
        ("get_file_info", json!({})),
        ("list_directory", json!({})),
        ("list_directory_with_sizes", json!({})),
        ("directory_tree", json!({})),
        ("search_files", json!({"pattern": "*"})),
        ("write_file", json!({"content": "x"})),
        (
            "edit_file",
            json!({"edits": [{"oldText": "a", "newText": "b"}]}),
        ),
        ("create_directory", json!({})),
    ]
}

/// Each call that reaches `path` by one of the 14 tools; `list_allowed_directories` takes none.
fn calls(path: &str, other: &str) -> Vec<(&'static str, Value)> {
    let mut calls: Vec<(&str, Value)> = one_path()
        .into_iter()
        .map(|(tool, mut arguments)| {
            arguments["path"] = path.into();
            (tool, arguments)
        })
        .collect();
    calls.push(("read_multiple_files", json!({"paths": [other, path]})));
    calls.push((
        "move_file",
        json!({"source": path, "destination": format!("{other}.moved")}),
    ));
    calls.push(("move_file", json!({"source": other, "destination": path})));
    calls
}

/// A server over the whole temporary folder, the executor's own included.
fn world() -> (World, String) {
    let world = World::new();
    let root = world
        .root()
        .canonicalize()
        .expect("it is there")
        .into_os_string()
        .into_string()
        .expect("a temporary path is text");
    std::fs::write(world.path("files/a.txt"), "hello\n").expect("written");
    under(&world, "filesystem", &[], &peers::filesystem(&root));
    (world, root)
}

/// Every file below the executor's folder that no running executor writes, with its bytes.
fn kept(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    ["executor.json", "book/BOOK"]
        .into_iter()
        .map(|name| {
            let bytes = std::fs::read(folder.join(name)).expect("it is there");
            (name.to_owned(), bytes)
        })
        .collect()
}

#[test]
fn p29_p31_no_tool_of_the_filesystem_server_reaches_the_executors_secrets() {
    let (world, root) = world();
    std::os::unix::fs::symlink("../dir", world.path("files/link")).expect("made");
    std::fs::hard_link(world.path("dir/state.db"), world.path("files/twin")).expect("made");
    let before = kept(&world.dir());
    let mut client = world.connect();
    let other = format!("{root}/files/a.txt");
    let mut tried = 0;
    for path in [
        format!("{root}/dir/secrets.enc"),
        format!("{root}/files/../dir/secrets.enc"),
        format!("{root}/dir/./book//vault"),
        format!("file://{root}/dir/secrets.enc"),
        "~/dir/state.db".to_owned(),
        "dir/secrets.enc".to_owned(),
        format!("{root}/files/link/secrets.enc"),
        format!("{root}/files/twin"),
        format!("{root}/passphrase"),
        "/proc/self/environ".to_owned(),
    ] {
        for (tool, arguments) in calls(&path, &other) {
            let answer = said(&mut client, tool, &arguments);
            assert_eq!(answer.as_deref(), Some("protected_path"), "{tool} {path}");
            tried += 1;
        }
    }
    assert!(said(&mut client, "list_allowed_directories", &json!({})).is_none());
    assert!(said(&mut client, "read_text_file", &json!({"path": other})).is_none());
    assert!(client.close().success());
    assert_eq!(before, kept(&world.dir()));
    assert!(world.path("files/a.txt").exists() && world.path("files/twin").exists());
    let refused = decisions(&world);
    assert_eq!(refused.len(), tried);
    assert!(
        refused
            .iter()
            .all(|(gate, verdict, _)| gate == "evidence_protection" && verdict == "deny")
    );
}

#[test]
fn p30_what_is_not_secret_can_be_read_and_nothing_can_be_written_or_moved_there() {
    let (world, root) = world();
    std::os::unix::fs::symlink("../dir", world.path("files/link")).expect("made");
    let before = kept(&world.dir());
    let mut client = world.connect();
    let settings = format!("{root}/dir/executor.json");
    let read = client.call("read_text_file", &json!({"path": settings}));
    assert!(
        refusal(&read).is_none() && read.to_string().contains("development"),
        "{read}"
    );
    let writes = [
        ("write_file", json!({"path": settings, "content": "{}"})),
        (
            "write_file",
            json!({"path": format!("{root}/dir/new"), "content": ""}),
        ),
        (
            "create_directory",
            json!({"path": format!("{root}/dir/permission/new")}),
        ),
        (
            "edit_file",
            json!({"path": format!("{root}/files/link/executor.json"), "edits": [{"oldText": "true", "newText": "false"}]}),
        ),
        // The folder itself, and what leads to it.
        (
            "move_file",
            json!({"source": format!("{root}/dir"), "destination": format!("{root}/away")}),
        ),
        (
            "move_file",
            json!({"source": format!("{root}/files/link"), "destination": format!("{root}/files/other")}),
        ),
    ];
    for (tool, arguments) in writes {
        let answer = said(&mut client, tool, &arguments);
        assert_eq!(
            answer.as_deref(),
            Some("protected_path"),
            "{tool} {arguments}"
        );
    }
    // A chain of allowed renames ends at the folder's door.
    let at = |name: &str| format!("{root}/files/{name}");
    for (from, to) in [("a.txt", "b.txt"), ("b.txt", "c.txt")] {
        let step = json!({"source": at(from), "destination": at(to)});
        assert_eq!(said(&mut client, "move_file", &step), None);
    }
    let last = json!({"source": at("c.txt"), "destination": format!("{root}/dir/off")});
    let answer = said(&mut client, "move_file", &last);
    assert_eq!(answer.as_deref(), Some("protected_path"));
    assert!(client.close().success());
    assert_eq!(before, kept(&world.dir()));
    assert!(world.path("files/c.txt").exists() && !world.path("dir/off").exists());
}

#[test]
fn a_server_without_a_preset_is_kept_off_by_every_text_of_a_call() {
    let world = World::new();
    let root = world.root().canonicalize().expect("it is there");
    let root = root.to_str().expect("a temporary path is text");
    std::fs::write(world.path("files/a.txt"), "hello\n").expect("written");
    world.server("s", &peers::filesystem(root));
    world.agent("a");
    world.unlimited();
    let mut client = world.connect();
    for (tool, arguments) in calls(
        &format!("{root}/dir/secrets.enc"),
        &format!("{root}/files/a.txt"),
    ) {
        let answer = said(&mut client, tool, &arguments);
        assert_eq!(answer.as_deref(), Some("protected_path"), "{tool}");
    }
    let fine = json!({"path": format!("{root}/files/a.txt"), "content": "about /dir/secrets.enc"});
    assert_eq!(said(&mut client, "write_file", &fine), None);
    assert!(client.close().success());
}
