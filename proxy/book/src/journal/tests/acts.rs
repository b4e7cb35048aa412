//! Keys that are replaced, payloads that are erased, segments that are pruned: on record, and across crashes.

use std::path::Path;

use crate::journal::layout::Layout;
use crate::journal::tests::{
    KEK, SEED, check, draft, folder, id, open_with, options, outcome, sources,
};
use crate::kinds::Body;
use crate::{
    BookError, Draft, Field, FindingKind, KeptState, KeyRotate, Listing, Order, Reader, Report,
    Signer, Signers, VaultKey, Verdict, VerifyOptions, Vkey, Writer, WriterOptions, verify,
};

const NEXT: [u8; 32] = [77; 32];

fn with(seeds: &[[u8; 32]]) -> Signers {
    Signers::new(seeds.iter().map(|seed| Signer::from_seed(*seed)).collect())
}

fn open(
    book: &Path,
    seed: u64,
    keys: &[[u8; 32]],
    options: WriterOptions,
) -> Result<Writer, BookError> {
    Writer::open(
        book,
        with(keys),
        VaultKey::from_bytes(KEK),
        sources(seed),
        options,
    )
}

fn checked(book: &Path, pinned: Option<Vkey>) -> Report {
    let vault = Some(VaultKey::from_bytes(KEK));
    verify(
        book,
        &VerifyOptions {
            pinned,
            vault,
            threads: 1,
            ..VerifyOptions::default()
        },
    )
    .unwrap()
}

fn vkey(book: &Path, seed: [u8; 32]) -> Vkey {
    Signer::from_seed(seed).vkey(&Reader::open(book).unwrap().book().origin)
}

fn small(process: &str) -> WriterOptions {
    WriterOptions {
        segment_bytes: 2000,
        vault_segment_bytes: 1500,
        ..options(process)
    }
}

fn bytes_of(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        all.extend(if path.is_dir() {
            bytes_of(&path)
        } else {
            std::fs::read(&path).unwrap()
        });
    }
    all
}

fn has(bytes: &[u8], what: &[u8]) -> bool {
    memchr::memmem::find(bytes, what).is_some()
}

#[test]
fn b31_a_rotated_key_signs_beside_the_new_one_and_then_no_more() {
    let folder = folder();
    let mut old = open(&folder.book, 1, &[SEED], small("old")).unwrap();
    old.commit(vec![draft(1, "old")]).unwrap();
    let rotated = old.rotate_key(Signer::from_seed(NEXT), "yearly").unwrap();
    assert_eq!(
        rotated.checkpoint.matches("— ").count(),
        1,
        "the rotation is signed by the key in force"
    );
    let both = old.commit(vec![draft(2, "old")]).unwrap();
    assert_eq!(both.checkpoint.matches("— ").count(), 2);
    let (first, second) = (vkey(&folder.book, SEED), vkey(&folder.book, NEXT));
    let note = crate::Note::parse(both.checkpoint.as_bytes()).unwrap();
    for key in [&first, &second] {
        note.verify(std::slice::from_ref(key)).unwrap();
    }
    // Through the overlap, in big batches.
    let mut n = 10;
    let mut last = both;
    while last.size <= rotated.size + 1024 + 3 {
        last = old
            .commit((n..n + 200).map(|n| draft(n, "old")).collect())
            .unwrap();
        n += 200;
    }
    let alone = crate::Note::parse(last.checkpoint.as_bytes()).unwrap();
    assert!(alone.verify(std::slice::from_ref(&first)).is_err());
    alone.verify(std::slice::from_ref(&second)).unwrap();
    for pinned in [None, Some(first), Some(second)] {
        let report = checked(&folder.book, pinned.clone());
        assert_eq!(
            report.verdict(),
            Verdict::Ok,
            "{pinned:?} {:?}",
            report.findings
        );
        assert_eq!(report.not_understood, 0);
    }
    let stranger = checked(&folder.book, Some(vkey(&folder.book, [9; 32])));
    assert_eq!(stranger.verdict(), Verdict::Replaced);

    // The old key opens it no more, the new one alone does, from the last segment.
    assert!(matches!(
        open(&folder.book, 2, &[SEED], small("p")),
        Err(BookError::WrongKey { .. })
    ));
    let mut new = open(&folder.book, 3, &[NEXT], small("new")).unwrap();
    new.commit(vec![draft(9000, "new")]).unwrap();
    let key = new.keys();
    assert_eq!(
        (key.len(), key[0].until, key[1].from),
        (2, Some(rotated.size + 1024), rotated.size + 1)
    );
    assert!(matches!(
        new.rotate_key(Signer::from_seed(SEED), "back"),
        Err(BookError::SameKey)
    ));
    new.commit(vec![outcome(9000)]).unwrap();
    assert_eq!(check(&folder.book).verdict(), Verdict::Ok);
}

