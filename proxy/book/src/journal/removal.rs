//! Removes what a book holds, on record: payloads (their keys and salts) by `erase`, whole segments from the start by `prune`.
//! The entry is durable first; what a crash leaves undone is done at the next opening. Refuses to decide who may ask.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::commitment::Field;
use crate::entry::Count;
use crate::error::BookError;
use crate::facts::{Fact, Stored};
use crate::files;
use crate::journal::chain::{Chain, Leaf, MAX_UNSIGNED};
use crate::journal::layout::Layout;
use crate::journal::obstacles::senseless;
use crate::journal::prepare::Prepared;
use crate::journal::recover::begin;
use crate::journal::scan::{Scan, Sink, Which};
use crate::journal::writer::Writer;
use crate::kinds::{Body, Target};
use crate::lifecycle::{Erase, Prune};
use crate::vault::{self, Found, Subject};

/// Written before an `erase` or `prune` entry and gone when its work is done: the size of the book before the entry.
const PENDING: &str = "removal.pending";
const PENDING_HEAD: &str = "countersign removal 1";

/// What an erasure did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// The `erase` entry; none when there was nothing to erase.
    pub entry: Option<u64>,
    /// The payloads erased now.
    pub erased: Vec<Field>,
    /// Payloads that were erased before.
    pub already: Vec<Field>,
    /// Payloads the entry refers to that are not in the vault.
    pub missing: Vec<Field>,
}

/// What a pruning did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// The `prune` entry; none when there was nothing to prune.
    pub entry: Option<u64>,
    /// The smallest index that is kept.
    pub minimum: u64,
    /// Journal segments removed.
    pub segments: u64,
    /// Vault segments removed.
    pub vault_segments: u64,
    /// Bytes removed.
    pub bytes: u64,
}

impl Writer {
    /// Erases payloads of entry `index`, all of them when `fields` is empty: `erase` on record, then the wrapped data keys and
    /// salts overwritten and synced. What is erased or gone already is said and is no error.
    ///
    /// # Errors
    /// [`BookError::NotFound`] when the book has no such entry or it never kept a payload; otherwise as [`Writer::commit`].
    pub fn erase(
        &mut self,
        index: u64,
        fields: &[Field],
        reason: &str,
        by: &str,
    ) -> Result<Erased, BookError> {
        self.check_poisoned()?;
        self.locked(|writer| {
            writer.catch_up()?;
            let stored = writer.stored(index)?;
            let mut result = Erased::default();
            let wanted = |field| fields.is_empty() || fields.contains(&field);
            let wanted: Vec<_> = stored
                .into_iter()
                .filter(|stored| wanted(stored.target.f))
                .collect();
            if wanted.is_empty() {
                return Err(BookError::NotFound(format!(
                    "entry {index} keeps no such payload"
                )));
            }
            for stored in &wanted {
                let field = stored.target.f;
                match writer.find(stored)? {
                    Found::Present => result.erased.push(field),
                    Found::Erased => result.already.push(field),
                    Found::Missing => result.missing.push(field),
                }
            }
            if result.erased.is_empty() {
                return Ok(result);
            }
            let target = |field: &Field| Target {
                f: *field,
                i: Count(index),
            };
            let entry = writer.record(Erase {
                by: by.to_owned(),
                reason: reason.to_owned(),
                targets: result.erased.iter().map(target).collect(),
            })?;
            result.entry = Some(entry);
            writer.wipe(&wanted)?;
            writer.done()?;
            Ok(result)
        })
    }

