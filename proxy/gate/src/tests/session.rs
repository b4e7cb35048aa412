//! The person's own session.

use std::collections::BTreeSet;
use std::sync::Mutex;

use countersign_permission::{Danger, Kind};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::world::{World, block_on, code};
use crate::answer::{Answer, Outcome};
use crate::availability::{Closed, tool_availability};
use crate::confirmation::ConfirmationState;
use crate::facts::{DisabledList, Facts, Preview, PreviewRead};
use crate::ports::{Ended, Pending, Ran};
use crate::request::Arguments;
use crate::session::{
    Allow, BadVia, NoSession, SessionCall, SessionRef, Sessions, SignedIn, Via, execute_as,
    redeem_as, visible_for,
};

/// Sessions that answer as they are told.
struct Door(Mutex<Result<SignedIn, NoSession>>);

impl Sessions for Door {
    fn look<'a>(
        &'a self,
        _: &'a SessionRef,
        _: Timestamp,
    ) -> Pending<'a, Result<SignedIn, NoSession>> {
        Box::pin(std::future::ready(*self.0.lock().unwrap()))
    }
}

struct House {
    world: World,
    door: Door,
    person: &'static str,
}

impl House {
    /// A person may write through `files`.
    fn new() -> Self {
        let mut world = World::new();
        world.parts.person_write_servers = DisabledList::Names(["files".to_string()].into());
        Self {
            world,
            door: Door(Mutex::new(Ok(SignedIn::AsThemselves))),
            person: "p1",
        }
    }

    fn session(&self) -> SessionRef {
        SessionRef {
            session: "s1".into(),
            person: self.person.into(),
        }
    }

    fn call(&self, tool: &str, arguments: &str, allow: Allow) -> SessionCall {
        let request = self.world.request(tool, arguments);
        SessionCall {
            request_id: request.request_id,
            call_id: request.call_id,
            server: "files".into(),
            tool: tool.to_string(),
            arguments: Arguments::Raw(arguments.to_string().into()),
            allow,
            via: Via::default(),
        }
    }

    fn run(&self, tool: &str, arguments: &str, allow: Allow) -> Answer {
        let facts = Facts::new(self.world.parts.clone()).unwrap();
        let session = self.session();
        let call = self.call(tool, arguments, allow);
        block_on(execute_as(
            &facts,
            self.world.ports(),
            (&self.door, &session),
            call,
        ))
    }

    fn redeem(&self, id: &str, arguments: &str) -> Answer {
        let facts = Facts::new(self.world.parts.clone()).unwrap();
        let session = self.session();
        let call = self.call("put", arguments, Allow::Read);
        block_on(redeem_as(
            &facts,
            self.world.ports(),
            (&self.door, &session),
            (id, call),
        ))
    }

    fn visible(&self, allow: Allow) -> Vec<String> {
        let facts = Facts::new(self.world.parts.clone()).unwrap();
        let session = self.session();
        let listing = block_on(visible_for(
            &facts,
            self.world.ports(),
            (&self.door, &session),
            ("r".into(), allow, None),
        ));
        let open = listing.open.unwrap();
        assert!(open.own.is_empty(), "R78");
        open.tools
            .iter()
            .map(|tool| format!("{}/{}", tool.server, tool.name))
            .collect()
    }

    fn prompt(&self) -> Value {
        document(&self.run("put", CALL, Allow::All))
    }
}

const CALL: &str = r#"{"path":"/a"}"#;

fn document(answer: &Answer) -> Value {
    match &answer.outcome {
        Outcome::Finished(finished) => serde_json::from_str(&finished.document).unwrap(),
        Outcome::Refused(refusal) => refusal.document("r"),
        _ => Value::Null,
    }
}

fn reason(answer: &Answer) -> String {
    document(answer)["context"]["reason"]
        .as_str()
        .unwrap_or_default()
        .to_string()
}

fn runs(house: &House) -> usize {
    house.world.memory.sent.lock().unwrap().len()
}

