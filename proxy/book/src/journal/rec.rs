//! The recovery rules R0 to R9, one test each, on whole books of several segments.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::journal::layout::Layout;
use crate::journal::tests::{
    Folder, KEK, SEED, STEADY, check, draft, folder, id, open_with, options, outcome, sources,
};
use crate::{
    Beat, Body, BookError, Entry, HeadListener, Listing, LookOptions, Order, Pin, Reader,
    RolledBack, Signer, VaultKey, Verdict, VerifyOptions, Writer, WriterOptions, look, verify,
};

fn small(process: &str) -> WriterOptions {
    WriterOptions {
        segment_bytes: 1500,
        ..options(process)
    }
}

fn pinned(pin: &Pin) -> WriterOptions {
    WriterOptions {
        pin: Some(pin.clone()),
        ..small("pinned")
    }
}

/// A book of several segments and the pins of all its heads, oldest first.
fn long() -> (Folder, Vec<Pin>) {
    let folder = folder();
    let heard: Arc<Mutex<Vec<Pin>>> = Arc::default();
    let hear = Arc::clone(&heard);
    let options = WriterOptions {
        heads: HeadListener::new(move |pin| hear.lock().unwrap().push(pin)),
        ..small("p1")
    };
    let mut writer = open_with(&folder.book, 1, options).unwrap();
    for n in 0..20 {
        writer.commit(vec![draft(n, "p1")]).unwrap();
        writer.commit(vec![outcome(n)]).unwrap();
    }
    assert_eq!(writer.head(), *heard.lock().unwrap().last().unwrap());
    drop(writer);
    let pins = heard.lock().unwrap().clone();
    assert_eq!((pins[0].size, pins.last().unwrap().size), (1, 41));
    (folder, pins)
}

fn segments(book: &Path) -> Vec<PathBuf> {
    let layout = Layout::new(book);
    let all = layout.segments().unwrap();
    all.into_iter().map(|first| layout.segment(first)).collect()
}

/// Every file of the book with its bytes.
fn bytes(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(bytes(&path)),
            false => all.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    all.sort();
    all
}

/// Opens the book and answers why it can't be; nothing may have been changed.
fn refused(book: &Path, options: WriterOptions) -> BookError {
    let before = bytes(book);
    let error = open_with(book, 9, options).map(|_| ()).unwrap_err();
    assert_eq!(bytes(book), before, "{error}");
    error
}

fn entries(book: &Path, from: u64) -> Vec<Entry> {
    let listing = Listing {
        from: Some(from),
        limit: 10_000,
        order: Order::OldestFirst,
    };
    Reader::open(book).unwrap().list(listing).unwrap()
}

#[test]
fn rec_0_a_book_that_ends_with_its_checkpoint_opens_as_it_is() {
    let (folder, pins) = long();
    let before = bytes(&folder.book);
    for pin in [&pins[0], &pins[17], &pins[39], &pins[40]] {
        let writer = open_with(&folder.book, 2, pinned(pin)).unwrap();
        assert_eq!((writer.recovery(), writer.size()), (None, 41));
    }
    assert_eq!(bytes(&folder.book), before);
    let found = look(&folder.book, &LookOptions::default()).unwrap();
    assert!(found.fault.is_none() && found.tail.is_none());
    assert_eq!((found.size, found.open_calls.len()), (41, 0));
    assert!(found.first_ts < found.last_ts);
    assert_eq!(found.segments, segments(&folder.book).len() as u64);
}

#[test]
fn rec_1_what_follows_the_last_checkpoint_is_set_aside() {
    let (folder, pins) = long();
    let last = segments(&folder.book).pop().unwrap();
    let whole = std::fs::read(&last).unwrap();
    let tail = b"{\"i\":41}\nhalf a li";
    std::fs::write(&last, [&whole[..], tail].concat()).unwrap();
    let seen = look(&folder.book, &LookOptions::default()).unwrap();
    assert_eq!(seen.tail, Some((tail.len() as u64, 1)));
    let writer = open_with(&folder.book, 2, pinned(&pins[40])).unwrap();
    assert_eq!(writer.recovery().unwrap().bytes, tail.len() as u64);
    drop(writer);
    let seen = look(&folder.book, &LookOptions::default()).unwrap();
    assert_eq!((seen.tail, seen.size), (None, 42));
    assert_eq!(seen.quarantine.len(), 1);
    assert_eq!(seen.quarantine[0].1, tail.len() as u64);
}

