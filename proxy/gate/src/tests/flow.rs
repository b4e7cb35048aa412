//! Order, entries, failures, what is shown.

use bytes::Bytes;

use super::world::{World, code};
use crate::answer::Outcome;
use crate::ports::{Durability, Ended, Failure, Forwarded, Ran, Verdict};
use crate::refusal::Code;
use crate::steps::STEPS;

#[test]
fn r1_the_order_and_that_a_refusal_ends_it() {
    let numbers: Vec<_> = STEPS.iter().map(|step| step.number).collect();
    assert_eq!(
        numbers,
        [1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
    );
    let world = World::new();
    let cases = [
        ("put", "{}", "ok", "key resolve charge note run record"),
        ("nothing", "{}", "not_found", "key resolve charge"),
        ("put", "[]", "validation_failed", "key resolve charge note"),
        (
            "put",
            r#"{"dry_run":true}"#,
            "finished",
            "key resolve charge note",
        ),
        ("countersign_whoami", "", "finished", "key charge"),
    ];
    for (tool, arguments, want, trail) in cases {
        assert_eq!(world.call(tool, arguments), want);
        assert_eq!(world.trail(), trail, "{tool} {arguments}");
    }
}

#[test]
fn r7_r69_r70_the_entries_of_a_call() {
    let world = World::new();
    let received = r#"{"rows":[1,2,3],"dry_run":false}"#;
    assert_eq!(world.call("put", received), "ok");
    let note = world.memory.notes.lock().unwrap()[0].clone();
    assert_eq!(note.durability, Durability::Strict);
    assert_eq!(
        (
            note.call.tool.as_str(),
            note.call.server.as_str(),
            note.call.rows
        ),
        ("put", "files", 3)
    );
    assert_eq!(note.call.key_prefix.as_deref(), world.key.prefix());
    assert_eq!(
        note.call.received.as_deref(),
        Some(&br#"{"rows":[1,2,3]}"#[..])
    );
    assert_eq!(note.call.sent, None);
    assert!(note.call.permission.is_some() && note.call.definition.is_some());
    assert!(note.decisions.is_empty() && note.outcome.is_none());
    let (outcome, durability) = world.memory.outcomes.lock().unwrap()[0].clone();
    assert_eq!(
        (outcome.ended, durability, &*outcome.call_id),
        (Ended::Ok, Durability::Strict, "c1")
    );
    assert_eq!(outcome.result.as_deref(), Some(&br#"{"content":[ ]}"#[..]));
}

#[test]
fn r71_reads_are_recorded_too_but_batched() {
    let world = World::new();
    assert_eq!(world.call("look", "{}"), "ok");
    assert_eq!(world.call("look", "{}"), "ok");
    let notes = world.memory.notes.lock().unwrap().clone();
    // What opens a turn is on disk, so that nobody owes it any more.
    assert_eq!(
        (notes[0].turns.len(), notes[0].durability),
        (1, Durability::Strict)
    );
    assert_eq!(
        (notes[1].durability, &notes[1].call.sent),
        (Durability::Batched, &None)
    );
    assert_eq!(
        world.memory.outcomes.lock().unwrap()[0].1,
        Durability::Batched
    );
}

#[test]
fn r72_r73_refusals_before_step_6_are_counted_from_it_on_entries() {
    let world = World::new();
    for (tool, arguments, code, notes) in [
        ("nothing", "{}", "not_found", 0),
        ("look", "[]", "validation_failed", 1),
    ] {
        assert_eq!(world.call(tool, arguments), code);
        assert_eq!(world.memory.notes.lock().unwrap().len(), notes);
    }
    assert_eq!(
        *world.memory.refusals.lock().unwrap(),
        [(Some("claude".to_string()), "not_found")]
    );
    let note = world.memory.notes.lock().unwrap()[0].clone();
    let decision = &note.decisions[0];
    assert_eq!(
        (decision.gate, decision.rule.as_str(), decision.verdict),
        ("validate", "json", Verdict::Deny)
    );
    let outcome = note.outcome.unwrap();
    assert_eq!(
        (outcome.ended, outcome.code),
        (Ended::Refused, Some(Code::ValidationFailed))
    );
}

#[test]
fn nothing_is_forwarded_that_the_book_does_not_have() {
    for tool in ["put", "look"] {
        let world = World::new();
        *world.memory.book_fails.lock().unwrap() = Some("note");
        let answer = world.send(world.request(tool, "{}"));
        assert_eq!(code(&answer), "record_unavailable");
        assert!(world.memory.sent.lock().unwrap().is_empty());
        let Outcome::Refused(refusal) = answer.outcome else {
            panic!()
        };
        assert!(!refusal.document("r1").to_string().contains("/secret"));
        assert!(refusal.detail.unwrap().contains("/secret"));
        *world.memory.book_fails.lock().unwrap() = Some("record");
        let answer = world.send(world.request(tool, "{}"));
        assert_eq!(code(&answer), "record_unavailable");
        let Outcome::Refused(refusal) = answer.outcome else {
            panic!()
        };
        assert!(
            refusal.sentence.contains("was sent")
                && refusal.next_actions[0].starts_with("Do not repeat")
        );
    }
    let world = World::new();
    *world.memory.book_fails.lock().unwrap() = Some("note");
    assert_eq!(
        world.call("put", r#"{"dry_run":true}"#),
        "record_unavailable"
    );
    assert_eq!(
        world.call("put", "[]"),
        "validation_failed",
        "a refusal stays one"
    );
}

#[test]
fn a_store_that_fails_closes_the_gate() {
    let world = World::new();
    *world.memory.store_fails.lock().unwrap() = true;
    assert_eq!(world.call("look", "{}"), "internal_error");
    assert!(world.memory.sent.lock().unwrap().is_empty());
}

#[test]
fn r60_r61_a_servers_own_answers_pass_unchanged() {
    let world = World::new();
    let body = Bytes::from_static(br#"{ "x":1.0 ,"isError":true}"#);
    let cases = [
        (
            Ran::Result {
                body: body.clone(),
                is_error: false,
            },
            Outcome::Result {
                body: body.clone(),
                is_error: false,
            },
            Ended::Ok,
        ),
        (
            Ran::Result {
                body: body.clone(),
                is_error: true,
            },
            Outcome::Result {
                body: body.clone(),
                is_error: true,
            },
            Ended::Error,
        ),
        (
            Ran::ProtocolError { body: body.clone() },
            Outcome::ProtocolError { body: body.clone() },
            Ended::Error,
        ),
    ];
    for (ran, want, ended) in cases {
        *world.memory.answer.lock().unwrap() = Some(ran);
        assert_eq!(world.send(world.request("put", "{}")).outcome, want);
        assert_eq!(
            world.memory.outcomes.lock().unwrap().pop().unwrap().0.ended,
            ended
        );
    }
}

#[test]
fn r62_r63_faults_are_generic_and_the_outcome_is_told() {
    let world = World::new();
    let cases = [
        (
            Failure::Server,
            Forwarded::Yes,
            "upstream_failed",
            Ended::Unknown,
        ),
        (
            Failure::Server,
            Forwarded::No,
            "upstream_failed",
            Ended::Error,
        ),
        (
            Failure::Timeout,
            Forwarded::Yes,
            "upstream_timeout",
            Ended::Unknown,
        ),
        (
            Failure::Cancelled,
            Forwarded::Yes,
            "cancelled",
            Ended::Unknown,
        ),
        (Failure::Cancelled, Forwarded::No, "cancelled", Ended::Error),
    ];
    for (failure, forwarded, want, ended) in cases {
        let detail = "Traceback: password=hunter2".to_string();
        *world.memory.answer.lock().unwrap() = Some(Ran::Failed {
            failure,
            forwarded,
            detail,
        });
        let answer = world.send(world.request("put", "{}"));
        assert_eq!(code(&answer), want);
        assert_eq!(
            world.memory.outcomes.lock().unwrap().pop().unwrap().0.ended,
            ended
        );
        if let Outcome::Refused(refusal) = answer.outcome {
            let shown = refusal.shown("r1");
            assert!(!shown.text.contains("hunter2") && !shown.document.contains("hunter2"));
            assert!(refusal.detail.unwrap().contains("hunter2"));
        }
    }
}

#[test]
fn r4_a_refusal_is_shown_as_text_and_document() {
    let world = World::new();
    let Outcome::Refused(refusal) = world.send(world.request("nothing", "{}")).outcome else {
        panic!()
    };
    let shown = refusal.shown("r1");
    assert_eq!(
        shown.text,
        "not_found: there is no tool `nothing` What to do: List the tools again and use a name from the list."
    );
    let document: serde_json::Value = serde_json::from_str(&shown.document).unwrap();
    assert_eq!(document["request_id"], "r1");
    assert_eq!(document["status"], 404);
    assert_eq!(document["code"], "not_found");
    assert!(!document["next_actions"].as_array().unwrap().is_empty());
}

#[test]
fn the_code_table() {
    let by_status = |status| {
        Code::ALL
            .iter()
            .filter(|code| code.status() == status)
            .count()
    };
    let counts: Vec<_> = [400, 401, 403, 404, 409, 413, 422, 429, 500, 502, 503, 504]
        .iter()
        .map(|status| by_status(*status))
        .collect();
    assert_eq!(counts, [1, 1, 8, 2, 5, 1, 2, 1, 1, 2, 4, 1]);
    let names: std::collections::BTreeSet<_> = Code::ALL.iter().map(|code| code.text()).collect();
    assert_eq!(names.len(), Code::ALL.len());
}
