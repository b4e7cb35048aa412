//! Previews, codes, keys and approvals through the real binary and a real server over files.

use std::fs::File;
use std::path::PathBuf;

use countersign::demo::client::Client;
use serde_json::{Value, json};

use super::{World, private};

/// An executor over the demo server, whose notes lie in a folder; `change` edits executor.json.
pub(super) fn house(change: impl FnOnce(&mut Value)) -> World {
    let world = World::new();
    std::fs::create_dir(world.notes()).unwrap();
    let program = env!("CARGO_BIN_EXE_countersign");
    let notes = world.notes().display().to_string();
    for line in [
        "init --name t --secrets file --development",
        &format!("server add notes -- {program} demo-server {notes}"),
        "tool set notes read_note --kind read",
        "agent add bar",
    ] {
        let output = world.run(line);
        assert!(output.status.success(), "{line}: {output:?}");
    }
    let path = world.dir().join("executor.json");
    let mut settings: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut settings);
    private(&path, &settings.to_string());
    world
}

impl World {
    fn notes(&self) -> PathBuf {
        self.root().join("notes")
    }

    fn note(&self) -> String {
        std::fs::read_to_string(self.notes().join("a.txt")).unwrap_or_default()
    }

    fn write(&self, text: &str) {
        std::fs::write(self.notes().join("a.txt"), text).unwrap();
    }

    pub(super) fn client(&self) -> Client {
        self.client_with(&[])
    }

    fn client_with(&self, more: &[&str]) -> Client {
        let (dir, pw) = (
            self.dir().display().to_string(),
            self.root().join("pw").display().to_string(),
        );
        let arguments: Vec<String> = ["run", "--agent", "bar", "--server", "notes"]
            .iter()
            .chain(more)
            .map(ToString::to_string)
            .collect();
        let environment = [
            ("COUNTERSIGN_DIR", &*dir),
            ("COUNTERSIGN_PASSPHRASE_FILE", &*pw),
        ];
        let log = File::create(self.root().join("log")).unwrap();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_countersign"));
        let mut client = Client::start(&program, &arguments, &environment, log).unwrap();
        // A host lists before it calls.
        client.request("tools/list", &json!({})).unwrap();
        client
    }