#[test]
fn rec_2_b25_a_flipped_byte_is_damage_and_nothing_is_cut_or_added() {
    let (folder, pins) = long();
    let mut damaged = 0;
    for path in segments(&folder.book) {
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(97) {
            let mut changed = whole.clone();
            changed[at] ^= 0x01;
            std::fs::write(&path, &changed).unwrap();
            // Only `verify` reads what lies before the last line of an earlier segment.
            let report = check(&folder.book);
            let tail = report.verdict() == Verdict::UnsignedTail;
            assert!(
                tail || matches!(report.verdict(), Verdict::Changed | Verdict::Unverifiable),
                "{at} {:?}",
                report.findings
            );
            let before = bytes(&folder.book);
            match open_with(&folder.book, 9, pinned(&pins[40])).map(|_| ()) {
                Err(BookError::Damaged(_)) => damaged += 1,
                Err(BookError::Newer { .. }) => {}
                // The last checkpoint itself: what it signed is remembered.
                Err(BookError::RolledBack { .. }) => assert!(tail, "{at}"),
                Ok(()) => {
                    let last = segments(&folder.book).pop().unwrap();
                    assert_ne!(path, last, "byte {at} of the last segment");
                    let line = |at: usize| whole[..at].iter().filter(|b| **b == b'\n').count();
                    assert!(line(at) < line(whole.len()) - 1, "byte {at}");
                }
                Err(error) => panic!("{at}: {error}"),
            }
            assert_eq!(bytes(&folder.book), before, "byte {at}");
        }
        std::fs::write(&path, &whole).unwrap();
    }
    assert!(damaged > 10, "{damaged}");
    assert_eq!(check(&folder.book).verdict(), Verdict::Ok);
}

#[test]
fn rec_3_b26_a_head_below_the_pin_is_rolled_back_and_the_newer_bytes_heal_it() {
    let (folder, pins) = long();
    let newest = pins.last().unwrap();
    let whole = bytes(&folder.book);
    let last = segments(&folder.book).pop().unwrap();
    let text = std::fs::read(&last).unwrap();
    let ends: Vec<usize> = text
        .windows(5)
        .enumerate()
        .filter(|(_, w)| *w == b"\n#cp ")
        .map(|(at, _)| at + 1 + text[at + 1..].iter().position(|b| *b == b'\n').unwrap() + 1)
        .collect();
    let start = text.iter().position(|b| *b == b'\n').unwrap() + 1;
    // The last segment cut after its first checkpoint, in the middle of a batch, before its first entry; and gone.
    for cut in [ends[0], ends[0] + 30, start] {
        std::fs::write(&last, &text[..cut]).unwrap();
        let error = refused(&folder.book, pinned(newest));
        let BookError::RolledBack { pinned: 41, found } = &error else {
            panic!("{error}")
        };
        assert!(matches!(found, RolledBack::Shorter { .. }), "{error}");
        for words in ["old backup", "cut off", "new-era", "nothing was added"] {
            assert!(error.to_string().contains(words), "{error}");
        }
        assert_eq!(error.exit_code(), 32);
    }
    std::fs::remove_file(&last).unwrap();
    let error = refused(&folder.book, pinned(newest));
    assert!(matches!(error, BookError::RolledBack { .. }), "{error}");
    // Without the pin nobody could tell; with it verification says so, too.
    let options = |pin: Option<&Pin>| VerifyOptions {
        pin: pin.cloned(),
        threads: 1,
        ..VerifyOptions::default()
    };
    let verdict = |pin| verify(&folder.book, &options(pin)).unwrap().verdict();
    assert_eq!(verdict(None), Verdict::Ok);
    assert_eq!(verdict(Some(newest)), Verdict::Truncated);
    std::fs::write(&last, &text).unwrap();
    assert_eq!(bytes(&folder.book), whole);
    assert_eq!(verdict(Some(newest)), Verdict::Ok);
    let writer = open_with(&folder.book, 9, pinned(newest)).unwrap();
    assert_eq!(writer.head(), *newest);
}

