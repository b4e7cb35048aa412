//! One page of a view: entries found through the index, read from the journal, proven to be in the signed tree. A row of the index
//! that says otherwise makes the index anew; it never shows.

use countersign_book::{Body, BookError, Entry, Listing, Located, Order, Prover, Reader};
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, Row, params_from_iter};

use crate::folder::Folder;

use super::filter::Filter;
use super::index::{Index, IndexError, integer, is_damage};

/// Which page.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What entries must meet.
    pub filter: Filter,
    /// Only entries of this call.
    pub call: Option<String>,
    /// Ascending from this index on. Without it the latest.
    pub from: Option<u64>,
    /// Only entries below this index.
    pub before: Option<u64>,
    /// Entries of a page, at most.
    pub limit: usize,
    /// The index is made anew first.
    pub anew: bool,
}

/// A page, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Its entries.
    pub entries: Vec<Entry>,
    /// The outcome entry of each of them that is a call, as far as the page or the index knows it.
    pub outcomes: Vec<Option<Entry>>,
    /// Where the next page begins.
    pub next: Option<Next>,
    /// Entries of the book that were looked through, where it is not all of them.
    pub looked: Option<u64>,
}

/// The cursor of the next page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ascending, from this index on.
    From(u64),
    /// Descending, below this index.
    Before(u64),
}

/// A row of the index says what the journal does not.
struct Poisoned;

/// Reads a page. Without conditions the journal alone is read, otherwise the index is brought up to date first.
///
/// # Errors
/// When the book can't be read or what it holds is not proven, or neither the index nor a temporary one can be used.
pub fn read(folder: &Folder, asked: &Asked) -> Result<Page, IndexError> {
    let mut prover = Prover::open(&folder.book())?;
    if asked.filter.is_empty() && asked.call.is_none() && !asked.anew {
        return plain(folder, &mut prover, asked);
    }
    let mut index = open(folder)?;
    let updated = match asked.anew {
        true => index.remake("it was asked for"),
        false => index.update(),
    };
    match updated {
        Err(IndexError::Database(error))
            if !is_damage(&error) && index.size().is_ok_and(|size| size > 0) =>
        {
            tracing::warn!("the index is not up to date: {error}");
        }
        updated => updated?,
    }
    let page = match find(&index, &mut prover, asked) {
        Ok(Ok(page)) => return Ok(page),
        Ok(Err(Poisoned)) => "it said what the journal does not".to_owned(),
        Err(IndexError::Database(error)) if is_damage(&error) => error.to_string(),
        Err(error) => return Err(error),
    };
    index.remake(&page)?;
    find(&index, &mut prover, asked)?.map_err(|Poisoned| unproven(folder).into())
}

/// The executor's index; where its folder can't be written, one for this page.
fn open(folder: &Folder) -> Result<Index, IndexError> {
    Index::open(folder).or_else(|error| {
        tracing::warn!("the index can't be used, so a temporary one is made: {error}");
        Index::temporary(folder)
    })
}

/// A page of all entries, straight from the journal.
fn plain(folder: &Folder, prover: &mut Prover, asked: &Asked) -> Result<Page, IndexError> {
    let (order, from) = match (asked.from, asked.before) {
        (Some(from), _) => (Order::OldestFirst, Some(from)),
        (None, Some(0)) => return Ok(Page::default()),
        (None, before) => (Order::NewestFirst, before.map(|before| before - 1)),
    };
    let limit = asked.limit.saturating_add(1);
    let mut entries = Reader::open(&folder.book())?.list(Listing { from, limit, order })?;
    // What was signed since the head was read is on the next page.
    let end = asked.before.unwrap_or(u64::MAX).min(prover.head().size);
    entries.retain(|entry| entry.index < end);
    let page = Page::of(entries, asked);
    if !all_signed(prover, &page.entries)? {
        return Err(unproven(folder).into());
    }
    Ok(page)
}

fn find(
    index: &Index,
    prover: &mut Prover,
    asked: &Asked,
) -> Result<Result<Page, Poisoned>, IndexError> {
    let size = index.size()?;
    let mut rows = places(index, asked)?;
    rows.retain(|row| row.at.index < prover.head().size);
    let mut entries = Vec::new();
    for row in &rows {
        match prover.read(row.at)? {
            Some(entry) if !asked.filter.is_contradicted_by(&entry) => entries.push(entry),
            _ => return Ok(Err(Poisoned)),
        }
    }
    if asked.call.is_some()
        && entries
            .iter()
            .any(|entry| call_of(entry) != asked.call.as_deref())
    {
        return Ok(Err(Poisoned));
    }
    let mut page = Page::of(entries, asked);
    for (entry, outcome) in page.entries.iter().zip(&mut page.outcomes) {
        let ends = rows
            .iter()
            .find(|row| row.at.index == entry.index)
            .and_then(|row| row.ends);
        if outcome.is_some() || ends.is_none_or(|ends| ends >= prover.head().size) {
            continue;
        }
        let found = ends.map(|ends| place(index, ends)).transpose()?.flatten();
        let found = found.map(|at| prover.read(at)).transpose()?.flatten();
        match found.filter(|found| ends_call(entry, found)) {
            Some(found) => *outcome = Some(found),
            None => return Ok(Err(Poisoned)),
        }
    }
    let shown: Vec<Entry> = page
        .entries
        .iter()
        .chain(page.outcomes.iter().flatten())
        .cloned()
        .collect();
    if !all_signed(prover, &shown)? {
        return Ok(Err(Poisoned));
    }
    page.looked = (size < prover.head().size).then_some(size);
    Ok(Ok(page))
}