#[test]
fn b31_a_process_with_the_old_key_fetches_the_new_one_or_signs_nothing() {
    let folder = folder();
    let fetched = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = std::sync::Arc::clone(&fetched);
    let fetch = Box::new(move |_: &Vkey| {
        flag.load(std::sync::atomic::Ordering::SeqCst)
            .then(|| Signer::from_seed(NEXT))
    });
    let keys = with(&[SEED]).or_fetch(fetch);
    let mut living = Writer::open(
        &folder.book,
        keys,
        VaultKey::from_bytes(KEK),
        sources(5),
        options("living"),
    )
    .unwrap();
    living.commit(vec![draft(1, "living")]).unwrap();
    open(&folder.book, 6, &[SEED], options("cli"))
        .unwrap()
        .rotate_key(Signer::from_seed(NEXT), "r")
        .unwrap();
    let before = bytes_of(&folder.book.join("journal"));
    assert!(matches!(
        living.commit(vec![draft(2, "living")]),
        Err(BookError::KeyMissing { .. })
    ));
    assert_eq!(
        bytes_of(&folder.book.join("journal")),
        before,
        "nothing is written without the key in force"
    );
    // Nothing was lost: once the store gives the key, the same writer goes on.
    fetched.store(true, std::sync::atomic::Ordering::SeqCst);
    let committed = living.commit(vec![draft(2, "living")]).unwrap();
    assert_eq!(committed.checkpoint.matches("— ").count(), 2);
    let report = checked(&folder.book, Some(vkey(&folder.book, SEED)));
    assert_eq!(report.verdict(), Verdict::Ok, "{:?}", report.findings);
}

/// Appends a batch whose checkpoint is signed by `seeds` whatever the ranges say.
fn forge(book: &Path, n: u64, seeds: &[[u8; 32]]) {
    forge_body(book, &crate::journal::tests::call(n, "thief").into(), seeds);
}

fn forge_body(book: &Path, body: &Body, seeds: &[[u8; 32]]) {
    use base64::Engine as _;
    let layout = Layout::new(book);
    let path = layout.segment(*layout.segments().unwrap().last().unwrap());
    let report = check(book);
    let reader = Reader::open(book).unwrap();
    let last = reader.show(report.size - 1).unwrap().unwrap().entry;
    let line =
        crate::entry::line(body, report.size, last.leaf, "2026-12-01T00:00:00.000Z").unwrap();
    let mut builder = crate::CompactRange::default();
    let listing = Listing {
        from: Some(0),
        limit: usize::MAX,
        order: Order::OldestFirst,
    };
    for entry in reader.list(listing).unwrap() {
        builder.push(entry.leaf);
    }
    builder.push(crate::leaf_hash(&line));
    let checkpoint = crate::Checkpoint {
        origin: report.origin.to_string(),
        size: report.size + 1,
        root: builder.root(),
    };
    let keys: Vec<_> = seeds
        .iter()
        .map(|seed| (vkey(book, *seed), Signer::from_seed(*seed)))
        .collect();
    let signers: Vec<_> = keys.iter().map(|(vkey, signer)| (vkey, signer)).collect();
    let note = crate::note::sign(&checkpoint.text(), &signers);
    let note = base64::engine::general_purpose::STANDARD.encode(note);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend([&line[..], b"\n#cp ", note.as_bytes(), b"\n"].concat());
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn b31_the_old_key_beyond_its_range_is_key_range() {
    for (seeds, exit) in [
        (&[SEED][..], 34),
        (&[SEED, NEXT], 34),
        (&[NEXT], 0),
        (&[[5; 32]], 13),
    ] {
        let folder = folder();
        let mut writer = open(&folder.book, 1, &[SEED], options("p")).unwrap();
        let rotated = writer.rotate_key(Signer::from_seed(NEXT), "r").unwrap();
        let mut n = 10;
        while writer.size() <= rotated.size + 1024 {
            writer
                .commit((n..n + 300).map(|n| draft(n, "p")).collect())
                .unwrap();
            n += 300;
        }
        drop(writer);
        forge(&folder.book, n, seeds);
        let report = check(&folder.book);
        // A key nobody knows signed nothing this book knows of.
        let exit = if exit == 13 { 40 } else { exit };
        assert_eq!(
            report.verdict().exit_code(),
            exit,
            "{seeds:?} {:?}",
            report.findings
        );
        let before = bytes_of(&folder.book);
        if exit == 34 {
            let error = open(&folder.book, 2, &[NEXT], options("p2")).err().unwrap();
            assert!(matches!(error, BookError::KeyRange(_)), "{error}");
            assert_eq!(error.exit_code(), 34);
            assert_eq!(bytes_of(&folder.book), before, "nothing is changed");
        }
    }
}

#[test]
fn b33_a_rotation_cut_by_a_crash_never_happened() {
    let folder = folder();
    let layout = Layout::new(&folder.book);
    let mut writer = open(&folder.book, 1, &[SEED], options("p")).unwrap();
    let path = layout.segment(0);
    let before = std::fs::metadata(&path).unwrap().len() as usize;
    writer.rotate_key(Signer::from_seed(NEXT), "r").unwrap();
    let whole = std::fs::read(&path).unwrap();
    for cut in before..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let mut writer = open(&folder.book, 2, &[SEED], options("p2")).unwrap();
        assert_eq!(writer.keys().len(), 1);
        writer.commit(vec![draft(1, "p2")]).unwrap();
        assert_eq!(check(&folder.book).verdict(), Verdict::Ok);
    }
}

