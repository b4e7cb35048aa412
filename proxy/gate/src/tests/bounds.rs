//! Steps 7 and 8 in the flow: what no tool may touch, bounded writes and two strikes, and how they meet the other steps.

use std::sync::Arc;

use countersign_permission::{Kind, Mode};
use serde_json::{Value, json};

use super::world::{World, block_on, code};
use crate::answer::Outcome;
use crate::approval::Verdict as Decision;
use crate::paths::memory::Disk;
use crate::paths::{Closed, Declared, EXECUTOR_CLOSED, Effect, Holding};
use crate::policy::Policy;
use crate::ports::{Clock, DecisionNote, Durability, Ended, Note, Verdict};
use crate::request::{QUEUE, ReadMethod, Request, Target};
use crate::turn::{By, StrikeClaim, Turns, What};

const POLICY: &str = r#"{"version":1,"metadata":{"id":"notes"},"allow_writes":["ok/**"],"deny_writes":["ok/no/**"]}"#;

fn policy(text: &str) -> Option<Arc<Policy>> {
    Some(Arc::new(Policy::parse(text.as_bytes()).unwrap()))
}

fn declared(pointer: &str, effect: Effect) -> Declared {
    Declared {
        pointer: pointer.to_string(),
        effect,
    }
}

/// An agent whose writes are bounded to `/w/ok`, and `put` that writes at `path`.
fn world() -> World {
    let mut world = World::with_tool("put", |tool| {
        tool.paths = vec![declared("/path", Effect::Write)];
    });
    world.disk = Disk::new()
        .home("/home/maria")
        .folder("/srv")
        .folder("/w/ok/no")
        .file("/w/ok/a");
    world.agent(|agent| {
        agent.workspace = Some("/w".into());
        agent.write_policy = policy(POLICY);
    });
    world
}

/// An executor whose folder is `/home/maria/cs`.
fn held() -> World {
    let mut world = World::with_tool("put", |tool| {
        tool.paths = vec![declared("/path", Effect::Write)];
    });
    world.holdings = vec![Holding {
        whose: "the executor",
        root: "/home/maria/cs".into(),
        closed: Closed::Below(EXECUTOR_CLOSED.map(String::from).to_vec()),
    }];
    world.disk = Disk::new()
        .home("/home/maria")
        .folder("/srv")
        .file("/home/maria/cs/executor.json")
        .file("/home/maria/cs/secrets.enc")
        .file("/home/maria/cs/book/journal/0")
        .link("/srv/link", "/home/maria/cs")
        .hard_link("/srv/twin", "/home/maria/cs/executor.json");
    world
}

fn path(path: &str) -> String {
    json!({"path": path}).to_string()
}

fn refused(world: &World, tool: &str, arguments: &str) -> Value {
    match world.send(world.request(tool, arguments)).outcome {
        Outcome::Refused(refusal) => refusal.document("r"),
        other => panic!("not refused: {other:?}"),
    }
}

fn notes(world: &World) -> Vec<Note> {
    world.memory.notes.lock().unwrap().clone()
}

fn last(world: &World) -> Note {
    notes(world).pop().unwrap()
}

fn decision(world: &World) -> DecisionNote {
    last(world).decisions.pop().unwrap()
}

fn sent(world: &World) -> usize {
    world.memory.sent.lock().unwrap().len()
}

fn moved(world: &World) -> Vec<(u64, What)> {
    let notes = notes(world);
    let facts = notes.iter().flat_map(|note| &note.turns);
    facts.map(|fact| (fact.turn, fact.what)).collect()
}

fn open(world: &World, by: By) -> bool {
    let stands = block_on(world.turns.open("claude", by, world.now())).unwrap();
    stands.is_some()
}

