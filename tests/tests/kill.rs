//! B14: power cuts. Processes that share one book are killed at random moments; what was acknowledged is there, once, signed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign_tests::client::refusal;
use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use serde_json::json;

/// Proxies at any moment.
const PROCESSES: usize = 4;

#[test]
fn b14_kill_loses_nothing_that_was_acknowledged() {
    let kills: usize = if std::env::var_os("COUNTERSIGN_LONG").is_some() {
        1_000
    } else {
        100
    };
    let (world, hostile) = Hostile::world(&json!({}));
    world.unlimited();
    let world = Arc::new(world);
    // Labels whose call was answered with success, that is: acknowledged.
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let killed = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..PROCESSES)
        .map(|worker| {
            let (world, acknowledged, killed, stop) = (
                world.clone(),
                acknowledged.clone(),
                killed.clone(),
                stop.clone(),
            );
            std::thread::spawn(move || {
                let mut round = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    cut(&world, worker, round, &acknowledged);
                    if killed.fetch_add(1, Ordering::Relaxed) + 1 >= kills {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("a worker ends well");
    }
    assert!(killed.load(Ordering::Relaxed) >= kills);

    // A last one in peace settles what the dead left open.
    let mut client = world.connect();
    assert!(refusal(&client.call("slow", &json!({"text": "last", "ms": 0}))).is_none());
    assert!(client.close().success());
    let recorded = world.recorded();
    let acknowledged = acknowledged.lock().expect("no panic while held").clone();
    assert!(
        acknowledged.len() > kills / 4,
        "only {} calls were acknowledged: nothing was tested",
        acknowledged.len()
    );

    // The server's own notes: what ran. Each acknowledged label ran once; the book has one call for each that ran.
    let mut ran: BTreeMap<String, usize> = BTreeMap::new();
    for call in hostile.calls() {
        *ran.entry(
            call["arguments"]["text"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
        .or_default() += 1;
    }
    for label in &acknowledged {
        assert_eq!(ran.get(label), Some(&1), "{label} was acknowledged");
    }
    assert!(ran.values().all(|times| *times == 1), "something ran twice");
    let calls = recorded.iter().filter(|call| call.tool == "slow").count();
    assert!(
        calls >= ran.len(),
        "{} calls ran, {calls} are on record",
        ran.len()
    );
    let ok = recorded
        .iter()
        .filter(|call| call.outcomes == ["ok"])
        .count();
    assert!(
        ok > acknowledged.len(),
        "{} acknowledged, {ok} recorded as ok",
        acknowledged.len()
    );
    for call in &recorded {
        assert_eq!(
            call.outcomes.len(),
            1,
            "one outcome each, none twice: {call:?}"
        );
        assert!(
            ["ok", "unknown"].contains(&call.outcomes[0].as_str()),
            "{call:?}"
        );
    }
    let mut indexes: Vec<u64> = world
        .journal()
        .iter()
        .map(|entry| entry["i"].as_u64().expect("an index"))
        .collect();
    let count = indexes.len() as u64;
    indexes.dedup();
    assert_eq!(
        indexes,
        (0..count).collect::<Vec<_>>(),
        "no index twice, none missing"
    );
}

/// Starts one proxy, calls until it is killed at a moment drawn from the round's number: every fourth time while it starts,
/// else some time after its first acknowledged call.
fn cut(world: &World, worker: usize, round: u64, acknowledged: &Mutex<Vec<String>>) {
    let mut client = world.run("a", "s");
    let pid = client.pid();
    let (first, awaited) = std::sync::mpsc::channel::<()>();
    let draw = (round * 7_919 + worker as u64 * 104_729) % 251;
    let killer = std::thread::spawn(move || {
        if !round.is_multiple_of(4) {
            // The channel closes when the connection ends early; then there is nothing to wait for.
            let _ = awaited.recv_timeout(countersign_tests::PATIENCE);
        }
        std::thread::sleep(Duration::from_millis(draw));
        countersign_tests::process::kill(pid);
    });
    let message = json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "kill", "version": "1"}}});
    let mut n = 0;
    if client.try_raw(format!("{message}\n").as_bytes()) && client.next_line().is_some() {
        client.try_raw(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        loop {
            n += 1;
            let label = format!("{worker}-{round}-{n}");
            let call = json!({"jsonrpc": "2.0", "id": label, "method": "tools/call", "params": {"name": "slow", "arguments": {"ms": 0, "text": label}}});
            if !client.try_raw(format!("{call}\n").as_bytes()) {
                break;
            }
            let Some(line) = client.next_line() else {
                break;
            };
            // The last line of a killed process may be cut.
            let Ok(answer) = serde_json::from_slice::<serde_json::Value>(&line) else {
                break;
            };
            if answer["id"] == json!(label) && refusal(&answer).is_none() {
                acknowledged
                    .lock()
                    .expect("no panic while held")
                    .push(label);
                let _ = first.send(());
            }
        }
    }
    drop(first);
    killer.join().expect("the killer ends");
    client.kill();
}
