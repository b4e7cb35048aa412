//! The list of passkeys: who may change it, what a recovery does and when, what a pin notices.

use serde_json::json;

use crate::Reason;
use crate::document::{AnyDocument, Bytes, KeyringRef};
use crate::fixture::{Ring, code, laptop, phone, stick, stranger, time};
use crate::keyring::{Keyring, Link, Pin, Standing};
use crate::soft::SoftPasskey;

fn reason(ring: &Ring) -> Option<Reason> {
    ring.replay().err().map(|refusal| refusal.reason)
}

/// Adds the laptop with these proofs.
fn adding(by: Option<&SoftPasskey>, possession: Option<&SoftPasskey>) -> Ring {
    let mut ring = Ring::two();
    let change = ring.change("add", "2026-11-02T00:00:00Z", |change| {
        change["credential"] = json!(laptop().credential("Laptop"));
    });
    ring.push(&change, by, possession);
    ring
}

fn revoking(ring: &mut Ring, id: &Bytes, by: &SoftPasskey, at: &str) {
    let change = ring.change("revoke", at, |change| change["credential_id"] = json!(id));
    ring.push(&change, Some(by), None);
}

fn recovering(ring: &mut Ring, with: &crate::document::RecoveryCode, at: &str) {
    let change = ring.change("recover", at, |change| {
        change["credential"] = json!(laptop().credential("Laptop"));
        change["code"] = json!(with);
    });
    ring.push(&change, Some(&laptop()), None);
}

fn trusted(keyring: &Keyring, at: &str) -> Vec<String> {
    let mut labels: Vec<_> = keyring
        .trusted(time(at))
        .iter()
        .map(|key| key.label.clone())
        .collect();
    labels.sort();
    labels
}

#[test]
fn k17_k18_t11_t12_a_key_enters_by_its_own_signature_and_a_trusted_one() {
    let (phone, laptop, stranger) = (phone(), laptop(), stranger());
    for (by, possession, want) in [
        (Some(&phone), Some(&laptop), None),
        (Some(&phone), None, Some(Reason::Proof)),
        (None, Some(&laptop), Some(Reason::Proof)),
        (None, None, Some(Reason::Proof)),
        (Some(&laptop), Some(&laptop), Some(Reason::UnknownKey)),
        (Some(&stranger), Some(&laptop), Some(Reason::UnknownKey)),
        (Some(&phone), Some(&stranger), Some(Reason::UnknownKey)),
        (Some(&phone), Some(&phone), Some(Reason::UnknownKey)),
    ] {
        assert_eq!(reason(&adding(by, possession)), want);
    }
    let keyring = adding(Some(&stick()), Some(&laptop)).keyring();
    assert_eq!(
        trusted(&keyring, "2026-12-01T00:00:00Z"),
        ["Laptop", "Phone", "Stick"]
    );
}

#[test]
fn t12_the_first_key_signs_the_first_change() {
    let mut ring = Ring::one();
    ring.links[0].proof = None;
    assert_eq!(reason(&ring), Some(Reason::Proof));
    ring.links[0].proof = Some(stranger().sign(ring.links[0].document.hash()));
    assert_eq!(reason(&ring), Some(Reason::UnknownKey));
    let mut ring = Ring::one();
    ring.links[0].possession = ring.links[0].proof.clone();
    assert_eq!(reason(&ring), Some(Reason::Proof));
    assert_eq!(reason(&Ring { links: Vec::new() }), Some(Reason::Chain));
}

