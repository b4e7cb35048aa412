//! The writer against crashes, other writers and hands in its files.

mod acts;
mod prepared;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use crate::finding::{FindingKind, Verdict};
use crate::journal::layout::Layout;
use crate::verify::{PayloadCheck, Report, VerifyOptions, verify};
use crate::{
    Actor, Body, BookError, Call, CallId, Count, Draft, Effect, Field, Listing, NewBook, Order,
    Origin, Outcome, Payload, Reader, Signer, Sources, Status, VaultKey, Writer, WriterOptions,
    create,
};

pub(crate) const SEED: [u8; 32] = [41; 32];
pub(crate) const KEK: [u8; 32] = [42; 32];

/// The seed whose clock starts at the same moment each time.
pub(crate) const STEADY: u64 = 77;
const START: i64 = 1_796_000_000_000;

pub(crate) struct Folder {
    _dir: tempfile::TempDir,
    pub book: PathBuf,
}

pub(crate) fn sources(seed: u64) -> Sources {
    // A counter through SHA-256: distinct and repeatable.
    let mut counter = 0u64;
    // One clock for every writer, so that none finds it behind the entry of another; and one of its own for the bytes of the
    // format's vectors.
    static TIME: AtomicI64 = AtomicI64::new(START + 1_000);
    let mut own = START;
    let mut tick = move || {
        own += 7;
        match seed {
            STEADY => own,
            _ => TIME.fetch_add(7, Ordering::SeqCst),
        }
    };
    Sources {
        clock: Box::new(move || jiff::Timestamp::from_millisecond(tick()).unwrap()),
        entropy: Box::new(move |bytes| {
            for chunk in bytes.chunks_mut(32) {
                counter += 1;
                let hash = crate::Hash::of(&[seed.to_be_bytes(), counter.to_be_bytes()].concat());
                chunk.copy_from_slice(&hash.0[..chunk.len()]);
            }
            Ok(())
        }),
    }
}

/// A folder in memory where the system has one: thousands of syncs need no disk.
fn memory_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

pub(crate) fn folder() -> Folder {
    folder_in(memory_dir())
}

/// A folder on a disk, as far as the system's temporary folder is on one.
pub(crate) fn disk_folder() -> Folder {
    folder_in(tempfile::tempdir().unwrap())
}

fn folder_in(dir: tempfile::TempDir) -> Folder {
    let book = dir.path().join("book");
    let new = NewBook {
        origin: Origin::from_id([3; 16]),
        development: true,
        name: Some("test".into()),
        program: None,
        process: "init".into(),
    };
    create(&book, &new, &Signer::from_seed(SEED), &mut sources(STEADY)).unwrap();
    Folder { _dir: dir, book }
}

pub(crate) fn options(process: &str) -> WriterOptions {
    WriterOptions {
        threads: 1,
        ..WriterOptions::new(process)
    }
}

pub(crate) fn open_with(
    book: &Path,
    seed: u64,
    options: WriterOptions,
) -> Result<Writer, BookError> {
    Writer::open(
        book,
        Signer::from_seed(SEED),
        VaultKey::from_bytes(KEK),
        sources(seed),
        options,
    )
}

fn open(book: &Path, process: &str) -> Writer {
    open_with(book, process.bytes().map(u64::from).sum(), options(process)).unwrap()
}

pub(crate) fn id(n: u64) -> CallId {
    const ALPHABET: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let text: String = (0..13)
        .rev()
        .map(|i| char::from(ALPHABET[(n >> (5 * i) & 31) as usize]))
        .collect();
    CallId::parse(&format!("01ARZ3NDEKTSV{text}")).unwrap()
}

pub(crate) fn call(n: u64, process: &str) -> Call {
    Call {
        actor: Actor::Agent,
        agent: Some("claude-desktop".into()),
        approval: None,
        args: None,
        call: id(n),
        client: None,
        confirmation: None,
        def: None,
        effect: Effect::Write,
        key: Some("csk_ab12cd34".into()),
        permission: None,
        process: process.into(),
        purpose: None,
        request: Some(n.to_string()),
        rows: Some(Count(1)),
        sent: None,
        server: "files".into(),
        session: None,
        turn: None,
        tool: "write_file".into(),
        via: "stdio".into(),
    }
}

pub(crate) fn draft(n: u64, process: &str) -> Draft {
    let bytes = format!("{{\"path\":\"canary-{n}\",\"content\":\"Iñtërnâtiônàl\"}}").into_bytes();
    Draft::new(call(n, process)).with(Field::Args, Payload::new(bytes))
}

pub(crate) fn outcome(n: u64) -> Draft {
    Draft::new(Outcome::new(id(n), Status::Ok))
        .with(Field::Result, Payload::new(format!("result-canary-{n}")))
}

pub(crate) fn check(book: &Path) -> Report {
    verify(
        book,
        &VerifyOptions {
            threads: 1,
            ..VerifyOptions::default()
        },
    )
    .unwrap()
}

fn segment(book: &Path) -> PathBuf {
    let layout = Layout::new(book);
    layout.segment(*layout.segments().unwrap().last().unwrap())
}

fn kinds(book: &Path) -> Vec<String> {
    let listing = Listing {
        from: None,
        limit: 10_000,
        order: Order::OldestFirst,
    };
    Reader::open(book)
        .unwrap()
        .list(listing)
        .unwrap()
        .into_iter()
        .map(|entry| entry.kind)
        .collect()
}

