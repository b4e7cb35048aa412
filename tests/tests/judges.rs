//! `book verify` and verify.py judge the same books: forged by whoever holds the keys, changed byte by byte by whoever does not.
//! Where they differ, the smallest forgery that makes them is printed. Long: `COUNTERSIGN_LONG=1 cargo test -p countersign-tests
//! --test e2e -- judges:: --nocapture`, five minutes of new ones.

mod forger;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use countersign_book::{BookError, VerifyOptions, Vkey, verify};
use countersign_tests::binary::{root, tests_file};
use serde_json::{Value, json};

use forger::{Act, ENTRIES, Forger, HANDS, LINES, NOTES, PRUNINGS, SEGS, TAILS, key};

/// A change of the files, made without a key: what, where (a share of the whole, in 65,536ths), and one more number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change(usize, u16, u8);

/// One book that both are asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Case {
    acts: Vec<Act>,
    changes: Vec<Change>,
    /// Which key the book is held against; 0 is none.
    pinned: usize,
}

/// verify.py in a process of its own, asked book by book.
struct Python {
    child: Child,
    ask: ChildStdin,
    said: BufReader<ChildStdout>,
}

/// A stream of numbers that is the same for the same seed (xorshift64*).
struct Dice(u64);

/// Edits of the file `BOOK`.
const BOOKS: &[fn(String) -> String] = &[
    |text| text.trim_end().to_owned(),
    |text| text + "more: x\n",
    |text| text.replace("created: ", "created: \u{1b}"),
    |text| text.replace("book 1", "book 2"),
    |text| text.replace("book 1", "book 01"),
    |text| text.replace('\n', "\r\n"),
    |text| text.replace("aaaaaa\n", "aaaaab\n"),
    |text| text.replace(&key(1).vkey, &key(2).vkey),
    |text| text.replace("=\n", "\n"),
    |text| text + "\n",
];

const VKEYS: [&str; 5] = ["none", "the first", "the second", "the third", "foreign"];

