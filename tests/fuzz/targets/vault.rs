//! A vault segment that is the input, judged by what the entries of a sound journal say of it: no payload is given out that is not
//! the one committed to, and what can't be opened is never called kept by who holds the key.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use countersign_book::{KeptState, Promise, Reader, VaultKey};
use libfuzzer_sys::fuzz_target;

const FILES: [(&str, &[u8]); 3] = [
    (
        "BOOK",
        include_bytes!("../../../proxy/book/testdata/book/BOOK"),
    ),
    (
        "journal/00000000000000000000.jsonl",
        include_bytes!("../../../proxy/book/testdata/book/journal/00000000000000000000.jsonl"),
    ),
    (
        "journal/00000000000000000014.jsonl",
        include_bytes!("../../../proxy/book/testdata/book/journal/00000000000000000014.jsonl"),
    ),
];
const SEGMENT: &[u8] =
    include_bytes!("../../../proxy/book/testdata/book/vault/00000000000000000000.seg");

/// What the journal says of each payload, and the payload where the sound segment has it.
fn promises() -> &'static [(Promise, Option<Vec<u8>>)] {
    static PROMISES: OnceLock<Vec<(Promise, Option<Vec<u8>>)>> = OnceLock::new();
    PROMISES.get_or_init(|| {
        let name = format!("countersign-fuzz-vault-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let promises = read(&dir);
        std::fs::remove_dir_all(&dir).expect("removed");
        let sound = promises.into_iter().map(|promise| {
            let payload = promise.open(&key(), SEGMENT).ok();
            (promise, payload)
        });
        let sound: Vec<_> = sound.collect();
        assert!(sound.iter().any(|(_, payload)| payload.is_some()));
        sound
    })
}

fn read(dir: &Path) -> Vec<Promise> {
    std::fs::create_dir_all(dir.join("journal")).expect("a folder");
    for (name, bytes) in FILES {
        std::fs::write(dir.join(name), bytes).expect("written");
    }
    let reader = Reader::open(dir).expect("the journal is sound");
    let found = (0..).map_while(|index| reader.promises(index).ok());
    found.flatten().collect()
}

fn key() -> VaultKey {
    VaultKey::from_bytes([42; 32])
}

fuzz_target!(|data: &[u8]| {
    for (promise, sound) in promises() {
        let seen = promise.look(data);
        match promise.open(&key(), data) {
            Ok(payload) => {
                assert_eq!(seen, KeptState::Kept);
                assert_eq!(Some(&payload), sound.as_ref());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        let other = VaultKey::from_bytes([7; 32]);
        assert!(promise.open(&other, data).is_err());
    }
});
