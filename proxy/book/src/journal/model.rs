//! A model of the book (a list of acknowledged call ids) against the real one: batches by several writers, crashes that
//! cut the tail anywhere, reopening, settling.

use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof};

use crate::journal::layout::Layout;
use crate::journal::tests::{KEK, SEED, check, draft, folder, id, options, outcome, sources};
use crate::{Body, Listing, Order, Reader, Verdict, Writer, WriterOptions};

#[derive(Clone, Debug)]
enum Step {
    /// Writer `.0` commits a batch of `.1` calls.
    Commit(usize, u64),
    /// Writer `.0` ends a call of its own.
    End(usize),
    /// All processes die while writer `.0` writes: of the batch's bytes `.1` thousandths are on disk.
    Crash(usize, u64),
    /// Writer `.0` settles what the others left.
    Settle(usize),
    /// Writer `.0` ends and is opened again.
    Reopen(usize),
    /// Writer `.0` puts a new key in force; the others fetch it.
    Rotate(usize),
    /// Writer `.0` erases the payload of an acknowledged call, and all processes die when `.1` of the steps after the entry
    /// are done.
    Erase(usize, usize, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let writer = 0usize..3;
    prop_oneof![
        4 => (writer.clone(), 1u64..5).prop_map(|(w, n)| Step::Commit(w, n)),
        2 => writer.clone().prop_map(Step::End),
        2 => (writer.clone(), 0u64..1000).prop_map(|(w, n)| Step::Crash(w, n)),
        1 => writer.clone().prop_map(Step::Settle),
        1 => writer.clone().prop_map(Step::Reopen),
        1 => writer.clone().prop_map(Step::Rotate),
        1 => (writer, any::<usize>(), 0u8..3).prop_map(|(w, n, done)| Step::Erase(w, n, done)),
        1 => any::<bool>().prop_flat_map(|_| Just(Step::Commit(0, 1))),
    ]
}

proptest::proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn b14_acknowledged_entries_are_there_in_order_and_once(steps in proptest::collection::vec(step(), 1..24)) {
        run(&steps);
    }
}

