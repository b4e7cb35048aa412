//! Each command that changes the record in more than one step, with every system call on the executor's folder made to fail once:
//! the answer is true, nothing is lost, and the same command again ends it well. `strace` does the failing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Mutex;

use serde_json::Value;

use countersign::secrets::{Account, SecretStore};

use super::acts::{made, store, write};
use crate::World;

/// What is made to fail, and how, the first of them at every place.
const FAILURES: &[(&str, &[&str])] = &[
    ("openat", &["EIO", "ENOSPC", "EACCES"]),
    ("rename", &["EIO", "ENOSPC"]),
    ("renameat", &["EIO"]),
    ("renameat2", &["EIO"]),
    ("unlink", &["EIO", "EACCES"]),
    ("mkdir", &["EIO", "EDQUOT"]),
    ("ftruncate", &["EIO"]),
    ("flock", &["EIO", "ENOLCK"]),
    ("fsync", &["EIO", "ENOSPC"]),
    ("fdatasync", &["EIO", "EDQUOT"]),
    ("write", &["EIO", "ENOSPC"]),
    ("pwrite64", &["EIO", "ENOSPC"]),
    ("read", &["EIO"]),
    ("pread64", &["EIO"]),
    ("getdents64", &["EIO"]),
];

struct Act {
    line: &'static str,
    /// Whether its work is done, all of it.
    done: fn(&World) -> bool,
}

const ACTS: &[Act] = &[
    Act {
        line: "book prune --before 20 --yes --json",
        done: |world| !world.dir().join("book/journal").join(FIRST).exists(),
    },
    Act {
        line: "book erase 1 --yes --json",
        done: |world| {
            let shown = world.json("book show 1 --payload --json");
            shown["kept"]["args"]["erased_by"].is_u64() && !shown.to_string().contains("canary-0")
        },
    },
    Act {
        line: "key rotate --yes --json",
        done: |world| {
            let shown = world.json("key show --json");
            let keys = shown["keys"].as_array().unwrap();
            let next = store(world).get(&Account::book_signing_next()).unwrap();
            keys.len() > 1 && keys.iter().all(|key| key["held"] == true) && next.is_none()
        },
    },
    Act {
        line: "book new-era --yes --json",
        done: |world| {
            let left = ["era.json", "book.new"].map(|name| world.dir().join(name));
            closed(world).len() == 1
                && !left.iter().any(|path| path.exists())
                && world.json("key show --json")["keys"][0]["held"] == true
        },
    },
];

const FIRST: &str = "00000000000000000000.jsonl";

#[test]
fn b33_b34_b38_b39_commands_survive_the_failure_of_any_system_call() {
    let template = made();
    write(&template, 0..30);
    for act in ACTS {
        sweep(&template, act);
    }
}

fn sweep(template: &World, act: &Act) {
    let world = copy(template);
    let (output, trace) = traced(&world, act.line, &[]);
    assert!(
        output.status.success() && (act.done)(&world),
        "{}: {output:?}",
        act.line
    );
    let dir = format!("{}/", world.dir().display());
    let paths = paths(&trace, &dir);
    let mut cases = Vec::new();
    for (call, errors) in FAILURES {
        let count = trace
            .lines()
            .filter(|line| line.contains(&format!("{call}(")) && line.contains(&dir))
            .count();
        for error in *errors {
            let step = match (thorough(), *error == errors[0]) {
                (true, _) => 1,
                (false, true) => 5,
                (false, false) => 23,
            };
            let start = 1 + (error.len() + act.line.len()) % step;
            cases.extend((start..=count).step_by(step).map(|n| (*call, *error, n)));
        }
    }
    let all = cases.len();
    assert!(all > 20, "{}: {all}", act.line);
    let (next, bad, made) = (
        Mutex::new(cases.into_iter()),
        Mutex::new(Vec::new()),
        Mutex::new(0),
    );
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let case = next.lock().unwrap().next();
                    let Some((call, error, n)) = case else { break };
                    let what = format!("{}: {call} {n} answers {error}", act.line);
                    let check = || fail_once(template, act, &paths, (call, error, n), &what);
                    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)) {
                        Ok(injected) => *made.lock().unwrap() += injected,
                        Err(_) => bad.lock().unwrap().push(what),
                    }
                }
            });
        }
    });
    let bad = bad.into_inner().unwrap();
    assert!(
        bad.is_empty(),
        "{} of {all} are not withstood: {bad:#?}",
        bad.len()
    );
    // Some names differ from run to run, and what lies behind them is not reached.
    let made = made.into_inner().unwrap();
    assert!(
        made * 10 >= all * 8,
        "{}: {made} of {all} calls failed",
        act.line
    );
}