#[test]
fn a_batch_is_signed_verified_and_read_back() {
    let folder = folder();
    let mut writer = open(&folder.book, "p1");
    assert_eq!(writer.recovery(), None);
    let committed = writer.commit(vec![draft(1, "p1"), draft(2, "p1")]).unwrap();
    assert_eq!(
        (
            committed.size,
            committed.entries[0].index,
            committed.entries[1].index
        ),
        (3, 1, 2)
    );
    assert_eq!(writer.open_calls().len(), 2);
    writer.commit(vec![outcome(1)]).unwrap();
    let report = check(&folder.book);
    assert_eq!(report.verdict(), Verdict::Ok, "{:?}", report.findings);
    assert_eq!(
        (
            report.size,
            report.checkpoints,
            report.open_calls,
            report.payloads
        ),
        (4, 3, 1, 3)
    );
    assert!(
        report.sentence().contains("no independent reference"),
        "b54"
    );

    let reader = Reader::open(&folder.book).unwrap();
    let key = VaultKey::from_bytes(KEK);
    assert!(
        reader
            .payload(&key, 1, Field::Args)
            .unwrap()
            .starts_with(b"{\"path\":\"canary-1\"")
    );
    assert_eq!(
        reader.payload(&key, 3, Field::Result).unwrap(),
        b"result-canary-1"
    );
    assert!(matches!(
        reader.payload(&key, 3, Field::Args),
        Err(BookError::NotFound(_))
    ));
    assert!(matches!(
        reader.payload(&VaultKey::from_bytes([1; 32]), 3, Field::Result),
        Err(BookError::Vault { .. })
    ));
    let shown = reader.show(2).unwrap().unwrap();
    assert_eq!((shown.entry.index, shown.line), (2, 5));
    assert!(matches!(shown.entry.body, Some(Body::Call(_))));
    assert!(reader.show(4).unwrap().is_none());
    let newest = |from, limit| {
        let list = reader
            .list(Listing {
                from,
                limit,
                order: Order::NewestFirst,
            })
            .unwrap();
        list.into_iter()
            .map(|entry| entry.index)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (newest(None, 3), newest(Some(1), 9)),
        (vec![3, 2, 1], vec![1, 0])
    );
}

#[test]
fn b36_no_payload_byte_is_readable_in_any_file() {
    fn scan(dir: &Path, files: &mut usize) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                scan(&path, files);
            } else {
                *files += 1;
                let bytes = std::fs::read(&path).unwrap();
                for canary in [&b"canary"[..], &SEED, &KEK] {
                    assert!(
                        !bytes.windows(canary.len()).any(|w| w == canary),
                        "{path:?}"
                    );
                }
            }
        }
    }
    let folder = folder();
    let mut writer = open(&folder.book, "p1");
    writer.commit(vec![draft(1, "p1"), outcome(1)]).unwrap();
    let mut files = 0;
    scan(&folder.book, &mut files);
    assert!(files >= 4);
}

#[test]
fn b37_the_same_value_twice_gives_two_commitments() {
    let folder = folder();
    let mut writer = open(&folder.book, "p1");
    let same = |n| Draft::new(call(n, "p1")).with(Field::Args, Payload::new("{}"));
    writer.commit(vec![same(1), same(2)]).unwrap();
    let reader = Reader::open(&folder.book).unwrap();
    let commitment = |index| match reader.show(index).unwrap().unwrap().entry.body {
        Some(Body::Call(call)) => call.args.unwrap(),
        other => panic!("{other:?}"),
    };
    assert_ne!(commitment(1).c, commitment(2).c);
}

#[test]
fn digest_and_long_payloads_leave_only_a_commitment() {
    for (payloads, keep) in [
        (crate::Payloads::Digest, crate::Keep::None),
        (crate::Payloads::Keep { limit: 10 }, crate::Keep::TooLarge),
    ] {
        let folder = folder();
        let mut writer = open_with(
            &folder.book,
            1,
            WriterOptions {
                payloads,
                ..options("p1")
            },
        )
        .unwrap();
        writer.commit(vec![draft(1, "p1")]).unwrap();
        let Some(Body::Call(call)) = Reader::open(&folder.book)
            .unwrap()
            .show(1)
            .unwrap()
            .unwrap()
            .entry
            .body
        else {
            panic!()
        };
        let args = call.args.unwrap();
        assert_eq!((args.keep, args.at), (Some(keep), None));
        assert!(args.n.0 > 10);
        assert_eq!(check(&folder.book).verdict(), Verdict::Ok);
    }
}