#[test]
fn rec_3_a_book_rewritten_with_the_key_is_not_the_remembered_one() {
    let (folder, pins) = long();
    let (other, others) = {
        let other = super::tests::folder();
        let mut writer = open_with(&other.book, 5, small("thief")).unwrap();
        for n in 0..50 {
            writer.commit(vec![draft(n + 100, "thief")]).unwrap();
        }
        let head = writer.head();
        (other, head)
    };
    // Longer than what is remembered, same origin, same key, another tree: at the head, at a segment's start, within a segment.
    let first = Layout::new(&other.book).segments().unwrap()[1];
    for size in [41, first, first + 1] {
        let pin = Pin {
            size,
            ..pins[40].clone()
        };
        let error = refused(&other.book, pinned(&pin));
        let rewritten = RolledBack::Rewritten;
        assert!(
            matches!(&error, BookError::RolledBack { found, .. } if *found == rewritten),
            "{error}"
        );
        let options = VerifyOptions {
            pin: Some(pin),
            threads: 1,
            ..VerifyOptions::default()
        };
        let report = verify(&other.book, &options).unwrap();
        assert_eq!(report.verdict(), Verdict::Rewritten);
    }
    let foreign = Pin {
        origin: crate::Origin::from_id([9; 16]),
        ..others
    };
    let error = refused(&folder.book, pinned(&foreign));
    assert_eq!(error.exit_code(), 35, "{error}");
}

#[test]
fn rec_3_an_unwritten_sector_excuses_nothing_that_is_remembered() {
    let folder = folder();
    let mut writer = open_with(&folder.book, 1, options("p1")).unwrap();
    writer.commit(vec![draft(1, "p1")]).unwrap();
    writer.commit(vec![draft(2, "p1"), outcome(2)]).unwrap();
    let pin = writer.head();
    drop(writer);
    let path = segments(&folder.book).pop().unwrap();
    let mut text = std::fs::read(&path).unwrap();
    let sector = (text.len() / 512 - 1) * 512;
    text[sector..sector + 512].fill(0);
    std::fs::write(&path, &text).unwrap();
    let error = refused(&folder.book, pinned(&pin));
    assert!(matches!(error, BookError::RolledBack { .. }), "{error}");
}

#[test]
fn rec_4_b27_a_segment_that_is_gone_is_named_with_its_range() {
    let (folder, pins) = long();
    let all = Layout::new(&folder.book).segments().unwrap();
    assert!(all.len() > 5);
    let paths = segments(&folder.book);
    // The first, one in the middle, two together.
    for range in [0..1, 2..3, 3..5] {
        let kept: Vec<_> = range
            .clone()
            .map(|at| (at, std::fs::read(&paths[at]).unwrap()))
            .collect();
        for at in range.clone() {
            std::fs::remove_file(&paths[at]).unwrap();
        }
        match refused(&folder.book, pinned(&pins[40])) {
            BookError::Removed { from, until, file } => {
                assert_eq!((from, until), (all[range.start], all[range.end] - 1));
                assert_eq!(file, paths[range.start]);
            }
            error => panic!("{error}"),
        }
        let seen = look(&folder.book, &LookOptions::default()).unwrap();
        assert!(matches!(seen.fault, Some(BookError::Removed { .. })));
        for (at, text) in kept {
            std::fs::write(&paths[at], text).unwrap();
        }
    }
    // A segment put in the place of another is no removal.
    let whole = std::fs::read(&paths[2]).unwrap();
    std::fs::copy(&paths[1], &paths[2]).unwrap();
    let error = refused(&folder.book, small("p2"));
    assert!(matches!(error, BookError::Damaged(_)), "{error}");
    std::fs::write(&paths[2], whole).unwrap();
    open_with(&folder.book, 3, small("p2")).unwrap();
}

#[test]
fn rec_6_b30_open_calls_of_the_dead_are_settled() {
    let (folder, _) = long();
    let mut dead = open_with(&folder.book, 1, small("dead")).unwrap();
    dead.commit(vec![draft(90, "dead")]).unwrap();
    drop(dead);
    let seen = look(&folder.book, &LookOptions::default()).unwrap();
    assert_eq!(seen.open_calls[0].process, "dead");
    let mut writer = open_with(&folder.book, 2, small("p2")).unwrap();
    let settled = writer.settle(&|process| process != "dead").unwrap();
    assert_eq!(settled[0].call, id(90));
    let seen = look(&folder.book, &LookOptions::default()).unwrap();
    assert!(seen.open_calls.is_empty());
}

#[test]
fn rec_7_b29_another_key_is_refused_and_nothing_is_made() {
    let (folder, _) = long();
    let before = bytes(&folder.book);
    let open = |seed, vault| {
        Writer::open(
            &folder.book,
            Signer::from_seed(seed),
            VaultKey::from_bytes(vault),
            sources(1),
            small("p2"),
        )
        .map(|_| ())
    };
    assert!(matches!(
        open([1; 32], KEK),
        Err(BookError::WrongKey { .. })
    ));
    assert!(matches!(open(SEED, [1; 32]), Err(BookError::WrongVaultKey)));
    assert_eq!(bytes(&folder.book), before);
    let vkey = Signer::from_seed([1; 32]).vkey(&Reader::open(&folder.book).unwrap().book().origin);
    let options = LookOptions {
        vkeys: vec![vkey],
        pin: None,
    };
    let seen = look(&folder.book, &options).unwrap();
    assert!(matches!(seen.fault, Some(BookError::WrongKey { .. })));
}

