//! The queue and its thread over a real book in a temporary folder.

use std::path::Path;

use countersign_book::{
    Body, Gap, Listing, NewBook, Order, Origin, Reader, Settings, Signer, VaultKey, WriterOptions,
};

use super::*;
use crate::keeper::sources;

fn book() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let new = NewBook {
        origin: Origin::from_id([7; 16]),
        development: true,
        name: None,
        program: None,
        process: "test".to_owned(),
    };
    countersign_book::create(
        &dir.path().join("book"),
        &new,
        &Signer::from_seed([1; 32]),
        &mut sources(),
    )
    .unwrap();
    dir
}

fn recorder(dir: &Path) -> Recorder {
    let dir = dir.join("book");
    let open = move || {
        Writer::open(
            &dir,
            Signer::from_seed([1; 32]),
            VaultKey::from_bytes([2; 32]),
            sources(),
            WriterOptions::new("test"),
        )
    };
    Recorder::start("test", open, |_| true, Box::new(|_| Vec::new())).unwrap()
}

fn entry(by: usize) -> Vec<Draft> {
    vec![Draft::new(Settings {
        by: format!("{by}"),
        hash: countersign_book::Hash([0; 32]),
    })]
}

/// What the settings entries of the book say, in order.
fn written(dir: &Path) -> Vec<usize> {
    let by = |body| match body {
        Body::Settings(settings) => settings.by.parse().ok(),
        _ => None,
    };
    bodies(dir).into_iter().filter_map(by).collect()
}

fn bodies(dir: &Path) -> Vec<Body> {
    let listing = Listing {
        from: Some(0),
        limit: usize::MAX,
        order: Order::OldestFirst,
    };
    let entries = Reader::open(&dir.join("book"))
        .unwrap()
        .list(listing)
        .unwrap();
    entries.into_iter().filter_map(|entry| entry.body).collect()
}

#[tokio::test]
async fn b13_durable_means_on_disk_when_it_returns_with_what_was_queued_before() {
    let dir = book();
    let recorder = recorder(dir.path());
    recorder.submit(entry(1), 0, When::Queued).await.unwrap();
    recorder.submit(entry(2), 0, When::Durable).await.unwrap();
    assert_eq!(written(dir.path()), [1, 2]);
}

