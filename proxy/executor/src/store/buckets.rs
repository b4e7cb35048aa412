//! `buckets.db`: rate buckets and the counts of refusals, shared by processes and kept without flushes. A lost or broken file is made
//! anew: it only costs full buckets.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_gate::rate::{BucketSize, Charged};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::folder::Folder;

use super::StoreFault;
use super::sqlite::{Format, WhenMissing, fault, in_transaction, open};
use countersign_gate::bucket::{Level, take};

/// The open `buckets.db`.
#[derive(Debug)]
pub struct BucketsDb {
    folder: Folder,
    open: Mutex<Open>,
}

/// How often one agent was refused with one code in one minute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusalCount {
    /// Whose, where known.
    pub agent: Option<String>,
    /// The refusal's code.
    pub code: String,
    /// Minutes since 1970.
    pub minute: i64,
    /// How often.
    pub count: u64,
}

#[derive(Debug)]
struct Open {
    connection: Connection,
    file: Option<u64>,
}

const FORMAT: Format = Format {
    version: 1,
    synchronous: "OFF",
    schema: "
        CREATE TABLE buckets (class TEXT NOT NULL, owner TEXT NOT NULL, grains INTEGER NOT NULL, at INTEGER NOT NULL,
                              PRIMARY KEY (class, owner)) WITHOUT ROWID;
        CREATE TABLE refusals (agent TEXT NOT NULL, code TEXT NOT NULL, minute INTEGER NOT NULL, count INTEGER NOT NULL, claim TEXT,
                               PRIMARY KEY (agent, code, minute)) WITHOUT ROWID;",
    upgrades: &[],
};

impl BucketsDb {
    /// Opens `buckets.db` in `folder`, making it where it is missing or broken.
    pub fn open(folder: &Folder) -> Result<BucketsDb, StoreFault> {
        Ok(BucketsDb {
            folder: folder.clone(),
            open: Mutex::new(connect(folder)?),
        })
    }

    /// Takes `units` from the bucket of `owner` in `class` if they are there. `now` in milliseconds since 1970.
    pub fn charge(
        &self,
        class: &str,
        owner: &str,
        size: BucketSize,
        units: u32,
        now: i64,
    ) -> Result<Charged, StoreFault> {
        self.change(|transaction| {
            let level = read_level(transaction, class, owner)?;
            let (charged, next) = take(level, size, units, now);
            if level != Some(next) {
                transaction
                    .prepare_cached("INSERT OR REPLACE INTO buckets (class, owner, grains, at) VALUES (?1, ?2, ?3, ?4)")?
                    .execute(params![class, owner, next.grains, next.at])?;
            }
            Ok(charged)
        })
    }

    /// How the bucket stands; takes nothing.
    pub fn balance(
        &self,
        class: &str,
        owner: &str,
        size: BucketSize,
        now: i64,
    ) -> Result<Charged, StoreFault> {
        self.with(|connection| Ok(take(read_level(connection, class, owner)?, size, 0, now).0))
    }

    /// Counts one refusal. `now` in milliseconds since 1970.
    pub fn count_refusal(
        &self,
        agent: Option<&str>,
        code: &str,
        now: i64,
    ) -> Result<(), StoreFault> {
        self.with(|connection| {
            connection
                .prepare_cached(
                    "INSERT INTO refusals (agent, code, minute, count) VALUES (?1, ?2, ?3, 1)
                     ON CONFLICT (agent, code, minute) DO UPDATE SET count = count + 1",
                )?
                .execute(params![agent.unwrap_or(""), code, minute(now)])?;
            Ok(())
        })
    }

    /// Claims the counts of all minutes but the current one for `process`, also those a dead process had claimed.
    /// After their entry is durable they are [`BucketsDb::settle`]d; a process that dies in between leaves them to be recorded again.
    pub fn claim_refusals(
        &self,
        process: &str,
        now: i64,
        is_dead: impl Fn(&str) -> bool,
    ) -> Result<Vec<RefusalCount>, StoreFault> {
        self.change(|transaction| {
            let claims = transaction
                .prepare_cached("SELECT DISTINCT claim FROM refusals WHERE claim IS NOT NULL AND claim <> ?1")?
                .query_map([process], |row| row.get::<_, String>(0))?
                .collect::<Result<Vec<_>, _>>()?;
            for dead in claims.iter().filter(|claim| is_dead(claim)) {
                transaction.execute("UPDATE refusals SET claim = NULL WHERE claim = ?1", [dead])?;
            }
            transaction
                .prepare_cached("UPDATE refusals SET claim = ?1 WHERE claim IS NULL AND minute <> ?2")?
                .execute(params![process, minute(now)])?;
            transaction
                .prepare_cached("SELECT agent, code, minute, count FROM refusals WHERE claim = ?1 ORDER BY agent, minute, code")?
                .query_map([process], |row| {
                    let agent: String = row.get(0)?;
                    Ok(RefusalCount {
                        agent: (!agent.is_empty()).then_some(agent),
                        code: row.get(1)?,
                        minute: row.get(2)?,
                        count: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
                    })
                })?
                .collect()
        })
    }