#[test]
fn rec_8_b18_two_writers_share_a_book_and_lose_nothing() {
    let (folder, pins) = long();
    let mut one = open_with(&folder.book, 1, pinned(&pins[40])).unwrap();
    let mut two = open_with(&folder.book, 2, pinned(&pins[40])).unwrap();
    for n in 50..60 {
        one.commit(vec![draft(n, "p1")]).unwrap();
        two.commit(vec![outcome(n)]).unwrap();
    }
    assert_eq!((one.size(), two.size()), (60, 61));
    assert_eq!(check(&folder.book).verdict(), Verdict::Ok);
}

#[test]
fn rec_9_a_clock_behind_the_last_entry_is_on_record_once() {
    let (folder, _) = long();
    // A clock that starts anew, far behind what the other writers' clock has come to.
    let mut writer = open_with(&folder.book, STEADY, options("p2")).unwrap();
    let committed = writer.commit(vec![draft(70, "p2"), outcome(70)]).unwrap();
    assert_eq!(
        committed
            .entries
            .iter()
            .map(|e| e.index)
            .collect::<Vec<_>>(),
        [42, 43]
    );
    writer.commit(vec![draft(71, "p2")]).unwrap();
    let added = entries(&folder.book, 40);
    let kinds: Vec<_> = added.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(kinds, ["outcome", "clock", "call", "outcome", "call"]);
    let Some(Body::Clock(clock)) = &added[1].body else {
        panic!("{}", added[1].line)
    };
    assert_eq!(
        (clock.last.as_str(), clock.process.as_str()),
        (added[0].time.as_str(), "p2")
    );
    assert!(
        added[1].time < added[0].time,
        "order is by index, not by time"
    );
    assert_eq!(check(&folder.book).verdict(), Verdict::Ok);
}

#[test]
fn rec_9_the_time_before_an_empty_segment_is_known() {
    let (folder, _) = long();
    let last = segments(&folder.book).pop().unwrap();
    // What a crash between making a segment and writing its first batch leaves: here a whole one is cut back to its first line.
    let text = std::fs::read(&last).unwrap();
    let first = text.iter().position(|b| *b == b'\n').unwrap() + 1;
    std::fs::write(&last, &text[..first]).unwrap();
    let before = check(&folder.book).size;
    let mut writer = open_with(&folder.book, STEADY, options("p2")).unwrap();
    writer.commit(vec![draft(70, "p2")]).unwrap();
    assert_eq!(entries(&folder.book, before)[0].kind, "clock");
}

#[test]
fn b21_a_beat_is_written_by_one_process_where_nothing_else_was() {
    const AFTER: Duration = Duration::from_secs(540);
    let folder = folder();
    let time: Arc<Mutex<i64>> = Arc::new(Mutex::new(1_796_000_100_000));
    let open = |process: &str| {
        let time = Arc::clone(&time);
        let mut sources = sources(1);
        sources.clock =
            Box::new(move || jiff::Timestamp::from_millisecond(*time.lock().unwrap()).unwrap());
        let options = options(process);
        let vault = VaultKey::from_bytes(KEK);
        Writer::open(
            &folder.book,
            Signer::from_seed(SEED),
            vault,
            sources,
            options,
        )
        .unwrap()
    };
    let (mut one, mut two) = (open("p1"), open("p2"));
    one.commit(vec![draft(1, "p1")]).unwrap();
    let pass = |seconds: i64| *time.lock().unwrap() += seconds * 1000;
    let mut beats = |seconds| {
        pass(seconds);
        (one.beat(AFTER).unwrap(), two.beat(AFTER).unwrap())
    };
    assert_eq!(beats(539), (false, false));
    assert_eq!(beats(1), (true, false), "one of them, not each");
    assert_eq!(beats(539), (false, false));
    assert_eq!(beats(541), (true, false));
    // The clock was set back: the beat says so at once instead of being silent until it has caught up.
    assert_eq!(beats(-3600), (true, false));
    let kinds: Vec<_> = entries(&folder.book, 2)
        .into_iter()
        .map(|entry| entry.kind)
        .collect();
    assert_eq!(kinds, ["beat", "beat", "clock", "beat"]);
    let beat = Beat {
        process: "p1".into(),
    };
    assert_eq!(entries(&folder.book, 2)[0].body, Some(Body::Beat(beat)));
}
