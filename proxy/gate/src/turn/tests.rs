//! Strikes, turns and `write_denials`, by their checklist numbers.

use countersign_permission::Kind;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::memory::MemoryTurns;
use super::*;
use crate::paths::memory::Disk;
use crate::paths::{Declared, Effect};
use crate::policy::{Judge, Policy};
use crate::refusal::{Code, Refusal};
use crate::tests::world::block_on;

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + minutes * 60).unwrap()
}

/// Step 8 over turns in memory; every fact and decision goes to the book in order.
struct World {
    disk: Disk,
    policy: Policy,
    turns: MemoryTurns,
    book: Vec<BookFact>,
    calls: u64,
}

impl World {
    fn new() -> Self {
        Self {
            disk: Disk::new().file("/w/src/a").link("/w/link", "src"),
            policy: Policy::from_value(&json!({"version": 1, "allow_writes": ["src/**"]})).unwrap(),
            turns: MemoryTurns::default(),
            book: Vec::new(),
            calls: 0,
        }
    }

    fn note(&mut self, agent: &str, turn: u64, event: Event) {
        self.book.push(BookFact {
            index: self.book.len() as u64,
            agent: agent.to_string(),
            turn: Some(turn),
            event,
        });
    }

    fn facts(&mut self, facts: &[TurnFact]) {
        for fact in facts {
            let event = Event::Turn {
                what: fact.what,
                reason: fact.reason.clone(),
            };
            self.note(&fact.agent, fact.turn, event);
        }
        block_on(self.turns.recorded(facts)).unwrap();
    }

    fn call(
        &mut self,
        agent: &str,
        tool: &str,
        arguments: &Value,
        minutes: i64,
    ) -> Result<(), Box<Refusal>> {
        self.call_idle(agent, tool, arguments, minutes, 0)
    }

    fn call_idle(
        &mut self,
        agent: &str,
        tool: &str,
        arguments: &Value,
        minutes: i64,
        idle_minutes: u32,
    ) -> Result<(), Box<Refusal>> {
        self.calls += 1;
        let call_id = format!("c{}", self.calls);
        let declared: &[(&str, Effect)] = match tool {
            "write" => &[("/path", Effect::Write)],
            "shell" => &[("/command", Effect::Command)],
            _ => &[],
        };
        let declared: Vec<Declared> = declared
            .iter()
            .map(|(pointer, effect)| Declared {
                pointer: (*pointer).to_string(),
                effect: *effect,
            })
            .collect();
        let arguments = arguments.to_string();
        let case = Case {
            agent,
            call_id: &call_id,
            tool,
            idle_minutes,
            now: at(minutes),
            judge: Some(Judge {
                files: &self.disk,
                policy: &self.policy,
                workspace: "/w",
                tool,
                kind: if tool == "read" {
                    Kind::Read
                } else {
                    Kind::Write
                },
                declared: &declared,
            }),
            arguments: arguments.as_bytes(),
        };
        let bounded = block_on(bounded(case, &self.turns)).unwrap();
        let (answer, decision) = match bounded.verdict {
            Passed::On { decision, .. } => (Ok(()), decision),
            Passed::Refused { refusal, decision } => (Err(refusal), decision),
        };
        // The denial is in the book before the turn it ends.
        let (opened, failed): (Vec<_>, Vec<_>) = bounded
            .facts
            .into_iter()
            .partition(|fact| fact.what != What::Failed);
        self.facts(&opened);
        if let Some(decision) = decision {
            let event = Event::Decision {
                call: call_id,
                gate: decision.gate.to_string(),
                denied: decision.verdict == crate::ports::Verdict::Deny,
                rule: decision.rule,
                aim: decision.aim,
                facts: decision.bounds,
            };
            self.note(agent, bounded.turn, event);
        }
        self.facts(&failed);
        answer
    }

    fn bad(&mut self, agent: &str) -> Code {
        self.call(agent, "write", &json!({"path": "docs/a"}), 0)
            .unwrap_err()
            .code
    }

    fn open(&mut self, agent: &str, by: By, minutes: i64) -> bool {
        let stands = block_on(self.turns.open(agent, by, at(minutes))).unwrap();
        if let Some(stands) = &stands {
            self.facts(&stands.facts);
        }
        stands.is_some()
    }

    fn report(&self, agents: &[&str]) -> Value {
        let facts = self.book.iter().cloned().map(Ok::<_, String>);
        WriteDenials::fold(agents, facts).document()
    }

