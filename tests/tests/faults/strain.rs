//! A life of a book in one thread: opening with a torn tail, calls with payloads over many segments, settling, an erasure, a new key,
//! a pruning, another book. Each step is done anew after a failure, by a writer opened anew. Knows nothing of how failures are made.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use countersign_book::{
    Actor, BookError, Call, CallId, Committed, Count, Draft, Effect, Era, Field, Hash, NewBook,
    Origin, Outcome, Payload, Signer, Signers, Sources, Status, VaultKey, Writer, WriterOptions,
    create, create_era,
};

/// Tries of a step, after which it is given up.
const TRIES: u32 = 4;

/// The process that left calls open.
const DEAD: &str = "dead";

pub const KEK: [u8; 32] = [42; 32];
const SEED: [u8; 32] = [41; 32];
const NEXT_SEED: [u8; 32] = [43; 32];

/// What a life says of itself, one line each.
pub type Say<'a> = &'a mut dyn FnMut(String);

/// The book of a folder.
pub fn book(dir: &Path) -> PathBuf {
    dir.join("book")
}

/// The other book, made at the end.
pub fn next_book(dir: &Path) -> PathBuf {
    dir.join("next")
}

/// A book with several segments, two open calls of a process that is gone, and after its end a batch whose last byte is missing: the
/// signature of a size that was never acknowledged.
pub fn prepare(dir: &Path) {
    let signer = Signer::from_seed(SEED);
    create(&book(dir), &new(3), &signer, &mut sources()).expect("a book");
    let mut writer = open(dir, DEAD, 0).expect("it opens");
    for n in 0..5 {
        writer.commit(vec![call(n, DEAD)]).expect("written");
        writer.commit(vec![outcome(n)]).expect("written");
    }
    writer
        .commit(vec![call(5, DEAD), call(6, DEAD)])
        .expect("written");
    writer.commit(vec![call(7, DEAD)]).expect("written");
    drop(writer);
    let last = segments(dir).pop().expect("a segment");
    let bytes = std::fs::read(&last).expect("read");
    std::fs::write(&last, &bytes[..bytes.len() - 1]).expect("cut");
}

/// The life. False when a step was given up.
pub fn live(dir: &Path, ahead: u64, say: Say<'_>) -> bool {
    let mut life = Life {
        dir,
        ahead,
        say,
        writer: None,
        called: 0,
    };
    life.all().is_some()
}

struct Life<'a> {
    dir: &'a Path,
    /// How far ahead of need the vault is written, in bytes.
    ahead: u64,
    say: Say<'a>,
    writer: Option<Writer>,
    /// The index of the last call, which is not pruned later.
    called: u64,
}

impl Life<'_> {
    fn all(&mut self) -> Option<()> {
        self.step("open", |_| Ok(Vec::new()))?;
        for n in 10..14 {
            self.step("call", |writer| {
                Ok(vec![writer.commit(vec![call(n, "p")])?])
            })?;
            self.step("outcome", |writer| {
                Ok(vec![writer.commit(vec![outcome(n)])?])
            })?;
        }
        self.step("settle", |writer| {
            writer
                .settle(&|process| process != DEAD)
                .map(|_| Vec::new())
        })?;
        let erased = self.called;
        self.step("erase", |writer| {
            writer
                .erase(erased, &[Field::Args], "a person asked", "test")
                .map(|_| Vec::new())
        })?;
        (self.say)(format!("erased {erased}"));
        self.step("rotate", |writer| {
            match writer.rotate_key(Signer::from_seed(NEXT_SEED), "planned") {
                Ok(committed) => Ok(vec![committed]),
                // It reached the disk before the failure.
                Err(BookError::SameKey) => Ok(Vec::new()),
                Err(error) => Err(error),
            }
        })?;
        for n in 20..22 {
            self.step("call", |writer| {
                Ok(vec![writer.commit(vec![call(n, "p")])?])
            })?;
        }
        self.step("prune", |writer| {
            writer.prune(8, "retention", "test").map(|_| Vec::new())
        })?;
        self.step("last", |writer| {
            Ok(vec![writer.commit(vec![outcome(20), outcome(21)])?])
        })?;
        self.writer = None;
        self.another()
    }

    /// Does a step until it succeeds; what it committed is said.
    fn step(
        &mut self,
        name: &str,
        act: impl Fn(&mut Writer) -> Result<Vec<Committed>, BookError>,
    ) -> Option<()> {
        for _ in 0..TRIES {
            let done = match self.writer.take() {
                Some(writer) => Ok(writer),
                None => open(self.dir, "p", self.ahead),
            };
            let done = done.and_then(|mut writer| Ok((act(&mut writer)?, writer)));
            match done {
                Ok((committed, writer)) => {
                    self.writer = Some(writer);
                    for batch in committed {
                        for entry in &batch.entries {
                            if name == "call" {
                                self.called = entry.index;
                            }
                            (self.say)(format!("entry {} {}", entry.index, entry.leaf));
                        }
                        (self.say)(format!("head {} {}", batch.size, batch.root));
                    }
                    return Some(());
                }
                // The writer that failed is gone, and with it its descriptors.
                Err(error) => (self.say)(format!("failed {name}: {error}")),
            }
        }
        (self.say)(format!("gave up {name}"));
        None
    }

    fn another(&mut self) -> Option<()> {
        for _ in 0..TRIES {
            let era = Era {
                origin: Origin::from_id([3; 16]),
                checkpoint: String::new(),
                reason: "test".into(),
            };
            let signer = Signer::from_seed(NEXT_SEED);
            match create_era(&next_book(self.dir), &new(4), &era, &signer, &mut sources()) {
                Ok(()) => return Some(()),
                Err(error) => (self.say)(format!("failed create: {error}")),
            }
            // A part of a book holds no entry anybody saw.
            let _ = std::fs::remove_dir_all(next_book(self.dir));
        }
        (self.say)("gave up create".into());
        None
    }
}