#[test]
fn b7_an_entry_that_is_too_long_is_refused_before_anything_happens() {
    let folder = folder();
    let mut writer = open(&folder.book, "p1");
    let before = std::fs::read(segment(&folder.book)).unwrap();
    let mut long = call(1, "p1");
    long.request = Some("\"".repeat(9000));
    let batch = vec![draft(7, "p1"), Draft::new(long.clone())];
    assert!(matches!(
        writer.commit(batch),
        Err(BookError::Entry(crate::EntryError::TooLong { .. }))
    ));
    assert!(matches!(
        writer.commit(Vec::new()),
        Err(BookError::Entry(crate::EntryError::BatchSize { .. }))
    ));
    let misplaced =
        Draft::new(Outcome::new(id(1), Status::Ok)).with(Field::Args, Payload::new("x"));
    assert!(matches!(
        writer.commit(vec![misplaced]),
        Err(BookError::Entry(_))
    ));
    assert_eq!(std::fs::read(segment(&folder.book)).unwrap(), before);
    // The writer is not poisoned by a refusal; the longest entry that fits is written.
    long.request = Some("\"".repeat(7800));
    writer.commit(vec![Draft::new(long)]).unwrap();
    assert_eq!(check(&folder.book).verdict(), Verdict::Ok);
}

/// Writes three batches and answers the segment's bytes and the offsets after each.
fn three_batches(folder: &Folder) -> (Vec<u8>, Vec<usize>) {
    let mut writer = open(&folder.book, "p1");
    let mut ends = Vec::new();
    for n in 0..3 {
        writer.commit(vec![draft(n, "p1"), outcome(n)]).unwrap();
        ends.push(std::fs::metadata(segment(&folder.book)).unwrap().len() as usize);
    }
    (std::fs::read(segment(&folder.book)).unwrap(), ends)
}

/// Opens the book after its segment's bytes were replaced, and checks what R1 asks for.
fn recovers(folder: &Folder, bytes: &[u8], good: usize, what: &str) {
    let path = segment(&folder.book);
    std::fs::write(&path, bytes).unwrap();
    let _ = std::fs::remove_dir_all(folder.book.join("quarantine"));
    let before = check(&folder.book);
    let writer =
        open_with(&folder.book, 9, options("p2")).unwrap_or_else(|error| panic!("{what}: {error}"));
    let tail = &bytes[good..];
    let after = std::fs::read(&path).unwrap();
    assert_eq!(after[..good], bytes[..good], "{what}");
    if tail.is_empty() {
        assert_eq!(
            (writer.recovery(), before.verdict()),
            (None, Verdict::Ok),
            "{what}"
        );
        assert_eq!(after, bytes, "{what}");
        return;
    }
    assert_eq!(
        before.verdict(),
        Verdict::UnsignedTail,
        "{what} {:?}",
        before.findings
    );
    let recovery = writer.recovery().unwrap_or_else(|| panic!("{what}"));
    assert_eq!(recovery.bytes, tail.len() as u64, "{what}");
    let kept = std::fs::read(
        folder
            .book
            .join("quarantine")
            .join(recovery.file.as_ref().unwrap()),
    )
    .unwrap();
    assert_eq!(kept, tail, "{what}");
    assert!(!folder.book.join("quarantine/pending").exists());
    let report = check(&folder.book);
    assert_eq!(
        report.verdict(),
        Verdict::Ok,
        "{what} {:?}",
        report.findings
    );
    assert!(
        kinds(&folder.book)[before.size as usize..].starts_with(&["book.recovered".to_owned()]),
        "{what}"
    );
}

#[test]
fn b22_the_tail_cut_at_every_byte_of_the_last_two_batches() {
    let folder = folder();
    let (bytes, ends) = three_batches(&folder);
    for cut in ends[0]..=bytes.len() {
        let good = ends.iter().rev().find(|end| **end <= cut).copied().unwrap();
        recovers(&folder, &bytes[..cut], good, &format!("cut at {cut}"));
    }
}

#[test]
fn b23_zero_filled_duplicated_and_garbage_tails() {
    let folder = folder();
    let (bytes, ends) = three_batches(&folder);
    let last_cp = bytes[..bytes.len() - 1]
        .iter()
        .rposition(|b| *b == b'\n')
        .unwrap()
        + 1;
    for (what, tail) in [
        ("zeros", vec![0; 700]),
        ("duplicate of the last batch", bytes[ends[1]..].to_vec()),
        ("duplicate of two batches", bytes[ends[0]..].to_vec()),
        ("duplicate of the checkpoint", bytes[last_cp..].to_vec()),
        (
            "garbage",
            (0..9000u32)
                .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
                .collect(),
        ),
        ("line feeds", vec![b'\n'; 30]),
        ("a line that is not an entry", b"{\"i\":7}\n".to_vec()),
        ("a very long line", vec![b'x'; 5 << 20]),
        ("a segment line", bytes[..100].to_vec()),
    ] {
        recovers(&folder, &[&bytes[..], &tail].concat(), bytes.len(), what);
    }
}

#[test]
fn b23_a_sector_of_the_last_batch_that_was_never_written() {
    let folder = folder();
    let (bytes, ends) = three_batches(&folder);
    let mut torn = bytes.clone();
    let sector = (ends[1] / 512 + 1) * 512;
    assert!(sector + 512 < bytes.len());
    torn[sector..sector + 512].fill(0);
    recovers(&folder, &torn, ends[1], "zero sector");
    // The lost checkpoint was signed: no other tree of its size or below is.
    let all = kinds(&folder.book);
    assert_eq!(all[5..], ["book.recovered", "gap", "gap"]);
}

