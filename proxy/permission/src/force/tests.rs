//! What is in force and why not, one row a reason; what executor.json widens and narrows, one row a member.

use serde_json::{Value, json};

use super::{
    Effective, Found, Out, OutReason, Own, Recorded, Terms, Way, Withheld, in_force_signed,
};
use crate::document::{AnyDocument, Document, ExecutorKey, PermissionDocument, Revocation, Signed};
use crate::fixture::{
    EXECUTOR, KEY, ORIGIN, Ring, hash, permission_value, phone, revocation, signed, stick, time,
};
use crate::{Reason, ServerIdentity};

pub(super) const NOW: &str = "2026-12-15T12:00:00Z";

/// Everything the function is handed.
pub(super) struct Case {
    pub(super) ring: Ring,
    pub(super) recorded: Vec<Signed>,
    pub(super) missing: bool,
    pub(super) revocations: Vec<Document<Revocation>>,
    pub(super) effective: Effective,
    pub(super) now: &'static str,
    pub(super) last_entry: &'static str,
    pub(super) key: &'static str,
    pub(super) origins: Vec<String>,
}

pub(super) fn identity() -> ServerIdentity {
    ServerIdentity::Command {
        command: "npx".into(),
        args: vec!["files".into()],
        program: None,
        package: None,
    }
}

/// The fixture's permission with an identity that resolves.
pub(super) fn base(ring: &Ring) -> Value {
    let mut value = permission_value(&ring.head());
    value["servers"][0]["identity"] = json!(identity().hash().unwrap());
    value
}

pub(super) fn body(value: Value) -> PermissionDocument {
    let AnyDocument::Permission(document) = AnyDocument::from_value(value).unwrap() else {
        panic!("a permission");
    };
    document.body().clone()
}

/// What executor.json says when it says what this permission says.
pub(super) fn effective(value: Value) -> Effective {
    let body = body(value);
    let found = body.servers.iter().map(|server| {
        let found = Found {
            enabled: true,
            identity: Some(identity()),
            hidden: Default::default(),
            definitions: Default::default(),
        };
        (server.name.to_string(), found)
    });
    Effective {
        agent: body.agent.clone(),
        requires_approval: false,
        found: found.collect(),
        terms: Terms::from(&body),
    }
}

impl Case {
    pub(super) fn new() -> Self {
        let ring = Ring::two();
        let value = base(&ring);
        Self {
            recorded: vec![signed(value.clone(), &phone())],
            missing: false,
            revocations: Vec::new(),
            effective: effective(value),
            now: NOW,
            last_entry: NOW,
            key: KEY,
            origins: vec![ORIGIN.into()],
            ring,
        }
    }

    pub(super) fn judge(&self) -> Result<super::Force, Withheld> {
        let recorded: Vec<_> = self
            .recorded
            .iter()
            .map(|signed| Recorded {
                hash: signed.document.hash(),
                signed: (!self.missing).then_some(signed),
            })
            .collect();
        let keys: [ExecutorKey; 1] = [self.key.parse().unwrap()];
        let own = Own {
            id: &EXECUTOR.parse().unwrap(),
            keys: &keys,
            origins: &self.origins,
        };
        in_force_signed(
            &recorded,
            &self.revocations,
            &self.ring.keyring(),
            own,
            &self.effective,
            time(self.now),
            Some(time(self.last_entry)),
        )
    }
}

fn check(change: impl FnOnce(&mut Case), want: &Withheld) {
    let mut case = Case::new();
    change(&mut case);
    assert_eq!(case.judge().as_ref().err(), Some(want));
}

/// A permission that supersedes the first one.
fn next(case: &Case, change: impl FnOnce(&mut Value)) -> Signed {
    let mut value = base(&case.ring);
    value["supersedes"] = json!(case.recorded[0].document.hash());
    change(&mut value);
    signed(value, &phone())
}

#[test]
fn signed_and_unchanged_is_in_force_as_it_is() {
    let force = Case::new().judge().unwrap();
    assert_eq!(
        force.terms.servers,
        effective(base(&Ring::two())).terms.servers
    );
    assert!(
        force.out.is_empty() && force.changed.is_empty(),
        "{:?}",
        force.changed
    );
    let grant = force.permission.grant("files", "write_file").unwrap();
    assert_eq!(grant.limits.max_calls, Some(50));
    assert!(force.permission.grant("files", "delete_file").is_none());
    assert_eq!(force.permission.label(), "");
}

