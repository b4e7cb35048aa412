//! Entries that were prepared beside the writer, on other threads and for other books.

use super::{KEK, check, draft, folder, id, open, outcome, sources};
use crate::journal::layout::Layout;
use crate::{
    BookError, Draft, EntryError, Field, Origin, Outcome, Payload, Payloads, Prepared, Preparer,
    Reader, Settings, Status, VaultKey, Verdict,
};

/// As a caller's thread would.
fn prepare(preparer: &Preparer, seed: u64, draft: Draft) -> Result<Prepared, BookError> {
    preparer.prepare(draft, &mut sources(seed).entropy)
}

#[test]
fn b15_entries_prepared_beside_the_writer_stand_as_if_it_had_prepared_them() {
    let folder = folder();
    let mut writer = open(&folder.book, "p1");
    let preparer = writer.preparer();
    let drafts = (0..4).map(|n| draft(n, "p1")).chain((0..4).map(outcome));
    let batch: Vec<Prepared> = std::thread::scope(|scope| {
        let tasks: Vec<_> = (100..)
            .zip(drafts)
            .map(|(seed, draft)| {
                let preparer = &preparer;
                scope.spawn(move || prepare(preparer, seed, draft).unwrap())
            })
            .collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    });
    let committed = writer.commit_prepared(|| batch).unwrap().unwrap();
    assert_eq!(committed.entries.len(), 8);
    let report = check(&folder.book);
    assert_eq!(report.verdict(), Verdict::Ok, "{:?}", report.findings);
    assert_eq!((report.size, report.payloads), (9, 8));
    let (reader, key) = (
        Reader::open(&folder.book).unwrap(),
        VaultKey::from_bytes(KEK),
    );
    let calls = (1..5).map(|n| (n, Field::Args));
    for (index, field) in calls.chain((5..9).map(|n| (n, Field::Result))) {
        let payload = reader.payload(&key, index, field).unwrap();
        let canary = format!("canary-{}", (index - 1) % 4);
        assert!(String::from_utf8(payload).unwrap().contains(&canary));
    }
}

#[test]
fn prepared_entries_are_asked_for_when_everything_before_them_is_read() {
    let folder = folder();
    let (mut one, mut two) = (open(&folder.book, "p1"), open(&folder.book, "p2"));
    two.commit(vec![draft(1, "p2")]).unwrap();
    let (preparer, size) = (one.preparer(), two.size());
    let lock = Layout::new(&folder.book).lock();
    let take = || {
        assert!(!crate::files::lock_is_free(&lock));
        vec![prepare(&preparer, 1, draft(2, "p1")).unwrap()]
    };
    let committed = one.commit_prepared(take).unwrap().unwrap();
    assert_eq!(committed.entries[0].index, size);
    // Nothing to write is no batch.
    assert!(one.commit_prepared(Vec::new).unwrap().is_none());
    assert_eq!(check(&folder.book).checkpoints, 3);
}

#[test]
fn b29_what_was_sealed_for_another_book_or_key_is_refused_and_the_writer_goes_on() {
    let folder = folder();
    let mut writer = open(&folder.book, "p1");
    let (ours, keep) = (Origin::from_id([3; 16]), Payloads::Keep { limit: 1 << 20 });
    let others = [
        Preparer::new(Origin::from_id([4; 16]), VaultKey::from_bytes(KEK), keep),
        Preparer::new(ours.clone(), VaultKey::from_bytes([99; 32]), keep),
    ];
    let size = writer.size();
    for other in &others {
        let mine = prepare(&writer.preparer(), 1, draft(1, "p1")).unwrap();
        let strange = prepare(other, 2, draft(2, "p1")).unwrap();
        let refused = writer.commit_prepared(|| vec![mine, strange]).unwrap_err();
        assert!(matches!(refused, BookError::Entry(EntryError::OtherBook)));
        assert!(writer.poisoned().is_none());
        assert_eq!(check(&folder.book).size, size);
    }
    // The same book and key, whoever prepared it; and what nobody sealed.
    let again = Preparer::new(ours, VaultKey::from_bytes(KEK), keep);
    let settings = Settings {
        by: "p1".to_owned(),
        hash: crate::Hash([0; 32]),
    };
    let batch = vec![
        prepare(&again, 3, draft(3, "p1")).unwrap(),
        prepare(&others[0], 4, Draft::new(settings)).unwrap(),
    ];
    writer.commit_prepared(|| batch).unwrap();
    assert_eq!(check(&folder.book).size, size + 2);
}

#[test]
fn b7_what_no_entry_can_be_made_of_is_refused_when_it_is_prepared() {
    let folder = folder();
    let preparer = open(&folder.book, "p1").preparer();
    let mut long = Outcome::new(id(1), Status::Error);
    long.why = Some("x".repeat(17_000));
    for (bad, what) in [
        (Draft::new(long), "would be"),
        (
            outcome(1).with(Field::Args, Payload::new("x")),
            "no payload",
        ),
        (
            outcome(1).with(Field::Result, Payload::new("x")),
            "no payload",
        ),
    ] {
        let refused = prepare(&preparer, 1, bad).unwrap_err();
        assert!(refused.to_string().contains(what), "{refused}");
    }
    let mut fails = |_: &mut [u8]| Err(std::io::Error::other("no"));
    let refused = preparer.prepare(outcome(1), &mut fails).unwrap_err();
    assert!(matches!(refused, BookError::Entropy(_)));
    assert_eq!(
        format!("{preparer:?}"),
        format!("Preparer({})", Origin::from_id([3; 16]))
    );
}