#[test]
fn acts_are_not_taken_as_drafts() {
    let folder = folder();
    let mut writer = open(&folder.book, 1, &[SEED], options("p")).unwrap();
    let rotate = KeyRotate {
        from: crate::Count(3),
        reason: String::new(),
        until: None,
        vkey: vkey(&folder.book, NEXT).to_string(),
    };
    assert!(matches!(
        writer.commit(vec![Draft::new(rotate)]),
        Err(BookError::Entry(_))
    ));
    writer.commit(vec![draft(1, "p")]).unwrap();
}

#[test]
fn b38_what_is_erased_is_gone_and_every_proof_stays() {
    let folder = folder();
    let mut writer = open(&folder.book, 1, &[SEED], options("p")).unwrap();
    writer
        .commit(vec![draft(1, "p"), draft(2, "p"), outcome(1)])
        .unwrap();
    let before = check(&folder.book);
    let vault = std::fs::read(folder.book.join("vault/00000000000000000000.seg")).unwrap();
    let erased = writer
        .erase(1, &[], "asked for", "countersign book erase")
        .unwrap();
    assert_eq!(
        (erased.entry, &erased.erased[..], erased.already.len()),
        (Some(4), &[Field::Args][..], 0)
    );
    assert!(!folder.book.join("removal.pending").exists());

    // The 104 bytes of key and salt are zero, nothing else changed.
    let after = std::fs::read(folder.book.join("vault/00000000000000000000.seg")).unwrap();
    let changed: Vec<usize> = (0..vault.len())
        .filter(|at| vault[*at] != after[*at])
        .collect();
    assert!(vault.len() == after.len() && changed.len() <= 104 && changed.len() > 90);
    assert!(changed.last().unwrap() - changed.first().unwrap() < 104);
    assert!(
        !has(&bytes_of(&folder.book), &vault[changed[0]..changed[0] + 64]),
        "no copy of the wrapped key is left"
    );

    let report = checked(&folder.book, Some(vkey(&folder.book, SEED)));
    assert_eq!(report.verdict(), Verdict::Ok, "{:?}", report.findings);
    let finding = &report.findings[0];
    assert_eq!(finding.kind, FindingKind::PayloadErased);
    assert!(
        finding.what.ends_with("was erased, on record in entry 4"),
        "{}",
        finding.what
    );
    assert_eq!((before.size, report.payloads), (4, before.payloads - 1));
    let mut root = crate::CompactRange::default();
    let listing = Listing {
        from: Some(0),
        limit: 4,
        order: Order::OldestFirst,
    };
    for entry in Reader::open(&folder.book).unwrap().list(listing).unwrap() {
        root.push(entry.leaf);
    }
    assert_eq!(root.root(), before.root, "no hash of the record changed");

    let reader = Reader::open(&folder.book).unwrap();
    let key = VaultKey::from_bytes(KEK);
    let refused = reader.payload(&key, 1, Field::Args).unwrap_err();
    assert!(refused.to_string().contains("was erased"), "{refused}");
    assert_eq!(reader.kept(1).unwrap()[0].state, KeptState::Erased);
    assert_eq!(reader.erased_by(1, Field::Args).unwrap(), Some(4));
    assert_eq!(reader.erased_by(2, Field::Args).unwrap(), None);
    assert!(reader.payload(&key, 2, Field::Args).is_ok());

    // Again: nothing to do, nothing written; unknown entries are said.
    let again = writer.erase(1, &[], "again", "cli").unwrap();
    assert_eq!((again.entry, again.already), (None, vec![Field::Args]));
    assert_eq!(writer.size(), 5);
    for index in [0, 5] {
        assert!(
            matches!(
                writer.erase(index, &[], "r", "cli"),
                Err(BookError::NotFound(_))
            ),
            "{index}"
        );
    }
    writer.commit(vec![outcome(2)]).unwrap();
}

