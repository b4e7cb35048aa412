//! The writer: takes the book's lock for each batch, reads what others appended, appends its own, syncs, lets go.
//! Refuses to go on after any failed write or sync.

use std::path::Path;

use crate::entry::{Draft, EntryError};
use crate::error::{BookError, Damage};
use crate::files::{self, Known, LockFile};
use crate::journal::api::{Committed, OpenCall, Recovery, Sources, WriterOptions};
use crate::journal::batch::{Lines, MAX_BATCH};
use crate::journal::chain::{Chain, VaultEnd};
use crate::journal::layout::Layout;
use crate::journal::objects::{Objects, Sizes};
use crate::journal::prepare::{Prepared, Preparer};
use crate::journal::recover;
use crate::journal::scan::{Place, Recent, Scan, Tail, Which};
use crate::journal::segment::{CP, SegmentLine};
use crate::key::Hand;
use crate::kinds::{Head, Outcome, Status};

/// The one way into a book. Several processes, and several writers of one process, may have the same folder open: the
/// lock is held per batch.
pub struct Writer {
    pub(super) layout: Layout,
    pub(super) lock: LockFile,
    /// The segment written to, the index of its first leaf, and the place after its last checkpoint.
    pub(super) journal: Known,
    pub(super) first: u64,
    /// Bytes of the segment's first line.
    pub(super) start: u64,
    pub(super) place: Place,
    pub(super) chain: Chain,
    pub(super) signers: Hand,
    pub(super) preparer: Preparer,
    /// The vault segment written to, once there was something to write.
    pub(super) objects: Option<Objects>,
    pub(super) sources: Sources,
    pub(super) options: WriterOptions,
    /// The largest checkpoint this key is known to have signed that is not in the journal.
    pub(super) signed: Option<Head>,
    pub(super) poisoned: Option<String>,
    pub(super) recovery: Option<Recovery>,
}

impl Writer {
    /// Appends a batch of 1 to 1,024 drafts: commits to and seals payloads, assigns indexes, signs one checkpoint, and
    /// returns when entries, checkpoint and payloads are on disk. One flush, whatever the batch holds.
    ///
    /// # Errors
    /// [`BookError::Entry`] and [`BookError::Entropy`] before any side effect; after any other error the writer refuses
    /// from then on ([`BookError::Poisoned`]) and must be opened anew.
    pub fn commit(&mut self, batch: Vec<Draft>) -> Result<Committed, BookError> {
        self.check_poisoned()?;
        check_size(batch.len())?;
        let entropy = &mut self.sources.entropy;
        let prepared = batch
            .into_iter()
            .map(|draft| self.preparer.prepare(draft, entropy))
            .collect::<Result<Vec<_>, _>>()?;
        let committed = self.commit_prepared(move || prepared)?;
        Ok(committed.ok_or_else(|| no_batch(0))?)
    }

    /// As [`Writer::commit`], of entries that were prepared before. They are asked for once the lock is held and what others
    /// appended is read, so that whatever came while this process waited goes along; no entries are no batch.
    ///
    /// # Errors
    /// As [`Writer::commit`]; [`EntryError::OtherBook`] and [`EntryError::BatchSize`] before any of the batch is written.
    pub fn commit_prepared(
        &mut self,
        take: impl FnOnce() -> Vec<Prepared>,
    ) -> Result<Option<Committed>, BookError> {
        self.check_poisoned()?;
        self.locked(|writer| {
            let recovery = writer.catch_up()?;
            let batch = take();
            if batch.is_empty() {
                return Ok(None);
            }
            check_size(batch.len())?;
            batch
                .iter()
                .try_for_each(|prepared| prepared.check(&writer.preparer))?;
            let mut committed = writer.append(batch)?;
            committed.recovery = recovery;
            Ok(Some(committed))
        })
    }

    /// What prepares drafts for this writer, on other threads.
    #[must_use]
    pub fn preparer(&self) -> Preparer {
        self.preparer.clone()
    }

