//! `index.db`: where each entry stands and what views filter by. Derived and disposable: made anew whenever it is not that of the
//! journal. Holds no payload and no commitment; what is shown is always read from the journal.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use countersign_book::{BookError, Feed, Hash, Located, Said};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::folder::Folder;
use crate::store::StoreFault;
use crate::store::sqlite::{self, Format, WhenMissing};

/// Texts stand once, in `word`. A call's row has what its entries say together: its first outcome (`ends` is that entry's index), its
/// decision, a denial before an allowance. Its decisions and outcomes have its agent, server, tool and effect.
const FORMAT: Format = Format {
    version: 1,
    schema: "
        CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;
        CREATE TABLE entry (
            i INTEGER PRIMARY KEY, ms INTEGER, kind INTEGER NOT NULL, call TEXT, agent INTEGER, server INTEGER, tool INTEGER,
            effect INTEGER, decision INTEGER, outcome INTEGER, ends INTEGER, segment INTEGER NOT NULL, offset INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX entry_call ON entry (call) WHERE call IS NOT NULL;
        CREATE TABLE built (one INTEGER PRIMARY KEY CHECK (one = 1), size INTEGER NOT NULL, root TEXT NOT NULL) STRICT;
    ",
    upgrades: &[],
    synchronous: "NORMAL",
};

/// Pieces of the journal (a segment at most) that are taken in one transaction.
const PIECES: usize = 8;
/// Calls remembered until their outcome comes, and words; beyond that they are looked up.
const REMEMBERED: usize = 1 << 16;

/// The index of this executor's book.
#[derive(Debug)]
pub struct Index {
    pub(super) connection: Connection,
    path: Option<PathBuf>,
    book: PathBuf,
    feed: Option<Feed>,
    calls: HashMap<String, Call>,
    words: HashMap<String, i64>,
}

/// A call without an outcome so far.
#[derive(Clone, Copy, Debug)]
struct Call {
    i: i64,
    agent: Option<i64>,
    server: Option<i64>,
    tool: Option<i64>,
    effect: Option<i64>,
}

/// Why the index can't be used. The record is not concerned.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The journal can't be read.
    #[error(transparent)]
    Book(#[from] BookError),
    /// The database can't be used.
    #[error(transparent)]
    Store(#[from] StoreFault),
    /// The database failed.
    #[error("the index failed: {0}")]
    Database(#[from] rusqlite::Error),
}

impl Index {
    /// Opens the index beside the book, or makes an empty one. One that is no such database is made anew.
    ///
    /// # Errors
    /// When the folder can't be written.
    pub fn open(folder: &Folder) -> Result<Self, IndexError> {
        let path = folder.index_db();
        let opened = match sqlite::open(&path, &FORMAT, WhenMissing::Create) {
            Err(StoreFault::Damaged { detail, .. }) => {
                tracing::warn!(
                    "`{}` was damaged and is made anew: {detail}",
                    path.display()
                );
                discard(&path);
                sqlite::open(&path, &FORMAT, WhenMissing::Create)
            }
            Err(StoreFault::Newer { version, .. }) => {
                tracing::warn!(
                    "`{}` is of format {version} and is made anew",
                    path.display()
                );
                discard(&path);
                sqlite::open(&path, &FORMAT, WhenMissing::Create)
            }
            opened => opened,
        };
        Ok(Self::over(opened?, Some(path), folder.book()))
    }

    /// An index that lives as long as this value, in a temporary file of the database's.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn temporary(folder: &Folder) -> Result<Self, IndexError> {
        let connection = Connection::open("")?;
        connection.execute_batch(FORMAT.schema)?;
        Ok(Self::over(connection, None, folder.book()))
    }

    fn over(connection: Connection, path: Option<PathBuf>, book: PathBuf) -> Self {
        Self {
            connection,
            path,
            book,
            feed: None,
            calls: HashMap::new(),
            words: HashMap::new(),
        }
    }

    /// Entries in the index.
    ///
    /// # Errors
    /// When the database fails.
    pub fn size(&self) -> Result<u64, IndexError> {
        Ok(built(&self.connection)?.map_or(0, |(size, _)| size))
    }

    /// Takes in what the book has more. Where the tree it was built over is not the journal's, or the database is damaged, it is made
    /// anew. Memory is bounded.
    ///
    /// # Errors
    /// When the journal is damaged, another process holds the index for too long, or the disk fails.
    pub fn update(&mut self) -> Result<(), IndexError> {
        match self.catch_up() {
            Err(IndexError::Database(error)) if is_damage(&error) => {
                self.remake(&format!("it was damaged: {error}"))
            }
            result => result,
        }
    }

    /// Empties it and takes in the whole book.
    ///
    /// # Errors
    /// As [`Index::update`].
    pub fn remake(&mut self, why: &str) -> Result<(), IndexError> {
        tracing::warn!("the index of the book is made anew: {why}");
        self.forget();
        if let Some(path) = self.path.clone() {
            // The file may be broken: it is not emptied but replaced.
            self.connection = Connection::open_in_memory()?;
            discard(&path);
            self.connection = sqlite::open(&path, &FORMAT, WhenMissing::Create)?;
        } else {
            self.connection = Connection::open("")?;
            self.connection.execute_batch(FORMAT.schema)?;
        }
        self.catch_up()
    }

    fn forget(&mut self) {
        self.feed = None;
        self.calls.clear();
        self.words.clear();
    }

    fn catch_up(&mut self) -> Result<(), IndexError> {
        loop {
            let result = self.take_pieces();
            match result {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => {
                    self.forget();
                    return Err(error);
                }
            }
        }
    }

    /// One transaction: false when there is nothing more.
    fn take_pieces(&mut self) -> Result<bool, IndexError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let built = built(&transaction)?;
        let at = built.map_or(0, |(size, _)| size);
        let mut feed = match self
            .feed
            .take()
            .filter(|feed| built.is_some() && feed.next_index() == at)
        {
            Some(feed) => feed,
            None => {
                (self.calls, self.words) = Default::default();
                let resumed = built
                    .map(|(size, root)| Feed::resume(&self.book, size, root))
                    .transpose()?;
                match resumed.flatten() {
                    Some(feed) => feed,
                    None => {
                        if at > 0 {
                            tracing::warn!(
                                "the index is not of the book as it is; it is made anew"
                            );
                        }
                        transaction.execute_batch(
                            "DELETE FROM entry; DELETE FROM word; DELETE FROM built;",
                        )?;
                        Feed::begin(&self.book)?
                    }
                }
            }
        };
        let (before, mut more) = (feed.next_index(), true);
        {
            let mut rows = Rows {
                transaction: &transaction,
                calls: &mut self.calls,
                words: &mut self.words,
            };
            for _ in 0..PIECES {
                more = feed.next(|place, said| rows.take(place, said))?;
                if !more {
                    break;
                }
            }
        }
        if feed.next_index() > before
            && let Some(head) = feed.head()
        {
            transaction.execute(
                "INSERT OR REPLACE INTO built (one, size, root) VALUES (1, ?1, ?2)",
                params![integer(head.size), head.root.to_string()],
            )?;
        }
        transaction.commit()?;
        self.feed = Some(feed);
        Ok(more)
    }
}

/// Writes rows in one transaction.
struct Rows<'a> {
    transaction: &'a Transaction<'a>,
    calls: &'a mut HashMap<String, Call>,
    words: &'a mut HashMap<String, i64>,
}

