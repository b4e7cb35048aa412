//! Gives every signed entry once, in order, with its place and what views sort and filter by: for an index that is derived from the
//! book. Gives no payload and no commitment.

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;

use crate::entry::{Entry, VERSION};
use crate::error::{BookError, Damage};
use crate::journal::BookFile;
use crate::journal::follow::{Follower, SignedHead};
use crate::journal::layout::Layout;
use crate::tlog::Located;
use crate::tree::{CompactRange, Hash, leaf_hash};

/// A reader of the signed journal that keeps its place.
#[derive(Debug)]
pub struct Feed {
    follower: Follower,
    next: u64,
}

/// What an entry says of itself, as far as views sort by it. Members of kinds this version does not know are taken as well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Said<'a> {
    /// Version of the schema.
    v: u64,
    /// Kind.
    #[serde(borrow)]
    pub k: Cow<'a, str>,
    /// Time as written.
    #[serde(borrow)]
    pub ts: Cow<'a, str>,
    /// The call it belongs to.
    #[serde(borrow)]
    pub call: Option<Cow<'a, str>>,
    /// The agent.
    #[serde(borrow)]
    pub agent: Option<Cow<'a, str>>,
    /// The server.
    #[serde(borrow)]
    pub server: Option<Cow<'a, str>>,
    /// The tool.
    #[serde(borrow)]
    pub tool: Option<Cow<'a, str>>,
    /// What a call does: `read`, `write`.
    #[serde(borrow)]
    pub effect: Option<Cow<'a, str>>,
    /// A gate's decision: `allow`, `deny`.
    #[serde(borrow)]
    pub decision: Option<Cow<'a, str>>,
    /// An outcome's status.
    #[serde(borrow)]
    pub status: Option<Cow<'a, str>>,
}

/// Only what every entry has.
#[derive(Deserialize)]
struct Least<'a> {
    #[serde(borrow)]
    k: Cow<'a, str>,
    #[serde(borrow)]
    ts: Cow<'a, str>,
}

impl Feed {
    /// Begins with the journal's first entry, in the book in `dir` or in its subfolder `book/`.
    ///
    /// # Errors
    /// [`BookError::NotABook`], [`BookError::Newer`], [`BookError::Damaged`], [`BookError::Io`].
    pub fn begin(dir: &Path) -> Result<Self, BookError> {
        let layout = Layout::find(dir);
        let follower = Follower::at(&layout, &BookFile::read(&layout.dir)?, 0)?;
        let next = follower.range().size();
        Ok(Self { follower, next })
    }

    /// Begins after the first `size` entries, where the book's tree of that size has this `root`; nothing where it has not.
    ///
    /// # Errors
    /// As [`Feed::begin`].
    pub fn resume(dir: &Path, size: u64, root: Hash) -> Result<Option<Self>, BookError> {
        let layout = Layout::find(dir);
        let follower = Follower::at(&layout, &BookFile::read(&layout.dir)?, size)?;
        let mut reader = follower.clone();
        let mut range: CompactRange = reader.range().clone();
        while range.size() < size {
            let Some(piece) = reader.next()? else {
                return Ok(None);
            };
            piece.each(|line| {
                if range.size() < size {
                    range.push(leaf_hash(line.bytes));
                }
                Ok(())
            })?;
        }
        let same = range.size() == size && range.root() == root;
        Ok(same.then_some(Self {
            follower,
            next: size,
        }))
    }

    /// The index of the next entry to be given.
    #[must_use]
    pub fn next_index(&self) -> u64 {
        self.next
    }

    /// The head over the entries given so far, once some were; entries are given up to a checkpoint.
    #[must_use]
    pub fn head(&self) -> Option<SignedHead> {
        self.follower.head()
    }

