//! The presets' recipes before the real servers: what a preview shows is what is there, and a change in between is asked about again.

use countersign_tests::client::{Client, code, refusal};
use countersign_tests::peers;
use countersign_tests::world::World;
use serde_json::{Value, json};

use super::tools::{GIT, repository};
use super::{must_show, shown, under, with};

/// What is checked with one tool that asks first.
struct Row<'a> {
    tool: &'static str,
    arguments: Value,
    /// `reads`, `dry_run` or `arguments_only`.
    kind: &'static str,
    /// Words of the preview.
    shows: &'a [&'a str],
    /// What somebody else does in between.
    meanwhile: &'a dyn Fn(),
    /// Words of the second preview, where there is one.
    then_shows: &'a [&'a str],
    /// Whether the call has run.
    ran: &'a dyn Fn() -> bool,
}

fn check(client: &mut Client, row: &Row<'_>) {
    let Row {
        tool, arguments, ..
    } = row;
    let first = must_show(&client.call(tool, arguments));
    assert!(!first.changed, "{tool}");
    shows(tool, &first.preview, row.kind, row.shows);
    assert!(!(row.ran)(), "{tool}: nothing ran yet");
    // The same again without a change: the same fingerprint.
    let same = must_show(&client.call(tool, arguments));
    assert_eq!(
        first.preview["fingerprint"], same.preview["fingerprint"],
        "{tool}"
    );
    let mut last = same;
    if !row.then_shows.is_empty() {
        (row.meanwhile)();
        let second = must_show(&client.call(tool, &last.confirmed(arguments)));
        assert!(second.changed, "{tool}: {:?}", second.preview);
        shows(tool, &second.preview, row.kind, row.then_shows);
        assert!(!(row.ran)(), "{tool}: nothing ran yet");
        last = second;
    }
    let done = client.call(tool, &last.confirmed(arguments));
    assert!(
        refusal(&done).is_none() && shown(&done).is_none(),
        "{tool}: {done}"
    );
    assert!((row.ran)(), "{tool}: it ran");
    let again = client.call(tool, &last.confirmed(arguments));
    assert!(
        again.to_string().contains("that code was used"),
        "{tool}: {again}"
    );
}

fn shows(tool: &str, preview: &Value, kind: &str, words: &[&str]) {
    assert_eq!(preview["kind"], kind, "{tool}: {preview}");
    let weaker = preview["note"]
        .as_str()
        .is_some_and(|note| note.contains("only the arguments"));
    assert_eq!(weaker, kind == "arguments_only", "{tool}: {preview}");
    let text = preview.to_string();
    for word in words {
        assert!(text.contains(word), "{tool}: no `{word}` in {text}");
    }
}

fn read(world: &World, name: &str) -> String {
    std::fs::read_to_string(world.path(name)).unwrap_or_default()
}

fn write(world: &World, name: &str, text: &str) {
    std::fs::write(world.path(name), text).expect("written");
}

/// A world with the filesystem server, all of whose writes ask first.
fn careful_files() -> (World, String) {
    let world = World::new();
    let files = world.text_path("files");
    under(&world, "filesystem", &[], &peers::filesystem(&files));
    for tool in ["write_file", "edit_file", "move_file", "create_directory"] {
        world.must(&["tool", "set", "s", tool, "--danger", "always"]);
    }
    (world, files)
}