struct Found {
    at: Located,
    ends: Option<u64>,
}

fn places(index: &Index, asked: &Asked) -> Result<Vec<Found>, IndexError> {
    let Filter {
        agent,
        server,
        tool,
        outcome,
        decision,
        kind,
        since,
        until,
    } = &asked.filter;
    let mut conditions = vec!["1".to_owned()];
    let mut values: Vec<Value> = Vec::new();
    let mut condition = |text: &str, value: Value| {
        values.push(value);
        conditions.push(text.replace('?', &format!("?{}", values.len())));
    };
    for (column, text) in [
        ("agent", agent),
        ("server", server),
        ("tool", tool),
        ("outcome", outcome),
        ("decision", decision),
        ("kind", kind),
    ] {
        if let Some(text) = text {
            condition(
                &format!("{column} = (SELECT id FROM word WHERE text = ?)"),
                text.clone().into(),
            );
        }
    }
    for (text, value) in [("ms >= ?", since), ("ms < ?", until)] {
        if let Some(value) = value {
            condition(text, (*value).into());
        }
    }
    for (text, value) in [("i >= ?", asked.from), ("i < ?", asked.before)] {
        if let Some(value) = value {
            condition(text, integer(value).into());
        }
    }
    if let Some(call) = &asked.call {
        condition("call = ?", call.clone().into());
    }
    condition(
        "1 LIMIT ?",
        integer(asked.limit as u64).saturating_add(1).into(),
    );
    let limit = conditions
        .pop()
        .unwrap_or_default()
        .replace("1 LIMIT", "LIMIT");
    let order = if asked.from.is_some() { "ASC" } else { "DESC" };
    let sql = format!(
        "SELECT i, segment, offset, ends FROM entry WHERE {} ORDER BY i {order} {limit}",
        conditions.join(" AND ")
    );
    let mut statement = index.connection.prepare(&sql)?;
    let rows = statement.query_map(params_from_iter(values), |row| {
        Ok(Found {
            at: located(row)?,
            ends: row
                .get::<_, Option<i64>>(3)?
                .and_then(|ends| u64::try_from(ends).ok()),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn place(index: &Index, i: u64) -> Result<Option<Located>, IndexError> {
    let row = index
        .connection
        .prepare_cached("SELECT i, segment, offset FROM entry WHERE i = ?1")?
        .query_row([integer(i)], located)
        .optional()?;
    Ok(row)
}

fn located(row: &Row<'_>) -> rusqlite::Result<Located> {
    let number = |column| {
        row.get::<_, i64>(column)
            .map(|value| u64::try_from(value).unwrap_or(u64::MAX))
    };
    Ok(Located {
        index: number(0)?,
        segment: number(1)?,
        offset: number(2)?,
    })
}

fn all_signed(prover: &mut Prover, entries: &[Entry]) -> Result<bool, BookError> {
    let leaves: Vec<_> = entries
        .iter()
        .map(|entry| (entry.index, entry.leaf))
        .collect();
    Ok(prover.signed(&leaves)?.into_iter().all(|signed| signed))
}

fn unproven(folder: &Folder) -> BookError {
    BookError::NotFound(format!(
        "an entry in `{}` is not proven to be in the signed tree, so nothing is shown",
        folder.book().display()
    ))
}

fn ends_call(call: &Entry, outcome: &Entry) -> bool {
    matches!((&call.body, &outcome.body), (Some(Body::Call(call)), Some(Body::Outcome(outcome))) if call.call == outcome.call)
}

fn call_of(entry: &Entry) -> Option<&str> {
    Some(entry.body.as_ref()?.call()?.as_str())
}

impl Page {
    /// A page of at most `limit` of these entries, which are in the order asked for and one more where there are more.
    fn of(mut entries: Vec<Entry>, asked: &Asked) -> Self {
        let more = entries.len() > asked.limit;
        entries.truncate(asked.limit);
        let last = entries.last().map(|entry| entry.index);
        let next = last.filter(|_| more).map(|last| match asked.from {
            Some(_) => Next::From(last + 1),
            None => Next::Before(last),
        });
        if asked.from.is_none() {
            entries.reverse();
        }
        let outcomes = entries
            .iter()
            .map(|call| {
                entries
                    .iter()
                    .find(|outcome| ends_call(call, outcome))
                    .cloned()
            })
            .collect();
        Self {
            entries,
            outcomes,
            next,
            looked: None,
        }
    }
}