    /// Waits until the note says `text`.
    fn await_note(&self, text: &str) {
        let begun = std::time::Instant::now();
        while self.note() != text {
            let waited = begun.elapsed();
            assert!(
                waited < std::time::Duration::from_secs(30),
                "{}",
                self.note()
            );
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// The entries of a kind, in order.
    fn entries(&self, kind: &str) -> Vec<Value> {
        let mut found = Vec::new();
        for file in walk(&self.dir().join("book/journal")) {
            let text = String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned();
            for line in text.lines().filter(|line| line.starts_with('{')) {
                let entry: Value = serde_json::from_str(line).unwrap();
                if entry["k"] == kind {
                    found.push(entry);
                }
            }
        }
        found
    }

    /// The statuses in the book, in order.
    fn statuses(&self) -> Vec<String> {
        let outcomes = self.entries("outcome").into_iter();
        outcomes
            .map(|entry| entry["status"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn walk(folder: &std::path::Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(walk(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files.sort();
    files
}

fn call(client: &mut Client, arguments: &Value) -> Value {
    client.tool("write_note", arguments).unwrap()["result"].clone()
}

#[test]
fn idm_a_dangerous_write_shows_a_diff_asks_again_when_it_changed_and_runs_once() {
    let world = house(|settings| {
        settings["servers"]["notes"]["tools"]["write_note"] = json!({
            "danger": "always",
            "preview": {"reads": [{"tool": "read_note", "arguments": {"title": {"from": "/title"}}}], "diff": {"new": "/text"}},
        });
    });
    world.write("one\ntwo\n");
    let mut client = world.client();
    let write = |more: Value| {
        let mut arguments = json!({"title": "a", "text": "one\nTWO\n", "idempotency_key": "k"});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        arguments
    };
    let first = call(&mut client, &write(json!({})));
    let prompt = &first["structuredContent"];
    assert_eq!(prompt["status"], "confirmation_required", "{first}");
    assert_eq!(prompt["preview"]["diff"], " one\n-two\n+TWO\n");
    assert_eq!(world.note(), "one\ntwo\n");
    world.write("one\n2\n");
    let again = call(
        &mut client,
        &write(json!({"confirm_token": prompt["confirm_token"]})),
    );
    let again = &again["structuredContent"];
    assert_eq!(again["reason"], "changed");
    assert_eq!(world.note(), "one\n2\n");
    let redeem = write(json!({"confirm_token": again["confirm_token"]}));
    let done = call(&mut client, &redeem);
    assert_eq!(done["isError"], false, "{done}");
    assert_eq!(world.note(), "one\nTWO\n");
    // Another process gives the same answer and changes nothing.
    client.close().unwrap();
    world.write("by hand");
    let mut client = world.client();
    let replay = call(&mut client, &redeem);
    assert_eq!(replay["content"], done["content"]);
    assert_eq!(replay["_meta"]["localhost.countersign/replayed"], true);
    assert_eq!(world.note(), "by hand");
    client.close().unwrap();
    let mut statuses = world.statuses();
    statuses.sort();
    // Three previews' reads and the write; two prompts.
    assert_eq!(
        statuses,
        [
            "confirmation_required",
            "confirmation_required",
            "ok",
            "ok",
            "ok",
            "ok"
        ]
    );
}

#[test]
fn apr_a_held_write_runs_once_when_the_person_approved_it() {
    let world = house(|settings| {
        settings["agents"]["bar"]["requires_approval"] = true.into();
        settings["approval"] = json!({"hold_seconds": 0});
    });
    let mut client = world.client();
    let arguments = json!({"title": "a", "text": "hello"});
    let pending = call(&mut client, &arguments);
    let pending = &pending["structuredContent"];
    assert_eq!(pending["status"], "pending_approval", "{pending}");
    let id = pending["approval_id"].as_str().unwrap();
    let shown = world.json(&format!("approvals show {id} --json"));
    assert_eq!(shown["arguments"], arguments);
    assert_eq!(
        world.json("approvals list --json")["approvals"][0]["approval_id"],
        id
    );
    assert_eq!(world.note(), "");
    assert_eq!(
        world.json(&format!("approvals approve {id} --json"))["state"],
        "approved"
    );
    let done = call(&mut client, &arguments);
    assert_eq!(
        (done["isError"].as_bool(), world.note().as_str()),
        (Some(false), "hello"),
        "{done}"
    );
    let after = client
        .tool("countersign_approval", &json!({"approval_id": id}))
        .unwrap();
    assert_eq!(after["result"]["content"], done["content"]);
    let again = call(&mut client, &arguments);
    assert_eq!(again["structuredContent"]["status"], "pending_approval");
    let id = again["structuredContent"]["approval_id"].as_str().unwrap();
    assert_eq!(
        world.json(&format!("approvals decline {id} --json"))["state"],
        "rejected"
    );
    let declined = call(&mut client, &arguments);
    assert_eq!(
        declined["structuredContent"]["context"]["rule"],
        "approval_declined"
    );
}

#[test]
fn apr_an_approved_write_runs_though_its_agent_does_not_ask_again() {
    let world = house(|settings| {
        settings["agents"]["bar"]["mode"] = "ask".into();
        settings["approval"] = json!({"hold_seconds": 0});
    });
    let mut client = world.client();
    let arguments = json!({"title": "a", "text": "hello"});
    let pending = call(&mut client, &arguments);
    let id = pending["structuredContent"]["approval_id"]
        .as_str()
        .unwrap();
    world.json(&format!("approvals approve {id} --json"));
    let begun = std::time::Instant::now();
    let fetched = loop {
        let asked = client
            .tool("countersign_approval", &json!({"approval_id": id}))
            .unwrap();
        let asked = asked["result"].clone();
        let state = &asked["structuredContent"]["state"];
        if state.is_null() {
            break asked;
        }
        assert!(
            begun.elapsed() < std::time::Duration::from_secs(15),
            "{asked}"
        );
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    assert_eq!(world.note(), "hello");
    assert_eq!(fetched["content"][0]["text"], "written");
    assert_eq!(fetched["_meta"]["localhost.countersign/replayed"], true);
    client.close().unwrap();
    let mut statuses = world.statuses();
    statuses.sort();
    assert_eq!(statuses, ["ok", "pending_approval"]);
}

#[test]
fn r50_an_executor_started_dry_runs_no_write() {
    let world = house(|_| ());
    let mut client = world.client_with(&["--dry-run"]);
    let preview = call(&mut client, &json!({"title": "a", "text": "hello"}));
    assert_eq!(preview["structuredContent"]["status"], "preview");
    let read = client.tool("read_note", &json!({"title": "a"})).unwrap();
    assert_eq!(read["result"]["isError"], true, "there is no such note");
    client.close().unwrap();
    assert_eq!(world.note(), "");
}

#[test]
#[cfg(unix)]
fn idm_a_killed_write_with_a_key_is_never_sent_again() {
    let world = house(|_| ());
    let mut client = world.client();
    let text = "line\n".repeat(500);
    let arguments = json!({"title": "a", "text": text, "idempotency_key": "k"});
    let params = json!({"name": "append_slowly", "arguments": arguments});
    client.post("tools/call", &params).unwrap();
    let begun = std::time::Instant::now();
    while world.note().is_empty() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(10));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // A running process is `run/<its id>-….lock`.
    let process = walk(&world.dir().join("run"))
        .iter()
        .filter_map(|path| Some(path.file_name()?.to_str()?.split_once('-')?.0.to_owned()))
        .find(|id| id.parse::<u32>().is_ok())
        .unwrap();
    let killed = std::process::Command::new("kill")
        .args(["-9", &process])
        .status()
        .unwrap();
    assert!(killed.success());
    drop(client);
    // Its server is ended with it; then nothing is written any more.
    let mut written = world.note();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(500));
        let now = world.note();
        if now == written {
            break;
        }
        written = now;
    }
    let mut client = world.client();
    for _ in 0..2 {
        let again = client.request("tools/call", &params).unwrap()["result"].clone();
        assert_eq!(
            again["structuredContent"]["code"], "outcome_unknown",
            "{again}"
        );
    }
    assert_eq!(world.note(), written);
    client.close().unwrap();
}

#[test]
fn apr_every_decision_about_a_held_call_is_in_the_book_before_the_call_runs() {
    let world = house(|settings| {
        settings["agents"]["bar"]["mode"] = "ask".into();
        settings["approval"] = json!({"hold_seconds": 0});
    });
    let mut client = world.client();
    let ask = |client: &mut Client, text: &str| {
        let answer = call(client, &json!({"title": "a", "text": text}));
        let id = answer["structuredContent"]["approval_id"].as_str();
        id.unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    let (declined, withdrawn, approved, unseen) = (
        ask(&mut client, "no"),
        ask(&mut client, "never mind"),
        ask(&mut client, "yes"),
        ask(&mut client, "yes, and nobody could write it down"),
    );
    let decline = world.json(&format!("approvals decline {declined} --json"));
    assert!(decline["on_record"].is_u64(), "{decline}");
    let withdraw = json!({"approval_id": withdrawn, "withdraw": true});
    client.tool("countersign_approval", &withdraw).unwrap();
    world.json(&format!("approvals approve {approved} --json"));
    world.await_note("yes");
    // A command that has no key of the book decides all the same; the executor writes it before it runs the call.
    let output = world
        .command(&format!("approvals approve {unseen} --json"))
        .env_remove("COUNTERSIGN_PASSPHRASE_FILE")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    world.await_note("yes, and nobody could write it down");
    client.close().unwrap();
    let made = world.entries("approval");
    let said: Vec<[&str; 5]> = made
        .iter()
        .map(|entry| {
            ["approval", "verdict", "actor", "via", "agent"]
                .map(|name| entry[name].as_str().unwrap())
        })
        .collect();
    let (no, yes) = (
        "countersign approvals decline",
        "countersign approvals approve",
    );
    let mut want = [
        [&*declined, "decline", "person", no, "bar"],
        [
            &*withdrawn,
            "withdraw",
            "agent",
            "countersign_approval",
            "bar",
        ],
        [&*approved, "approve", "person", yes, "bar"],
        [&*unseen, "approve", "person", yes, "bar"],
    ];
    want.sort_unstable();
    let mut sorted = said.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, want, "each once");
    for id in [&approved, &unseen] {
        let index = |entries: &[Value], is_it: &dyn Fn(&Value) -> bool| {
            let found = entries.iter().filter(|entry| is_it(entry));
            found.map(|entry| entry["i"].as_u64().unwrap()).max()
        };
        let decided = index(&made, &|entry| entry["approval"] == **id);
        let ran = index(&world.entries("call"), &|entry| entry["approval"] == **id);
        assert!(decided < ran && decided.is_some(), "{decided:?} {ran:?}");
    }
}