fn thorough() -> bool {
    std::env::var_os("COUNTERSIGN_LONG").is_some()
}

/// How many calls failed.
fn fail_once(
    template: &World,
    act: &Act,
    paths: &BTreeSet<PathBuf>,
    (call, error, n): (&str, &str, usize),
    what: &str,
) -> usize {
    let world = copy(template);
    let before = record(&world);
    let mut options = vec![
        "-e".to_owned(),
        format!("inject={call}:error={error}:when={n}"),
    ];
    for path in paths {
        options.extend([
            "-P".to_owned(),
            world.dir().join(path).display().to_string(),
        ]);
    }
    let (output, trace) = traced(&world, act.line, &options);
    let injected = trace
        .lines()
        .filter(|line| line.contains("(INJECTED)"))
        .count();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let answer: Value =
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{what}: {output:?}"));
    if output.status.success() {
        assert!((act.done)(&world), "{what}: {answer:#}");
    } else {
        let words = ["code", "message", "remedy"].map(|part| {
            let words = answer["error"][part]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            assert!(words.len() > 3, "{what}: no {part} in {answer:#}");
            words
        });
        if words.join(" ").contains("nothing was changed") {
            assert!(record(&world) == before, "{what}: {answer:#}");
        }
        if !(act.done)(&world) || world.dir().join("book/removal.pending").exists() {
            let again = world.run(act.line);
            assert!(again.status.success(), "{what}: {answer:#} then {again:?}");
        }
        assert!((act.done)(&world), "{what}: {answer:#}");
    }

    // The record is whole, and every entry that was in it is in it, or in the book that ended, or was pruned on record.
    for line in ["book status --json", "book verify --json"] {
        let found = world.json(line);
        let state = found["state"].as_str().or(found["verdict"].as_str());
        assert!(matches!(state, Some("ok" | "OK")), "{what}: {found:#}");
    }
    let books: Vec<PathBuf> = std::iter::once(world.dir().join("book"))
        .chain(closed(&world))
        .collect();
    let mut lines: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    let mut first = u64::MAX;
    for (index, line) in books.iter().flat_map(|book| entries(book)) {
        first = first.min(index);
        lines.entry(index).or_default().insert(line);
    }
    for (index, line) in entries(&template.dir().join("book")) {
        assert!(
            index < first || lines.get(&index).is_some_and(|lines| lines.contains(&line)),
            "{what}: entry {index} is lost"
        );
    }
    assert!(!world.dir().join("book/removal.pending").exists(), "{what}");
    // A new key, where there is one, signs.
    write(&world, 40..41);
    injected
}

/// The folders of books that ended.
fn closed(world: &World) -> Vec<PathBuf> {
    let all = std::fs::read_dir(world.dir()).unwrap();
    all.map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .contains("-closed-")
        })
        .collect()
}

/// Index and line of every entry, by the format.
fn entries(book: &Path) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(book.join("journal")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        for line in text.lines().filter(|line| line.starts_with('{')) {
            let entry: Value = serde_json::from_str(line).unwrap();
            found.push((entry["i"].as_u64().unwrap(), line.to_owned()));
        }
    }
    found
}

/// What makes the record: journal, vault, `BOOK`, what is set aside.
fn record(world: &World) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![world.dir().join("book")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let rests = path.extension().is_some_and(|end| end == "tmp");
            if path.is_dir() {
                open.push(path);
            } else if !rests {
                files.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

fn copy(template: &World) -> World {
    let world = World::new();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(template.dir())
        .arg(world.dir())
        .status();
    assert!(copied.unwrap().success());
    world
}

/// A command under `strace`, and its trace.
fn traced(world: &World, line: &str, options: &[String]) -> (Output, String) {
    let file = world.root().join("trace");
    let command = world.command(line);
    let calls: Vec<&str> = FAILURES.iter().map(|(call, _)| *call).collect();
    let mut traced = std::process::Command::new("strace");
    traced
        .args(["-f", "-qq", "--seccomp-bpf", "-y", "-o"])
        .arg(&file)
        .args(["-e", &format!("trace={}", calls.join(","))])
        .args(options)
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .stdin(std::process::Stdio::null());
    for (name, value) in command.get_envs() {
        traced.env(name, value.unwrap());
    }
    let output = traced.output().unwrap();
    (output, std::fs::read_to_string(&file).unwrap())
}

/// Every path below `dir` that was named.
fn paths(trace: &str, dir: &str) -> BTreeSet<PathBuf> {
    trace
        .split(dir)
        .skip(1)
        .map(|rest| PathBuf::from(&rest[..rest.find(['"', '>', ',']).unwrap_or(rest.len())]))
        .collect()
}