#[test]
fn p8_a_written_file_is_shown_as_a_difference() {
    let (world, files) = careful_files();
    write(&world, "files/a.txt", "one\ntwo\nthree\n");
    let mut client = world.connect();
    check(
        &mut client,
        &Row {
            tool: "write_file",
            arguments: json!({"path": format!("{files}/a.txt"), "content": "one\nZWEI\nthree\n"}),
            kind: "reads",
            shows: &[r#""diff":" one\n-two\n+ZWEI\n three\n""#, "read_text_file"],
            meanwhile: &|| write(&world, "files/a.txt", "one\n2\nthree\n"),
            then_shows: &[r#""diff":" one\n-2\n+ZWEI\n three\n""#],
            ran: &|| read(&world, "files/a.txt").contains("ZWEI"),
        },
    );
    // A new file: what is there now is the server's own word that there is none.
    check(
        &mut client,
        &Row {
            tool: "write_file",
            arguments: json!({"path": format!("{files}/new.txt"), "content": "hello\n"}),
            kind: "reads",
            shows: &[r#""diff":"+hello\n""#, "ENOENT"],
            meanwhile: &|| write(&world, "files/new.txt", "already\n"),
            then_shows: &[r#""diff":"-already\n+hello\n""#],
            ran: &|| read(&world, "files/new.txt") == "hello\n",
        },
    );
    assert!(client.close().success());
    let reads = world.journal();
    let previews = reads.iter().filter(|entry| entry["purpose"] == "preview");
    assert_eq!(
        previews.count(),
        8,
        "a preview's reads are entries: two for each prompt, one for each code"
    );
}

#[test]
fn p8_an_edit_is_shown_by_the_servers_own_dry_run() {
    let (world, files) = careful_files();
    write(&world, "files/a.txt", "one\ntwo\nthree\n");
    let mut client = world.connect();
    let edits = json!([{"oldText": "two", "newText": "zwei"}]);
    let arguments = json!({"path": format!("{files}/a.txt"), "edits": edits});
    check(
        &mut client,
        &Row {
            tool: "edit_file",
            arguments: arguments.clone(),
            kind: "dry_run",
            shows: &["-two", "+zwei", " three"],
            meanwhile: &|| write(&world, "files/a.txt", "one\ntwo\ndrei\n"),
            then_shows: &["-two", "+zwei", " drei"],
            ran: &|| read(&world, "files/a.txt").contains("zwei"),
        },
    );
    // The text to replace is gone now: a preview that fails lets nothing through.
    let failed = client.call("edit_file", &arguments);
    assert!(failed.to_string().contains("preview_failed"), "{failed}");
    // The agent's own dry run is one call of the gate and changes nothing.
    let back =
        json!({"path": format!("{files}/a.txt"), "edits": [{"oldText": "zwei", "newText": "two"}]});
    let dry = must_show(&client.call("edit_file", &with(&back, "dry_run", &json!(true))));
    assert_eq!((dry.kind(), dry.code.as_deref()), ("dry_run", None));
    assert!(read(&world, "files/a.txt").contains("zwei"));
}

#[test]
fn p8_a_move_and_a_new_folder_show_what_stands_there() {
    let (world, files) = careful_files();
    write(&world, "files/a.txt", "hello");
    let at = |name: &str| format!("{files}/{name}");
    let mut client = world.connect();
    check(
        &mut client,
        &Row {
            tool: "move_file",
            arguments: json!({"source": at("a.txt"), "destination": at("b.txt")}),
            kind: "reads",
            shows: &["size: 5", "ENOENT"],
            meanwhile: &|| write(&world, "files/a.txt", "hello you"),
            then_shows: &["size: 9", "ENOENT"],
            ran: &|| world.path("files/b.txt").exists(),
        },
    );
    check(
        &mut client,
        &Row {
            tool: "create_directory",
            arguments: json!({"path": at("sub")}),
            kind: "reads",
            shows: &["ENOENT"],
            meanwhile: &|| (),
            then_shows: &[],
            ran: &|| world.path("files/sub").is_dir(),
        },
    );
}

#[test]
fn p8_a_commit_shows_what_is_staged() {
    let world = World::new();
    let files = world.text_path("files");
    repository(&world.path("files"));
    under(&world, "git", &GIT, &peers::git(&files));
    world.must(&["tool", "set", "s", "git_commit", "--danger", "always"]);
    let mut client = world.connect();
    let here = json!({"repo_path": files});
    let stage = |client: &mut Client, name: &str| {
        let added = client.call("git_add", &with(&here, "files", &json!([name])));
        assert!(refusal(&added).is_none(), "{added}");
    };
    stage(&mut client, "a.txt");
    let commit = with(&here, "message", &json!("second"));
    let first = must_show(&client.call("git_commit", &commit));
    assert_eq!(first.kind(), "reads");
    assert!(
        first.current(0).contains("-one\n+two"),
        "{:?}",
        first.preview
    );
    assert!(
        first.current(1).contains("Untracked files"),
        "{:?}",
        first.preview
    );
    stage(&mut client, "b.txt");
    let second = must_show(&client.call("git_commit", &first.confirmed(&commit)));
    assert!(
        second.changed && second.current(0).contains("+new"),
        "{:?}",
        second.preview
    );
    let done = client.call("git_commit", &second.confirmed(&commit));
    assert!(
        done.to_string().contains("committed successfully"),
        "{done}"
    );
    // Unstaging asks by itself.
    write(&world, "files/a.txt", "three\n");
    stage(&mut client, "a.txt");
    let staged = |world: &World| {
        let output = std::process::Command::new("git")
            .args(["-C", &files, "diff", "--cached", "--name-only"])
            .current_dir(world.root())
            .output()
            .expect("git starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    check(
        &mut client,
        &Row {
            tool: "git_reset",
            arguments: here,
            kind: "reads",
            shows: &["+three"],
            meanwhile: &|| (),
            then_shows: &[],
            ran: &|| staged(&world).is_empty(),
        },
    );
}

#[test]
fn p8_rows_are_changed_with_the_weaker_preview_and_said_so() {
    let world = World::new();
    let file = world.text_path("data.db");
    under(&world, "sqlite", &[], &peers::sqlite(&file));
    let mut client = world.connect();
    let mut query = |tool: &str, query: &str| client.call(tool, &json!({"query": query}));
    for (tool, sql) in [
        ("create_table", "CREATE TABLE t (n INTEGER)"),
        ("write_query", "INSERT INTO t VALUES (1)"),
        ("write_query", "  insert into t values (2)"),
    ] {
        let answer = query(tool, sql);
        assert!(
            shown(&answer).is_none() && refusal(&answer).is_none(),
            "{sql}: {answer}"
        );
    }
    for sql in [
        "UPDATE t SET n = 0",
        "DELETE FROM t",
        "DROP TABLE t",
        "REPLACE INTO t VALUES (3)",
        "INSERT OR REPLACE INTO t VALUES (3)",
        "VACUUM INTO '/nowhere/x.db'",
        "/* INSERT INTO t */ DELETE FROM t",
        "-- INSERT INTO t\nDELETE FROM t",
    ] {
        let asked = must_show(&query("write_query", sql));
        shows("write_query", &asked.preview, "arguments_only", &[]);
        assert!(asked.code.is_some(), "{sql}");
    }
    let rows = query("read_query", "SELECT n FROM t ORDER BY n");
    assert!(rows.to_string().contains("[{'n': 1}, {'n': 2}]"), "{rows}");
    let ran = || {
        let mut straight = countersign_tests::direct::connect(&peers::sqlite(&file), &[]);
        let rows = straight.call("read_query", &json!({"query": "SELECT n FROM t"}));
        rows.to_string().contains("[{'n': 2}]")
    };
    check(
        &mut client,
        &Row {
            tool: "write_query",
            arguments: json!({"query": "DELETE FROM t WHERE n = 1"}),
            kind: "arguments_only",
            shows: &["DELETE FROM t WHERE n = 1"],
            meanwhile: &|| (),
            then_shows: &[],
            ran: &ran,
        },
    );
    let create = json!({"query": "CREATE TABLE u (n INTEGER)", "dry_run": true});
    let dry = must_show(&client.call("create_table", &create));
    assert_eq!(dry.kind(), "reads");
    assert!(dry.current(0).contains("'t'"), "{:?}", dry.preview);
}

#[test]
fn p8_what_is_forgotten_is_shown_first() {
    let world = World::new();
    let file = world.text_path("memory.jsonl");
    under(
        &world,
        "memory",
        &[("MEMORY_FILE_PATH", &file)],
        &peers::memory(),
    );
    let mut client = world.connect();
    let entity = |name: &str, what: &str| json!({"name": name, "entityType": "person", "observations": [what]});
    let made = client.call(
        "create_entities",
        &json!({"entities": [entity("Ada", "wrote notes"), entity("Bob", "reads"), entity("Cy", "waits")]}),
    );
    assert!(refusal(&made).is_none(), "{made}");
    let related = client.call(
        "create_relations",
        &json!({"relations": [{"from": "Ada", "to": "Bob", "relationType": "knows"}]}),
    );
    assert!(refusal(&related).is_none(), "{related}");
    let kept = || read(&world, "memory.jsonl");
    let add = |what: &'static str| {
        let file = world.path("memory.jsonl");
        move || {
            let text = std::fs::read_to_string(&file).expect("the file");
            let text = text.replace("\"reads\"", &format!("\"reads\",\"{what}\""));
            std::fs::write(&file, text).expect("written");
        }
    };
    check(
        &mut client,
        &Row {
            tool: "delete_observations",
            arguments: json!({"deletions": [
                {"entityName": "Ada", "observations": ["wrote notes"]},
                {"entityName": "Bob", "observations": ["reads"]}
            ]}),
            kind: "reads",
            shows: &["wrote notes", "reads", "open_nodes"],
            meanwhile: &add("sings"),
            then_shows: &["wrote notes", "sings"],
            ran: &|| !kept().contains("wrote notes") && !kept().contains("\"reads\""),
        },
    );
    check(
        &mut client,
        &Row {
            tool: "delete_relations",
            arguments: json!({"relations": [{"from": "Ada", "to": "Bob", "relationType": "knows"}]}),
            kind: "reads",
            shows: &["knows"],
            meanwhile: &|| (),
            then_shows: &[],
            ran: &|| !kept().contains("knows"),
        },
    );
    check(
        &mut client,
        &Row {
            tool: "delete_entities",
            arguments: json!({"entityNames": ["Ada", "Bob"]}),
            kind: "reads",
            shows: &["Ada", "Bob", "sings"],
            meanwhile: &|| (),
            then_shows: &[],
            ran: &|| !kept().contains("Ada") && kept().contains("Cy"),
        },
    );
    // What is not to be shown: a thing nobody forgets.
    let dry = must_show(&client.call(
        "delete_entities",
        &json!({"entityNames": ["Nobody"], "dry_run": true}),
    ));
    assert!(!dry.preview.to_string().contains("Cy"), "{:?}", dry.preview);
}

/// The server says it only reads; a text that leaves its transaction needs the second step. The database is not there: what goes on fails
/// at the server, what is held does not reach it.
#[test]
fn p8_sql_that_could_leave_the_read_only_transaction_is_held() {
    let world = World::new();
    under(&world, "postgres", &[], &peers::postgres());
    let mut client = world.connect();
    for (sql, held) in [
        ("SELECT 1", false),
        ("  select * from t where a = 'b';  ", false),
        ("WITH x AS (SELECT 1) TABLE x", false),
        ("SHOW server_version", false),
        ("COMMIT; DROP TABLE t", true),
        ("SELECT 1; COMMIT; DROP TABLE t", true),
        ("COMMIT", true),
        ("DELETE FROM t", true),
        ("/* SELECT */ COMMIT; DROP TABLE t", true),
        ("SELECT\n1;\nDROP TABLE t", true),
    ] {
        let answer = client.call("query", &json!({"sql": sql}));
        assert_eq!(shown(&answer).is_some(), held, "{sql}: {answer}");
        assert_eq!(code(&answer), None, "{sql}: never a refusal of the gate");
    }
    assert!(client.close().success());
    let ended = world.outcomes("query");
    let held = ended
        .iter()
        .filter(|outcome| *outcome == "confirmation_required");
    assert_eq!((held.count(), ended.len()), (6, 10), "{ended:?}");
}

/// A held write shows the person the same difference, and what was approved for one content is not run over another.
#[test]
fn p8_an_approval_is_for_the_file_as_it_was_shown() {
    let (world, files) = careful_files();
    world.edit(|settings| {
        settings["agents"]["a"]["requires_approval"] = json!(true);
        settings["approval"] = json!({"hold_seconds": 0});
    });
    write(&world, "files/a.txt", "one\n");
    let arguments = json!({"path": format!("{files}/a.txt"), "content": "two\n"});
    let mut client = world.connect();
    let waiting = |client: &mut Client, difference: &str| {
        let held = client.call("write_file", &arguments);
        assert!(
            held.to_string().contains("waits for the person's approval"),
            "{held}"
        );
        let waiting = world.json(&["approvals", "list"]);
        let all = waiting["approvals"].as_array().expect("a list");
        let open: Vec<&Value> = all.iter().filter(|one| one["state"] == "waiting").collect();
        assert_eq!(open.len(), 1, "{waiting}");
        let id = open[0]["approval_id"].as_str().expect("an id").to_owned();
        let shown = world.json(&["approvals", "show", &id]);
        assert_eq!(shown["preview"]["diff"], difference, "{shown}");
        world.must(&["approvals", "approve", &id]);
        held
    };
    waiting(&mut client, "-one\n+two\n");
    write(&world, "files/a.txt", "1\n");
    let again = waiting(&mut client, "-1\n+two\n");
    assert!(
        again.to_string().contains("no longer what was approved"),
        "{again}"
    );
    assert_eq!(read(&world, "files/a.txt"), "1\n");
    let done = client.call("write_file", &arguments);
    assert!(refusal(&done).is_none(), "{done}");
    assert_eq!(read(&world, "files/a.txt"), "two\n");
}