#[test]
fn b39_a_crash_within_an_erasure_is_finished_or_never_happened() {
    let folder = folder();
    let layout = Layout::new(&folder.book);
    let mut writer = open(&folder.book, 1, &[SEED], options("p")).unwrap();
    writer.commit(vec![draft(1, "p"), draft(2, "p")]).unwrap();
    let (journal, vault) = (layout.segment(0), layout.vault_segment(0));
    let (lines, objects) = (
        std::fs::read(&journal).unwrap(),
        std::fs::read(&vault).unwrap(),
    );
    writer.erase(2, &[], "r", "cli").unwrap();
    let (recorded, wiped) = (
        std::fs::read(&journal).unwrap(),
        std::fs::read(&vault).unwrap(),
    );
    let pending = folder.book.join("removal.pending");
    for (journal_is, vault_is, state) in [
        // After the note, before the entry.
        (&lines, &objects, KeptState::Kept),
        // A torn entry.
        (
            &recorded[..recorded.len() - 1].to_vec(),
            &objects,
            KeptState::Kept,
        ),
        // After the entry, before the bytes.
        (&recorded, &objects, KeptState::Erased),
        // After the bytes, before the note is gone.
        (&recorded, &wiped, KeptState::Erased),
    ] {
        std::fs::write(&journal, journal_is).unwrap();
        std::fs::write(&vault, vault_is).unwrap();
        std::fs::write(&pending, "countersign removal 1\n3\n").unwrap();
        let mut writer = open(&folder.book, 2, &[SEED], options("p2")).unwrap();
        assert!(!pending.exists());
        assert_eq!(
            Reader::open(&folder.book).unwrap().kept(2).unwrap()[0].state,
            state
        );
        writer.commit(vec![outcome(1)]).unwrap();
        assert_eq!(check(&folder.book).verdict(), Verdict::Ok, "{state:?}");
    }
    std::fs::write(&pending, "what").unwrap();
    assert!(matches!(
        open(&folder.book, 3, &[SEED], options("p3")),
        Err(BookError::Damaged(_))
    ));
}

#[test]
fn b40_a_payload_wiped_without_a_word_is_missing() {
    let folder = folder();
    let mut writer = open(&folder.book, 1, &[SEED], options("p")).unwrap();
    writer.commit(vec![draft(1, "p"), draft(2, "p")]).unwrap();
    writer.erase(1, &[], "r", "cli").unwrap();
    let path = folder.book.join("vault/00000000000000000000.seg");
    let mut vault = std::fs::read(&path).unwrap();
    let second = memchr::memmem::find_iter(&vault, b"CSVOBJ1\n")
        .nth(1)
        .unwrap();
    let head = 8 + 8 + 1 + 26 + 1 + 4;
    vault[second + head..second + head + 104].fill(0);
    std::fs::write(&path, vault).unwrap();
    let report = check(&folder.book);
    assert_eq!(report.verdict().exit_code(), 30);
    assert_eq!(report.findings[0].kind, FindingKind::PayloadMissing);
    assert_eq!(report.findings[0].index, 2);
}

fn long_book(book: &Path) -> Writer {
    let mut writer = open(book, 1, &[SEED], small("p")).unwrap();
    for n in 1..30 {
        writer.commit(vec![draft(n, "p")]).unwrap();
        if n % 3 != 0 {
            writer.commit(vec![outcome(n)]).unwrap();
        }
    }
    writer
}

