//! Where the objects of a batch go in the vault, and how they reach the disk before the lines that refer to them. Refuses to
//! know what objects and lines hold; whoever calls holds the book's lock.
//!
//! Two ways. *Straight*: the segment is extended with zeros, which are synced once for many batches; a batch's objects
//! overwrite some of them by a direct write, which changes nothing but these bytes and hands them to the device; the flush
//! of the journal that follows, on the same device, makes both durable. *Synced*: objects are written and synced by
//! themselves, wherever it is not known that the first way holds.

use std::path::PathBuf;

use crate::error::{BookError, Damage};
use crate::files::{self, Direct, Known};
use crate::journal::chain::{Chain, VaultEnd};
use crate::journal::layout::Layout;
use crate::vault::SEGMENT_HEAD;

/// Zeros written ahead at least, in bytes.
const AHEAD: u64 = 64 << 10;
/// An object ends with a tag: this many bytes, never all zero.
const TAG: u64 = 16;
/// Zeros at a segment's end that are looked through for the last object; behind more of them nothing is overwritten.
const LOOKED_THROUGH: u64 = 8 << 20;

/// The vault segment written to.
#[derive(Debug)]
pub(super) struct Objects {
    seg: u64,
    path: PathBuf,
    file: Known,
    direct: Option<Direct>,
    /// Bytes of the file, as last seen: it is never shorter again.
    length: u64,
    /// Offset behind every object found or written.
    end: u64,
    /// Up to here the file is known to be on disk, length and zeros.
    ready: u64,
}

/// What the writer's options say about vault segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Bytes after which a new segment begins.
    pub segment: u64,
    /// Zeros written ahead at most, in bytes; with none, objects are always synced by themselves.
    pub ahead: u64,
}

impl Objects {
    /// Finds the place for `bytes` of objects, behind every object an entry or a tail set aside refers to. `current` is the
    /// segment open so far.
    pub(super) fn place(
        layout: &Layout,
        current: &mut Option<Self>,
        chain: &Chain,
        bytes: u64,
        sizes: Sizes,
    ) -> Result<VaultEnd, BookError> {
        let used = chain.vault;
        let mut seg = used.seg;
        loop {
            let there = current.as_ref().is_some_and(|open| open.seg == seg);
            if !there {
                // A segment that entries refer to is not made anew.
                if seg == used.seg && used.end > 0 && !files::exists(&layout.vault_segment(seg))? {
                    seg += 1;
                    continue;
                }
                *current = Some(Self::open(layout, seg, sizes)?);
            }
            if let Some(open) = current {
                let end = open.find_end(chain)?;
                let first = SEGMENT_HEAD.len() as u64;
                if open.end <= first || end.saturating_add(bytes) <= sizes.segment {
                    return Ok(VaultEnd { seg, end });
                }
            }
            seg += 1;
        }
    }

    /// Writes a batch's objects at `offset`, which [`Objects::place`] gave. When this returns, they are durable, or will be
    /// with the next flush of `journal`.
    pub(super) fn write(
        &mut self,
        journal: &Known,
        offset: u64,
        bytes: &[u8],
        sizes: Sizes,
    ) -> Result<(), BookError> {
        let end = offset + bytes.len() as u64;
        let fail = |action| BookError::io(action, &self.path);
        // The flush of another device would not carry them.
        if let Some(direct) = &mut self.direct
            && journal.is_on_device_of(&self.file)
        {
            let stop = end.next_multiple_of(direct.align());
            if stop > self.ready {
                if stop > self.length {
                    let ahead = stop.clamp(AHEAD, sizes.ahead.max(AHEAD));
                    let target = (stop + ahead).next_multiple_of(direct.align());
                    files::extend(&self.file, self.length, target).map_err(fail("write"))?;
                    self.length = target;
                }
                self.file.sync_all().map_err(fail("sync"))?;
                self.ready = self.length;
            }
            direct.write(offset, bytes).map_err(fail("write"))?;
        } else {
            files::write_at(&self.file, offset, bytes).map_err(fail("write"))?;
            self.file.sync_data().map_err(fail("sync"))?;
        }
        self.end = end;
        self.length = self.length.max(end);
        Ok(())
    }

    /// Whether the segment is still where others look for it.
    pub(super) fn check(&self) -> Result<(), BookError> {
        self.file.check_still(&self.path).map(drop)
    }

    fn open(layout: &Layout, seg: u64, sizes: Sizes) -> Result<Self, BookError> {
        let path = layout.vault_segment(seg);
        if !files::exists(&path)? {
            files::make_dir(&layout.vault())?;
            files::write_new(&path, &[SEGMENT_HEAD])?;
        }
        let file = Known::new(files::open_write(&path)?, &path)?;
        let direct = if sizes.ahead > 0 {
            Direct::open(&path, &file)
        } else {
            None
        };
        Ok(Self {
            seg,
            path,
            file,
            direct,
            length: 0,
            end: 0,
            ready: 0,
        })
    }

    /// The offset behind everything, where a write may begin.
    fn find_end(&mut self, chain: &Chain) -> Result<u64, BookError> {
        let length = files::length(&self.file, &self.path)?;
        if length < self.length {
            return Err(BookError::Damaged(Damage {
                file: self.path.clone(),
                line: 0,
                index: chain.size(),
                what: "the vault's segment is shorter than what was written to it".into(),
            }));
        }
        if length != self.length {
            let found = files::end_of_bytes(&self.file, length, LOOKED_THROUGH)
                .map_err(BookError::io("read", &self.path))?;
            // A tag may end with zeros.
            self.end = self.end.max((found + TAG - 1).min(length));
            self.length = length;
        }
        if self.seg == chain.vault.seg {
            self.end = self.end.max(chain.vault.end);
        }
        let end = self.end.max(SEGMENT_HEAD.len() as u64);
        Ok(match &self.direct {
            Some(direct) => end.next_multiple_of(direct.align()),
            None => end,
        })
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests look into files and damage them"
)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::journal::tests::{
        KEK, check, disk_folder, draft, folder, open_with, options, outcome,
    };
    use crate::{Field, Reader, VaultKey, Verdict, Writer, WriterOptions};

