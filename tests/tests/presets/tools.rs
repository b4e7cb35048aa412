//! Every tool of a server under its preset, called once through the gate: answered as the server answers when it is asked directly.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use countersign_tests::client::{Client, refusal, without_rate};
use countersign_tests::world::World;
use countersign_tests::{direct, peers};
use serde_json::{Value, json};

use super::{document, go, under};
use crate::lists::of_the_server;

type Step = (&'static str, Value);

/// Asks for every step twice, directly and through the gate, each time from the same beginning.
struct Both<'a> {
    preset: &'static str,
    command: Vec<String>,
    environment: Vec<(&'static str, &'a str)>,
    /// Makes the beginning.
    begin: &'a dyn Fn(&World),
    steps: Vec<Step>,
    /// Takes out what two runs can't share: times, names of sessions.
    plain: &'a dyn Fn(String) -> String,
    /// Tools called under another test.
    elsewhere: &'static [&'static str],
}

fn check(world: &World, both: &Both<'_>) -> Client {
    (both.begin)(world);
    let mut straight = direct::connect(&both.command, &both.environment);
    let answered = |answer: Value| (both.plain)(without_rate(&answer)["result"].to_string());
    let expected: Vec<String> = both
        .steps
        .iter()
        .map(|(tool, arguments)| answered(straight.call(tool, arguments)))
        .collect();
    straight.kill();

    (both.begin)(world);
    under(world, both.preset, &both.environment, &both.command);
    let mut client = world.connect();
    let listed: BTreeSet<String> = of_the_server(client.tools())
        .iter()
        .map(|tool| tool["name"].as_str().expect("a name").to_owned())
        .collect();
    let called: BTreeSet<String> = both
        .steps
        .iter()
        .map(|(tool, _)| *tool)
        .chain(both.elsewhere.iter().copied())
        .map(str::to_owned)
        .collect();
    assert_eq!(called, listed, "{}: every tool is called", both.preset);
    for ((tool, arguments), expected) in both.steps.iter().zip(expected) {
        let answer = go(&mut client, tool, arguments);
        assert!(refusal(&answer).is_none(), "{tool}: {answer}");
        assert_eq!(answered(answer), expected, "{}: {tool}", both.preset);
    }
    client
}

/// Each call has one outcome, and the kinds of the entries are the preset's.
fn recorded(world: &World, client: Client, reads: &[&str]) {
    assert!(client.close().success());
    for call in world.recorded() {
        assert_eq!(call.outcomes.len(), 1, "{call:?}");
        let expected = if reads.contains(&call.tool.as_str()) {
            "read"
        } else {
            "write"
        };
        assert_eq!(call.effect, expected, "{call:?}");
    }
}

/// A git repository with one commit, a staged change and one that is not; the same bytes each time.
pub(crate) fn repository(folder: &Path) {
    if folder.exists() {
        std::fs::remove_dir_all(folder).expect("removed");
    }
    std::fs::create_dir_all(folder).expect("created");
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(folder).args(arguments);
        for (name, value) in GIT {
            command.env(name, value);
        }
        let output = command.output().expect("git starts");
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
    };
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    git(&["-c", "init.defaultBranch=main", "init", "--quiet"]);
    write("a.txt", "one\n");
    git(&["add", "a.txt"]);
    git(&["commit", "--quiet", "-m", "first"]);
    write("a.txt", "two\n");
    write("b.txt", "new\n");
}

/// The environment under which git gives the same commits each time.
pub(crate) const GIT: [(&str, &str); 7] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_AUTHOR_NAME", "t"),
    ("GIT_AUTHOR_EMAIL", "t@example.com"),
    ("GIT_AUTHOR_DATE", "1767323045 +0000"),
    ("GIT_COMMITTER_NAME", "t"),
    ("GIT_COMMITTER_EMAIL", "t@example.com"),
    ("GIT_COMMITTER_DATE", "1767323045 +0000"),
];