#[test]
fn k38_k39_t22_reasons_for_which_nothing_is_in_force() {
    check(|case| case.recorded.clear(), &Withheld::NoneSigned);
    check(
        |case| case.last_entry = "2026-12-15T12:02:01Z",
        &Withheld::ClockBehind { seconds: 121 },
    );
    let mut case = Case::new();
    case.last_entry = "2026-12-15T12:02:00Z";
    assert!(case.judge().is_ok(), "two minutes are tolerated");
    let gone = Case::new().recorded[0].document.hash();
    check(|case| case.missing = true, &Withheld::Missing(gone));
    check(
        |case| case.key = "ed25519:AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        &Withheld::Executor,
    );
    check(|case| case.origins.clear(), &Withheld::Executor);
    check(
        |case| case.now = "2026-11-30T16:59:59Z",
        &Withheld::ClockBehind { seconds: 1_278_001 },
    );
    let early = |case: &mut Case| {
        (case.now, case.last_entry) = ("2026-11-30T16:59:59Z", "2026-11-30T16:59:59Z");
    };
    check(early, &Withheld::NotYet);
    let late = |case: &mut Case| {
        (case.now, case.last_entry) = ("2027-02-28T17:00:00Z", "2027-02-28T17:00:00Z");
    };
    check(late, &Withheld::Expired);
    check(
        |case| case.effective.agent.key = "csk_00000000".parse().unwrap(),
        &Withheld::Agent,
    );
    let ended = |case: &mut Case| case.effective.terms.key_expires_at = Some(NOW.parse().unwrap());
    check(ended, &Withheld::KeyExpired);
}

#[test]
fn k38_revoked_permissions_and_keys() {
    let by = |what: Value| move |case: &mut Case| case.revocations.push(revocation(&what));
    check(
        by(json!({"permission": Case::new().recorded[0].document.hash()})),
        &Withheld::Revoked,
    );
    check(
        by(json!({"credential": phone().id()})),
        &Withheld::Suspended,
    );
    let mut case = Case::new();
    case.revocations
        .push(revocation(&json!({"permission": hash("other")})));
    case.revocations
        .push(revocation(&json!({"credential": stick().id()})));
    assert!(case.judge().is_ok());
    let in_keyring = |case: &mut Case| {
        let change = case
            .ring
            .change("revoke", "2026-12-01T00:00:00Z", |change| {
                change["credential_id"] = json!(phone().id());
            });
        case.ring.push(&change, Some(&stick()), None);
    };
    check(in_keyring, &Withheld::Suspended);
    let recovered = |case: &mut Case| {
        let change = case
            .ring
            .change("recover", "2026-12-10T00:00:00Z", |change| {
                change["credential"] = json!(crate::fixture::laptop().credential("Laptop"));
                change["code"] = json!(crate::fixture::code());
            });
        case.ring
            .push(&change, Some(&crate::fixture::laptop()), None);
    };
    check(recovered, &Withheld::Suspended);
}

#[test]
fn the_last_recorded_one_counts_and_nothing_falls_back() {
    let mut case = Case::new();
    let narrower = next(&case, |value| value["mode"] = json!("read_only"));
    case.recorded.push(narrower);
    assert_eq!(case.judge().unwrap().terms.mode, crate::Mode::ReadOnly);
    let old = case.recorded[0].clone();
    case.recorded.push(old);
    assert_eq!(
        case.judge().unwrap_err(),
        Withheld::NotNext,
        "an old one recorded again"
    );
    check(
        |case| {
            let stranger = next(case, |value| value["supersedes"] = json!(hash("other")));
            case.recorded.push(stranger);
        },
        &Withheld::NotNext,
    );
    check(
        |case| {
            let first = next(case, |value| {
                value["purpose"] = json!("other");
                value.as_object_mut().unwrap().remove("supersedes");
            });
            case.recorded.push(first);
        },
        &Withheld::NotNext,
    );
    let mut case = Case::new();
    let mut forged = next(&case, |_| {});
    forged.proof = case.recorded[0].proof.clone();
    case.recorded.push(forged);
    let Err(Withheld::Untrusted(refusal)) = case.judge() else {
        panic!("a bad proof of the last one does not bring the one before back");
    };
    assert_eq!(refusal.reason, Reason::Challenge);
    let mut case = Case::new();
    let again = case.recorded[0].clone();
    case.recorded.push(again);
    assert!(
        case.judge().is_ok(),
        "recorded twice in a row is recorded once"
    );
}

/// The permission with these members, signed.
pub(super) fn body_signed(value: &Value) -> Signed {
    signed(value.clone(), &phone())
}