#[test]
fn b24_a_well_formed_unsigned_line_is_never_signed() {
    let folder = folder();
    let (bytes, _) = three_batches(&folder);
    let Some(Body::Call(forged)) = Reader::open(&folder.book)
        .unwrap()
        .show(5)
        .unwrap()
        .unwrap()
        .entry
        .body
    else {
        panic!()
    };
    let last = Reader::open(&folder.book)
        .unwrap()
        .show(6)
        .unwrap()
        .unwrap()
        .entry
        .leaf;
    let line = crate::entry::line(&forged.into(), 7, last, "2026-11-30T17:00:00.000Z").unwrap();
    recovers(
        &folder,
        &[&bytes[..], &line, b"\n"].concat(),
        bytes.len(),
        "forged line",
    );
    assert_eq!(kinds(&folder.book)[7..], ["book.recovered"]);
}

#[test]
fn b25_one_flipped_byte_before_the_last_checkpoint_is_damage() {
    let folder = folder();
    let (bytes, ends) = three_batches(&folder);
    let path = segment(&folder.book);
    let last_cp = bytes[..bytes.len() - 1]
        .iter()
        .rposition(|b| *b == b'\n')
        .unwrap()
        + 1;
    // Every byte of the second batch, and every seventh elsewhere.
    let places = (0..last_cp).filter(|at| (ends[0]..ends[1]).contains(at) || at % 7 == 0);
    for at in places {
        let mut changed = bytes.clone();
        changed[at] ^= 0x01;
        std::fs::write(&path, &changed).unwrap();
        match open_with(&folder.book, 9, options("p2")).map(|_| ()) {
            Err(BookError::Damaged(damage)) => {
                assert_eq!(damage.file, path);
                // A change within an entry is named exactly; one of a line feed, of `prev` or of a
                // checkpoint within the batch.
                let line = bytes[..at].iter().filter(|b| **b == b'\n').count() as u64 + 1;
                let start = bytes[..at]
                    .iter()
                    .rposition(|b| *b == b'\n')
                    .map_or(0, |at| at + 1);
                let text = bytes[start..].split(|b| *b == b'\n').next().unwrap();
                let prev = text.windows(8).position(|w| w == b"\"prev\":\"");
                let prev = prev.map_or(0..0, |at| at..at + 90);
                let feed = bytes[at] == b'\n' || changed[at] == b'\n';
                if text.starts_with(b"{") && !feed && at != start && !prev.contains(&(at - start)) {
                    assert_eq!(damage.line, line, "byte {at}: {damage}");
                }
                assert!(
                    (line..=line + 3).contains(&damage.line),
                    "byte {at} of line {line}: {damage}"
                );
            }
            // The version of the first line, or a key named in it.
            Err(BookError::Newer { .. }) if at < 900 => {}
            other => panic!("byte {at}: {other:?}"),
        }
        assert_eq!(std::fs::read(&path).unwrap(), changed, "byte {at}");
        let report = check(&folder.book);
        assert!(
            matches!(report.verdict(), Verdict::Changed | Verdict::Unverifiable),
            "{at} {:?}",
            report.findings
        );
        let place = &report.findings[0];
        assert_eq!(place.file, path);
    }
    assert!(
        !folder
            .book
            .join("quarantine")
            .read_dir()
            .is_ok_and(|mut dir| dir.next().is_some())
    );
}

#[test]
fn b30_a_dead_process_is_settled_exactly_once() {
    let folder = folder();
    let mut dead = open(&folder.book, "dead");
    dead.commit(vec![draft(1, "dead"), draft(2, "dead"), outcome(2)])
        .unwrap();
    let mut one = open(&folder.book, "one");
    one.commit(vec![draft(3, "one")]).unwrap();
    let mut two = open(&folder.book, "two");
    let alive = |process: &str| process != "dead";
    let settled: Vec<_> = [
        one.settle(&alive).unwrap(),
        two.settle(&alive).unwrap(),
        one.settle(&alive).unwrap(),
    ]
    .into_iter()
    .map(|calls| calls.into_iter().map(|call| call.call).collect::<Vec<_>>())
    .collect();
    assert_eq!(settled, [vec![id(1)], vec![], vec![]]);
    let entry = Reader::open(&folder.book)
        .unwrap()
        .show(5)
        .unwrap()
        .unwrap()
        .entry;
    let Some(Body::Outcome(outcome)) = entry.body else {
        panic!("{}", entry.line)
    };
    assert_eq!(
        (outcome.call, outcome.status, outcome.settled.as_deref()),
        (id(1), Status::Unknown, Some("one"))
    );
    assert_eq!(two.open_calls().len(), 1);
}

#[test]
fn b33_a_size_is_never_signed_with_two_roots() {
    let folder = folder();
    let (bytes, ends) = three_batches(&folder);
    // The last batch lies there but for its last line feed: its checkpoint of 7 entries is signed.
    recovers(&folder, &bytes[..bytes.len() - 1], ends[1], "cut");
    let report = check(&folder.book);
    assert_eq!(report.size, 8, "the next signed size is beyond 7");
    // Signed sizes of the whole history: those in the journal, and 7 in quarantine.
    let journal = std::fs::read_to_string(segment(&folder.book)).unwrap();
    let sizes: Vec<u64> = journal
        .lines()
        .filter_map(|line| line.strip_prefix("#cp "))
        .map(|cp| {
            crate::journal::chain::read_checkpoint(cp.as_bytes())
                .unwrap()
                .1
                .size
        })
        .collect();
    assert_eq!(sizes, [1, 3, 5, 8]);
}

