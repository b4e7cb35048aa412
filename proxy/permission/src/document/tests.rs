//! Every type of document: read, written, refused. One table a type.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{AnyDocument, ApprovalDocument, Document, PermissionDocument, Signed};
use crate::Reason;
use crate::fixture::{self, ARGUMENTS, Ring, act_value, approval_value, permission_value};

fn refused(value: Value) -> Option<Reason> {
    AnyDocument::from_value(value)
        .err()
        .map(|refusal| refusal.reason)
}

/// Sets one member of `base` at `pointer` (or removes it) and compares the reason.
fn check(base: &Value, pointer: &str, to: Option<Value>, want: Option<Reason>) {
    let said = format!("{pointer} {to:?}");
    let mut value = base.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap();
    match (parent, to) {
        (Value::Object(members), Some(to)) => {
            members.insert(name.into(), to);
        }
        (Value::Object(members), None) => {
            members.remove(name).unwrap();
        }
        (Value::Array(items), Some(to)) => items[name.parse::<usize>().unwrap()] = to,
        _ => panic!("{pointer}"),
    }
    assert_eq!(refused(value), want, "{said}");
}

const SHAPE: Option<Reason> = Some(Reason::Shape);
const RULE: Option<Reason> = Some(Reason::Rule);
const TIMES: Option<Reason> = Some(Reason::Times);
const SPELLING: Option<Reason> = Some(Reason::Spelling);

#[test]
fn k4_every_document_has_a_known_type() {
    let base = permission_value(&Ring::two().head());
    check(&base, "/type", None, Some(Reason::Type));
    for other in [
        "countersign.permission/2",
        "countersign.permit/1",
        "",
        "countersign.signed/1",
    ] {
        check(&base, "/type", Some(json!(other)), Some(Reason::Type));
    }
    check(&base, "/type", Some(json!(1)), Some(Reason::Type));
    check(&base, "/type", Some(json!("countersign.approval/1")), SHAPE);
    assert_eq!(refused(json!([])), Some(Reason::Type));
    let wrong = Document::<ApprovalDocument>::from_value(base).unwrap_err();
    assert_eq!(wrong.reason, Reason::Type);
}

#[test]
fn k35_t21_a_permission_says_nothing_that_is_not_understood() {
    let base = permission_value(&Ring::two().head());
    assert_eq!(refused(base.clone()), None);
    let tool = "/servers/0/tools/1";
    let at = |member: &str| format!("{tool}/{member}");
    for member in [
        "id",
        "executor",
        "keyring",
        "agent",
        "issued_at",
        "servers",
        "mode",
        "book",
    ] {
        check(&base, &format!("/{member}"), None, SHAPE);
    }
    check(&base, "/extra", Some(json!(1)), SHAPE);
    check(&base, "/servers/0/extra", Some(json!(1)), SHAPE);
    check(&base, &at("extra"), Some(json!(1)), SHAPE);
    check(&base, &at("limits/rate/extra"), Some(json!(1)), SHAPE);
    check(&base, &at("arguments/0/extra"), Some(json!(1)), SHAPE);
    check(&base, &at("arguments/0/op"), Some(json!("regex")), SHAPE);
    check(
        &base,
        &at("arguments/0/pointer"),
        Some(json!("path")),
        SHAPE,
    );
    check(&base, &at("arguments/0/value"), Some(json!(5)), SHAPE);
    check(&base, &at("kind"), Some(json!("READ")), SHAPE);
    check(&base, &at("danger"), Some(json!("sometimes")), SHAPE);
    check(&base, &at("danger"), Some(json!({"type": "object"})), None);
    check(&base, &at("limits/max_calls"), Some(json!(-1)), SHAPE);
    check(&base, &at("limits/rate/per_seconds"), Some(json!(0)), RULE);
    check(&base, &at("paths/0/pointer"), Some(json!("~2")), RULE);
    check(&base, &at("cost"), Some(json!(0)), SHAPE);
    check(&base, &at("cost"), Some(json!({"per": "/queries"})), None);
    check(&base, &at("cost"), Some(json!({"per": "queries"})), RULE);
    check(
        &base,
        &at("arguments/0"),
        Some(json!({"pointer": "/x", "op": "equals", "value": null})),
        None,
    );
    check(
        &base,
        "/servers/0/tools/0/name",
        Some(json!("write_file")),
        SHAPE,
    );
    check(&base, "/servers/0/name", Some(json!("Files")), SHAPE);
    check(
        &base,
        "/servers/0/env/LOG",
        Some(json!({"secret": "a", "b": 1})),
        SHAPE,
    );
    check(&base, "/agent/key", Some(json!("csk_short")), SHAPE);
    check(&base, "/scopes", Some(json!(["a", "a"])), SHAPE);
    check(&base, "/purpose", Some(json!("x".repeat(281))), SHAPE);
    check(&base, "/purpose", Some(json!("")), SHAPE);
    check(&base, "/servers", Some(json!([])), None);
    check(&base, "/max", Some(json!(1.5)), Some(Reason::Json));
}

