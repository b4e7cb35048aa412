//! The derived log against deletion, change, growth and other hands.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::journal::tests::{Folder, draft, folder, open_with, options, outcome};
use crate::proof::ProofBuilder;
use crate::tlog::edge::{entries_of, hashes_of};
use crate::tlog::store::Disagreement;
use crate::tree::tests::{leaves, naive_root};
use crate::{
    BookError, CompactRange, Hash, Listing, Note, Order, Prover, Reader, Tlog, TlogProof, Writer,
    WriterOptions, leaf_hash, verify_inclusion,
};

/// A writer with small segments, so that books of a few hundred entries have several.
fn writer(folder: &Folder, seed: u64) -> Writer {
    let small = WriterOptions {
        segment_bytes: 40_000,
        ..options("p")
    };
    open_with(&folder.book, seed, small).unwrap()
}

/// Appends `count` entries in batches of different sizes.
fn append(writer: &mut Writer, count: u64, seed: u64) {
    let mut n = 0;
    while n < count {
        let batch = (1 + (seed + n) % 7 * 9).min(count - n);
        let id = |m| seed * 1_000_000 + n + m;
        let draft = |m| {
            if (n + m) % 3 == 2 {
                outcome(id(m) - 1)
            } else {
                draft(id(m), "p")
            }
        };
        writer.commit((0..batch).map(draft).collect()).unwrap();
        n += batch;
    }
}

/// Every file below a folder with its bytes.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(here) = open.pop() {
        for entry in fs::read_dir(here).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}

fn same(now: &BTreeMap<String, Vec<u8>>, before: &BTreeMap<String, Vec<u8>>, what: &str) {
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(now), names(before), "{what}");
    for (name, bytes) in now {
        assert!(before[name] == *bytes, "{what}: {name}");
    }
}

/// Everything in `tlog/` recomputed from its entries alone, against its own checkpoint.
fn check_whole(book: &Path) -> u64 {
    let there = files(&book.join("tlog"));
    let note = String::from_utf8(there["checkpoint"].clone()).unwrap();
    let checkpoint =
        crate::checkpoint::Checkpoint::from_note(&Note::parse(note.as_bytes()).unwrap()).unwrap();
    let size = checkpoint.size;
    let tile = |level: &str, index: u64, count: u64| {
        let width = (count - index * 256).min(256);
        let part = if width == 256 {
            String::new()
        } else {
            format!(".p/{width}")
        };
        there[&format!("tile/{level}/{index:03}{part}")].clone()
    };
    let mut leaves = Vec::new();
    for index in 0..size.div_ceil(256) {
        let bundle = tile("entries", index, size);
        leaves.extend(entries_of(&bundle).unwrap().into_iter().map(leaf_hash));
    }
    assert_eq!(leaves.len() as u64, size);
    assert_eq!(naive_root(&leaves), checkpoint.root);
    let mut below = leaves;
    for level in 0.. {
        let count = below.len() as u64;
        let mut above = Vec::new();
        for index in 0..count.div_ceil(256) {
            let width = (count - index * 256).min(256);
            let hashes = hashes_of(&tile(&level.to_string(), index, count), width).unwrap();
            assert_eq!(hashes, below[index as usize * 256..][..width as usize]);
            above.extend((width == 256).then(|| naive_root(&hashes)));
        }
        if above.is_empty() {
            break;
        }
        below = above;
    }
    size
}

