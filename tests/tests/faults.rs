//! The system refuses: what the executor answers, what it never does afterwards, and how it comes back (B12, B13, B15, B16).
//! `strace` makes system calls on the book's files fail and notes their order; no disk is harmed.

mod book;
mod full;
mod group;
mod strain;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use countersign_tests::PATIENCE;
use countersign_tests::client::{Client, refusal};
use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use serde_json::{Value, json};

/// The proxy under `strace` with more of its arguments; what it notes goes to `trace`.
fn traced(world: &World, trace: &Path, options: &[&str]) -> Client {
    let run = world.command(&["run", "--agent", "a", "--server", "s"]);
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "--seccomp-bpf", "-o"])
        .arg(trace);
    command
        .args(options)
        .arg(run.get_program())
        .args(run.get_args());
    command.env_clear().current_dir(world.root());
    for (name, value) in run.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    let mut client = Client::start(&mut command);
    client.initialize();
    client
}

fn call(client: &mut Client, label: &str) -> Value {
    client.call("slow", &json!({"text": label, "ms": 0}))
}

/// A world with a book that has a vault, so that the files to meddle with are there.
fn begun() -> (World, Hostile, PathBuf, PathBuf) {
    let (world, hostile) = Hostile::world(&json!({}));
    world.unlimited();
    let mut client = world.connect();
    assert!(refusal(&call(&mut client, "before")).is_none());
    assert!(client.close().success());
    let journal = world.journal_files().pop().expect("a segment");
    let vault = world.dir().join("book/vault/00000000000000000000.seg");
    assert!(vault.exists());
    (world, hostile, journal, vault)
}

struct Case {
    /// Which file, of `journal`, `vault` and `lock`.
    file: &'static str,
    inject: &'static str,
    /// What the agent reads, and the word in the `gap`.
    why: &'static str,
    reason: &'static str,
}

const NO_SPACE: (&str, &str) = ("no space is left on the disk", "no_space");
const QUOTA: (&str, &str) = ("the disk quota is used up", "no_space");
const FORBIDDEN: (&str, &str) = ("the book's files may not be written", "not_permitted");
const BROKEN: (&str, &str) = ("the disk reports an error", "disk_error");

const fn case(
    file: &'static str,
    inject: &'static str,
    (why, reason): (&'static str, &'static str),
) -> Case {
    Case {
        file,
        inject,
        why,
        reason,
    }
}

/// When: the first call's `call`, its `outcome`, later ones, and several in a row (opening anew fails too).
const CASES: &[Case] = &[
    case("journal", "fdatasync:error=EIO:when=2", BROKEN),
    case("journal", "fdatasync:error=EIO:when=3", BROKEN),
    case("journal", "fdatasync:error=EIO:when=6..7", BROKEN),
    case("journal", "fdatasync:error=ENOSPC:when=4", NO_SPACE),
    case("journal", "pwrite64:error=EIO:when=1", BROKEN),
    case("journal", "pwrite64:error=EIO:when=4", BROKEN),
    case("journal", "pwrite64:error=ENOSPC:when=2", NO_SPACE),
    case("journal", "pwrite64:error=ENOSPC:when=3..4", NO_SPACE),
    case("journal", "pread64:error=EIO:when=5", BROKEN),
    case("journal", "openat:error=EIO:when=1", BROKEN),
    case("journal", "openat:error=EDQUOT:when=2", QUOTA),
    case("journal", "statx:error=EIO:when=12", BROKEN),
    case("journal", "fdatasync:error=EDQUOT:when=2", QUOTA),
    case("lock", "flock:error=EIO:when=5", BROKEN),
    case("lock", "flock:error=ENOLCK:when=6..9", BROKEN),
    case("lock", "statx:error=EIO:when=9..10", BROKEN),
    case("vault", "openat:error=EIO:when=3", BROKEN),
    case("vault", "statx:error=EACCES:when=6", FORBIDDEN),
    case("vault", "fsync:error=EIO:when=1", BROKEN),
    case("vault", "pwrite64:error=EIO:when=1", BROKEN),
    case("vault", "pwrite64:error=ENOSPC:when=2", NO_SPACE),
    case("vault", "pwrite64:error=ENOSPC:when=3..4", NO_SPACE),
];

#[test]
fn b15_b16_a_failing_disk_is_named_never_retried_and_its_end_is_noticed() {
    // Mostly waiting: several at a time.
    for some in CASES.chunks(4) {
        std::thread::scope(|scope| {
            for case in some {
                scope.spawn(|| check(case));
            }
        });
    }
}

