//! How our SQLite files are opened: private, WAL, with a version. Knows no table.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::folder::{FolderError, private_options, read_own};

use super::StoreFault;

/// One kind of database file.
pub(crate) struct Format {
    /// Its version (`user_version`).
    pub version: i64,
    /// What makes an empty file one of version 1.
    pub schema: &'static str,
    /// What makes a file of version 1 one of version 2, and so on.
    pub upgrades: &'static [&'static str],
    /// `FULL` or `OFF`.
    pub synchronous: &'static str,
}

/// Whether a missing file is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenMissing {
    Create,
    Refuse,
}

/// How long a statement waits for other processes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens the database at `path`.
pub(crate) fn open(
    path: &Path,
    format: &Format,
    when_missing: WhenMissing,
) -> Result<Connection, StoreFault> {
    match read_own(path, 0) {
        Err(error) if error.is_not_found() => {
            if when_missing == WhenMissing::Refuse {
                return Err(StoreFault::Missing(path.to_owned()));
            }
            // Made here so that it is private from its first moment; SQLite gives its own files the same mode.
            private_options()
                .append(true)
                .create(true)
                .open(path)
                .map_err(|source| FolderError::Io {
                    action: "create",
                    path: path.to_owned(),
                    source,
                })?;
        }
        // Any size is fine; everything else that is wrong with the file is not.
        Err(FolderError::Unsafe { what, .. }) if what.starts_with("is larger") => {}
        Err(error) => return Err(error.into()),
        Ok(_) => {}
    }
    refuse_strange_companions(path)?;
    let wrong = |error| fault(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(real(path), flags).map_err(wrong)?;
    connection.busy_timeout(PATIENCE).map_err(wrong)?;
    connection.set_prepared_statement_cache_capacity(32);
    let pragmas = format!(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous={}; PRAGMA trusted_schema=OFF;",
        format.synchronous
    );
    connection.execute_batch(&pragmas).map_err(wrong)?;
    let mut version = user_version(&connection).map_err(wrong)?;
    if version < format.version {
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(wrong)?;
        version = user_version(&transaction).map_err(wrong)?;
        while (0..format.version).contains(&version) {
            let step = match usize::try_from(version - 1) {
                Err(_) => Some(&format.schema),
                Ok(step) => format.upgrades.get(step),
            };
            let Some(step) = step else { break };
            transaction.execute_batch(step).map_err(wrong)?;
            version += 1;
            transaction
                .pragma_update(None, "user_version", version)
                .map_err(wrong)?;
        }
        transaction.commit().map_err(wrong)?;
    }
    if version > format.version {
        return Err(StoreFault::Newer {
            path: path.to_owned(),
            version,
        });
    }
    if version < format.version {
        return Err(StoreFault::Damaged {
            path: path.to_owned(),
            detail: format!("format {version} does not exist"),
        });
    }
    Ok(connection)
}

/// SQLite opens what lies beside a database without a look: a pipe there would wait for ever.
fn refuse_strange_companions(path: &Path) -> Result<(), FolderError> {
    for suffix in ["-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let beside = std::path::PathBuf::from(name);
        if std::fs::symlink_metadata(&beside).is_ok_and(|found| !found.is_file()) {
            return Err(FolderError::Unsafe {
                path: beside,
                what: "is not a plain file".to_owned(),
                remedy: "move it away; no executor wrote it".to_owned(),
            });
        }
    }
    Ok(())
}

/// Runs `work` in one IMMEDIATE transaction: nothing of it holds when it fails.
pub(super) fn in_transaction<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let value = work(&transaction)?;
    transaction.commit()?;
    Ok(value)
}

/// The database's error in our words.
pub(crate) fn fault(path: &Path, error: &rusqlite::Error) -> StoreFault {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => StoreFault::Damaged {
            path,
            detail: error.to_string(),
        },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreFault::Busy(path),
        _ => StoreFault::Failed {
            path,
            detail: error.to_string(),
        },
    }
}

/// SQLite refuses any link in a path opened with NOFOLLOW, so links above the file are resolved first; the file itself was looked at.
fn real(path: &Path) -> std::path::PathBuf {
    let resolved = path
        .parent()
        .and_then(|dir| dir.canonicalize().ok())
        .zip(path.file_name());
    resolved.map_or_else(|| path.to_owned(), |(dir, name)| dir.join(name))
}

fn user_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}
