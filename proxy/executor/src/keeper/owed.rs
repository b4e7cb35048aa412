//! Entries the store owes the book: what happened to turns in processes that ended before they wrote it. Owns when they are written and
//! that each is written once; refuses to know what they mean.
//!
//! A fact is kept in the store by the transaction that makes it, written with the call's own entries, and then forgotten: book first,
//! so that a crash loses none. What is older than [`SETTLED`] belongs to nobody any more: one process at a time, under `run/owed.lock`,
//! looks for each in the book, writes those that are not there, and forgets them all. Should one stand there twice after all (its process
//! slept between its two steps for longer), the first counts, as FORMAT.md says.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use countersign_book::{Body, BookError, Entry, Listing, Order, Reader};
use countersign_gate::turn::{TurnFact, What};
use jiff::{SignedDuration, Timestamp};

use crate::folder::Folder;
use crate::recorder::{Chore, turns};
use crate::store::{SharedStore, StoreFault};

/// How old a fact must be before somebody else writes it: no submission waits that long.
const SETTLED: SignedDuration = SignedDuration::from_secs(60);

/// How far the clocks of writing and of happening may be apart, and how many entries are looked through at most.
const SLACK: SignedDuration = SignedDuration::from_hours(1);
const MOST: usize = 200_000;
const PAGE: usize = 16_384;

