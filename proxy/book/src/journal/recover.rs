//! Opens a book for writing, and sets aside what a crash left after the last checkpoint (rules R0–R4, R7 of recovery):
//! copied to `quarantine/`, cut off, recorded, never signed. Refuses to judge what the bytes say.

use std::io::Read as _;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::entry::Count;
use crate::error::{BookError, Damage};
use crate::files::{self, Known, LockFile};
use crate::journal::api::{Recovery, Sources, WriterOptions};
use crate::journal::chain::{Chain, Flaw, MAX_UNSIGNED};
use crate::journal::continuity;
use crate::journal::layout::{BookFile, Layout};
use crate::journal::prepare::{Prepared, Preparer};
use crate::journal::scan::{MAX_TAIL, Place, Recent, Scan, Tail, Which, inspect};
use crate::journal::segment::SegmentLine;
use crate::journal::writer::Writer;
use crate::key::{Signers, VaultKey};
use crate::kinds::{BookRecovered, Gap, Target};
use crate::note::Note;
use crate::tree::Hash;
use crate::vault::{self, Found, Subject};

/// The name of bytes that are set aside but not recorded yet. It is looked for under every lock, so that a crash between
/// the two can't lose the record.
pub(crate) const PENDING: &str = "pending";

/// Bytes of payloads that are read on opening, newest first; of older ones only the heads.
const READ: u64 = 8 << 20;

/// Payloads tried before the vault's key is refused: one of them may be damaged.
const KEY_TRIALS: u32 = 8;

impl Writer {
    /// Opens the book in `dir` (the folder `book/`) for writing: takes the lock, reads and verifies the last segment,
    /// sets a torn or unsigned tail aside and records that ([`Writer::recovery`]), finishes an erasure or pruning.
    ///
    /// # Errors
    /// [`BookError::Damaged`] when something signed has changed, [`BookError::KeyRange`] when a retired key signed,
    /// [`BookError::WrongKey`] when the key in force is not among `signers`, [`BookError::NotABook`], [`BookError::Newer`], [`BookError::Io`].
    pub fn open(
        dir: &Path,
        signers: impl Into<Signers>,
        vault: VaultKey,
        sources: Sources,
        options: WriterOptions,
    ) -> Result<Self, BookError> {
        let layout = Layout::new(dir);
        let book = BookFile::read(dir)?;
        let mut signers = signers.into().of(&book.origin);
        let lock = LockFile::open(layout.lock())?;
        let held = lock.lock()?;
        lock.check()?;
        let Some(first) = layout.segments()?.last().copied() else {
            return Err(BookError::NotABook {
                path: dir.to_owned(),
                why: "its folder `journal` is empty".into(),
            });
        };
        continuity::check(&layout, &book.origin)?;
        let path = layout.segment(first);
        let journal = Known::new(files::open_write(&path)?, &path)?;
        files::read_from_disk(&journal).map_err(BookError::io("sync", &path))?;
        let mut chain = Chain::new(book.origin, book.vkey);
        let mut place = begin(&journal, &path, first, &mut chain)?;
        let start = place.offset;
        let mut recent = Recent::default();
        chain.time = continuity::time_before(&layout, first)?;
        let scan = Scan {
            file: &journal,
            path: &path,
            threads: options.threads,
            signatures: Which::All,
        };
        let tail = scan.advance(&mut chain, &mut place, &mut recent)?;
        // A book is made with its first batch in place: without it nothing says whose book this is.
        if chain.size() == 0 {
            return Err(BookError::Damaged(Damage {
                file: path,
                line: 2,
                index: 0,
                what: "the first entry is not there under a checkpoint".into(),
            }));
        }
        if let Some(key) = chain.keys.in_force(chain.size() + 1)
            && !signers.get(&key.vkey)
        {
            return Err(BookError::WrongKey {
                book: key.vkey.to_string(),
                given: signers.first(),
            });
        }
        // Before anything is cut: what looks like a tail may be what is remembered.
        if let Some(pin) = &options.pin {
            pin.check(&layout, &chain)?;
        }
        let preparer = Preparer::new(chain.origin.clone(), vault, options.payloads);
        let mut writer = Self {
            layout,
            lock,
            journal,
            first,
            start,
            place,
            chain,
            signers,
            preparer,
            objects: None,
            sources,
            options,
            signed: None,
            poisoned: None,
            recovery: None,
        };
        if let Some(tail) = tail {
            writer.set_aside(&tail)?;
        }
        let missing = writer.missing_payloads(&recent)?;
        writer.recovery = writer.record_recovery(missing)?;
        writer.finish_removals()?;
        writer.tell_head();
        drop(held);
        Ok(writer)
    }