    /// Records `outcome: unknown` for every call without an outcome whose process is not `alive`, exactly once even when
    /// several processes try. Returns the settled calls.
    ///
    /// # Errors
    /// As [`Writer::commit`].
    pub fn settle(&mut self, alive: &dyn Fn(&str) -> bool) -> Result<Vec<OpenCall>, BookError> {
        self.check_poisoned()?;
        self.locked(|writer| {
            writer.catch_up()?;
            let dead: Vec<OpenCall> = writer
                .chain
                .open
                .values()
                .filter(|call| !alive(&call.process))
                .cloned()
                .collect();
            for part in dead.chunks(MAX_BATCH) {
                let outcome = |call: &OpenCall| {
                    let mut outcome = Outcome::new(call.call.clone(), Status::Unknown);
                    outcome.settled = Some(writer.options.process.clone());
                    Prepared::plain(outcome)
                };
                let batch = part.iter().map(outcome).collect::<Result<_, _>>()?;
                writer.append(batch)?;
            }
            Ok(dead)
        })
    }

    /// The calls without an outcome, as of the last batch read.
    #[must_use]
    pub fn open_calls(&self) -> Vec<OpenCall> {
        self.chain.open.values().cloned().collect()
    }

    /// What opening set aside, if anything.
    #[must_use]
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// Why the writer refuses, once it does.
    #[must_use]
    pub fn poisoned(&self) -> Option<&str> {
        self.poisoned.as_deref()
    }