/// Changes executor.json's side at a pointer of the permission and says what must come of it.
fn member(pointer: &str, to: Value, way: Way) {
    let mut case = Case::new();
    let mut value = base(&case.ring);
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match to {
        Value::Null => drop(parent.remove(name)),
        to => drop(parent.insert(name.into(), to)),
    }
    let before = case.judge().unwrap();
    case.effective = effective(value);
    let force = case.judge().unwrap();
    let all_ways: Vec<_> = force.changed.iter().map(|change| change.way).collect();
    assert_eq!(all_ways, [way], "{pointer}: {:?}", force.changed);
    match way {
        Way::Ignored => assert_eq!(
            (&force.terms, &force.permission),
            (&before.terms, &before.permission),
            "{pointer}"
        ),
        Way::Narrowed => assert_ne!(force.terms, before.terms, "{pointer}"),
    }
}

#[test]
fn widening_is_ignored_and_listed_and_narrowing_counts() {
    use Way::{Ignored, Narrowed};
    let tool = |name: &str| format!("/servers/0/tools/1/{name}");
    let read = |name: &str| format!("/servers/0/tools/0/{name}");
    let rows: Vec<(String, Value, Way)> = vec![
        (tool("kind"), json!("read"), Ignored),
        (read("kind"), json!("write"), Narrowed),
        (tool("danger"), Value::Null, Ignored),
        (tool("danger"), json!({"type": "object"}), Ignored),
        (read("danger"), json!({"type": "object"}), Narrowed),
        (read("danger"), json!("always"), Narrowed),
        (tool("approval"), json!("person"), Ignored),
        (read("approval"), json!("person"), Narrowed),
        (tool("validation"), json!("warn"), Ignored),
        (tool("open_arguments"), json!(true), Ignored),
        (tool("paths"), Value::Null, Ignored),
        (tool("preview"), Value::Null, Ignored),
        (
            tool("limits"),
            json!({"max_calls": 49, "rate": {"per_seconds": 3600, "max": 10}}),
            Narrowed,
        ),
        (
            tool("limits"),
            json!({"max_calls": 51, "rate": {"per_seconds": 3600, "max": 10}}),
            Ignored,
        ),
        (
            tool("limits"),
            json!({"max_calls": 50, "rate": {"per_seconds": 3601, "max": 10}}),
            Narrowed,
        ),
        (
            tool("limits"),
            json!({"max_calls": 50, "rate": {"per_seconds": 60, "max": 1}}),
            Ignored,
        ),
        (tool("limits"), json!({"max_calls": 50}), Ignored),
        (read("limits"), json!({"max_calls": 1}), Narrowed),
        (tool("arguments"), Value::Null, Ignored),
        (
            read("arguments"),
            json!([{"pointer": "/x", "op": "absent"}]),
            Narrowed,
        ),
        (tool("max_items"), json!(5), Narrowed),
        (tool("max_bytes"), json!(5), Narrowed),
        (tool("max_bytes"), json!(3_000_000), Ignored),
        (tool("cost"), json!(5), Ignored),
        (tool("replay"), json!(false), Ignored),
        (tool("require_copy"), json!(true), Narrowed),
        (tool("audience"), json!("public"), Ignored),
        (tool("client_token"), json!("/token"), Ignored),
        ("/servers/0/pass".into(), Value::Null, Narrowed),
        (
            "/servers/0/pass".into(),
            json!(["roots", "sampling"]),
            Ignored,
        ),
        ("/servers/0/methods".into(), json!(["x/y"]), Ignored),
        ("/servers/0/other_members".into(), json!("deny"), Narrowed),
        ("/servers/0/context".into(), json!(true), Ignored),
        ("/mode".into(), json!("ask"), Narrowed),
        (
            "/key_expires_at".into(),
            json!("2027-01-01T00:00:00Z"),
            Narrowed,
        ),
        ("/workspace".into(), json!("/"), Ignored),
        ("/write_policy".into(), Value::Null, Ignored),
        (
            "/write_policy".into(),
            json!({"version": 1, "allow_writes": ["**"], "deny_writes": [], "shell": "disabled"}),
            Narrowed,
        ),
        (
            "/write_policy/allow_writes".into(),
            json!(["notes/**", "**"]),
            Ignored,
        ),
        ("/write_policy/deny_writes".into(), json!([]), Ignored),
        (
            "/write_policy/deny_writes".into(),
            json!(["**/private/**", "x/**"]),
            Narrowed,
        ),
        ("/turn_idle_minutes".into(), json!(5), Ignored),
        ("/book/reads".into(), json!(false), Ignored),
        ("/book/payloads".into(), json!("digest"), Ignored),
        ("/book/retain".into(), json!(30), Ignored),
        ("/book/allow_network_folder".into(), json!(true), Ignored),
    ];
    for (pointer, to, way) in rows {
        member(&pointer, to, way);
    }
}

