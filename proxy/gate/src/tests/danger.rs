//! Step 11: dry runs, previews, confirmations.

use bytes::Bytes;
use countersign_permission::{Approval, Danger, Kind};
use serde_json::{Value, json};

use super::world::{World, code};
use crate::answer::Outcome;
use crate::confirmation::ConfirmationState;
use crate::facts::{Preview, PreviewRead, ToolSettings};
use crate::ports::{Ended, Failure, Forwarded, Links, Purpose, Ran};

fn text(text: &str, is_error: bool) -> Ran {
    let body = json!({"content": [{"type": "text", "text": text}], "isError": is_error});
    Ran::Result {
        body: body.to_string().into(),
        is_error,
    }
}

fn reads(tool: &str, arguments: Value) -> Option<Preview> {
    let Value::Object(arguments) = arguments else {
        panic!("an object")
    };
    let tool = tool.to_string();
    Some(Preview::Reads {
        reads: vec![PreviewRead {
            tool,
            arguments,
            ..PreviewRead::default()
        }],
        new: Some("/more".to_string()),
    })
}

/// `put` is dangerous and previewed by a read of `look`, which answers `value`.
fn dangerous(change: impl FnOnce(&mut ToolSettings)) -> World {
    let world = World::with_tool("put", |tool| {
        tool.danger = Danger::Always;
        tool.preview = reads("look", json!({"path": {"from": "/path"}}));
        change(tool);
    });
    now_is(&world, "old");
    world
}

fn now_is(world: &World, value: &str) {
    let values = [("look".to_string(), text(value, false))];
    world.memory.values.lock().unwrap().extend(values);
}

/// What a call is answered with: its code, and the document where there is one.
fn ask(world: &World, arguments: &str) -> (&'static str, Value) {
    let answer = world.send(world.request("put", arguments));
    let document = match &answer.outcome {
        Outcome::Finished(finished) => {
            assert_eq!(finished.status, 202);
            serde_json::from_str(&finished.document).unwrap()
        }
        Outcome::Refused(refusal) => refusal.document("r"),
        _ => Value::Null,
    };
    (code(&answer), document)
}

fn with(token: &Value) -> String {
    json!({"path": "/a", "confirm_token": token}).to_string()
}

fn runs(world: &World) -> usize {
    world.memory.sent.lock().unwrap().len()
}

fn last(world: &World) -> (Ended, Links) {
    let notes = world.memory.notes.lock().unwrap();
    let outcome = notes.last().unwrap().outcome.clone().unwrap();
    (outcome.ended, outcome.links)
}

const CALL: &str = r#"{"path":"/a"}"#;

#[test]
fn r52_r53_a_dangerous_call_is_previewed_and_runs_with_its_code_once() {
    let world = dangerous(|_| ());
    let (code, prompt) = ask(&world, CALL);
    assert_eq!((code, runs(&world)), ("finished", 0));
    assert_eq!(prompt["status"], "confirmation_required");
    assert_eq!(prompt["expires_in_seconds"], 600);
    assert_eq!(prompt["preview"]["kind"], "reads");
    let (ended, links) = last(&world);
    assert_eq!(ended, Ended::ConfirmationRequired);
    assert_eq!(
        links.confirmation.as_deref(),
        prompt["confirmation_id"].as_str()
    );
    assert_eq!(ask(&world, &with(&prompt["confirm_token"])).0, "ok");
    assert_eq!(runs(&world), 1);
    assert_eq!(
        world.memory.sent.lock().unwrap()[0].1.as_deref(),
        Some(CALL)
    );
    let call = world
        .memory
        .notes
        .lock()
        .unwrap()
        .last()
        .unwrap()
        .call
        .clone();
    assert_eq!(
        call.links.confirmation.as_deref(),
        prompt["confirmation_id"].as_str()
    );
    let (again, document) = ask(&world, &with(&prompt["confirm_token"]));
    assert_eq!(
        (again, &document["context"]["reason"]),
        ("confirm_token_invalid", &json!("used"))
    );
    assert_eq!(runs(&world), 1);
}

