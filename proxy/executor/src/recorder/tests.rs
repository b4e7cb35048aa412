//! The queue and its thread over a real book in a temporary folder.

use std::path::Path;

use countersign_book::{
    Body, Listing, NewBook, Order, Origin, Reader, Settings, Signer, VaultKey, WriterOptions,
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
        .map_err(|error| Stopped::from(&error))
    };
    Recorder::start(open, |_| true, Box::new(|_| Vec::new())).unwrap()
}

fn entry(by: usize) -> Vec<Draft> {
    vec![Draft::new(Settings {
        by: format!("{by}"),
        hash: countersign_book::Hash([0; 32]),
    })]
}

/// What the settings entries of the book say, in order.
fn written(dir: &Path) -> Vec<usize> {
    let listing = Listing {
        from: Some(0),
        limit: usize::MAX,
        order: Order::OldestFirst,
    };
    let entries = Reader::open(&dir.join("book"))
        .unwrap()
        .list(listing)
        .unwrap();
    let by = |entry: countersign_book::Entry| match entry.body {
        Some(Body::Settings(settings)) => settings.by.parse().ok(),
        _ => None,
    };
    entries.into_iter().filter_map(by).collect()
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
        || Err(Stopped::plain("no such book")),
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