#[test]
fn r76_r77_the_session_is_looked_at_for_every_call() {
    let house = House::new();
    assert_eq!(code(&house.run("look", "{}", Allow::Read)), "ok");
    for why in [
        NoSession::SignedOut,
        NoSession::Revoked,
        NoSession::Expired,
        NoSession::NotTheirs,
        NoSession::Malformed,
        NoSession::Unreadable,
    ] {
        *house.door.0.lock().unwrap() = Err(why);
        let answer = house.run("look", "{}", Allow::Read);
        assert_eq!(
            (code(&answer), reason(&answer)),
            ("unauthorized", why.text().to_string())
        );
        assert_eq!(code(&house.redeem("x", CALL)), "unauthorized");
    }
    assert_eq!(runs(&house), 1);
}

#[test]
fn r80_r81_writes_must_be_allowed_and_their_server_listed() {
    let mut house = House::new();
    for arguments in [CALL, "[]"] {
        assert_eq!(
            code(&house.run("put", arguments, Allow::Read)),
            "forbidden",
            "before validation"
        );
    }
    for list in [
        DisabledList::Names(["mail".to_string()].into()),
        DisabledList::Unreadable,
    ] {
        house.world.parts.person_write_servers = list;
        assert_eq!(
            code(&house.run("put", CALL, Allow::All)),
            "module_write_disabled"
        );
        assert_eq!(code(&house.run("look", "{}", Allow::All)), "ok");
    }
    assert!(house.world.memory.confirmations.lock().unwrap().is_empty());
    assert_eq!(
        house.world.call("put", CALL),
        "ok",
        "R87: agents' keys never read that list"
    );
}

#[test]
fn a_session_that_acts_for_another_only_reads() {
    let house = House::new();
    *house.door.0.lock().unwrap() = Ok(SignedIn::ForAnother);
    assert_eq!(code(&house.run("look", "{}", Allow::Read)), "ok");
    assert_eq!(code(&house.run("look", "{}", Allow::All)), "forbidden");
    assert_eq!(code(&house.redeem("x", CALL)), "forbidden");
}

#[test]
fn r78_own_hidden_and_unknown_tools_do_not_exist_and_switches_count() {
    let mut house = House::new();
    for tool in ["countersign_whoami", "countersign_approval", "nothing"] {
        assert_eq!(code(&house.run(tool, "{}", Allow::All)), "not_found");
    }
    house.world.parts.servers[0].enabled = false;
    assert_eq!(
        code(&house.run("look", "{}", Allow::All)),
        "module_disabled"
    );
    house.world.parts.servers[0].enabled = true;
    house.world.parts.enabled = false;
    house.world.parts.maintenance = true;
    assert_eq!(code(&house.run("look", "{}", Allow::All)), "ok", "R86");
}

#[test]
fn r32_all_sessions_pay_from_one_bucket() {
    let house = House::new();
    house.run("look", "{}", Allow::Read);
    house.run("nothing", "{}", Allow::Read);
    house.visible(Allow::Read);
    assert_eq!(house.world.spent("person", 120), 3);
    assert_eq!(house.world.spent("key", 120), 0);
}

#[test]
fn r82_a_label_has_1_to_64_bytes() {
    assert_eq!(Via::new(""), Err(BadVia));
    assert_eq!(Via::new(&"x".repeat(65)), Err(BadVia));
    assert_eq!(
        Via::new(&"ä".repeat(33)),
        Err(BadVia),
        "bytes, not characters"
    );
    assert_eq!(&**Via::new(&"x".repeat(64)).unwrap().text(), "x".repeat(64));
    assert_eq!(&**Via::default().text(), "session");
}

