//! What a person sees of the commands, as files: each `$ command` of `testdata/transcripts/*.txt` is run with the real binary and its output
//! compared. `UPDATE_TRANSCRIPTS=1 cargo test -p countersign --test cli` writes what is printed now.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says where it failed"
)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs one line of a transcript, `… < text` being what comes on standard input, and gives what was printed.
fn step(world: &Path, line: &str) -> String {
    let (line, input) = line.split_once(" < ").unwrap_or((line, ""));
    let words: Vec<&str> = line.split(' ').collect();
    if words[0] == "write" {
        std::fs::write(world.join(words[1]), words[2..].join(" ")).unwrap();
        return String::new();
    }
    assert_eq!(words[0], "countersign");
    let mut child = Command::new(env!("CARGO_BIN_EXE_countersign"))
        .args(&words[1..])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", world)
        .env("COUNTERSIGN_DIR", world.join("dir"))
        .env("COUNTERSIGN_PASSPHRASE_FILE", world.join("pw"))
        .current_dir(world)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that doesn't read its input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let mut text =
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    if output.status.code() != Some(0) {
        text.push_str(&format!("[exit {}]\n", output.status.code().unwrap()));
    }
    blank(
        &text
            .replace(&*world.to_string_lossy(), "WORLD")
            .replace(env!("CARGO_BIN_EXE_countersign"), "BIN"),
    )
}

/// Replaces what differs from run to run: key prefixes and UUIDs.
fn blank(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("csk_") {
        shown.push_str(&rest[..at]);
        shown.push_str("csk_########");
        rest = &rest[at + 12..];
    }
    shown.push_str(rest);
    let is_uuid = |word: &str| word.len() == 36 && word.bytes().filter(|b| *b == b'-').count() == 4;
    let words: Vec<&str> = shown
        .split('"')
        .map(|word| if is_uuid(word) { "UUID" } else { word })
        .collect();
    words.join("\"")
}

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/transcripts")
        .join(name);
    let expected = std::fs::read_to_string(&path).unwrap();
    let world = tempfile::tempdir().unwrap();
    let root = world.path().canonicalize().unwrap();
    crate::private(&root.join("pw"), "correct horse\n");
    let mut got = String::new();
    for line in expected.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let shown = step(&root, line);
        assert!(
            !shown.contains("s3cret-value"),
            "{name}: `{line}` shows a secret"
        );
        got.push_str(&format!("$ {line}\n{shown}"));
    }
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        std::fs::write(&path, &got).unwrap();
    }
    assert_eq!(got, std::fs::read_to_string(&path).unwrap(), "{name}");
}

#[cfg(unix)]
#[test]
fn setting_up_without_a_window() {
    check("setup.txt");
}

#[cfg(unix)]
#[test]
fn what_goes_wrong_is_said_with_a_remedy() {
    check("wrong.txt");
}

#[cfg(unix)]
#[test]
fn machine_form_is_one_object() {
    check("json.txt");
}