#[test]
fn b28_deleted_parts_are_made_again_bit_for_bit() {
    let folder = folder();
    let mut writer = writer(&folder, 1);
    append(&mut writer, 1100, 1);
    let report = Tlog::open(&folder.book).unwrap().extend().unwrap();
    assert_eq!((report.head.size, report.findings.len()), (1101, 0));
    assert_eq!(check_whole(&folder.book), 1101);
    let (tlog, before) = (folder.book.join("tlog"), files(&folder.book.join("tlog")));
    assert_eq!(before.len(), 4 * 2 + 2 + 1 + 1);
    for (name, rebuilt) in [
        ("", false),
        ("tile", false),
        ("tile/0", false),
        ("tile/0/001", false),
        ("checkpoint", false),
        ("tile/1", true),
    ] {
        let path = tlog.join(name);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        let mut tlog = Tlog::open(&folder.book).unwrap();
        assert_ne!(tlog.check().unwrap().findings, [], "{name}");
        assert_eq!(tlog.check().unwrap().written, 0);
        let report = if rebuilt {
            tlog.rebuild()
        } else {
            tlog.extend()
        }
        .unwrap();
        assert_eq!(report.findings, [], "{name}");
        assert_eq!(files(&folder.book.join("tlog")), before, "{name}");
        assert_eq!(tlog.check().unwrap().findings, [], "{name}");
    }
}

