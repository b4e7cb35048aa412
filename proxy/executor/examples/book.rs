//! `bash tests/bench/run book [--quick] [--long] [--folder FOLDER]`: what a durable entry costs, beside the bare write and sync of
//! the same bytes and SQLite with the same bytes, on the same disk in the same run; what an entry costs a caller before it waits; how
//! fast a book is verified and opened. Prints; judges nothing.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a measurement takes time and files itself, and one that fails may end"
)]

use std::fs::OpenOptions;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use countersign::keeper::sources;
use countersign::recorder::{Recorder, When};
use countersign_book::{
    Actor, Call, CallId, Draft, Effect, Field, Hash, NewBook, Origin, Outcome, Payload, Signer,
    Status, VaultKey, VerifyOptions, Writer, WriterOptions, create, verify,
};

/// Bytes of each payload.
const PAYLOAD: usize = 300;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["worker", book, number, callers, millis] => {
            let millis = Duration::from_millis(millis.parse().unwrap());
            worker(Path::new(book), number, callers.parse().unwrap(), millis);
        }
        ["verify", book] => verified(Path::new(book)),
        options => table(&Options::of(options)),
    }
}

struct Options {
    folder: PathBuf,
    time: Duration,
    entries: Vec<u64>,
}

impl Options {
    fn of(words: &[&str]) -> Self {
        let mut options = Self {
            folder: ".".into(),
            time: Duration::from_secs(3),
            entries: vec![1_000_000],
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--quick" => {
                    options.time = Duration::from_millis(700);
                    options.entries = vec![200_000];
                }
                "--long" => options.entries.push(10_000_000),
                "--folder" => options.folder = words.next().unwrap().into(),
                other => panic!("unknown option `{other}`"),
            }
        }
        options
    }
}

fn table(options: &Options) {
    let dir = tempfile::tempdir_in(&options.folder).unwrap();
    println!(
        "durable entries ({PAYLOAD} B payload each, kept in the vault); `bare`: write + fdatasync of equal batches; `bound`: what is \
         left of it where the vault's part is written past the cache before, as a payload must be with the device before the flush \
         that makes its entry durable; `sqlite`: WAL, synchronous=FULL, equal batches in a transaction each"
    );
    prepared(dir.path());
    println!(
        "{:>9} {:>8} {:>10} {:>8} {:>8} {:>8} {:>8} {:>10} {:>6} {:>6} {:>10} {:>6}",
        "processes",
        "callers",
        "entries/s",
        "batch",
        "p50 µs",
        "p99 µs",
        "bare µs",
        "bare/s",
        "ratio",
        "bound",
        "sqlite/s",
        "ratio"
    );
    for (processes, callers) in [
        (1, 1),
        (1, 4),
        (1, 16),
        (1, 64),
        (1, 256),
        (4, 4),
        (4, 16),
        (4, 64),
        (4, 256),
    ] {
        row(dir.path(), processes, callers, options.time);
    }
    for entries in &options.entries {
        large(dir.path(), *entries);
    }
    crashed(dir.path());
}

