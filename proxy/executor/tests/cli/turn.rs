//! `turn` and `agent report` through the real binary: what is shown, what a person's act does and where it stands.

use countersign::folder::Folder;
use countersign::store::StateDb;
use countersign_gate::turn::StrikeClaim;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::World;

impl World {
    fn state(&self) -> StateDb {
        StateDb::open(&Folder::resolve(Some(&self.dir())).unwrap()).unwrap()
    }

    /// The store as two refused writes leave it.
    fn strike_twice(&self, agent: &str) {
        let state = self.state();
        let now = Timestamp::now();
        state.turn_arrive(agent, 0, now).unwrap();
        for n in 1..=2 {
            let facts = json!({"tool": "write_file", "requested_path": format!("docs/{n}\u{1b}[2J"), "matched_rule": "no_allow_match"});
            let claim = StrikeClaim {
                agent,
                call_id: &format!("01ARZ3NDEKTSV{n:013}"),
                facts: facts.as_object().unwrap(),
                now,
            };
            state.turn_strike(&claim).unwrap();
        }
    }

    fn text(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The problem of a command that does not do its work.
    fn problem(&self, line: &str) -> (Option<i32>, String) {
        let output = self.run(line);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let code = answer["error"]["code"].as_str().unwrap().to_owned();
        (output.status.code(), code)
    }
}

fn house() -> World {
    let world = World::new();
    for line in [
        "init --name t --secrets file --development",
        "agent add bar",
    ] {
        let output = world.run(line);
        assert!(output.status.success(), "{line}: {output:?}");
    }
    world
}

#[test]
fn p57_a_person_sees_an_ended_turn_and_lets_the_agent_go_on() {
    let world = house();
    assert_eq!(
        world.json("turn show --agent bar --json")["turn"],
        Value::Null
    );
    world.strike_twice("bar");
    let shown = world.json("turn show --agent bar --json");
    assert_eq!(
        (
            &shown["turn"]["is_over"],
            &shown["turn"]["number"],
            &shown["turn"]["limit"]
        ),
        (&json!(true), &json!(1), &json!(2)),
        "{shown}"
    );
    assert_eq!(
        shown["turn"]["strikes"][1]["matched_rule"],
        "no_allow_match"
    );
    assert!(
        shown.get("write_denials").is_none(),
        "a live view counts nothing"
    );
    let text = world.text("turn show --agent bar");
    assert!(
        text.contains("over") && text.contains("countersign turn open --agent bar"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let opened = world.json("turn open --agent bar --json");
    assert_eq!(
        (&opened["turn"]["number"], &opened["before"]["is_over"]),
        (&json!(2), &json!(true)),
        "{opened}"
    );
    let entry = opened["on_record"].as_u64().unwrap();
    let entry = world.json(&format!("book show {entry} --json"));
    assert_eq!(entry["kind"], "turn.open");
    assert_eq!(entry["entry"]["by"], "countersign turn open");
    assert_eq!(entry["entry"]["turn"], 2);
    assert!(
        !world
            .state()
            .turn_show("bar")
            .unwrap()
            .unwrap()
            .is_latched()
    );
    // The report is the book's: the person's act stands there, and no call does.
    let report = world.json("turn report --agent bar --json");
    assert_eq!(
        (&report["turn"], &report["status"]),
        (&json!(2), &json!("complete"))
    );
    assert_eq!(report["turns"][0]["opened"]["reason"], "person_command");
    assert_eq!(report["write_denials"], json!({"count": 0, "denials": []}));
}

#[test]
fn p61_a_report_of_a_book_that_cannot_be_read_says_so_and_exits_1() {
    let world = house();
    world.json("turn open --agent bar --json");
    let report = world.json("agent report --agent bar --json");
    assert_eq!(
        (&report["status"], &report["turns"][0]["turn"]),
        (&json!("complete"), &json!(1))
    );
    assert!(
        world
            .text("agent report --agent bar --since 1h")
            .contains("write denials: none")
    );
    let journal = world.dir().join("book/journal");
    let segment = std::fs::read_dir(journal)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let text = std::fs::read_to_string(&segment).unwrap();
    std::fs::write(&segment, text.replacen("\"turn\":1", "\"turn\":7", 1)).unwrap();
    for line in ["agent report --agent bar", "turn report --agent bar"] {
        let output = world.run(&format!("{line} --json"));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert_eq!(report["status"], "unavailable", "{line}");
        assert_eq!(report["write_denials"]["status"], "unavailable", "{line}");
        assert!(report["write_denials"].get("count").is_none(), "{line}");
    }
}

#[test]
fn an_agent_or_turn_that_is_not_there_is_said_to_be_not_there() {
    let world = house();
    for (line, exit, code) in [
        ("turn show --agent foo --json", 1, "agent_unknown"),
        ("turn open --agent foo --json", 1, "agent_unknown"),
        ("turn report --agent foo --json", 1, "turn_unknown"),
        ("turn report --agent bar --turn 9 --json", 1, "turn_unknown"),
        ("turn open --json", 2, "usage"),
        ("agent report --agent bar --since never --json", 2, "usage"),
    ] {
        assert_eq!(world.problem(line), (Some(exit), code.to_owned()), "{line}");
    }
    assert_eq!(
        world.json("agent report --agent foo --json")["calls"]["count"],
        0
    );
}
