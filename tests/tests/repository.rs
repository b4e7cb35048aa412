//! The repository looks at itself: arrows between crates, heads and sizes of files, leftovers, licences, generated files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use countersign_tests::binary::root;
use countersign_tests::world::World;
use serde_json::Value;

/// Which crate of ours may use which.
const ARROWS: [(&str, &[&str]); 5] = [
    ("countersign-book", &[]),
    ("countersign-permission", &[]),
    ("countersign-gate", &["countersign-permission"]),
    (
        "countersign",
        &[
            "countersign-book",
            "countersign-gate",
            "countersign-permission",
        ],
    ),
    ("countersign-tests", &[]),
];

/// What crates without IO may not depend on.
const IO: [&str; 9] = [
    "tokio",
    "reqwest",
    "hyper",
    "rusqlite",
    "keyring-core",
    "getrandom",
    "rand",
    "process-wrap",
    "clap",
];

/// Files over the limit of lines, with the reason. The list only gets shorter.
const LONG: [(&str, &str); 1] = [(
    "proxy/executor/src/doctor/checks.rs",
    "a list: one check after the other, each with its remedy",
)];

/// Files that are tests from end to end have no limit.
fn is_test(path: &Path) -> bool {
    path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests")
}

/// Most lines of a file, tests and tables apart.
const LINES: usize = 500;

fn sources(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir()
                && !["target", "node_modules"]
                    .iter()
                    .any(|skipped| path.ends_with(skipped))
            {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no sources in {folder}");
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root())
        .expect("inside")
        .display()
        .to_string()
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
            "--manifest-path",
        ])
        .arg(root().join("Cargo.toml"))
        .output()
        .expect("cargo starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn arrows_point_from_io_to_pure() {
    let metadata = metadata();
    let mut seen = BTreeMap::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let uses: BTreeSet<&str> = package["dependencies"]
            .as_array()
            .expect("dependencies")
            .iter()
            .filter(|dependency| dependency["kind"] != "dev")
            .map(|dependency| dependency["name"].as_str().expect("a name"))
            .collect();
        let ours: Vec<&str> = uses
            .iter()
            .copied()
            .filter(|name| name.starts_with("countersign"))
            .collect();
        let allowed = ARROWS
            .iter()
            .find(|(of, _)| *of == name)
            .unwrap_or_else(|| panic!("{name} has no row in ARROWS"))
            .1;
        for used in &ours {
            assert!(allowed.contains(used), "{name} may not use {used}");
        }
        if [
            "countersign-book",
            "countersign-permission",
            "countersign-gate",
        ]
        .contains(&name)
        {
            for used in IO {
                assert!(
                    !uses.contains(used),
                    "{name} does no IO and may not use {used}"
                );
            }
            assert!(
                root()
                    .join("proxy")
                    .join(name.trim_start_matches("countersign-"))
                    .join("clippy.toml")
                    .is_file()
            );
        }
        seen.insert(name.to_owned(), ours.len());
    }
    assert_eq!(seen.len(), ARROWS.len(), "{seen:?}");
}

#[test]
fn every_file_says_what_it_owns() {
    for path in sources("proxy").into_iter().chain(sources("tests")) {
        let text = std::fs::read_to_string(&path).expect("text");
        let head = text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .count();
        let fuzz = text.starts_with("#![no_main]");
        assert!(head >= 1 || fuzz, "{} opens without `//!`", relative(&path));
    }
}

#[test]
fn files_stay_small() {
    for path in sources("proxy").into_iter().filter(|path| !is_test(path)) {
        let name = relative(&path);
        let text = std::fs::read_to_string(&path).expect("text");
        let body = text
            .split("#[cfg(test)]\nmod ")
            .next()
            .expect("a first part");
        let lines = body.lines().count();
        let listed = LONG.iter().any(|(long, _)| *long == name);
        if lines > LINES {
            assert!(
                listed,
                "{name} has {lines} lines without its tests: split it, or give the reason in LONG"
            );
        } else {
            assert!(!listed, "{name} is short again: take it off LONG");
        }
    }
}

#[test]
fn nothing_is_left_over() {
    // Spelled apart, so that this file does not hold them.
    let leftovers = [
        ["to", "do!("],
        ["unimple", "mented!("],
        ["db", "g!("],
        ["FIX", "ME"],
        ["TO", "DO:"],
    ]
    .map(|parts| parts.concat());
    for path in sources("proxy").into_iter().chain(sources("tests")) {
        let text = std::fs::read_to_string(&path).expect("text");
        for leftover in &leftovers {
            assert!(
                !text.contains(leftover.as_str()),
                "{} holds `{leftover}`",
                relative(&path)
            );
        }
        let unsafe_block = ["unsafe", " {"].concat();
        let allowed = relative(&path).starts_with("proxy/executor/src/platform");
        assert!(
            allowed || !text.contains(&unsafe_block),
            "{} holds unsafe code",
            relative(&path)
        );
    }
}

#[test]
fn b8_the_wrong_canonical_form_is_not_locked() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).expect("a lock file");
    let mut lines = lock.lines();
    let mut found = false;
    while let Some(line) = lines.next() {
        if line == "name = \"serde_jcs\"" {
            let version = lines.next().expect("a version");
            assert!(!version.contains("\"0.1."), "serde_jcs {version}");
            found = true;
        }
    }
    assert!(found, "serde_jcs is locked");
}

#[test]
fn lock_files_name_no_mirror() {
    let npm = std::fs::read_to_string(root().join("tests/peers/package-lock.json"))
        .expect("the peers' lock file");
    assert!(
        !npm.contains("\"resolved\""),
        "download addresses in package-lock.json"
    );
    for file in ["requirements-current.txt", "requirements-previous.txt"] {
        let text =
            std::fs::read_to_string(root().join("tests/peers").join(file)).expect("requirements");
        assert!(!text.contains("://") && !text.contains(" @ "), "{file}");
        assert!(
            text.lines()
                .all(|line| line.is_empty() || line.starts_with('#') || line.contains("==")),
            "{file}: every version pinned"
        );
    }
}

#[test]
fn the_schema_of_the_settings_is_current() {
    let committed = std::fs::read_to_string(root().join("proxy/executor/executor.schema.json"))
        .expect("proxy/executor/executor.schema.json");
    let world = World::bare();
    assert_eq!(
        world.must(&["config", "schema"]).trim_end(),
        committed.trim_end(),
        "run `countersign config schema`"
    );
}

#[test]
fn the_readme_names_commands_that_exist() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    for command in [
        "cargo run --release -p countersign -- try",
        "bash tests/run",
    ] {
        assert!(readme.contains(command), "`{command}` is not in README.md");
    }
    let world = World::bare();
    for line in readme
        .lines()
        .map(|line| line.trim_start_matches(['$', ' ']))
        .filter(|line| line.starts_with("countersign "))
    {
        let words: Vec<&str> = line
            .split_whitespace()
            .skip(1)
            .take_while(|word| word.chars().all(|letter| letter.is_ascii_lowercase()))
            .collect();
        if let Some(first) = words.first() {
            world.must(&[first, "--help"]);
        }
    }
}