/// One line: the book, then the floor and SQLite with batches as large as the book's were.
fn row(dir: &Path, processes: u64, callers: u64, time: Duration) {
    let book = dir.join(format!("book-{processes}-{callers}"));
    new_book(&book);
    let me = std::env::current_exe().unwrap();
    let started = Instant::now();
    let children: Vec<_> = (0..processes)
        .map(|number| {
            let words = [
                number.to_string(),
                (callers / processes).to_string(),
                time.as_millis().to_string(),
            ];
            Command::new(&me)
                .arg("worker")
                .arg(&book)
                .args(words)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut each: Vec<u64> = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        each.extend(text.split_whitespace().map(|n| n.parse::<u64>().unwrap()));
    }
    let took = started
        .elapsed()
        .max(time)
        .as_secs_f64()
        .min(time.as_secs_f64() * 1.5);
    let entries = each.len() as u64;
    let report = verify(&book, &VerifyOptions::default()).unwrap();
    assert_eq!(report.verdict().exit_code(), 0);
    assert_eq!(report.size, entries + 1);
    let batch = (entries as f64 / report.checkpoints as f64)
        .round()
        .max(1.0) as u64;
    let bytes =
        (size(&book.join("journal")) + entries * (PAYLOAD as u64 + 250)) / report.checkpoints;
    let rate = entries as f64 / took;
    each.sort_unstable();
    let bare = bare(dir, bytes, time / 3);
    let vault = entries * (PAYLOAD as u64 + 250) / report.checkpoints;
    let apart = apart(dir, bytes - vault, vault, time / 3);
    let sqlite = sqlite(dir, batch, bytes / batch, time / 3);
    let (bare_rate, sqlite_rate) = (batch as f64 * bare.0, batch as f64 * sqlite);
    println!(
        "{processes:>9} {callers:>8} {rate:>10.0} {:>8.1} {:>8} {:>8} {:>8.0} {bare_rate:>10.0} {:>6.2} {:>6.2} {sqlite_rate:>10.0} {:>6.2}",
        entries as f64 / report.checkpoints as f64,
        each[each.len() / 2],
        each[each.len() * 99 / 100],
        bare.1,
        rate / bare_rate,
        apart / bare.0,
        rate / sqlite_rate,
    );
    std::fs::remove_dir_all(&book).unwrap();
}

/// Appends with so many callers that each wait for theirs, and prints how long each append took, in microseconds.
fn worker(book: &Path, number: &str, callers: u64, time: Duration) {
    let (dir, process) = (book.to_owned(), format!("bench-{number}"));
    let name = process.clone();
    let open = move || {
        let (signer, key) = keys();
        Writer::open(&dir, signer, key, sources(), WriterOptions::new(&name))
    };
    let recorder = Recorder::start(&process, open, |_| true, Box::new(|_| Vec::new())).unwrap();
    let number: u64 = number.parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let each = runtime.block_on(async {
        let end = Instant::now() + time;
        let tasks: Vec<_> = (0..callers)
            .map(|caller| {
                let recorder = recorder.clone();
                tokio::spawn(async move {
                    let mut took = Vec::new();
                    let mut n = (number << 50) + (caller << 40);
                    while Instant::now() < end {
                        n += 1;
                        for draft in [begun(n), ended(n)] {
                            let started = Instant::now();
                            recorder
                                .submit(vec![draft], PAYLOAD, When::Durable)
                                .await
                                .unwrap();
                            took.push(started.elapsed().as_micros() as u64);
                        }
                    }
                    took
                })
            })
            .collect();
        let mut each = Vec::new();
        for task in tasks {
            each.extend(task.await.unwrap());
        }
        each
    });
    recorder.close(Duration::from_secs(30));
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for micros in each {
        writeln!(out, "{micros}").unwrap();
    }
}

/// Batches a second, and the median of one in microseconds.
fn bare(dir: &Path, bytes: u64, time: Duration) -> (f64, f64) {
    let path = dir.join("bare");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap();
    let bytes = vec![b'x'; bytes as usize];
    let (started, mut each) = (Instant::now(), Vec::new());
    while started.elapsed() < time {
        let before = Instant::now();
        file.write_all(&bytes).unwrap();
        file.sync_data().unwrap();
        each.push(before.elapsed().as_secs_f64() * 1e6);
    }
    let rate = each.len() as f64 / started.elapsed().as_secs_f64();
    each.sort_unstable_by(f64::total_cmp);
    std::fs::remove_file(path).unwrap();
    (rate, each[each.len() / 2])
}

/// Batches a second where a part of each is written past the cache to a file that has room, before the rest is appended and
/// synced: what any writer can do whose payloads lie apart. Where the system has no such writes, through the cache.
fn apart(dir: &Path, journal: u64, vault: u64, time: Duration) -> f64 {
    const BLOCK: usize = 4096;
    let paths = [dir.join("bare"), dir.join("bare-vault")];
    let length = (vault as usize).next_multiple_of(BLOCK);
    let room = vec![b'x'; (8_usize << 20).next_multiple_of(length)];
    std::fs::write(&paths[1], &room).unwrap();
    std::fs::File::open(&paths[1]).unwrap().sync_all().unwrap();
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(target_os = "linux")]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap(),
    );
    let opened = options.open(&paths[1]);
    let mut vault =
        opened.unwrap_or_else(|_| OpenOptions::new().write(true).open(&paths[1]).unwrap());
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&paths[0])
        .unwrap();
    let memory = vec![b'y'; length + BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK);
    let lines = vec![b'x'; journal as usize];
    let (started, mut count, mut at) = (Instant::now(), 0_u64, 0);
    while started.elapsed() < time {
        if at + length > room.len() {
            at = 0;
            vault.seek(SeekFrom::Start(0)).unwrap();
        }
        vault.write_all(&memory[start..start + length]).unwrap();
        file.write_all(&lines).unwrap();
        file.sync_data().unwrap();
        (at, count) = (at + length, count + 1);
    }
    let rate = count as f64 / started.elapsed().as_secs_f64();
    paths
        .iter()
        .for_each(|path| std::fs::remove_file(path).unwrap());
    rate
}

/// What an entry costs the caller's thread before it waits.
fn prepared(dir: &Path) {
    let book = dir.join("prepared");
    new_book(&book);
    let preparer = open(&book, WriterOptions::new("bench")).preparer();
    let each = |with: &dyn Fn(u64) -> Draft| {
        let drafts: Vec<Draft> = (0..4000).map(with).collect();
        let mut entropy = sources().entropy;
        let started = Instant::now();
        for draft in drafts {
            std::hint::black_box(preparer.prepare(draft, &mut entropy).unwrap());
        }
        started.elapsed().as_secs_f64() * 1e6 / 4000.0
    };
    let _ = each(&begun);
    let (all, line) = (each(&begun), each(&|n| Draft::new(call(n))));
    println!(
        "to prepare an entry takes its caller {all:.1} µs, {:.1} of them its payload: looked through, committed to, sealed",
        all - line
    );
    std::fs::remove_dir_all(&book).unwrap();
}