#[test]
fn r83_r85_a_write_is_held_first_whatever_its_danger_and_shows_no_code() {
    for danger in [Danger::Never, Danger::Always] {
        let mut house = House::new();
        house.world.tool("put", |tool| tool.danger = danger.clone());
        let prompt = house.prompt();
        assert_eq!(
            (prompt["status"].as_str(), runs(&house)),
            (Some("confirmation_required"), 0)
        );
        assert!(prompt.get("confirm_token").is_none() && prompt["preview"].is_object());
        assert_eq!(prompt["expires_in_seconds"], 600);
        let outcome = house.world.memory.notes.lock().unwrap()[0]
            .outcome
            .clone()
            .unwrap();
        assert_eq!(outcome.ended, Ended::ConfirmationRequired);
        let kept = house.world.memory.confirmations.lock().unwrap();
        assert!(
            !format!("{:?}", kept[0].row).contains("/a"),
            "only a hash of the arguments"
        );
    }
}

#[test]
fn r74_the_entry_names_person_session_and_via() {
    let house = House::new();
    house.run("look", "{}", Allow::Read);
    let call = house.world.memory.notes.lock().unwrap()[0].call.clone();
    let person = call.person.unwrap();
    assert_eq!(
        (&*person.person, &*person.session, &*person.via),
        ("p1", "s1", "session")
    );
    assert!(call.agent.is_none() && call.key_prefix.is_none());
}