#[tokio::test]
async fn queued_entries_are_written_without_anybody_waiting() {
    let dir = book();
    let recorder = recorder(dir.path());
    recorder.queue(entry(1), 0).unwrap();
    for _ in 0..500 {
        if written(dir.path()) == [1] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not written");
}

#[tokio::test]
async fn b17_many_callers_share_batches_and_each_entry_stands_once() {
    let dir = book();
    let recorder = recorder(dir.path());
    let callers: Vec<_> = (0..200)
        .map(|by| {
            let recorder = recorder.clone();
            tokio::spawn(async move { recorder.submit(entry(by), 0, When::Durable).await })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    let mut found = written(dir.path());
    found.sort_unstable();
    assert_eq!(found, (0..200).collect::<Vec<_>>());
    let report = countersign_book::verify(
        &dir.path().join("book"),
        &countersign_book::VerifyOptions::default(),
    )
    .unwrap();
    assert!(report.findings.is_empty());
    assert!(
        report.checkpoints < 150,
        "{} batches for 200 entries of callers that waited together",
        report.checkpoints
    );
}

#[tokio::test]
async fn a_book_that_cannot_be_opened_answers_everybody_with_the_same_words() {
    let recorder = Recorder::start(
        "test",
        || Err(BookError::NotFound("no such book".to_owned())),
        |_| true,
        Box::new(|_| Vec::new()),
    )
    .unwrap();
    for _ in 0..3 {
        let refused = recorder
            .submit(entry(1), 0, When::Durable)
            .await
            .unwrap_err();
        assert_eq!(refused.to_string(), "no such book");
    }
    assert!(recorder.queue(entry(1), 0).is_err());
}

#[tokio::test]
async fn closing_writes_what_is_queued_and_then_refuses() {
    let dir = book();
    let recorder = recorder(dir.path());
    for by in 0..50 {
        recorder.queue(entry(by), 0).unwrap();
    }
    recorder.close(Duration::from_secs(30));
    assert_eq!(written(dir.path()), (0..50).collect::<Vec<_>>());
    assert!(recorder.submit(entry(50), 0, When::Durable).await.is_err());
}

#[tokio::test]
async fn b16_an_outage_ends_by_itself_and_is_on_record() {
    let dir = book();
    let (path, mut tries) = (dir.path().join("book"), 0);
    let open = move || {
        tries += 1;
        if tries == 1 {
            return Err(BookError::Io {
                action: "write",
                path: path.clone(),
                source: std::io::ErrorKind::StorageFull.into(),
            });
        }
        Writer::open(
            &path,
            Signer::from_seed([1; 32]),
            VaultKey::from_bytes([2; 32]),
            sources(),
            WriterOptions::new("test"),
        )
    };
    let recorder = Recorder::start("test", open, |_| true, Box::new(|_| Vec::new())).unwrap();
    let mut refused = 0;
    let end = Instant::now() + Duration::from_secs(60);
    while let Err(stopped) = recorder.submit(entry(1), 0, When::Durable).await {
        refused += 1;
        assert_eq!(stopped.why(), "no space is left on the disk");
        assert!(Instant::now() < end, "it never ended");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(refused > 0);
    assert_eq!(written(dir.path()), [1], "nothing refused is written later");
    let gaps: Vec<Gap> = bodies(dir.path())
        .into_iter()
        .filter_map(|body| match body {
            Body::Gap(gap) => Some(gap),
            _ => None,
        })
        .collect();
    let count: u64 = gaps.iter().filter_map(|gap| gap.count).map(|n| n.0).sum();
    assert_eq!(count, refused);
    for gap in gaps {
        assert_eq!(
            (gap.reason.as_str(), gap.process.as_str()),
            ("no_space", "test")
        );
        assert!(gap.from.is_some() && gap.from <= gap.until);
    }
}

/// A settings entry, and one no line has room for.
fn good_and_bad(by: usize) -> Vec<Draft> {
    let long = Settings {
        by: "x".repeat(20_000),
        hash: countersign_book::Hash([0; 32]),
    };
    entry(by).into_iter().chain([Draft::new(long)]).collect()
}

#[tokio::test]
async fn b7_a_draft_no_entry_can_be_made_of_fails_its_own_submission_and_no_other() {
    let dir = book();
    let recorder = recorder(dir.path());
    // Once while the book is being opened, once while it is open.
    for round in [0, 10] {
        let submit = |drafts| recorder.submit(drafts, 0, When::Durable);
        let (before, bad, after) = tokio::join!(
            submit(entry(round + 1)),
            submit(good_and_bad(round + 2)),
            submit(entry(round + 3)),
        );
        let bad = bad.unwrap_err();
        assert!((before.is_ok(), after.is_ok()) == (true, true));
        assert_eq!(bad.why(), "no entry of the record can be made of it");
        assert!(bad.to_string().contains("would be"), "{bad}");
    }
    assert_eq!(written(dir.path()), [1, 3, 11, 13]);
}

#[tokio::test]
async fn entries_of_one_caller_stand_in_the_order_it_handed_them_over() {
    let dir = book();
    let recorder = recorder(dir.path());
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let recorder = recorder.clone();
            tokio::spawn(async move {
                for n in 0..40 {
                    let when = match n % 10 {
                        9 => When::Durable,
                        _ => When::Queued,
                    };
                    let entry = entry(caller * 100 + n);
                    recorder.submit(entry, 0, when).await.unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    recorder.close(Duration::from_secs(30));
    let all = written(dir.path());
    for caller in 0..8 {
        let of = all.iter().filter(|by| **by / 100 == caller).copied();
        let expected: Vec<usize> = (0..40).map(|n| caller * 100 + n).collect();
        assert_eq!(of.collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn b16_what_an_outage_takes_along_before_it_was_asked_for_is_counted_and_answered() {
    let dir = book();
    let recorder = recorder(dir.path());
    recorder.submit(entry(1), 0, When::Durable).await.unwrap();
    let journal = dir.path().join("book/journal");
    std::fs::rename(&journal, dir.path().join("away")).unwrap();
    recorder.queue(entry(2), 0).unwrap();
    let refused = recorder
        .submit(entry(3), 0, When::Durable)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("taken away"), "{refused}");
    std::fs::rename(dir.path().join("away"), &journal).unwrap();
    assert_eq!(written(dir.path()), [1]);
    assert!(recorder.queue(entry(4), 0).is_err());
}

#[tokio::test]
async fn b17_who_gives_up_waiting_keeps_nobody_else_of_the_batch_waiting() {
    let dir = book();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let path = dir.path().join("book");
    let open = move || {
        let _ = wait.recv();
        Writer::open(
            &path,
            Signer::from_seed([1; 32]),
            VaultKey::from_bytes([2; 32]),
            sources(),
            WriterOptions::new("test"),
        )
    };
    let recorder = Recorder::start("test", open, |_| true, Box::new(|_| Vec::new())).unwrap();
    let submit = |by| {
        let recorder = recorder.clone();
        async move { recorder.submit(entry(by), 0, When::Durable).await }
    };
    // The first and the third hand their entries over and go away, before the answer and with it.
    assert!(
        tokio::time::timeout(Duration::ZERO, submit(0))
            .await
            .is_err()
    );
    let second = tokio::spawn(submit(1));
    tokio::task::yield_now().await;
    let third = tokio::spawn(submit(2));
    let others: Vec<_> = (3..40).map(|by| tokio::spawn(submit(by))).collect();
    tokio::task::yield_now().await;
    third.abort();
    go.send(()).unwrap();
    second.await.unwrap().unwrap();
    for other in others {
        other.await.unwrap().unwrap();
    }
    assert_eq!(written(dir.path()), (0..40).collect::<Vec<_>>());
}