#[test]
fn p53_p54_p55_p58_the_first_denial_is_feedback_and_the_second_ends_the_turn() {
    let world = world();
    assert_eq!(world.call("look", "{}"), "ok");
    let first = refused(&world, "put", &path("out"));
    assert_eq!(first["code"], "write_policy_denied");
    assert_eq!(first["context"]["matched_rule"], "no_allow_match");
    assert!(!first["next_actions"].as_array().unwrap().is_empty());
    assert_eq!(
        world.call("put", &path("ok/a")),
        "ok",
        "its other calls go on"
    );
    let second = refused(&world, "put", &path("ok/no/x"));
    assert_eq!(second["code"], "turn_terminated");
    assert_eq!(second["context"]["denial"]["requested_path"], "ok/no/x");
    assert_eq!(second["context"]["strikes"].as_array().unwrap().len(), 2);
    for (tool, arguments) in [("look", "{}".to_string()), ("put", path("ok/a"))] {
        let later = refused(&world, tool, &arguments);
        assert_eq!(later["code"], "turn_terminated", "{tool}");
        assert_eq!(later["context"]["denial"], second["context"]["denial"]);
    }
    assert_eq!(sent(&world), 2);
    assert_eq!(moved(&world), [(1, What::Opened), (1, What::Failed)]);
    let gates: Vec<_> = notes(&world)
        .iter()
        .flat_map(|note| note.decisions.clone())
        .map(|one| (one.gate, one.verdict == Verdict::Deny, one.rule))
        .collect();
    let want = [
        ("write_policy", true, "no_allow_match"),
        ("write_policy", false, "allow_match"),
        ("write_policy", true, "deny_match"),
        ("turn", true, "turn_terminated"),
        ("turn", true, "turn_terminated"),
    ];
    assert_eq!(
        gates,
        want.map(|(gate, deny, rule)| (gate, deny, rule.to_string()))
    );
    assert!(notes(&world).iter().all(|note| note.call.turn == Some(1)));
    assert!(!open(&world, By::Hook), "a prompt does not reopen it");
    assert_eq!(world.call("look", "{}"), "turn_terminated");
    assert!(open(&world, By::App));
    assert_eq!(world.call("put", &path("ok/a")), "ok");
    assert_eq!(last(&world).call.turn, Some(2));
}