fn check(case: &Case) {
    let what = format!("{} {}", case.file, case.inject);
    let (world, hostile, journal, vault) = begun();
    let trace = world.path("trace");
    let lock = world.dir().join("book/LOCK");
    let file = match case.file {
        "vault" => &vault,
        "lock" => &lock,
        _ => &journal,
    };
    let path = file.to_str().expect("a temporary path is text");
    let inject = format!("inject={}", case.inject);
    let calls = "trace=openat,close,pwrite64,write,pread64,fdatasync,fsync,ftruncate,statx,flock";
    let mut client = traced(&world, &trace, &["-P", path, "-e", calls, "-e", &inject]);

    let endured = endure(&mut client, case.why, path, &what, || {});
    assert!(client.close().success(), "{what}");
    assert_never_retried(&std::fs::read_to_string(&trace).expect("a trace"), &what);

    hold_against(&world, &hostile, &endured, case.reason, &what);
}

/// Calls that were refused, with whether they were sent, and calls that were taken.
struct Endured {
    refused: Vec<(String, bool)>,
    taken: Vec<String>,
}

/// Calls until one is refused, then, after `heal`, until one is taken again: by the same process.
fn endure(
    client: &mut Client,
    why: &str,
    path: &str,
    what: &str,
    mut heal: impl FnMut(),
) -> Endured {
    let (mut refused, mut taken) = (Vec::new(), Vec::new());
    let end = Instant::now() + PATIENCE;
    for n in 0.. {
        let label = format!("call-{n}");
        let answer = call(client, &label);
        let back = match refusal(&answer) {
            None => {
                taken.push(label);
                true
            }
            Some(document) => {
                let text = document;
                assert!(text.contains("record_unavailable"), "{what}: {text}");
                assert!(text.contains(why), "{what}: {text}");
                assert!(text.contains("Tell the person"), "{what}: {text}");
                assert!(
                    !text.contains(path),
                    "{what}: no path for the agent: {text}"
                );
                if refused.is_empty() {
                    heal();
                }
                let sent = text.contains("the call was sent");
                assert!(sent || text.contains("not forwarded"), "{what}: {text}");
                refused.push((label, sent));
                false
            }
        };
        if back && !refused.is_empty() {
            break;
        }
        assert!(
            Instant::now() < end,
            "{what}: refused {} times, never taken again",
            refused.len()
        );
        if !refused.is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
    Endured { refused, taken }
}

/// What ran, what the record says of it, and that the next start goes on.
fn hold_against(world: &World, hostile: &Hostile, endured: &Endured, reason: &str, what: &str) {
    let Endured { refused, taken } = endured;
    // What was refused before it was sent never ran; what was taken ran once.
    let ran: Vec<Value> = hostile
        .calls()
        .iter()
        .map(|call| call["arguments"]["text"].clone())
        .collect();
    let times = |label: &String| ran.iter().filter(|text| **text == json!(label)).count();
    for (label, sent) in refused {
        assert_eq!(times(label), usize::from(*sent), "{what}: {label}");
    }
    for label in taken {
        assert_eq!(times(label), 1, "{what}: {label}");
    }

    // The record is whole and says what is missing in it; the next start goes on.
    world.must(&["book", "verify"]);
    let gaps: Vec<Value> = world
        .journal()
        .into_iter()
        .filter(|entry| entry["k"] == "gap")
        .collect();
    assert!(!gaps.is_empty(), "{what}");
    let mut missing = 0;
    for gap in gaps
        .iter()
        .filter(|gap| gap["reason"] != "signed_and_set_aside")
    {
        assert_eq!(gap["reason"], reason, "{what}");
        assert!(
            gap["from"].is_string() && gap["until"].is_string(),
            "{what}: {gap}"
        );
        missing += gap["count"].as_u64().unwrap_or_default();
    }
    assert!(
        missing >= refused.len() as u64,
        "{what}: {missing} of {}",
        refused.len()
    );
    let mut client = world.connect();
    assert!(refusal(&call(&mut client, "after")).is_none(), "{what}");
    assert!(client.close().success());
    for call in world.recorded() {
        assert_eq!(call.outcomes.len(), 1, "{what}: {call:?}");
    }
}

/// How many calls were made to fail.
fn injected(trace: &str) -> usize {
    let lines = trace.lines();
    lines.filter(|line| line.contains("(INJECTED)")).count()
}

/// After an injected failure of a write or sync nothing but a close happens on that descriptor.
fn assert_never_retried(trace: &str, what: &str) {
    /// What changes a file or says that a change is durable.
    const CHANGES: [&str; 7] = [
        "pwrite64",
        "write",
        "fdatasync",
        "fsync",
        "ftruncate",
        "fadvise64",
        "copy_file_range",
    ];
    let mut failed: BTreeMap<String, String> = BTreeMap::new();
    // A call another thread's line stands in the middle of: its name and descriptor by thread.
    let mut begun: BTreeMap<&str, (&str, String)> = BTreeMap::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(' ') else {
            continue;
        };
        let call = call.trim_start();
        let (name, fd) = if call.starts_with("<... ") {
            match begun.remove(thread) {
                Some(begun) => begun,
                None => continue,
            }
        } else if let Some((name, rest)) = call.split_once('(') {
            let fd = rest.chars().take_while(char::is_ascii_digit).collect();
            if call.ends_with("<unfinished ...>") {
                begun.insert(thread, (name, fd));
                continue;
            }
            (name, fd)
        } else {
            continue;
        };
        if name == "close" {
            failed.remove(&fd);
        } else if let Some(before) = failed.get(&fd) {
            panic!("{what}: after `{before}` came `{line}`");
        }
        if line.contains("(INJECTED)") && CHANGES.contains(&name) {
            failed.insert(fd, line.to_owned());
        }
    }
    assert!(injected(trace) > 0, "{what}: nothing was made to fail");
}

