//! Every system call a book makes on its files is made to fail once, each in the ways it can: nothing acknowledged is lost, no size
//! is signed twice, a failed write or sync is never tried again on its descriptor, and the book goes on. `strace` does the failing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use countersign_book::{Field, Hash, Reader, VaultKey, Verdict, VerifyOptions, verify};
use tempfile::TempDir;

use super::strain;
use super::{assert_never_retried, injected};

/// Says to [`a_life_without_failures_says_nothing_failed`] that it runs under `strace`, and where.
const PLACE: &str = "COUNTERSIGN_STRAIN";

/// How far ahead of need the vault is written there, in bytes.
const AHEAD: &str = "COUNTERSIGN_STRAIN_AHEAD";

/// This program's arguments for a life in a process of its own.
const LIFE: [&str; 4] = [
    "--exact",
    "faults::book::a_life_without_failures_says_nothing_failed",
    "--nocapture",
    "--test-threads=1",
];

/// What a system call can answer when the system refuses. An interrupted one is no failure: it is made again.
const FAILURES: &[(&str, &[&str])] = &[
    ("openat", &["EIO", "ENOSPC", "EACCES", "EMFILE"]),
    ("statx", &["EIO", "EACCES"]),
    ("mkdir", &["EIO", "ENOSPC", "EDQUOT"]),
    ("rename", &["EIO", "ENOSPC"]),
    ("unlink", &["EIO", "EACCES"]),
    ("ftruncate", &["EIO"]),
    ("flock", &["EIO", "ENOLCK", "EINTR"]),
    ("fsync", &["EIO", "ENOSPC"]),
    ("fdatasync", &["EIO", "ENOSPC", "EDQUOT"]),
    ("pwrite64", &["EIO", "ENOSPC", "EDQUOT", "EINTR"]),
    ("write", &["EIO", "ENOSPC"]),
    ("pread64", &["EIO", "EINTR"]),
    ("read", &["EIO", "EINTR"]),
    ("lseek", &["EIO"]),
    ("getdents64", &["EIO"]),
    ("fadvise64", &["EIO"]),
    ("copy_file_range", &["EIO", "ENOSPC"]),
    ("fstatfs", &["EIO"]),
];

/// The life runs in this process; under `strace` it is the one test of another.
#[test]
fn a_life_without_failures_says_nothing_failed() {
    if let Some(dir) = std::env::var_os(PLACE) {
        let ahead = std::env::var(AHEAD).map_or(64 << 10, |text| text.parse().expect("a number"));
        let whole = strain::live(Path::new(&dir), ahead, &mut |line| {
            println!("strain: {line}")
        });
        println!("strain: {}", if whole { "whole" } else { "given up" });
        return;
    }
    let place = place();
    let mut said = Vec::new();
    assert!(strain::live(place.path(), 64 << 10, &mut |line| said.push(line)));
    assert!(
        !said.iter().any(|line| line.starts_with("failed")),
        "{said:?}"
    );
    judge(place.path(), &said, "no failure");
}

#[test]
fn b15_b33_b39_each_system_call_of_a_book_may_fail_once() {
    let place = place();
    let (output, trace) = run(place.path(), &[]);
    let said = lines(&output);
    judge(place.path(), &said, "no failure");
    let paths = paths(&trace, place.path());
    let counts = counts(&trace, place.path());
    let mut cases = Vec::new();
    for (call, errors) in FAILURES {
        let count = counts.get(*call).copied().unwrap_or(0);
        assert!(
            count > 0 || ["lseek", "mkdir", "copy_file_range"].contains(call),
            "{call} is not used: {counts:?}"
        );
        for error in *errors {
            // All errors of a call take the same way, and a look at a file is taken before every write.
            let step = match (thorough(), *call) {
                (true, _) => 1,
                (false, _) if *error != errors[0] => 9,
                (false, "statx") => 4,
                (false, _) => 2,
            };
            let start = 1 + (error.len() + call.len()) % step;
            cases.extend((start..=count).step_by(step).map(|n| (*call, *error, n)));
        }
    }
    assert!(cases.len() > 200, "{counts:?}");
    withstand(cases, |(call, error, n)| fail_once(&paths, call, error, n));
}

/// Files that may not become longer than so many bytes: writes are cut short, by the system, wherever that limit falls.
#[test]
fn b15_b16_writes_that_the_system_cuts_short_lose_nothing() {
    let step = if thorough() { 7 } else { 97 };
    let mut cases = Vec::new();
    for ahead in [0, 64 << 10] {
        for signal in [Signal::Ignored, Signal::Kills] {
            cases.extend(
                (600..4_200)
                    .step_by(step)
                    .map(|limit| (limit, ahead, signal)),
            );
        }
    }
    // What is written ahead in the vault.
    cases.extend(
        (30_000..140_000)
            .step_by(step * 97)
            .map(|limit| (limit, 64 << 10, Signal::Ignored)),
    );
    let cut = Mutex::new((0, 0));
    withstand(cases, |(limit, ahead, signal)| {
        let (short, killed) = cut_short(limit, ahead, signal);
        let mut cut = cut.lock().expect("no panic while held");
        cut.0 += usize::from(short);
        cut.1 += usize::from(killed);
    });
    let (short, killed) = cut.into_inner().expect("no panic while held");
    assert!(
        short > 20 && killed > 10,
        "{short} writes were cut, {killed} lives ended by it"
    );
}