#[test]
fn a_crash_between_setting_aside_and_recording_loses_no_record() {
    let folder = folder();
    let (bytes, ends) = three_batches(&folder);
    std::fs::create_dir_all(folder.book.join("quarantine")).unwrap();
    // Copied and cut, but not recorded.
    std::fs::write(
        folder.book.join("quarantine/pending"),
        &bytes[ends[1]..ends[1] + 50],
    )
    .unwrap();
    std::fs::write(segment(&folder.book), &bytes[..ends[1]]).unwrap();
    let mut writer = open(&folder.book, "p2");
    assert_eq!(writer.recovery().unwrap().bytes, 50);
    // A writer that was open all the while records it too, before its own batch.
    std::fs::write(folder.book.join("quarantine/pending"), b"left").unwrap();
    let committed = writer.commit(vec![draft(8, "p2")]).unwrap();
    assert_eq!(committed.recovery.unwrap().bytes, 4);
    assert_eq!(
        kinds(&folder.book)[5..],
        ["book.recovered", "book.recovered", "call"]
    );
    // Copied, not cut: the same bytes are not set aside twice.
    let tail = b"{\"torn";
    let now = std::fs::read(segment(&folder.book)).unwrap();
    std::fs::write(segment(&folder.book), [&now[..], tail].concat()).unwrap();
    std::fs::write(folder.book.join("quarantine/pending"), tail).unwrap();
    assert_eq!(
        open(&folder.book, "p3").recovery().unwrap().bytes,
        tail.len() as u64
    );
    assert_eq!(check(&folder.book).verdict(), Verdict::Ok);
}

#[test]
fn a_torn_tail_of_another_process_is_set_aside_by_the_next_committer() {
    let folder = folder();
    let mut writer = open(&folder.book, "p1");
    writer.commit(vec![draft(1, "p1")]).unwrap();
    let mut other = open(&folder.book, "p2");
    other.commit(vec![draft(2, "p2")]).unwrap();
    let bytes = std::fs::read(segment(&folder.book)).unwrap();
    std::fs::write(segment(&folder.book), [&bytes[..], b"{\"actor\":"].concat()).unwrap();
    let committed = writer.commit(vec![outcome(1)]).unwrap();
    assert_eq!(committed.recovery.unwrap().bytes, 9);
    assert_eq!(
        kinds(&folder.book),
        ["book.open", "call", "call", "book.recovered", "outcome"]
    );
    other.commit(vec![outcome(2)]).unwrap();
    assert_eq!(check(&folder.book).verdict(), Verdict::Ok);
}

#[test]
fn a_payload_that_did_not_reach_the_disk_is_recorded_once() {
    for zeros in [true, false] {
        let folder = folder();
        let mut writer = open(&folder.book, "p1");
        writer.commit(vec![draft(1, "p1")]).unwrap();
        let vault = Layout::new(&folder.book).vault_segment(0);
        let before = std::fs::metadata(&vault).unwrap().len() as usize;
        writer.commit(vec![draft(2, "p1"), outcome(2)]).unwrap();
        drop(writer);
        let mut bytes = std::fs::read(&vault).unwrap();
        if zeros {
            bytes[before..].fill(0)
        } else {
            bytes.truncate(before)
        }
        std::fs::write(&vault, bytes).unwrap();
        let lost = check(&folder.book);
        assert_eq!(
            (lost.verdict(), lost.findings.len()),
            (Verdict::PayloadMissing, 2)
        );

        let mut writer = open(&folder.book, "p2");
        assert_eq!(writer.recovery().unwrap().missing, 2);
        writer.commit(vec![draft(3, "p2")]).unwrap();
        assert_eq!(open(&folder.book, "p3").recovery(), None);
        let report = check(&folder.book);
        assert_eq!(report.verdict(), Verdict::Ok, "{:?}", report.findings);
        assert!(
            report
                .findings
                .iter()
                .all(|finding| finding.kind == FindingKind::PayloadAbsentOnRecord)
        );
        assert_eq!(report.findings.len(), 2);
    }
}

#[test]
fn a_vault_that_is_not_there_is_a_finding_of_its_own() {
    let folder = folder();
    let mut writer = open(&folder.book, "p1");
    writer.commit(vec![draft(1, "p1")]).unwrap();
    std::fs::remove_dir_all(folder.book.join("vault")).unwrap();
    let report = check(&folder.book);
    assert_eq!(
        (report.verdict(), report.verdict().exit_code()),
        (Verdict::PayloadMissing, 30)
    );
    let skip = VerifyOptions {
        payloads: PayloadCheck::Skip,
        ..VerifyOptions::default()
    };
    assert_eq!(verify(&folder.book, &skip).unwrap().verdict(), Verdict::Ok);
}

#[test]
fn b29_wrong_keys_are_refused_and_none_is_made() {
    let folder = folder();
    open(&folder.book, "p1")
        .commit(vec![draft(1, "p1")])
        .unwrap();
    let open = |seed, kek| {
        Writer::open(
            &folder.book,
            Signer::from_seed(seed),
            VaultKey::from_bytes(kek),
            sources(5),
            options("p2"),
        )
        .map(|_| ())
    };
    assert!(matches!(
        open([1; 32], KEK),
        Err(BookError::WrongKey { .. })
    ));
    assert!(matches!(open(SEED, [1; 32]), Err(BookError::WrongVaultKey)));
    assert!(open(SEED, KEK).is_ok());
}

