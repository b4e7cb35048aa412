//! The vectors in `testdata/`: every file is judged as its name says, and the files are those this version writes. A change of these
//! bytes is a change of the format.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::document::{AnyDocument, Proof, Signed};
use crate::fixture::{
    EXECUTOR, Ring, act_value, approval_value, code, flipped, hash, laptop, permission,
    permission_value, phone, revocation, signed, stick, stranger, with,
};
use crate::keyring::Pin;
use crate::soft::{Browser, SoftAlgorithm, SoftPasskey};
use crate::verify::{Bundle, verify_file};
use crate::{Code, Hash};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name)
}

fn files(name: &str) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(folder(name))
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                std::fs::read(entry.path()).unwrap(),
            )
        })
        .collect()
}

fn rsa_key() -> SoftPasskey {
    SoftPasskey::new("desktop", SoftAlgorithm::Rs256, crate::fixture::RP)
}

/// Phone, stick and an RSA key.
fn ring() -> Ring {
    let mut ring = Ring::two();
    let change = ring.change("add", "2026-11-01T00:02:00Z", |change| {
        change["credential"] = json!(rsa_key().credential("Desktop"));
    });
    ring.push(&change, Some(&stick()), Some(&rsa_key()));
    ring
}

fn bundle(ring: &Ring, signed: Signed) -> Value {
    let bundle = Bundle {
        keyring: ring.links.clone(),
        signed: vec![signed],
    };
    bundle.to_value().unwrap()
}

/// The permission with this proof.
fn proven(ring: &Ring, proof: impl FnOnce(Hash) -> Proof) -> Value {
    let mut signed = signed(permission_value(&ring.head()), &phone());
    signed.proof = Some(proof(signed.document.hash()));
    bundle(ring, signed)
}

/// The permission with other client data.
fn client_data(from: &str, to: &str) -> Value {
    proven(&ring(), |hash| {
        let honest = phone().client_data(hash);
        assert!(honest.contains(from), "{from}");
        phone().sign_client_data(&honest.replacen(from, to, 1))
    })
}

/// The permission with other authenticator data.
fn authenticator_data(change: impl FnOnce(&mut Vec<u8>)) -> Value {
    proven(&ring(), |hash| {
        let mut bytes = phone().authenticator_data();
        change(&mut bytes);
        phone().sign_parts(&phone().client_data(hash), bytes)
    })
}

/// The permission with a member changed after it was signed.
fn changed(pointer: &str, to: Value) -> Value {
    let ring = ring();
    let mut file = bundle(&ring, signed(permission_value(&ring.head()), &phone()));
    let document = file.pointer_mut("/signed/0/document").unwrap();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap()[name] = to;
    file
}

/// The permission with a member changed before it was signed by somebody who does not look.
fn signed_anyhow(pointer: &str, to: Value) -> Value {
    let mut file = changed(pointer, to);
    let canonical = serde_jcs::to_vec(&file["signed"][0]["document"]).unwrap();
    file["signed"][0]["proof"] = json!(phone().sign(Hash::of(&canonical)));
    file
}

/// A keyring that ends in this change, with a permission of the phone.
fn changed_ring(
    mut ring: Ring,
    change: &Value,
    by: Option<&SoftPasskey>,
    possession: Option<&SoftPasskey>,
) -> Value {
    let permission = signed(permission_value(&ring.head()), &phone());
    ring.push(change, by, possession);
    bundle(&ring, permission)
}

fn adding_laptop(ring: &Ring) -> Value {
    ring.change("add", "2026-11-02T00:00:00Z", |change| {
        change["credential"] = json!(laptop().credential("Laptop"));
    })
}

fn revoking_phone(ring: &Ring) -> Value {
    ring.change("revoke", "2026-12-03T00:00:00Z", |change| {
        change["credential_id"] = json!(phone().id())
    })
}