    /// Entries in the book, as of the last batch read.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.chain.size()
    }

    pub(super) fn check_poisoned(&self) -> Result<(), BookError> {
        match &self.poisoned {
            Some(why) => Err(BookError::Poisoned { why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Runs `act` under the book's lock; any error in it ends this writer, unless nothing can have been written.
    pub(super) fn locked<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, BookError>,
    ) -> Result<T, BookError> {
        let taken = match self.lock.try_lock() {
            Ok(None) => {
                self.look_ahead();
                self.lock.lock()
            }
            Ok(Some(held)) => Ok(held),
            Err(error) => Err(error),
        };
        let held = match taken {
            Ok(held) => held,
            Err(error) => {
                self.poisoned = Some(error.to_string());
                return Err(error);
            }
        };
        let result = self.check_places().and_then(|()| act(self));
        if let Err(error) = &result
            && !error.is_harmless()
        {
            self.poisoned = Some(error.to_string());
        }
        drop(held);
        result
    }

    /// Whether lock, journal and vault are still where every other process looks for them.
    pub(super) fn check_places(&self) -> Result<(), BookError> {
        self.lock.check()?;
        self.journal.check_still(&self.layout.segment(self.first))?;
        self.objects.as_ref().map_or(Ok(()), Objects::check)
    }

    /// Whether the bytes read last are still there: the checkpoint the next batch follows.
    fn check_end(&self) -> Result<(), BookError> {
        let path = self.layout.segment(self.first);
        let expected = match &self.chain.note {
            Some(note) if self.place.line > 1 => [CP, note.as_bytes(), b"\n"].concat(),
            _ => b"\n".to_vec(),
        };
        let mut found = vec![0; expected.len()];
        let offset = self.place.offset.saturating_sub(expected.len() as u64);
        let whole = files::read_at(&self.journal, offset, &mut found)
            .map_err(BookError::io("read", &path))?;
        if whole && found == expected {
            return Ok(());
        }
        Err(BookError::Damaged(Damage {
            file: path,
            line: self.place.line,
            index: self.chain.size(),
            what: "the file is not the one that was read and verified before: its last checkpoint is not there".into(),
        }))
    }

    /// Reads and verifies what others have appended while one of them still holds the lock: that much less is to be read under
    /// it. What can't be read now may be half written; under the lock it is judged.
    fn look_ahead(&mut self) {
        let path = self.layout.segment(self.first);
        let grown = files::length(&self.journal, &path);
        if !grown.is_ok_and(|length| length > self.place.offset) || self.check_end().is_err() {
            return;
        }
        let before = (self.chain.clone(), self.place);
        let mut recent = Recent::default();
        match self.scan(&path, &mut recent) {
            Ok(_) if recent.recovered => self.objects = None,
            Ok(_) => {}
            Err(_) => (self.chain, self.place) = before,
        }
    }

    /// Reads on in the segment; answers what lies behind its last checkpoint.
    fn scan(&mut self, path: &Path, recent: &mut Recent) -> Result<Option<Tail>, BookError> {
        let scan = Scan {
            file: &self.journal,
            path,
            threads: self.options.threads,
            signatures: Which::Last,
        };
        scan.advance(&mut self.chain, &mut self.place, recent)
    }

    /// Reads and verifies what other processes appended; sets aside what one of them left unfinished.
    pub(super) fn catch_up(&mut self) -> Result<Option<Recovery>, BookError> {
        loop {
            let path = self.layout.segment(self.first);
            let length = files::length(&self.journal, &path)?;
            if length < self.place.offset {
                return Err(BookError::Damaged(Damage {
                    file: path,
                    line: self.place.line,
                    index: self.chain.size(),
                    what: "the file is shorter than what was read and verified in it before".into(),
                }));
            }
            self.check_end()?;
            let mut recent = Recent::default();
            if length > self.place.offset {
                let tail = self.scan(&path, &mut recent)?;
                if recent.recovered {
                    self.objects = None;
                }
                if let Some(tail) = tail {
                    self.set_aside(&tail)?;
                }
            }
            let next = self.layout.segment(self.chain.size());
            if self.chain.size() == self.first || !files::exists(&next)? {
                break;
            }
            let journal = files::open_write(&next)?;
            // Another process's sync may have failed, which a file opened only now is not told.
            files::read_from_disk(&journal).map_err(BookError::io("sync", &next))?;
            let journal = Known::new(journal, &next)?;
            self.place = recover::link(&journal, &next, self.chain.size(), &self.chain)?;
            self.journal = journal;
            self.first = self.chain.size();
            self.start = self.place.offset;
        }
        if self.has_pending()? {
            self.record_recovery(Vec::new())
        } else {
            Ok(None)
        }
    }

    /// Writes one batch and syncs it. The lock is held and everything before is read.
    pub(super) fn append(&mut self, batch: Vec<Prepared>) -> Result<Committed, BookError> {
        // A first line that states many open calls must be worth its bytes.
        let written = self.place.offset - self.start;
        if written >= self.options.segment_bytes.max(self.start) && self.chain.size() > self.first {
            self.rotate()?;
        }
        let bytes = batch.iter().map(Prepared::vault_bytes).sum();
        let sizes = Sizes {
            segment: self.options.vault_segment_bytes,
            ahead: self.options.vault_ahead_bytes,
        };
        let end = if bytes > 0 {
            Objects::place(&self.layout, &mut self.objects, &self.chain, bytes, sizes)?
        } else {
            VaultEnd::default()
        };
        let now = (self.sources.clock)();
        let (batch, own) = self.with_clock(batch, now)?;
        let mut lines = Lines::make(batch, &mut self.chain, end, now, &mut self.signers)?;
        let head = &self.chain.head;
        if let Some(signed) = &self.signed
            && head.range.size() <= signed.size.0
            && head.range.root() != signed.root
        {
            return Err(BookError::AlreadySigned {
                size: signed.size.0,
            });
        }

        // The objects first: no entry is ever on disk without its payload.
        if let (true, Some(objects)) = (bytes > 0, &mut self.objects) {
            objects.write(&self.journal, end.end, &lines.vault, sizes)?;
        }
        let path = self.layout.segment(self.first);
        files::write_at(&self.journal, self.place.offset, &lines.journal)
            .map_err(BookError::io("write", &path))?;
        self.journal
            .sync_data()
            .map_err(BookError::io("sync", &path))?;
        // Only what others find is acknowledged.
        self.check_places()?;

        self.place.offset += lines.journal.len() as u64;
        self.place.line += lines.lines;
        self.tell_head();
        Ok(Committed {
            entries: lines.entries.split_off(own),
            size: self.chain.size(),
            root: self.chain.head.range.root(),
            checkpoint: lines.checkpoint,
            recovery: None,
        })
    }

    /// Begins a new segment at the head.
    fn rotate(&mut self) -> Result<(), BookError> {
        let path = self.layout.segment(self.first);
        self.journal
            .sync_data()
            .map_err(BookError::io("sync", &path))?;
        let line = SegmentLine::of(&self.chain)
            .to_bytes()
            .map_err(EntryError::Canonical)?;
        // A line no reader would accept: stay in this segment until fewer calls are open.
        if line.len() > files::Lines::MAX {
            return Ok(());
        }
        let path = self.layout.segment(self.chain.size());
        files::write_new(&path, &[&line])?;
        self.journal = Known::new(files::open_write(&path)?, &path)?;
        self.first = self.chain.size();
        self.start = line.len() as u64;
        self.place = Place {
            offset: line.len() as u64,
            line: 1,
        };
        Ok(())
    }
}

fn check_size(count: usize) -> Result<(), EntryError> {
    match count {
        1..=MAX_BATCH => Ok(()),
        _ => Err(no_batch(count)),
    }
}

fn no_batch(count: usize) -> EntryError {
    EntryError::BatchSize {
        count,
        limit: MAX_BATCH,
    }
}
