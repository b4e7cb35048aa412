//! What state a book is in, as opening it for writing would find it, without writing: for a person's status page and for
//! diagnosis. Reads names, the last segment, heads and tails of the others. Refuses to verify everything: that is `verify`'s.

use std::path::Path;

use crate::entry::Common;
use crate::error::BookError;
use crate::files::{self, Lines};
use crate::journal::OpenCall;
use crate::journal::chain::Chain;
use crate::journal::continuity;
use crate::journal::layout::{BookFile, Layout};
use crate::journal::obstacles;
use crate::journal::recover::begin;
use crate::journal::scan::{Place, Recent, Scan, Tail, Which};
use crate::key::Signer;
use crate::note::Vkey;
use crate::pin::Pin;
use crate::tree::Hash;

/// With what a book is looked at.
#[derive(Clone, Debug, Default)]
pub struct LookOptions {
    /// The keys of which one must be in force. Without any, what the book states is taken at its word.
    pub vkeys: Vec<Vkey>,
    /// The head that is remembered outside of the book, read before the book is looked at.
    pub pin: Option<Pin>,
}

/// What was found.
#[derive(Debug)]
pub struct Look {
    /// Which book.
    pub book: BookFile,
    /// The key in force, as far as the last segment could be read.
    pub key: Option<Vkey>,
    /// What stops a writer, if anything does.
    pub fault: Option<BookError>,
    /// What of the folder stops a writer though the record is well: a file that is none, a right that is missing.
    pub obstacle: Option<BookError>,
    /// Entries under the last good checkpoint, as far as the last segment could be read.
    pub size: u64,
    /// The root of their tree.
    pub root: Hash,
    /// Bytes and whole lines after the last checkpoint, where nobody is writing them.
    pub tail: Option<(u64, u64)>,
    /// Time of the first entry, as it states it.
    pub first_ts: Option<String>,
    /// Time of the last signed entry.
    pub last_ts: Option<String>,
    /// Segments of the journal.
    pub segments: u64,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// Bytes of the vault.
    pub vault_bytes: u64,
    /// Calls without an outcome.
    pub open_calls: Vec<OpenCall>,
    /// What was set aside: names in `quarantine/` and their bytes, sorted.
    pub quarantine: Vec<(String, u64)>,
}

/// How often a batch that is being written is waited for before it counts as a tail.
const PATIENCE: u32 = 20_000;

/// Looks at the book in `dir`. Takes no lock and writes nothing; costs about what opening does.
///
/// # Errors
/// [`BookError::NotABook`], [`BookError::Newer`] and [`BookError::Io`] where there is nothing to look at. What is wrong with a book
/// that is there is in [`Look::fault`].
pub fn look(dir: &Path, options: &LookOptions) -> Result<Look, BookError> {
    let layout = Layout::new(dir);
    let book = BookFile::read(dir)?;
    let segments = layout.segments()?;
    let mut found = Look {
        key: None,
        fault: None,
        obstacle: None,
        size: 0,
        root: Hash::of(b""),
        tail: None,
        first_ts: None,
        last_ts: None,
        segments: segments.len() as u64,
        journal_bytes: bytes_in(&layout.journal()),
        vault_bytes: bytes_in(&layout.vault()),
        open_calls: Vec::new(),
        quarantine: quarantine(&layout),
        book,
    };
    if let Err(fault) = read(&layout, &segments, options, &mut found) {
        found.fault = Some(fault);
    }
    Ok(found)
}

/// The signed head of the book in `dir`, to be remembered by whoever has just made it with `signer`. Writes nothing.
///
/// # Errors
/// What [`look`] finds wrong; [`BookError::WrongKey`] when the book is not `signer`'s.
pub fn head(dir: &Path, signer: &Signer) -> Result<Pin, BookError> {
    let book = BookFile::read(dir)?;
    let vkey = signer.vkey(&book.origin);
    let options = LookOptions {
        vkeys: vec![vkey.clone()],
        pin: None,
    };
    let found = look(dir, &options)?;
    match found.fault {
        Some(fault) => Err(fault),
        None => Ok(Pin {
            origin: book.origin,
            size: found.size,
            root: found.root,
            key: vkey.id(),
        }),
    }
}

