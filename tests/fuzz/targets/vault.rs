//! A sound journal beside a vault segment that is the input: no payload is given out that is not the one committed to, and
//! verification with the vault's key says so.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use countersign_book::{Field, Reader, VaultKey, Verdict, VerifyOptions, verify};
use libfuzzer_sys::fuzz_target;

const BOOK: &[u8] = include_bytes!("../../../proxy/book/testdata/book/BOOK");
const SEGMENTS: [(&str, &[u8]); 2] = [
    (
        "00000000000000000000.jsonl",
        include_bytes!("../../../proxy/book/testdata/book/journal/00000000000000000000.jsonl"),
    ),
    (
        "00000000000000000014.jsonl",
        include_bytes!("../../../proxy/book/testdata/book/journal/00000000000000000014.jsonl"),
    ),
];
/// A folder of this process with the book, in memory where the system has one.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let dir = parent.join(format!("countersign-fuzz-vault-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("journal")).expect("a folder");
        std::fs::create_dir_all(dir.join("vault")).expect("a folder");
        std::fs::write(dir.join("BOOK"), BOOK).expect("written");
        for (name, bytes) in SEGMENTS {
            std::fs::write(dir.join("journal").join(name), bytes).expect("written");
        }
        dir
    })
}

fuzz_target!(|data: &[u8]| {
    let dir = folder();
    std::fs::write(dir.join("vault/00000000000000000000.seg"), data).expect("written");
    let key = VaultKey::from_bytes([42; 32]);
    let reader = Reader::open(dir).expect("the journal is sound");
    let mut given = 0;
    for index in 0..16 {
        for field in [Field::Args, Field::Sent, Field::Result] {
            given += u64::from(reader.payload(&key, index, field).is_ok());
        }
    }
    let options = VerifyOptions {
        vault: Some(key),
        threads: 1,
        ..VerifyOptions::default()
    };
    let report = verify(dir, &options).expect("the folder can be read");
    assert_eq!(report.opened, given, "{report:?}");
    if report.verdict() == Verdict::Ok {
        assert!(given > 0, "{report:?}");
    }
});