#[test]
fn what_is_pruned_is_gone_on_record_and_the_rest_verifies() {
    let folder = folder();
    let layout = Layout::new(&folder.book);
    let mut writer = long_book(&folder.book);
    writer.rotate_key(Signer::from_seed(NEXT), "r").unwrap();
    for n in 30..40 {
        writer.commit(vec![draft(n, "p")]).unwrap();
    }
    let open_calls = writer.open_calls();
    let (segments, vaults) = (layout.segments().unwrap(), layout.vault_segments().unwrap());
    assert!(segments.len() > 6 && vaults.len() > 6);
    let nothing = writer.prune(segments[1] - 1, "r", "cli").unwrap();
    assert_eq!((nothing.entry, nothing.minimum), (None, 0));
    let pruned = writer.prune(segments[3] + 1, "a year", "cli").unwrap();
    assert_eq!((pruned.minimum, pruned.segments), (segments[3], 3));
    assert!(pruned.vault_segments > 0);
    assert_eq!(layout.segments().unwrap()[0], segments[3]);
    assert_eq!(writer.open_calls(), open_calls);
    writer.commit(vec![outcome(3)]).unwrap();
    drop(writer);

    for (pinned, exit) in [
        (None, 0),
        (Some(SEED), 0),
        (Some(NEXT), 0),
        (Some([9; 32]), 35),
    ] {
        let report = checked(&folder.book, pinned.map(|seed| vkey(&folder.book, seed)));
        assert_eq!(report.verdict().exit_code(), exit, "{:?}", report.findings);
        if exit == 0 {
            assert_eq!(
                (report.first, report.findings[0].kind),
                (segments[3], FindingKind::Pruned)
            );
        }
    }
    let reader = Reader::open(&folder.book).unwrap();
    assert_eq!(reader.first().unwrap(), segments[3]);
    assert!(reader.show(1).unwrap().is_none());
    assert!(
        reader
            .kept(1)
            .unwrap_err()
            .to_string()
            .contains("was pruned")
    );
    let oldest = reader
        .list(Listing {
            from: None,
            limit: 1,
            order: Order::OldestFirst,
        })
        .unwrap();
    assert_eq!(oldest[0].index, segments[3]);

    // Beyond the rotation: the old key vouches for nothing that is kept.
    let mut writer = open(&folder.book, 9, &[SEED, NEXT], small("q")).unwrap();
    for n in 50..60 {
        writer.commit(vec![draft(n, "q")]).unwrap();
    }
    let last = *layout.segments().unwrap().last().unwrap();
    writer.prune(last, "all", "cli").unwrap();
    drop(writer);
    for (pinned, exit) in [(None, 40), (Some(SEED), 40), (Some(NEXT), 0)] {
        let report = checked(&folder.book, pinned.map(|seed| vkey(&folder.book, seed)));
        assert_eq!(
            report.verdict().exit_code(),
            exit,
            "{pinned:?} {:?}",
            report.findings
        );
    }
    open(&folder.book, 10, &[NEXT], small("r"))
        .unwrap()
        .commit(vec![draft(70, "r")])
        .unwrap();
}

#[test]
fn a_missing_start_without_a_word_is_removed_and_a_pruning_cut_by_a_crash_is_finished() {
    let folder = folder();
    let layout = Layout::new(&folder.book);
    let mut writer = long_book(&folder.book);
    let segments = layout.segments().unwrap();
    let kept: Vec<_> = segments[..3]
        .iter()
        .map(|first| std::fs::read(layout.segment(*first)).unwrap())
        .collect();
    std::fs::remove_file(layout.segment(0)).unwrap();
    let report = check(&folder.book);
    assert_eq!(
        (report.verdict().exit_code(), report.findings[0].kind),
        (31, FindingKind::Removed)
    );
    std::fs::write(layout.segment(0), &kept[0]).unwrap();

    let size = writer.size();
    writer.prune(segments[3], "r", "cli").unwrap();
    // Back to before the files went, two of three gone: any of them is a whole, pruned book.
    std::fs::write(layout.segment(segments[2]), &kept[2]).unwrap();
    assert_eq!(check(&folder.book).verdict(), Verdict::Ok);
    let pending = folder.book.join("removal.pending");
    std::fs::write(&pending, format!("countersign removal 1\n{size}\n")).unwrap();
    drop(writer);
    open(&folder.book, 4, &[SEED], small("p2")).unwrap();
    assert_eq!(layout.segments().unwrap()[0], segments[3]);
    assert!(!pending.exists());
    // One segment more than the record says: removed.
    std::fs::remove_file(layout.segment(segments[3])).unwrap();
    assert_eq!(check(&folder.book).findings[0].kind, FindingKind::Removed);
}