#[test]
fn one_spelling_so_that_every_member_is_shown() {
    let base = permission_value(&Ring::two().head());
    let at = |member: &str| format!("/servers/0/tools/1/{member}");
    for (member, default) in [
        ("validation", json!("strict")),
        ("open_arguments", json!(false)),
        ("replay", json!(true)),
        ("scope", Value::Null),
        ("audience", json!("agent")),
    ] {
        check(&base, &at(member), Some(default), SPELLING);
    }
    check(
        &base,
        "/servers/0/tools/0/danger",
        Some(json!("never")),
        SPELLING,
    );
    check(&base, "/supersedes", Some(Value::Null), SPELLING);
    check(&base, "/turn_idle_minutes", Some(json!(0)), SPELLING);
    check(&base, "/servers/0/headers", Some(json!({})), SPELLING);
    check(&base, "/servers/0/methods", Some(json!([])), SPELLING);
}

#[test]
fn v8_times_of_a_permission() {
    let base = permission_value(&Ring::two().head());
    check(
        &base,
        "/issued_at",
        Some(json!("2026-11-30T17:00:01Z")),
        TIMES,
    );
    check(
        &base,
        "/expires_at",
        Some(json!("2026-11-30T17:00:00Z")),
        TIMES,
    );
    check(
        &base,
        "/expires_at",
        Some(json!("2027-11-30T17:00:00Z")),
        None,
    );
    check(
        &base,
        "/expires_at",
        Some(json!("2027-11-30T17:00:01Z")),
        TIMES,
    );
    check(
        &base,
        "/expires_at",
        Some(json!("2027-01-01T00:00:00+00:00")),
        SHAPE,
    );
    check(&base, "/expires_at", Some(json!("tomorrow")), SHAPE);
}

#[test]
fn an_approval_is_for_one_call_and_five_minutes() {
    let head = Ring::two().head();
    let base = approval_value(&head);
    assert_eq!(refused(base.clone()), None);
    check(
        &base,
        "/expires_at",
        Some(json!("2026-11-30T18:05:01Z")),
        TIMES,
    );
    check(
        &base,
        "/expires_at",
        Some(json!("2026-11-30T18:00:00Z")),
        TIMES,
    );
    check(&base, "/max_uses", Some(json!(2)), SHAPE);
    check(&base, "/fingerprint", Some(json!("")), SHAPE);
    check(&base, "/fingerprint", Some(json!("é".repeat(33))), SHAPE);
    check(
        &base,
        "/arguments/commitment",
        Some(json!("hmac-sha256:00")),
        SHAPE,
    );
    check(
        &base,
        "/arguments/commitment",
        Some(json!("sha256:00")),
        SHAPE,
    );
    let approval = Document::<ApprovalDocument>::from_value(base).unwrap();
    assert!(approval.body().is_for(&[9; 32], ARGUMENTS));
    assert!(!approval.body().is_for(&[8; 32], ARGUMENTS));
    assert!(!approval.body().is_for(&[9; 32], b"{}"));
}

