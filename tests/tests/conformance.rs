//! The protocol's conformance suite against one fixture server, directly and through the real binary: the same results.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use countersign_tests::binary::tests_file;
use countersign_tests::world::World;
use countersign_tests::{peers, process};
use serde_json::Value;

/// Scenario and check, to status.
type Results = BTreeMap<(String, String), Vec<String>>;

/// The bridge from HTTP to stdio, killed with all it started when dropped.
struct Bridge {
    child: Child,
    url: String,
}

impl Bridge {
    fn before(command: &[String], environment: &[(&str, &Path)]) -> Self {
        let mut bridge = Command::new(peers::node());
        bridge
            .arg(tests_file("fixtures/conformance/bridge.mjs"))
            .args(command);
        for (name, value) in environment {
            bridge.env(name, value);
        }
        let mut child = bridge
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the bridge starts");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut url)
            .expect("the bridge says where it is");
        Self {
            child,
            url: url.trim().to_owned(),
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // The end of its input ends it, and with it its children's input.
        drop(self.child.stdin.take());
        process::wait(&mut self.child);
    }
}

/// The fixture server's command.
pub(crate) fn fixture() -> Vec<String> {
    vec![
        peers::node(),
        tests_file("fixtures/conformance/server.mjs")
            .display()
            .to_string(),
        peers::folder().join("node_modules").display().to_string(),
    ]
}

fn run(revision: &str, bridge: &Bridge, into: &Path) -> Results {
    let output = Command::new(peers::node())
        .arg(peers::node_module(".bin/conformance"))
        .args([
            "server",
            "--url",
            &bridge.url,
            "--requirements",
            revision,
            "--timeout",
            "90000",
            "--output-dir",
        ])
        .arg(into)
        .stdin(Stdio::null())
        .output()
        .expect("the suite starts");
    let mut results = Results::new();
    for entry in std::fs::read_dir(into)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"))
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        // `server-<scenario>-<time>`, the time being 24 characters.
        let scenario = name[..name.len().saturating_sub(25)].to_owned();
        let Ok(text) = std::fs::read_to_string(entry.path().join("checks.json")) else {
            results
                .entry((scenario, "no checks".into()))
                .or_default()
                .push("NONE".into());
            continue;
        };
        for check in serde_json::from_str::<Vec<Value>>(&text).expect("JSON") {
            let word = |member: &str| check[member].as_str().unwrap_or_default().to_owned();
            results
                .entry((scenario.clone(), word("id")))
                .or_default()
                .push(word("status"));
        }
    }
    results.values_mut().for_each(|statuses| statuses.sort());
    results
}

fn same_directly_and_through_the_gate(revision: &str, least: usize) {
    let world = World::new();
    world.server("s", &fixture());
    world.must(&["server", "set", "s", "--pass", "roots,sampling,elicitation"]);
    world.agent("a");
    world.unlimited();

    let direct = run(
        revision,
        &Bridge::before(&fixture(), &[]),
        &world.path("direct"),
    );
    let passed = direct
        .values()
        .flatten()
        .filter(|status| *status == "SUCCESS")
        .count();
    assert!(
        passed >= least,
        "{revision}: directly only {passed} checks pass: {direct:?}"
    );

    let gated = vec![
        countersign_tests::binary::countersign()
            .display()
            .to_string(),
        "run".into(),
        "--agent".into(),
        "a".into(),
        "--server".into(),
        "s".into(),
    ];
    let (dir, passphrase) = (world.dir(), world.path("passphrase"));
    let environment = [
        ("COUNTERSIGN_DIR", dir.as_path()),
        ("COUNTERSIGN_PASSPHRASE_FILE", passphrase.as_path()),
    ];
    let through = run(
        revision,
        &Bridge::before(&gated, &environment),
        &world.path("gated"),
    );

    let differing: Vec<String> = direct
        .keys()
        .chain(through.keys())
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .filter(|check| direct.get(check) != through.get(check))
        .map(|check| {
            format!(
                "{check:?}: directly {:?}, through the gate {:?}",
                direct.get(check),
                through.get(check)
            )
        })
        .collect();
    assert!(
        differing.is_empty(),
        "{revision}:\n{}",
        differing.join("\n")
    );
    world.must(&["book", "verify"]);
}

#[test]
fn m42_m45_revision_2025_11_25() {
    same_directly_and_through_the_gate("2025-11-25", 80);
}

#[test]
fn m45_m55_revision_2026_07_28() {
    same_directly_and_through_the_gate("2026-07-28", 140);
}