#[test]
fn segments_rotate_and_every_writer_follows() {
    let folder = folder();
    let small = |process: &str| WriterOptions {
        segment_bytes: 1500,
        vault_segment_bytes: 900,
        ..options(process)
    };
    let mut writers: Vec<Writer> = (0..3)
        .map(|n| open_with(&folder.book, n, small(&format!("p{n}"))).unwrap())
        .collect();
    for n in 0..30u64 {
        let writer = &mut writers[n as usize % 3];
        writer
            .commit(vec![draft(n, &format!("p{}", n % 3))])
            .unwrap();
        if n % 2 == 0 {
            writer.commit(vec![outcome(n)]).unwrap();
        }
    }
    drop(writers);
    let layout = Layout::new(&folder.book);
    let segments = layout.segments().unwrap();
    assert!(segments.len() > 5, "{segments:?}");
    let report = check(&folder.book);
    assert_eq!(report.verdict(), Verdict::Ok, "{:?}", report.findings);
    assert_eq!(
        (report.size, report.open_calls, report.segments),
        (46, 15, segments.len() as u64)
    );
    // Opened from its last segment alone, a writer knows the open calls of all.
    let mut writer = open_with(&folder.book, 7, small("p9")).unwrap();
    assert_eq!(writer.open_calls().len(), 15);
    assert_eq!(writer.settle(&|_| false).unwrap().len(), 15);
    drop(writer);

    // b27: a missing middle segment; and a first line that states other open calls.
    let path = layout.segment(segments[2]);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let report = check(&folder.book);
    assert_eq!(
        (report.findings[0].kind, report.size),
        (FindingKind::Removed, segments[2])
    );
    assert!(
        report.findings[0]
            .what
            .contains(&format!("{} to {}", segments[2], segments[3] - 1))
    );
    let text = String::from_utf8(bytes).unwrap();
    let changed = text.replacen("\"process\":\"p1\"", "\"process\":\"p8\"", 1);
    assert_ne!(text, changed);
    std::fs::write(&path, changed).unwrap();
    let report = check(&folder.book);
    assert_eq!(
        (report.findings[0].kind, report.findings[0].line),
        (FindingKind::Changed, 1)
    );
}

#[test]
fn b17_many_callers_share_batches_and_lose_nothing() {
    let folder = folder();
    let writers: Vec<_> = (0..4)
        .map(|n| Arc::new(Mutex::new(open(&folder.book, &format!("p{n}")))))
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..16u64 {
            let writer = Arc::clone(&writers[thread as usize % 4]);
            scope.spawn(move || {
                for n in 0..6 {
                    writer
                        .lock()
                        .unwrap()
                        .commit(vec![draft(thread * 100 + n, "p")])
                        .unwrap();
                }
            });
        }
    });
    let report = check(&folder.book);
    assert_eq!(
        (report.verdict(), report.size, report.open_calls),
        (Verdict::Ok, 97, 96),
        "{:?}",
        report.findings
    );
}

#[test]
fn b15_a_failed_write_poisons_the_writer() {
    let folder = folder();
    let mut writer = open(&folder.book, "p1");
    writer.commit(vec![draft(1, "p1")]).unwrap();
    // A descriptor that can't be written to stands for a disk that fails.
    let known = |file| crate::files::Known::new(file, &segment(&folder.book)).unwrap();
    writer.journal = known(std::fs::File::open(segment(&folder.book)).unwrap());
    assert!(matches!(
        writer.commit(vec![draft(2, "p1")]),
        Err(BookError::Io { .. })
    ));
    let journal = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(segment(&folder.book))
        .unwrap();
    writer.journal = known(journal);
    assert!(matches!(
        writer.commit(vec![draft(3, "p1")]),
        Err(BookError::Poisoned { .. })
    ));
    assert!(matches!(
        writer.settle(&|_| true),
        Err(BookError::Poisoned { .. })
    ));
    assert!(writer.poisoned().is_some());
    let mut again = open(&folder.book, "p1");
    assert_eq!(again.commit(vec![draft(3, "p1")]).unwrap().size, 3);
}

#[test]
fn a_journal_cut_under_an_open_writer_is_damage() {
    let folder = folder();
    let (bytes, ends) = three_batches(&folder);
    let mut writer = open(&folder.book, "p2");
    std::fs::write(segment(&folder.book), &bytes[..ends[1]]).unwrap();
    assert!(matches!(
        writer.commit(vec![draft(9, "p2")]),
        Err(BookError::Damaged(_))
    ));
    assert_eq!(
        std::fs::read(segment(&folder.book)).unwrap(),
        &bytes[..ends[1]]
    );
}

#[test]
fn a_pinned_key_is_a_reference_and_another_book_is_replaced() {
    let folder = folder();
    let pin = |seed| {
        let vkey = Signer::from_seed(seed).vkey(&Origin::from_id([3; 16]));
        verify(
            &folder.book,
            &VerifyOptions {
                pinned: Some(vkey),
                ..VerifyOptions::default()
            },
        )
        .unwrap()
    };
    let report = pin(SEED);
    assert_eq!(report.verdict(), Verdict::Ok);
    assert!(!report.sentence().contains("no independent reference"));
    assert_eq!(pin([1; 32]).verdict().exit_code(), 35);
}