impl Rows<'_> {
    fn take(&mut self, place: Located, said: &Said<'_>) -> Result<(), IndexError> {
        let i = integer(place.index);
        let kind = self.word(&said.k)?;
        let ms = said
            .ts
            .parse::<Timestamp>()
            .ok()
            .map(Timestamp::as_millisecond);
        let mut row = Call {
            i,
            agent: self.maybe(said.agent.as_deref())?,
            server: self.maybe(said.server.as_deref())?,
            tool: self.maybe(said.tool.as_deref())?,
            effect: self.maybe(said.effect.as_deref())?,
        };
        let decision = self.maybe(said.decision.as_deref())?;
        let outcome = self.maybe(said.status.as_deref())?;
        let call = said.call.as_deref();
        match (call, said.k.as_ref()) {
            (Some(call), "call") => {
                if self.calls.len() >= REMEMBERED {
                    self.calls.clear();
                }
                self.calls.insert(call.to_owned(), row);
            }
            (Some(call), "decision" | "outcome") => {
                if let Some(of) = self.call(call)? {
                    row = Call { i, ..of };
                    self.tell(of.i, i, decision, outcome)?;
                }
                if said.k == "outcome" {
                    self.calls.remove(call);
                }
            }
            _ => {}
        }
        self.transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO entry (i, ms, kind, call, agent, server, tool, effect, decision, outcome, segment, offset) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?
            .execute(params![
                i, ms, kind, call, row.agent, row.server, row.tool, row.effect, decision, outcome,
                integer(place.segment), integer(place.offset)
            ])?;
        Ok(())
    }

    /// Adds to a call's row what a later entry says of it.
    fn tell(
        &self,
        call: i64,
        i: i64,
        decision: Option<i64>,
        outcome: Option<i64>,
    ) -> Result<(), IndexError> {
        if let Some(decision) = decision {
            self.transaction
                .prepare_cached(
                    "UPDATE entry SET decision = ?1 WHERE i = ?2 \
                     AND (decision IS NULL OR ?1 = (SELECT id FROM word WHERE text = 'deny'))",
                )?
                .execute(params![decision, call])?;
        }
        if let Some(outcome) = outcome {
            self.transaction
                .prepare_cached(
                    "UPDATE entry SET outcome = ?1, ends = ?2 WHERE i = ?3 AND ends IS NULL",
                )?
                .execute(params![outcome, i, call])?;
        }
        Ok(())
    }

    fn call(&self, id: &str) -> Result<Option<Call>, IndexError> {
        if let Some(call) = self.calls.get(id) {
            return Ok(Some(*call));
        }
        let row = self
            .transaction
            .prepare_cached(
                "SELECT i, agent, server, tool, effect FROM entry \
                 WHERE call = ?1 AND kind = (SELECT id FROM word WHERE text = 'call') ORDER BY i LIMIT 1",
            )?
            .query_row([id], |row| {
                Ok(Call {
                    i: row.get(0)?,
                    agent: row.get(1)?,
                    server: row.get(2)?,
                    tool: row.get(3)?,
                    effect: row.get(4)?,
                })
            })
            .optional()?;
        Ok(row)
    }

    fn maybe(&mut self, text: Option<&str>) -> Result<Option<i64>, IndexError> {
        text.map(|text| self.word(text)).transpose()
    }

    fn word(&mut self, text: &str) -> Result<i64, IndexError> {
        if let Some(id) = self.words.get(text) {
            return Ok(*id);
        }
        let found = self
            .transaction
            .prepare_cached("SELECT id FROM word WHERE text = ?1")?
            .query_row([text], |row| row.get(0))
            .optional()?;
        let id = match found {
            Some(id) => id,
            None => {
                self.transaction
                    .prepare_cached("INSERT INTO word (text) VALUES (?1)")?
                    .execute([text])?;
                self.transaction.last_insert_rowid()
            }
        };
        if self.words.len() >= REMEMBERED {
            self.words.clear();
        }
        self.words.insert(text.to_owned(), id);
        Ok(id)
    }
}

/// Up to which size and over which root the index was built.
fn built(connection: &Connection) -> Result<Option<(u64, Hash)>, IndexError> {
    let row: Option<(i64, String)> = connection
        .query_row("SELECT size, root FROM built", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    Ok(row.and_then(|(size, root)| Some((u64::try_from(size).ok()?, Hash::parse(&root)?))))
}

/// Indexes and offsets are far below 2^63; one that is not fits nowhere and finds nothing.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Whether the file itself is wrong, and not the disk, a lock or a limit.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{
        DatabaseBusy, DatabaseLocked, DiskFull, OutOfMemory, PermissionDenied, ReadOnly,
        SystemIoFailure,
    };
    !matches!(
        error.sqlite_error_code(),
        Some(
            DatabaseBusy
                | DatabaseLocked
                | DiskFull
                | OutOfMemory
                | PermissionDenied
                | ReadOnly
                | SystemIoFailure
        )
    )
}

/// Takes the database's files away. What can't be removed shows when they are made.
fn discard(path: &Path) {
    for end in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        let _ = fs::remove_file(name);
    }
}