/// Transactions a second.
fn sqlite(dir: &Path, rows: u64, bytes: u64, time: Duration) -> f64 {
    let path = dir.join("sqlite.db");
    let mut db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE IF NOT EXISTS entries (i INTEGER PRIMARY KEY, line BLOB);",
    )
    .unwrap();
    let (line, started, mut count) = (vec![b'x'; bytes as usize], Instant::now(), 0u64);
    while started.elapsed() < time {
        let transaction = db.transaction().unwrap();
        for _ in 0..rows {
            transaction
                .prepare_cached("INSERT INTO entries (line) VALUES (?1)")
                .unwrap()
                .execute([&line])
                .unwrap();
        }
        transaction.commit().unwrap();
        count += 1;
    }
    let rate = count as f64 / started.elapsed().as_secs_f64();
    drop(db);
    std::fs::remove_file(path).unwrap();
    rate
}

/// Verification of a long book, in a process of its own.
fn large(dir: &Path, entries: u64) {
    let book = dir.join(format!("large-{entries}"));
    new_book(&book);
    fill(&mut open(&book, WriterOptions::new("bench")), entries);
    let me = std::env::current_exe().unwrap();
    let output = Command::new(me).arg("verify").arg(&book).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    print!("{}", String::from_utf8(output.stdout).unwrap());
    let started = Instant::now();
    drop(open(&book, WriterOptions::new("bench")));
    println!("open it for writing: {:?}", started.elapsed());
    std::fs::remove_dir_all(&book).unwrap();
}

fn verified(book: &Path) {
    let started = Instant::now();
    let report = verify(book, &VerifyOptions::default()).unwrap();
    let took = started.elapsed();
    assert_eq!(report.verdict().exit_code(), 0);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap_or("?")
        .trim();
    println!(
        "verify {} entries in {} segments, {} MB: {took:?}, {:.0} MB/s, peak memory {peak}",
        report.size,
        report.segments,
        report.bytes / 1_000_000,
        report.bytes as f64 / 1e6 / took.as_secs_f64(),
    );
}

/// Opening after a crash that tore the last batch of a segment of 64 MiB.
fn crashed(dir: &Path) {
    let book = dir.join("crashed");
    new_book(&book);
    let long = WriterOptions {
        segment_bytes: 1 << 30,
        ..WriterOptions::new("bench")
    };
    let segment = book.join("journal/00000000000000000000.jsonl");
    let mut writer = open(&book, long.clone());
    let mut n = 0;
    while size(&book.join("journal")) < 64 << 20 {
        writer
            .commit((0..512).map(|m| ended_bare(n + m)).collect())
            .unwrap();
        n += 512;
    }
    drop(writer);
    let file = OpenOptions::new().write(true).open(&segment).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1000).unwrap();
    drop(file);
    let started = Instant::now();
    let writer = open(&book, long);
    println!(
        "open after a crash, segment of 64 MiB: {:?}, {:?}",
        started.elapsed(),
        writer.recovery().map(|recovery| recovery.bytes)
    );
}

fn fill(writer: &mut Writer, entries: u64) {
    let mut n = 0;
    while n < entries / 2 {
        let drafts = (0..512).flat_map(|m| [Draft::new(call(n + m)), ended_bare(n + m)]);
        writer.commit(drafts.collect()).unwrap();
        n += 512;
    }
}

fn size(dir: &Path) -> u64 {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}

fn keys() -> (Signer, VaultKey) {
    (Signer::from_seed([1; 32]), VaultKey::from_bytes([2; 32]))
}

fn new_book(dir: &Path) {
    let new = NewBook {
        origin: Origin::from_id([1; 16]),
        development: true,
        name: None,
        program: None,
        process: "bench".into(),
    };
    create(dir, &new, &keys().0, &mut sources()).unwrap();
}

fn open(dir: &Path, options: WriterOptions) -> Writer {
    let (signer, key) = keys();
    Writer::open(dir, signer, key, sources(), options).unwrap()
}

fn id(n: u64) -> CallId {
    const ALPHABET: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let text: String = (0..13)
        .rev()
        .map(|place| char::from(ALPHABET[(n >> (5 * place) & 31) as usize]))
        .collect();
    CallId::parse(&format!("01ARZ3NDEKTSV{text}")).unwrap()
}

fn begun(n: u64) -> Draft {
    Draft::new(call(n)).with(Field::Args, Payload::new(vec![b'x'; PAYLOAD]))
}

fn ended(n: u64) -> Draft {
    ended_bare(n).with(Field::Result, Payload::new(vec![b'y'; PAYLOAD]))
}

fn ended_bare(n: u64) -> Draft {
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
        def: Some(Hash::of(b"definition")),
        effect: Effect::Write,
        key: Some("csk_ab12cd34".into()),
        permission: Some(Hash::of(b"permission")),
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