#[test]
fn a_book_is_never_made_over_another() {
    let folder = folder();
    let new = NewBook {
        origin: Origin::from_id([4; 16]),
        development: false,
        name: None,
        program: None,
        process: "init".into(),
    };
    let again = create(
        &folder.book,
        &new,
        &Signer::from_seed([1; 32]),
        &mut sources(0),
    );
    assert!(matches!(again, Err(BookError::Exists { .. })));
    std::fs::write(folder.book.join("BOOK"), "countersign book 2\n").unwrap();
    assert!(matches!(
        open_with(&folder.book, 1, options("p")).map(|_| ()),
        Err(BookError::Newer { .. })
    ));
    assert!(matches!(
        verify(&folder.book, &VerifyOptions::default()),
        Err(BookError::Newer { .. })
    ));
}

#[test]
fn unknown_versions_and_kinds_are_hashed_and_counted() {
    let folder = folder();
    drop(open(&folder.book, "p1"));
    let path = segment(&folder.book);
    let bytes = std::fs::read(&path).unwrap();
    // A newer writer's batch, signed with the same key.
    let signer = Signer::from_seed(SEED);
    let origin = Origin::from_id([3; 16]);
    let vkey = signer.vkey(&origin);
    let mut chain = crate::journal::chain::Chain::new(origin, vkey.clone());
    let genesis = bytes.split(|b| *b == b'\n').nth(1).unwrap();
    chain.leaf(genesis).unwrap();
    let mut batch = Vec::new();
    for (before, after, version) in [
        ("", "\"k\":\"call\",\"new\":{\"deep\":[15]}", 2),
        ("\"call\":7,", "\"k\":\"dance\"", 1),
    ] {
        let line = format!(
            "{{{before}\"i\":{},{after},\"prev\":\"{}\",\"ts\":\"1970-01-01T00:00:00.000Z\",\"v\":{version}}}",
            chain.next(),
            chain.last()
        );
        chain.leaf(line.as_bytes()).unwrap();
        batch.extend_from_slice(line.as_bytes());
        batch.push(b'\n');
    }
    let checkpoint = crate::Checkpoint {
        origin: chain.origin.to_string(),
        size: 3,
        root: chain.next_root(),
    };
    let note = crate::note::sign(&checkpoint.text(), &[(&vkey, &signer)]);
    batch.extend_from_slice(
        format!("#cp {}\n", data_encoding::BASE64.encode(note.as_bytes())).as_bytes(),
    );
    std::fs::write(&path, [bytes, batch].concat()).unwrap();

    let report = check(&folder.book);
    assert_eq!(
        (report.verdict(), report.size, report.not_understood),
        (Verdict::Ok, 3, 2),
        "{:?}",
        report.findings
    );
    assert!(
        Reader::open(&folder.book)
            .unwrap()
            .show(1)
            .unwrap()
            .unwrap()
            .entry
            .body
            .is_none()
    );
    assert_eq!(
        open(&folder.book, "p2")
            .commit(vec![draft(1, "p2")])
            .unwrap()
            .size,
        4
    );
}

#[test]
fn a_book_that_is_taken_away_from_an_open_writer_takes_no_more() {
    type Act = fn(&Path);
    let cases: [(&str, Act); 9] = [
        ("journal unlinked", |book| {
            std::fs::remove_file(segment(book)).unwrap();
        }),
        ("journal replaced", |book| replaced(&segment(book))),
        ("journal overwritten by something longer", |book| {
            let length = std::fs::metadata(segment(book)).unwrap().len() as usize;
            std::fs::write(segment(book), vec![b'x'; length + 500]).unwrap();
        }),
        ("lock replaced", |book| replaced(&book.join("LOCK"))),
        ("lock unlinked", |book| {
            std::fs::remove_file(book.join("LOCK")).unwrap();
        }),
        ("vault unlinked", |book| {
            std::fs::remove_dir_all(book.join("vault")).unwrap();
        }),
        ("vault replaced", |book| {
            replaced(&Layout::new(book).vault_segment(0));
        }),
        ("vault cut", |book| {
            std::fs::write(Layout::new(book).vault_segment(0), b"").unwrap();
        }),
        ("folder moved", |book| {
            std::fs::rename(book, book.with_extension("away")).unwrap();
        }),
    ];
    for (what, act) in cases {
        let folder = folder();
        let mut writer = open(&folder.book, "p1");
        writer.commit(vec![draft(1, "p1")]).unwrap();
        writer.commit(vec![outcome(1)]).unwrap();
        act(&folder.book);
        let error = writer.commit(vec![draft(2, "p1")]).unwrap_err();
        assert!(
            matches!(error, BookError::Gone { .. } | BookError::Damaged(_)),
            "{what}: {error}"
        );
        assert_eq!(error.exit_code(), 31, "{what}");
        assert!(
            matches!(
                writer.commit(vec![draft(3, "p1")]),
                Err(BookError::Poisoned { .. })
            ),
            "{what}"
        );
    }
}

