//! Signed documents judged offline: each reason by a record that is otherwise good, every single-bit mutant, the three answers.

use serde_json::{Value, json};

use crate::document::{Bytes, Proof, Signed};
use crate::fixture::{
    Ring, act_value, approval_value, code, flipped, hash, laptop, permission, permission_value,
    phone, revocation, signed, stick, stranger, time, with,
};
use crate::keyring::Pin;
use crate::soft::{Browser, SoftAlgorithm, SoftPasskey};
use crate::verify::{Answer, Bundle, verify_file, verify_now, verify_signed};
use crate::{Hash, Reason};

/// Puts other bytes into a proof.
type Set = fn(&mut Proof, Bytes);

fn check(signed: &Signed, ring: &Ring, want: Option<Reason>) {
    let got = verify_signed(signed, &ring.keyring())
        .err()
        .map(|refusal| refusal.reason);
    assert_eq!(got, want, "{:?}", signed.document);
}

/// The permission with this proof.
fn proven(ring: &Ring, proof: impl FnOnce(Hash) -> Proof) -> Signed {
    let mut signed = signed(permission_value(&ring.head()), &phone());
    signed.proof = Some(proof(signed.document.hash()));
    signed
}

#[test]
fn what_a_trusted_key_signed_is_verified_for_every_type_and_browser() {
    let ring = Ring::two();
    let head = ring.head();
    for value in [
        permission_value(&head),
        approval_value(&head),
        act_value(&head),
    ] {
        for mut key in [phone(), stick()] {
            for browser in [Browser::Chromium, Browser::Firefox] {
                key.browser = browser;
                key.counter += 1;
                let signed = signed(value.clone(), &key);
                let verified = verify_signed(&signed, &ring.keyring()).unwrap();
                let signer = verified.signer.unwrap();
                assert_eq!(
                    (signer.credential_id, signer.assertion.counter),
                    (key.id(), key.counter)
                );
            }
        }
    }
    for link in &ring.links {
        check(link, &ring, None);
    }
}

#[test]
fn t1_a_changed_document_is_another_document() {
    let ring = Ring::two();
    let good = signed(permission_value(&ring.head()), &phone());
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut value = permission_value(&ring.head());
        change(&mut value);
        let mut other = signed(value, &phone());
        other.proof = good.proof.clone();
        check(&other, &ring, Some(Reason::Challenge));
    };
    check(&good, &ring, None);
    changed(&|value| value["servers"][0]["tools"][1]["limits"]["max_calls"] = json!(51));
    changed(&|value| {
        value["servers"][0]["tools"][1]["arguments"][0]["value"] = json!("/home/maria/")
    });
    changed(&|value| value["turn_idle_minutes"] = json!(1));
    changed(&|value| value["expires_at"] = json!("2027-03-01T17:00:00Z"));
    changed(&|value| value["purpose"] = json!("sort my notes"));
}

#[test]
fn v4_the_key_is_one_of_the_keyring_at_the_state_that_is_named() {
    let ring = Ring::two();
    check(
        &proven(&ring, |hash| stranger().sign(hash)),
        &ring,
        Some(Reason::UnknownKey),
    );
    let foreign = with(&phone().sign(hash("x")), |proof| {
        proof.credential_id = stick().id()
    });
    check(&proven(&ring, |_| foreign), &ring, Some(Reason::Challenge));
    let taken = |id: Bytes| {
        proven(&ring, |hash| {
            with(&phone().sign(hash), |proof| proof.credential_id = id)
        })
    };
    check(&taken(stick().id()), &ring, Some(Reason::Signature));
    let mut none = signed(permission_value(&ring.head()), &phone());
    none.proof = None;
    check(&none, &ring, Some(Reason::Proof));
    let mut two = signed(permission_value(&ring.head()), &phone());
    two.possession = two.proof.clone();
    check(&two, &ring, Some(Reason::Proof));
    let mut never = ring.head();
    never.seq = 3;
    check(
        &signed(permission_value(&never), &phone()),
        &ring,
        Some(Reason::KeyringState),
    );
    never = ring.head();
    never.head = hash("x");
    check(
        &signed(permission_value(&never), &phone()),
        &ring,
        Some(Reason::KeyringState),
    );
    let early = signed(permission_value(&Ring::one().head()), &stick());
    check(&early, &ring, Some(Reason::UnknownKey));
}

