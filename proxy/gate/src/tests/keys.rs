//! Steps 9 and 10: modes, and what an idempotency key does.

use bytes::Bytes;
use countersign_permission::{CallLimits, Mode};

use super::world::{World, code};
use crate::answer::{Answer, Outcome};
use crate::idempotency::{KeyState, Owner};
use crate::ports::{Ended, Failure, Forwarded, Ran, Verdict};
use crate::request::Request;

const KEYED: &str = r#"{"n":1,"idempotency_key":"k"}"#;

/// The code a call was refused or answered with, and whether it reached the server.
fn check(world: &World, tool: &str, arguments: &str, want: &str, runs: usize) -> Answer {
    let before = world.memory.sent.lock().unwrap().len();
    let answer = world.send(world.request(tool, arguments));
    assert_eq!(code(&answer), want, "{tool} {arguments}");
    let sent = world.memory.sent.lock().unwrap().len() - before;
    assert_eq!(sent, runs, "{tool} {arguments}");
    answer
}

fn notes(world: &World) -> usize {
    world.memory.notes.lock().unwrap().len()
}

fn fails(world: &World, failure: Failure, forwarded: Forwarded) {
    let detail = String::new();
    *world.memory.answer.lock().unwrap() = Some(Ran::Failed {
        failure,
        forwarded,
        detail,
    });
}

fn with_mode(mode: Mode) -> World {
    let mut world = World::new();
    world.agent(|agent| agent.mode = mode);
    world
}