fn replaced(path: &Path) {
    let copy = path.with_extension("copy");
    std::fs::copy(path, &copy).unwrap();
    std::fs::rename(&copy, path).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_not_regular_is_refused_and_never_waited_for() {
    for name in ["BOOK", "LOCK", "segment", "vault", "pending"] {
        let folder = folder();
        drop(open(&folder.book, "p1"));
        let layout = Layout::new(&folder.book);
        let path = match name {
            "BOOK" => layout.book(),
            "LOCK" => layout.lock(),
            "segment" => segment(&folder.book),
            "vault" => layout.vault_segment(0),
            _ => layout.quarantine().join("pending"),
        };
        let _ = std::fs::remove_file(&path);
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let opened = open_with(&folder.book, 1, options("p2"))
            .map(|mut writer| writer.commit(vec![draft(1, "p2")]).map(drop));
        let error = match opened {
            Ok(committed) => committed.unwrap_err(),
            Err(error) => error,
        };
        assert!(
            error.to_string().contains("not a regular file"),
            "{name}: {error}"
        );
        let verified = verify(&folder.book, &VerifyOptions::default());
        match name {
            "BOOK" | "segment" => {
                let error = verified.unwrap_err();
                assert!(error.to_string().contains("not a regular file"), "{name}");
                assert_eq!(error.exit_code(), 2);
            }
            _ => drop(verified.unwrap()),
        }
    }
}

#[test]
fn a_start_excuses_no_payload_of_an_acknowledged_batch() {
    type Act = fn(&Path, usize);
    let cases: [(&str, Act, usize); 4] = [
        (
            "cut down to the first batch",
            |vault, first| {
                let bytes = std::fs::read(vault).unwrap();
                std::fs::write(vault, &bytes[..first - 20]).unwrap();
            },
            1,
        ),
        (
            "an object of the first batch zeroed",
            |vault, first| {
                let mut bytes = std::fs::read(vault).unwrap();
                bytes[32..first].fill(0);
                std::fs::write(vault, bytes).unwrap();
            },
            0,
        ),
        (
            "foreign bytes",
            |vault, first| {
                let mut bytes = std::fs::read(vault).unwrap();
                bytes[first..].fill(b'x');
                std::fs::write(vault, bytes).unwrap();
            },
            0,
        ),
        (
            "deleted",
            |vault, _| std::fs::remove_file(vault).unwrap(),
            0,
        ),
    ];
    for (what, act, excused) in cases {
        let folder = folder();
        let mut writer = open(&folder.book, "p1");
        writer.commit(vec![draft(1, "p1")]).unwrap();
        let vault = Layout::new(&folder.book).vault_segment(0);
        let first = std::fs::metadata(&vault).unwrap().len() as usize;
        writer.commit(vec![draft(2, "p1")]).unwrap();
        drop(writer);
        act(&vault, first);
        let opened = open(&folder.book, "p2");
        let missing = opened.recovery().map_or(0, |recovery| recovery.missing);
        assert_eq!(missing, excused, "{what}");
        assert_eq!(
            check(&folder.book).verdict(),
            Verdict::PayloadMissing,
            "{what}"
        );
    }
}

#[test]
fn payloads_that_were_changed_are_found_with_the_vault_key_and_not_claimed_without_it() {
    let folder = folder();
    let mut writer = open(&folder.book, "p1");
    writer.commit(vec![draft(1, "p1"), outcome(1)]).unwrap();
    drop(writer);
    let keyed = VerifyOptions {
        vault: Some(VaultKey::from_bytes(KEK)),
        ..VerifyOptions::default()
    };
    let whole = verify(&folder.book, &keyed).unwrap();
    assert_eq!((whole.verdict(), whole.opened), (Verdict::Ok, 2));
    assert_eq!(whole.unopened(), "");
    let other = VerifyOptions {
        vault: Some(VaultKey::from_bytes([1; 32])),
        ..VerifyOptions::default()
    };
    let refused = verify(&folder.book, &other).unwrap();
    assert_eq!(
        (refused.verdict(), refused.opened),
        (Verdict::PayloadChanged, 0)
    );

    let vault = Layout::new(&folder.book).vault_segment(0);
    let mut bytes = std::fs::read(&vault).unwrap();
    let last = bytes.len() - 5;
    bytes[last] ^= 1;
    std::fs::write(&vault, bytes).unwrap();
    let changed = verify(&folder.book, &keyed).unwrap();
    assert_eq!(changed.verdict(), Verdict::PayloadChanged);
    assert_eq!((changed.verdict().exit_code(), changed.opened), (30, 1));
    assert_eq!((changed.findings.len(), changed.findings[0].index), (1, 2));
    let keyless = check(&folder.book);
    assert_eq!(keyless.verdict(), Verdict::Ok);
    assert!(keyless.sentence().contains("2 stored payloads"));
    assert!(keyless.sentence().contains("needs the vault's key"));
}

#[test]
fn a_second_outcome_is_a_note() {
    let folder = folder();
    let mut writer = open(&folder.book, "p1");
    writer.commit(vec![draft(1, "p1"), outcome(1)]).unwrap();
    writer.commit(vec![outcome(1)]).unwrap();
    let report = check(&folder.book);
    assert_eq!(report.verdict(), Verdict::Ok);
    let found: Vec<_> = report.findings.iter().map(|f| (f.kind, f.index)).collect();
    assert_eq!(found, [(FindingKind::SecondOutcome, 3)]);
    assert!(report.findings[0].what.contains(id(1).as_str()));
}
