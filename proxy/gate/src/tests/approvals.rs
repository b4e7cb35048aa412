//! Step 11: the approval queue, and `countersign_approval`.

use countersign_permission::{Approval, Danger, Kind, Mode};
use serde_json::{Value, json};

use super::world::{World, code};
use crate::answer::{Answer, Outcome};
use crate::approval::{ApprovalState, Needs, Verdict};
use crate::facts::{Preview, PreviewRead};
use crate::ports::{Ended, Failure, Forwarded, Ran, Verdict as Decided};
use crate::request::{QUEUE, Request, Target};

/// Every write of the agent needs an approval.
fn world() -> World {
    let mut world = World::new();
    world.agent(|agent| agent.requires_approval = true);
    world
}

fn document(answer: &Answer) -> Value {
    match &answer.outcome {
        Outcome::Finished(finished) => serde_json::from_str(&finished.document).unwrap(),
        Outcome::Refused(refusal) => refusal.document("r"),
        _ => Value::Null,
    }
}

fn put(world: &World) -> Answer {
    world.send(world.request("put", r#"{"n":1}"#))
}

fn own(world: &World, arguments: &Value) -> Answer {
    let target = Target::Tool("countersign_approval".into());
    let request = world.request("", &arguments.to_string());
    world.send(Request { target, ..request })
}

fn approve(world: &World) {
    let now = crate::ports::Clock::now(world);
    world.memory.decide(Verdict::Approve, now).unwrap();
}

fn runs(world: &World) -> usize {
    world.memory.sent.lock().unwrap().len()
}

fn id(world: &World) -> String {
    world
        .memory
        .approvals
        .lock()
        .unwrap()
        .last()
        .unwrap()
        .row
        .id
        .to_string()
}

#[test]
fn r54_every_write_of_such_a_key_is_queued_and_reads_go_on() {
    let world = world();
    let answer = put(&world);
    let pending = document(&answer);
    assert_eq!(
        (pending["status"].as_str(), runs(&world)),
        (Some("pending_approval"), 0)
    );
    assert!(!answer.replayed);
    let notes = world.memory.notes.lock().unwrap();
    let outcome = notes[0].outcome.clone().unwrap();
    assert_eq!(outcome.ended, Ended::PendingApproval);
    assert_eq!(
        outcome.links.approval.as_deref(),
        pending["approval_id"].as_str()
    );
    assert_eq!(notes[0].decisions[0].verdict, Decided::Deny);
    drop(notes);
    assert_eq!(
        world.call("look", "{}"),
        "ok",
        "a waiting approval blocks nothing else"
    );
    let held = &world.memory.approvals.lock().unwrap()[0];
    assert_eq!(
        (held.arguments.as_str(), held.row.needs),
        (r#"{"n":1}"#, Needs::Person)
    );
    assert!(held.preview.contains("arguments_only"));
}

#[test]
fn who_is_queued() {
    let tool = |danger, approval| {
        World::with_tool("put", |tool| {
            tool.danger = danger;
            tool.approval = approval;
        })
    };
    let big = || Danger::When(json!({"required": ["n"], "properties": {"n": {"minimum": 2}}}));
    let ask = || {
        let mut world = World::new();
        world.agent(|agent| agent.mode = Mode::Ask);
        world
    };
    let cases = [
        (tool(Danger::Always, Approval::Person), true),
        (tool(Danger::Always, Approval::Passkey), true),
        (tool(big(), Approval::Person), false),
        (tool(Danger::Never, Approval::Person), false),
        (ask(), true),
    ];
    for (world, queued) in cases {
        assert_eq!(code(&put(&world)), if queued { "finished" } else { "ok" });
        assert_eq!(
            world.memory.approvals.lock().unwrap().len(),
            usize::from(queued)
        );
    }
}

#[test]
fn the_request_is_held_and_runs_when_the_person_says_yes() {
    let world = world();
    *world.memory.decides.lock().unwrap() = Some((10, Verdict::Approve));
    assert_eq!(code(&put(&world)), "ok");
    assert_eq!((runs(&world), *world.later.lock().unwrap()), (1, 11));
    let id = id(&world);
    let note = world.memory.notes.lock().unwrap().last().unwrap().clone();
    assert_eq!(note.call.links.approval.as_deref(), Some(&*id), "R57");
    assert_eq!(note.decisions[0].verdict, Decided::Allow);
    let outcome = world
        .memory
        .outcomes
        .lock()
        .unwrap()
        .last()
        .unwrap()
        .0
        .clone();
    assert_eq!(outcome.links.approval.as_deref(), Some(&*id));
    assert_eq!(
        code(&put(&world)),
        "finished",
        "the same call again is a new one"
    );
    assert_eq!(world.memory.approvals.lock().unwrap().len(), 2);
}

#[test]
fn it_is_held_45_seconds_and_no_is_no() {
    let world = world();
    put(&world);
    assert_eq!(*world.later.lock().unwrap(), 45);
    *world.memory.decides.lock().unwrap() = Some((3, Verdict::Decline));
    let answer = put(&world);
    assert_eq!(document(&answer)["context"]["rule"], "approval_declined");
    assert_eq!(
        document(&put(&world))["context"]["rule"],
        "approval_declined",
        "asked once, not until it is given"
    );
    assert_eq!(
        (runs(&world), world.memory.approvals.lock().unwrap().len()),
        (0, 1)
    );
    *world.later.lock().unwrap() = 24 * 3600;
    assert_eq!(document(&put(&world))["status"], "pending_approval");
}

#[test]
fn r55_the_same_waiting_call_gets_the_same_approval_marked_and_recorded() {
    let world = world();
    let first = document(&put(&world));
    let again = world.send(world.request("put", r#"{ "n":1, "idempotency_key":"k"}"#));
    assert!(again.replayed);
    assert_eq!(document(&again)["approval_id"], first["approval_id"]);
    assert_eq!(world.memory.notes.lock().unwrap().len(), 2, "edge 15");
    assert!(world.memory.claims.lock().unwrap().is_empty());
    assert_ne!(
        document(&world.send(world.request("put", "{}")))["approval_id"],
        first["approval_id"]
    );
}

#[test]
fn an_approved_call_is_run_by_its_repeat_once() {
    let world = world();
    put(&world);
    approve(&world);
    let keyed = r#"{"n":1,"idempotency_key":"k"}"#;
    assert_eq!(world.call("put", keyed), "ok");
    assert!(world.send(world.request("put", keyed)).replayed);
    assert_eq!(runs(&world), 1);
}

#[test]
fn the_result_of_a_run_nobody_waited_for_is_fetched_once_by_the_same_call() {
    let world = world();
    put(&world);
    approve(&world);
    let request = Request {
        via: QUEUE,
        ..world.request("put", r#"{"n":1}"#)
    };
    assert_eq!(code(&world.send(request)), "ok");
    let notes = world.memory.notes.lock().unwrap().len();
    for _ in 0..2 {
        let fetched = own(&world, &json!({"approval_id": id(&world)}));
        assert_eq!((code(&fetched), fetched.replayed), ("ok", true));
    }
    assert_eq!(
        world.memory.notes.lock().unwrap().len(),
        notes,
        "fetching is no call"
    );
    assert_eq!((code(&put(&world)), runs(&world)), ("finished", 1));
    let world = self::world();
    put(&world);
    approve(&world);
    world.send(Request {
        via: QUEUE,
        ..world.request("put", r#"{"n":1}"#)
    });
    let fetched = put(&world);
    assert_eq!(
        (code(&fetched), fetched.replayed, runs(&world)),
        ("ok", true, 1)
    );
    assert_eq!(code(&put(&world)), "finished");
}

#[test]
fn what_is_checked_again_before_it_runs() {
    let mut world = world();
    put(&world);
    approve(&world);
    world.agent(|agent| agent.scopes = Some(Default::default()));
    assert_eq!(code(&put(&world)), "forbidden");
    world.agent(|agent| agent.scopes = None);
    world
        .memory
        .keys
        .lock()
        .unwrap()
        .values_mut()
        .for_each(|key| key.revoked_at = Some(super::world::NOW.parse().unwrap()));
    assert_eq!(code(&put(&world)), "unauthorized");
    world
        .memory
        .keys
        .lock()
        .unwrap()
        .values_mut()
        .for_each(|key| key.revoked_at = None);
    assert_eq!(runs(&world), 0);
    assert_eq!(code(&put(&world)), "ok", "nothing of it is lost");
    // The tool is another one than the person was asked about.
    let world = self::world();
    put(&world);
    approve(&world);
    world.memory.approvals.lock().unwrap()[0].row.definition =
        countersign_permission::Hash::of(b"another");
    assert_eq!(document(&put(&world))["reason"], "changed");
    assert_eq!(runs(&world), 0);
}

#[test]
fn changed_values_are_asked_about_again() {
    let mut world = self::world();
    world.tool("put", |tool| {
        let read = PreviewRead {
            tool: "look".into(),
            arguments: Default::default(),
            ..PreviewRead::default()
        };
        tool.preview = Some(Preview::Reads {
            reads: vec![read],
            new: None,
        });
    });
    world.agent(|agent| agent.requires_approval = true);
    let now_is = |value: &str| {
        let body = json!({"content": [{"type": "text", "text": value}]})
            .to_string()
            .into();
        world.memory.values.lock().unwrap().insert(
            "look".into(),
            Ran::Result {
                body,
                is_error: false,
            },
        );
    };
    now_is("old");
    let first = document(&put(&world));
    assert!(
        world.memory.approvals.lock().unwrap()[0]
            .preview
            .contains("old")
    );
    approve(&world);
    now_is("new");
    let second = document(&put(&world));
    assert_eq!(
        (second["reason"].as_str(), runs(&world)),
        (Some("changed"), 0)
    );
    assert_ne!(second["approval_id"], first["approval_id"]);
    approve(&world);
    assert_eq!(code(&put(&world)), "ok");
}

#[test]
fn an_end_nobody_knows_is_told_once_and_a_call_not_sent_keeps_its_approval() {
    let world = world();
    put(&world);
    approve(&world);
    let fails = |failure, forwarded| {
        *world.memory.answer.lock().unwrap() = Some(Ran::Failed {
            failure,
            forwarded,
            detail: String::new(),
        });
    };
    fails(Failure::Cancelled, Forwarded::No);
    assert_eq!(
        code(&put(&world)),
        "cancelled",
        "a client's cancel does not withdraw it"
    );
    fails(Failure::Timeout, Forwarded::Yes);
    assert_eq!(code(&put(&world)), "upstream_timeout");
    assert_eq!(code(&put(&world)), "outcome_unknown");
    *world.memory.answer.lock().unwrap() = None;
    assert_eq!(code(&put(&world)), "finished", "then it is a new call");
    assert_eq!(runs(&world), 2);
}

#[test]
fn r59_a_silent_run_is_interrupted_and_a_dead_one_at_once() {
    // The request itself is held 45 seconds more.
    let cases = [
        (855, false, "finished"),
        (856, false, "outcome_unknown"),
        (901, false, "outcome_unknown"),
        (1, true, "outcome_unknown"),
    ];
    for (silent, dead, want) in cases {
        let world = world();
        put(&world);
        let now = crate::ports::Clock::now(&world);
        {
            let mut approvals = world.memory.approvals.lock().unwrap();
            approvals[0].row.state = ApprovalState::Running;
            approvals[0].row.call_id = Some("c9".into());
            approvals[0].heartbeat = now - jiff::SignedDuration::from_secs(silent);
        }
        if dead {
            world.memory.dead.lock().unwrap().insert("c9".into());
        }
        assert_eq!(code(&put(&world)), want, "{silent}");
        assert_eq!(runs(&world), 0);
    }
}

#[test]
fn the_own_tool_describes_and_takes_back_and_nothing_else() {
    let world = world();
    let pending = document(&put(&world));
    let ask = |more: Value| {
        let mut arguments = json!({"approval_id": pending["approval_id"]});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        document(&own(&world, &arguments))
    };
    assert_eq!(ask(json!({}))["state"], "waiting");
    assert_eq!(ask(json!({"withdraw": true}))["state"], "rejected");
    assert_eq!(ask(json!({"withdraw": true}))["state"], "rejected");
    approve(&world);
    assert_eq!(ask(json!({}))["state"], "rejected");
    for arguments in [
        json!({}),
        json!({"approval_id": 1}),
        json!({"approval_id": "x", "approve": true}),
        json!([]),
        json!({"approval_id": "x", "withdraw": 1}),
    ] {
        assert_eq!(code(&own(&world, &arguments)), "validation_failed");
    }
    let unknown = document(&own(&world, &json!({"approval_id": "x"})));
    world.memory.approvals.lock().unwrap()[0].row.bound.actor = "agent/other".into();
    assert_eq!(ask(json!({})), unknown, "another agent's is nobody's");
    assert_eq!(runs(&world), 0);
}

#[test]
fn own_names_belong_to_no_server_and_are_listed() {
    let world = World::new();
    let own = world
        .list(Request {
            target: Target::Discovery,
            ..world.request("", "")
        })
        .open
        .unwrap()
        .own;
    let names: Vec<Value> = own
        .iter()
        .map(|item| serde_json::from_str::<Value>(item).unwrap()["name"].clone())
        .collect();
    assert_eq!(names, ["countersign_whoami", "countersign_approval"]);
}

#[test]
fn a_passkeys_yes_cannot_be_given_here_and_a_public_call_is_not_held() {
    let mut world = World::with_tool("put", |tool| {
        tool.danger = Danger::Always;
        tool.approval = Approval::Passkey;
    });
    put(&world);
    let now = crate::ports::Clock::now(&world);
    assert!(world.memory.decide(Verdict::Approve, now).is_err());
    assert_eq!((code(&put(&world)), runs(&world)), ("finished", 0));
    world.tool("put", |tool| {
        tool.audience = crate::request::Audience::Public
    });
    let answer = world.send(world.public("put", "{}"));
    assert_eq!(document(&answer)["context"]["rule"], "approval");
}

#[test]
fn an_expired_approval_is_none() {
    let world = world();
    put(&world);
    approve(&world);
    *world.later.lock().unwrap() = 24 * 3600 + 45;
    assert_eq!((code(&put(&world)), runs(&world)), ("finished", 0));
    assert_eq!(world.memory.approvals.lock().unwrap().len(), 2);
}

#[test]
fn failures_of_the_store_close() {
    let world = world();
    for name in ["approval_for", "hold", "random"] {
        *world.memory.fails_at.lock().unwrap() = Some(name);
        assert_eq!(code(&put(&world)), "internal_error", "{name}");
    }
    *world.memory.fails_at.lock().unwrap() = None;
    put(&world);
    approve(&world);
    *world.memory.book_fails.lock().unwrap() = Some("note");
    assert_eq!(code(&put(&world)), "record_unavailable");
    *world.memory.book_fails.lock().unwrap() = None;
    assert_eq!(
        (code(&put(&world)), runs(&world)),
        ("ok", 1),
        "what was not sent keeps its approval"
    );
}

#[test]
fn a_dry_run_asks_nobody() {
    let world = world();
    assert_eq!(world.call("put", r#"{"dry_run":true}"#), "finished");
    assert!(world.memory.approvals.lock().unwrap().is_empty());
    let world = World::with_tool("look", |tool| tool.kind = Kind::Read);
    assert_eq!(world.call("look", "{}"), "ok");
}
