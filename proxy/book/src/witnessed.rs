//! What verification sees besides the chain: counts, entry 0, payload objects and the absences that are on record.
//! Refuses to judge the chain itself.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::rc::Rc;

use serde::Deserialize;

use crate::commitment::{commit_bytes, unpad};
use crate::entry::{CallId, VERSION};
use crate::facts::{Fact, Stored};
use crate::files;
use crate::finding::{Finding, FindingKind};
use crate::journal::chain::{Chain, Leaf};
use crate::journal::layout::{BookFile, Layout};
use crate::journal::scan::Sink;
use crate::key::VaultKey;
use crate::kinds::Target;
use crate::vault::{self, Found, Subject};
use crate::verify::{PayloadCheck, VerifyOptions};

/// Absences kept until the book's end, where their explanation may stand: as many as erasures and losses of one book may come to.
const MAX_ABSENT: usize = 1_000_000;
/// Notes kept.
const MAX_NOTES: usize = 100;

#[derive(Clone)]
pub(crate) struct Witnessed<'a> {
    pub checkpoints: u64,
    pub not_understood: u64,
    pub payloads: u64,
    pub opened: u64,
    layout: &'a Layout,
    book: &'a BookFile,
    check: PayloadCheck,
    key: Option<&'a VaultKey>,
    file: Option<(u64, Option<Rc<File>>)>,
    /// What is wrong with entry 0, once a checkpoint covers it.
    genesis: Option<&'static str>,
    unsigned_genesis: Option<&'static str>,
    absent: BTreeMap<Target, Absence>,
    /// Absences beyond those kept: what states them is not known.
    unjudged: u64,
    more: u64,
    open: BTreeSet<CallId>,
    /// The largest minimum a `prune` entry states, and that entry.
    pub pruned: Option<(u64, u64)>,
    notes: Vec<Finding>,
    unsigned: Vec<(u64, Fact)>,
    unsigned_not_understood: u64,
}

/// What entry 0 says of the book it begins.
#[derive(Deserialize)]
struct First<'a> {
    #[serde(borrow)]
    k: Cow<'a, str>,
    v: u64,
    #[serde(borrow)]
    origin: Cow<'a, str>,
    #[serde(borrow)]
    vkey: Cow<'a, str>,
}

#[derive(Clone)]
struct Absence {
    /// Number of the vault segment.
    seg: u64,
    what: &'static str,
    kind: FindingKind,
    /// The entry that states it.
    stated: Option<u64>,
}

impl<'a> Witnessed<'a> {
    pub(crate) fn new(layout: &'a Layout, book: &'a BookFile, options: &'a VerifyOptions) -> Self {
        Self {
            checkpoints: 0,
            not_understood: 0,
            payloads: 0,
            opened: 0,
            layout,
            book,
            check: options.payloads,
            key: options.vault.as_ref(),
            file: None,
            genesis: None,
            unsigned_genesis: None,
            absent: BTreeMap::new(),
            unjudged: 0,
            more: 0,
            open: BTreeSet::new(),
            pruned: None,
            notes: Vec::new(),
            unsigned: Vec::new(),
            unsigned_not_understood: 0,
        }
    }

    /// Begins at a segment whose entries before are not read.
    pub(crate) fn begin(&mut self, chain: &Chain) {
        self.open = chain.open.keys().cloned().collect();
    }

    /// What was found, and how much more there was.
    pub(crate) fn findings(self, end: Option<&Finding>) -> (Vec<Finding>, u64) {
        let broken = end.is_some_and(Finding::is_break);
        let genesis = self.genesis.map(|what| Finding {
            kind: FindingKind::Changed,
            file: self.layout.book(),
            line: 0,
            index: 0,
            what: what.to_owned(),
        });
        let layout = self.layout;
        let unjudged = (self.unjudged > 0).then(|| Finding {
            kind: FindingKind::PayloadMissing,
            file: layout.vault(),
            line: 0,
            index: 0,
            what: format!(
                "{} more payloads are not there; whether entries say why is more than this version keeps in mind",
                self.unjudged
            ),
        });
        let absent = self.absent.into_iter().map(|(target, absence)| Finding {
            kind: absence.kind,
            file: layout.vault_segment(absence.seg),
            line: 0,
            index: target.i.0,
            what: format!(
                "the payload `{}` of entry {} {}{}",
                target.f.as_str(),
                target.i.0,
                absence.what,
                match absence.stated {
                    Some(entry) => format!(", on record in entry {entry}"),
                    None if broken => ", and an entry after the bad place may say why".to_owned(),
                    None => String::new(),
                },
            ),
        });
        // What counts stands first: a report lists only so many.
        let (on_record, absent): (Vec<_>, Vec<_>) =
            absent.partition(|finding| finding.kind.is_on_record());
        let all = genesis
            .into_iter()
            .chain(unjudged)
            .chain(absent)
            .chain(on_record);
        (all.chain(self.notes).collect(), self.more)
    }