    /// Forgets counts that are recorded now. What was counted since the claim stays.
    pub fn settle(&self, recorded: &[RefusalCount]) -> Result<(), StoreFault> {
        self.change(|transaction| {
            for RefusalCount { agent, code, minute, count } in recorded {
                let key = params![agent.as_deref().unwrap_or(""), code, minute, i64::try_from(*count).unwrap_or(i64::MAX)];
                transaction
                    .prepare_cached("UPDATE refusals SET count = count - ?4, claim = NULL WHERE agent = ?1 AND code = ?2 AND minute = ?3")?
                    .execute(key)?;
            }
            transaction.prepare_cached("DELETE FROM refusals WHERE count <= 0")?.execute([])?;
            Ok(())
        })
    }

    /// Runs `work` in one IMMEDIATE transaction.
    fn change<T>(
        &self,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreFault> {
        self.with(|connection| in_transaction(connection, &work))
    }

    /// Runs `work` on the file that lies there now; a broken one is made anew, once.
    fn with<T>(
        &self,
        work: impl Fn(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreFault> {
        let mut open = self.lock();
        let path = self.folder.buckets_db();
        if file_id(&path) != open.file || open.file.is_none() {
            *open = connect(&self.folder)?;
        }
        match work(&mut open.connection).map_err(|error| fault(&path, &error)) {
            Err(StoreFault::Damaged { .. }) => {
                *open = connect(&self.folder)?;
                work(&mut open.connection).map_err(|error| fault(&path, &error))
            }
            done => done,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_level(
    connection: &Connection,
    class: &str,
    owner: &str,
) -> rusqlite::Result<Option<Level>> {
    connection
        .prepare_cached("SELECT grains, at FROM buckets WHERE class = ?1 AND owner = ?2")?
        .query_row([class, owner], |row| {
            Ok(Level {
                grains: row.get(0)?,
                at: row.get(1)?,
            })
        })
        .optional()
}

fn minute(now: i64) -> i64 {
    now.div_euclid(60_000)
}

/// Opens the file; one that is broken, or of a format that isn't ours to read, is removed first, under a lock so that two processes
/// don't remove each other's.
fn connect(folder: &Folder) -> Result<Open, StoreFault> {
    let path = folder.buckets_db();
    let usable = |path: &Path| -> Result<Open, StoreFault> {
        let connection = open(path, &FORMAT, WhenMissing::Create)?;
        let check: String = connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|error| fault(path, &error))?;
        if check != "ok" {
            return Err(StoreFault::Damaged {
                path: path.to_owned(),
                detail: check,
            });
        }
        Ok(Open {
            connection,
            file: file_id(path),
        })
    };
    match usable(&path) {
        Err(StoreFault::Damaged { .. }) => {}
        done => return done,
    }
    let _lock = folder.lock("buckets.lock", Duration::from_secs(10))?;
    match usable(&path) {
        Err(StoreFault::Damaged { .. }) => {}
        done => return done,
    }
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.clone().into_os_string();
        name.push(suffix);
        // A file that stays is found broken again right below, and said.
        let _ = std::fs::remove_file(PathBuf::from(name));
    }
    usable(&path)
}

/// Which file lies at `path`: a program may remove it while it is open here. Systems without inodes don't allow that.
fn file_id(path: &Path) -> Option<u64> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    #[cfg(unix)]
    return Some(std::os::unix::fs::MetadataExt::ino(&meta));
    #[cfg(not(unix))]
    return meta.is_file().then_some(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: BucketSize = BucketSize {
        size: 100,
        per_minute: 60,
    };

    fn world() -> (tempfile::TempDir, Folder) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::resolve(Some(&temp.path().join("dir"))).unwrap();
        folder.create().unwrap();
        (temp, folder)
    }

    #[test]
    fn r61_one_bucket_for_all_connections() {
        let (_temp, folder) = world();
        let taken: u32 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let folder = &folder;
                    scope.spawn(move || {
                        let db = BucketsDb::open(folder).unwrap();
                        (0..50)
                            .map(|_| {
                                u32::from(db.charge("key", "csk_a", SIZE, 1, 1000).unwrap().taken)
                            })
                            .sum::<u32>()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(
            taken, 100,
            "not one unit more or less than the bucket holds"
        );
        let db = BucketsDb::open(&folder).unwrap();
        assert_eq!(
            db.balance("key", "csk_b", SIZE, 1000).unwrap().remaining,
            100,
            "another owner's is full"
        );
        assert_eq!(db.balance("key", "csk_a", SIZE, 3000).unwrap().remaining, 2);
    }

    /// Run by `r62_one_bucket_for_all_processes` in processes of its own; by itself it does nothing.
    #[test]
    fn charge_as_another_process() {
        let Some(dir) = std::env::var_os("COUNTERSIGN_TEST_CHARGE") else {
            return;
        };
        let folder = Folder::resolve(Some(Path::new(&dir))).unwrap();
        let db = BucketsDb::open(&folder).unwrap();
        let taken: u32 = (0..60)
            .map(|_| u32::from(db.charge("key", "csk_a", SIZE, 1, 1000).unwrap().taken))
            .sum();
        std::fs::write(
            folder.root().join(format!("taken-{}", std::process::id())),
            taken.to_string(),
        )
        .unwrap();
    }

    #[test]
    fn r62_one_bucket_for_all_processes() {
        let (_temp, folder) = world();
        let start = || {
            std::process::Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "store::buckets::tests::charge_as_another_process",
                ])
                .env("COUNTERSIGN_TEST_CHARGE", folder.root())
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        };
        let processes: Vec<_> = (0..3).map(|_| start()).collect();
        for mut process in processes {
            assert!(process.wait().unwrap().success());
        }
        let counts: Vec<u32> = std::fs::read_dir(folder.root())
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("taken-"))
            .map(|entry| {
                std::fs::read_to_string(entry.path())
                    .unwrap()
                    .parse()
                    .unwrap()
            })
            .collect();
        assert_eq!(
            (counts.len(), counts.iter().sum::<u32>()),
            (3, 100),
            "{counts:?}"
        );
    }

    #[test]
    fn a_lost_or_broken_file_is_made_anew() {
        let (_temp, folder) = world();
        let db = BucketsDb::open(&folder).unwrap();
        let left = |db: &BucketsDb| db.charge("key", "a", SIZE, 10, 0).unwrap().remaining;
        assert_eq!(left(&db), 90);
        std::fs::remove_file(folder.buckets_db()).unwrap();
        assert_eq!(left(&db), 90, "removed while open");
        assert_eq!(
            left(&BucketsDb::open(&folder).unwrap()),
            80,
            "and shared again"
        );
        drop(db);
        for garbage in [&b"not a database at all, but long enough to look like one............................................"[..], b"x"] {
            for suffix in ["-wal", "-shm"] {
                let _ = std::fs::remove_file(folder.root().join(format!("buckets.db{suffix}")));
            }
            crate::folder::replace(&folder.buckets_db(), garbage).unwrap();
            assert_eq!(left(&BucketsDb::open(&folder).unwrap()), 90);
        }
    }

    #[test]
    fn refusals_are_recorded_once_per_minute_and_agent() {
        let (_temp, folder) = world();
        let (one, two) = (
            BucketsDb::open(&folder).unwrap(),
            BucketsDb::open(&folder).unwrap(),
        );
        let minute_5 = 5 * 60_000;
        for _ in 0..3 {
            one.count_refusal(Some("bar"), "rate_limited", minute_5)
                .unwrap();
        }
        two.count_refusal(None, "unauthorized", minute_5 + 1)
            .unwrap();
        let alive = |_: &str| false;
        assert!(
            one.claim_refusals("p1", minute_5 + 59_999, alive)
                .unwrap()
                .is_empty(),
            "the minute still runs"
        );
        let claimed = one.claim_refusals("p1", minute_5 + 60_000, alive).unwrap();
        let count = |agent: Option<&str>, code: &str, count| RefusalCount {
            agent: agent.map(str::to_owned),
            code: code.to_owned(),
            minute: 5,
            count,
        };
        assert_eq!(
            claimed,
            [
                count(None, "unauthorized", 1),
                count(Some("bar"), "rate_limited", 3)
            ]
        );
        assert!(
            two.claim_refusals("p2", minute_5 + 60_000, alive)
                .unwrap()
                .is_empty(),
            "claimed by one only"
        );
        // A late count of a claimed minute is not lost.
        two.count_refusal(Some("bar"), "rate_limited", minute_5)
            .unwrap();
        let taken_over = two
            .claim_refusals("p2", minute_5 + 60_000, |process| process == "p1")
            .unwrap();
        assert_eq!(
            taken_over,
            [
                count(None, "unauthorized", 1),
                count(Some("bar"), "rate_limited", 4)
            ]
        );
        one.count_refusal(Some("bar"), "rate_limited", minute_5)
            .unwrap();
        two.settle(&taken_over).unwrap();
        assert_eq!(
            two.claim_refusals("p2", minute_5 + 60_000, alive).unwrap(),
            [count(Some("bar"), "rate_limited", 1)]
        );
    }
}
