//! Entries the store owes the book: what happened to turns in processes that ended before they wrote it, and what was decided about held
//! calls. Owns when they are written and that each is written once; refuses to know what they mean.
//!
//! A fact is kept in the store by the transaction that makes it, then written, then forgotten: book first, so that a crash loses none.
//! Facts of turns are written with the call they belong to; what is older than [`SETTLED`] belongs to nobody any more. One process at a
//! time, under `run/owed.lock`, looks for each in the book, writes those that are not there, and forgets them all. Should one stand there
//! twice after all (its process slept between its two steps for longer), the first counts, as FORMAT.md says.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use countersign_book::{Body, BookError, Decided, Draft, Entry, Listing, Order, Reader};
use countersign_gate::turn::{TurnFact, What};
use jiff::{SignedDuration, Timestamp};

use crate::folder::{FileLock, Folder};
use crate::recorder::{Chore, decisions, turns};
use crate::store::{DecidedFact, SharedStore, StateDb, StoreFault};

/// How old a fact of a turn must be before somebody else writes it: no submission waits that long.
const SETTLED: SignedDuration = SignedDuration::from_secs(60);

/// How far the clocks of writing and of happening may be apart, and how many entries are looked through at most.
const SLACK: SignedDuration = SignedDuration::from_hours(1);
const MOST: usize = 200_000;
const PAGE: usize = 16_384;

/// What makes an entry the only one of its kind: kind, whom or what it is about, number or verdict.
type Identity = (&'static str, String, u64);

/// Facts that are to be written now, by nobody else as long as this lives.
pub struct Owed {
    /// Those that are not in the book.
    pub drafts: Vec<Draft>,
    facts: Facts,
    _lock: FileLock,
}

#[derive(Default)]
struct Facts {
    turns: Vec<TurnFact>,
    decisions: Vec<DecidedFact>,
}

/// Why nothing can be said of what is owed. Nothing is lost.
#[derive(Debug, thiserror::Error)]
pub enum OwedError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreFault),
    /// The book.
    #[error(transparent)]
    Book(#[from] BookError),
}

/// The chore of one round, if anything is owed and no other process is at it.
pub(super) fn chore(folder: &Folder, store: &Arc<SharedStore>, now: Timestamp) -> Option<Chore> {
    let owed = match owed(folder, &store.state, &[], now) {
        Ok(owed) => owed?,
        Err(error) => {
            tracing::warn!(%error, "what happened to turns and approvals cannot be brought into the book now; it is tried again");
            return None;
        }
    };
    let store = Arc::clone(store);
    Some(Chore {
        drafts: owed.drafts.clone(),
        done: Box::new(move || owed.written(&store.state)),
    })
}

/// What is owed and `mine`, facts of turns that the caller has just made. `None` where there is nothing to write, or another process is at it.
///
/// # Errors
/// When store or book cannot be read.
pub fn owed(
    folder: &Folder,
    state: &StateDb,
    mine: &[TurnFact],
    now: Timestamp,
) -> Result<Option<Owed>, OwedError> {
    if settled(state, mine, now)?.is_empty() {
        return Ok(None);
    }
    let Ok(lock) = folder.lock(decisions::LOCK, Duration::ZERO) else {
        return Ok(None);
    };
    let facts = settled(state, mine, now)?;
    let Some(since) = facts.earliest() else {
        return Ok(None);
    };
    let written = written(folder, since)?;
    let turns = facts.turns.iter();
    let turns = turns.filter(|fact| !written.contains(&of_turn(fact)));
    let decisions = facts.decisions.iter();
    let decisions = decisions.filter(|fact| !written.contains(&of_decision(fact)));
    let drafts: Vec<_> = turns
        .map(turns::draft)
        .chain(decisions.map(decisions::draft))
        .collect();
    let owed = Owed {
        drafts,
        facts,
        _lock: lock,
    };
    if owed.drafts.is_empty() {
        owed.written(state);
        return Ok(None);
    }
    Ok(Some(owed))
}

impl Owed {
    /// They are in the book.
    pub fn written(self, state: &StateDb) {
        let turns = state.turn_facts_recorded(&self.facts.turns);
        if let Err(error) = turns.and_then(|()| state.decisions_recorded(&self.facts.decisions)) {
            tracing::warn!(%error, "what is in the book of turns and approvals is looked for there again");
        }
    }
}

