//! Prices and buckets.

use proptest::prelude::{any, prop_assert_eq, proptest};

use super::world::{World, code};
use crate::bucket::take;
use crate::facts::{Facts, FactsError};
use crate::price::Cost;
use crate::rate::BucketSize;
use crate::request::{Audience, Request, Target};

fn list(count: usize) -> String {
    format!("[{}]", vec!["1"; count].join(","))
}

/// What a call costs.
fn check(world: &World, tool: &str, arguments: &str, want: u64) {
    world.memory.levels.lock().unwrap().clear();
    world.call(tool, arguments);
    assert_eq!(
        world.spent("key", 120),
        want,
        "{tool} {}",
        &arguments[..arguments.len().min(60)]
    );
}

#[test]
fn r18_r19_r20_r21_r22_r23_the_price_of_an_agents_call() {
    let world = World::new();
    let rows = |count| format!("{{\"rows\":{}}}", list(count));
    for (count, units) in [
        (0, 1),
        (1, 1),
        (50, 1),
        (51, 2),
        (100, 2),
        (101, 3),
        (120, 3),
        (1000, 20),
        (1001, 20),
        (10_000, 20),
    ] {
        check(&world, "put", &rows(count), units);
    }
    check(
        &world,
        "put",
        &format!("{{\"rows\":{},\"more\":{}}}", list(10), list(160)),
        4,
    );
    check(
        &world,
        "put",
        &format!("{{\"deep\":{{\"a\":{}}}}}", list(500)),
        1,
    );
    check(&world, "look", &format!("{{\"list\":{}}}", list(300)), 1);
    for odd in ["", "null", "7", "\"x\"", &list(500), "{\"rows\":[}"] {
        check(&world, "put", odd, 1);
    }
}