#[test]
fn every_change_follows_the_one_before() {
    for (member, to, want) in [
        ("prev", json!(crate::fixture::hash("x")), Reason::Chain),
        ("seq", json!(4), Reason::Chain),
        ("seq", json!(2), Reason::Chain),
        (
            "executor",
            json!("6f0c0000-0000-4000-8000-00000000000b"),
            Reason::Executor,
        ),
    ] {
        let mut ring = Ring::two();
        let change = ring.change("add", "2026-11-02T00:00:00Z", |change| {
            change["credential"] = json!(laptop().credential("Laptop"));
            change[member] = to;
        });
        ring.push(&change, Some(&phone()), Some(&laptop()));
        assert_eq!(reason(&ring), Some(want), "{member}");
    }
    let mut ring = Ring::two();
    ring.links.swap(0, 1);
    assert_eq!(reason(&ring), Some(Reason::Chain));
    let mut ring = Ring::two();
    let again = ring.change("add", "2026-11-02T00:00:00Z", |change| {
        change["credential"] = json!(stick().credential("Stick again"));
    });
    ring.push(&again, Some(&phone()), Some(&stick()));
    assert_eq!(reason(&ring), Some(Reason::Chain));
    let mut ring = Ring::two();
    let head = ring.head();
    let other = crate::fixture::signed(crate::fixture::permission_value(&head), &phone());
    ring.links.push(other);
    assert_eq!(reason(&ring), Some(Reason::Type));
}

#[test]
fn t16_a_revoked_key_signs_nothing_new_and_its_past_stays() {
    let mut ring = Ring::two();
    let before = ring.head();
    revoking(&mut ring, &phone().id(), &stick(), "2026-11-03T00:00:00Z");
    let keyring = ring.keyring();
    let at = time("2026-11-04T00:00:00Z");
    assert!(matches!(
        keyring.standing(&phone().id(), at),
        Standing::Revoked(_)
    ));
    assert!(matches!(
        keyring.standing_at(&before, &phone().id(), at),
        Standing::Trusted(_)
    ));
    assert_eq!(trusted(&keyring, "2026-11-04T00:00:00Z"), ["Stick"]);
    let change = ring.change("add", "2026-11-05T00:00:00Z", |change| {
        change["credential"] = json!(laptop().credential("Laptop"));
    });
    ring.push(&change, Some(&phone()), Some(&laptop()));
    assert_eq!(reason(&ring), Some(Reason::RevokedKey));
}

#[test]
fn a_key_is_revoked_by_another_while_there_is_one() {
    let mut ring = Ring::two();
    revoking(&mut ring, &phone().id(), &phone(), "2026-11-03T00:00:00Z");
    assert_eq!(reason(&ring), Some(Reason::Proof));
    let mut ring = Ring::one();
    revoking(&mut ring, &phone().id(), &phone(), "2026-11-03T00:00:00Z");
    assert!(
        trusted(&ring.keyring(), "2026-11-04T00:00:00Z").is_empty(),
        "the last one by itself"
    );
    let mut ring = Ring::one();
    revoking(
        &mut ring,
        &stranger().id(),
        &phone(),
        "2026-11-03T00:00:00Z",
    );
    assert_eq!(reason(&ring), Some(Reason::Chain));
}

#[test]
fn k20_a_recovery_takes_a_day_and_ends_every_other_key() {
    let mut ring = Ring::two();
    recovering(&mut ring, &code(), "2026-11-10T00:00:00Z");
    let keyring = ring.keyring();
    let (early, late) = ("2026-11-10T23:59:59Z", "2026-11-11T00:00:00Z");
    assert_eq!(trusted(&keyring, early), ["Phone", "Stick"]);
    assert!(matches!(
        keyring.standing(&laptop().id(), time(early)),
        Standing::Waiting(_)
    ));
    assert!(keyring.recovered(time(early)).is_empty());
    assert_eq!(trusted(&keyring, late), ["Laptop"]);
    assert!(matches!(
        keyring.standing(&phone().id(), time(late)),
        Standing::Ended(_)
    ));
    assert_eq!(keyring.recovered(time(late)), [3]);
    assert_eq!(keyring.recovery().unwrap().from, time(late));
    let change = ring.change("add", "2026-11-12T00:00:00Z", |change| {
        change["credential"] = json!(stranger().credential("Tablet"));
    });
    ring.push(&change, Some(&phone()), Some(&stranger()));
    assert_eq!(
        reason(&ring),
        Some(Reason::RevokedKey),
        "an ended key adds nobody"
    );
    ring.links.pop();
    ring.push(&change, Some(&laptop()), Some(&stranger()));
    assert_eq!(
        trusted(&ring.keyring(), "2026-11-12T00:00:00Z"),
        ["Laptop", "Tablet"]
    );
    assert_eq!(ring.keyring().recovered(time(late)), [3]);
}