/// What the system's signal for a file that grows too long does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Ignored,
    Kills,
}

/// A life that can't go on, then one without the limit. Whether a write was cut and whether the process ended by it.
fn cut_short(limit: usize, ahead: u64, signal: Signal) -> (bool, bool) {
    let what = format!("files of at most {limit} bytes, {ahead} ahead, the signal is {signal:?}");
    let place = place();
    let trap = match signal {
        Signal::Ignored => "trap '' XFSZ; ",
        Signal::Kills => "ulimit -c 0; ",
    };
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!("{trap}exec prlimit --fsize={limit} \"$@\""))
        .arg("sh")
        .arg(std::env::current_exe().expect("this program"))
        .args(LIFE)
        .env(PLACE, place.path())
        .env(AHEAD, ahead.to_string())
        .output()
        .expect("sh starts");
    let mut said = lines(&output);
    let short = said
        .iter()
        .any(|line| line.contains("File too large") || line.contains("os error 27"));
    let killed = output.status.code().is_none();
    assert!(!killed || signal == Signal::Kills, "{what}: {said:?}");
    acknowledged(place.path(), &said, &what);
    let whole = strain::live(place.path(), ahead, &mut |line| said.push(line));
    assert!(whole, "{what}: {said:?}");
    judge(place.path(), &said, &what);
    (short, killed)
}

/// Tries every case, two at a time; what fails is told at the end, all of it.
fn withstand<C: std::fmt::Debug + Send>(cases: Vec<C>, check: impl Fn(C) + Sync) {
    let (next, bad) = (Mutex::new(cases.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let case = next.lock().expect("no panic while held").next();
                    let Some(case) = case else { break };
                    let name = format!("{case:?}");
                    let checked = std::panic::AssertUnwindSafe(|| check(case));
                    if std::panic::catch_unwind(checked).is_err() {
                        bad.lock().expect("no panic while held").push(name);
                    }
                }
            });
        }
    });
    let bad = bad.into_inner().expect("no panic while held");
    assert!(
        bad.is_empty(),
        "{} cases are not withstood: {bad:#?}",
        bad.len()
    );
}

fn thorough() -> bool {
    std::env::var_os("COUNTERSIGN_LONG").is_some()
}

fn fail_once(paths: &BTreeSet<PathBuf>, call: &str, error: &str, n: usize) {
    let what = format!("{call} {n} answers {error}");
    let place = place();
    let inject = format!("inject={call}:error={error}:when={n}");
    let mut options = vec!["-e".to_owned(), inject];
    for path in paths {
        options.extend([
            "-P".to_owned(),
            place.path().join(path).display().to_string(),
        ]);
    }
    let (output, trace) = run(place.path(), &options);
    let said = lines(&output);
    assert_eq!(injected(&trace), 1, "{what}: {said:?}");
    if error != "EINTR" {
        assert_never_retried(&trace, &what);
    } else {
        let failed = said.iter().find(|line| line.starts_with("failed"));
        assert_eq!(failed, None, "{what}: an interrupted call is made again");
    }
    assert_eq!(
        said.last().map(String::as_str),
        Some("whole"),
        "{what}: {said:?}"
    );
    judge(place.path(), &said, &what);
}

/// What must hold after any life: the book verifies with its payloads, everything acknowledged is there, no size has two roots,
/// what was to be erased is gone, and the book takes more.
fn judge(dir: &Path, said: &[String], what: &str) {
    let book = strain::book(dir);
    let vault = VaultKey::from_bytes(strain::KEK);
    let options = VerifyOptions {
        threads: 1,
        vault: Some(vault.clone()),
        ..VerifyOptions::default()
    };
    for path in [&book, &strain::next_book(dir)] {
        let report = verify(path, &options).expect("it can be read");
        assert_eq!(
            report.verdict(),
            Verdict::Ok,
            "{what}: {:?}\n{said:#?}",
            report.findings
        );
    }

    let (first, count) = acknowledged(dir, said, what);
    assert!((1..=8).contains(&first), "{what}: pruned to {first}");
    assert!(count >= 12, "{what}: {said:?}");
    assert!(!book.join("removal.pending").exists(), "{what}");
    assert!(!book.join("quarantine/pending").exists(), "{what}");
    let mut writer = strain::open(dir, "after", 0).expect("it opens");
    assert_eq!(writer.recovery(), None, "{what}");
    writer.settle(&|_| false).expect("it takes more");
}

