//! Keys, erasing and pruning while executors run, and the vectors of the format before a verifier that is not ours.

use std::path::Path;
use std::process::Command;

use countersign_tests::binary::root;
use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use serde_json::json;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("created");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("copied");
        }
    }
}

/// The exit code of `verify.py` on a book.
fn python(book: &Path, vkey: Option<&str>) -> (i32, String) {
    let output = Command::new("python3")
        .arg(root().join("proxy/book/verify.py"))
        .arg(book)
        .args(vkey)
        .output()
        .expect("python3 starts");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn every_vector_is_judged_by_python_as_its_name_says() {
    let testdata = root().join("proxy/book/testdata");
    let temporary = tempfile::tempdir().expect("a folder");
    let book = temporary.path().join("book");
    copy(&testdata.join("book"), &book);
    let mut seen = 0;
    let expected = |name: &str| -> i32 {
        let code = name.split('-').next().expect("a code");
        code.parse().expect("a number")
    };
    for entry in std::fs::read_dir(testdata.join("books")).expect("vectors") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("text");
        let (code, said) = python(&entry.path(), None);
        assert_eq!(code, expected(&name), "{name}: {said}");
        seen += 1;
    }
    let second = book.join("journal/00000000000000000014.jsonl");
    let whole = std::fs::read(&second).expect("a segment");
    for entry in std::fs::read_dir(testdata.join("journals")).expect("vectors") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("text");
        // Of one segment: the payloads beyond it are no matter here.
        std::fs::remove_file(&second).ok();
        std::fs::copy(
            entry.path(),
            book.join("journal/00000000000000000000.jsonl"),
        )
        .expect("copied");
        let (code, said) = python(&book, None);
        assert_eq!(code, expected(&name), "{name}: {said}");
        seen += 1;
    }
    assert!(!whole.is_empty() && seen > 45, "{seen}");
}

#[test]
fn b31_running_executors_take_the_new_key_and_no_call_is_refused() {
    let world = World::new();
    let hostile = Hostile::new(&world, "s", &json!({}));
    world.server("s", &hostile.command);
    world.agent("a");
    world.unlimited();
    let before = world.json(&["key", "show"]);
    let genesis = before["keys"][0]["vkey"]
        .as_str()
        .expect("a vkey")
        .to_owned();
    let mut clients = [world.connect(), world.connect()];
    for round in 0..3 {
        for client in &mut clients {
            let answer = client.call("constant", &json!({}));
            assert!(answer["result"].is_object(), "round {round}: {answer}");
        }
        world.must(&["key", "rotate", "--yes", "--reason", "round"]);
        for client in &mut clients {
            let answer = client.call("constant", &json!({}));
            assert!(answer["result"].is_object(), "round {round}: {answer}");
        }
    }
    // Erasing and pruning go on beside them.
    let index = world
        .journal()
        .iter()
        .position(|entry| entry["k"] == "call" && entry["args"]["at"].is_object())
        .expect("a kept payload")
        .to_string();
    world.must(&["book", "erase", &index, "--yes"]);
    world.must(&["book", "prune", "--before", &index, "--yes"]);
    for client in &mut clients {
        let answer = client.call("constant", &json!({}));
        assert!(answer["result"].is_object(), "{answer}");
    }
    let refused = world.fails(&["book", "new-era", "--yes"]);
    assert!(
        refused.all().contains("executors are running"),
        "{refused:?}"
    );
    for client in clients {
        assert!(client.close().success());
    }
    assert_eq!(world.outcomes("constant"), vec!["ok"; 14]);
    let keys = world.json(&["key", "show"]);
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(4));
    let last = keys["keys"][3]["vkey"].as_str().expect("a vkey");
    let book = world.dir().join("book");
    for vkey in [None, Some(genesis.as_str()), Some(last)] {
        let (code, said) = python(&book, vkey);
        assert_eq!(code, 0, "{vkey:?}: {said}");
        let mut arguments = vec!["book", "verify"];
        arguments.extend(vkey.iter().flat_map(|vkey| ["--vkey", vkey]));
        world.must(&arguments);
    }
    world.must(&["book", "new-era", "--yes", "--reason", "the test is over"]);
    let mut client = world.connect();
    assert!(client.call("constant", &json!({}))["result"].is_object());
    assert!(client.close().success());
    world.must(&["book", "verify"]);
    assert!(
        world.journal().iter().any(|entry| entry["k"] == "settings"),
        "the settings stand in the new book"
    );
}
