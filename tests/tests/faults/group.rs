//! Many callers at once: how their entries share batches and syncs (B17). Counts system calls; no time is judged.

use countersign_tests::client::refusal;
use countersign_tests::hostile::Hostile;
use serde_json::json;

use super::{begun, traced};

/// Calls that are under way at once.
const CALLERS: usize = 64;
const ROUNDS: usize = 3;

#[test]
fn b17_one_sync_is_in_flight_and_carries_many_callers() {
    let (world, hostile, journal, _) = begun();
    let before = batches(&world.journal_files());
    let trace = world.path("trace");
    let path = journal.to_str().expect("a temporary path is text");
    // A disk that takes its time: whoever asks meanwhile shares the next batch.
    let slow = "inject=fdatasync:delay_exit=100000";
    let options = ["-P", path, "-e", "trace=fdatasync", "-e", slow];
    let mut client = traced(&world, &trace, &options);
    let mut next = 1_000;
    for _ in 0..ROUNDS {
        let ids: Vec<usize> = (next..next + CALLERS).collect();
        next += CALLERS;
        for id in &ids {
            client.send(&json!({
                "jsonrpc": "2.0", "id": id, "method": "tools/call",
                "params": {"name": "slow", "arguments": {"text": format!("n-{id}"), "ms": 0}},
            }));
        }
        // Nobody is forgotten.
        for id in ids {
            let answer = client.answer(&json!(id));
            assert_eq!(refusal(&answer), None);
        }
    }
    assert!(client.close().success());
    check_ran(&hostile);

    // By the trace: a sync of the journal begins only after the one before has ended, in whichever thread.
    let text = std::fs::read_to_string(&trace).expect("a trace");
    let (mut flying, mut syncs) = (0_usize, 0);
    for line in text.lines() {
        if line.contains("fdatasync(") {
            syncs += 1;
            assert_eq!(flying, 0, "two syncs at once: {line}");
            flying += usize::from(line.ends_with("<unfinished ...>"));
        } else if line.contains("<... fdatasync resumed") {
            flying -= 1;
        }
    }
    assert!(syncs > 0);

    // By the book, which verifies that indexes follow each other: the entries of the calls in so many batches.
    world.must(&["book", "verify"]);
    let (entries, checkpoints) = batches(&world.journal_files());
    let (entries, checkpoints) = (entries - before.0, checkpoints - before.1);
    assert!(entries >= 2 * CALLERS * ROUNDS, "{entries}");
    assert!(
        entries > 8 * checkpoints,
        "{entries} entries in {checkpoints} batches"
    );
    // The start of the process and its end have syncs of their own.
    assert!(
        syncs <= checkpoints + 10,
        "{syncs} syncs for {checkpoints} batches"
    );
}

fn check_ran(hostile: &Hostile) {
    let mut ran: Vec<String> = hostile
        .calls()
        .iter()
        .filter_map(|call| Some(call["arguments"]["text"].as_str()?.to_owned()))
        .filter(|text| text.starts_with("n-"))
        .collect();
    assert_eq!(ran.len(), CALLERS * ROUNDS);
    ran.sort();
    ran.dedup();
    assert_eq!(ran.len(), CALLERS * ROUNDS, "each ran once");
}

/// Entries and checkpoints, by the format.
fn batches(files: &[std::path::PathBuf]) -> (usize, usize) {
    let text: String = files
        .iter()
        .map(|file| std::fs::read_to_string(file).expect("a journal"))
        .collect();
    let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    (count("{"), count("#cp "))
}