/// The journal's segments, oldest first.
pub fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(book(dir).join("journal"))
        .expect("a journal")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    found.sort();
    found
}

/// The leaf hash of a line.
pub fn leaf(line: &str) -> Hash {
    countersign_book::leaf_hash(line.as_bytes())
}

/// Opens the book as a process of that name, with small segments and both keys at hand.
pub fn open(dir: &Path, process: &str, ahead: u64) -> Result<Writer, BookError> {
    let signers = Signers::new(vec![Signer::from_seed(SEED), Signer::from_seed(NEXT_SEED)]);
    let options = WriterOptions {
        segment_bytes: 1_500,
        vault_segment_bytes: 2_500,
        vault_ahead_bytes: ahead,
        threads: 1,
        ..WriterOptions::new(process)
    };
    let vault = VaultKey::from_bytes(KEK);
    Writer::open(&book(dir), signers, vault, sources(), options)
}

fn new(id: u8) -> NewBook {
    NewBook {
        origin: Origin::from_id([id; 16]),
        development: true,
        name: None,
        program: None,
        process: "init".into(),
    }
}

/// A clock and bytes that are the same in every run, so that every run makes the same system calls.
fn sources() -> Sources {
    static TIME: AtomicI64 = AtomicI64::new(1_796_000_000_000);
    static BYTES: AtomicI64 = AtomicI64::new(1);
    let tick = || TIME.fetch_add(7, Ordering::SeqCst);
    Sources {
        clock: Box::new(move || {
            jiff::Timestamp::from_millisecond(tick()).expect("a time within range")
        }),
        entropy: Box::new(|bytes| {
            for chunk in bytes.chunks_mut(8) {
                let next = BYTES.fetch_add(0x5DEE_CE66_D34B_2F61, Ordering::SeqCst);
                chunk.copy_from_slice(&next.to_le_bytes()[..chunk.len()]);
            }
            Ok(())
        }),
    }
}

fn id(n: u64) -> CallId {
    CallId::parse(&format!("01ARZ3NDEKTSV4RRFFQ69{n:05}")).expect("an id")
}

fn call(n: u64, process: &str) -> Draft {
    let body = Call {
        actor: Actor::Agent,
        agent: Some("claude".into()),
        approval: None,
        args: None,
        call: id(n),
        client: None,
        confirmation: None,
        def: None,
        effect: Effect::Write,
        key: None,
        permission: None,
        process: process.into(),
        purpose: None,
        request: Some(n.to_string()),
        rows: Some(Count(1)),
        sent: None,
        server: "files".into(),
        session: None,
        tool: "write_file".into(),
        turn: None,
        via: "stdio".into(),
    };
    Draft::new(body).with(
        Field::Args,
        Payload::new(format!("{{\"n\":{n}}}").into_bytes()),
    )
}

fn outcome(n: u64) -> Draft {
    Draft::new(Outcome::new(id(n), Status::Ok)).with(Field::Result, Payload::new(vec![b'x'; 300]))
}
