//! Switches, credentials, scopes, visibility, lists.

use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_permission::{Development, Hash, Pin, Tools};

use super::world::{World, code};
use crate::answer::Outcome;
use crate::facts::DisabledList;
use crate::key::KeyText;
use crate::request::{Audience, ReadMethod, Request, Target, UrlParts};

fn names(set: &[&str]) -> DisabledList {
    DisabledList::Names(set.iter().map(ToString::to_string).collect())
}

/// A change of the settings, a call of `files/look`, what it comes to.
fn check(change: impl FnOnce(&mut World), want: &str) {
    let mut world = World::new();
    change(&mut world);
    assert_eq!(world.call("look", "{}"), want);
    assert_eq!(
        world.memory.sent.lock().unwrap().len(),
        usize::from(want == "ok")
    );
}

#[test]
fn r2_switch_then_url_then_key() {
    let mut world = World::new();
    let with_url = |world: &World| Request {
        url: Some(UrlParts {
            userinfo: None,
            path: "/mcp".into(),
            query: Some("token=csk_x".into()),
        }),
        credential: None,
        ..world.request("look", "{}")
    };
    assert_eq!(code(&world.send(with_url(&world))), "credential_in_url");
    assert_eq!(world.trail(), "");
    world.parts.enabled = false;
    assert_eq!(code(&world.send(with_url(&world))), "api_disabled");
    world.parts.enabled = true;
    world.parts.maintenance = true;
    assert_eq!(code(&world.send(with_url(&world))), "maintenance");
    world.parts.maintenance = false;
    let answer = world.send(Request {
        credential: None,
        ..world.request("look", "{}")
    });
    assert_eq!(code(&answer), "unauthorized");
    assert!(answer.rate.is_none());
}

#[test]
fn one_wording_for_every_key_that_does_not_hold() {
    let mut answers = Vec::new();
    let mut add = |change: &dyn Fn(&mut World), credential: Option<KeyText>| {
        let mut world = World::new();
        change(&mut world);
        let credential = credential.or_else(|| Some(world.key.clone()));
        let answer = world.send(Request {
            credential,
            ..world.request("look", "{}")
        });
        assert!(world.memory.notes.lock().unwrap().is_empty());
        answers.push(answer);
    };
    let record = |world: &World, change: &dyn Fn(&mut crate::ports::KeyRecord)| {
        world
            .memory
            .keys
            .lock()
            .unwrap()
            .values_mut()
            .for_each(change);
    };
    let now: jiff::Timestamp = super::world::NOW.parse().unwrap();
    add(&|_| {}, Some(KeyText::make([9; 8], [2; 32])));
    add(&|_| {}, Some(KeyText::make([1; 8], [4; 32])));
    add(&|_| {}, Some(KeyText::presented("hello".into())));
    add(
        &|world| record(world, &|key| key.revoked_at = Some(now)),
        None,
    );
    add(
        &|world| record(world, &|key| key.expires_at = Some(now)),
        None,
    );
    add(
        &|world| world.agent(|agent| agent.expires_at = Some(now)),
        None,
    );
    add(
        &|world| world.agent(|agent| agent.key_prefix = "csk_other000".into()),
        None,
    );
    add(&|world| world.parts.agents.clear(), None);
    assert!(answers.iter().all(|answer| answer == &answers[0]));
    assert_eq!(code(&answers[0]), "unauthorized");
    assert!(!format!("{:?}", answers[0]).contains("csk_"));
}

#[test]
fn r8_r9_scopes_are_the_intersection_computed_now_and_once() {
    let only = |scopes: &[&str]| {
        Some(
            scopes
                .iter()
                .map(ToString::to_string)
                .collect::<BTreeSet<_>>(),
        )
    };
    check(|_| {}, "ok");
    check(
        |world| world.agent(|agent| agent.scopes = only(&["files:write", "mail:read"])),
        "forbidden",
    );
    check(
        |world| world.agent(|agent| agent.scopes = only(&["files:read"])),
        "ok",
    );
    check(
        |world| {
            world
                .memory
                .keys
                .lock()
                .unwrap()
                .values_mut()
                .for_each(|key| key.scopes = Some(vec![]))
        },
        "forbidden",
    );
    check(
        |world| world.agent(|agent| agent.permission = None),
        "forbidden",
    );
    check(
        |world| world.parts.executor.development = Development::No,
        "forbidden",
    );
    check(
        |world| {
            world.agent(|agent| {
                Arc::make_mut(agent.permission.as_mut().unwrap()).agent = "other".into()
            })
        },
        "forbidden",
    );
    let mut world = World::new();
    assert_eq!(world.call("look", "{}"), "ok");
    assert_eq!(world.trail(), "key resolve charge note run record");
    world.agent(|agent| agent.scopes = only(&[]));
    assert_eq!(world.call("look", "{}"), "forbidden");
}

#[test]
fn without_a_permission_the_refusal_says_so() {
    let mut world = World::new();
    world.agent(|agent| agent.permission = None);
    let answer = world.send(world.request("look", "{}"));
    let Outcome::Refused(refusal) = answer.outcome else {
        panic!()
    };
    assert!(
        refusal
            .sentence
            .contains("no permission is signed for this agent yet")
    );
}