#[test]
fn r50_r68_a_dry_run_reads_and_runs_nothing() {
    let world = dangerous(|_| ());
    let (code, document) = ask(&world, r#"{"path":"/a","dry_run":true}"#);
    assert_eq!((code, runs(&world)), ("finished", 0));
    assert_eq!(document["status"], "preview");
    assert_eq!(last(&world).0, Ended::Preview);
    assert_eq!(
        *world.memory.looked.lock().unwrap(),
        [("look".to_string(), Some(CALL.to_string()))]
    );
    let notes = world.memory.notes.lock().unwrap();
    assert_eq!(
        (notes[0].call.purpose, notes[0].call.tool.as_str()),
        (Purpose::Preview, "look")
    );
    assert_ne!(notes[0].call.call_id, notes[1].call.call_id);
    assert_eq!(
        world.memory.outcomes.lock().unwrap()[0].0.call_id,
        notes[0].call.call_id
    );
}

#[test]
fn an_executor_started_dry_previews_every_write() {
    let mut world = World::new();
    world.parts.executor.dry_run = true;
    let (code, document) = ask(&world, CALL);
    assert_eq!((code, &document["status"]), ("finished", &json!("preview")));
    assert_eq!(world.call("look", "{}"), "ok");
}

#[test]
fn r51_danger_is_never_always_or_a_schema() {
    let small = json!({"properties": {"n": {"maximum": 5}}, "required": ["n"]});
    let big = json!({"properties": {"n": {"minimum": 6}}, "required": ["n"]});
    let cases = [
        (Danger::Never, r#"{"n":1}"#, "ok"),
        (Danger::Always, r#"{"n":1}"#, "finished"),
        (Danger::When(big.clone()), r#"{"n":5}"#, "ok"),
        (Danger::When(big.clone()), r#"{"n":6}"#, "finished"),
        (Danger::When(big), r#"{}"#, "ok"),
        (Danger::When(small.clone()), r#"{"n":5}"#, "finished"),
        // Digits that cannot be judged: dangerous. The tool's own schema compares no numbers here.
        (
            Danger::When(small),
            r#"{"n":5.00000000000000000001}"#,
            "finished",
        ),
        (Danger::When(json!({})), r#"{}"#, "finished"),
    ];
    for (danger, arguments, want) in cases {
        let world = World::with_tool("put", |tool| {
            tool.danger = danger.clone();
            tool.validation = countersign_permission::Validation::Warn;
        });
        assert_eq!(ask(&world, arguments).0, want, "{danger:?} {arguments}");
    }
    let world = World::with_tool("put", |tool| {
        tool.danger = Danger::When(json!({"type": "sort"}))
    });
    assert_eq!(
        ask(&world, "{}").0,
        "not_found",
        "a danger that is no schema sets the tool aside"
    );
}

#[test]
fn r56_the_fingerprint_is_of_the_current_values() {
    let world = dangerous(|_| ());
    let print = |arguments: &str| ask(&world, arguments).1["preview"]["fingerprint"].clone();
    let first = print(CALL);
    assert_eq!(first.as_str().unwrap().len(), 64);
    assert_eq!(
        print(r#"{"path":"/a","n":2}"#),
        first,
        "of the values, not the arguments"
    );
    now_is(&world, "new");
    assert_ne!(print(CALL), first);
    let world = World::with_tool("put", |tool| tool.danger = Danger::Always);
    let (_, document) = ask(&world, "{}");
    assert_eq!(document["preview"]["kind"], "arguments_only");
    assert_eq!(
        document["preview"]["fingerprint"],
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    );
    assert!(
        document["preview"]["note"]
            .as_str()
            .unwrap()
            .contains("not what they would change")
    );
}

#[test]
fn a_preview_shows_the_values_and_the_difference() {
    let world = dangerous(|tool| {
        tool.preview = reads(
            "look",
            json!({"path": {"from": "/path"}, "list": ["x", {"from": "/none"}]}),
        )
    });
    let answer = |new: &str| {
        ask(&world, &json!({"path": "/a", "more": new}).to_string()).1["preview"].clone()
    };
    // `more` is a list by its schema, so the texts go through the tool with an open schema.
    assert!(answer("x").is_null());
    let mut world = World::new();
    world.tool("open_put", |tool| {
        tool.danger = Danger::Always;
        tool.open_arguments = true;
        tool.preview = reads("look", json!({"path": {"from": "/path"}}));
    });
    now_is(&world, "one\ntwo\n");
    let arguments = json!({"path": "/a", "more": "one\nTWO\n"}).to_string();
    let Outcome::Finished(finished) = world.send(world.request("open_put", &arguments)).outcome
    else {
        panic!()
    };
    let document: Value = serde_json::from_str(&finished.document).unwrap();
    assert_eq!(document["preview"]["diff"], " one\n-two\n+TWO\n");
    assert_eq!(
        document["preview"]["current"][0]["result"]["content"][0]["text"],
        "one\ntwo\n"
    );
    // What is not there yet is compared with nothing.
    world
        .memory
        .values
        .lock()
        .unwrap()
        .insert("look".into(), text("no such file", true));
    let Outcome::Finished(finished) = world.send(world.request("open_put", &arguments)).outcome
    else {
        panic!()
    };
    let document: Value = serde_json::from_str(&finished.document).unwrap();
    assert_eq!(document["preview"]["diff"], "+one\n+TWO\n");
}

#[test]
fn a_preview_that_fails_refuses_the_call() {
    let failed = |forwarded| Ran::Failed {
        failure: Failure::Server,
        forwarded,
        detail: "password=hunter2".into(),
    };
    let raw = |body: &'static str| Ran::Result {
        body: Bytes::from_static(body.as_bytes()),
        is_error: false,
    };
    let answers = [
        failed(Forwarded::Yes),
        failed(Forwarded::No),
        Ran::ProtocolError {
            body: Bytes::from_static(b"{}"),
        },
        raw("{}"),
        raw("[]"),
        raw(r#"{"content":{}}"#),
        raw(r#"{"content":[],"content":[]}"#),
    ];
    for answer in answers {
        let world = dangerous(|_| ());
        world
            .memory
            .values
            .lock()
            .unwrap()
            .insert("look".into(), answer.clone());
        for arguments in [CALL, r#"{"path":"/a","dry_run":true}"#] {
            let (code, document) = ask(&world, arguments);
            assert_eq!(code, "preview_failed", "{answer:?}");
            assert!(!document.to_string().contains("hunter2"));
        }
        assert_eq!((runs(&world), last(&world).0), (0, Ended::Refused));
        assert!(world.memory.confirmations.lock().unwrap().is_empty());
    }
    for (tool, arguments) in [
        ("nothing", json!({})),
        ("open_put", json!({})),
        ("look", json!({"zzz": 1})),
        ("countersign_whoami", json!({})),
    ] {
        let world = dangerous(|set| set.preview = reads(tool, arguments));
        assert_eq!(ask(&world, CALL).0, "preview_failed", "{tool}");
        assert!(world.memory.looked.lock().unwrap().is_empty());
    }
}

#[test]
fn values_the_agent_may_not_read_are_kept_from_it() {
    let mut world = dangerous(|_| ());
    world.agent(|agent| agent.scopes = Some(["files:write".to_string()].into()));
    now_is(&world, "a secret");
    let (code, prompt) = ask(&world, CALL);
    assert_eq!(code, "finished");
    assert!(!prompt.to_string().contains("a secret"));
    assert!(
        prompt["preview"].get("fingerprint").is_none() && prompt["preview"].get("diff").is_none()
    );
    assert_eq!(
        prompt["preview"]["current"][0]["left_out"],
        "for the person only"
    );
    now_is(&world, "another");
    assert_eq!(
        ask(&world, &with(&prompt["confirm_token"])).1["reason"],
        "changed"
    );
    // A tool that does not exist for agents stays closed to recipes too.
    world.tool("look", |tool| tool.hidden = true);
    world.agent(|agent| agent.scopes = Some(["files:write".to_string()].into()));
    assert_eq!(ask(&world, CALL).0, "preview_failed");
}

#[test]
fn the_servers_own_dry_run_is_one_more_way() {
    let world = dangerous(|tool| {
        tool.preview = Some(Preview::Argument {
            pointer: "/n".into(),
            value: json!(0),
        })
    });
    world
        .memory
        .values
        .lock()
        .unwrap()
        .insert("put".into(), text("would do x", false));
    let (code, prompt) = ask(&world, r#"{"path":"/a","n":7}"#);
    assert_eq!(
        (code, &prompt["preview"]["kind"]),
        ("finished", &json!("dry_run"))
    );
    assert_eq!(
        world.memory.looked.lock().unwrap()[0],
        (
            "put".to_string(),
            Some(r#"{"path":"/a","n":0}"#.to_string())
        )
    );
    assert_eq!(runs(&world), 0);
    world
        .memory
        .values
        .lock()
        .unwrap()
        .insert("put".into(), text("no", true));
    assert_eq!(ask(&world, CALL).0, "preview_failed");
    let world = dangerous(|tool| {
        tool.preview = Some(Preview::Argument {
            pointer: "/unknown".into(),
            value: json!(0),
        })
    });
    assert_eq!(
        ask(&world, CALL).0,
        "preview_failed",
        "held to the tool's schema like any call"
    );
}

#[test]
fn a_read_may_be_for_some_calls_and_parts_of_its_answer_for_none() {
    let world = dangerous(|tool| {
        let Some(Preview::Reads { reads, new }) = &mut tool.preview else {
            panic!("reads");
        };
        reads[0].when = Some("/n".to_string());
        reads[0].ignore = vec!["/token".to_string()];
        reads[0].text = Some("/content".to_string());
        *new = Some("/path".to_string());
    });
    let file = |text: &str, token: &str| json!({"content": text, "token": token}).to_string();
    now_is(&world, &file("old", "A"));
    let (_, without) = ask(&world, CALL);
    assert_eq!(without["preview"]["kind"], "arguments_only");
    assert_eq!(world.memory.looked.lock().unwrap().len(), 0);
    let call = |token: &Value| json!({"path": "/a", "n": 1, "confirm_token": token}).to_string();
    let (_, first) = ask(&world, r#"{"path":"/a","n":1}"#);
    assert_eq!(first["preview"]["diff"], "-old\n+/a\n");
    now_is(&world, &file("new", "A"));
    let (_, second) = ask(&world, &call(&first["confirm_token"]));
    assert_eq!(second["reason"], "changed");
    now_is(&world, &file("new", "B"));
    assert_eq!(ask(&world, &call(&second["confirm_token"])).0, "ok");
    // No such text in the answer: said so, and still fingerprinted.
    now_is(&world, "no document");
    let (_, odd) = ask(&world, r#"{"path":"/a","n":2}"#);
    assert_eq!(
        odd["preview"]["diff"]["left_out"],
        "the current text was not found"
    );
}

#[test]
fn r91_changed_values_are_asked_about_again() {
    let world = dangerous(|_| ());
    let (_, first) = ask(&world, CALL);
    now_is(&world, "new");
    let (code, second) = ask(&world, &with(&first["confirm_token"]));
    assert_eq!((code, &second["reason"]), ("finished", &json!("changed")));
    let links = last(&world).1;
    assert_eq!(links.replaces.as_deref(), first["confirmation_id"].as_str());
    assert_eq!(
        links.confirmation.as_deref(),
        second["confirmation_id"].as_str()
    );
    assert_eq!(
        ask(&world, &with(&first["confirm_token"])).1["context"]["reason"],
        "expired"
    );
    assert_eq!(runs(&world), 0);
    assert_eq!(ask(&world, &with(&second["confirm_token"])).0, "ok");
}

#[test]
fn r90_why_a_code_is_refused() {
    let reason = |world: &World, arguments: &str| {
        let (code, document) = ask(world, arguments);
        assert_eq!(code, "confirm_token_invalid");
        assert_eq!(runs(world), 0);
        document["context"]["reason"].as_str().unwrap().to_string()
    };
    let world = dangerous(|_| ());
    assert_eq!(reason(&world, &with(&json!("cc_x"))), "invalid");
    let (_, prompt) = ask(&world, CALL);
    let token = &prompt["confirm_token"];
    let other = json!({"path": "/b", "confirm_token": token}).to_string();
    assert_eq!(reason(&world, &other), "other_arguments");
    let id = prompt["confirmation_id"].as_str().unwrap();
    for (state, want) in [
        (ConfirmationState::Rejected, "rejected"),
        (ConfirmationState::Expired, "expired"),
        (ConfirmationState::Used, "used"),
    ] {
        world.memory.end_confirmation(id, state);
        assert_eq!(reason(&world, &with(token)), want);
    }
    world
        .memory
        .end_confirmation(id, ConfirmationState::Waiting);
    *world.later.lock().unwrap() = 600;
    assert_eq!(reason(&world, &with(token)), "expired");
    *world.later.lock().unwrap() = 599;
    world.memory.confirmations.lock().unwrap()[0]
        .row
        .bound
        .actor = "agent/other".into();
    let (_, stranger) = ask(&world, &with(token));
    let (_, unknown) = ask(&world, &with(&json!("cc_unknown")));
    assert_eq!(stranger, unknown, "edge 11: one answer for both");
    let code = |tool: &str| {
        super::world::code(&world.send(world.request(tool, r#"{"confirm_token":"x"}"#)))
    };
    assert_eq!(
        code("open_put"),
        "confirm_token_invalid",
        "a code is never ignored"
    );
}

#[test]
fn five_wrong_codes_end_a_confirmation() {
    for (wrong, want) in [(4, "ok"), (5, "confirm_token_invalid")] {
        let world = dangerous(|_| ());
        let (_, prompt) = ask(&world, CALL);
        for _ in 0..wrong {
            assert_eq!(
                ask(&world, &with(&json!("cc_wrong"))).0,
                "confirm_token_invalid"
            );
        }
        assert_eq!(ask(&world, &with(&prompt["confirm_token"])).0, want);
    }
}

#[test]
fn r93_a_refusal_before_spending_leaves_it_waiting() {
    let mut world = dangerous(|_| ());
    let (_, prompt) = ask(&world, CALL);
    let redeem = with(&prompt["confirm_token"]);
    world.agent(|agent| agent.scopes = Some(Default::default()));
    assert_eq!(ask(&world, &redeem).0, "forbidden");
    world.agent(|agent| agent.scopes = None);
    world.memory.values.lock().unwrap().insert(
        "look".into(),
        Ran::ProtocolError {
            body: Bytes::from_static(b"{}"),
        },
    );
    assert_eq!(ask(&world, &redeem).0, "preview_failed");
    now_is(&world, "old");
    *world.memory.book_fails.lock().unwrap() = Some("note");
    assert_eq!(
        ask(&world, &redeem).0,
        "preview_failed",
        "a preview's reads are entries, or are not made"
    );
    *world.memory.book_fails.lock().unwrap() = None;
    assert_eq!(ask(&world, &redeem).0, "ok", "edge 12");
}

#[test]
fn r49_a_key_goes_through_prompt_and_code_and_replays_after() {
    let world = dangerous(|_| ());
    let (_, prompt) = ask(&world, r#"{"path":"/a","idempotency_key":"k"}"#);
    assert!(world.memory.claims.lock().unwrap().is_empty());
    let redeem =
        json!({"path": "/a", "confirm_token": prompt["confirm_token"], "idempotency_key": "k"})
            .to_string();
    assert_eq!(ask(&world, &redeem).0, "ok");
    assert!(world.send(world.request("put", &redeem)).replayed);
    assert_eq!(runs(&world), 1);
}

#[test]
fn nothing_of_a_lost_race_is_spent() {
    let world = dangerous(|_| ());
    let (_, prompt) = ask(&world, CALL);
    let id = prompt["confirmation_id"].as_str().unwrap().to_string();
    *world.memory.spent_meanwhile.lock().unwrap() = Some(id);
    let redeem =
        json!({"path": "/a", "confirm_token": prompt["confirm_token"], "idempotency_key": "k"})
            .to_string();
    let (code, document) = ask(&world, &redeem);
    assert_eq!(
        (code, &document["context"]["reason"]),
        ("confirm_token_invalid", &json!("used"))
    );
    assert!(runs(&world) == 0 && world.memory.claims.lock().unwrap().is_empty());
}

#[test]
fn no_code_and_no_value_is_in_an_entry_and_failures_close() {
    let world = dangerous(|_| ());
    now_is(&world, "current words");
    let (_, prompt) = ask(&world, CALL);
    let token = prompt["confirm_token"].as_str().unwrap().to_string();
    assert_eq!(ask(&world, &with(&json!(token))).0, "ok");
    let notes = format!("{:?}", world.memory.notes.lock().unwrap());
    assert!(!notes.contains(&token) && !notes.contains("current words"));
    let world = dangerous(|_| ());
    for name in ["confirmation", "wrong_code", "prompt", "random"] {
        *world.memory.fails_at.lock().unwrap() = Some(name);
        let arguments = if name == "prompt" || name == "random" {
            CALL.to_string()
        } else {
            with(&json!("x"))
        };
        assert_eq!(ask(&world, &arguments).0, "internal_error", "{name}");
    }
    assert_eq!(runs(&world), 0);
}

#[test]
fn reads_are_never_dangerous_and_approval_without_danger_is_none() {
    let world = World::with_tool("look", |tool| {
        tool.kind = Kind::Read;
        tool.danger = Danger::Always;
    });
    assert_eq!(world.call("look", "{}"), "ok");
    let world = World::with_tool("put", |tool| tool.approval = Approval::Person);
    assert_eq!(ask(&world, "{}").0, "ok");
}