impl Python {
    fn start() -> Self {
        let mut child = Command::new("python3")
            .arg(tests_file("strangers/judge.py"))
            .arg(root().join("proxy/book/verify.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let ask = child.stdin.take().expect("a pipe");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, ask, said }
    }

    fn judge(&mut self, book: &Path, vkey: Option<&str>) -> (i64, String) {
        writeln!(self.ask, "{}", json!([book, vkey])).expect("asked");
        let mut line = String::new();
        let _ = self.said.read_line(&mut line).expect("answered");
        let answer: Value = serde_json::from_str(&line).expect("an answer in JSON");
        (answer[0].as_i64().expect("a code"), answer[1].to_string())
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or_default() % end
    }

    /// Mostly 0, else below `end`.
    fn rarely(&mut self, end: usize) -> usize {
        if self.below(16) == 0 {
            self.below(end)
        } else {
            0
        }
    }

    fn act(&mut self) -> Act {
        match self.below(40) {
            0..=12 => Act::Entry(self.below(6), self.rarely(LINES.len())),
            13 | 14 => Act::Entry(self.below(ENTRIES.len()), 0),
            15..=26 => Act::Sign(self.rarely(HANDS.len()), self.rarely(NOTES.len())),
            27..=31 => Act::Split(self.rarely(SEGS.len())),
            32..=34 => Act::Rotate(self.rarely(5)),
            35 => Act::Many([3, 40, 4096, 4097][self.rarely(4)]),
            36 => Act::Prune(self.below(PRUNINGS.len())),
            37 if self.below(3) == 0 => Act::Tail(self.below(TAILS.len())),
            38 if self.below(3) == 0 => Act::Again,
            _ => Act::Sign(0, 0),
        }
    }

    fn case(&mut self) -> Case {
        let mut acts: Vec<Act> = Vec::new();
        for _ in 0..2 + self.below(14) {
            let act = self.act();
            let usual = self.below(12) > 0;
            let sign = usual.then_some(Act::Sign(0, 0));
            match act {
                Act::Split(_) | Act::Prune(_) => acts.extend(sign.into_iter().chain([act])),
                Act::Rotate(_) => acts.extend([act].into_iter().chain(sign)),
                act => acts.push(act),
            }
        }
        // What stands under no checkpoint decides little.
        if self.below(4) > 0 {
            acts.extend([Act::Entry(0, 0), Act::Sign(0, 0)]);
        }
        let changes = (0..[0, 0, 0, 0, 1, 2][self.below(6)]).map(|_| self.change());
        let changes = changes.collect();
        let pinned = self.rarely(VKEYS.len());
        Case {
            acts,
            changes,
            pinned,
        }
    }

    fn change(&mut self) -> Change {
        let at = u16::try_from(self.next() >> 48).unwrap_or_default();
        Change(
            self.below(20),
            at,
            u8::try_from(self.next() >> 56).unwrap_or_default(),
        )
    }
}

fn vkey(pinned: usize) -> Option<String> {
    match pinned {
        0 => None,
        4 => Some(key(9).vkey),
        n => Some(key(u8::try_from(n).unwrap_or_default()).vkey),
    }
}

fn segments(book: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(book.join("journal"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
}

/// Makes one change to the files of a book.
fn change(book: &Path, Change(what, at, more): Change) {
    let files = segments(book);
    let place = |end: usize| usize::from(at) * end / 65_536;
    let Some(path) = files.get(place(files.len() * 64) / 64) else {
        return;
    };
    let read = |path: &Path| std::fs::read(path).unwrap_or_default();
    let bytes = read(path);
    let mut lines: Vec<Vec<u8>> = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    // The place within the file is another number than the file's.
    let line = usize::from(more) * lines.len() / 256;
    let spot = (usize::from(at.wrapping_mul(31)) * bytes.len() / 65_536).min(bytes.len());
    let write = |bytes: &[u8]| std::fs::write(path, bytes).expect("written");
    let edit_book = |edit: fn(String) -> String| {
        let text = String::from_utf8(read(&book.join("BOOK"))).expect("text");
        std::fs::write(book.join("BOOK"), edit(text)).expect("written");
    };
    let named = |index: u64| book.join(format!("journal/{index:020}.jsonl"));
    match what {
        0 if spot < bytes.len() => {
            let mut bytes = bytes;
            bytes[spot] ^= 1 << (more % 8);
            return write(&bytes);
        }
        1 if line < lines.len() => drop(lines.remove(line)),
        2 if line < lines.len() => lines.insert(line, lines[line].clone()),
        3 if line + 1 < lines.len() => lines.swap(line, line + 1),
        4 => return write(&bytes[..spot]),
        5 => return write(&[&bytes[..spot], &[more % 128][..], &bytes[spot..]].concat()),
        6 => {
            return write(
                &String::from_utf8_lossy(&bytes)
                    .replace('\n', "\r\n")
                    .into_bytes(),
            );
        }
        7 => return std::fs::remove_file(path).expect("removed"),
        8 => return write(&[&bytes[..], TAILS[usize::from(more) % TAILS.len()]].concat()),
        9 => return std::fs::write(named(u64::from(more % 12)), &bytes).expect("written"),
        10 => return std::fs::rename(path, named(u64::from(more % 12))).expect("renamed"),
        // A sector that was never written, in the last batch or before it.
        11 => {
            let (start, mut bytes) = (spot / 512 * 512, bytes);
            let end = (start + 512).min(bytes.len());
            bytes[start..end].fill(0);
            return write(&bytes);
        }
        12 => {
            // The last character of a checkpoint's base64, with the bits that mean nothing.
            for line in lines
                .iter_mut()
                .filter(|line| line.starts_with(b"#cp "))
                .skip(usize::from(more % 3))
                .take(1)
            {
                if let Some(at) = line.iter().rposition(|byte| !matches!(byte, b'=' | b'\n')) {
                    line[at] = line[at].wrapping_add(1);
                }
            }
        }
        13 => {
            let vault = book.join(format!("vault/{:020}.seg", 0));
            let mut bytes = read(&vault);
            let end = bytes.len();
            let spot = if more < 60 {
                usize::from(more)
            } else {
                usize::from(at) * end / 65_536
            };
            if let Some(byte) = bytes.get_mut(spot) {
                *byte ^= 1;
            }
            return std::fs::write(vault, bytes).expect("written");
        }
        14 => return std::fs::remove_dir_all(book.join("vault")).unwrap_or_default(),
        15 => {
            return edit_book(BOOKS[usize::from(more) % BOOKS.len()]);
        }
        16 => return std::fs::write(book.join("journal/0.jsonl"), b"x").expect("written"),
        17 => return write(&[&bytes[..], &bytes[lines.first().map_or(0, Vec::len)..]].concat()),
        18 => lines.truncate(line),
        19 => lines.push(b"{}\n".to_vec()),
        _ => {}
    }
    write(&lines.concat());
}

/// The code of `book verify`: that of the report, or of what can't be reported on.
fn ours(book: &Path, vkey: Option<&str>) -> (i64, String) {
    let options = VerifyOptions {
        pinned: vkey.map(|vkey| Vkey::parse(vkey).expect("a key")),
        threads: 1,
        ..VerifyOptions::default()
    };
    match verify(book, &options) {
        Ok(report) => {
            let said: Vec<_> = report
                .findings
                .iter()
                .map(|found| format!("line {}: {}", found.line, found.what))
                .collect();
            (report.verdict().exit_code().into(), format!("{said:?}"))
        }
        Err(error) => (BookError::UNVERIFIABLE.into(), error.to_string()),
    }
}

/// What both say about a case.
fn ask(python: &mut Python, book: &Path, case: &Case) -> [(i64, String); 2] {
    let mut forger = Forger::new();
    case.acts.iter().for_each(|act| forger.act(*act));
    forger.write(book);
    case.changes.iter().for_each(|one| change(book, *one));
    let vkey = vkey(case.pinned);
    [
        ours(book, vkey.as_deref()),
        python.judge(book, vkey.as_deref()),
    ]
}

/// The smallest case, by leaving out what can be left out, on which they still differ.
fn shrink(python: &mut Python, book: &Path, mut case: Case) -> Case {
    loop {
        let without = |list: usize, at: usize| {
            let mut smaller = case.clone();
            match list {
                0 => drop(smaller.acts.remove(at)),
                1 => drop(smaller.changes.remove(at)),
                _ => smaller.pinned = 0,
            }
            smaller
        };
        let mut smaller: Vec<Case> = (0..case.acts.len()).map(|at| without(0, at)).collect();
        smaller.extend((0..case.changes.len()).map(|at| without(1, at)));
        smaller.extend((case.pinned > 0).then(|| without(2, 0)));
        let differs = |smaller: &Case| {
            let [ours, theirs] = ask(python, book, smaller);
            ours.0 != theirs.0
        };
        match smaller.into_iter().find(differs) {
            Some(smaller) => case = smaller,
            None => return case,
        }
    }
}

/// Asks both about each case; panics with the smallest forgery they differ on.
fn check(cases: impl Iterator<Item = Case>) -> BTreeMap<i64, u64> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (mut python, mut seen) = (Python::start(), BTreeMap::new());
    for case in cases {
        let [ours, theirs] = ask(&mut python, dir.path(), &case);
        if ours.0 != theirs.0 {
            let small = shrink(&mut python, dir.path(), case);
            let [ours, theirs] = ask(&mut python, dir.path(), &small);
            panic!(
                "they differ on {small:?}, held against {}\n  book verify: {ours:?}\n  verify.py: {theirs:?}",
                VKEYS[small.pinned]
            );
        }
        *seen.entry(ours.0).or_insert(0) += 1;
    }
    seen
}

/// Each entry, edit, hand and tail once, in the middle of a book and at its end.
fn each() -> Vec<Case> {
    let entry = |at| vec![Act::Entry(at, 0), Act::Sign(0, 0)];
    let mut plans: Vec<Vec<Act>> = (0..ENTRIES.len()).map(entry).collect();
    plans.extend((0..LINES.len()).map(|edit| vec![Act::Entry(0, edit), Act::Sign(0, 0)]));
    for rotated in [
        vec![],
        vec![Act::Rotate(0), Act::Sign(0, 0), Act::Entry(0, 0)],
    ] {
        let after = |act| {
            rotated
                .iter()
                .copied()
                .chain([Act::Entry(0, 0), act])
                .collect::<Vec<_>>()
        };
        plans.extend((0..NOTES.len()).map(|edit| after(Act::Sign(0, edit))));
        plans.extend((0..HANDS.len()).map(|hands| after(Act::Sign(hands, 0))));
        let split = |edit| [Act::Sign(0, 0), Act::Split(edit)];
        plans.extend((0..SEGS.len()).map(|edit| {
            rotated
                .iter()
                .copied()
                .chain([Act::Entry(1, 0)])
                .chain(split(edit))
                .collect()
        }));
    }
    plans.extend((0..5).map(|how| vec![Act::Rotate(how), Act::Sign(0, 0)]));
    plans.extend(
        (0..PRUNINGS.len()).map(|how| vec![Act::Entry(2, 0), Act::Sign(0, 0), Act::Prune(how)]),
    );
    plans.extend((0..TAILS.len()).map(|tail| vec![Act::Tail(tail)]));
    plans.extend([4096, 4097].map(|count| vec![Act::Many(count), Act::Sign(0, 0)]));
    plans.push(vec![Act::Again]);
    let mut cases = Vec::new();
    for plan in plans {
        for end in [&[][..], &[Act::Entry(0, 0), Act::Sign(0, 0)]] {
            cases.push(Case {
                acts: [&plan, end].concat(),
                changes: Vec::new(),
                pinned: 0,
            });
        }
    }
    cases
}

#[test]
fn b2_both_verifiers_give_each_forgery_the_same_verdict() {
    let seen = check(each().into_iter());
    for code in [0, 13, 30, 31, 34, 40] {
        assert!(seen.get(&code).is_some_and(|count| *count > 1), "{seen:?}");
    }
}

#[test]
fn b2_b25_both_verifiers_judge_random_forgeries_and_changes_alike() {
    let seen =
        check((1..=150).map(|seed: u64| Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)).case()));
    for code in [0, 13, 30, 31, 34, 35, 40] {
        assert!(seen.contains_key(&code), "{seen:?}");
    }
}

#[test]
fn b2_b25_both_verifiers_agree_for_minutes() {
    if std::env::var_os("COUNTERSIGN_LONG").is_none() {
        return;
    }
    let (start, now) = (Instant::now(), std::time::SystemTime::now());
    let seed = now
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(1, |time| time.as_secs());
    let cases = (1..).map(|n: u64| Dice((seed + n).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1).case());
    let seen = check(cases.take_while(|_| start.elapsed() < Duration::from_secs(300)));
    println!(
        "seed {seed}: {} books, by verdict {seen:?}",
        seen.values().sum::<u64>()
    );
}
