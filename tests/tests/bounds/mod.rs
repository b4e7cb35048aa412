//! Protected files and bounded writes before real servers, by the real binary.

mod protect;
mod strikes;

use countersign_tests::client::{Client, code};
use countersign_tests::world::World;
use serde_json::{Value, json};

/// The answer's code; `None` where the server answered.
fn said(client: &mut Client, tool: &str, arguments: &Value) -> Option<String> {
    code(&client.call(tool, arguments))
}

/// Bounds the writes of agent `a` to what `allow` names below `workspace`.
fn bound(world: &World, workspace: &str, allow: &[&str]) {
    world.edit(|settings| {
        settings["agents"]["a"]["workspace"] = workspace.into();
        settings["agents"]["a"]["write_policy"] = json!({
            "version": 1, "metadata": {"id": "notes"}, "allow_writes": allow,
        });
    });
}

/// Lets servers that start slowly do so.
fn patient(world: &World) {
    world.edit(|settings| settings["limits"] = json!({"start_seconds": 600}));
}

/// The gates, verdicts and rules of all decisions, in order, after the book was verified.
fn decisions(world: &World) -> Vec<(String, String, String)> {
    world.must(&["book", "verify"]);
    let entries = world.journal().into_iter();
    let text = |entry: &Value, member: &str| entry[member].as_str().unwrap_or_default().to_owned();
    entries
        .filter(|entry| entry["k"] == "decision")
        .map(|entry| {
            (
                text(&entry, "gate"),
                text(&entry, "decision"),
                text(&entry, "rule"),
            )
        })
        .collect()
}
