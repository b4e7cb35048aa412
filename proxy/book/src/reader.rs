//! Lists and shows entries of a book without loading it. Refuses to verify: that is `verify`'s.

use std::collections::VecDeque;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::entry::Entry;
use crate::error::{BookError, Damage};
use crate::files::{self, Lines};
use crate::journal::BookFile;
use crate::journal::chain::MAX_UNSIGNED;
use crate::journal::layout::Layout;
use crate::journal::segment::{CP, SEG};

/// Direction of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// From `from` upwards.
    OldestFirst,
    /// From `from` downwards.
    NewestFirst,
}

/// What to list.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// The first index; none is the oldest, or the newest, by `order`.
    pub from: Option<u64>,
    /// The most entries to return.
    pub limit: usize,
    /// Direction.
    pub order: Order,
}

/// One entry with its place.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The entry.
    pub entry: Entry,
    /// The segment's file name.
    pub file: String,
    /// The line in it, from 1.
    pub line: u64,
    /// The text of the first checkpoint note that covers it, as stored (not verified here).
    pub checkpoint: String,
}

/// A reader of one book. Entries after the last checkpoint are not shown: they are not signed.
#[derive(Debug)]
pub struct Reader {
    pub(crate) layout: Layout,
    pub(crate) book: BookFile,
}

impl Reader {
    /// Opens the book in `dir`, or in its subfolder `book/`. Takes no lock and writes nothing.
    ///
    /// # Errors
    /// [`BookError::NotABook`], [`BookError::Newer`], [`BookError::Io`].
    pub fn open(dir: &Path) -> Result<Self, BookError> {
        let layout = Layout::find(dir);
        let book = BookFile::read(&layout.dir)?;
        Ok(Self { layout, book })
    }

    /// Which book it is.
    #[must_use]
    pub fn book(&self) -> &BookFile {
        &self.book
    }

    /// The entries asked for, in the order asked for. Reads whole segments, holds `limit` entries.
    ///
    /// # Errors
    /// [`BookError::Io`]; [`BookError::Damaged`] on a line that is no entry.
    pub fn list(&self, listing: Listing) -> Result<Vec<Entry>, BookError> {
        let Listing { from, limit, order } = listing;
        let mut entries = VecDeque::new();
        let mut segments = self.layout.segments()?;
        match order {
            Order::OldestFirst => {
                let from = from.unwrap_or(0);
                let start = segments
                    .partition_point(|first| *first <= from)
                    .saturating_sub(1);
                for first in segments.drain(..).skip(start) {
                    if entries.len() >= limit {
                        break;
                    }
                    self.read(first, |entry, _, _| {
                        if entry.index >= from && entries.len() < limit {
                            entries.push_back(entry);
                        }
                    })?;
                }
            }
            Order::NewestFirst => {
                let from = from.unwrap_or(u64::MAX);
                for first in segments.into_iter().rev().filter(|first| *first <= from) {
                    let room = limit - entries.len();
                    if room == 0 {
                        break;
                    }
                    let mut newest = VecDeque::new();
                    self.read(first, |entry, _, _| {
                        if entry.index <= from {
                            newest.push_back(entry);
                        }
                        if newest.len() > room {
                            newest.pop_front();
                        }
                    })?;
                    entries.extend(newest.into_iter().rev());
                }
            }
        }
        Ok(entries.into())
    }

    /// Entry `index` with its place, or nothing when the book has no such signed entry.
    ///
    /// # Errors
    /// As [`Reader::list`].
    pub fn show(&self, index: u64) -> Result<Option<Shown>, BookError> {
        let segments = self.layout.segments()?;
        let Some(first) = segments.into_iter().rev().find(|first| *first <= index) else {
            return Ok(None);
        };
        let mut shown = None;
        self.read(first, |entry, line, checkpoint| {
            if entry.index == index {
                let file = self
                    .layout
                    .segment(first)
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                shown = Some(Shown {
                    entry,
                    file,
                    line,
                    checkpoint: checkpoint.to_owned(),
                });
            }
        })?;
        Ok(shown)
    }

    /// Gives the signed entries of a segment, each with its line and the note of the checkpoint that covers it.
    fn read(&self, first: u64, mut give: impl FnMut(Entry, u64, &str)) -> Result<(), BookError> {
        let path = self.layout.segment(first);
        let io = || BookError::io("read", &path);
        let mut lines = Lines::at(&files::open_read(&path)?, 0, 0).map_err(io())?;
        let mut unsigned: Vec<(Vec<u8>, u64)> = Vec::new();
        let mut next = first;
        while let Some(line) = lines.next().map_err(io())? {
            let bytes = lines.bytes();
            if !line.whole || unsigned.len() as u64 > MAX_UNSIGNED {
                return Ok(());
            }
            if bytes.starts_with(b"{") {
                unsigned.push((bytes.to_vec(), line.number));
            } else if let Some(encoded) = bytes.strip_prefix(CP) {
                let note = STANDARD
                    .decode(encoded)
                    .ok()
                    .and_then(|note| String::from_utf8(note).ok())
                    .unwrap_or_default();
                for (bytes, number) in unsigned.drain(..) {
                    let entry = std::str::from_utf8(&bytes)
                        .ok()
                        .and_then(|text| Entry::parse(text).ok());
                    let entry = entry.filter(|entry| entry.index == next).ok_or_else(|| {
                        let what = "the line is not the entry to be expected there".to_owned();
                        BookError::Damaged(Damage {
                            file: path.clone(),
                            line: number,
                            index: next,
                            what,
                        })
                    })?;
                    next += 1;
                    give(entry, number, &note);
                }
            } else if !bytes.starts_with(SEG) {
                return Ok(());
            }
        }
        Ok(())
    }
}
