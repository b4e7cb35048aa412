//! Signed documents and proofs: whatever the bytes, an answer; what is read is written the same, and nothing is verified that was not signed.
#![no_main]

use countersign_permission::document::{AnyDocument, Signed};
use countersign_permission::verify::{Answer, verify_file};
use countersign_permission::webauthn::{AuthenticatorData, CoseKey, Registration};
use countersign_permission::words::{Folding, Line, Source};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(document) = AnyDocument::parse(data) {
        let again = AnyDocument::parse(document.to_canonical()).expect("written as read");
        assert_eq!(again.hash(), document.hash());
    }
    if let Ok(signed) = Signed::parse(data) {
        let bytes = signed.to_bytes().expect("read before");
        assert_eq!(Signed::parse(&bytes).expect("written as read"), signed);
    }
    assert!(!matches!(verify_file(data, None), Answer::Verified(_)), "without a pin");
    if let Ok(key) = CoseKey::read(data) {
        assert_eq!(key.as_bytes(), data, "one encoding");
        assert!(!key.verifies(b"message", data));
    }
    let _ = AuthenticatorData::read(data);
    let _ = Registration::read(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let line = Line::default().quote(Source::Agent, text).to_text(Folding::Open);
        assert!(line.chars().all(|letter| letter == '\n' || !letter.is_control()));
        assert_eq!(line.matches(['“', '”']).count(), 2, "a quote ends where it ends");
    }
});