#[test]
fn b12_b13_nothing_is_sent_or_answered_before_it_is_on_disk() {
    let (world, _, journal, _) = begun();
    let trace = world.path("trace");
    let calls = "trace=pwrite64,write,writev,sendto,sendmsg,fdatasync";
    let mut client = traced(&world, &trace, &["-y", "-s", "4096", "-e", calls]);
    let labels: Vec<String> = (0..5).map(|n| format!("label-{n}-end")).collect();
    for label in &labels {
        assert!(refusal(&call(&mut client, label)).is_none());
    }
    assert!(client.close().success());

    // What happened, in order: `w` a write to the journal begins, `s` its sync has returned, `u` and `a` a label goes to the
    // server and to the agent.
    let text = std::fs::read_to_string(&trace).expect("a trace");
    let journal = journal.to_str().expect("a temporary path is text");
    let mut events: Vec<(char, usize)> = Vec::new();
    let mut syncing: BTreeMap<&str, bool> = BTreeMap::new();
    for line in text.lines() {
        let (pid, call) = line.split_once(' ').unwrap_or_default();
        let call = call.trim_start();
        let of_journal = call.contains(journal);
        if call.starts_with("pwrite64(") && of_journal {
            events.push(('w', 0));
        } else if call.starts_with("fdatasync(") {
            if call.contains("unfinished") {
                syncing.insert(pid, of_journal);
            } else if of_journal && call.ends_with("= 0") {
                events.push(('s', 0));
            }
        } else if call.starts_with("<... fdatasync resumed") {
            if syncing.remove(pid) == Some(true) && call.ends_with("= 0") {
                events.push(('s', 0));
            }
        } else if let Some(n) = labels.iter().position(|label| call.contains(label)) {
            if call.contains("tools/call") {
                events.push(('u', n));
            } else if call.contains("\\\"result\\\"") {
                events.push(('a', n));
            }
        }
    }
    for (n, label) in labels.iter().enumerate() {
        let at = |kind| events.iter().position(|event| *event == (kind, n));
        let (sent, answered) = (at('u'), events.iter().rposition(|event| *event == ('a', n)));
        let (Some(sent), Some(answered)) = (sent, answered) else {
            panic!("{label}: {events:?}");
        };
        // Before each of the two the last thing that happened to the journal is a sync that returned, and there is a new one.
        let since = if n == 0 {
            0
        } else {
            events
                .iter()
                .rposition(|event| *event == ('a', n - 1))
                .unwrap_or(0)
        };
        for (from, to) in [(since, sent), (sent, answered)] {
            let between: String = events[from..to]
                .iter()
                .map(|(kind, _)| *kind)
                .filter(|kind| "ws".contains(*kind))
                .collect();
            assert!(
                between.ends_with("ws"),
                "{label}: {between} before {to} in {events:?}"
            );
        }
    }
}
