//! Accounts of small real books: what is counted, whose denials, how they ended, and what cannot be read.

use countersign_book::{
    Actor, Approval, Bounds, Call, CallId, Count, Decided, Decision, DecisionVerdict, Draft,
    Effect, NewBook, Origin, Outcome, RefusalCount, Refusals, Signer, Status, VaultKey, Writer,
    WriterOptions, create,
};
use countersign_gate::turn::{TurnFact, What};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::keeper::sources;

struct Book {
    temp: tempfile::TempDir,
    drafts: Vec<Draft>,
    calls: u64,
}

impl Book {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let new = NewBook {
            origin: Origin::from_id([1; 16]),
            development: true,
            name: None,
            program: None,
            process: "init".into(),
        };
        create(
            temp.path(),
            &new,
            &Signer::from_seed([1; 32]),
            &mut sources(),
        )
        .unwrap();
        Self {
            temp,
            drafts: Vec::new(),
            calls: 0,
        }
    }

    fn turn(mut self, agent: &str, turn: u64, what: What, reason: &str) -> Self {
        self.drafts.push(turns::draft(&TurnFact {
            agent: agent.to_owned(),
            turn,
            what,
            reason: reason.to_owned(),
            at: Timestamp::now(),
        }));
        self
    }

    /// A call; `denied` is the gate and the rule of its denial.
    fn call(mut self, agent: &str, turn: Option<u64>, denied: Option<(&str, &str)>) -> Self {
        self.calls += 1;
        let id = CallId::parse(&format!("01ARZ3NDEKTSV{:013}", self.calls)).unwrap();
        self.drafts.push(Draft::new(Call {
            actor: Actor::Agent,
            agent: Some(agent.to_owned()),
            approval: None,
            args: None,
            call: id.clone(),
            client: None,
            confirmation: None,
            def: None,
            effect: Effect::Write,
            key: None,
            permission: None,
            process: "p".into(),
            purpose: None,
            request: None,
            rows: None,
            sent: None,
            server: "files".into(),
            session: None,
            tool: "write_file".into(),
            turn: turn.map(Count),
            via: "stdio".into(),
        }));
        self.drafts.extend(denied.map(|(gate, rule)| {
            Draft::new(Decision {
                aim: Some(format!("path{}", self.calls)),
                bounds: Some(Bounds {
                    matched_rule: Some(rule.to_owned()),
                    requested_path: Some(format!("path{}", self.calls)),
                    tool: Some("write_file".into()),
                    ..Bounds::default()
                }),
                call: id.clone(),
                decision: DecisionVerdict::Deny,
                gate: gate.to_owned(),
                policy: Some(countersign_book::Hash([7; 32])),
                rule: Some(rule.to_owned()),
            })
        }));
        let status = match denied {
            Some(_) => Status::Refused,
            None => Status::Ok,
        };
        self.drafts.push(Draft::new(Outcome::new(id, status)));
        self
    }

    fn and(mut self, draft: Draft) -> Self {
        self.drafts.push(draft);
        self
    }

    /// Writes what there is.
    fn written(mut self) -> Self {
        let options = WriterOptions {
            segment_bytes: 3_000,
            ..WriterOptions::new("p")
        };
        let (signer, vault) = (Signer::from_seed([1; 32]), VaultKey::from_bytes([2; 32]));
        let mut writer = Writer::open(self.temp.path(), signer, vault, sources(), options).unwrap();
        for draft in std::mem::take(&mut self.drafts) {
            writer.commit(vec![draft]).unwrap();
        }
        self
    }

    fn account(&self, asked: Asked) -> Account {
        account(self.temp.path(), asked)
    }

    fn segments(&self) -> Vec<std::path::PathBuf> {
        let folder = std::fs::read_dir(self.temp.path().join("journal")).unwrap();
        let mut files: Vec<_> = folder.map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    }
}

fn of(agent: &str) -> Asked {
    Asked {
        agent: agent.to_owned(),
        ..Asked::default()
    }
}

fn denials(document: &Value) -> Vec<(&str, &str, &str)> {
    let list = document["write_denials"]["denials"].as_array().unwrap();
    list.iter()
        .map(|denial| {
            let text = |name: &str| denial[name].as_str().unwrap_or_default();
            (text("agent"), text("normalized_path"), text("disposition"))
        })
        .collect()
}

const NO: Option<(&str, &str)> = Some(("write_policy", "no_allow_match"));

/// Two turns of `a`, with a child `c`, a stranger `b`, and what is none of it.
fn two_turns() -> Book {
    Book::new()
        .turn("a", 1, What::Opened, "first_call")
        .turn("c", 1, What::Opened, "first_call")
        .call("a", Some(1), None)
        .call("a", Some(1), NO)
        .call("c", Some(1), NO)
        .call("b", Some(1), NO)
        .call("a", Some(1), Some(("write_policy", "shell_disabled")))
        .call(
            "a",
            Some(1),
            Some(("evidence_protection", "protected_path")),
        )
        .turn("a", 1, What::Closed, "person_command")
        .turn("a", 2, What::Opened, "person_command")
        .call("a", Some(2), NO)
        .call("c", Some(1), NO)
        .turn("c", 1, What::Failed, "write_policy_denied")
        .call("a", Some(2), NO)
        .turn("a", 2, What::Failed, "write_policy_denied")
        .call("a", Some(2), Some(("turn", "turn_terminated")))
        .written()
}