    fn open(book: &Path, process: &str, ahead: u64) -> Writer {
        let options = WriterOptions {
            vault_ahead_bytes: ahead,
            ..options(process)
        };
        open_with(book, process.bytes().map(u64::from).sum(), options).unwrap()
    }

    /// Every payload of the calls `0..count` can be read, and the book verifies.
    fn check_payloads(book: &Path, count: u64) {
        let report = check(book);
        assert_eq!(report.verdict(), Verdict::Ok, "{:?}", report.findings);
        assert_eq!(report.payloads, 2 * count);
        let (reader, key) = (Reader::open(book).unwrap(), VaultKey::from_bytes(KEK));
        let mut read = 0;
        for index in 0..report.size {
            for field in [Field::Args, Field::Result] {
                read += u64::from(reader.payload(&key, index, field).is_ok());
            }
        }
        assert_eq!(read, 2 * count);
    }

    fn commit(writer: &mut Writer, n: u64, process: &str) {
        writer.commit(vec![draft(n, process)]).unwrap();
        writer.commit(vec![outcome(n)]).unwrap();
    }

    #[test]
    fn both_ways_and_several_writers_of_either_lose_no_object() {
        for folder in [disk_folder(), folder()] {
            let mut writers: Vec<Writer> = [(0, "p0"), (1 << 20, "p1"), (1 << 20, "p2")]
                .map(|(ahead, process)| open(&folder.book, process, ahead))
                .into();
            for n in 0..60u64 {
                let by = (n % 7 % 3) as usize;
                commit(&mut writers[by], n, &format!("p{by}"));
            }
            drop(writers);
            commit(&mut open(&folder.book, "p3", 1 << 20), 60, "p3");
            check_payloads(&folder.book, 61);
        }
    }

    #[test]
    fn segments_with_zeros_ahead_are_ended_and_followed() {
        let folder = disk_folder();
        let mut writer = open_with(
            &folder.book,
            1,
            WriterOptions {
                vault_segment_bytes: 3000,
                ..options("p1")
            },
        )
        .unwrap();
        for n in 0..20 {
            commit(&mut writer, n, "p1");
        }
        assert!(
            std::fs::read_dir(folder.book.join("vault"))
                .unwrap()
                .count()
                > 4
        );
        check_payloads(&folder.book, 20);
    }

    #[test]
    fn what_lies_behind_the_record_is_never_written_over_after_a_start() {
        for folder in [disk_folder(), folder()] {
            commit(&mut open(&folder.book, "p1", 1 << 20), 0, "p1");
            let layout = Layout::new(&folder.book);
            let (segment, vault) = (layout.segment(0), layout.vault_segment(0));
            let before = std::fs::read(&segment).unwrap();
            commit(&mut open(&folder.book, "p1", 1 << 20), 1, "p1");
            let objects = std::fs::read(&vault).unwrap();
            let end = objects.iter().rposition(|byte| *byte != 0).unwrap();
            // The journal of before: the objects of the second call are behind what entries refer to.
            std::fs::write(&segment, before).unwrap();
            commit(&mut open(&folder.book, "p2", 1 << 20), 2, "p2");
            assert_eq!(std::fs::read(&vault).unwrap()[..=end], objects[..=end]);
            check_payloads(&folder.book, 2);
        }
    }

    #[test]
    fn objects_of_a_tail_another_process_set_aside_stay() {
        for folder in [disk_folder(), folder()] {
            let layout = Layout::new(&folder.book);
            let mut one = open(&folder.book, "p1", 1 << 20);
            commit(&mut one, 0, "p1");
            let segment = layout.segment(0);
            let whole = std::fs::metadata(&segment).unwrap().len();
            let mut two = open(&folder.book, "p2", 1 << 20);
            commit(&mut two, 1, "p2");
            drop(two);
            let objects = std::fs::read(layout.vault_segment(0)).unwrap();
            let end = objects.iter().rposition(|byte| *byte != 0).unwrap();
            // The second call's lines are torn; a third process sets them aside, and the first goes on.
            let bytes = std::fs::read(&segment).unwrap();
            std::fs::write(&segment, &bytes[..whole as usize + 9]).unwrap();
            drop(open(&folder.book, "p3", 1 << 20));
            commit(&mut one, 2, "p1");
            assert_eq!(
                std::fs::read(layout.vault_segment(0)).unwrap()[..=end],
                objects[..=end]
            );
            check_payloads(&folder.book, 2);
        }
    }

    #[test]
    fn zeros_without_end_are_not_looked_through() {
        let folder = folder();
        let file = files::open_write(&{
            commit(&mut open(&folder.book, "p1", 0), 0, "p1");
            Layout::new(&folder.book).vault_segment(0)
        })
        .unwrap();
        file.set_len(1 << 40).unwrap();
        commit(&mut open(&folder.book, "p2", 0), 1, "p2");
        check_payloads(&folder.book, 2);
        assert!(Layout::new(&folder.book).vault_segment(1).exists());
    }
}