    /// Removes the segments that lie wholly below `before`, and the vault's segments only they refer to: `prune` on record
    /// first. Whole segments only, so the minimum is the first index of a kept one; the last segment stays.
    ///
    /// # Errors
    /// As [`Writer::commit`].
    pub fn prune(&mut self, before: u64, reason: &str, by: &str) -> Result<Pruned, BookError> {
        self.check_poisoned()?;
        self.locked(|writer| {
            writer.catch_up()?;
            let segments = writer.layout.segments()?;
            let kept = segments.iter().rev().find(|first| **first <= before);
            let minimum = kept.or(segments.first()).copied().unwrap_or(0);
            if segments.first().is_none_or(|first| *first >= minimum) {
                return Ok(Pruned {
                    minimum,
                    ..Pruned::default()
                });
            }
            let entry = writer.record(Prune {
                by: by.to_owned(),
                minimum: Count(minimum),
                reason: reason.to_owned(),
            })?;
            let mut pruned = writer.remove_below(minimum)?;
            pruned.entry = Some(entry);
            writer.done()?;
            Ok(pruned)
        })
    }

    /// Appends the entry of a removal, after a note that its work is to be finished. Answers its index.
    fn record(&mut self, body: impl Into<Body>) -> Result<u64, BookError> {
        let entry = Prepared::checked(body)?;
        let pending = self.layout.dir.join(PENDING);
        let text = format!("{PENDING_HEAD}\n{}\n", self.chain.size());
        files::write_new(&pending, &[text.as_bytes()])?;
        let committed = self.append(vec![entry])?;
        Ok(committed.size - 1)
    }

    fn done(&mut self) -> Result<(), BookError> {
        files::remove(&self.layout.dir.join(PENDING))
    }

    /// Finishes what a crash left of removals that are on record; those that are not never happened.
    pub(super) fn finish_removals(&mut self) -> Result<(), BookError> {
        let Some(from) = begun(&self.layout, self.chain.size())? else {
            return Ok(());
        };
        let until = from.saturating_add(MAX_UNSIGNED).min(self.chain.size());
        let mut wanted: BTreeMap<u64, BTreeSet<Field>> = BTreeMap::new();
        let mut minimum = 0;
        for (_, fact) in self.facts(from..until)? {
            match fact {
                Fact::Erased(target) => {
                    let fields = wanted.entry(target.i.0).or_default();
                    fields.insert(target.f);
                }
                Fact::Pruned(below) => minimum = below.max(minimum),
                _ => {}
            }
        }
        for (index, fields) in wanted {
            // What was pruned since has no payload any more.
            if self
                .layout
                .segments()?
                .first()
                .is_some_and(|first| *first > index)
            {
                continue;
            }
            let mut stored = self.stored(index)?;
            stored.retain(|stored| fields.contains(&stored.target.f));
            self.wipe(&stored)?;
        }
        if minimum > 0 {
            self.remove_below(minimum)?;
        }
        self.done()
    }

    /// The payloads entry `index` refers to, as signed.
    fn stored(&self, index: u64) -> Result<Vec<Stored>, BookError> {
        let first = self.layout.segments()?.first().copied().unwrap_or(0);
        if index < first {
            return Err(BookError::NotFound(format!(
                "entry {index} was pruned: the book begins with entry {first}"
            )));
        }
        if index >= self.chain.size() {
            return Err(BookError::NotFound(format!(
                "the book has no signed entry {index}"
            )));
        }
        let facts = self.facts(index..index + 1)?.into_iter();
        Ok(facts
            .filter_map(|(_, fact)| match fact {
                Fact::Stored(stored) => Some(stored),
                _ => None,
            })
            .collect())
    }

    /// The facts of the entries with these indexes, from segments whose trees and last signatures are verified.
    fn facts(&self, range: Range<u64>) -> Result<Vec<(u64, Fact)>, BookError> {
        let segments = self.layout.segments()?;
        let start = segments.partition_point(|first| *first <= range.start);
        let mut found = Vec::new();
        for first in segments.into_iter().skip(start.saturating_sub(1)) {
            if first >= range.end {
                break;
            }
            let path = self.layout.segment(first);
            let file = files::open_read(&path)?;
            let genesis = self.chain.keys.ranges().first();
            let genesis = genesis.map(|range| range.vkey.clone());
            let Some(genesis) = genesis else { break };
            let mut chain = Chain::new(self.chain.origin.clone(), genesis);
            let mut place = begin(&file, &path, first, &mut chain)?;
            let mut sink = Within {
                range: range.clone(),
                signed: Vec::new(),
                unsigned: Vec::new(),
            };
            let scan = Scan {
                file: &file,
                path: &path,
                threads: self.options.threads,
                signatures: Which::Last,
            };
            scan.advance(&mut chain, &mut place, &mut sink)?;
            found.append(&mut sink.signed);
        }
        Ok(found)
    }