#[test]
fn rec_5_what_disagrees_is_kept_as_evidence_and_made_again() {
    let folder = folder();
    let mut writer = writer(&folder, 2);
    append(&mut writer, 700, 2);
    Tlog::open(&folder.book).unwrap().extend().unwrap();
    let (root, before) = (folder.book.join("tlog"), files(&folder.book.join("tlog")));
    let journal = files(&folder.book.join("journal"));
    type Harm = fn(&Path);
    let write = |path: &Path, bytes: &[u8]| {
        let _ = fs::remove_file(path);
        fs::write(path, bytes).unwrap();
    };
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        write(path, &bytes);
    };
    for name in before.keys() {
        flip(&root.join(name));
        let mut tlog = Tlog::open(&folder.book).unwrap();
        let found = tlog.check().unwrap().findings;
        assert!(
            found.iter().any(|finding| finding.file == *name),
            "{name}: {found:?}"
        );
        let report = tlog.rebuild().unwrap();
        let evidence = report
            .findings
            .iter()
            .find(|finding| finding.file == *name)
            .unwrap();
        assert_eq!(evidence.kind, Disagreement::Differs);
        assert!(evidence.evidence.as_ref().unwrap().is_file(), "{name}");
        same(&files(&root), &before, name);
    }
    let harms: [(&str, Harm); 7] = [
        ("tile/0/999", |path| fs::write(path, "x").unwrap()),
        ("tile/readme", |path| fs::write(path, "x").unwrap()),
        ("tile/0/002.p/7", |path| {
            fs::write(path, [0; 7 * 32]).unwrap()
        }),
        ("tile/0/002.p/200", |path| {
            fs::write(path, [0; 200 * 32]).unwrap()
        }),
        ("tile/0/000", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
        #[cfg(unix)]
        ("tile/0", |path| {
            let elsewhere = path.ancestors().nth(3).unwrap().join("moved");
            fs::rename(path, &elsewhere).unwrap();
            std::os::unix::fs::symlink(elsewhere, path).unwrap();
        }),
        #[cfg(unix)]
        ("tile/0/001", |path| {
            fs::rename(path, path.with_extension("moved")).unwrap();
            std::os::unix::fs::symlink(path.with_extension("moved"), path).unwrap();
        }),
    ];
    for (name, harm) in harms {
        harm(&root.join(name));
        let report = Tlog::open(&folder.book).unwrap().rebuild().unwrap();
        assert!(
            report.findings.iter().any(|finding| finding.file == name),
            "{name}: {report:?}"
        );
        same(&files(&root), &before, name);
    }
    #[cfg(unix)]
    {
        fs::rename(&root, folder.book.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(folder.book.join("elsewhere"), &root).unwrap();
        let report = Tlog::open(&folder.book).unwrap().rebuild().unwrap();
        assert_ne!(report.findings, []);
        assert!(!root.is_symlink());
        same(&files(&root), &before, "the folder");
    }
    assert_eq!(
        files(&folder.book.join("journal")),
        journal,
        "the record was not touched"
    );
}

#[test]
fn updates_append_and_keep_partial_tiles_of_published_checkpoints_until_they_are_full() {
    let folder = folder();
    let mut writer = writer(&folder, 3);
    let mut tlog = Tlog::open(&folder.book).unwrap();
    let mut published = Vec::new();
    for round in 0..40 {
        append(&mut writer, 1 + round * 7 % 60, 100 + round);
        let report = tlog.extend().unwrap();
        assert_eq!(
            (report.findings.len(), report.head.size),
            (0, writer_size(&folder))
        );
        assert_eq!(check_whole(&folder.book), report.head.size);
        assert_eq!(tlog.extend().unwrap().written, 0, "nothing changed");
        published.push(report.head.size);
        let there = files(&folder.book.join("tlog"));
        let last = published.last().unwrap() / 256;
        for size in published.iter().filter(|size| **size % 256 != 0) {
            let partial = format!("tile/0/{:03}.p/{}", size / 256, size % 256);
            assert_eq!(
                there.contains_key(&partial),
                size / 256 == last,
                "{partial} at {published:?}"
            );
        }
    }
    assert_eq!(tlog.check().unwrap().findings, []);
    assert_eq!(tlog.rebuild().unwrap().findings, []);
    // Another process takes over, and then this one again.
    let mut other = Tlog::open(&folder.book).unwrap();
    for round in 0..6 {
        append(&mut writer, 50, 200 + round);
        let report = if round % 2 == 0 {
            other.extend()
        } else {
            tlog.extend()
        }
        .unwrap();
        assert_eq!(report.findings, []);
        assert_eq!(check_whole(&folder.book), writer_size(&folder));
    }
}

#[test]
fn a_reader_never_sees_a_checkpoint_without_its_tiles() {
    // The order of writing, seen by what a stopped builder leaves: everything but the checkpoint.
    let folder = folder();
    let mut writer = writer(&folder, 4);
    append(&mut writer, 300, 4);
    Tlog::open(&folder.book).unwrap().extend().unwrap();
    let old = fs::read(folder.book.join("tlog/checkpoint")).unwrap();
    append(&mut writer, 300, 5);
    Tlog::open(&folder.book).unwrap().extend().unwrap();
    fs::write(folder.book.join("tlog/checkpoint"), old).unwrap();
    let check = Tlog::open(&folder.book).unwrap().check().unwrap();
    assert_eq!(check.published, 301);
    let kinds: Vec<_> = check
        .findings
        .iter()
        .map(|f| (f.kind, f.file.as_str()))
        .collect();
    // The partial tiles of the earlier checkpoint are gone, and full ones stand in their place.
    assert!(
        kinds.contains(&(Disagreement::Behind, "checkpoint")),
        "{kinds:?}"
    );
    let report = Tlog::open(&folder.book).unwrap().extend().unwrap();
    assert_eq!((report.head.size, check_whole(&folder.book)), (601, 601));
}

#[test]
fn rec_5_a_checkpoint_the_book_never_had_stays_where_it_is() {
    let (one, other) = (folder(), folder());
    // The same keys and origin: a book restored from an earlier copy and gone on differently.
    for (folder, seed) in [(&one, 6), (&other, 7)] {
        let mut writer = writer(folder, seed);
        append(&mut writer, 400, seed);
        Tlog::open(&folder.book).unwrap().extend().unwrap();
    }
    for (longer, name) in [(false, "forked"), (true, "rolled back")] {
        if longer {
            append(&mut writer(&other, 8), 100, 8);
            Tlog::open(&other.book).unwrap().extend().unwrap();
        }
        for (name, bytes) in files(&other.book.join("tlog")) {
            let path = one.book.join("tlog").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let _ = fs::remove_file(&path);
            fs::write(path, bytes).unwrap();
        }
        let before = files(&one.book);
        for act in [Tlog::extend, Tlog::rebuild] {
            let error = act(&mut Tlog::open(&one.book).unwrap()).unwrap_err();
            assert!(
                matches!(error, BookError::RolledBack { .. }),
                "{name}: {error}"
            );
        }
        assert!(files(&one.book) == before, "{name}: something was changed");
        let check = Tlog::open(&one.book).unwrap().check().unwrap();
        let kinds: Vec<_> = check.findings.iter().map(|found| found.kind).collect();
        assert!(kinds.contains(&Disagreement::Differs), "{name}: {kinds:?}");
    }
}

#[test]
fn a_damaged_journal_is_never_published() {
    let folder = folder();
    let mut writer = writer(&folder, 9);
    append(&mut writer, 300, 9);
    Tlog::open(&folder.book).unwrap().extend().unwrap();
    let before = files(&folder.book.join("tlog"));
    let segment = folder.book.join("journal/00000000000000000000.jsonl");
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let error = Tlog::open(&folder.book).unwrap().rebuild().unwrap_err();
    assert!(matches!(error, BookError::Damaged(_)), "{error}");
    assert_eq!(files(&folder.book.join("tlog")), before);
}

#[test]
fn a_journal_that_begins_later_keeps_its_tiles() {
    let folder = folder();
    let mut writer = writer(&folder, 10);
    append(&mut writer, 900, 10);
    Tlog::open(&folder.book).unwrap().extend().unwrap();
    let segments: Vec<String> = files(&folder.book.join("journal")).into_keys().collect();
    assert!(segments.len() > 3, "{segments:?}");
    let first = segments[segments.len() / 2][..20].parse::<u64>().unwrap();
    assert!(first % 256 != 0);
    assert_eq!(writer.prune(first, "old", "maria").unwrap().minimum, first);
    Tlog::open(&folder.book).unwrap().extend().unwrap();
    let before = files(&folder.book.join("tlog"));
    let mut tlog = Tlog::open(&folder.book).unwrap();
    let check = tlog.check().unwrap();
    assert_eq!((check.findings, check.from), (Vec::new(), first));
    assert_eq!(tlog.extend().unwrap().written, 0);
    append(&mut writer, 300, 11);
    assert_eq!(tlog.extend().unwrap().findings, []);
    assert_eq!(tlog.rebuild().unwrap().findings, []);
    assert_eq!(check_whole(&folder.book), 1202);
    let after = files(&folder.book.join("tlog"));
    let full = before
        .iter()
        .filter(|(name, _)| !name.contains(".p/") && *name != "checkpoint");
    for (name, bytes) in full {
        assert!(after[name] == *bytes, "{name}");
    }
    // Entries that are there are proven, others are said to be gone.
    let mut prover = Prover::open(&folder.book).unwrap();
    let entry = Reader::open(&folder.book)
        .unwrap()
        .show(first + 3)
        .unwrap()
        .unwrap()
        .entry;
    prover.prove(first + 3, entry.leaf).unwrap();
    fs::remove_dir_all(folder.book.join("tlog")).unwrap();
    let mut prover = Prover::open(&folder.book).unwrap();
    prover.prove(first + 3, entry.leaf).unwrap();
    let error = prover.prove(first - 1, entry.leaf).unwrap_err();
    assert!(error.to_string().contains("pruned"), "{error}");
    let error = Tlog::open(&folder.book).unwrap().extend().unwrap_err();
    assert!(error.to_string().contains("can't be made anew"), "{error}");
}

#[test]
fn entries_are_proven_with_and_without_tiles() {
    let folder = folder();
    let mut writer = writer(&folder, 12);
    append(&mut writer, 700, 12);
    let entries = |folder: &Folder| {
        let listing = Listing {
            from: None,
            limit: 5000,
            order: Order::OldestFirst,
        };
        Reader::open(&folder.book).unwrap().list(listing).unwrap()
    };
    let prove_all = |folder: &Folder| -> Vec<TlogProof> {
        let mut prover = Prover::open(&folder.book).unwrap();
        let entries = entries(folder);
        let all: Vec<(u64, Hash)> = entries
            .iter()
            .map(|entry| (entry.index, entry.leaf))
            .collect();
        assert!(
            prover
                .signed(&all)
                .unwrap()
                .into_iter()
                .all(|signed| signed)
        );
        let wrong: Vec<(u64, Hash)> = all.iter().map(|(index, leaf)| (index + 1, *leaf)).collect();
        assert!(
            !prover
                .signed(&wrong)
                .unwrap()
                .into_iter()
                .any(|signed| signed)
        );
        let key = [prover.book().vkey.clone()];
        entries
            .iter()
            .step_by(31)
            .map(|entry| {
                let proof = prover.prove(entry.index, entry.leaf).unwrap();
                let again = TlogProof::parse(&proof.to_text()).unwrap();
                assert_eq!(again, proof);
                assert_eq!(
                    again.verify(&key, entry.line.as_bytes()).unwrap().size,
                    entries.len() as u64
                );
                assert!(again.verify(&key, b"{}").is_err());
                assert!(prover.prove(entry.index, Hash([0; 32])).is_err());
                proof
            })
            .collect()
    };
    let without = prove_all(&folder);
    Tlog::open(&folder.book).unwrap().extend().unwrap();
    assert_eq!(prove_all(&folder), without);
    // The log is behind: the rest comes from the journal.
    append(&mut writer, 333, 13);
    let behind = prove_all(&folder);
    // Lies in tiles change nothing.
    for name in ["tile/0/000", "tile/1/000.p/2"] {
        let path = folder.book.join("tlog").join(name);
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(path, vec![7; bytes.len()]).unwrap();
    }
    assert_eq!(prove_all(&folder), behind);
    let mut prover = Prover::open(&folder.book).unwrap();
    assert!(prover.prove(5000, Hash([0; 32])).is_err());
}

#[test]
fn a_proof_can_begin_at_a_compact_range() {
    for size in [1, 2, 3, 7, 8, 100, 255, 256, 257] {
        let all = leaves(size as usize);
        let root = naive_root(&all);
        for start in 0..=size {
            let mut before = CompactRange::default();
            all[..start as usize]
                .iter()
                .for_each(|leaf| before.push(*leaf));
            for index in [start, start + 1, start + 3, size - 1]
                .into_iter()
                .filter(|index| *index < size && *index >= start)
            {
                let mut builder = ProofBuilder::inclusion(index, size).unwrap();
                builder.start(&before).unwrap();
                all[start as usize..]
                    .iter()
                    .for_each(|leaf| builder.push(*leaf));
                let proof = builder.finish().unwrap();
                verify_inclusion(&proof, index, all[index as usize], size, root).unwrap();
            }
            if start >= 2 {
                let mut builder = ProofBuilder::inclusion(0, size).unwrap();
                assert!(
                    builder.start(&before).is_err() || size < 2,
                    "{start} of {size}"
                );
            }
        }
    }
}

#[test]
fn proof_texts_are_read_strictly() {
    let hash = "gSKyXoYZUgZ6jduWYrkDOARinOMGJveXjgMkBTcdPlQ=";
    let good = format!("c2sp.org/tlog-proof@v1\nindex 5\n{hash}\n\nnote\n");
    let proof = TlogProof::parse(&good).unwrap();
    assert_eq!(
        (proof.index, proof.hashes.len(), proof.note.as_str()),
        (5, 1, "note\n")
    );
    assert_eq!(proof.to_text(), good);
    let extra = good.replace("index", "extra YWdl\nindex");
    assert_eq!(TlogProof::parse(&extra).unwrap(), proof);
    for bad in [
        String::new(),
        good.replace("@v1", "@v2"),
        good.replace("index 5", "index 05"),
        good.replace("index 5", "index +5"),
        good.replace("index 5\n", ""),
        good.replace(hash, &hash[..40]),
        good.replace("\n\n", "\n"),
        good.replace("index", "extra !\nindex"),
        good.replace('\n', "\r\n"),
        good.replace(hash, &[hash; 65].join("\n")),
        format!("{good}{}", "x".repeat(1 << 20)),
    ] {
        assert!(
            TlogProof::parse(&bad).is_err(),
            "{}",
            &bad[..bad.len().min(200)]
        );
    }
}

fn writer_size(folder: &Folder) -> u64 {
    Prover::open(&folder.book).unwrap().head().size
}
