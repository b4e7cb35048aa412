//! Names of tiles and texts of proofs that somebody else sent: one spelling each, parsed or refused.
#![no_main]

use countersign_book::{TilePath, TlogProof};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Some(path) = TilePath::parse(text) {
        assert_eq!(path.to_string(), text, "one spelling");
        assert!((1..=256).contains(&path.width()));
        assert_eq!(
            TilePath::new(path.level(), path.index(), path.width()),
            Some(path)
        );
    }
    if let Ok(proof) = TlogProof::parse(text) {
        assert!(proof.hashes.len() <= 64);
        assert_eq!(TlogProof::parse(&proof.to_text()), Ok(proof.clone()));
        assert!(proof.verify(&[], b"{}").is_err(), "nobody signed it");
    }
});