#[test]
fn p59_p62_p65_a_report_counts_exactly_the_strikes_and_says_how_each_ended() {
    let book = two_turns();
    let account = book.account(of("a"));
    let document = account.document("agent");
    assert_eq!(document["status"], "complete");
    assert_eq!(document["write_denials"]["count"], 3);
    assert_eq!(
        denials(&document),
        [
            ("a", "path2", "recovered"),
            ("a", "path7", "recovered"),
            ("a", "path9", "fatal")
        ]
    );
    let first = &document["write_denials"]["denials"][0];
    assert_eq!(first["policy_hash"], format!("sha256:{}", "07".repeat(32)));
    assert_eq!(
        (&first["matched_rule"], &first["tool"], &first["turn"]),
        (&json!("no_allow_match"), &json!("write_file"), &json!(1))
    );
    assert_eq!(
        document["calls"],
        json!({"count": 7, "outcomes": {"ok": 1, "refused": 6}, "tools": [
            {"server": "files", "tool": "write_file", "count": 7, "outcomes": {"ok": 1, "refused": 6}}]})
    );
    let turns: Vec<(u64, Option<What>)> = account
        .turns
        .iter()
        .map(|line| (line.turn, line.ended.as_ref().map(|(what, _)| *what)))
        .collect();
    assert_eq!(turns, [(1, Some(What::Closed)), (2, Some(What::Failed))]);
    assert_eq!(
        document["turns"][1]["opened"]["by"],
        "countersign turn open"
    );
    let text = account.text();
    assert!(
        text.contains("write denials: 3") && text.contains("fatal"),
        "{text}"
    );
}

#[test]
fn p64_denials_of_agents_that_work_for_it_are_counted_with_it() {
    let book = two_turns();
    let asked = Asked {
        children: vec!["c".to_owned()],
        ..of("a")
    };
    let document = book.account(asked.clone()).document("agent");
    assert_eq!(
        denials(&document),
        [
            ("a", "path2", "recovered"),
            ("c", "path3", "recovered"),
            ("a", "path7", "recovered"),
            ("c", "path8", "fatal"),
            ("a", "path9", "fatal")
        ]
    );
    assert_eq!(document["calls"]["count"], 7, "calls are its own");
    let turn = |turn| {
        let asked = Asked {
            turn: Some(turn),
            ..asked.clone()
        };
        book.account(asked).document("turn")
    };
    assert_eq!(
        denials(&turn(1)),
        [("a", "path2", "recovered"), ("c", "path3", "recovered")]
    );
    assert_eq!(
        denials(&turn(2)),
        [
            ("a", "path7", "recovered"),
            ("c", "path8", "fatal"),
            ("a", "path9", "fatal")
        ]
    );
    assert_eq!(turn(2)["calls"]["count"], 3);
    assert_eq!(turn(3)["write_denials"], json!({"count": 0, "denials": []}));
}

#[test]
fn p60_p65_an_agent_without_denials_has_an_empty_account_of_them() {
    let book = Book::new()
        .call("b", None, None)
        .and(Draft::new(Refusals {
            agent: Some("a".into()),
            counts: vec![RefusalCount {
                code: "rate_limited".into(),
                n: Count(4),
            }],
            minute: "2026-11-30T17:00Z".into(),
        }))
        .and(Draft::new(Approval {
            actor: Actor::Person,
            agent: Some("a".into()),
            approval: "x".into(),
            at: "2026-11-30T17:00:00.000Z".into(),
            hash: None,
            proof: None,
            server: "s".into(),
            tool: "t".into(),
            verdict: Decided::Decline,
            via: "v".into(),
        }))
        .written();
    let document = book.account(of("a")).document("agent");
    assert_eq!(
        document["write_denials"],
        json!({"count": 0, "denials": []})
    );
    assert_eq!(document["calls"]["count"], 0);
    assert_eq!(document["refusals"], json!({"rate_limited": 4}));
    assert_eq!(document["approvals"], json!({"declined": 1}));
}

#[test]
fn p61_p64_where_the_book_cannot_be_read_nothing_is_counted_and_what_was_read_is_listed() {
    let whole = two_turns();
    let check = |book: &Book, listed: bool| {
        let account = book.account(of("a"));
        let document = account.document("agent");
        assert_eq!(document["status"], "unavailable", "{document}");
        let denials = &document["write_denials"];
        assert_eq!(denials["status"], "unavailable");
        assert!(denials.get("count").is_none() && document.get("calls").is_none());
        assert_eq!(!denials["denials"].as_array().unwrap().is_empty(), listed);
        assert!(account.text().contains("nothing is counted"));
    };
    // A later segment is changed: what stands before it is listed.
    let segments = whole.segments();
    assert!(segments.len() > 3);
    let last = &segments[segments.len() - 2];
    let text = std::fs::read_to_string(last).unwrap();
    std::fs::write(last, text.replacen("\"agent\"", "\"agenT\"", 1)).unwrap();
    check(&whole, true);
    std::fs::write(last, &text).unwrap();
    assert!(whole.account(of("a")).unavailable.is_none());
    // A segment in the middle is gone.
    std::fs::remove_file(last).unwrap();
    check(&whole, true);
    // There is no book.
    std::fs::remove_file(whole.temp.path().join("BOOK")).unwrap();
    check(&whole, false);
}

#[test]
fn a_report_of_a_time_has_that_time_and_the_right_dispositions() {
    let book = two_turns();
    let now = Timestamp::now().as_millisecond();
    let hour = SignedDuration::from_hours(1).as_millis() as i64;
    let within = |since, until| {
        let asked = Asked {
            since,
            until,
            ..of("a")
        };
        book.account(asked).document("agent")
    };
    let count = |document: &Value| {
        (
            document["calls"]["count"].clone(),
            document["write_denials"]["count"].clone(),
        )
    };
    let all = within(Some(now - hour), Some(now + hour));
    assert_eq!(count(&all), (7.into(), 3.into()));
    assert_eq!(count(&within(Some(now + hour), None)), (0.into(), 0.into()));
    assert_eq!(count(&within(None, Some(now - hour))), (0.into(), 0.into()));
}