    /// Copies the tail to `quarantine/`, then cuts it off. What another crash had left there unrecorded stays in front.
    pub(super) fn set_aside(&mut self, tail: &Tail) -> Result<(), BookError> {
        // What is set aside may refer to objects behind those of the record: the vault's end is looked for anew.
        self.objects = None;
        let path = self.layout.segment(self.first);
        let pending = self.layout.quarantine().join(PENDING);
        files::make_dir(&self.layout.quarantine())?;
        let bytes = || files::open_range(&path, tail.start, tail.end);
        if !files::exists(&pending)? {
            files::copy_new(&pending, bytes()?)?;
        } else if digest(bytes()?, &path)? != digest(files::open_read(&pending)?, &pending)? {
            let before = files::open_read(&pending)?;
            files::copy_new(&pending, before.chain(bytes()?))?;
        }
        self.journal
            .set_len(tail.start)
            .map_err(BookError::io("cut", &path))?;
        self.journal
            .sync_all()
            .map_err(BookError::io("sync", &path))
    }

    /// Whether bytes are set aside that no entry records yet.
    pub(super) fn has_pending(&self) -> Result<bool, BookError> {
        files::exists(&self.layout.quarantine().join(PENDING))
    }

    /// Appends `book.recovered` for what is set aside and for `missing` payloads. Entries that were signed and lost get
    /// a `gap` each, so that no size is ever signed with two roots.
    pub(super) fn record_recovery(
        &mut self,
        missing: Vec<Target>,
    ) -> Result<Option<Recovery>, BookError> {
        let pending = self.layout.quarantine().join(PENDING);
        let mut recovery = Recovery {
            bytes: 0,
            lines: 0,
            file: None,
            missing: missing.len(),
        };
        let process = self.options.process.clone();
        let mut body = BookRecovered {
            bytes: Count(0),
            file: None,
            lines: Count(0),
            missing,
            process: process.clone(),
            sha256: None,
            signed: None,
        };
        let mut batch = Vec::new();
        if files::exists(&pending)? {
            let file = files::open_read(&pending)?;
            check_pending(&pending, files::length(&file, &pending)?, self.chain.size())?;
            let found = inspect(&file, 0, &self.chain).map_err(BookError::io("read", &pending))?;
            let (hash, bytes) = digest(files::open_read(&pending)?, &pending)?;
            let name = format!("{}.tail", data_encoding::HEXLOWER.encode(&hash.0));
            recovery = Recovery {
                bytes,
                lines: found.lines,
                file: Some(name.clone()),
                ..recovery
            };
            body.bytes = Count(bytes);
            body.file = Some(name);
            body.lines = Count(found.lines);
            body.sha256 = Some(hash);
            let lost = found
                .signed
                .as_ref()
                .map_or(0, |head| head.size.0.saturating_sub(self.chain.size()));
            if lost >= MAX_UNSIGNED {
                return Err(BookError::Damaged(Damage {
                    file: pending,
                    line: 0,
                    index: self.chain.size(),
                    what: format!(
                        "a signed checkpoint lies {lost} entries beyond the journal's end"
                    ),
                }));
            }
            self.signed.clone_from(&found.signed);
            body.signed = found.signed;
            let gap = Gap {
                count: Some(Count(1)),
                from: None,
                process,
                reason: "signed_and_set_aside".into(),
                until: None,
            };
            for _ in 0..lost {
                batch.push(Prepared::plain(gap.clone())?);
            }
        } else if body.missing.is_empty() {
            return Ok(None);
        }
        batch.insert(0, Prepared::plain(body)?);
        self.append(batch)?;
        if let Some(name) = &recovery.file {
            files::rename(&pending, &self.layout.quarantine().join(name))?;
        }
        Ok(Some(recovery))
    }