/// The text without the values of lines that begin so.
fn without_values(text: String, names: &[&str]) -> String {
    names.iter().fold(text, |text, name| {
        let mut parts = text.split(name);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |mut out, part| {
            let end = part.find("\\n").unwrap_or(part.len());
            out.push_str(name);
            out.push_str(&part[end..]);
            out
        })
    })
}

#[test]
fn all_of_filesystem() {
    let world = World::new();
    let files = world.text_path("files");
    let at = |name: &str| format!("{files}/{name}");
    let begin = |world: &World| {
        let folder = world.path("files");
        std::fs::remove_dir_all(&folder).expect("removed");
        std::fs::create_dir_all(folder.join("sub")).expect("created");
        std::fs::write(folder.join("a.txt"), "one\ntwo\n").expect("written");
        std::fs::write(folder.join("sub/p.png"), [137, 80, 78, 71]).expect("written");
    };
    let edits = json!([{"oldText": "two", "newText": "zwei"}]);
    let client = check(
        &world,
        &Both {
            preset: "filesystem",
            command: peers::filesystem(&files),
            environment: vec![],
            begin: &begin,
            steps: vec![
                ("list_allowed_directories", json!({})),
                ("read_file", json!({"path": at("a.txt")})),
                ("read_text_file", json!({"path": at("a.txt"), "head": 1})),
                ("read_media_file", json!({"path": at("sub/p.png")})),
                (
                    "read_multiple_files",
                    json!({"paths": [at("a.txt"), at("none")]}),
                ),
                (
                    "write_file",
                    json!({"path": at("b.txt"), "content": "grüße\n"}),
                ),
                ("edit_file", json!({"path": at("a.txt"), "edits": edits})),
                ("create_directory", json!({"path": at("new/deep")})),
                (
                    "move_file",
                    json!({"source": at("b.txt"), "destination": at("new/b.txt")}),
                ),
                ("list_directory", json!({"path": files})),
                (
                    "list_directory_with_sizes",
                    json!({"path": files, "sortBy": "size"}),
                ),
                ("directory_tree", json!({"path": files})),
                (
                    "search_files",
                    json!({"path": files, "pattern": "**/*.txt"}),
                ),
                ("get_file_info", json!({"path": at("new/b.txt")})),
            ],
            plain: &|text| without_values(text, &["created: ", "modified: ", "accessed: "]),
            elsewhere: &[],
        },
    );
    assert_eq!(
        std::fs::read_to_string(world.path("files/new/b.txt")).expect("moved"),
        "grüße\n"
    );
    assert_eq!(
        std::fs::read_to_string(world.path("files/a.txt")).expect("edited"),
        "one\nzwei\n"
    );
    recorded(
        &world,
        client,
        &[
            "list_allowed_directories",
            "read_file",
            "read_text_file",
            "read_media_file",
            "read_multiple_files",
            "list_directory",
            "list_directory_with_sizes",
            "directory_tree",
            "search_files",
            "get_file_info",
        ],
    );
}

#[test]
fn all_of_memory() {
    let world = World::new();
    let file = world.text_path("memory.jsonl");
    let ada = json!({"name": "Ada", "entityType": "person", "observations": ["wrote notes"]});
    let bob = json!({"name": "Bob", "entityType": "person", "observations": []});
    let knows = json!([{"from": "Ada", "to": "Bob", "relationType": "knows"}]);
    let client = check(
        &world,
        &Both {
            preset: "memory",
            command: peers::memory(),
            environment: vec![("MEMORY_FILE_PATH", &file)],
            begin: &|world| {
                let _ = std::fs::remove_file(world.path("memory.jsonl"));
            },
            steps: vec![
                ("create_entities", json!({"entities": [ada, bob]})),
                ("create_relations", json!({"relations": knows})),
                (
                    "add_observations",
                    json!({"observations": [{"entityName": "Ada", "contents": ["counts"]}]}),
                ),
                ("search_nodes", json!({"query": "notes"})),
                ("open_nodes", json!({"names": ["Ada"]})),
                (
                    "delete_observations",
                    json!({"deletions": [{"entityName": "Ada", "observations": ["counts"]}]}),
                ),
                ("delete_relations", json!({"relations": knows})),
                ("delete_entities", json!({"entityNames": ["Bob"]})),
                ("read_graph", json!({})),
            ],
            plain: &|text| text,
            elsewhere: &[],
        },
    );
    let left = std::fs::read_to_string(world.path("memory.jsonl")).expect("the file");
    assert!(left.contains("Ada") && !left.contains("Bob"), "{left}");
    recorded(
        &world,
        client,
        &["search_nodes", "open_nodes", "read_graph"],
    );
}

