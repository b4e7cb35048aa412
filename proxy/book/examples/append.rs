//! `cargo run --release -p countersign-book --example append [FOLDER]`: what a durable entry costs beside a bare write and
//! sync of the same bytes on the same disk, and how fast a book is verified. Ratios of one run; nothing is judged here.
#![allow(
    clippy::disallowed_methods,
    reason = "a measurement takes time and files itself"
)]
#![allow(clippy::unwrap_used, reason = "a measurement that fails may end")]

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use countersign_book::{
    Actor, Call, CallId, Draft, Effect, Field, NewBook, Origin, Outcome, Payload, Signer, Sources,
    Status, VaultKey, VerifyOptions, Writer, WriterOptions, create, verify,
};

const ROUNDS: usize = 400;

fn main() {
    let place = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let dir = tempfile::tempdir_in(place).unwrap();
    let floor = bare(dir.path(), 1, 950);
    println!(
        "{:<44} {:>9} {:>9} {:>7} {:>9}",
        "400 times", "p50 µs", "p99 µs", "ratio", "cpu µs"
    );
    row("bare write + sync of 950 B", &floor, &floor);
    row(
        "bare, two files one after the other",
        &bare(dir.path(), 2, 475),
        &floor,
    );
    for (name, payload, batch) in [
        ("one call, no payload", None, 1),
        ("one call, 100 B payload in the vault", Some(100), 1),
        ("one call, 64 KiB payload in the vault", Some(64 << 10), 1),
        ("64 calls, 100 B payload each", Some(100), 64),
    ] {
        row(name, &book(&dir.path().join(name), payload, batch), &floor);
    }
    for (name, batch, count) in [("batches of 256", 256, 120_000), ("batches of 1", 1, 4_000)] {
        let path = dir.path().join(format!("verify {batch}"));
        let mut writer = writer(&path);
        for n in 0..count / batch {
            writer
                .commit(
                    (0..batch)
                        .map(|m| Draft::new(call((n * batch + m) as u64)))
                        .collect(),
                )
                .unwrap();
            writer
                .commit((0..batch).map(|m| ended((n * batch + m) as u64)).collect())
                .unwrap();
        }
        let started = Instant::now();
        let report = verify(&path, &VerifyOptions::default()).unwrap();
        let took = started.elapsed();
        assert_eq!(report.verdict().exit_code(), 0);
        let speed = report.bytes as f64 / 1e6 / took.as_secs_f64();
        println!(
            "verify {:>7} entries, {name:<16} {speed:>8.0} MB/s, {took:?}",
            report.size
        );
        drop(writer);
        let started = Instant::now();
        open(&path);
        println!(
            "open its last segment                      {:?}",
            started.elapsed()
        );
    }
}

struct Times {
    each: Vec<Duration>,
    cpu: Duration,
}

fn row(name: &str, times: &Times, floor: &Times) {
    let at = |times: &Times, part: usize| {
        let mut each = times.each.clone();
        each.sort_unstable();
        each[each.len() * part / 100].as_secs_f64() * 1e6
    };
    let cpu = times.cpu.as_secs_f64() * 1e6 / times.each.len() as f64;
    let ratio = at(times, 50) / at(floor, 50);
    println!(
        "{name:<44} {:>9.0} {:>9.0} {ratio:>7.2} {cpu:>9.0}",
        at(times, 50),
        at(times, 99)
    );
}

fn time(mut act: impl FnMut(usize)) -> Times {
    let before = cpu();
    let each = (0..ROUNDS)
        .map(|n| {
            let started = Instant::now();
            act(n);
            started.elapsed()
        })
        .collect();
    Times {
        each,
        cpu: cpu() - before,
    }
}

/// Time this thread ran, where the system says so.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(
        stat.split(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(0),
    )
}

fn bare(dir: &Path, files: usize, bytes: usize) -> Times {
    let mut files: Vec<File> = (0..files)
        .map(|n| {
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(dir.join(format!("bare-{n}")))
                .unwrap()
        })
        .collect();
    let bytes = vec![b'x'; bytes];
    time(|_| {
        for file in &mut files {
            file.write_all(&bytes).unwrap();
            file.sync_data().unwrap();
        }
    })
}

fn book(dir: &Path, payload: Option<usize>, batch: u64) -> Times {
    let mut writer = writer(dir);
    time(|n| {
        let draft = |m: u64| {
            let draft = Draft::new(call(n as u64 * batch + m));
            match payload {
                Some(bytes) => draft.with(Field::Args, Payload::new(vec![b'x'; bytes])),
                None => draft,
            }
        };
        writer.commit((0..batch).map(draft).collect()).unwrap();
    })
}

fn sources() -> Sources {
    let mut state = 1u64;
    Sources {
        clock: Box::new(jiff::Timestamp::now),
        // Not random: only measured.
        entropy: Box::new(move |bytes| {
            for byte in bytes {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                *byte = (state >> 33) as u8;
            }
            Ok(())
        }),
    }
}

fn writer(dir: &Path) -> Writer {
    let new = NewBook {
        origin: Origin::from_id([1; 16]),
        development: true,
        name: None,
        program: None,
        process: "bench".into(),
    };
    create(dir, &new, &Signer::from_seed([1; 32]), &mut sources()).unwrap();
    open(dir)
}

fn open(dir: &Path) -> Writer {
    let (signer, key) = (Signer::from_seed([1; 32]), VaultKey::from_bytes([2; 32]));
    Writer::open(dir, signer, key, sources(), WriterOptions::new("bench")).unwrap()
}

fn id(n: u64) -> CallId {
    let text: String = format!("{n:013}");
    CallId::parse(&format!("01ARZ3NDEKTSV{text}")).unwrap()
}

fn ended(n: u64) -> Draft {
    Draft::new(Outcome::new(id(n), Status::Ok))
}

fn call(n: u64) -> Call {
    Call {
        actor: Actor::Agent,
        agent: Some("claude-desktop".into()),
        approval: None,
        args: None,
        call: id(n),
        client: Some("claude-ai 0.1.0".into()),
        confirmation: None,
        def: Some(countersign_book::Hash::of(b"definition")),
        effect: Effect::Write,
        key: Some("csk_ab12cd34".into()),
        permission: Some(countersign_book::Hash::of(b"permission")),
        process: "bench".into(),
        purpose: None,
        request: Some(n.to_string()),
        rows: None,
        sent: None,
        server: "files".into(),
        session: None,
        turn: None,
        tool: "write_file".into(),
        via: "stdio".into(),
    }
}