    /// The payloads of the last batch that a loss of power kept from the disk and that are not on record as absent. A
    /// batch is acknowledged only after its payloads are synced and the next one is written after that, so nothing else
    /// can excuse an absence: an earlier batch, a deleted segment or foreign bytes stay a finding of verification.
    fn missing_payloads(&mut self, recent: &Recent) -> Result<Vec<Target>, BookError> {
        let (mut missing, mut budget, mut tried, mut opened) = (Vec::new(), READ, 0, false);
        for (age, stored) in recent
            .stored
            .iter()
            .rev()
            .enumerate()
            .filter(|(_, stored)| !recent.explained.contains(&stored.target))
        {
            let path = self.layout.vault_segment(stored.at.seg);
            let subject = Subject {
                origin: &self.chain.origin,
                call: &stored.call,
                field: stored.target.f,
            };
            let Some(file) = files::open_if_there(&path)? else {
                continue;
            };
            let found = match &file {
                file if budget < stored.at.len => {
                    vault::find(file, subject, stored.at).map_err(BookError::io("read", &path))?
                }
                file => {
                    budget -= stored.at.len;
                    let object =
                        vault::read(file, stored.at).map_err(BookError::io("read", &path))?;
                    let found = object.as_ref().map_or(Found::Missing, |object| {
                        vault::look(subject, stored.at, object)
                    });
                    if let (Found::Present, Some(object), false) =
                        (found, &object, opened || tried == KEY_TRIALS)
                    {
                        tried += 1;
                        opened = vault::open(self.preparer.key(), subject, object).is_ok();
                    }
                    found
                }
            };
            if found == Found::Missing
                && age < recent.last
                && vault::is_unwritten(&file, stored.at).map_err(BookError::io("read", &path))?
            {
                missing.push(stored.target.clone());
            }
        }
        if tried > 0 && !opened {
            return Err(BookError::WrongVaultKey);
        }
        missing.reverse();
        Ok(missing)
    }
}

/// Reads the first line of a segment into the chain and verifies the checkpoint it repeats.
pub(crate) fn begin(
    journal: &std::fs::File,
    path: &Path,
    first: u64,
    chain: &mut Chain,
) -> Result<Place, BookError> {
    let (line, place) = first_line(journal, path, first)?;
    // Before the first entry there is one state only; what a later segment states is taken at its word.
    let note = line.and_then(|line| match first {
        0 => chain.link(&line, first),
        _ => chain.begin(&line, first),
    });
    check_note(note, path, first, chain)?;
    Ok(place)
}

/// Steps from the end of one segment to the next.
pub(crate) fn link(
    journal: &std::fs::File,
    path: &Path,
    first: u64,
    chain: &Chain,
) -> Result<Place, BookError> {
    let (line, place) = first_line(journal, path, first)?;
    let note = line.and_then(|line| chain.link(&line, first));
    check_note(note, path, first, chain)?;
    Ok(place)
}

pub(crate) type FirstLine = (Result<SegmentLine, Flaw>, Place);

pub(crate) fn first_line(
    journal: &std::fs::File,
    path: &Path,
    first: u64,
) -> Result<FirstLine, BookError> {
    let io = || BookError::io("read", path);
    let mut lines = files::Lines::at(journal, 0, 0).map_err(io())?;
    Ok(match lines.next().map_err(io())? {
        Some(line) if line.whole => (
            SegmentLine::parse(lines.bytes()),
            Place {
                offset: line.end,
                line: 1,
            },
        ),
        _ => (
            Err(Flaw::changed(format!(
                "the first line of the segment from entry {first} is not whole"
            ))),
            Place::default(),
        ),
    })
}

fn check_note(
    note: Result<Option<Note>, Flaw>,
    path: &Path,
    first: u64,
    chain: &Chain,
) -> Result<(), BookError> {
    let flaw = match note {
        Ok(None) => return Ok(()),
        Ok(Some(note)) => match note.verify(chain.keys.vkeys()) {
            Ok(()) => return Ok(()),
            Err(error) => Flaw::changed(format!(
                "the checkpoint the segment repeats is refused: {error}"
            )),
        },
        Err(flaw) => flaw,
    };
    Err(if flaw.is_key_range() {
        BookError::KeyRange(Damage {
            file: path.to_owned(),
            line: 1,
            index: first,
            what: flaw.what,
        })
    } else if flaw.is_unknown() {
        BookError::Newer {
            path: path.to_owned(),
            found: flaw.what,
        }
    } else {
        BookError::Damaged(Damage {
            file: path.to_owned(),
            line: 1,
            index: first,
            what: flaw.what,
        })
    })
}

/// SHA-256 and length of what a reader gives.
/// Refuses bytes set aside that are more than crashes leave: those of two tails.
pub(crate) fn check_pending(pending: &Path, bytes: u64, size: u64) -> Result<(), BookError> {
    if bytes > 2 * MAX_TAIL {
        return Err(BookError::Damaged(Damage {
            file: pending.to_owned(),
            line: 0,
            index: size,
            what: "more bytes are set aside than crashes can leave; move it away".into(),
        }));
    }
    Ok(())
}

fn digest(mut source: impl std::io::Read, path: &Path) -> Result<(Hash, u64), BookError> {
    let (mut hash, mut length, mut buffer) = (Sha256::new(), 0, vec![0; 64 << 10]);
    loop {
        let read = match source.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read.map_err(BookError::io("read", path))?,
        };
        match read {
            0 => return Ok((Hash(hash.finalize().into()), length)),
            n => {
                hash.update(&buffer[..n]);
                length += n as u64;
            }
        }
    }
}