#[test]
fn r84_r88_control_fields() {
    let house = House::new();
    assert_eq!(
        code(&house.run("put", r#"{"confirm_token":"x"}"#, Allow::All)),
        "validation_failed"
    );
    assert_eq!(
        code(&house.run("put", r#"{"dry_run":true}"#, Allow::All)),
        "finished"
    );
    let id = house.prompt()["confirmation_id"]
        .as_str()
        .unwrap()
        .to_string();
    for field in [
        r#""dry_run":true"#,
        r#""confirm_token":"x""#,
        r#""idempotency_key":"k""#,
    ] {
        let arguments = format!(r#"{{"path":"/a",{field}}}"#);
        assert_eq!(
            code(&house.redeem(&id, &arguments)),
            "validation_failed",
            "{field}"
        );
    }
    assert_eq!(code(&house.redeem(&id, CALL)), "ok", "R93");
}

#[test]
fn r92_redeemed_once_with_todays_rights() {
    let mut house = House::new();
    let id = house.prompt()["confirmation_id"]
        .as_str()
        .unwrap()
        .to_string();
    house.world.parts.person_write_servers = DisabledList::Unreadable;
    assert_eq!(code(&house.redeem(&id, CALL)), "module_write_disabled");
    house.world.parts.person_write_servers = DisabledList::Names(["files".to_string()].into());
    assert_eq!(code(&house.redeem(&id, CALL)), "ok");
    let call = house
        .world
        .memory
        .notes
        .lock()
        .unwrap()
        .last()
        .unwrap()
        .call
        .clone();
    assert_eq!(call.links.confirmation.as_deref(), Some(&*id));
    assert_eq!(reason(&house.redeem(&id, CALL)), "used");
    assert_eq!(runs(&house), 1);
}

#[test]
fn r90_why_a_redeem_is_refused() {
    let mut house = House::new();
    let id = house.prompt()["confirmation_id"]
        .as_str()
        .unwrap()
        .to_string();
    assert_eq!(reason(&house.redeem(&id, "{}")), "other_arguments");
    for (state, want) in [
        (ConfirmationState::Rejected, "rejected"),
        (ConfirmationState::Expired, "expired"),
    ] {
        house.world.memory.end_confirmation(&id, state);
        assert_eq!(reason(&house.redeem(&id, CALL)), want);
    }
    house
        .world
        .memory
        .end_confirmation(&id, ConfirmationState::Waiting);
    house.person = "p2";
    let (foreign, unknown) = (
        document(&house.redeem(&id, CALL)),
        document(&house.redeem("x", CALL)),
    );
    assert_eq!(foreign, unknown);
    assert_eq!(foreign["context"]["reason"], "invalid");
    // Neither does an agent's id open anything here.
    house.world.tool("put", |tool| tool.danger = Danger::Always);
    let Outcome::Finished(finished) = house.world.send(house.world.request("put", CALL)).outcome
    else {
        panic!()
    };
    let agents: Value = serde_json::from_str(&finished.document).unwrap();
    assert_eq!(
        reason(&house.redeem(agents["confirmation_id"].as_str().unwrap(), CALL)),
        "invalid"
    );
    assert_eq!(runs(&house), 0);
}

#[test]
fn r75_r91_changed_values_are_asked_about_again() {
    let mut house = House::new();
    house.world.tool("put", |tool| {
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
    let now_is = |value: &str| {
        let body = json!({"content": [{"type": "text", "text": value}]})
            .to_string()
            .into();
        house.world.memory.values.lock().unwrap().insert(
            "look".into(),
            Ran::Result {
                body,
                is_error: false,
            },
        );
    };
    now_is("old");
    let first = house.prompt()["confirmation_id"]
        .as_str()
        .unwrap()
        .to_string();
    now_is("new");
    let again = document(&house.redeem(&first, CALL));
    assert_eq!(
        (again["reason"].as_str(), runs(&house)),
        (Some("changed"), 0)
    );
    assert!(again.get("confirm_token").is_none());
    let links = house
        .world
        .memory
        .notes
        .lock()
        .unwrap()
        .last()
        .unwrap()
        .outcome
        .clone()
        .unwrap()
        .links;
    assert_eq!(links.replaces.as_deref(), Some(&*first));
    assert_eq!(reason(&house.redeem(&first, CALL)), "expired");
    assert_eq!(
        code(&house.redeem(again["confirmation_id"].as_str().unwrap(), CALL)),
        "ok"
    );
}

#[test]
fn r95_r96_r97_r98_r99_what_is_open_is_what_is_visible() {
    let mut house = House::new();
    house.world.tool("own_dry", |tool| {
        tool.kind = Kind::Read;
        tool.hidden = true;
    });
    assert_eq!(house.visible(Allow::Read), ["files/look", "mail/look"]);
    for off in [&["mail"][..], &[]] {
        house.world.parts.disabled_servers =
            DisabledList::Names(off.iter().map(ToString::to_string).collect());
        for writes in [&["files"][..], &["files", "mail"], &[]] {
            house.world.parts.person_write_servers =
                DisabledList::Names(writes.iter().map(ToString::to_string).collect());
            let visible: BTreeSet<String> = house.visible(Allow::All).into_iter().collect();
            let before = house.world.trail();
            let facts = Facts::new(house.world.parts.clone()).unwrap();
            let catalogs: Vec<_> = house
                .world
                .catalogs
                .iter()
                .map(|(name, catalog)| (name.as_str(), catalog))
                .collect();
            let report = tool_availability(&facts, &catalogs);
            assert!(
                !before.is_empty() && house.world.trail().is_empty(),
                "charges and writes nothing"
            );
            assert_eq!(report.len(), 10, "every tool of every server");
            assert!(report.is_sorted_by_key(|row| (row.server.clone(), row.tool.clone())));
            assert!(report.iter().all(|row| row.closed.is_sorted()));
            let open: BTreeSet<String> = report
                .iter()
                .filter(|row| row.closed.is_empty())
                .map(|row| format!("{}/{}", row.server, row.tool))
                .collect();
            assert_eq!(open, visible);
        }
    }
    house.world.parts.disabled_tools = DisabledList::Unreadable;
    house.world.parts.servers[0].enabled = false;
    house.world.parts.person_write_servers = DisabledList::Unreadable;
    let facts = Facts::new(house.world.parts.clone()).unwrap();
    let catalogs: Vec<_> = house
        .world
        .catalogs
        .iter()
        .map(|(name, catalog)| (name.as_str(), catalog))
        .collect();
    let report = tool_availability(&facts, &catalogs);
    let put = report.iter().find(|row| row.tool == "put").unwrap();
    assert_eq!(
        put.closed,
        [
            Closed::ModuleDisabled,
            Closed::ApiOff,
            Closed::AgentWritesOff
        ]
    );
}