    fn look(&mut self, stored: Stored) {
        let found = self.find(&stored);
        let (kind, what) = match found {
            Found::Present => match self.key.map(|key| self.open(key, &stored)) {
                None => {
                    self.payloads += 1;
                    return;
                }
                Some(None) => {
                    self.payloads += 1;
                    self.opened += 1;
                    return;
                }
                Some(Some(what)) => (FindingKind::PayloadChanged, what),
            },
            Found::Erased => (FindingKind::PayloadMissing, "was erased"),
            Found::Missing => (FindingKind::PayloadMissing, "is not in the vault"),
        };
        if self.absent.len() < MAX_ABSENT {
            self.absent.insert(
                stored.target,
                Absence {
                    seg: stored.at.seg,
                    what,
                    kind,
                    stated: None,
                },
            );
        } else {
            self.unjudged += 1;
        }
    }

    /// Opens the object that was found; what is wrong with it, if anything is.
    fn open(&self, key: &VaultKey, stored: &Stored) -> Option<&'static str> {
        let subject = Subject {
            origin: &self.book.origin,
            call: &stored.call,
            field: stored.target.f,
        };
        let object = match &self.file {
            Some((_, Some(file))) => vault::read(file, stored.at).ok().flatten(),
            _ => None,
        };
        let Some(object) = object else {
            return Some("can't be read from the vault");
        };
        match vault::open(key, subject, &object) {
            Err(_) => Some("was changed in the vault, or the vault's key is not this book's"),
            Ok((payload, salt)) => {
                let same = unpad(&payload, stored.n, stored.padded).is_some_and(|payload| {
                    commit_bytes(&salt, stored.target.f, &stored.call, payload) == stored.c
                });
                (!same).then_some("is not what the entry commits to")
            }
        }
    }

    /// An entry states that a payload is absent.
    fn state(&mut self, target: &Target, kind: FindingKind, entry: u64) {
        if let Some(absence) = self.absent.get_mut(target)
            && absence.kind == FindingKind::PayloadMissing
        {
            absence.kind = kind;
            absence.stated = Some(entry);
        }
    }

    /// A call's end is stated once.
    fn close(&mut self, index: u64, call: &CallId) {
        if self.open.remove(call) {
            return;
        }
        if self.notes.len() == MAX_NOTES {
            self.more += 1;
            return;
        }
        self.notes.push(Finding {
            kind: FindingKind::SecondOutcome,
            file: self.layout.journal(),
            line: 0,
            index,
            what: format!(
                "the call {} is ended by entry {index} though it is not open there: it has an earlier outcome, or no `call` entry",
                call.as_str()
            ),
        });
    }

    fn find(&mut self, stored: &Stored) -> Found {
        let number = stored.at.seg;
        if self.file.as_ref().is_none_or(|(open, _)| *open != number) {
            let mut head = *vault::SEGMENT_HEAD;
            head.fill(0);
            let file = files::open_if_there(&self.layout.vault_segment(number))
                .ok()
                .flatten()
                // A file without its head is no segment: nothing in it is where an entry says.
                .filter(|file| {
                    files::read_at(file, 0, &mut head).unwrap_or(false)
                        && head == *vault::SEGMENT_HEAD
                });
            self.file = Some((number, file.map(Rc::new)));
        }
        let Some((_, Some(file))) = &self.file else {
            return Found::Missing;
        };
        let subject = Subject {
            origin: &self.book.origin,
            call: &stored.call,
            field: stored.target.f,
        };
        vault::find(file, subject, stored.at).unwrap_or(Found::Missing)
    }
}

impl Sink for Witnessed<'_> {
    fn leaf(&mut self, index: u64, line: &[u8], leaf: Leaf) {
        self.unsigned_not_understood += u64::from(!leaf.understood);
        self.unsigned
            .extend(leaf.facts.into_iter().map(|fact| (index, fact)));
        if index == 0 {
            let first = serde_json::from_slice::<First<'_>>(line).ok();
            let same = first.is_some_and(|first| {
                (first.k.as_ref(), first.v) == ("book.open", VERSION)
                    && first.origin == self.book.origin.as_str()
                    && first.vkey == self.book.vkey.to_string()
            });
            self.unsigned_genesis =
                (!same).then_some("`BOOK` and entry 0 do not state the same book");
        }
    }

    fn sign(&mut self) {
        self.checkpoints += 1;
        self.genesis = self.unsigned_genesis.take().or(self.genesis);
        self.not_understood += std::mem::take(&mut self.unsigned_not_understood);
        for (index, fact) in std::mem::take(&mut self.unsigned) {
            match fact {
                Fact::Stored(stored) if self.check == PayloadCheck::Present => self.look(stored),
                Fact::Explained(target) => {
                    self.state(&target, FindingKind::PayloadAbsentOnRecord, index);
                }
                Fact::Erased(target) => self.state(&target, FindingKind::PayloadErased, index),
                Fact::Pruned(minimum) => {
                    if minimum <= index && self.pruned.is_none_or(|(before, _)| before < minimum) {
                        self.pruned = Some((minimum, index));
                        // A pruning that is not finished yet may have taken these first.
                        self.absent.retain(|target, _| target.i.0 >= minimum);
                    }
                }
                Fact::Rotated(_) => {}
                Fact::Opened(call) => drop(self.open.insert(call.call)),
                Fact::Closed(call) => self.close(index, &call),
                Fact::Stored(_) => {}
            }
        }
    }

    fn forget(&mut self) {
        self.unsigned.clear();
        self.unsigned_genesis = None;
        self.unsigned_not_understood = 0;
    }
}