impl Facts {
    fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.decisions.is_empty()
    }

    fn earliest(&self) -> Option<Timestamp> {
        let turns = self.turns.iter().map(|fact| fact.at);
        turns.chain(self.decisions.iter().map(|fact| fact.at)).min()
    }
}

/// Facts that nobody is writing just now. One from the future is of a clock that was set back since.
fn settled(state: &StateDb, mine: &[TurnFact], now: Timestamp) -> Result<Facts, StoreFault> {
    let mut turns = state.turn_facts_owed(Timestamp::MAX)?;
    turns.retain(|fact| mine.contains(fact) || now.duration_since(fact.at).abs() > SETTLED);
    Ok(Facts {
        turns,
        decisions: state.decisions_owed()?,
    })
}

fn of_turn(fact: &TurnFact) -> Identity {
    (fact.what.kind(), fact.agent.clone(), fact.turn)
}

fn of_decision(fact: &DecidedFact) -> Identity {
    ("approval", fact.approval.clone(), fact.verdict as u64)
}

fn identity(entry: &Entry) -> Option<Identity> {
    let (kind, of, number) = match entry.body.as_ref()? {
        Body::TurnOpen(open) => (What::Opened.kind(), &open.agent, open.turn.0),
        Body::TurnClose(close) => (What::Closed.kind(), &close.agent, close.turn.0),
        Body::TurnFailed(failed) => (What::Failed.kind(), &failed.agent, failed.turn.0),
        Body::Approval(approval) => {
            let verdict: Decided = approval.verdict;
            ("approval", &approval.approval, verdict as u64)
        }
        _ => return None,
    };
    Some((kind, of.clone(), number))
}

/// What the book says of turns and approvals since `since`, newest first until then.
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
        found.extend(page.iter().filter_map(identity));
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
        let round = chore(&machine.folder, &machine.store, machine.now).unwrap();
        // While one process is at it, another leaves it alone.
        assert!(chore(&machine.folder, &machine.store, machine.now).is_none());
        writer.commit(round.drafts).unwrap();
        (round.done)();
        assert_eq!(machine.owed(), 0);
        assert_eq!(machine.kinds(), ["turn.open", "turn.close", "turn.open"]);
        assert!(chore(&machine.folder, &machine.store, machine.now).is_none());
    }

    #[test]
    fn a_crash_between_writing_and_forgetting_writes_nothing_twice() {
        let machine = Machine::new();
        let mut writer = machine.writer();
        let round = chore(&machine.folder, &machine.store, machine.now).unwrap();
        let mut drafts = round.drafts;
        // It died after its second entry; its lock goes with it.
        drafts.truncate(2);
        writer.commit(drafts).unwrap();
        drop(round.done);
        assert_eq!((machine.owed(), machine.kinds().len()), (3, 2));
        let round = chore(&machine.folder, &machine.store, machine.now).unwrap();
        assert_eq!(round.drafts.len(), 1);
        writer.commit(round.drafts).unwrap();
        drop(round.done);
        // And once more, when all is there: nothing is written, all is forgotten.
        assert!(chore(&machine.folder, &machine.store, machine.now).is_none());
        assert_eq!(machine.owed(), 0);
        assert_eq!(machine.kinds(), ["turn.open", "turn.close", "turn.open"]);
    }

    #[test]
    fn a_fact_that_somebody_may_be_writing_is_left_to_them() {
        let machine = Machine::new();
        let then = machine.now - SignedDuration::from_mins(5);
        for (later, is_owed) in [(0, false), (59, false), (61, true), (-61, true)] {
            let now = then + SignedDuration::from_secs(later);
            let round = chore(&machine.folder, &machine.store, now);
            assert_eq!(round.is_some(), is_owed, "{later}");
        }
    }

    #[test]
    fn a_book_that_cannot_be_read_takes_nothing_from_what_is_owed() {
        let machine = Machine::new();
        std::fs::write(machine.folder.book().join("BOOK"), "nothing").unwrap();
        assert!(chore(&machine.folder, &machine.store, machine.now).is_none());
        assert_eq!(machine.owed(), 3);
    }
}