#[test]
fn b35_no_seed_is_in_any_file() {
    let folder = folder();
    let mut writer = long_book(&folder.book);
    writer.rotate_key(Signer::from_seed(NEXT), "r").unwrap();
    writer.commit(vec![draft(50, "p")]).unwrap();
    let bytes = bytes_of(&folder.book);
    for secret in [SEED, NEXT, KEK] {
        assert!(!has(&bytes, &secret));
        let text = data_encoding::HEXLOWER.encode(&secret);
        assert!(!has(&bytes, text.as_bytes()));
    }
    assert_eq!(format!("{:?}", with(&[SEED])), "Signers(..)");
    let _ = (id(1), open_with(&folder.book, 1, options("x")));
}

const SECRET_ARGS: &str =
    r#"{"path":"a","password":"canary-secret-1","note":"token=canary-secret-2"}"#;

#[test]
fn b36_secrets_are_committed_apart_and_erased_apart() {
    let folder = folder();
    let mut writer = open(&folder.book, 1, &[SEED], options("p")).unwrap();
    let secret = |n: u64| {
        Draft::new(crate::journal::tests::call(n, "p"))
            .with(Field::Args, crate::Payload::new(SECRET_ARGS))
    };
    writer
        .commit(vec![secret(1), draft(2, "p"), secret(3), outcome(1)])
        .unwrap();
    let reader = Reader::open(&folder.book).unwrap();
    let key = VaultKey::from_bytes(KEK);
    let entry = reader.show(1).unwrap().unwrap().entry;
    let Some(Body::Call(call)) = entry.body else {
        panic!("understood")
    };
    let args = call.args.unwrap();
    let view = args.view.unwrap();
    let places: Vec<_> = args
        .secrets
        .iter()
        .map(|secret| (secret.d.as_str(), secret.p.as_str()))
        .collect();
    assert_eq!(
        places,
        [("member_name", "/password"), ("assignment", "/note")]
    );
    // Neither the stated length nor the object's tells the payload's.
    assert_eq!((args.n.0, SECRET_ARGS.len()), (128, 72));
    assert_eq!(
        args.at.unwrap().len - view.at.len + view.n.0 + 5,
        129,
        "padded"
    );
    assert_ne!(args.c, view.c);
    assert_eq!(
        reader.payload(&key, 1, Field::Args).unwrap(),
        SECRET_ARGS.as_bytes()
    );
    let shown = reader.payload(&key, 1, Field::ArgsView).unwrap();
    assert_eq!(
        String::from_utf8(shown).unwrap(),
        r#"{"path":"a","password":"[hidden: member_name]","note":"token=[hidden: assignment]"}"#
    );
    let bytes = bytes_of(&folder.book);
    assert!(!has(&bytes, b"canary") && !has(&bytes, b"hidden"));
    let report = checked(&folder.book, None);
    assert_eq!(
        (report.verdict(), report.payloads, report.opened),
        (Verdict::Ok, 6, 6),
        "{:?}",
        report.findings
    );

    // Only what holds secrets is destroyed; what may be shown stays.
    let erased = writer.erase(1, &[Field::Args], "r", "cli").unwrap();
    assert_eq!(erased.erased, [Field::Args]);
    assert!(reader.payload(&key, 1, Field::Args).is_err());
    assert!(reader.payload(&key, 1, Field::ArgsView).is_ok());
    let erased = writer.erase(3, &[], "r", "cli").unwrap();
    assert_eq!(erased.erased, [Field::ArgsView, Field::Args]);
    let report = checked(&folder.book, None);
    assert_eq!(
        (report.verdict(), report.findings.len(), report.opened),
        (Verdict::Ok, 3, 3),
        "{:?}",
        report.findings
    );
    drop(writer);
    open(&folder.book, 2, &[SEED], options("p2"))
        .unwrap()
        .commit(vec![secret(9)])
        .unwrap();
}

#[test]
fn b11_secrets_never_fail_a_call() {
    let folder = folder();
    let mut writer = open(&folder.book, 1, &[SEED], options("p")).unwrap();
    let names: Vec<String> = (0..200)
        .map(|n| format!("\"{}{n}_password\":\"canary\"", "é".repeat(12)))
        .collect();
    let many = format!("{{{}}}", names.join(","));
    // A body that leaves little room for a list of secrets, and one that leaves none.
    for (n, filler) in [(1, 100), (2, 14_000), (3, 15_300)] {
        let mut call = crate::journal::tests::call(n, "p");
        call.tool = "t".repeat(filler);
        let draft = Draft::new(call)
            .with(Field::Args, crate::Payload::new(many.clone()))
            .with(Field::Sent, crate::Payload::new(many.clone()));
        writer.commit(vec![draft]).unwrap();
    }
    for (n, payload) in [
        (4, "{\"password\":\"\\ud800\",\"n\":1e400}".to_owned()),
        (5, "password=unparseable".to_owned()),
        (6, format!("{{\"password\":\"{}\"}}", "x".repeat(2 << 20))),
    ] {
        let draft = Draft::new(crate::journal::tests::call(n, "p"));
        writer
            .commit(vec![draft.with(Field::Args, crate::Payload::new(payload))])
            .unwrap();
    }
    let report = checked(&folder.book, None);
    assert_eq!(
        (report.verdict(), report.not_understood),
        (Verdict::Ok, 0),
        "{:?}",
        report.findings
    );
    assert!(!has(&bytes_of(&folder.book), b"canary"));
}