#[test]
fn t3_another_executors_document_is_refused() {
    let ring = Ring::two();
    let mut value = permission_value(&ring.head());
    value["executor"]["id"] = json!("6f0c0000-0000-4000-8000-00000000000b");
    check(&signed(value, &phone()), &ring, Some(Reason::Executor));
}

#[test]
fn k8_k9_t4_t13_client_data_of_another_page_or_purpose() {
    let ring = Ring::two();
    let replaced = |from: &str, to: &str, want: Option<Reason>| {
        let signed = proven(&ring, |hash| {
            let honest = phone().client_data(hash);
            assert!(honest.contains(from), "{from}");
            phone().sign_client_data(&honest.replace(from, to))
        });
        check(&signed, &ring, want);
    };
    let origin = r#""origin":"http://countersign.localhost:47821""#;
    replaced("47821", "47822", Some(Reason::Origin));
    replaced("http://c", "https://c", Some(Reason::Origin));
    replaced("http://c", "HTTP://c", Some(Reason::Origin));
    replaced("47821\"", "47821/\"", Some(Reason::Origin));
    replaced(
        "countersign.localhost:",
        "a.countersign.localhost:",
        Some(Reason::Origin),
    );
    replaced("countersign.localhost:", "localhost:", Some(Reason::Origin));
    replaced(
        r#""crossOrigin":false"#,
        r#""crossOrigin":true"#,
        Some(Reason::CrossOrigin),
    );
    replaced(r#","crossOrigin":false"#, "", None);
    replaced(
        r#""crossOrigin":false"#,
        r#""crossOrigin":false,"topOrigin":"http://x""#,
        Some(Reason::CrossOrigin),
    );
    replaced(
        r#""crossOrigin":false"#,
        r#""crossOrigin":null"#,
        Some(Reason::ClientData),
    );
    replaced(
        r#""crossOrigin":false"#,
        r#""crossOrigin":"false""#,
        Some(Reason::ClientData),
    );
    replaced("webauthn.get", "webauthn.create", Some(Reason::Ceremony));
    replaced("webauthn.get", "payment.get", Some(Reason::Payment));
    replaced(
        r#""crossOrigin":false"#,
        r#""crossOrigin":false,"payment":{}"#,
        Some(Reason::Payment),
    );
    replaced(
        r#""crossOrigin":false"#,
        r#""crossOrigin":false,"tokenBinding":null"#,
        Some(Reason::ClientData),
    );
    replaced(
        r#"{"type""#,
        r#"{"type":"webauthn.get","type""#,
        Some(Reason::ClientData),
    );
    replaced(origin, r#""origin":1"#, Some(Reason::ClientData));
    replaced(&format!(",{origin}"), "", Some(Reason::ClientData));
    replaced("}", "} ", None);
    replaced("}", "}}", Some(Reason::ClientData));
    replaced(
        r#""challenge":""#,
        r#""challenge":"A"#,
        Some(Reason::Challenge),
    );
    replaced(r#"","origin"#, r#"=","origin"#, Some(Reason::Challenge));
}

#[test]
fn k7_t14_authenticator_data_of_nobody_or_of_another_place() {
    let ring = Ring::two();
    let parts = |data: &dyn Fn(&mut Vec<u8>), want: Option<Reason>| {
        let signed = proven(&ring, |hash| {
            let mut bytes = phone().authenticator_data();
            data(&mut bytes);
            phone().sign_parts(&phone().client_data(hash), bytes)
        });
        check(&signed, &ring, want);
    };
    parts(&|_| {}, None);
    parts(&|bytes| bytes[32] = 0x01, Some(Reason::UserVerification));
    parts(&|bytes| bytes[32] = 0x04, Some(Reason::UserPresence));
    parts(&|bytes| bytes[32] = 0x15, Some(Reason::Backup));
    parts(&|bytes| bytes[32] = 0x1d, None);
    parts(&|bytes| bytes[36] = 9, None);
    parts(&|bytes| bytes.push(0), Some(Reason::AuthenticatorData));
    parts(&|bytes| bytes.truncate(36), Some(Reason::AuthenticatorData));
    parts(
        &|bytes| bytes[..32].copy_from_slice(hash("localhost").as_bytes()),
        Some(Reason::RelyingParty),
    );
    parts(
        &|bytes| {
            bytes[32] |= 0x80;
            bytes.push(0xa0);
        },
        None,
    );
}

#[test]
fn t18_a_flipped_s_is_the_same_document_not_another() {
    let ring = Ring::two();
    let good = signed(permission_value(&ring.head()), &phone());
    let proof = good.proof.clone().unwrap();
    let der = p256::ecdsa::DerSignature::from_bytes(proof.signature.as_slice()).unwrap();
    let signature = p256::ecdsa::Signature::try_from(der).unwrap();
    let (r, s) = signature.split_scalars();
    let other = p256::ecdsa::Signature::from_scalars(r, -s)
        .unwrap()
        .to_der();
    let mut twin = good.clone();
    twin.proof = Some(with(&proof, |proof| {
        proof.signature = other.as_bytes().into()
    }));
    assert_ne!(twin, good);
    check(&twin, &ring, None);
    assert_eq!(
        twin.document.hash(),
        good.document.hash(),
        "what counts is the document"
    );
}

#[test]
fn k42_every_single_bit_mutant_is_refused_after_the_original_is_accepted() {
    let ring = Ring::two();
    let keyring = ring.keyring();
    for key in [phone(), stick()] {
        let good = signed(permission_value(&ring.head()), &key);
        check(&good, &ring, None);
        let proof = good.proof.clone().unwrap();
        let mut mutants = 0;
        let parts: [(&Bytes, Set); 4] = [
            (&proof.client_data_json, |proof, bytes| {
                proof.client_data_json = bytes
            }),
            (&proof.authenticator_data, |proof, bytes| {
                proof.authenticator_data = bytes
            }),
            (&proof.signature, |proof, bytes| proof.signature = bytes),
            (&proof.credential_id, |proof, bytes| {
                proof.credential_id = bytes
            }),
        ];
        for (bytes, set) in parts {
            for bit in 0..bytes.as_slice().len() * 8 {
                let mut mutant = good.clone();
                mutant.proof = Some(with(&proof, |proof| set(proof, flipped(bytes, bit))));
                assert!(
                    verify_signed(&mutant, &keyring).is_err(),
                    "bit {bit} of {bytes}"
                );
                mutants += 1;
            }
        }
        assert!(mutants > 2000, "{mutants}");
    }
}

#[test]
fn k42_every_single_bit_mutant_of_the_document_is_refused() {
    let ring = Ring::two();
    let keyring = ring.keyring();
    let good = signed(permission_value(&ring.head()), &phone());
    let bytes: Bytes = good.document.to_canonical().into();
    let mut read = 0;
    for bit in 0..bytes.as_slice().len() * 8 {
        let Ok(document) = crate::document::AnyDocument::parse(flipped(&bytes, bit).as_slice())
        else {
            continue;
        };
        let mutant = Signed {
            document,
            ..good.clone()
        };
        assert!(verify_signed(&mutant, &keyring).is_err(), "bit {bit}");
        read += 1;
    }
    assert!(read > 100, "many mutants are documents: {read}");
}

#[test]
fn k10_k15_before_storing_the_key_and_the_keyring_are_those_of_now() {
    let mut ring = Ring::two();
    let made = signed(permission_value(&ring.head()), &phone());
    let now = time("2026-11-30T17:01:00Z");
    let proof = made.proof.clone().unwrap();
    let none = Default::default();
    assert!(verify_now(&made.document, &proof, &ring.keyring(), &none, now).is_ok());
    let suspended = [phone().id()].into();
    let refusal = verify_now(&made.document, &proof, &ring.keyring(), &suspended, now).unwrap_err();
    assert_eq!(refusal.reason, Reason::RevokedKey);
    let change = ring.change("revoke", "2026-11-30T17:00:30Z", |change| {
        change["credential_id"] = json!(phone().id());
    });
    ring.push(&change, Some(&stick()), None);
    let refusal = verify_now(&made.document, &proof, &ring.keyring(), &none, now).unwrap_err();
    assert_eq!(
        refusal.reason,
        Reason::KeyringState,
        "the keyring changed meanwhile"
    );
    let anew = signed(permission_value(&ring.head()), &phone());
    let refusal = verify_now(
        &anew.document,
        &anew.proof.clone().unwrap(),
        &ring.keyring(),
        &none,
        now,
    )
    .unwrap_err();
    assert_eq!(refusal.reason, Reason::RevokedKey);
    check(&made, &ring, None);
}

#[test]
fn revocations_have_no_proof() {
    let ring = Ring::two();
    let document = revocation(&json!({"permission": permission(&ring.head()).hash()}));
    let mut bare = signed(document.to_value().unwrap(), &phone());
    check(&bare, &ring, Some(Reason::Proof));
    bare.proof = None;
    check(&bare, &ring, None);
}

fn bundle(ring: &Ring, signed: Vec<Signed>) -> Vec<u8> {
    let bundle = Bundle {
        keyring: ring.links.clone(),
        signed,
    };
    serde_json::to_vec(&bundle.to_value().unwrap()).unwrap()
}

#[test]
fn k40_verified_only_with_a_pin_from_elsewhere() {
    let ring = Ring::two();
    let keyring = ring.keyring();
    let file = bundle(
        &ring,
        vec![signed(permission_value(&ring.head()), &phone())],
    );
    let pin = |fingerprint| Pin {
        fingerprint,
        last: None,
    };
    let verified = verify_file(&file, Some(&pin(keyring.fingerprint())));
    assert_eq!((verified.exit_code(), verified.code()), (0, "verified"));
    let Answer::Verified(checked) = verified else {
        panic!("verified");
    };
    assert_eq!(
        checked.documents[0].document,
        permission(&ring.head()).hash()
    );
    assert!(!checked.not_checked.is_empty());
    let unpinned = verify_file(&file, None);
    assert_eq!((unpinned.exit_code(), unpinned.code()), (2, "unpinned"));
    let refused = verify_file(&file, Some(&pin(hash("x"))));
    assert_eq!((refused.exit_code(), refused.code()), (1, "pin"));
    for (bytes, code) in [
        (b"{}".to_vec(), "type"),
        (b"".to_vec(), "json"),
        (bundle(&ring, Vec::new()), "shape"),
        (
            bundle(&Ring { links: Vec::new() }, vec![ring.links[0].clone()]),
            "chain",
        ),
    ] {
        assert_eq!(verify_file(&bytes, None).code(), code);
    }
}

#[test]
fn k20_a_recovered_keyring_says_so_in_every_verification() {
    let mut ring = Ring::two();
    let change = ring.change("recover", "2026-11-10T00:00:00Z", |change| {
        change["credential"] = json!(laptop().credential("Laptop"));
        change["code"] = json!(code());
    });
    ring.push(&change, Some(&laptop()), None);
    let file = bundle(
        &ring,
        vec![signed(permission_value(&ring.head()), &laptop())],
    );
    let Answer::Unpinned(checked) = verify_file(&file, None) else {
        panic!("consistent");
    };
    assert_eq!(checked.recoveries, [3]);
    let old = bundle(
        &ring,
        vec![signed(permission_value(&ring.head()), &phone())],
    );
    assert_eq!(verify_file(&old, None).code(), "revoked_key");
}

#[test]
fn a_key_of_another_algorithm_or_curve_is_none() {
    use crate::webauthn::{Algorithm, CoseKey};
    let es = phone().public_key();
    assert_eq!(es.algorithm(), Algorithm::Es256);
    assert_eq!(stick().public_key().algorithm(), Algorithm::EdDsa);
    let bytes: Bytes = es.as_bytes().into();
    for bit in 0..bytes.as_slice().len() * 8 {
        assert!(
            CoseKey::read(flipped(&bytes, bit).as_slice()).is_err(),
            "off the curve or another form: {bit}"
        );
    }
    let weak = [
        &[0xa4, 1, 1, 3, 0x27, 0x20, 6, 0x21, 0x58, 32][..],
        &[0; 32],
    ]
    .concat();
    assert!(CoseKey::read(&weak).is_err());
    let local = SoftPasskey::new("x", SoftAlgorithm::Es256, "localhost");
    assert_eq!(local.credential("x").origins, ["http://localhost:47821"]);
}