#[test]
fn k20_a_backdated_recovery_counts_from_its_entry_in_the_book() {
    let mut ring = Ring::two();
    recovering(&mut ring, &code(), "2026-11-02T00:00:00Z");
    let recorded = time("2026-11-10T00:00:00Z");
    let links: Vec<_> = ring
        .links
        .iter()
        .enumerate()
        .map(|(place, signed)| Link {
            signed,
            recorded: (place == 2).then_some(recorded),
        })
        .collect();
    let keyring = Keyring::replay(&links, None).unwrap();
    assert_eq!(
        trusted(&keyring, "2026-11-10T12:00:00Z"),
        ["Phone", "Stick"]
    );
    assert_eq!(trusted(&keyring, "2026-11-11T00:00:00Z"), ["Laptop"]);
}

#[test]
fn k20_a_recovery_needs_the_code_once_and_can_be_cancelled() {
    let mut ring = Ring::two();
    recovering(
        &mut ring,
        &crate::document::RecoveryCode::from_bytes([8; 16]),
        "2026-11-10T00:00:00Z",
    );
    assert_eq!(reason(&ring), Some(Reason::Proof));

    let mut ring = Ring::two();
    recovering(&mut ring, &code(), "2026-11-10T00:00:00Z");
    revoking(&mut ring, &laptop().id(), &phone(), "2026-11-10T12:00:00Z");
    let keyring = ring.keyring();
    assert_eq!(
        trusted(&keyring, "2026-11-12T00:00:00Z"),
        ["Phone", "Stick"]
    );
    assert!(matches!(
        keyring.standing(&laptop().id(), time("2026-11-12T00:00:00Z")),
        Standing::Revoked(_)
    ));
    let change = ring.change("recover", "2026-11-13T00:00:00Z", |change| {
        change["credential"] = json!(stranger().credential("Tablet"));
        change["code"] = json!(code());
    });
    ring.push(&change, Some(&stranger()), None);
    assert_eq!(reason(&ring), Some(Reason::Proof), "the code is spent");

    let mut ring = Ring::two();
    recovering(&mut ring, &code(), "2026-11-10T00:00:00Z");
    revoking(&mut ring, &laptop().id(), &phone(), "2026-11-11T00:00:00Z");
    assert_eq!(
        reason(&ring),
        Some(Reason::RevokedKey),
        "too late to cancel"
    );
    let mut ring = Ring::two();
    recovering(&mut ring, &code(), "2026-11-10T00:00:00Z");
    revoking(&mut ring, &phone().id(), &laptop(), "2026-11-10T01:00:00Z");
    assert_eq!(
        reason(&ring),
        Some(Reason::UnknownKey),
        "a waiting key signs nothing"
    );
}

#[test]
fn k21_t27_another_or_an_older_keyring_is_noticed() {
    let ring = adding(Some(&phone()), Some(&laptop()));
    let keyring = ring.keyring();
    let pin = |last: Option<KeyringRef>| Pin {
        fingerprint: keyring.fingerprint(),
        last,
    };
    assert!(ring.replay_with(Some(&pin(None))).is_ok());
    assert!(ring.replay_with(Some(&pin(Some(keyring.head())))).is_ok());
    assert!(
        ring.replay_with(Some(&pin(Some(Ring::two().head()))))
            .is_ok()
    );
    let older = Ring::two();
    let refusal = older
        .replay_with(Some(&pin(Some(keyring.head()))))
        .unwrap_err();
    assert_eq!(refusal.reason, Reason::Pin);
    let other = Pin {
        fingerprint: crate::fixture::hash("x"),
        last: None,
    };
    assert_eq!(
        ring.replay_with(Some(&other)).unwrap_err().reason,
        Reason::Pin
    );
    let AnyDocument::KeyringChange(first) = &ring.links[0].document else {
        panic!("a change");
    };
    assert_eq!(keyring.fingerprint(), first.hash());
}