/// What makes an entry the only one of its kind.
type Identity = (&'static str, String, u64);

/// The chore of one round, if anything is owed and no other process is at it.
pub(super) fn owed(folder: &Folder, store: &Arc<SharedStore>, now: Timestamp) -> Option<Chore> {
    match look(folder, store, now) {
        Ok(chore) => chore,
        Err(error) => {
            tracing::warn!(%error, "what happened to turns cannot be brought into the book now; it is tried again");
            None
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum OwedError {
    #[error(transparent)]
    Store(#[from] StoreFault),
    #[error(transparent)]
    Book(#[from] BookError),
}

fn look(
    folder: &Folder,
    store: &Arc<SharedStore>,
    now: Timestamp,
) -> Result<Option<Chore>, OwedError> {
    if settled(store, now)?.is_empty() {
        return Ok(None);
    }
    let Ok(lock) = folder.lock("owed.lock", Duration::ZERO) else {
        return Ok(None);
    };
    let facts = settled(store, now)?;
    let Some(since) = facts.iter().map(|fact| fact.at).min() else {
        return Ok(None);
    };
    let written = written(folder, since)?;
    let drafts: Vec<_> = facts
        .iter()
        .filter(|fact| !written.contains(&identity(fact)))
        .map(turns::draft)
        .collect();
    if drafts.is_empty() {
        store.state.turn_facts_recorded(&facts)?;
        return Ok(None);
    }
    let store = Arc::clone(store);
    Ok(Some(Chore {
        drafts,
        done: Box::new(move || {
            if let Err(error) = store.state.turn_facts_recorded(&facts) {
                tracing::warn!(%error, "what is in the book of turns is looked for there again");
            }
            drop(lock);
        }),
    }))
}

/// Facts that nobody is writing just now. One from the future is of a clock that was set back since.
fn settled(store: &SharedStore, now: Timestamp) -> Result<Vec<TurnFact>, StoreFault> {
    let mut facts = store.state.turn_facts_owed(Timestamp::MAX)?;
    facts.retain(|fact| now.duration_since(fact.at).abs() > SETTLED);
    Ok(facts)
}

fn identity(fact: &TurnFact) -> Identity {
    (fact.what.kind(), fact.agent.clone(), fact.turn)
}

fn identity_of(entry: &Entry) -> Option<Identity> {
    let (kind, agent, turn) = match entry.body.as_ref()? {
        Body::TurnOpen(open) => (What::Opened, &open.agent, open.turn),
        Body::TurnClose(close) => (What::Closed, &close.agent, close.turn),
        Body::TurnFailed(failed) => (What::Failed, &failed.agent, failed.turn),
        _ => return None,
    };
    Some((kind.kind(), agent.clone(), turn.0))
}

/// What the book says of turns since `since`, newest first until then.
fn written(folder: &Folder, since: Timestamp) -> Result<BTreeSet<Identity>, BookError> {
    let reader = Reader::open(&folder.book())?;
    let earliest = since.saturating_sub(SLACK).unwrap_or(Timestamp::MIN);
    let (mut found, mut seen, mut from) = (BTreeSet::new(), 0, None);
    while seen < MOST {
        let page = reader.list(Listing {
            from,
            limit: PAGE,
            order: Order::NewestFirst,
        })?;
        found.extend(page.iter().filter_map(identity_of));
        seen += page.len();
        let Some(oldest) = page.last() else { break };
        let before = oldest
            .time
            .parse::<Timestamp>()
            .is_ok_and(|time| time < earliest);
        if oldest.index == 0 || before {
            break;
        }
        from = Some(oldest.index - 1);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use countersign_book::{NewBook, Origin, Signer, VaultKey, Writer, WriterOptions, create};
    use countersign_gate::turn::By;

    use super::*;
    use crate::commands::testing::world;
    use crate::keeper::sources;

    struct Machine {
        _temp: tempfile::TempDir,
        folder: Folder,
        store: Arc<SharedStore>,
        now: Timestamp,
    }

    impl Machine {
        /// An executor whose agent `a` had a turn that was opened twice five minutes ago, by a process that wrote none of it.
        fn new() -> Self {
            let (temp, context) = world();
            let folder = context.folder;
            let new = NewBook {
                origin: Origin::from_id([1; 16]),
                development: true,
                name: None,
                program: None,
                process: "init".into(),
            };
            let signer = Signer::from_seed([1; 32]);
            create(&folder.book(), &new, &signer, &mut sources()).unwrap();
            let machine = Self {
                store: Arc::new(SharedStore::open(&folder).unwrap()),
                _temp: temp,
                folder,
                now: Timestamp::now(),
            };
            let then = machine.now - SignedDuration::from_mins(5);
            machine.store.state.turn_arrive("a", 0, then).unwrap();
            let opened = machine.store.state.turn_open("a", By::Command, then);
            assert!(opened.unwrap().is_some());
            machine
        }

        fn writer(&self) -> Writer {
            let vault = VaultKey::from_bytes([2; 32]);
            let signer = Signer::from_seed([1; 32]);
            let options = WriterOptions::new("p");
            Writer::open(&self.folder.book(), signer, vault, sources(), options).unwrap()
        }

        fn owed(&self) -> usize {
            self.store
                .state
                .turn_facts_owed(Timestamp::MAX)
                .unwrap()
                .len()
        }

        /// The kinds of the book's turn entries.
        fn kinds(&self) -> Vec<String> {
            let listing = Listing {
                from: None,
                limit: 1000,
                order: Order::OldestFirst,
            };
            let entries = Reader::open(&self.folder.book()).unwrap().list(listing);
            let entries = entries.unwrap().into_iter();
            entries
                .filter(|entry| entry.kind.starts_with("turn."))
                .map(|entry| entry.kind)
                .collect()
        }
    }

    #[test]
    fn what_a_dead_process_owed_is_written_once_in_its_order() {
        let machine = Machine::new();
        let mut writer = machine.writer();
        let chore = owed(&machine.folder, &machine.store, machine.now).unwrap();
        // While one process is at it, another leaves it alone.
        assert!(owed(&machine.folder, &machine.store, machine.now).is_none());
        writer.commit(chore.drafts).unwrap();
        (chore.done)();
        assert_eq!(machine.owed(), 0);
        assert_eq!(machine.kinds(), ["turn.open", "turn.close", "turn.open"]);
        assert!(owed(&machine.folder, &machine.store, machine.now).is_none());
    }

    #[test]
    fn a_crash_between_writing_and_forgetting_writes_nothing_twice() {
        let machine = Machine::new();
        let mut writer = machine.writer();
        let chore = owed(&machine.folder, &machine.store, machine.now).unwrap();
        let mut drafts = chore.drafts;
        // It died after its second entry; its lock goes with it.
        drafts.truncate(2);
        writer.commit(drafts).unwrap();
        drop(chore.done);
        assert_eq!((machine.owed(), machine.kinds().len()), (3, 2));
        let chore = owed(&machine.folder, &machine.store, machine.now).unwrap();
        assert_eq!(chore.drafts.len(), 1);
        writer.commit(chore.drafts).unwrap();
        drop(chore.done);
        // And once more, when all is there: nothing is written, all is forgotten.
        assert!(owed(&machine.folder, &machine.store, machine.now).is_none());
        assert_eq!(machine.owed(), 0);
        assert_eq!(machine.kinds(), ["turn.open", "turn.close", "turn.open"]);
    }

    #[test]
    fn a_fact_that_somebody_may_be_writing_is_left_to_them() {
        let machine = Machine::new();
        let then = machine.now - SignedDuration::from_mins(5);
        for (later, is_owed) in [(0, false), (59, false), (61, true), (-61, true)] {
            let now = then + SignedDuration::from_secs(later);
            let chore = owed(&machine.folder, &machine.store, now);
            assert_eq!(chore.is_some(), is_owed, "{later}");
        }
    }

    #[test]
    fn a_book_that_cannot_be_read_takes_nothing_from_what_is_owed() {
        let machine = Machine::new();
        std::fs::write(machine.folder.book().join("BOOK"), "nothing").unwrap();
        assert!(owed(&machine.folder, &machine.store, machine.now).is_none());
        assert_eq!(machine.owed(), 3);
    }
}