#[test]
fn acts_are_a_closed_list() {
    let base = act_value(&Ring::two().head());
    let hash = fixture::hash("x");
    let acts = [
        json!({"turn_open": {"agent": "a"}}),
        json!({"book_erase": {"call": "c"}}),
        json!({"book_prune": {"before": 5}}),
        json!({"book_new_era": {"size": 5, "root": hash}}),
        json!({"key_rotate": {"from": fixture::KEY, "to": fixture::KEY}}),
        json!({"copy_remove": {"copy": "/media/usb"}}),
        json!({"secret_use": {"secret": "files/TOKEN", "server": "files", "identity": hash}}),
        json!({"clock_reset": {"last": "2026-11-30T18:00:00Z", "now": "2026-11-30T17:00:00Z"}}),
        json!({"person_writes": {"servers": ["files"]}}),
    ];
    assert_eq!(acts.len(), super::ACTS.len());
    for (act, word) in acts.iter().zip(super::ACTS) {
        let mut value = base.clone();
        value["act"] = act.clone();
        let AnyDocument::Act(document) = AnyDocument::from_value(value).unwrap() else {
            panic!("{act}");
        };
        assert_eq!(document.body().act.word(), word);
        assert!(act.get(word).is_some(), "{act}");
    }
    check(&base, "/act", Some(json!({"everything": {}})), SHAPE);
    check(&base, "/act", Some(json!("turn_open")), SHAPE);
    check(&base, "/act/turn_open/extra", Some(json!(1)), SHAPE);
    check(&base, "/act/book_erase", Some(json!({"call": "c"})), SHAPE);
    check(
        &base,
        "/expires_at",
        Some(json!("2026-11-30T18:05:01Z")),
        TIMES,
    );
    check(
        &base,
        "/act",
        Some(json!({"person_writes": {"servers": ["a", "a"]}})),
        SHAPE,
    );
}

#[test]
fn a_keyring_change_has_the_members_of_its_op() {
    let base = json!(Ring::one().links[0].to_value().unwrap()["document"]);
    assert_eq!(refused(base.clone()), None);
    check(&base, "/op", Some(json!("revoke")), SHAPE);
    check(&base, "/op", Some(json!("recover")), SHAPE);
    check(&base, "/op", Some(json!("replace")), SHAPE);
    check(&base, "/seq", Some(json!(0)), SHAPE);
    check(&base, "/seq", Some(json!(2)), SHAPE);
    check(&base, "/prev", Some(json!(fixture::hash("x"))), SHAPE);
    check(&base, "/credential_id", Some(json!("AAAA")), SHAPE);
    check(&base, "/code", Some(json!("AAAA")), SHAPE);
    check(&base, "/credential", None, SHAPE);
    for (member, to) in [
        ("rp_id", json!("localhost")),
        ("rp_id", json!("evil.test")),
        ("origins", json!([])),
        ("origins", json!(["http://countersign.localhost"])),
        ("origins", json!(["http://countersign.localhost:47821/"])),
        ("origins", json!(["https://countersign.localhost:47821"])),
        ("origins", json!(["http://countersign.localhost:0"])),
        ("origins", json!(["http://countersign.localhost:047821"])),
        (
            "origins",
            json!(["http://countersign.localhost.evil.test:80"]),
        ),
        ("aaguid", json!("00000000-0000-0000-0000-000000000001")),
        ("backup_eligible", json!(true)),
        ("credential_id", json!("AAAA")),
        ("public_key_cose", json!(fixture::stick().public_key())),
        ("attestation_object", json!("oA")),
    ] {
        check(&base, &format!("/credential/{member}"), Some(to), RULE);
    }
    check(
        &base,
        "/credential/public_key_cose",
        Some(json!("AAAA")),
        SHAPE,
    );
    check(&base, "/credential/label", Some(json!("")), SHAPE);
}