    fn dispositions(&self, agent: &str) -> Vec<String> {
        let report = self.report(&[agent]);
        let list = report["denials"].as_array().unwrap().iter();
        list.map(|denial| denial["disposition"].as_str().unwrap().to_string())
            .collect()
    }
}

#[test]
fn p53_e7_the_first_strike_is_an_answer_and_other_calls_go_on() {
    let mut world = World::new();
    let refusal = world
        .call("a", "write", &json!({"path": "docs/a"}), 0)
        .unwrap_err();
    assert_eq!((refusal.code, refusal.step), (Code::WritePolicyDenied, 8));
    assert_eq!(
        refusal.context["actions"],
        json!(["request_policy_expansion", "write_within_allowed_globs"])
    );
    assert!(
        world
            .call("a", "read", &json!({"path": "/etc/x"}), 0)
            .is_ok()
    );
    assert!(
        world
            .call("a", "write", &json!({"path": "src/b"}), 0)
            .is_ok()
    );
    assert_eq!(world.dispositions("a"), ["unresolved"]);
}

#[test]
fn p54_p55_p56_the_second_strike_latches_whatever_its_tool_and_rule() {
    let mut world = World::new();
    assert_eq!(world.bad("a"), Code::WritePolicyDenied);
    let second = world
        .call("a", "shell", &json!({"command": "cat ~/x"}), 0)
        .unwrap_err();
    assert_eq!(second.code, Code::TurnTerminated);
    for context in [
        second.context.clone(),
        // Reads, good writes, unknown and malformed ones: all the same, and no strike more.
        world.call("a", "read", &json!({}), 1).unwrap_err().context,
        world
            .call("a", "write", &json!({"path": "src/b"}), 2)
            .unwrap_err()
            .context,
        world.call("a", "write", &json!({}), 3).unwrap_err().context,
    ] {
        assert_eq!(context["strikes"], json!(["c1", "c2"]));
        assert_eq!(context["denial"]["matched_rule"], "outside_workspace");
        assert_eq!(context["denial"]["token"], "~/x");
        assert!(context["denial"].get("why").is_none());
    }
    let failed: Vec<_> = world.book.iter().filter(|fact| matches!(&fact.event, Event::Turn { what: What::Failed, reason } if reason == "write_policy_denied")).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(world.dispositions("a"), ["recovered", "fatal"]);
    // Another agent is not touched.
    assert_eq!(world.bad("b"), Code::WritePolicyDenied);
}

#[test]
fn p57_e9_only_a_person_opens_a_new_turn_and_a_hook_never_a_latched_one() {
    let mut world = World::new();
    assert_eq!(world.bad("a"), Code::WritePolicyDenied);
    assert!(world.open("a", By::Hook, 1));
    assert_eq!(
        world.bad("a"),
        Code::WritePolicyDenied,
        "a new turn has no strike"
    );
    assert_eq!(world.bad("a"), Code::TurnTerminated);
    assert!(!world.open("a", By::Hook, 2));
    assert_eq!(world.bad("a"), Code::TurnTerminated);
    assert!(world.open("a", By::Command, 3));
    assert_eq!(world.bad("a"), Code::WritePolicyDenied);
    assert!(world.open("a", By::App, 4));
    assert_eq!(
        world.dispositions("a"),
        ["recovered", "recovered", "fatal", "recovered"]
    );
    let turn = block_on(world.turns.show("a")).unwrap().unwrap();
    assert_eq!((turn.number, turn.strikes.len()), (4, 0));
}

#[test]
fn p52_the_limit_is_two() {
    assert_eq!(LIMIT, 2);
}

#[test]
fn p57_an_idle_turn_ends_only_where_asked_and_without_a_strike() {
    let mut world = World::new();
    let good = json!({"path": "src/b"});
    let number = |world: &World| block_on(world.turns.show("a")).unwrap().unwrap().number;
    world.call_idle("a", "write", &good, 0, 0).unwrap();
    world.call_idle("a", "write", &good, 10_000, 0).unwrap();
    assert_eq!(number(&world), 1);
    world.call_idle("a", "write", &good, 10_010, 30).unwrap();
    assert_eq!(number(&world), 2);
    for minutes in [10_030, 10_050, 10_070] {
        world.call_idle("a", "write", &good, minutes, 30).unwrap();
    }
    assert_eq!(number(&world), 2, "it was never idle for so long");
    world
        .call_idle("a", "write", &json!({"path": "x"}), 10_071, 30)
        .unwrap_err();
    world.call_idle("a", "write", &good, 20_000, 30).unwrap();
    assert_eq!(number(&world), 2, "a strike does not run out");
    // A clock that goes back ends nothing.
    world.call_idle("a", "write", &good, 5, 30).unwrap();
    assert_eq!(number(&world), 2);
}