#[test]
fn mode_read_only_refuses_writes_and_notes_both_decisions() {
    let world = with_mode(Mode::ReadOnly);
    check(&world, "put", "{}", "permission_denied", 0);
    check(&world, "put", r#"{"dry_run":true}"#, "permission_denied", 0);
    check(&world, "look", "{}", "ok", 1);
    let decided: Vec<_> = world
        .memory
        .notes
        .lock()
        .unwrap()
        .iter()
        .map(|note| {
            assert_eq!(note.decisions.len(), 1);
            (
                note.decisions[0].gate,
                note.decisions[0].rule.clone(),
                note.decisions[0].verdict,
            )
        })
        .collect();
    let rule = || "read_only".to_string();
    assert_eq!(
        decided,
        [
            ("mode", rule(), Verdict::Deny),
            ("mode", rule(), Verdict::Deny),
            ("mode", rule(), Verdict::Allow)
        ]
    );
}

#[test]
fn mode_auto_writes_no_decision_and_ask_notes_reads() {
    for (mode, decisions) in [(Mode::Auto, 0), (Mode::Ask, 1)] {
        let world = with_mode(mode);
        check(&world, "look", "{}", "ok", 1);
        assert_eq!(
            world.memory.notes.lock().unwrap()[0].decisions.len(),
            decisions
        );
    }
}

#[test]
fn the_stricter_of_permission_and_settings_is_the_mode() {
    let mut world = World::new();
    world.agent(|agent| {
        let mut permission = (**agent.permission.as_ref().unwrap()).clone();
        permission.mode = Mode::ReadOnly;
        agent.permission = Some(permission.into());
    });
    check(&world, "put", "{}", "permission_denied", 0);
}

#[test]
fn r45_r47_a_finished_twin_answers_and_nothing_is_written() {
    let world = World::new();
    let body = Bytes::from_static(br#"{"content":[],"n":1.0}"#);
    for (key, ran) in [
        (
            "a",
            Ran::Result {
                body: body.clone(),
                is_error: false,
            },
        ),
        (
            "b",
            Ran::Result {
                body: body.clone(),
                is_error: true,
            },
        ),
        ("c", Ran::ProtocolError { body }),
    ] {
        *world.memory.answer.lock().unwrap() = Some(ran);
        let first =
            world.send(world.request("put", &format!(r#"{{"n":1,"idempotency_key":"{key}"}}"#)));
        *world.memory.answer.lock().unwrap() = None;
        let (before, sent) = (notes(&world), world.memory.sent.lock().unwrap().len());
        // Other spelling, same arguments.
        let again = world.send(world.request(
            "put",
            &format!(r#"{{ "idempotency_key":"{key}", "n" : 1}}"#),
        ));
        assert_eq!(again.outcome, first.outcome);
        assert!(again.replayed && !first.replayed);
        assert_eq!(
            (notes(&world), world.memory.sent.lock().unwrap().len()),
            (before, sent)
        );
        assert!(
            again
                .headers()
                .contains(&("Idempotency-Replayed", "true".to_string()))
        );
        assert!(
            !first
                .headers()
                .iter()
                .any(|(name, _)| *name == "Idempotency-Replayed")
        );
    }
    assert_eq!(world.memory.outcomes.lock().unwrap().len(), 3);
}

#[test]
fn r7_claim_call_forward_outcome_settle_in_this_order() {
    let world = World::new();
    check(&world, "put", KEYED, "ok", 1);
    assert_eq!(
        world.trail(),
        "key resolve charge twin take note run record settle"
    );
    assert_eq!(
        world
            .memory
            .claims
            .lock()
            .unwrap()
            .values()
            .next()
            .unwrap()
            .call_id,
        "c1"
    );
    check(&world, "put", KEYED, "ok", 0);
    assert_eq!(world.trail(), "key resolve charge twin");
}

#[test]
fn r46_a_running_twin_ends_the_call() {
    let world = World::new();
    check(&world, "put", KEYED, "ok", 1);
    let running = |owner| {
        for row in world.memory.claims.lock().unwrap().values_mut() {
            row.state = KeyState::Running { owner };
        }
    };
    running(Owner::Alive);
    check(&world, "put", KEYED, "idempotency_in_progress", 0);
    check(
        &world,
        "put",
        r#"{"n":2,"idempotency_key":"k"}"#,
        "idempotency_key_reused",
        0,
    );
    running(Owner::Gone);
    let Outcome::Refused(refusal) = check(&world, "put", KEYED, "outcome_unknown", 0).outcome
    else {
        panic!()
    };
    assert_eq!(refusal.context["call_id"], "c1");
    assert_eq!(notes(&world), 4, "refusals are entries");
}

#[test]
fn a_lost_race_for_a_key_is_told_by_the_take() {
    let world = World::new();
    check(&world, "put", KEYED, "ok", 1);
    let row = world.memory.claims.lock().unwrap().drain().next().unwrap();
    // The look-up finds nothing, the take does: another process was quicker in between.
    *world.memory.quicker.lock().unwrap() = Some(row);
    let answer = check(&world, "put", KEYED, "ok", 0);
    assert!(answer.replayed);
}

#[test]
fn the_key_is_of_one_agent_and_one_tool() {
    let mut world = World::new();
    world.parts.buckets.network.size = 100;
    check(&world, "put", KEYED, "ok", 1);
    check(&world, "open_put", r#"{"idempotency_key":"k"}"#, "ok", 1);
    check(&world, "put", r#"{"n":1,"idempotency_key":"K"}"#, "ok", 1);
    world.tool("put", |tool| {
        tool.audience = crate::request::Audience::Public
    });
    assert_eq!(code(&world.send(world.public("put", KEYED))), "ok");
    let other = Request {
        network: Some("192.0.2.2".parse().unwrap()),
        ..world.public("put", KEYED)
    };
    assert!(!world.send(other).replayed);
    assert_eq!(world.memory.sent.lock().unwrap().len(), 5);
}

#[test]
fn answers_are_kept_24_hours_and_keys_for_ever() {
    let world = World::new();
    check(&world, "put", KEYED, "ok", 1);
    *world.later.lock().unwrap() = 24 * 3600 - 1;
    assert!(check(&world, "put", KEYED, "ok", 0).replayed);
    for later in [24 * 3600, 24 * 3600 * 3650] {
        *world.later.lock().unwrap() = later;
        check(&world, "put", KEYED, "idempotency_expired", 0);
        check(
            &world,
            "put",
            r#"{"idempotency_key":"k"}"#,
            "idempotency_key_reused",
            0,
        );
    }
}

#[test]
fn what_is_never_stored() {
    let cases = [
        (
            Failure::Server,
            Forwarded::Yes,
            "upstream_failed",
            "outcome_unknown",
        ),
        (
            Failure::Timeout,
            Forwarded::Yes,
            "upstream_timeout",
            "outcome_unknown",
        ),
        (
            Failure::Cancelled,
            Forwarded::Yes,
            "cancelled",
            "outcome_unknown",
        ),
        (Failure::Server, Forwarded::No, "upstream_failed", "ok"),
        (Failure::Timeout, Forwarded::No, "upstream_timeout", "ok"),
        (Failure::Cancelled, Forwarded::No, "cancelled", "ok"),
    ];
    for (failure, forwarded, first, second) in cases {
        let world = World::new();
        fails(&world, failure, forwarded);
        check(&world, "put", KEYED, first, 1);
        *world.memory.answer.lock().unwrap() = None;
        let again = check(
            &world,
            "put",
            KEYED,
            second,
            usize::from(forwarded == Forwarded::No),
        );
        assert!(!again.replayed);
    }
}

#[test]
fn r49_a_preview_neither_claims_nor_consults_the_key() {
    let world = World::new();
    let dry = r#"{"n":1,"dry_run":true,"idempotency_key":"k"}"#;
    check(&world, "put", dry, "finished", 0);
    check(&world, "put", KEYED, "ok", 1);
    check(&world, "put", dry, "finished", 0);
    assert!(check(&world, "put", KEYED, "ok", 0).replayed);
}

#[test]
fn r48_only_writes_take_part() {
    let world = World::new();
    check(&world, "look", "{}", "ok", 1);
    assert_eq!(world.trail(), "key resolve charge note run record");
    check(&world, "look", KEYED, "validation_failed", 0);
}

#[test]
fn a_record_that_fails_frees_the_key_before_and_spoils_it_after() {
    let world = World::new();
    *world.memory.book_fails.lock().unwrap() = Some("note");
    check(&world, "put", KEYED, "record_unavailable", 0);
    *world.memory.book_fails.lock().unwrap() = Some("record");
    check(&world, "put", KEYED, "record_unavailable", 1);
    *world.memory.book_fails.lock().unwrap() = None;
    check(&world, "put", KEYED, "outcome_unknown", 0);
}

#[test]
fn a_key_takes_no_use_where_its_twin_is_found_and_none_is_left_without() {
    let world = World::with_tool("put", |tool| {
        tool.limits = CallLimits {
            max_calls: Some(1),
            rate: None,
        }
    });
    let twice = |key: &str| format!(r#"{{"idempotency_key":"{key}"}}"#);
    check(&world, "put", &twice("a"), "ok", 1);
    assert_eq!(*world.memory.uses.lock().unwrap(), 1);
    check(&world, "put", &twice("b"), "outside_permission", 0);
    assert_eq!(
        world.memory.claims.lock().unwrap().len(),
        1,
        "nothing is taken of a call that lacks a use"
    );
}

#[test]
fn a_store_that_fails_runs_nothing() {
    let world = World::new();
    for name in ["twin", "take"] {
        *world.memory.fails_at.lock().unwrap() = Some(name);
        check(&world, "put", KEYED, "internal_error", 0);
    }
    *world.memory.fails_at.lock().unwrap() = Some("settle");
    check(&world, "put", KEYED, "ok", 1);
    *world.memory.fails_at.lock().unwrap() = None;
    check(&world, "put", KEYED, "idempotency_in_progress", 0);
    world.memory.dead.lock().unwrap().insert("c3".into());
    check(&world, "put", KEYED, "outcome_unknown", 0);
    assert_eq!(world.memory.outcomes.lock().unwrap()[0].0.ended, Ended::Ok);
}