/// Everything said to be written is there, and no size has two roots. The first index there, and how many entries were said.
fn acknowledged(dir: &Path, said: &[String], what: &str) -> (u64, usize) {
    let book = strain::book(dir);
    let vault = VaultKey::from_bytes(strain::KEK);
    // By the format, not by the product: index and leaf of every line, and every checkpoint there is.
    let mut leaves: BTreeMap<u64, Hash> = BTreeMap::new();
    let mut heads: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut first = None;
    let mut files = strain::segments(dir);
    let journal = files.len();
    let aside = std::fs::read_dir(book.join("quarantine")).expect("a folder");
    files.extend(aside.map(|entry| entry.expect("an entry").path()));
    for (number, path) in files.iter().enumerate() {
        let text = std::fs::read(path).expect("a file");
        for line in String::from_utf8_lossy(&text).lines() {
            if let Some(encoded) = line.strip_prefix("#cp ") {
                if let Some((size, root)) = signed(encoded) {
                    heads.entry(size).or_default().insert(root);
                }
            } else if number < journal
                && let Ok(entry) = serde_json::from_str::<serde_json::Value>(line)
                && let Some(index) = entry["i"].as_u64()
            {
                first.get_or_insert(index);
                leaves.insert(index, strain::leaf(line));
            }
        }
    }
    for (size, roots) in &heads {
        assert_eq!(
            roots.len(),
            1,
            "{what}: {size} entries have two roots\n{said:#?}"
        );
    }
    let first = first.expect("an entry");
    let mut count = 0;
    for line in said {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("entry"), Some(index), Some(leaf)) => {
                count += 1;
                let index: u64 = index.parse().expect("a number");
                let there = leaves.get(&index).map(ToString::to_string);
                assert!(
                    index < first || there.as_deref() == Some(leaf),
                    "{what}: entry {index} was acknowledged\n{said:#?}"
                );
            }
            (Some("erased"), Some(index), None) => {
                let index = index.parse().expect("a number");
                let reader = Reader::open(&book).expect("it opens");
                assert!(
                    reader.payload(&vault, index, Field::Args).is_err(),
                    "{what}"
                );
            }
            _ => {}
        }
    }
    (first, count)
}

/// Size and root of a checkpoint whose signature is whole.
fn signed(encoded: &str) -> Option<(String, String)> {
    let note = data_encoding::BASE64.decode(encoded.as_bytes()).ok()?;
    let note = String::from_utf8(note).ok()?;
    let (text, signatures) = note.split_once("\n\n")?;
    let signature = signatures.lines().next()?.rsplit(' ').next()?;
    let signature = data_encoding::BASE64.decode(signature.as_bytes()).ok()?;
    let mut lines = text.lines().skip(1).map(str::to_owned);
    (signature.len() == 68).then_some((lines.next()?, lines.next()?))
}

/// A folder with a book that was left in the middle of a batch. On a disk where there is one, since writing differs there.
fn place() -> TempDir {
    let place = tempfile::Builder::new()
        .prefix("countersign-test-")
        .tempdir()
        .expect("a folder");
    strain::prepare(place.path());
    place
}

/// A life under `strace`, and its trace.
fn run(dir: &Path, options: &[String]) -> (Output, String) {
    let file = dir.join("trace");
    let calls: Vec<&str> = FAILURES.iter().map(|(call, _)| *call).collect();
    let output = Command::new("strace")
        .args(["-f", "-qq", "--seccomp-bpf", "-y", "-o"])
        .arg(&file)
        .args(["-e", &format!("trace=close,{}", calls.join(","))])
        .args(options)
        .arg(std::env::current_exe().expect("this program"))
        .args(LIFE)
        .env(PLACE, dir)
        .output()
        .expect("strace starts");
    let trace = std::fs::read_to_string(&file).expect("a trace");
    std::fs::remove_file(&file).expect("removed");
    (output, trace)
}

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .filter_map(|line| Some(line.split_once("strain: ")?.1.to_owned()))
        .collect()
}

/// Every path below the place that the life named, as far as it named it whole.
fn paths(trace: &str, dir: &Path) -> BTreeSet<PathBuf> {
    let dir = format!("{}/", dir.display());
    trace
        .split(&dir)
        .skip(1)
        .map(|rest| {
            let end = rest.find(['"', '>', ',']).unwrap_or(rest.len());
            PathBuf::from(&rest[..end])
        })
        .collect()
}

/// How often each call was made on a file of the place.
fn counts(trace: &str, dir: &Path) -> BTreeMap<String, usize> {
    let (mut counts, dir) = (BTreeMap::new(), format!("{}/", dir.display()));
    for line in trace.lines().filter(|line| line.contains(&dir)) {
        let call = line.split_once(' ').map(|(_, call)| call.trim_start());
        if let Some((name, _)) = call.and_then(|call| call.split_once('(')) {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    counts
}