#[test]
fn p32_p49_p73_e8_what_does_not_count() {
    let mut world = World::new();
    for _ in 0..3 {
        let code = world
            .call("a", "shell", &json!({"command": "make"}), 0)
            .unwrap_err()
            .code;
        assert_eq!(code, Code::ShellDisabled);
        let code = world
            .call("a", "write", &json!({"path": ""}), 0)
            .unwrap_err()
            .code;
        assert_eq!(code, Code::ValidationFailed);
    }
    assert_eq!(world.report(&["a"]), json!({"count": 0, "denials": []}));
    assert_eq!(world.bad("a"), Code::WritePolicyDenied);
    assert_eq!(world.bad("a"), Code::TurnTerminated);
    assert_eq!(world.dispositions("a"), ["recovered", "fatal"]);
}

#[test]
fn a_strike_is_counted_once_per_call() {
    let turns = MemoryTurns::default();
    let facts = Map::new();
    let strike = |call_id: &str| {
        let claim = StrikeClaim {
            agent: "a",
            call_id,
            facts: &facts,
            now: at(0),
        };
        block_on(turns.strike(claim)).unwrap().counted
    };
    let got: Vec<Counted> = ["1", "1", "2", "1", "2", "3"]
        .into_iter()
        .map(strike)
        .collect();
    assert_eq!(
        got,
        [
            Counted::First,
            Counted::First,
            Counted::Second,
            Counted::First,
            Counted::Second,
            Counted::Latched
        ]
    );
}

#[test]
fn without_a_policy_a_turn_opens_and_nothing_is_judged() {
    let turns = MemoryTurns::default();
    let case = Case {
        agent: "a",
        call_id: "c",
        tool: "t",
        idle_minutes: 0,
        now: at(0),
        judge: None,
        arguments: b"{}",
    };
    let first = block_on(bounded(case, &turns)).unwrap();
    assert_eq!((first.turn, first.facts[0].what), (1, What::Opened));
    assert!(matches!(first.verdict, Passed::On { decision: None, .. }));
    assert_eq!(block_on(turns.owed(at(1))).unwrap().len(), 1);
    block_on(turns.recorded(&first.facts)).unwrap();
    assert!(block_on(turns.owed(at(1))).unwrap().is_empty());
}

#[test]
fn the_sentence_of_a_terminated_turn() {
    let mut world = World::new();
    world.bad("a");
    let text = world
        .call("a", "write", &json!({"path": "link/x"}), 0)
        .unwrap_err()
        .shown("r")
        .text;
    assert_eq!(
        text,
        "turn_terminated: `write` was not run: `link/x` goes through the link `link`, and writes do not go through links, and this was the second refusal of this kind in this turn, so the turn is over. Nothing was changed, and no call of yours, reads included, is run until the person opens a new turn. What to do: Stop calling tools now. Tell the person what you tried to write both times, why, and which paths you would need. Only the person can let you go on: with `let it go on` in the app, or with `countersign turn open --agent a`."
    );
}