#[test]
fn r24_r33_declared_prices_and_clamps() {
    let rows = |count| format!("{{\"rows\":{}}}", list(count));
    let world = World::with_tool("put", |tool| tool.max_items = Some(200));
    check(&world, "put", &rows(10_000), 4);
    assert_eq!(world.call("put", &rows(201)), "validation_failed");
    assert_eq!(world.call("put", &rows(200)), "ok");
    let world = World::with_tool("put", |tool| tool.max_items = Some(10));
    check(&world, "put", &rows(500), 1);
    let world = World::with_tool("put", |tool| tool.cost = Some(Cost::Units(7)));
    check(&world, "put", &rows(500), 7);
    let world = World::with_tool("put", |tool| tool.cost = Some(Cost::Units(0)));
    check(&world, "put", "{}", 1);
    let world = World::with_tool("look", |tool| {
        tool.cost = Some(Cost::Per("/deep~1er/0/q".into()));
        tool.max_items = Some(5);
        tool.open_arguments = true;
    });
    check(&world, "look", r#"{"deep/er":[{"q":[1,2,3]}]}"#, 3);
    check(&world, "look", r#"{"deep/er":[{"q":[1,2,3,4,5,6,7]}]}"#, 5);
    check(&world, "look", "{}", 1);
}

#[test]
fn a_bucket_that_could_never_pay_is_an_error() {
    let mut world = World::with_tool("put", |tool| tool.cost = Some(Cost::Units(121)));
    let error = Facts::new(world.parts.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "buckets.key.size is 120, but `files/put` can cost 121: a call that can never be paid for"
    );
    world.parts.servers[0].tools.clear();
    world.parts.buckets.key.size = 19;
    assert!(matches!(
        Facts::new(world.parts.clone()),
        Err(FactsError::BucketTooSmall {
            bucket: "key",
            price: 20,
            ..
        })
    ));
    world.parts.buckets.key = BucketSize {
        size: 20,
        per_minute: 0,
    };
    assert!(matches!(
        Facts::new(world.parts.clone()),
        Err(FactsError::BucketNeverFills { bucket: "key" })
    ));
}

#[test]
fn servers_of_one_name_are_an_error_and_pins_can_be_added() {
    let mut world = World::new();
    let facts = Facts::new(world.parts.clone()).unwrap();
    assert!(
        facts
            .with_first_seen(Default::default())
            .first_seen
            .is_empty()
    );
    assert_eq!(facts.first_seen.len(), 2);
    world.parts.servers[1].name = "files".into();
    let error = Facts::new(world.parts).unwrap_err();
    assert_eq!(
        error,
        FactsError::DuplicateServer {
            name: "files".into()
        }
    );
}

#[test]
fn a_bucket_over_time() {
    let size = BucketSize {
        size: 10,
        per_minute: 60,
    };
    let at = |seconds: i64| (1_000 + seconds) * 1_000;
    let (charged, level) = take(None, size, 10, at(0));
    assert_eq!(
        (charged.taken, charged.remaining, charged.reset_seconds),
        (true, 0, 10)
    );
    let (charged, level) = take(Some(level), size, 3, at(2));
    assert_eq!(
        (charged.taken, charged.remaining, charged.retry_seconds),
        (false, 2, 1)
    );
    let (charged, level) = take(Some(level), size, 3, at(1));
    assert!(!charged.taken, "a clock that went back adds nothing");
    let (charged, level) = take(Some(level), size, 0, at(2));
    assert_eq!((charged.taken, charged.remaining), (true, 2));
    assert!(!take(Some(level), size, 11, at(999)).0.taken);
}

#[test]
fn r5_rate_values_are_there_exactly_when_the_limiter_was_reached() {
    let mut world = World::new();
    let rate = |world: &World, tool: &str| {
        world
            .send(world.request(tool, "{}"))
            .rate
            .map(|rate| rate.header())
    };
    assert_eq!(rate(&world, "look").as_deref(), Some("\"key\";r=119;t=1"));
    assert_eq!(
        rate(&world, "nothing").as_deref(),
        Some("\"key\";r=118;t=1")
    );
    let state = world.send(world.request("look", "7")).rate.unwrap();
    assert_eq!(state.policy_header(), "\"key\";q=120;w=60");
    assert_eq!(state.retry_after(), None);
    world.parts.maintenance = true;
    assert_eq!(rate(&world, "look"), None);
}

#[test]
fn r29_r30_an_agent_pays_after_the_look_up_and_one_for_a_refusal_there() {
    let mut world = World::new();
    world.tool("put", |tool| tool.scope = Some("elsewhere".into()));
    world.agent(|agent| agent.scopes = Some(["files:read".to_string()].into()));
    check(&world, "put", &format!("{{\"rows\":{}}}", list(1000)), 1);
    world.memory.levels.lock().unwrap().clear();
    world.trail();
    for _ in 0..120 {
        assert_eq!(world.call("nothing", "{}"), "not_found");
    }
    let answer = world.send(world.request("nothing", "{}"));
    assert_eq!(code(&answer), "rate_limited");
    assert_eq!(answer.rate.unwrap().retry_after(), Some(1));
    assert!(
        world.memory.notes.lock().unwrap().is_empty(),
        "a flood costs no entry"
    );
    let refusals = world.memory.refusals.lock().unwrap();
    let last = refusals.last().unwrap();
    assert_eq!(*last, (Some("claude".to_string()), "rate_limited"));
    assert_eq!(
        refusals
            .iter()
            .filter(|(_, code)| *code == "not_found")
            .count(),
        120
    );
}

#[test]
fn rat_the_refusal_says_when_to_try_again() {
    let world = World::new();
    (0..6).for_each(|_| {
        assert_eq!(
            world.call("put", &format!("{{\"rows\":{}}}", list(1000))),
            "ok"
        )
    });
    let answer = world.send(world.request("put", &format!("{{\"rows\":{}}}", list(1000))));
    let crate::Outcome::Refused(refusal) = &answer.outcome else {
        panic!()
    };
    assert!(
        refusal.sentence.contains("try again in 10 s"),
        "{}",
        refusal.sentence
    );
    assert_eq!(refusal.context["retry_after_seconds"], 10);
    let headers = refusal.headers(answer.rate.as_ref());
    assert!(
        headers.contains(&("Retry-After", "10".to_string())),
        "{headers:?}"
    );
}

#[test]
fn r25_r26_r27_r28_public_callers() {
    let mut world = World::with_tool("look", |tool| {
        tool.audience = Audience::Public;
        tool.cost = Some(Cost::Units(3));
        tool.client_token = Some("path".into());
    });
    let send = |world: &World, arguments: &str| code(&world.send(world.public("look", arguments)));
    assert_eq!(send(&world, "{}"), "ok");
    assert_eq!(world.trail(), "charge resolve charge note run record");
    assert_eq!(
        (world.spent("network", 60), world.spent("token", 30)),
        (3, 0)
    );
    assert_eq!(send(&world, r#"{"path":"t"}"#), "ok");
    assert_eq!(
        (world.spent("network", 60), world.spent("token", 30)),
        (6, 3)
    );
    world.parts.buckets.token = BucketSize {
        size: 3,
        per_minute: 1,
    };
    world.memory.levels.lock().unwrap().clear();
    assert_eq!(send(&world, r#"{"path":"t"}"#), "ok");
    assert_eq!(send(&world, r#"{"path":"t"}"#), "rate_limited");
    assert_eq!(
        world.spent("network", 60),
        4,
        "a refusal by the token's bucket leaves one unit spent"
    );
    assert_eq!(send(&world, r#"{"path":"u"}"#), "ok");
    let asked = || *world.memory.asked.lock().unwrap();
    while world.spent("network", 60) < 60 {
        world.send(world.public("nothing", "{}"));
    }
    let before = asked();
    assert_eq!(
        code(&world.send(world.public("nothing", "{}"))),
        "rate_limited"
    );
    assert_eq!(asked(), before, "no look-up for an empty bucket");
    let elsewhere = Request {
        network: Some("192.0.2.2".parse().unwrap()),
        ..world.public("nothing", "{}")
    };
    assert_eq!(code(&world.send(elsewhere)), "not_found");
}

#[test]
fn r31_a_list_costs_one() {
    let world = World::new();
    let listing = world.list(Request {
        target: Target::Discovery,
        ..world.request("", "")
    });
    assert_eq!(world.spent("key", 120), 1);
    assert_eq!(listing.rate.unwrap().charged.remaining, 119);
    (0..119).for_each(|_| assert!(world.list(world.request("", "")).open.is_ok()));
    assert_eq!(
        world
            .list(world.request("", ""))
            .open
            .unwrap_err()
            .code
            .text(),
        "rate_limited"
    );
}

proptest! {
    #[test]
    fn the_price_is_the_formula(rows in 0_u64..20_000, cap in proptest::option::of(1_u64..2_000), write in any::<bool>()) {
        use countersign_permission::Kind;
        let kind = if write { Kind::Write } else { Kind::Read };
        let settings = crate::facts::ToolSettings { kind, max_items: cap, ..Default::default() };
        let clamped = rows.min(cap.unwrap_or(1000));
        let model = if write { (clamped as f64 / 50.0).ceil().max(1.0) as u32 } else { 1 };
        prop_assert_eq!(crate::price::price(&settings, kind, Some(rows), 0), model);
        assert!(model <= crate::price::largest(&settings));
    }
}