#[test]
fn r10_r11_r16_what_does_not_exist() {
    check(
        |world| world.tool("look", |tool| tool.hidden = true),
        "not_found",
    );
    check(
        |world| world.tool("look", |tool| tool.audience = Audience::Public),
        "not_found",
    );
    check(
        |world| world.parts.disabled_tools = names(&["look"]),
        "not_found",
    );
    check(
        |world| world.parts.disabled_tools = names(&["files__look"]),
        "not_found",
    );
    check(
        |world| world.parts.disabled_tools = names(&["mail__look"]),
        "ok",
    );
    check(
        |world| world.parts.disabled_servers = names(&["files"]),
        "not_found",
    );
    check(
        |world| world.parts.disabled_tools = DisabledList::Unreadable,
        "not_found",
    );
    check(
        |world| world.parts.disabled_servers = DisabledList::Unreadable,
        "not_found",
    );
    for name in ["nothing", "strange", "LOOK", "look ", "files__look", ""] {
        assert_eq!(World::new().call(name, "{}"), "not_found", "{name}");
    }
    let world = World::new();
    let aggregated = Request {
        server: None,
        ..world.request("mail__look", "{}")
    };
    assert_eq!(code(&world.send(aggregated)), "ok");
    assert_eq!(code(&world.send(world.public("look", "{}"))), "not_found");
}

#[test]
fn r12_r13_r15_the_order_of_visibility() {
    let off = |world: &mut World| world.parts.servers[0].enabled = false;
    check(off, "module_disabled");
    check(
        |world| {
            off(world);
            world.agent(|agent| agent.scopes = Some(BTreeSet::new()));
        },
        "module_disabled",
    );
    check(
        |world| {
            off(world);
            world.tool("look", |tool| tool.hidden = true);
        },
        "not_found",
    );
    check(
        |world| {
            world.agent(|agent| agent.scopes = Some(BTreeSet::new()));
            world.parts.first_seen = Arc::default();
        },
        "forbidden",
    );
}

#[test]
fn a_changed_or_new_definition_waits_for_the_person() {
    check(
        |world| world.parts.first_seen = Arc::default(),
        "definition_changed",
    );
    check(
        |world| {
            let pins = Arc::make_mut(&mut world.parts.first_seen);
            *pins.get_mut("files").unwrap().get_mut("look").unwrap() = Hash::of(b"other");
        },
        "definition_changed",
    );
    let pinned = |hash: fn(&World) -> Hash| {
        move |world: &mut World| {
            let hash = hash(world);
            world.agent(|agent| {
                let permission = Arc::make_mut(agent.permission.as_mut().unwrap());
                let Tools::Every(tools) =
                    permission.servers.get_mut("files").unwrap().tools.clone()
                else {
                    panic!()
                };
                let mut tools = tools;
                tools.get_mut("look").unwrap().pin = Pin::Definition(hash);
                permission.servers.get_mut("files").unwrap().tools = Tools::Listed(tools);
            });
        }
    };
    check(
        pinned(|world| world.catalogs["files"].find("look").unwrap().definition),
        "ok",
    );
    check(pinned(|_| Hash::of(b"older")), "definition_changed");
    let mut world = World::new();
    pinned(|_| Hash::of(b"older"))(&mut world);
    assert_eq!(
        world.call("put", "{}"),
        "forbidden",
        "a signed permission grants what it lists"
    );
}