/// `U` opens, `A` closes, `D` is a denial, `F` the fatal end, `P` an end for another reason, `S` a disabled shell; a digit behind it is the
/// turn it names.
fn fold(turn: &str) -> Vec<String> {
    let facts = turn.split(' ').enumerate().map(|(index, word)| {
        let (letter, number) = word.split_at(1);
        let mut facts = Map::new();
        facts.insert("requested_path".to_string(), "link/deep/out.txt".into());
        facts.insert("normalized_path".to_string(), "link".into());
        facts.insert("symlink_component".to_string(), "link".into());
        facts.insert("secret".to_string(), "no".into());
        let turn = |what, reason: &str| Event::Turn {
            what,
            reason: reason.to_string(),
        };
        let decision = |rule: &str| Event::Decision {
            call: format!("c{index}"),
            gate: "write_policy".to_string(),
            denied: true,
            rule: rule.to_string(),
            aim: None,
            facts: facts.clone(),
        };
        let event = match letter {
            "U" => turn(What::Opened, "first_call"),
            "A" => turn(What::Closed, "person_app"),
            "F" => turn(What::Failed, "write_policy_denied"),
            "P" => turn(What::Failed, "provider_error"),
            "S" => decision("shell_disabled"),
            _ => decision("symlink_path_component"),
        };
        Ok::<_, String>(BookFact {
            index: index as u64,
            agent: "a".to_string(),
            turn: number.parse().ok(),
            event,
        })
    });
    let document = WriteDenials::fold(&["a"], facts).document();
    let list = document["denials"].as_array().unwrap();
    assert_eq!(document["count"], list.len());
    for denial in list {
        assert_eq!(
            (&denial["normalized_path"], &denial["symlink_component"]),
            (&json!("link/deep/out.txt"), &json!("link"))
        );
        assert!(denial.get("secret").is_none());
        assert_eq!(denial["matched_rule"], "symlink_path_component");
    }
    list.iter()
        .map(|denial| denial["disposition"].as_str().unwrap().to_string())
        .collect()
}

#[test]
fn p62_p63_the_automaton() {
    for (turn, want) in [
        ("U", &[][..]),
        ("U D U A", &["unresolved"]),
        ("U D U D D F", &["unresolved", "recovered", "fatal"]),
        ("U D A D D F", &["recovered", "recovered", "fatal"]),
        ("U D P", &["recovered"]),
        ("U D", &["unresolved"]),
        ("U S A", &[]),
        ("U S D D F U D", &["recovered", "fatal", "unresolved"]),
        ("U F", &[]),
        ("U1 D1 U2 D2 D2 F2", &["unresolved", "recovered", "fatal"]),
        // The entry of a turn that a crash delayed stands behind what came after it.
        ("D1 U1 A1", &["recovered"]),
        ("U1 D1 D1 U2 F1", &["recovered", "fatal"]),
        ("U1 D1 U2 D2 A1 F2", &["recovered", "fatal"]),
        ("D1 U2 D2 U1 D2 F2", &["unresolved", "recovered", "fatal"]),
        // Twice on record, once in the account.
        ("U1 D1 D1 F1 F1", &["recovered", "fatal"]),
        (
            "U1 D1 U1 D1 F1 U2 D2 F1 A1",
            &["recovered", "fatal", "unresolved"],
        ),
        // A call whose turn is not known is of the turn it stands in.
        ("U1 D D1 F1", &["recovered", "fatal"]),
        ("U1 D U2 A2", &["unresolved"]),
    ] {
        assert_eq!(fold(turn), want, "{turn}");
    }
}

#[test]
fn p59_p60_p61_p64_what_is_read_and_what_cannot_be() {
    let mut world = World::new();
    assert_eq!(world.report(&["a"]), json!({"count": 0, "denials": []}));
    world.bad("a");
    world.bad("child");
    world.bad("b");
    // A denial of another gate, and one of a latched turn, are none of it.
    for (gate, rule) in [("permission", "scope"), ("turn", "turn_terminated")] {
        let event = Event::Decision {
            call: "x".to_string(),
            gate: gate.to_string(),
            denied: true,
            rule: rule.to_string(),
            aim: None,
            facts: Map::new(),
        };
        world.note("a", 1, event);
    }
    let report = world.report(&["a", "child"]);
    assert_eq!(report["count"], 2);
    assert_eq!(report["denials"][1]["agent"], "child");
    let facts = world
        .book
        .iter()
        .cloned()
        .map(Ok)
        .take(2)
        .chain([Err("line 3 is torn")]);
    let broken = WriteDenials::fold(&["a"], facts);
    let document = broken.document();
    assert_eq!(
        (&document["status"], &document["error"]),
        (&json!("unavailable"), &json!("line 3 is torn"))
    );
    assert!(document.get("count").is_none());
    assert_eq!(document["denials"].as_array().unwrap().len(), 1);
    let known = WriteDenials::fold(&["b"], world.book.iter().cloned().map(Ok::<_, String>));
    let document = WriteDenials::together(vec![known.clone(), broken]).document();
    assert_eq!(document["denials"].as_array().unwrap().len(), 2);
    assert!(document.get("count").is_none());
    assert_eq!(
        WriteDenials::together(vec![known.clone(), known]).document()["count"],
        2
    );
}