fn read(
    layout: &Layout,
    segments: &[u64],
    options: &LookOptions,
    found: &mut Look,
) -> Result<(), BookError> {
    let (Some(oldest), Some(newest)) = (segments.first(), segments.last()) else {
        return Err(BookError::NotABook {
            path: layout.dir.clone(),
            why: "its folder `journal` is empty".into(),
        });
    };
    found.first_ts = first_time(&layout.segment(*oldest))?;
    let mut chain = Chain::new(found.book.origin.clone(), found.book.vkey.clone());
    chain.time = continuity::time_before(layout, *newest)?;
    let tail = settled(layout, *newest, &mut chain);
    found.size = chain.size();
    let in_force = chain.keys.in_force(chain.size() + 1);
    found.key = in_force.map(|range| range.vkey.clone());
    found.root = chain.head.range.root();
    found.last_ts = chain
        .time
        .and_then(|time| jiff::Timestamp::from_millisecond(time).ok())
        .map(crate::journal::batch::timestamp);
    found.open_calls = chain.open.values().cloned().collect();
    // In the order of opening; a segment that is not there says more than the change it looks like from inside another.
    continuity::check(layout, &found.book.origin)?;
    let tail = tail?;
    if let Some(given) = options.vkeys.first()
        && let Some(range) = chain.keys.in_force(chain.size() + 1)
        && !options.vkeys.contains(&range.vkey)
    {
        return Err(BookError::WrongKey {
            book: range.vkey.to_string(),
            given: given.to_string(),
        });
    }
    if let Some(pin) = &options.pin {
        pin.check(layout, &chain)?;
    }
    found.tail = tail.map(|tail| (tail.end - tail.start, tail.lines));
    found.obstacle = obstacles::check(layout, chain.size()).err();
    Ok(())
}

/// Reads the last segment until nobody is writing in it.
fn settled(layout: &Layout, first: u64, chain: &mut Chain) -> Result<Option<Tail>, BookError> {
    let path = layout.segment(first);
    let journal = files::open_read(&path)?;
    let mut place: Place = begin(&journal, &path, first, chain)?;
    let scan = Scan {
        file: &journal,
        path: &path,
        threads: 1,
        signatures: Which::All,
    };
    let (mut recent, mut before) = (Recent::default(), None);
    for _ in 0..PATIENCE {
        let free = files::lock_is_free(&layout.lock());
        let tail = scan.advance(chain, &mut place, &mut recent)?;
        // The same tail twice, and nobody held the lock in between: no batch on its way.
        if tail.is_none() || free && tail == before {
            return Ok(tail);
        }
        before = tail;
        std::thread::yield_now();
    }
    Ok(before)
}

/// The time the first entry of a segment states.
fn first_time(path: &Path) -> Result<Option<String>, BookError> {
    let io = || BookError::io("read", path);
    let mut lines = Lines::at(&files::open_read(path)?, 0, 0).map_err(io())?;
    lines.next().map_err(io())?;
    lines.next().map_err(io())?;
    let common = std::str::from_utf8(lines.bytes())
        .ok()
        .and_then(|line| serde_json::from_str::<Common<'_>>(line).ok());
    Ok(common.map(|common| common.ts.into_owned()))
}

/// Bytes of the files in a folder; what can't be read counts for nothing.
fn bytes_in(dir: &Path) -> u64 {
    let names = files::list(dir).unwrap_or_default();
    names
        .iter()
        .map(|name| files::size_of(&dir.join(name)))
        .sum()
}

fn quarantine(layout: &Layout) -> Vec<(String, u64)> {
    let dir = layout.quarantine();
    let names = files::list(&dir).unwrap_or_default();
    names
        .into_iter()
        .map(|name| {
            let bytes = files::size_of(&dir.join(&name));
            (name, bytes)
        })
        .collect()
}