    /// Gives the entries of the next piece of the journal; false when all were given. Asked again later, it gives what was appended
    /// since. At most a segment's entries at a time.
    ///
    /// # Errors
    /// [`BookError::Damaged`] when the journal is; what `give` answers.
    pub fn next<E: From<BookError>>(
        &mut self,
        mut give: impl FnMut(Located, &Said<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.piece(|place, bytes| give(place, &said(bytes)))
    }

    /// The same with whole entries.
    ///
    /// # Errors
    /// As [`Feed::next`]; [`BookError::Damaged`] on a line that is no entry.
    pub fn entries<E: From<BookError>>(
        &mut self,
        mut give: impl FnMut(Entry) -> Result<(), E>,
    ) -> Result<bool, E> {
        let layout = self.follower.layout().clone();
        self.piece(|place, bytes| {
            let text = std::str::from_utf8(bytes).ok();
            let entry = text.and_then(|text| Entry::parse(text).ok());
            let entry = entry.filter(|entry| entry.index == place.index);
            give(entry.ok_or_else(|| {
                BookError::Damaged(Damage {
                    file: layout.segment(place.segment),
                    line: 0,
                    index: place.index,
                    what: "the line is not the entry to be expected there".to_owned(),
                })
            })?)
        })
    }

    fn piece<E: From<BookError>>(
        &mut self,
        mut give: impl FnMut(Located, &[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        let Some(piece) = self.follower.next()? else {
            return Ok(false);
        };
        let mut failed = None;
        piece.each(|line| {
            if line.index < self.next || failed.is_some() {
                return Ok(());
            }
            let place = Located {
                index: line.index,
                segment: piece.segment,
                offset: line.offset,
            };
            match give(place, line.bytes) {
                Ok(()) => self.next = line.index + 1,
                Err(error) => failed = Some(error),
            }
            Ok(())
        })?;
        match failed {
            Some(error) => Err(error),
            None => Ok(true),
        }
    }
}

/// What a line says: of another version, or where a member is of another type, only kind and time.
fn said(line: &[u8]) -> Said<'_> {
    let whole = serde_json::from_slice::<Said<'_>>(line).ok();
    whole.filter(|said| said.v == VERSION).unwrap_or_else(|| {
        let least = serde_json::from_slice::<Least<'_>>(line).ok();
        least.map_or_else(Said::default, |Least { k, ts }| Said {
            k,
            ts,
            ..Said::default()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::{draft, folder, open_with, options, outcome};

    #[test]
    fn entries_are_given_once_and_from_where_one_stopped() {
        let folder = folder();
        let mut writer = open_with(&folder.book, 1, options("p")).unwrap();
        writer
            .commit((1..20).map(|n| draft(n, "p")).collect())
            .unwrap();
        let mut seen = Vec::new();
        let mut take = |feed: &mut Feed| {
            while feed
                .next(|place, said| {
                    assert!(!said.k.is_empty() && said.ts.ends_with('Z'));
                    seen.push((place.index, said.k.to_string()));
                    Ok::<_, BookError>(())
                })
                .unwrap()
            {}
        };
        let mut feed = Feed::begin(&folder.book).unwrap();
        take(&mut feed);
        let head = feed.head().unwrap();
        writer.commit((1..5).map(outcome).collect()).unwrap();
        take(&mut feed);
        let mut resumed = Feed::resume(&folder.book, head.size, head.root)
            .unwrap()
            .unwrap();
        take(&mut resumed);
        assert_eq!((feed.next_index(), resumed.next_index()), (24, 24));
        let indexes: Vec<u64> = seen.iter().map(|(index, _)| *index).collect();
        assert_eq!(indexes, (0..24).chain(20..24).collect::<Vec<_>>());
        assert_eq!(seen[23].1, "outcome");
        assert!(Feed::resume(&folder.book, 19, head.root).unwrap().is_none());
        assert!(Feed::resume(&folder.book, 99, head.root).unwrap().is_none());
    }

    #[test]
    fn other_versions_and_types_are_kind_and_time_only() {
        let check = |line: &str, kind: &str, agent: Option<&str>| {
            let said = said(line.as_bytes());
            assert_eq!(
                (said.k.as_ref(), said.agent.as_deref()),
                (kind, agent),
                "{line}"
            );
        };
        check(
            r#"{"agent":"a","k":"call","ts":"t","v":1}"#,
            "call",
            Some("a"),
        );
        check(r#"{"agent":"a","k":"call","ts":"t","v":2}"#, "call", None);
        check(r#"{"agent":7,"k":"call","ts":"t","v":1}"#, "call", None);
        check(
            r#"{"agent":"a\u0041","k":"new","ts":"t","v":1}"#,
            "new",
            Some("aA"),
        );
        check(
            r#"{"agent":"a","agent":"b","k":"call","ts":"t","v":1}"#,
            "call",
            None,
        );
        check("[]", "", None);
    }
}