#[test]
fn all_of_git() {
    let world = World::new();
    let files = world.text_path("files");
    let here = |more: Value| {
        let mut arguments = json!({"repo_path": files});
        for (name, value) in more.as_object().expect("an object") {
            arguments[name] = value.clone();
        }
        arguments
    };
    let client = check(
        &world,
        &Both {
            preset: "git",
            command: peers::git(&files),
            environment: GIT.to_vec(),
            begin: &|world| repository(&world.path("files")),
            steps: vec![
                ("git_status", here(json!({}))),
                ("git_diff_unstaged", here(json!({}))),
                ("git_add", here(json!({"files": ["a.txt", "b.txt"]}))),
                ("git_reset", here(json!({}))),
                ("git_add", here(json!({"files": ["a.txt"]}))),
                ("git_diff_staged", here(json!({"context_lines": 1}))),
                ("git_commit", here(json!({"message": "second"}))),
                ("git_log", here(json!({"max_count": 5}))),
                ("git_show", here(json!({"revision": "HEAD"}))),
                ("git_create_branch", here(json!({"branch_name": "side"}))),
                ("git_checkout", here(json!({"branch_name": "side"}))),
                ("git_branch", here(json!({"branch_type": "local"}))),
                ("git_diff", here(json!({"target": "HEAD~1"}))),
            ],
            plain: &|text| text,
            elsewhere: &[],
        },
    );
    recorded(
        &world,
        client,
        &[
            "git_status",
            "git_diff_unstaged",
            "git_diff_staged",
            "git_log",
            "git_show",
            "git_branch",
        ],
    );
}

#[test]
fn all_of_sqlite() {
    let world = World::new();
    let file = world.text_path("data.db");
    let client = check(
        &world,
        &Both {
            preset: "sqlite",
            command: peers::sqlite(&file),
            environment: vec![],
            begin: &|world| {
                let _ = std::fs::remove_file(world.path("data.db"));
            },
            steps: vec![
                (
                    "create_table",
                    json!({"query": "CREATE TABLE notes (n INTEGER, t TEXT)"}),
                ),
                (
                    "write_query",
                    json!({"query": "INSERT INTO notes VALUES (9007199254740993, 'a')"}),
                ),
                (
                    "write_query",
                    json!({"query": "UPDATE notes SET t = 'b' WHERE n > 1"}),
                ),
                ("read_query", json!({"query": "SELECT n, t FROM notes"})),
                ("list_tables", json!({})),
                ("describe_table", json!({"table_name": "notes"})),
                // What claims to read writes nothing.
                (
                    "describe_table",
                    json!({"table_name": "notes); DELETE FROM notes; --"}),
                ),
                (
                    "describe_table",
                    json!({"table_name": "notes) ; DROP TABLE notes"}),
                ),
                (
                    "read_query",
                    json!({"query": "SELECT 1; DELETE FROM notes"}),
                ),
                ("read_query", json!({"query": "DELETE FROM notes"})),
                ("read_query", json!({"query": "SELECT n, t FROM notes"})),
                ("append_insight", json!({"insight": "few"})),
            ],
            plain: &|text| text,
            elsewhere: &[],
        },
    );
    recorded(
        &world,
        client,
        &["read_query", "list_tables", "describe_table"],
    );
    let mut straight = direct::connect(&peers::sqlite(&file), &[]);
    let rows = straight.call("read_query", &json!({"query": "SELECT n, t FROM notes"}));
    assert!(
        rows.to_string().contains("9007199254740993, 't': 'b'"),
        "{rows}"
    );
}

