//! A book whose only segment is the input: verified, opened for writing, appended to. Whatever the bytes, an answer; what
//! was opened is whole afterwards, and damage is left as it was.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use countersign_book::{
    BookError, Draft, Hash, PayloadCheck, Reader, Settings, Signer, Sources, VaultKey, Verdict,
    VerifyOptions, Writer, WriterOptions, verify,
};
use libfuzzer_sys::fuzz_target;

/// The key of the book in `proxy/book/testdata`.
const SEED: [u8; 32] = [41; 32];
const BOOK: &[u8] = include_bytes!("../../../proxy/book/testdata/book/BOOK");

/// A folder of this process, in memory where the system has one.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        parent.join(format!("countersign-fuzz-journal-{}", std::process::id()))
    })
}

fuzz_target!(|data: &[u8]| {
    let dir = folder();
    let _ = std::fs::remove_dir_all(dir);
    let segment = dir.join("journal/00000000000000000000.jsonl");
    std::fs::create_dir_all(dir.join("journal")).expect("a folder");
    std::fs::write(dir.join("BOOK"), BOOK).expect("written");
    std::fs::write(&segment, data).expect("written");

    let options = VerifyOptions {
        payloads: PayloadCheck::Skip,
        threads: 1,
        ..VerifyOptions::default()
    };
    let before = verify(dir, &options).expect("the folder can be read");
    if let Ok(reader) = Reader::open(dir) {
        let _ = reader.show(0);
    }
    // What nobody signs in a segment's first line a writer takes as it stands; only verification compares it.
    let unsigned = before.findings.iter().any(|finding| finding.line == 1);
    match open(dir) {
        Ok(_) if unsigned => {}
        Ok(mut writer) => {
            assert!(
                [Verdict::Ok, Verdict::UnsignedTail].contains(&before.verdict()),
                "{before:?}"
            );
            let settings = Settings {
                by: "fuzz".into(),
                hash: Hash([0; 32]),
            };
            let committed = writer.commit(vec![Draft::new(settings)]).expect("appended");
            assert!(committed.size > before.size);
            drop(writer);
            let after = verify(dir, &options).expect("the folder can be read");
            assert_eq!(after.verdict(), Verdict::Ok, "{after:?}");
            assert_eq!(after.size, committed.size);
        }
        Err(BookError::Damaged(_) | BookError::Newer { .. }) => {
            let left = std::fs::read(&segment).expect("it is there");
            assert_eq!(left, data, "nothing is repaired silently");
        }
        // The tail holds a checkpoint of the book's key: its vault or its size is beyond what can be made good.
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let _ = std::fs::remove_dir_all(dir);
});

fn open(dir: &Path) -> Result<Writer, BookError> {
    let mut counter = 0u8;
    let sources = Sources {
        clock: Box::new(|| jiff::Timestamp::UNIX_EPOCH),
        entropy: Box::new(move |bytes| {
            counter = counter.wrapping_add(1);
            bytes.fill(counter);
            Ok(())
        }),
    };
    let options = WriterOptions {
        threads: 1,
        ..WriterOptions::new("fuzz")
    };
    let vault = VaultKey::from_bytes([42; 32]);
    Writer::open(dir, Signer::from_seed(SEED), vault, sources, options)
}
