//! `bash tests/bench/run views [ENTRIES]`: what is derived from a book, and views over it, measured once: build the derived log and the
//! index, list a page, filter, prove. Numbers of one run; nothing is judged here.
#![allow(clippy::unwrap_used, reason = "a measurement that fails may end")]

use std::path::Path;
use std::time::Instant;

use countersign::derived::filter::Filter;
use countersign::derived::index::Index;
use countersign::derived::page::{Asked, read};
use countersign::folder::Folder;
use countersign::keeper::sources;
use countersign_book::{
    Actor, Call, CallId, Draft, Effect, NewBook, Origin, Outcome, Prover, Reader, Signer, Status,
    Tlog, VaultKey, Writer, WriterOptions, create,
};

fn main() {
    let entries = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(1_000_000);
    let place = std::env::args().nth(2).unwrap_or_else(|| ".".into());
    let dir = tempfile::tempdir_in(place).unwrap();
    let folder = Folder::resolve(Some(dir.path())).unwrap();
    folder.create().unwrap();
    row("make the book (no measure of appending)", || {
        write(&folder.book(), entries)
    });
    println!("{:<56} {entries:>12}", "entries");
    println!(
        "{:<56} {:>9} MiB",
        "journal",
        size(&folder.book().join("journal")) >> 20
    );
    row("derived log from nothing", || {
        drop(Tlog::open(&folder.book()).unwrap().extend().unwrap())
    });
    println!(
        "{:<56} {:>9} MiB",
        "derived log",
        size(&folder.book().join("tlog")) >> 20
    );
    row("derived log opened, nothing new", || {
        drop(Tlog::open(&folder.book()).unwrap().extend().unwrap())
    });
    row("derived log compared whole", || {
        drop(Tlog::open(&folder.book()).unwrap().check().unwrap())
    });
    row("index from nothing", || {
        Index::open(&folder).unwrap().update().unwrap()
    });
    println!(
        "{:<56} {:>9} MiB",
        "index",
        std::fs::metadata(folder.index_db()).unwrap().len() >> 20
    );
    row("index opened, nothing new", || {
        Index::open(&folder).unwrap().update().unwrap()
    });
    let page = |filter: Filter| Asked {
        filter,
        call: None,
        from: None,
        before: None,
        limit: 50,
        anew: false,
    };
    let of = |tool: &str| Filter {
        tool: Some(tool.into()),
        ..Filter::default()
    };
    row("first page, no filter, 50 entries proven", || {
        drop(read(&folder, &page(Filter::default())).unwrap())
    });
    row("first page of a common tool", || {
        drop(read(&folder, &page(of("write_file"))).unwrap())
    });
    row("first page of a tool called once in 10,000", || {
        drop(read(&folder, &page(of("rare"))).unwrap())
    });
    row("a tool nobody called", || {
        drop(read(&folder, &page(of("nobody"))).unwrap())
    });
    let leaf = Reader::open(&folder.book())
        .unwrap()
        .show(entries / 3)
        .unwrap()
        .unwrap()
        .entry
        .leaf;
    let prove = || {
        drop(
            Prover::open(&folder.book())
                .unwrap()
                .prove(entries / 3, leaf)
                .unwrap(),
        )
    };
    row("proof of one entry by tiles, with opening", prove);
    std::fs::rename(folder.book().join("tlog"), folder.book().join("away")).unwrap();
    row("the same by the journal alone", prove);
    row("first page of the rare tool without tiles", || {
        drop(read(&folder, &page(of("rare"))).unwrap())
    });
    println!(
        "{:<56} {:>9} MiB",
        "most memory of this process",
        most_memory() >> 10
    );
}

fn row(name: &str, act: impl FnOnce()) {
    let started = Instant::now();
    act();
    println!("{name:<56} {:>12.3} s", started.elapsed().as_secs_f64());
}

fn size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| match entry.metadata().unwrap() {
            meta if meta.is_dir() => size(&entry.path()),
            meta => meta.len(),
        })
        .sum()
}

/// KiB, where the system says so.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

fn write(book: &Path, entries: u64) {
    let signer = || Signer::from_seed([1; 32]);
    let new = NewBook {
        origin: Origin::from_id([1; 16]),
        development: true,
        name: None,
        program: None,
        process: "bench".into(),
    };
    create(book, &new, &signer(), &mut sources()).unwrap();
    let options = WriterOptions::new("bench");
    let mut writer = Writer::open(
        book,
        signer(),
        VaultKey::from_bytes([2; 32]),
        sources(),
        options,
    )
    .unwrap();
    let mut next = 1;
    while next < entries {
        let batch = (entries - next).min(1000);
        let draft = |n: u64| {
            let id = CallId::parse(&format!("01ARZ3NDEKTSV{:013}", n / 2)).unwrap();
            match n % 2 {
                0 => Draft::new(call(id, n)),
                _ => Draft::new(Outcome::new(id, Status::Ok)),
            }
        };
        writer
            .commit((next..next + batch).map(draft).collect())
            .unwrap();
        next += batch;
    }
}

fn call(id: CallId, n: u64) -> Call {
    Call {
        actor: Actor::Agent,
        agent: Some("claude-desktop".into()),
        approval: None,
        args: None,
        call: id,
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
        tool: if n.is_multiple_of(10_000) {
            "rare"
        } else {
            "write_file"
        }
        .into(),
        via: "stdio".into(),
    }
}