#[test]
fn a_recovery_code_is_typed_as_it_was_printed_and_never_shown() {
    let code = fixture::code();
    assert_eq!(
        super::RecoveryCode::typed(&code.printed().to_lowercase()),
        Ok(code.clone())
    );
    assert_eq!(code.printed().split('-').count(), 5);
    assert!(super::RecoveryCode::typed("AAAA").is_err());
    assert!(!format!("{code:?}").contains(&code.printed()[..5]));
}

#[test]
fn a_signed_form_has_its_three_members_and_no_other() {
    let head = Ring::two().head();
    let signed = fixture::signed(permission_value(&head), &fixture::phone());
    let bytes = signed.to_bytes().unwrap();
    let again = Signed::parse(&bytes).unwrap();
    assert_eq!(again, signed);
    assert_eq!(again.to_bytes().unwrap(), bytes);
    let base = signed.to_value().unwrap();
    let refuse = |change: &dyn Fn(&mut Value)| {
        let mut value = base.clone();
        change(&mut value);
        Signed::from_value(value).unwrap_err().reason
    };
    assert_eq!(
        refuse(&|value| value["signed_at"] = json!("now")),
        Reason::Shape
    );
    assert_eq!(
        refuse(&|value| value["type"] = json!("countersign.signed/2")),
        Reason::Type
    );
    assert_eq!(refuse(&|value| value["document"] = json!({})), Reason::Type);
    assert_eq!(
        refuse(&|value| value["proof"]["key"] = json!("AAAA")),
        Reason::Shape
    );
    assert_eq!(
        refuse(&|value| value["proof"]["type"] = json!("webauthn.create")),
        Reason::Shape
    );
    assert_eq!(
        refuse(&|value| value["proof"]["signature"] = json!("AA==")),
        Reason::Shape
    );
    assert_eq!(refuse(&|value| value["proof"] = Value::Null), Reason::Shape);
    assert_eq!(
        Signed::from_value(json!(1)).unwrap_err().reason,
        Reason::Type
    );
}

#[test]
fn k3_the_hash_is_of_the_canonical_bytes_in_any_order_and_spacing() {
    let value = permission_value(&Ring::two().head());
    let document = Document::<PermissionDocument>::from_value(value.clone()).unwrap();
    let spaced = serde_json::to_string_pretty(&value).unwrap();
    let again = Document::<PermissionDocument>::parse(spaced.as_bytes()).unwrap();
    assert_eq!(again, document);
    assert_eq!(document.hash(), crate::Hash::of(document.to_canonical()));
    let made = Document::new(document.body()).unwrap();
    assert_eq!(made, document);
    assert_eq!(document.to_value().unwrap(), value);
    assert_eq!(document.code(), again.code());
    let accents = |purpose: &str| {
        let mut value = value.clone();
        value["purpose"] = json!(purpose);
        Document::<PermissionDocument>::from_value(value)
            .unwrap()
            .hash()
    };
    assert_ne!(accents("\u{e9}"), accents("e\u{301}"), "no normalisation");
}

proptest! {
    #[test]
    fn k1_any_json_gets_an_answer_and_what_is_read_is_written_the_same(text in "\\PC{0,200}") {
        if let Ok(document) = AnyDocument::parse(text.as_bytes()) {
            prop_assert_eq!(AnyDocument::parse(document.to_canonical()).unwrap(), document);
        }
    }

    #[test]
    fn k1_one_changed_byte_of_a_document_is_another_document_or_none(place in 0usize..1200, byte: u8) {
        let document = fixture::permission(&Ring::one().head());
        let mut bytes = document.to_canonical().to_vec();
        let place = place % bytes.len();
        prop_assume!(bytes[place] != byte);
        bytes[place] = byte;
        if let Ok(other) = AnyDocument::parse(&bytes) {
            // Blanks outside texts are the same document.
            prop_assert!(other.hash() != document.hash() || byte.is_ascii_whitespace());
        }
    }
}