#[test]
fn r14_whoami_is_open_to_every_key() {
    let mut world = World::new();
    world.agent(|agent| agent.scopes = Some(BTreeSet::from(["files:read".to_string()])));
    let answer = world.send(world.request("countersign_whoami", ""));
    let Outcome::Finished(finished) = &answer.outcome else {
        panic!("{answer:?}")
    };
    let document: serde_json::Value = serde_json::from_str(&finished.document).unwrap();
    assert_eq!(document["agent"], "claude");
    assert_eq!(document["scopes"], serde_json::json!(["files:read"]));
    assert_eq!(document["permission"]["label"], "(development)");
    assert_eq!(
        document["tools"],
        serde_json::json!([{"server":"files","name":"look","kind":"read","scope":"files:read"}])
    );
    assert_eq!(document["rate"]["RateLimit"], "\"key\";r=119;t=1");
    assert!(!finished.document.contains(world.key.reveal()));
    assert_eq!(
        world.call("countersign_whoami", r#"{"a":1}"#),
        "validation_failed"
    );
    assert_eq!(world.call("countersign_whoami", "[]"), "validation_failed");
    assert_eq!(
        code(&world.send(world.public("countersign_whoami", "{}"))),
        "not_found"
    );
    world.agent(|agent| agent.permission = None);
    assert_eq!(world.call("countersign_whoami", "null"), "finished");
    assert!(world.memory.notes.lock().unwrap().is_empty());
}

#[test]
fn r94_a_list_is_what_calls_would_let_through() {
    let mut world = World::new();
    world.tool("put", |tool| tool.hidden = true);
    world.tool("own_dry", |tool| tool.audience = Audience::Public);
    world.parts.disabled_tools = names(&["open_put"]);
    for public in [false, true] {
        let request = |tool: &str| {
            if public {
                world.public(tool, "{}")
            } else {
                world.request(tool, "{}")
            }
        };
        let listing = world.list(Request {
            target: Target::Discovery,
            ..request("")
        });
        let open = listing.open.unwrap();
        let listed: Vec<_> = open
            .tools
            .iter()
            .map(|tool| tool.name.to_string())
            .collect();
        assert_eq!(listed, if public { ["own_dry"] } else { ["look"] });
        assert_eq!(open.own.len(), if public { 0 } else { 2 });
        for tool in ["look", "put", "open_put", "own_dry", "strange"] {
            let gone = matches!(
                code(&world.send(request(tool))),
                "not_found" | "forbidden" | "module_disabled"
            );
            assert_eq!(!gone, listed.contains(&tool.to_string()), "{tool} {public}");
        }
    }
    world.parts.enabled = false;
    let listing = world.list(world.request("", ""));
    assert_eq!(listing.open.unwrap_err().code.text(), "api_disabled");
}

#[test]
fn reads_that_are_no_tools_are_gated_and_recorded() {
    let mut world = World::new();
    let read = |world: &World, arguments: &str| {
        code(&world.send(Request {
            target: Target::Method(ReadMethod::ResourcesRead),
            ..world.request("", arguments)
        }))
    };
    assert_eq!(read(&world, "{\"uri\":\"file:///a\",\n\"_meta\":{}}"), "ok");
    assert_eq!(world.spent("key", 120), 1);
    let sent = world.memory.sent.lock().unwrap().clone();
    assert_eq!(
        sent,
        [(
            "Method(ResourcesRead)".to_string(),
            Some(r#"{"uri":"file:///a","_meta":{}}"#.to_string())
        )]
    );
    let call = world.memory.notes.lock().unwrap()[0].call.clone();
    assert_eq!(
        (call.tool.as_str(), call.server.as_str()),
        ("resources/read", "files")
    );
    assert_eq!(
        read(&world, r#"{"uri":"a","uri":"b"}"#),
        "validation_failed"
    );
    world.agent(|agent| agent.scopes = Some(BTreeSet::from(["files:write".to_string()])));
    assert_eq!(read(&world, "{}"), "forbidden");
    world.parts.servers[0].enabled = false;
    assert_eq!(read(&world, "{}"), "module_disabled");
    world.parts.disabled_servers = names(&["files"]);
    assert_eq!(read(&world, "{}"), "not_found");
}

#[test]
fn r97_r98_what_is_open_is_what_calls_would_let_through() {
    use crate::availability::{Closed, availability};
    let report = |world: &World| {
        let facts = crate::Facts::new(world.parts.clone()).unwrap();
        let catalogs: Vec<_> = world
            .catalogs
            .iter()
            .map(|(name, catalog)| (name.as_str(), catalog))
            .collect();
        availability(
            &facts,
            &world.parts.agents["claude"],
            None,
            &catalogs,
            super::world::NOW.parse().unwrap(),
        )
    };
    let matrix: [&dyn Fn(&mut World); 8] = [
        &|_| {},
        &|world| world.parts.servers[0].enabled = false,
        &|world| world.parts.disabled_servers = names(&["mail"]),
        &|world| world.parts.disabled_tools = DisabledList::Unreadable,
        &|world| world.parts.disabled_tools = names(&["mail__look", "put"]),
        &|world| world.tool("look", |tool| tool.hidden = true),
        &|world| world.agent(|agent| agent.scopes = Some(["mail:write".to_string()].into())),
        &|world| world.parts.first_seen = Arc::default(),
    ];
    for change in matrix {
        let mut world = World::new();
        change(&mut world);
        let listing = world
            .list(Request {
                server: None,
                ..world.request("", "")
            })
            .open
            .unwrap();
        let mut listed: Vec<_> = listing
            .tools
            .iter()
            .map(|tool| (tool.server.to_string(), tool.name.to_string()))
            .collect();
        listed.sort();
        let open: Vec<_> = report(&world)
            .into_iter()
            .filter(|tool| tool.closed.is_empty())
            .map(|tool| (tool.server, tool.tool))
            .collect();
        assert_eq!(open, listed);
    }
    let mut world = World::with_tool("look", |tool| tool.hidden = true);
    world.parts.servers[0].enabled = false;
    world.parts.disabled_servers = names(&["files"]);
    world.agent(|agent| agent.permission = None);
    let closed = report(&world)
        .into_iter()
        .find(|tool| tool.server == "files" && tool.tool == "look")
        .unwrap()
        .closed;
    assert_eq!(
        closed[..3],
        [Closed::ModuleDisabled, Closed::ApiOff, Closed::ToolHidden]
    );
    assert!(matches!(&closed[3..], [Closed::NoPermission { .. }]));
    let aside = report(&world)
        .into_iter()
        .find(|tool| tool.tool == "strange")
        .unwrap();
    assert!(matches!(aside.closed.last(), Some(Closed::SetAside { .. })));
}