fn run(steps: &[Step]) {
    let folder = folder();
    let layout = Layout::new(&folder.book);
    let settings = |w: usize| WriterOptions {
        segment_bytes: 4000,
        vault_segment_bytes: 2000,
        ..options(&format!("p{w}"))
    };
    let mut seed = 100;
    // The secret store: every key there is, found by who needs it.
    let store = std::sync::Arc::new(std::sync::Mutex::new(vec![SEED]));
    let shelf = std::sync::Arc::clone(&store);
    let mut open = |w: usize| {
        seed += 1;
        let origin = crate::Origin::from_id([3; 16]);
        let shelf = std::sync::Arc::clone(&shelf);
        let keys = crate::Signers::new(Vec::new()).or_fetch(Box::new(move |vkey| {
            let seeds = shelf.lock().unwrap().clone();
            let mut signers = seeds.into_iter().map(crate::Signer::from_seed);
            signers.find(|signer| signer.vkey(&origin) == *vkey)
        }));
        let vault = crate::VaultKey::from_bytes(KEK);
        Writer::open(&folder.book, keys, vault, sources(seed), settings(w)).unwrap()
    };
    let mut erased = std::collections::BTreeSet::new();
    let mut writers: Vec<Writer> = (0..3).map(&mut open).collect();
    let mut acknowledged: Vec<u64> = Vec::new();
    let mut ended = std::collections::BTreeSet::new();
    let mut next = 0;
    for step in steps {
        match *step {
            Step::Commit(w, count) => {
                let batch: Vec<u64> = (next..next + count).collect();
                next += count;
                writers[w]
                    .commit(batch.iter().map(|n| draft(*n, &format!("p{w}"))).collect())
                    .unwrap();
                acknowledged.extend(batch);
            }
            Step::End(w) => {
                let Some(call) = acknowledged
                    .iter()
                    .rev()
                    .find(|call| !ended.contains(*call))
                    .copied()
                else {
                    continue;
                };
                writers[w].commit(vec![outcome(call)]).unwrap();
                ended.insert(call);
            }
            Step::Crash(w, part) => {
                let count = layout.segments().unwrap().len();
                let path = layout.segment(*layout.segments().unwrap().last().unwrap());
                let before = std::fs::metadata(&path).unwrap().len();
                writers[w]
                    .commit(vec![draft(next, "lost"), draft(next + 1, "lost")])
                    .unwrap();
                next += 2;
                // A batch that began a segment is cut within that one, after its first line.
                let last = layout.segment(*layout.segments().unwrap().last().unwrap());
                let bytes = std::fs::read(&last).unwrap();
                let start = if layout.segments().unwrap().len() > count {
                    bytes.iter().position(|b| *b == b'\n').unwrap() as u64 + 1
                } else {
                    before
                };
                let cut = start + (bytes.len() as u64 - start) * part / 1000;
                std::fs::write(&last, &bytes[..cut as usize]).unwrap();
                writers = (0..3).map(&mut open).collect();
            }
            Step::Settle(w) => {
                for call in writers[w]
                    .settle(&|process| process == format!("p{w}"))
                    .unwrap()
                {
                    let n = acknowledged
                        .iter()
                        .find(|n| id(**n) == call.call)
                        .copied()
                        .unwrap();
                    assert!(ended.insert(n), "{n} was settled twice");
                }
            }
            Step::Reopen(w) => writers[w] = open(w),
            Step::Rotate(w) => {
                let count = store.lock().unwrap().len() as u8;
                store.lock().unwrap().push([100 + count; 32]);
                writers[w]
                    .rotate_key(crate::Signer::from_seed([100 + count; 32]), "model")
                    .unwrap();
            }
            Step::Erase(w, which, done) => {
                let Some(n) = acknowledged.get(which % acknowledged.len().max(1)).copied() else {
                    continue;
                };
                // Where the call stands depends on what was settled and set aside between.
                let listing = Listing {
                    from: Some(0),
                    limit: usize::MAX,
                    order: Order::OldestFirst,
                };
                let entries = Reader::open(&folder.book).unwrap().list(listing).unwrap();
                let index = entries
                    .iter()
                    .find(
                        |entry| matches!(&entry.body, Some(Body::Call(call)) if call.call == id(n)),
                    )
                    .map(|entry| entry.index)
                    .unwrap();
                let size = entries.len();
                let vaults: Vec<_> = layout
                    .vault_segments()
                    .unwrap()
                    .into_iter()
                    .map(|number| layout.vault_segment(number))
                    .map(|path| (std::fs::read(&path).unwrap(), path))
                    .collect();
                let answer = writers[w].erase(index, &[], "model", "model").unwrap();
                assert_eq!(answer.entry.is_some(), erased.insert(index));
                if answer.entry.is_some() && done < 2 {
                    // The vault as before, or as after, and the note still there.
                    if done == 0 {
                        for (bytes, path) in vaults {
                            std::fs::write(path, bytes).unwrap();
                        }
                    }
                    let pending = folder.book.join("removal.pending");
                    std::fs::write(pending, format!("countersign removal 1\n{size}\n")).unwrap();
                    writers = (0..3).map(&mut open).collect();
                }
            }
        }
    }
    drop(writers);
    let report = check(&folder.book);
    assert_eq!(report.verdict(), Verdict::Ok, "{:?}", report.findings);
    let entries = Reader::open(&folder.book)
        .unwrap()
        .list(Listing {
            from: None,
            limit: usize::MAX,
            order: Order::OldestFirst,
        })
        .unwrap();
    assert_eq!(entries.len() as u64, report.size);
    let reader = Reader::open(&folder.book).unwrap();
    let on_record = report
        .findings
        .iter()
        .map(|finding| (finding.index, finding.kind));
    let expected = erased
        .iter()
        .map(|index| (*index, crate::FindingKind::PayloadErased));
    assert_eq!(on_record.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert_eq!(reader.keys().unwrap().1.len(), store.lock().unwrap().len());
    let mut calls = Vec::new();
    let mut outcomes = std::collections::BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        assert_eq!(entry.index, index as u64);
        match entry.body.as_ref().unwrap() {
            Body::Call(call) => calls.push(call.call.clone()),
            Body::Outcome(outcome) => *outcomes.entry(outcome.call.clone()).or_insert(0) += 1,
            _ => {}
        }
    }
    assert_eq!(
        calls,
        acknowledged.iter().map(|n| id(*n)).collect::<Vec<_>>()
    );
    assert_eq!(outcomes, ended.iter().map(|n| (id(*n), 1)).collect());
}