/// Every bundle but those that are no JSON value.
fn bundles() -> Vec<(&'static str, Value)> {
    let ring = ring();
    let head = ring.head();
    let by = |value: Value, key: &SoftPasskey| bundle(&ring, signed(value, key));
    let mut firefox = phone();
    firefox.browser = Browser::Firefox;
    firefox.counter = 7;
    let mut bare = signed(
        revocation(&json!({"permission": permission(&head).hash()}))
            .to_value()
            .unwrap(),
        &phone(),
    );
    bare.proof = None;
    let mut recovered = Ring::two();
    let recover = recovered.change("recover", "2026-11-10T00:00:00Z", |change| {
        change["credential"] = json!(laptop().credential("Laptop"));
        change["code"] = json!(code());
    });
    recovered.push(&recover, Some(&laptop()), None);
    let mut twice = signed(permission_value(&head), &phone());
    twice.possession = twice.proof.clone();
    let mut never = head.clone();
    never.head = hash("never");
    let mut revoked = Ring::two();
    let change = revoking_phone(&revoked);
    revoked.push(&change, Some(&stick()), None);
    let mut cut = bundle(&ring, signed(permission_value(&head), &phone()));
    cut["keyring"].as_array_mut().unwrap().remove(1);
    let mut other_ring = bundle(&ring, signed(permission_value(&head), &phone()));
    other_ring["keyring"] = json!([]);
    let bad_code = Ring::two().change("recover", "2026-11-10T00:00:00Z", |change| {
        change["credential"] = json!(laptop().credential("Laptop"));
        change["code"] = json!(crate::document::RecoveryCode::from_bytes([8; 16]));
    });
    let mut rows = vec![
        ("verified.permission", by(permission_value(&head), &phone())),
        ("verified.approval", by(approval_value(&head), &phone())),
        ("verified.act", by(act_value(&head), &phone())),
        (
            "verified.keyring-change",
            bundle(&ring, ring.links[1].clone()),
        ),
        ("verified.revocation-without-proof", bundle(&ring, bare)),
        ("verified.eddsa", by(permission_value(&head), &stick())),
        ("verified.rs256", by(permission_value(&head), &rsa_key())),
        (
            "verified.firefox-with-counter",
            by(permission_value(&head), &firefox),
        ),
        (
            "verified.cross-origin-absent",
            client_data(r#","crossOrigin":false"#, ""),
        ),
        (
            "verified.synchronised",
            authenticator_data(|bytes| bytes[32] = 0x1d),
        ),
        (
            "verified.extensions",
            authenticator_data(|bytes| {
                bytes[32] |= 0x80;
                bytes.push(0xa0);
            }),
        ),
        (
            "verified.before-the-key-was-revoked",
            changed_ring(
                Ring::two(),
                &revoking_phone(&Ring::two()),
                Some(&stick()),
                None,
            ),
        ),
        (
            "verified.by-a-recovered-key",
            bundle(
                &recovered,
                signed(permission_value(&recovered.head()), &laptop()),
            ),
        ),
        (
            "type.permission-of-another-version",
            changed("/type", json!("countersign.permission/2")),
        ),
        ("type.login-challenge", changed("/type", json!("login"))),
        ("shape.member-added", changed("/extra", json!(true))),
        (
            "shape.unknown-op",
            changed("/servers/0/tools/1/arguments/0/op", json!("regex")),
        ),
        ("shape.no-document", {
            let mut file = bundle(&ring, ring.links[0].clone());
            file["signed"] = json!([]);
            file
        }),
        (
            "spelling.default-written-out",
            changed("/turn_idle_minutes", json!(0)),
        ),
        ("chain.change-missing", cut),
        ("chain.empty-keyring", other_ring),
        (
            "keyring_state.never-was",
            by(permission_value(&never), &phone()),
        ),
        (
            "unknown_key.stranger",
            by(permission_value(&head), &stranger()),
        ),
        (
            "unknown_key.agent-adds-its-own",
            changed_ring(
                Ring::two(),
                &adding_laptop(&Ring::two()),
                Some(&laptop()),
                Some(&laptop()),
            ),
        ),
        (
            "revoked_key.signs-on",
            bundle(
                &revoked,
                signed(permission_value(&revoked.head()), &phone()),
            ),
        ),
        (
            "revoked_key.ended-by-recovery",
            bundle(
                &recovered,
                signed(permission_value(&recovered.head()), &phone()),
            ),
        ),
        ("proof.two", bundle(&ring, twice)),
        (
            "proof.registration-alone",
            changed_ring(
                Ring::two(),
                &adding_laptop(&Ring::two()),
                Some(&phone()),
                None,
            ),
        ),
        (
            "proof.wrong-recovery-code",
            changed_ring(Ring::two(), &bad_code, Some(&laptop()), None),
        ),
        (
            "client_data.type-twice",
            client_data(r#"{"type""#, r#"{"type":"webauthn.get","type""#),
        ),
        (
            "client_data.token-binding",
            client_data(
                r#""crossOrigin":false"#,
                r#""crossOrigin":false,"tokenBinding":null"#,
            ),
        ),
        (
            "ceremony.create",
            client_data("webauthn.get", "webauthn.create"),
        ),
        (
            "challenge.permission-changed",
            changed("/purpose", json!("Delete my notes")),
        ),
        (
            "challenge.limit-raised",
            changed("/servers/0/tools/1/limits/max_calls", json!(51)),
        ),
        (
            "challenge.composed-otherwise",
            changed("/purpose", json!("Sort my note\u{73}\u{301}")),
        ),
        (
            "challenge.of-another-document",
            proven(&ring, |_| phone().sign(hash("other"))),
        ),
        (
            "origin.stolen-on-another-port",
            client_data("47821", "47822"),
        ),
        ("origin.trailing-slash", client_data("47821\"", "47821/\"")),
        (
            "cross_origin.in-a-frame",
            client_data(r#""crossOrigin":false"#, r#""crossOrigin":true"#),
        ),
        (
            "cross_origin.top-origin",
            client_data(
                r#""crossOrigin":false"#,
                r#""crossOrigin":false,"topOrigin":"http://evil.test""#,
            ),
        ),
        ("payment.get", client_data("webauthn.get", "payment.get")),
        (
            "payment.member",
            client_data(
                r#""crossOrigin":false"#,
                r#""crossOrigin":false,"payment":{}"#,
            ),
        ),
        (
            "authenticator_data.trailing",
            authenticator_data(|bytes| bytes.push(0)),
        ),
        (
            "authenticator_data.short",
            authenticator_data(|bytes| bytes.truncate(36)),
        ),
        (
            "relying_party.localhost",
            authenticator_data(|bytes| bytes[..32].copy_from_slice(hash("localhost").as_bytes())),
        ),
        (
            "user_presence.cleared",
            authenticator_data(|bytes| bytes[32] = 0x04),
        ),
        (
            "user_verification.cleared",
            authenticator_data(|bytes| bytes[32] = 0x01),
        ),
        (
            "backup.synchronised-but-not-eligible",
            authenticator_data(|bytes| bytes[32] = 0x15),
        ),
        (
            "signature.bit-flipped",
            proven(&ring, |hash| {
                let proof = phone().sign(hash);
                let bits = proof.signature.as_slice().len() * 8;
                with(&proof, |proof| {
                    proof.signature = flipped(&proof.signature, bits - 1)
                })
            }),
        ),
        (
            "signature.of-another-key",
            proven(&ring, |hash| {
                with(&phone().sign(hash), |proof| {
                    proof.credential_id = stick().id()
                })
            }),
        ),
        (
            "times.ends-before-it-begins",
            signed_anyhow("/expires_at", json!("2026-11-30T17:00:00Z")),
        ),
        (
            "times.longer-than-a-year",
            signed_anyhow("/expires_at", json!("2028-01-01T00:00:00Z")),
        ),
        (
            "rule.rate-over-nothing",
            signed_anyhow("/servers/0/tools/1/limits/rate/per_seconds", json!(0)),
        ),
        (
            "executor.another-installation",
            signed_anyhow("/executor/id", json!(EXECUTOR.replace('a', "b"))),
        ),
    ];
    let mut twin = signed(permission_value(&head), &phone());
    twin.proof = twin.proof.map(|proof| {
        let der = p256::ecdsa::DerSignature::from_bytes(proof.signature.as_slice()).unwrap();
        let (r, s) = p256::ecdsa::Signature::try_from(der)
            .unwrap()
            .split_scalars();
        let other = p256::ecdsa::Signature::from_scalars(r, -s)
            .unwrap()
            .to_der();
        with(&proof, |proof| proof.signature = other.as_bytes().into())
    });
    rows.push(("verified.s-flipped", bundle(&ring, twin)));
    rows
}

/// Every bundle as its bytes.
fn written() -> BTreeMap<String, Vec<u8>> {
    let mut all: BTreeMap<String, Vec<u8>> = bundles()
        .into_iter()
        .map(|(name, value)| (format!("{name}.json"), serde_jcs::to_vec(&value).unwrap()))
        .collect();
    let good = String::from_utf8(all["verified.permission.json"].clone()).unwrap();
    let spelled = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1).into_bytes()
    };
    let texts = [
        (
            "json.member-twice",
            spelled(r#""purpose":"#, r#""purpose":"x","purpose":"#),
        ),
        (
            "json.float",
            spelled(r#""max_calls":50"#, r#""max_calls":50.0"#),
        ),
        (
            "json.unsafe-integer",
            spelled(r#""max_calls":50"#, r#""max_calls":9007199254740993"#),
        ),
        ("json.lone-surrogate", spelled("Sort my notes", "\\ud800")),
        ("json.trailing", spelled("", "[]")),
        (
            "json.too-deep",
            spelled(
                r#""danger":"always""#,
                &format!(
                    r#""danger":{}{}"#,
                    "{\"a\":".repeat(12) + "1",
                    "}".repeat(12)
                ),
            ),
        ),
        (
            "verified.spaced",
            serde_json::to_string_pretty(&serde_json::from_str::<Value>(&good).unwrap())
                .unwrap()
                .into_bytes(),
        ),
    ];
    all.extend(texts.map(|(name, bytes)| (format!("{name}.json"), bytes)));
    let mut another = Ring { links: Vec::new() };
    let change = another.change("add", "2026-11-01T00:00:00Z", |change| {
        change["credential"] = json!(phone().credential("Phone"))
    });
    another.push(&change, Some(&phone()), None);
    let foreign = bundle(
        &another,
        signed(permission_value(&another.head()), &phone()),
    );
    all.insert(
        "pin.another-keyring.json".into(),
        serde_jcs::to_vec(&foreign).unwrap(),
    );
    all
}

fn documents() -> BTreeMap<String, Vec<u8>> {
    let head = ring().head();
    let all = [
        ("permission", permission_value(&head)),
        ("approval", approval_value(&head)),
        ("act", act_value(&head)),
        (
            "revocation",
            revocation(&json!({"credential": phone().id()}))
                .to_value()
                .unwrap(),
        ),
        (
            "keyring-change",
            ring().links[0].to_value().unwrap()["document"].clone(),
        ),
    ];
    all.into_iter()
        .map(|(name, value)| {
            let document = AnyDocument::from_value(value).unwrap();
            let name = format!(
                "{name}.{}.{}.json",
                Code::of(document.hash()),
                &document.hash().to_string()[7..]
            );
            (name, document.to_canonical().to_vec())
        })
        .collect()
}

fn pin() -> Pin {
    let text = std::fs::read_to_string(folder("pin")).unwrap();
    Pin {
        fingerprint: text.trim().parse().unwrap(),
        last: None,
    }
}

#[test]
fn k41_every_bundle_is_judged_as_its_name_says() {
    let all = files("bundles");
    let pin = pin();
    for (name, bytes) in &all {
        let want = name.split('.').next().unwrap();
        let answer = verify_file(bytes, Some(&pin));
        assert_eq!(answer.code(), want, "{name}: {answer:?}");
        let unpinned = verify_file(bytes, None);
        let without = match want {
            "verified" | "pin" => 2,
            _ => 1,
        };
        assert_eq!(unpinned.exit_code(), without, "{name} without a pin");
    }
    let verified = all
        .keys()
        .filter(|name| name.starts_with("verified."))
        .count();
    assert!(
        verified > 10 && all.len() - verified > 40,
        "{verified} of {}",
        all.len()
    );
}

#[test]
fn every_reason_has_a_vector() {
    let all = files("bundles");
    let without: Vec<_> = crate::REASONS
        .iter()
        .map(|row| row.1)
        .filter(|code| !all.keys().any(|name| name.starts_with(&format!("{code}."))))
        .collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn k2_every_document_is_named_by_its_code_and_hash() {
    for (name, bytes) in files("documents") {
        let document = AnyDocument::parse(&bytes).unwrap();
        let parts: Vec<_> = name.split('.').collect();
        assert_eq!(document.to_canonical(), bytes, "{name}");
        assert_eq!(Code::of(document.hash()).to_string(), parts[1], "{name}");
        assert_eq!(
            document.hash().to_string(),
            format!("sha256:{}", parts[2]),
            "{name}"
        );
    }
}

#[test]
fn the_files_are_those_this_version_writes() {
    assert_eq!(files("documents"), documents());
    let (have, want) = (files("bundles"), written());
    assert_eq!(
        have.keys().collect::<Vec<_>>(),
        want.keys().collect::<Vec<_>>()
    );
    for (name, bytes) in &want {
        assert!(have[name] == *bytes, "{name} is another file");
    }
}

/// Writes the files: `cargo test -p countersign-permission write_vectors -- --ignored`.
#[test]
#[ignore = "writes testdata/"]
fn write_vectors() {
    for (name, all) in [("bundles", written()), ("documents", documents())] {
        let folder = folder(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder).unwrap();
        }
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in all {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    std::fs::write(
        folder("pin"),
        format!("{}\n", ring().keyring().fingerprint()),
    )
    .unwrap();
}