#[test]
fn p16_p41_p44_p72_a_denied_call_is_one_entry_with_what_was_looked_at_on_disk() {
    let world = world();
    world.call("look", "{}");
    refused(&world, "put", r#"{"path":"../etc/x","dry_run":true}"#);
    let note = last(&world);
    assert_eq!(note.durability, Durability::Strict);
    assert_eq!(note.outcome.unwrap().ended, Ended::Refused);
    let [denied] = note.decisions.as_slice() else {
        panic!("one decision")
    };
    let hash = policy(POLICY).unwrap().hash();
    assert_eq!(
        (denied.policy, denied.aim.as_deref()),
        (Some(hash), Some("../etc/x"))
    );
    for (member, want) in [
        ("policy_id", "notes"),
        ("tool", "put"),
        ("requested_path", "../etc/x"),
        ("matched_rule", "path_outside_workspace"),
    ] {
        assert_eq!(denied.bounds[member], want);
    }
    let known = crate::policy::FACTS;
    assert!(
        denied
            .bounds
            .keys()
            .all(|name| known.contains(&name.as_str()))
    );
    // P68: it was a dry run, and it counts.
    assert_eq!(world.call("put", &path("out")), "turn_terminated");
}

#[test]
fn p43_an_allowed_write_is_recorded_by_its_policy_and_a_read_is_not() {
    let world = world();
    assert_eq!(world.call("look", &path("/anywhere")), "ok");
    assert!(last(&world).decisions.is_empty());
    assert_eq!(world.call("put", &path("ok/a")), "ok");
    let allowed = decision(&world);
    let hash = policy(POLICY).unwrap().hash();
    assert_eq!(
        (allowed.gate, allowed.verdict, allowed.policy),
        ("write_policy", Verdict::Allow, Some(hash))
    );
    assert_eq!(allowed.bounds["policy_id"], "notes");
    assert_eq!(allowed.bounds["normalized_path"], "ok/a");
    let unbounded = World::new();
    assert_eq!(unbounded.call("put", &path("/anywhere")), "ok");
    assert!(last(&unbounded).decisions.is_empty());
}

#[test]
fn what_is_forwarded_is_the_path_that_was_judged() {
    let world = world();
    let forwarded = |arguments: &str| {
        let answer = world.call("put", arguments);
        assert_eq!(answer, "ok", "{arguments}");
        let (_, sent) = world.memory.sent.lock().unwrap().last().cloned().unwrap();
        (sent.unwrap(), last(&world).call)
    };
    for (requested, want) in [
        (
            r#"{"n": 9007199254740993, "path" : "ok/a"}"#,
            r#"{"n": 9007199254740993, "path" : "/w/ok/a"}"#,
        ),
        (r#"{"path":"./ok//x/../a"}"#, r#"{"path":"/w/ok/a"}"#),
        (r#"{"path":"/w/./ok/a/"}"#, r#"{"path":"/w/ok/a"}"#),
        (
            r#"{"path":"ok/\u0061","idempotency_key":"k"}"#,
            r#"{"path":"/w/ok/a"}"#,
        ),
    ] {
        let (sent, call) = forwarded(requested);
        assert_eq!(sent, want);
        // Both are recorded.
        assert_eq!(call.sent.as_deref(), Some(want.as_bytes()));
        assert_ne!(call.received, call.sent);
    }
    let (sent, call) = forwarded(r#"{"path": "/w/ok/a"}"#);
    assert_eq!((sent.as_str(), call.sent), (r#"{"path": "/w/ok/a"}"#, None));
}

#[test]
fn a_path_that_would_mean_another_file_to_the_server_is_not_sent() {
    let relative = |cwd: &str| {
        let mut world = world();
        world.parts.servers[0].cwd = Some(cwd.to_string());
        world.tools = r##"[{"name":"put","inputSchema":{"type":"object","properties":{"path":{"type":"string","pattern":"^[^/]"}}}}]"##;
        world.rebuild();
        world
    };
    let there = relative("/w");
    assert_eq!(there.call("put", &path("ok/a")), "ok");
    assert_eq!(there.memory.sent.lock().unwrap()[0].1, Some(path("ok/a")));
    let elsewhere = relative("/srv");
    for _ in 0..3 {
        let refusal = refused(&elsewhere, "put", &path("ok/a"));
        assert_eq!(refusal["code"], "validation_failed", "and no strike");
        assert!(
            refusal["next_actions"][0]
                .as_str()
                .unwrap()
                .contains("`cwd`")
        );
    }
    assert_eq!(sent(&elsewhere), 0);
}

#[test]
fn p25_p73_malformed_calls_and_unknown_tools_never_strike() {
    let world = world();
    for (tool, arguments, want) in [
        ("put", "{}", "validation_failed"),
        ("put", r#"{"path":""}"#, "validation_failed"),
        ("put", r#"{"path":7}"#, "validation_failed"),
        ("put", r#"{"path":"out","zzz":1}"#, "validation_failed"),
        ("gone", r#"{"path":"out"}"#, "not_found"),
    ] {
        assert_eq!(world.call(tool, arguments), want, "{arguments}");
    }
    // A call that does not say what it writes is decided by nobody.
    let malformed = notes(&world).into_iter().next().unwrap();
    assert!(malformed.decisions.is_empty());
    assert_eq!(world.call("put", &path("out")), "write_policy_denied");
    assert_eq!(world.call("put", &path("ok/a")), "ok");
}

#[test]
fn p24_p56_undeclared_tools_strike_like_any_other_rule() {
    let world = world();
    assert_eq!(world.call("open_put", "{}"), "write_policy_denied");
    assert_eq!(decision(&world).rule, "unsupported_mutating_tool");
    assert_eq!(world.call("put", &path(".")), "turn_terminated");
}

#[test]
fn p45_p46_p49_a_command_outside_strikes_and_a_disabled_shell_never() {
    let mut world = world();
    world.tool("open_put", |tool| {
        tool.open_arguments = true;
        tool.paths = vec![declared("/run", Effect::Command)];
    });
    let run = |command: &str| refused(&world, "open_put", &json!({"run": command}).to_string());
    for _ in 0..3 {
        let refusal = run("make all");
        assert_eq!(refusal["code"], "shell_disabled");
    }
    assert_eq!(decision(&world).rule, "shell_disabled");
    assert_eq!(world.call("open_put", r#"{"run":"cat ok/a"}"#), "ok");
    let outside = run("cat /etc/passwd");
    assert_eq!(outside["code"], "write_policy_denied");
    assert_eq!(outside["context"]["token"], "/etc/passwd");
    assert_eq!(run("cat /etc/passwd")["code"], "turn_terminated");
}

#[test]
fn p15_evidence_then_policy_then_mode_and_validation_before_all() {
    let mut world = held();
    world.disk = world.disk.clone().folder("/w/ok");
    world.agent(|agent| {
        agent.workspace = Some("/w".into());
        agent.write_policy = policy(POLICY);
        agent.mode = Mode::ReadOnly;
    });
    assert_eq!(world.call("put", r#"{"n":"x"}"#), "validation_failed");
    let inside = path("/home/maria/cs/executor.json");
    assert_eq!(world.call("put", &inside), "protected_path");
    assert_eq!(world.call("put", &path("out")), "write_policy_denied");
    assert_eq!(world.call("put", &path("ok/x")), "permission_denied");
    assert_eq!(
        world.call("put", &inside),
        "protected_path",
        "P32: no strike"
    );
    assert_eq!(world.call("put", &path("out")), "turn_terminated");
    // Step 7 stands before the latch.
    assert_eq!(world.call("put", &inside), "protected_path");
}

#[test]
fn p29_p30_p32_what_is_the_executors_is_out_of_reach_however_it_is_spelled() {
    let mut world = held();
    world.tool("open_put", |tool| tool.open_arguments = true);
    for written in [
        "/home/maria/cs",
        "/home/maria",
        "/home/maria/cs/executor.json",
        "/home/maria/cs/book/journal/0",
        "/home/maria/cs/new/file",
        "~/cs/executor.json",
        "file:///home/maria/cs/executor.json",
        "/srv/../home/maria/cs/x",
        "../home/maria/cs/x",
        "link/executor.json",
        "/srv/link",
        "/srv/twin",
        "/proc/self/environ",
    ] {
        assert_eq!(
            world.call("put", &path(written)),
            "protected_path",
            "{written}"
        );
        let denied = decision(&world);
        assert_eq!(
            (denied.gate, denied.verdict, denied.aim.as_deref()),
            ("evidence_protection", Verdict::Deny, Some(written))
        );
        assert!(denied.bounds.is_empty());
    }
    for (written, want) in [
        ("/home/maria/cs/executor.json", "ok"),
        ("/home/maria/cs-notes", "ok"),
        ("/home/maria/cs/secrets.enc", "protected_path"),
        ("link/secrets.enc", "protected_path"),
        ("/home/maria/cs/state.db-wal", "protected_path"),
        ("/home/maria/cs/book/vault/x", "protected_path"),
        ("/proc/1/mem", "protected_path"),
    ] {
        assert_eq!(world.call("look", &path(written)), want, "{written}");
    }
    // Nothing is declared of `look` nor of `open_put`: any text counts, names too.
    let deep = r#"{"deep":[{"~/cs/executor.json":1}]}"#;
    assert_eq!(world.call("open_put", deep), "protected_path");
    assert_eq!(
        world.call("open_put", r#"{"text":"no path of ours"}"#),
        "ok"
    );
    // A text no system opens as it stands, but which somebody may shorten first.
    let long = |end: &str| json!({"text": format!("{}{end}", "x/../".repeat(40_000))}).to_string();
    assert_eq!(
        world.call("open_put", &long("../home/maria/cs/x")),
        "protected_path"
    );
    assert_eq!(world.call("open_put", &long("and so on")), "ok");
}

#[test]
fn step_7_looks_at_methods_and_at_everybody() {
    let world = held();
    let read = |uri: &str| {
        let request = world.request("", &json!({"uri": uri}).to_string());
        let target = Target::Method(ReadMethod::ResourcesRead);
        code(&world.send(Request { target, ..request }))
    };
    assert_eq!(read("file:///home/maria/cs/secrets.enc"), "protected_path");
    assert_eq!(
        read("file:///home/maria/cs%2Fsecrets.enc"),
        "protected_path"
    );
    assert_eq!(read("file:///srv/a"), "ok");
    let mut world = held();
    world.tool("look", |tool| tool.audience = crate::Audience::Public);
    let request = world.public("look", &path("/home/maria/cs/secrets.enc"));
    assert_eq!(code(&world.send(request)), "protected_path");
}

#[test]
fn an_executor_whose_own_folder_cannot_be_found_lets_no_path_through() {
    let mut world = held();
    world.holdings[0].root = String::new();
    assert_eq!(world.call("put", &path("/srv/a")), "protected_path");
    assert_eq!(decision(&world).rule, "path_not_inspectable");
    world.disk = world.disk.clone().unreadable("/srv/locked");
    world.holdings[0].root = "/home/maria/cs".into();
    assert_eq!(world.call("put", &path("/srv/locked/a")), "protected_path");
    assert_eq!(world.call("put", &path("/srv/a")), "ok");
}

#[test]
fn without_the_record_of_turns_nothing_is_forwarded() {
    let world = world();
    for (fails, tool, arguments) in [
        ("arrive", "look", "{}".to_string()),
        ("strike", "put", path("out")),
        ("show", "put", path("ok/a")),
    ] {
        *world.turns.fails_at.lock().unwrap() = Some(fails);
        let refusal = refused(&world, tool, &arguments);
        assert_eq!(refusal["code"], "record_unavailable", "{fails}");
    }
    assert_eq!(sent(&world), 0);
    *world.turns.fails_at.lock().unwrap() = None;
    assert_eq!(world.call("put", &path("out")), "write_policy_denied");
}

#[test]
fn what_happened_to_a_turn_is_owed_until_it_is_in_the_book() {
    let world = world();
    let owed = || block_on(world.turns.owed(jiff::Timestamp::MAX)).unwrap();
    *world.memory.book_fails.lock().unwrap() = Some("note");
    assert_eq!(world.call("look", "{}"), "record_unavailable");
    assert_eq!(owed().len(), 1);
    // P71: what cannot be recorded does not hide why.
    assert_eq!(world.call("put", &path("out")), "write_policy_denied");
    assert_eq!(world.call("put", &path("out")), "turn_terminated");
    assert_eq!(owed().len(), 2);
    *world.memory.book_fails.lock().unwrap() = None;
    open(&world, By::Command);
    let before = owed().len();
    assert_eq!(world.call("put", &path("out")), "write_policy_denied");
    assert_eq!(world.call("put", &path("out")), "turn_terminated");
    // Their own process writes them in the call's batch; what others owe stays owed.
    assert_eq!(moved(&world), [(2, What::Failed)]);
    assert_eq!(owed().len(), before);
}

#[test]
fn an_approved_write_is_judged_again_by_todays_policy() {
    let mut world = world();
    world.agent(|agent| agent.requires_approval = true);
    world.parts.executor.hold = jiff::SignedDuration::ZERO;
    let call = path("ok/a");
    assert_eq!(world.call("put", &call), "finished");
    // What is kept is what the agent wrote; the person sees where it leads.
    {
        let kept = world.memory.approvals.lock().unwrap();
        assert_eq!(kept[0].arguments, call);
        assert!(kept[0].preview.contains("/w/ok/a"), "{}", kept[0].preview);
    }
    world.memory.decide(Decision::Approve, world.now()).unwrap();
    world.agent(|agent| {
        agent.write_policy = policy(r#"{"version":1,"allow_writes":["else/**"]}"#);
    });
    let run = |world: &World| {
        let request = world.request("put", &call);
        code(&world.send(Request {
            via: QUEUE,
            ..request
        }))
    };
    assert_eq!(run(&world), "write_policy_denied");
    assert_eq!(sent(&world), 0);
    world.agent(|agent| agent.write_policy = policy(POLICY));
    assert_eq!(run(&world), "ok");
    assert_eq!(
        world.memory.sent.lock().unwrap()[0].1,
        Some(path("/w/ok/a"))
    );
}

#[test]
fn a_write_that_was_held_while_its_turn_ended_is_not_sent() {
    let mut world = world();
    world.agent(|agent| agent.requires_approval = true);
    *world.memory.decides.lock().unwrap() = Some((1, Decision::Approve));
    *world.memory.strikes_in_pause.lock().unwrap() = true;
    let refusal = refused(&world, "put", &path("ok/a"));
    assert_eq!(refusal["code"], "turn_terminated");
    assert_eq!(decision(&world).gate, "turn");
    assert_eq!(sent(&world), 0);
}

#[test]
fn a_replay_passes_the_policy_of_today_and_runs_nothing() {
    let mut world = world();
    let keyed = r#"{"path":"ok/a","idempotency_key":"k"}"#;
    assert_eq!(world.call("put", keyed), "ok");
    assert_eq!(world.call("put", &path("out")), "write_policy_denied");
    let again = world.send(world.request("put", keyed));
    assert!(again.replayed && sent(&world) == 1);
    // The key is bound to what the agent wrote, not to where a policy let it lead.
    world.agent(|agent| agent.write_policy = None);
    assert!(world.send(world.request("put", keyed)).replayed);
    world.agent(|agent| {
        agent.write_policy = policy(r#"{"version":1,"allow_writes":[]}"#);
    });
    assert_eq!(world.call("put", keyed), "turn_terminated");
    assert_eq!(sent(&world), 1);
}

#[test]
fn p57_turns_are_each_agents_own_and_idle_ones_end_only_without_a_strike() {
    let mut world = world();
    world.agent(|agent| agent.turn_idle_minutes = 10);
    world.call("look", "{}");
    *world.later.lock().unwrap() = 11 * 60;
    world.call("look", "{}");
    assert_eq!(last(&world).call.turn, Some(2));
    assert_eq!(world.call("put", &path("out")), "write_policy_denied");
    *world.later.lock().unwrap() = 60 * 60;
    world.call("look", "{}");
    assert_eq!(last(&world).call.turn, Some(2), "a strike keeps it");
    let facts = serde_json::Map::new();
    for call_id in ["x1", "x2"] {
        let claim = StrikeClaim {
            agent: "another",
            call_id,
            facts: &facts,
            now: world.now(),
        };
        block_on(world.turns.strike(claim)).unwrap();
    }
    assert_eq!(world.call("look", "{}"), "ok");
}

#[test]
fn a_tool_that_reads_by_name_but_runs_commands_is_bounded_too() {
    let mut world = world();
    world.tool("look", |tool| {
        tool.kind = Kind::Read;
        tool.paths = vec![declared("/path", Effect::Command)];
    });
    assert_eq!(world.call("look", &path("rm -rf ok")), "shell_disabled");
    assert_eq!(
        world.call("look", &path("cat /etc/passwd")),
        "write_policy_denied"
    );
    assert_eq!(world.call("look", &path("cat ok/a")), "ok");
    assert_eq!(last(&world).durability, Durability::Strict);
}

#[test]
fn whoami_says_where_an_agent_may_write() {
    let world = world();
    let request = world.request("", "");
    let target = Target::Tool(crate::facts::WHOAMI.into());
    let Outcome::Finished(finished) = world.send(Request { target, ..request }).outcome else {
        panic!("an answer")
    };
    let document: Value = serde_json::from_str(&finished.document).unwrap();
    assert_eq!(document["workspace"], "/w");
    assert_eq!(document["write_policy"], policy(POLICY).unwrap().metadata());
}