#[test]
fn scopes_are_those_of_both() {
    let scoped = |then: Option<&[&str]>, now: Option<&[&str]>| {
        let mut case = Case::new();
        let with = |scopes: Option<&[&str]>| {
            let mut value = base(&case.ring);
            if let Some(scopes) = scopes {
                value["scopes"] = json!(scopes);
            }
            value
        };
        let (before, after) = (with(then), with(now));
        case.recorded = vec![signed(before, &phone())];
        case.effective = effective(after);
        let force = case.judge().unwrap();
        force
            .permission
            .scopes
            .iter()
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(scoped(None, None), "files:read files:write");
    assert_eq!(
        scoped(None, Some(&["files:read", "mail:read"])),
        "files:read"
    );
    assert_eq!(scoped(Some(&["files:read"]), None), "files:read");
    assert_eq!(scoped(Some(&["files:read"]), Some(&["files:write"])), "");
}

#[test]
fn k34_t19_t20_servers_and_tools_that_are_others_are_out() {
    let out = |change: &dyn Fn(&mut Effective)| {
        let mut case = Case::new();
        change(&mut case.effective);
        let force = case.judge().unwrap();
        let granted = force
            .terms
            .servers
            .iter()
            .map(|server| server.tools.len())
            .sum::<usize>();
        (force.out, granted)
    };
    let found = |effective: &mut Effective, change: &dyn Fn(&mut Found)| {
        change(effective.found.get_mut("files").unwrap());
    };
    let server = |reason| {
        let out = Out {
            server: "files".into(),
            tool: None,
            reason,
        };
        (vec![out], 0)
    };
    let tool = |reason| {
        let out = Out {
            server: "files".into(),
            tool: Some("write_file".into()),
            reason,
        };
        (vec![out], 1)
    };
    assert_eq!(out(&|e| e.terms.servers.clear()), server(OutReason::Gone));
    assert_eq!(
        out(&|e| found(e, &|f| f.enabled = false)),
        server(OutReason::Off)
    );
    assert_eq!(
        out(&|e| found(e, &|f| f.identity = None)),
        server(OutReason::Unresolved)
    );
    let other = ServerIdentity::Url {
        url: "http://x".into(),
    };
    assert_eq!(
        out(&|e| found(e, &|f| f.identity = Some(other.clone()))),
        server(OutReason::Identity)
    );
    assert_eq!(
        out(&|e| e.terms.servers[0].env.clear()),
        server(OutReason::Start)
    );
    assert_eq!(
        out(&|e| e.terms.servers[0].cwd = Some("/".into())),
        server(OutReason::Start)
    );
    assert_eq!(
        out(&|e| drop(e.terms.servers[0].tools.pop())),
        tool(OutReason::Gone)
    );
    let hide = |f: &mut Found| {
        f.hidden.insert("write_file".into());
    };
    assert_eq!(out(&|e| found(e, &hide)), tool(OutReason::Hidden));
    let redefine = |f: &mut Found| {
        f.definitions.insert("write_file".into(), hash("other"));
    };
    assert_eq!(out(&|e| found(e, &redefine)), tool(OutReason::Definition));
    let rescope = |e: &mut Effective| {
        e.terms.servers[0].tools[1].scope = Some("notes".into());
        e.terms.scopes = Some(vec!["files:read".into(), "files:write".into()]);
    };
    assert_eq!(out(&rescope), tool(OutReason::Scope));
}

#[test]
fn an_identity_signed_by_its_command_line_holds_with_any_program() {
    let mut case = Case::new();
    let resolved = |digest: &str| ServerIdentity::Command {
        command: "npx".into(),
        args: vec!["files".into()],
        program: Some(crate::ProgramIdentity {
            path: "/usr/bin/npx".into(),
            digest: hash(digest),
        }),
        package: None,
    };
    case.effective.found.get_mut("files").unwrap().identity = Some(resolved("a"));
    assert!(case.judge().unwrap().out.is_empty());
    assert!(
        !identity().is_signed_as(resolved("a").hash().unwrap()),
        "never the other way round"
    );
    assert!(!resolved("b").is_signed_as(resolved("a").hash().unwrap()));
}

#[test]
fn new_servers_and_tools_wait_for_a_signature() {
    let mut case = Case::new();
    let mut mail = case.effective.terms.servers[0].clone();
    mail.name = "mail".parse().unwrap();
    let mut new = mail.tools[0].clone();
    new.name = "delete_file".into();
    case.effective.terms.servers[0].tools.push(new);
    case.effective.terms.servers.push(mail);
    let force = case.judge().unwrap();
    let members: Vec<_> = force
        .changed
        .iter()
        .map(|change| change.member.as_str())
        .collect();
    assert_eq!(members, ["servers.files.tools.delete_file", "servers.mail"]);
    assert!(force.changed.iter().all(super::Change::is_ignored));
    assert!(force.permission.grant("files", "delete_file").is_none());
    assert!(force.permission.grant("mail", "read_text_file").is_none());
}