    fn subject<'a>(&'a self, stored: &'a Stored) -> Subject<'a> {
        Subject {
            origin: &self.chain.origin,
            call: &stored.call,
            field: stored.target.f,
        }
    }

    fn find(&self, stored: &Stored) -> Result<Found, BookError> {
        let path = self.layout.vault_segment(stored.at.seg);
        match files::open_if_there(&path)? {
            None => Ok(Found::Missing),
            Some(file) => vault::find(&file, self.subject(stored), stored.at)
                .map_err(BookError::io("read", &path)),
        }
    }

    /// Overwrites data keys and salts of the objects that are there, and syncs.
    fn wipe(&self, wanted: &[Stored]) -> Result<(), BookError> {
        for stored in wanted {
            let path = self.layout.vault_segment(stored.at.seg);
            if !files::exists(&path)? {
                continue;
            }
            let file = files::open_write(&path)?;
            vault::wipe(&file, self.subject(stored), stored.at)
                .and_then(|()| file.sync_all())
                .map_err(BookError::io("erase in", &path))?;
        }
        Ok(())
    }

    /// Removes journal segments below `minimum`, lowest first so that what remains has no hole, then the vault segments that
    /// only they referred to.
    fn remove_below(&mut self, minimum: u64) -> Result<Pruned, BookError> {
        let mut pruned = Pruned {
            minimum,
            ..Pruned::default()
        };
        let segments = self.layout.segments()?;
        if !segments.contains(&minimum) {
            return Ok(pruned);
        }
        let path = self.layout.segment(minimum);
        let mut chain = self.chain.clone();
        begin(&files::open_read(&path)?, &path, minimum, &mut chain)?;
        for first in segments.into_iter().filter(|first| *first < minimum) {
            pruned.bytes += files::remove_sized(&self.layout.segment(first))?;
            pruned.segments += 1;
        }
        for number in self.layout.vault_segments()? {
            if number < chain.vault.seg {
                pruned.bytes += files::remove_sized(&self.layout.vault_segment(number))?;
                pruned.vault_segments += 1;
            }
        }
        Ok(pruned)
    }
}

/// The size of the book before the removal that was begun and whose work is not done, if there is one.
///
/// # Errors
/// [`BookError::Damaged`] where the note of it says nothing or of entries a book of `size` entries never had, [`BookError::Io`].
pub(crate) fn begun(layout: &Layout, size: u64) -> Result<Option<u64>, BookError> {
    let path = layout.dir.join(PENDING);
    if !files::exists(&path)? {
        return Ok(None);
    }
    let text = files::read_small(&path, 256)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let from = text
        .strip_prefix(PENDING_HEAD)
        .and_then(|rest| rest.trim().parse::<u64>().ok())
        .filter(|from| *from <= size);
    from.map(Some).ok_or_else(|| {
        let what =
            "it does not say which removal was begun; move it away if nobody erased or pruned";
        senseless(&path, size, what)
    })
}

/// The facts of entries within a range of indexes.
#[derive(Clone)]
struct Within {
    range: Range<u64>,
    signed: Vec<(u64, Fact)>,
    unsigned: Vec<(u64, Fact)>,
}

impl Sink for Within {
    fn leaf(&mut self, index: u64, _line: &[u8], leaf: Leaf) {
        if self.range.contains(&index) {
            let facts = leaf.facts.into_iter();
            self.unsigned.extend(facts.map(|fact| (index, fact)));
        }
    }

    fn sign(&mut self) {
        self.signed.append(&mut self.unsigned);
    }

    fn forget(&mut self) {
        self.unsigned.clear();
    }
}