#[test]
fn all_of_everything() {
    let world = World::new();
    let mut client = check(
        &world,
        &Both {
            preset: "everything",
            command: peers::everything(),
            environment: vec![],
            begin: &|_| (),
            steps: vec![
                ("echo", json!({"message": "grüße"})),
                (
                    "get-annotated-message",
                    json!({"messageType": "error", "includeImage": true}),
                ),
                ("get-resource-links", json!({"count": 2})),
                (
                    "get-resource-reference",
                    json!({"resourceType": "Text", "resourceId": 1}),
                ),
                ("get-structured-content", json!({"location": "New York"})),
                ("get-sum", json!({"a": 2, "b": 3})),
                ("get-tiny-image", json!({})),
                (
                    "trigger-long-running-operation",
                    json!({"duration": 0.2, "steps": 2}),
                ),
                (
                    "gzip-file-as-resource",
                    json!({"name": "x.gz", "data": "data:text/plain,hello", "outputType": "resource"}),
                ),
                ("toggle-simulated-logging", json!({})),
                ("toggle-subscriber-updates", json!({})),
            ],
            // The time of day in a resource.
            plain: &|text| text.split(" at ").next().unwrap_or_default().to_owned(),
            elsewhere: &["get-env", "simulate-research-query"],
        },
    );
    // This one is called as a task, and in no other way.
    let params = json!({"name": "simulate-research-query", "arguments": {"topic": "moss"}, "task": {"ttl": 60000}});
    let answer = client.request("tools/call", &params);
    assert!(answer["result"]["task"]["taskId"].is_string(), "{answer}");
    assert!(client.close().success());
}

#[test]
fn all_of_time() {
    let world = World::new();
    let conversion =
        json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let client = check(
        &world,
        &Both {
            preset: "time",
            command: peers::time(),
            environment: vec![],
            begin: &|_| (),
            steps: vec![
                ("get_current_time", json!({"timezone": "UTC"})),
                ("convert_time", conversion),
            ],
            plain: &|text| text.replace(|letter: char| letter.is_ascii_digit(), "0"),
            elsewhere: &[],
        },
    );
    recorded(&world, client, &["get_current_time", "convert_time"]);
}

#[test]
fn all_of_fetch() {
    let world = World::new();
    let page = Page::new();
    let mut command = peers::fetch();
    command.extend(["--ignore-robots-txt", "--allow-private-ips"].map(str::to_owned));
    let client = check(
        &world,
        &Both {
            preset: "fetch",
            command,
            environment: vec![],
            begin: &|_| (),
            steps: vec![("fetch", json!({"url": page.url, "raw": true}))],
            plain: &|text| text,
            elsewhere: &[],
        },
    );
    recorded(&world, client, &[]);
    assert!(page.asked.load(std::sync::atomic::Ordering::Relaxed) >= 2);
}

/// One page on the loopback, for as long as the process lives and at most a few times.
struct Page {
    url: String,
    asked: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Page {
    fn new() -> Self {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!(
            "http://{}/page",
            listener.local_addr().expect("its address")
        );
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = std::sync::Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut caller in listener.incoming().take(8).flatten() {
                let _ = caller.read(&mut [0; 4096]);
                counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let _ = caller.write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
                );
            }
        });
        Self { url, asked }
    }
}

/// It shows the credentials the server was started with: only the person lets an agent do that.
#[test]
fn the_environment_of_everything_is_held_for_the_person() {
    let world = World::new();
    under(
        &world,
        "everything",
        &[("TOKEN_OF_THE_SERVER", "not for the agent")],
        &peers::everything(),
    );
    world.edit(|settings| settings["approval"] = json!({"hold_seconds": 0}));
    let mut client = world.connect();
    let held = client.call("get-env", &json!({}));
    assert_eq!(document(&held)["status"], "pending_approval", "{held}");
    assert!(!held.to_string().contains("not for the agent"), "{held}");
    let id = document(&held)["approval_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    world.must(&["approvals", "approve", &id]);
    let shown = client.call("get-env", &json!({}));
    assert!(shown.to_string().contains("not for the agent"), "{shown}");
    assert!(client.close().success());
}
