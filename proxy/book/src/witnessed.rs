//! What verification sees besides the chain: counts, entry 0, payload objects and the absences that are on record.
//! Refuses to judge the chain itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;

use crate::entry::Entry;
use crate::facts::{Fact, Stored};
use crate::files;
use crate::journal::chain::Leaf;
use crate::journal::layout::{BookFile, Layout};
use crate::journal::scan::Sink;
use crate::kinds::{Body, Target};
use crate::vault::{self, Found, Subject};
use crate::verify::{Finding, FindingKind, PayloadCheck};

/// Absences kept until the book's end, where their explanation may stand.
const MAX_ABSENT: usize = 10_000;

#[derive(Clone)]
pub(crate) struct Witnessed<'a> {
    pub checkpoints: u64,
    pub not_understood: u64,
    pub payloads: u64,
    layout: &'a Layout,
    book: &'a BookFile,
    check: PayloadCheck,
    file: Option<(u64, Option<Rc<File>>)>,
    genesis: Option<&'static str>,
    absent: BTreeMap<Target, Absence>,
    more: u64,
    unsigned: Vec<Fact>,
    unsigned_not_understood: u64,
}

#[derive(Clone)]
struct Absence {
    file: PathBuf,
    what: &'static str,
    on_record: bool,
}

impl<'a> Witnessed<'a> {
    pub(crate) fn new(layout: &'a Layout, book: &'a BookFile, check: PayloadCheck) -> Self {
        Self {
            checkpoints: 0,
            not_understood: 0,
            payloads: 0,
            layout,
            book,
            check,
            file: None,
            genesis: None,
            absent: BTreeMap::new(),
            more: 0,
            unsigned: Vec::new(),
            unsigned_not_understood: 0,
        }
    }

    /// What was found, and how much more there was.
    pub(crate) fn findings(self) -> (Vec<Finding>, u64) {
        let genesis = self.genesis.map(|what| Finding {
            kind: FindingKind::Changed,
            file: self.layout.book(),
            line: 0,
            index: 0,
            what: what.to_owned(),
        });
        let absent = self.absent.into_iter().map(|(target, absence)| Finding {
            kind: if absence.on_record {
                FindingKind::PayloadAbsentOnRecord
            } else {
                FindingKind::PayloadMissing
            },
            file: absence.file,
            line: 0,
            index: target.i.0,
            what: format!(
                "the payload `{}` of entry {} {}",
                target.f.as_str(),
                target.i.0,
                absence.what
            ),
        });
        (genesis.into_iter().chain(absent).collect(), self.more)
    }

    fn look(&mut self, stored: Stored) {
        let found = self.find(&stored);
        let what = match found {
            Found::Present => {
                self.payloads += 1;
                return;
            }
            Found::Erased => "was erased",
            Found::Missing => "is not in the vault",
        };
        let file = self.layout.vault_segment(stored.at.seg);
        if self.absent.len() < MAX_ABSENT {
            self.absent.insert(
                stored.target,
                Absence {
                    file,
                    what,
                    on_record: false,
                },
            );
        } else {
            self.more += 1;
        }
    }

    fn find(&mut self, stored: &Stored) -> Found {
        let number = stored.at.seg;
        if self.file.as_ref().is_none_or(|(open, _)| *open != number) {
            let file = files::open_if_there(&self.layout.vault_segment(number))
                .ok()
                .flatten();
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
        self.unsigned.extend(leaf.facts);
        if index == 0 {
            let entry = std::str::from_utf8(line)
                .ok()
                .and_then(|line| Entry::parse(line).ok());
            self.genesis = match entry.and_then(|entry| entry.body) {
                Some(Body::BookOpen(open))
                    if open.origin == self.book.origin
                        && open.vkey == self.book.vkey.to_string() =>
                {
                    None
                }
                _ => Some("`BOOK` and entry 0 do not state the same book"),
            };
        }
    }

    fn sign(&mut self) {
        self.checkpoints += 1;
        self.not_understood += std::mem::take(&mut self.unsigned_not_understood);
        for fact in std::mem::take(&mut self.unsigned) {
            match fact {
                Fact::Stored(stored) if self.check == PayloadCheck::Present => self.look(stored),
                Fact::Explained(target) => {
                    if let Some(absence) = self.absent.get_mut(&target) {
                        absence.on_record = true;
                    }
                }
                Fact::Stored(_) | Fact::Opened(_) | Fact::Closed(_) => {}
            }
        }
    }

    fn forget(&mut self) {
        self.unsigned.clear();
        self.unsigned_not_understood = 0;
    }
}