/// Makes `testdata/books` anew: run it only to add cases, the bytes of the ones there are part of the format.
#[test]
#[ignore = "writes the vectors"]
fn make_the_vectors_of_acts() {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let target = to.join(path.file_name().unwrap());
            match path.is_dir() {
                true => copy(&path, &target),
                false => drop(std::fs::copy(&path, &target).unwrap()),
            }
        }
    }
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/books");
    let keep = |name: &str, book: &Path| {
        let to = all.join(name);
        if !to.exists() {
            copy(book, &to);
            let _ = std::fs::remove_dir(to.join("quarantine"));
        }
    };
    let start = || {
        let folder = folder();
        let mut writer = open(&folder.book, 1, &[SEED], small("p")).unwrap();
        writer.commit(vec![draft(1, "p")]).unwrap();
        (folder, writer)
    };
    let rotation = |book: &Path, until: Option<u64>| {
        let size = check(book).size;
        let vkey = vkey(book, NEXT).to_string();
        Body::from(KeyRotate {
            from: crate::Count(size + 2),
            reason: "vector".into(),
            until: until.map(|more| crate::Count(size + 1 + more)),
            vkey,
        })
    };

    let (book, mut writer) = start();
    writer
        .rotate_key(Signer::from_seed(NEXT), "vector")
        .unwrap();
    for n in 2..12 {
        writer.commit(vec![draft(n, "p"), outcome(n)]).unwrap();
    }
    keep("0-rotated-through-segments", &book.book);
    let second = Layout::new(&book.book).segments().unwrap()[2];
    let path = Layout::new(&book.book).segment(second);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"until\":1027", "\"until\":1028", 1)).unwrap();
    keep("31-keys-of-a-segment-changed", &book.book);

    let (book, _writer) = start();
    forge_body(&book.book, &rotation(&book.book, None), &[SEED]);
    forge(&book.book, 20, &[NEXT]);
    forge(&book.book, 21, &[NEXT]);
    keep("0-rotated-without-overlap", &book.book);
    forge(&book.book, 22, &[SEED]);
    keep("34-old-key-beyond-its-range", &book.book);

    let (book, _writer) = start();
    forge_body(&book.book, &rotation(&book.book, None), &[SEED]);
    forge(&book.book, 20, &[SEED, NEXT]);
    keep("34-old-key-beside-the-new-one-beyond-its-range", &book.book);

    let (book, _writer) = start();
    forge_body(&book.book, &rotation(&book.book, Some(5)), &[SEED]);
    forge(&book.book, 20, &[SEED, NEXT]);
    forge(&book.book, 21, &[NEXT]);
    keep("0-old-key-missing-in-the-overlap", &book.book);
    forge(&book.book, 22, &[SEED]);
    keep("34-old-key-alone-in-the-overlap", &book.book);

    let (book, _writer) = start();
    forge(&book.book, 20, &[[5; 32]]);
    keep("40-key-that-nothing-put-in-force", &book.book);
    let (book, _writer) = start();
    let Body::KeyRotate(wrong) = rotation(&book.book, None) else {
        return;
    };
    let wrong = KeyRotate {
        from: crate::Count(wrong.from.0 + 1),
        ..wrong
    };
    forge_body(&book.book, &wrong.into(), &[SEED]);
    keep("40-rotation-whose-range-does-not-follow", &book.book);

    let (book, mut writer) = start();
    let secret = Draft::new(crate::journal::tests::call(2, "p"));
    writer
        .commit(vec![
            secret.with(Field::Args, crate::Payload::new(SECRET_ARGS)),
            outcome(1),
        ])
        .unwrap();
    keep("0-secrets-kept-apart", &book.book);
    let whole = std::fs::read(Layout::new(&book.book).vault_segment(0)).unwrap();
    writer.erase(2, &[Field::Args], "vector", "vector").unwrap();
    writer.erase(1, &[], "vector", "vector").unwrap();
    keep("0-erased-on-record", &book.book);
    let wiped = std::fs::read(Layout::new(&book.book).vault_segment(0)).unwrap();
    assert_ne!(whole, wiped);
    let third = memchr::memmem::rfind(&wiped, b"CSVOBJ1\n").unwrap();
    let mut more = wiped;
    let head = 8 + 8 + 1 + 26 + 1 + "result".len();
    more[third + head..third + head + 104].fill(0);
    std::fs::write(Layout::new(&book.book).vault_segment(0), more).unwrap();
    keep("30-erased-without-a-word", &book.book);

    let (book, mut writer) = start();
    for n in 2..20 {
        writer.commit(vec![draft(n, "p"), outcome(n)]).unwrap();
    }
    let layout = Layout::new(&book.book);
    let segments = layout.segments().unwrap();
    let first = std::fs::read(layout.segment(0)).unwrap();
    std::fs::remove_file(layout.segment(0)).unwrap();
    keep("31-start-removed", &book.book);
    std::fs::write(layout.segment(0), first).unwrap();
    writer.prune(segments[2], "vector", "vector").unwrap();
    writer.commit(vec![draft(30, "p")]).unwrap();
    keep("0-pruned-on-record", &book.book);
    std::fs::remove_file(layout.segment(segments[2])).unwrap();
    keep("31-more-removed-than-pruned", &book.book);

    let dir = tempfile::tempdir().unwrap();
    let era = crate::Era {
        origin: crate::Origin::from_id([3; 16]),
        checkpoint: "bm90ZQ==".into(),
        reason: "vector".into(),
    };
    let new = crate::NewBook {
        origin: crate::Origin::from_id([4; 16]),
        development: false,
        name: None,
        program: None,
        process: "p".into(),
    };
    crate::create_era(
        &dir.path().join("b"),
        &new,
        &era,
        &Signer::from_seed(NEXT),
        &mut sources(9),
    )
    .unwrap();
    keep("0-new-era", &dir.path().join("b"));
}

