//! What running executors put in order by themselves: entries older than `book.retain`, signing keys that are retired.

use std::time::{Duration, Instant};

use countersign::keeper::sources;
use countersign::secrets::{Account, SecretStore};
use countersign_book::Sources;
use serde_json::{Value, json};

use super::acts::{store, write, write_with};
use super::held::house;
use crate::World;

const PATIENCE: Duration = Duration::from_secs(30);

/// A clock that stands `days` behind.
fn days_ago(days: i64) -> Sources {
    let behind = jiff::SignedDuration::from_hours(24 * days);
    Sources {
        clock: Box::new(move || jiff::Timestamp::now() - behind),
        ..sources()
    }
}

/// An executor whose book has entries written so many days ago, in this order, ten calls each.
fn aged(retain: &Value, ages: &[i64]) -> World {
    let world = house(|settings| settings["book"] = json!({"retain": retain}));
    for (n, days) in (0..).zip(ages) {
        write_with(&world, 10 * n..10 * n + 10, days_ago(*days));
    }
    // The first segment begins with an entry of today, which would keep all of it.
    let pruned = world.json("book prune --before 12 --yes --json");
    assert!(pruned["entry"].is_u64(), "{pruned}");
    world
}

/// What was pruned after the start.
fn prunes(world: &World) -> Vec<Value> {
    let listed = world.json("book list --json");
    let entries = listed["entries"].as_array().unwrap().iter();
    let found = entries.filter(|entry| entry["kind"] == "prune").skip(1);
    found.map(|entry| entry["entry"].clone()).collect()
}

fn first(world: &World) -> u64 {
    world.json("book verify --json")["first"]
        .as_u64()
        .unwrap_or(0)
}

/// Runs some executors until `over`.
fn run(world: &World, executors: usize, over: impl Fn() -> bool) {
    let mut clients: Vec<_> = (0..executors).map(|_| world.client()).collect();
    let end = Instant::now() + PATIENCE;
    while !over() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    for client in &mut clients {
        client.request("tools/list", &json!({})).unwrap();
    }
    drop(clients);
}

#[test]
fn running_executors_prune_what_is_older_than_the_setting_once_and_on_record() {
    let world = aged(&json!(365), &[400, 380, 2]);
    run(&world, 3, || !prunes(&world).is_empty());
    let found = prunes(&world);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["by"], "the setting book.retain");
    assert_eq!(found[0]["reason"], "older than 365 days");
    let verified = world.json("book verify --json");
    assert_eq!(verified["verdict"], "ok", "{verified:#}");
    let minimum = found[0]["minimum"].as_u64().unwrap();
    assert_eq!(first(&world), minimum);
    // 40 old entries after the first one; the last old segment holds newer ones, too.
    assert!((20..=41).contains(&minimum), "{minimum}");
    // Nothing is left to do for the next ones.
    run(&world, 1, || true_after(Duration::from_secs(2)));
    assert_eq!(prunes(&world).len(), 1);
}

/// Waits; always true.
fn true_after(time: Duration) -> bool {
    std::thread::sleep(time);
    true
}

#[test]
fn nothing_is_pruned_without_the_setting_or_under_a_clock_that_leapt() {
    for (retain, ages, said) in [
        (Value::Null, [400, 380, 2].as_slice(), ""),
        (json!(365), [300, 200, 2].as_slice(), ""),
        // Nothing was written for more than a month: either the machine was off or its clock is wrong.
        (
            json!(365),
            [400, 380, 370].as_slice(),
            "the clock may be wrong",
        ),
    ] {
        let world = aged(&retain, ages);
        let before = first(&world);
        let log = world.root().join("log");
        let heard = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains(said));
        run(&world, 1, || match said {
            "" => true_after(Duration::from_secs(2)),
            _ => heard(),
        });
        assert!(heard(), "{ages:?}");
        assert_eq!(
            (prunes(&world), first(&world)),
            (Vec::new(), before),
            "{ages:?}"
        );
    }
}

#[test]
fn b31_a_key_that_signs_nothing_any_more_leaves_the_secret_store() {
    let world = house(|_| {});
    let before = || store(&world).get(&Account::book_signing_before()).unwrap();
    assert!(world.run("key rotate --yes").status.success());
    assert!(before().is_some());
    // It still signs.
    write(&world, 0..10);
    run(&world, 1, || true_after(Duration::from_secs(2)));
    assert!(before().is_some());
    write(&world, 10..600);
    run(&world, 1, || before().is_none());
    assert!(before().is_none());
    let verified = world.json("book verify --json");
    assert_eq!(verified["verdict"], "ok", "{verified:#}");
    write(&world, 600..601);
}

#[test]
fn a_change_of_the_settings_is_recorded_once_with_the_command_that_made_it() {
    let world = house(|_| {});
    let recorded = || -> Vec<String> {
        let listed = world.json("book list --json");
        let entries = listed["entries"].as_array().unwrap().iter();
        let found = entries.filter(|entry| entry["kind"] == "settings");
        let by = found.map(|entry| entry["entry"]["by"].as_str().unwrap().to_owned());
        by.collect()
    };
    // What the house did by hand is the last word before the start.
    run(&world, 1, || !recorded().is_empty());
    assert_eq!(recorded(), ["unknown"]);
    let mut expected = recorded();
    // While none runs, then while three do.
    for line in ["tool set notes write_note --kind write", "agent add other"] {
        assert!(world.run(line).status.success(), "{line}");
    }
    expected.push("tool set notes write_note; agent add other".to_owned());
    run(&world, 3, || recorded().len() > 1);
    assert_eq!(recorded(), expected);
    let mut clients: Vec<_> = (0..3).map(|_| world.client()).collect();
    for line in ["off", "on", "server set notes --env A=b"] {
        assert!(world.run(line).status.success(), "{line}");
        // Judged under the new settings, whatever becomes of it.
        for client in &mut clients {
            client.tool("read_note", &json!({"title": "a"})).unwrap();
        }
    }
    drop(clients);
    let found = recorded().split_off(expected.len());
    let all = found.join("; ");
    assert_eq!(
        all, "off; on; server set notes",
        "each change once: {found:?}"
    );
}