#[test]
fn the_start_of_a_pruned_book_is_known_from_its_last_segment_and_a_changed_one_is_found() {
    let folder = folder();
    let layout = Layout::new(&folder.book);
    let mut writer = long_book(&folder.book);
    let minimum = layout.segments().unwrap()[3];
    writer.prune(minimum, "r", "cli").unwrap();
    for n in 40..60 {
        writer.commit(vec![draft(n, "p")]).unwrap();
    }
    drop(writer);
    // The entry lies segments back; each first line since states what it says.
    let segments = layout.segments().unwrap();
    let stated = format!("\"pruned\":{minimum},");
    let lines: Vec<String> = segments
        .iter()
        .map(|first| std::fs::read_to_string(layout.segment(*first)).unwrap())
        .collect();
    let states: Vec<bool> = lines
        .iter()
        .map(|text| text.lines().next().unwrap().contains(&stated))
        .collect();
    let since = states.iter().position(|states| *states).unwrap();
    assert!(since > 1 && states.len() - since > 2, "{states:?}");
    assert!(states[since..].iter().all(|states| *states));
    assert!(lines[since - 1].contains("\"k\":\"prune\""));
    drop(open(&folder.book, 3, &[SEED], small("q")).unwrap());
    assert_eq!(check(&folder.book).verdict(), Verdict::Ok);

    // More is gone than was pruned.
    let first = std::fs::read(layout.segment(minimum)).unwrap();
    std::fs::remove_file(layout.segment(minimum)).unwrap();
    match open(&folder.book, 4, &[SEED], small("q")).map(|_| ()) {
        Err(BookError::Removed { from, until, .. }) => {
            assert_eq!((from, until), (minimum, segments[1] - 1));
        }
        other => panic!("{other:?}"),
    }
    // Whoever changes what the last segment states fools its opening, and no verification.
    let last = layout.segment(*segments.last().unwrap());
    let text = lines.last().unwrap();
    let changed = text.replacen(&stated, &format!("\"pruned\":{},", segments[1]), 1);
    std::fs::write(&last, &changed).unwrap();
    drop(open(&folder.book, 4, &[SEED], small("q")).unwrap());
    assert_eq!(check(&folder.book).verdict().exit_code(), 31);
    // Nor where nothing was removed.
    std::fs::write(layout.segment(minimum), first).unwrap();
    let report = check(&folder.book);
    assert_eq!(report.verdict(), Verdict::Changed, "{:?}", report.findings);
    assert!(
        report
            .findings
            .iter()
            .any(|finding| finding.what.contains("pruned"))
    );
}
