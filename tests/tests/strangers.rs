//! A book of the real binary before people who have none of our code: Go's note and tree packages, openssl, pymerkle, Python and
//! Node. Each accepts it, and refuses what was changed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use countersign_book::{
    Actor, Call, CallId, CompactRange, Draft, Effect, Hash, NewBook, Origin, Outcome, ProofBuilder,
    Signer, Sources, Status, VaultKey, Writer, WriterOptions, create, leaf_hash,
};
use countersign_tests::binary::{root, tests_file};
use countersign_tests::hostile::Hostile;
use countersign_tests::peers;
use countersign_tests::world::World;
use serde_json::json;

/// Who checks a whole book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stranger {
    /// Signatures, trees, places, consistency: `golang.org/x/mod/sumdb`.
    Go,
    /// The verifier beside FORMAT.md: Python's standard library and openssl.
    Python,
    /// Trees only.
    Pymerkle,
    /// Signatures only.
    Openssl,
}

use Stranger::{Go, Openssl, Pymerkle, Python};

const ALL: [Stranger; 4] = [Go, Python, Pymerkle, Openssl];

/// The Go program, built once.
fn go() -> &'static Path {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, program) = BUILT.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let program = dir.path().join("verify");
        let built = Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg(tests_file("strangers/verify.go"))
            .env("GO111MODULE", "off")
            .env("GOPATH", "/usr/share/gocode")
            .env("GOFLAGS", "")
            .output()
            .expect("go starts: `bash tests/run install` installs it");
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
        (dir, program)
    });
    program
}

/// What a program says; what it says where it refuses.
fn said(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        assert!(output.status.code().is_some(), "it crashed: {output:?}");
        Err(format!("{} {}", text(&output.stdout), text(&output.stderr)))
    }
}

impl Stranger {
    fn verify(self, book: &Path, vkey: &str) -> Result<String, String> {
        let strangers = |file: &str| tests_file(&format!("strangers/{file}"));
        said(&mut match self {
            Self::Go => {
                let mut command = Command::new(go());
                command.arg("book").arg(book).arg(vkey);
                command
            }
            Self::Python => {
                let mut command = Command::new("python3");
                command
                    .arg(root().join("proxy/book/verify.py"))
                    .arg(book)
                    .arg(vkey);
                command
            }
            Self::Pymerkle => {
                let mut command = Command::new(peers::python_strangers("python"));
                command.arg(strangers("roots.py")).arg(book);
                command
            }
            Self::Openssl => {
                let mut command = Command::new("bash");
                command.arg(strangers("signatures.sh")).arg(book).arg(vkey);
                command
            }
        })
    }
}

/// A world whose book holds real calls.
fn called(calls: usize) -> World {
    let world = World::new();
    let hostile = Hostile::new(&world, "s", &json!({}));
    world.server("s", &hostile.command);
    world.agent("a");
    world.unlimited();
    let mut client = world.connect();
    for _ in 0..3 {
        client.call("constant", &json!({}));
    }
    let asked: Vec<_> = (3..calls)
        .map(|_| client.ask_call("constant", &json!({})))
        .collect();
    for id in &asked {
        client.answer(id);
    }
    assert!(client.close().success());
    world
}

fn vkey(book: &Path) -> String {
    let text = std::fs::read_to_string(book.join("BOOK")).expect("BOOK");
    let line = text.lines().find_map(|line| line.strip_prefix("vkey: "));
    line.expect("a vkey").to_owned()
}

/// A copy of what a verifier reads.
fn copy(book: &Path, to: &Path) {
    for folder in ["journal", "vault"] {
        let _ = std::fs::remove_dir_all(to.join(folder));
        std::fs::create_dir_all(to.join(folder)).expect("made");
        for entry in std::fs::read_dir(book.join(folder))
            .into_iter()
            .flatten()
            .flatten()
        {
            std::fs::copy(entry.path(), to.join(folder).join(entry.file_name())).expect("copied");
        }
    }
    std::fs::copy(book.join("BOOK"), to.join("BOOK")).expect("copied");
}

fn is_entry(line: &str) -> bool {
    line.starts_with('{')
}

/// The lines' positions of the entries that are not the first of the book.
fn entries(lines: &[String]) -> Vec<usize> {
    (0..lines.len())
        .filter(|at| is_entry(&lines[*at]))
        .skip(1)
        .collect()
}

fn checkpoints(lines: &[String]) -> Vec<usize> {
    (0..lines.len())
        .filter(|at| lines[*at].starts_with("#cp "))
        .collect()
}

/// Decodes a checkpoint, changes its text and encodes it again.
fn edit_note(line: &mut String, edit: impl FnOnce(&str) -> String) {
    let note = base64(&["-d"], line.trim_start_matches("#cp "));
    let edited = edit(&note);
    assert_ne!(edited, note, "something was changed");
    *line = format!("#cp {}", base64(&["-w0"], &edited));
}

fn base64(arguments: &[&str], input: &str) -> String {
    use std::io::Write as _;
    let mut child = Command::new("base64")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("base64 starts");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(input.as_bytes())
        .expect("written");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8(output.stdout)
        .expect("text")
        .trim_end_matches('\0')
        .to_owned()
}

fn flip(text: &mut String, at: usize) {
    let mut bytes = std::mem::take(text).into_bytes();
    bytes[at] ^= 1;
    *text = String::from_utf8(bytes).expect("still text");
}

type Mutate = fn(&mut Vec<String>);

/// What is done to the lines of a journal, and who sees that it was.
const MUTATIONS: [(&str, Mutate, &[Stranger]); 16] = [
    (
        "a byte of an entry",
        |lines| {
            let at = entries(lines)[2];
            let place = lines[at].find("\"ts\":\"2").expect("a time") + 7;
            flip(&mut lines[at], place);
        },
        &[Go, Python, Pymerkle],
    ),
    (
        "a byte of the last entry",
        |lines| {
            let at = *entries(lines).last().expect("one");
            let place = lines[at].find("\"ts\":\"2").expect("a time") + 7;
            flip(&mut lines[at], place);
        },
        &[Go, Python, Pymerkle],
    ),
    (
        "a space in an entry",
        |lines| {
            let at = entries(lines)[1];
            lines[at] = lines[at].replacen(':', ": ", 1);
        },
        &[Go, Python, Pymerkle],
    ),
    (
        "entries swapped",
        |lines| {
            let (one, other) = (entries(lines)[1], entries(lines)[2]);
            lines.swap(one, other);
        },
        &[Go, Python, Pymerkle],
    ),
    (
        "an entry removed",
        |lines| drop(lines.remove(entries(lines)[3])),
        &[Go, Python, Pymerkle],
    ),
    (
        "an entry inserted",
        |lines| {
            let at = entries(lines)[3];
            let line = lines[at].clone();
            lines.insert(at, line);
        },
        &[Go, Python, Pymerkle],
    ),
    (
        "a batch removed with its checkpoint",
        |lines| {
            let cps = checkpoints(lines);
            lines.drain(cps[1] + 1..=cps[2]);
        },
        &[Go, Python, Pymerkle],
    ),
    (
        "an unsigned entry at the end",
        |lines| {
            let line = lines[entries(lines)[1]].clone();
            lines.push(line);
        },
        &[Go, Python, Pymerkle],
    ),
    (
        "the last checkpoint removed",
        |lines| drop(lines.pop()),
        &[Go, Python, Pymerkle],
    ),
    (
        "the last line cut inside",
        |lines| {
            let last = lines.last_mut().expect("one");
            last.truncate(last.len() - 21);
        },
        &[Go, Python, Pymerkle, Openssl],
    ),
    (
        "the root in a checkpoint",
        |lines| {
            let at = checkpoints(lines)[1];
            edit_note(&mut lines[at], |note| {
                let root = note.split('\n').nth(2).expect("a root");
                let first = if root.starts_with('A') { "B" } else { "A" };
                note.replacen(root, &format!("{first}{}", &root[1..]), 1)
            });
        },
        &[Go, Python, Pymerkle, Openssl],
    ),
    (
        "the size in a checkpoint",
        |lines| {
            let at = checkpoints(lines)[1];
            edit_note(&mut lines[at], |note| {
                let size = note.split('\n').nth(1).expect("a size");
                note.replacen(&format!("\n{size}\n"), &format!("\n{size}0\n"), 1)
            });
        },
        &[Go, Python, Pymerkle, Openssl],
    ),
    (
        "the signature of a checkpoint",
        |lines| {
            let at = checkpoints(lines)[1];
            edit_note(&mut lines[at], |note| {
                let place = note.trim_end().len() - 20;
                let other = if &note[place..=place] == "A" {
                    "B"
                } else {
                    "A"
                };
                format!("{}{other}{}", &note[..place], &note[place + 1..])
            });
        },
        &[Go, Python, Openssl],
    ),
    (
        "an extension line in a checkpoint",
        |lines| {
            let at = checkpoints(lines)[1];
            edit_note(&mut lines[at], |note| {
                note.replacen("\n\n", "\nextension\n\n", 1)
            });
        },
        &[Go, Python, Pymerkle, Openssl],
    ),
    (
        "another origin in a checkpoint",
        |lines| {
            let at = checkpoints(lines)[1];
            edit_note(&mut lines[at], |note| note.replacen("/book/", "/look/", 1));
        },
        &[Go, Python, Openssl],
    ),
    (
        "a checkpoint in the place of another",
        |lines| {
            let cps = checkpoints(lines);
            lines[cps[2]] = lines[cps[1]].clone();
        },
        &[Go, Python, Pymerkle],
    ),
];

#[test]
fn b2_b3_strangers_accept_a_book_of_real_calls_and_refuse_mutated_ones() {
    let world = called(40);
    let book = world.dir().join("book");
    let key = vkey(&book);
    let size = world.journal().len();
    for stranger in ALL {
        let words = stranger
            .verify(&book, &key)
            .unwrap_or_else(|why| panic!("{stranger:?}: {why}"));
        if stranger != Openssl {
            assert!(words.contains(&size.to_string()), "{stranger:?}: {words}");
        }
    }
    let copied = world.path("copied");
    for (name, mutate, seen_by) in MUTATIONS {
        copy(&book, &copied);
        let journal = copied.join("journal/00000000000000000000.jsonl");
        let text = std::fs::read_to_string(&journal).expect("a journal");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        mutate(&mut lines);
        std::fs::write(&journal, lines.join("\n") + "\n").expect("written");
        for stranger in seen_by {
            let answer = stranger.verify(&copied, &key);
            assert!(answer.is_err(), "{stranger:?} accepts: {name}: {answer:?}");
        }
    }
    copy(&book, &copied);
    let journal = copied.join("journal/00000000000000000000.jsonl");
    let whole = std::fs::read(&journal).expect("a journal");
    std::fs::write(&journal, &whole[..whole.len() - 1]).expect("written");
    for stranger in [Go, Python, Pymerkle] {
        assert!(
            stranger.verify(&copied, &key).is_err(),
            "{stranger:?} accepts a last line that does not end"
        );
    }
    copy(&book, &copied);
    let origin = Origin::parse(key.split('+').next().expect("a name")).expect("an origin");
    let other = Signer::from_seed([9; 32]).vkey(&origin).to_string();
    for stranger in [Go, Python, Openssl] {
        assert!(
            stranger.verify(&copied, &other).is_err(),
            "{stranger:?} accepts another key"
        );
        stranger
            .verify(&copied, &key)
            .expect("the copy itself is whole");
    }
}

#[test]
fn a_removed_segment_is_refused_by_strangers() {
    let golden = root().join("proxy/book/testdata/book");
    let copied = tempfile::tempdir().expect("a temporary folder");
    for stranger in ALL {
        stranger
            .verify(&golden, &vkey(&golden))
            .unwrap_or_else(|why| panic!("{stranger:?}: {why}"));
    }
    copy(&golden, copied.path());
    std::fs::remove_file(copied.path().join("journal/00000000000000000000.jsonl"))
        .expect("removed");
    for stranger in [Go, Python, Pymerkle] {
        assert!(
            stranger.verify(copied.path(), &vkey(&golden)).is_err(),
            "{stranger:?}"
        );
    }
}

#[test]
fn b1_b56_go_and_others_check_the_proof_of_one_entry() {
    let world = called(100);
    let key = vkey(&world.dir().join("book"));
    let size = world.journal().len();
    for index in [0, 1, size / 2, size - 1] {
        let (proof, line) = (
            world.text_path(&format!("{index}.tlog-proof")),
            world.text_path(&format!("{index}.json")),
        );
        let index = index.to_string();
        let data = world.json(&["book", "proof", &index, "--out", &proof]);
        assert_eq!(data["vkey"], key.as_str());
        let check = |line: &str| said(Command::new(go()).args(["proof", &key, &proof, line]));
        assert_eq!(
            check(&line).expect("proven"),
            format!("entry {index} of {size}")
        );
        // Written once, never over something.
        assert!(
            world
                .fails(&["book", "proof", &index, "--out", &proof])
                .all()
                .contains("exists already")
        );
        let entry = std::fs::read_to_string(&line).expect("a line");
        assert!(!entry.ends_with('\n') && entry == data["line"].as_str().expect("a line"));
        std::fs::write(&line, entry.replacen("\"v\":1", "\"v\":2", 1)).expect("written");
        assert!(check(&line).is_err(), "another entry");
        std::fs::write(&line, &entry).expect("written");
        let text = std::fs::read_to_string(&proof).expect("a proof");
        std::fs::write(&proof, text.replacen("index ", "index 1", 1)).expect("written");
        assert!(check(&line).is_err(), "another index");
        let shown = world.must(&["book", "show", &index]);
        assert!(
            shown.contains(&format!("checked: in the signed tree of {size} entries")),
            "{shown}"
        );
    }
    let said = world.fails(&["book", "proof", "99999"]);
    assert!(said.all().contains("no signed entry 99999"), "{said:?}");
}

/// Serves a folder on loopback with Python's plain static server.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn new(folder: &Path) -> Self {
        let mut child = Command::new("python3")
            .args([
                "-u",
                "-m",
                "http.server",
                "0",
                "--bind",
                "127.0.0.1",
                "--directory",
            ])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("it says where it listens");
        let mut words = line.split_whitespace().skip_while(|word| *word != "port");
        let port = words
            .nth(1)
            .unwrap_or_else(|| panic!("no port in {line:?}"));
        Self {
            url: format!("http://127.0.0.1:{port}"),
            child,
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn b5_a_plain_static_server_makes_the_derived_log_a_tiled_log() {
    let world = called(320);
    let (book, tlog) = (world.dir().join("book"), world.dir().join("book/tlog"));
    let key = vkey(&book);
    world.must(&["book", "tlog"]);
    assert_eq!(world.cs(&["book", "tlog", "--check"]).code, 0);
    let served = Served::new(&tlog);
    let check = || {
        said(
            Command::new("python3")
                .arg(tests_file("strangers/tiles.py"))
                .args([&served.url, &key]),
        )
    };
    let size = world.journal().len();
    assert!(size > 600, "more than two full tiles: {size}");
    assert_eq!(
        check().expect("a tiled log"),
        format!("{size} entries, 2 levels")
    );
    let changed = |name: &str, edit: fn(&mut Vec<u8>)| {
        let path = tlog.join(name);
        let whole = std::fs::read(&path).expect("a tile");
        let mut bytes = whole.clone();
        edit(&mut bytes);
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, bytes).expect("written");
        assert!(check().is_err(), "{name}");
        let said = world.cs(&["book", "tlog", "--check"]);
        assert_eq!(said.code, 20, "{name}: {said:?}");
        assert!(said.stdout.contains(name), "{name}: {said:?}");
        // The command keeps what differs and makes it anew, bit for bit.
        let told = world.must(&["book", "tlog"]);
        assert!(told.contains("what was there is kept as"), "{told}");
        assert_eq!(std::fs::read(&path).expect("a tile"), whole, "{name}");
        check().expect("as it was");
    };
    changed("tile/0/000", |bytes| bytes[40] ^= 1);
    changed("tile/entries/001", |bytes| bytes[40] ^= 1);
    changed("checkpoint", |bytes| {
        let place = bytes.len() - 10;
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
    });
    std::fs::remove_dir_all(&tlog).expect("removed");
    assert_eq!(world.cs(&["book", "tlog", "--check"]).code, 20);
    world.must(&["book", "tlog"]);
    check().expect("made anew");
    // More calls: a running executor brings it up to date by itself.
    let mut client = world.connect();
    client.call("constant", &json!({}));
    assert!(client.close().success());
    if world.cs(&["book", "tlog", "--check"]).code == 11 {
        world.must(&["book", "tlog"]);
    }
    check().expect("grown");
}

#[test]
fn b6_inclusion_and_consistency_equal_gos() {
    let mut text = String::new();
    let leaves: Vec<Hash> = (0..70_000u64)
        .map(|n| leaf_hash(&n.to_be_bytes()))
        .collect();
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut write = |kind: &str, a: u64, n: u64, mut builder: ProofBuilder| {
        leaves[..n as usize]
            .iter()
            .for_each(|leaf| builder.push(*leaf));
        text.push_str(&format!("{kind} {a} {n}"));
        for hash in builder.finish().expect("a proof") {
            text.push(' ');
            text.push_str(hash.to_string().trim_start_matches("sha256:"));
        }
        text.push('\n');
    };
    let mut sizes: Vec<u64> = (1..=600).collect();
    sizes.extend((0..12).map(|_| 601 + random(69_399)));
    sizes.sort_unstable();
    let mut count = 0;
    for n in sizes {
        for index in [0, n / 2, n - 1, random(n)] {
            write(
                "inclusion",
                index,
                n,
                ProofBuilder::inclusion(index, n).expect("in the tree"),
            );
            write(
                "consistency",
                index + 1,
                n,
                ProofBuilder::consistency(index + 1, n).expect("a size"),
            );
            count += 2;
        }
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("proofs");
    std::fs::write(&file, text).expect("written");
    let answer = said(Command::new(go()).arg("equal").arg(&file)).expect("equal");
    assert_eq!(answer, format!("{count} proofs"));
    assert_eq!(CompactRange::default().size(), 0);
}

/// Text with characters of every length in UTF-8, escapes, and pairs of surrogates.
fn odd(random: &mut impl FnMut(u64) -> u64) -> String {
    const ODD: [char; 16] = [
        'a',
        'Z',
        '"',
        '\\',
        '/',
        '\n',
        '\u{8}',
        '\u{1f}',
        '\u{7f}',
        'é',
        '\u{2028}',
        '\u{e000}',
        '\u{ffff}',
        '😀',
        '\u{10ffff}',
        '\u{1d11e}',
    ];
    (0..random(12)).map(|_| ODD[random(16) as usize]).collect()
}

#[test]
fn b8_a_hundred_thousand_entries_are_spelled_as_python_and_node_spell_them() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let book = dir.path().join("book");
    let mut state = 7u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let sources = || Sources {
        clock: Box::new(|| "2026-11-30T17:00:00.123Z".parse().expect("a time")),
        entropy: Box::new(|bytes| {
            bytes.fill(7);
            Ok(())
        }),
    };
    let new = NewBook {
        origin: Origin::from_id([5; 16]),
        development: true,
        name: Some("\u{10ffff}\u{e000}".into()),
        program: None,
        process: "p".into(),
    };
    let signer = || Signer::from_seed([1; 32]);
    create(&book, &new, &signer(), &mut sources()).expect("made");
    let options = WriterOptions::new("p");
    let mut writer = Writer::open(
        &book,
        signer(),
        VaultKey::from_bytes([2; 32]),
        sources(),
        options,
    )
    .expect("opened");
    let mut left = 100_000u64;
    while left > 0 {
        let batch = left.min(1000);
        let drafts = (0..batch)
            .map(|n| {
                let call =
                    CallId::parse(&format!("01ARZ3NDEKTSV{:013}", (left - n) / 2)).expect("an id");
                if n % 2 == 1 {
                    return Draft::new(Outcome {
                        code: Some(odd(&mut random)),
                        why: Some(odd(&mut random)),
                        ..Outcome::new(call, Status::Error)
                    });
                }
                Draft::new(Call {
                    actor: Actor::Agent,
                    agent: Some(odd(&mut random)),
                    approval: None,
                    args: None,
                    call,
                    client: Some(odd(&mut random)),
                    confirmation: None,
                    def: None,
                    effect: Effect::Read,
                    key: None,
                    permission: None,
                    process: "p".into(),
                    purpose: Some(odd(&mut random)),
                    request: Some(odd(&mut random)),
                    rows: Some(countersign_book::Count(random(1 << 31) << random(33))),
                    sent: None,
                    server: odd(&mut random),
                    session: None,
                    turn: None,
                    tool: odd(&mut random),
                    via: odd(&mut random),
                })
            })
            .collect();
        writer.commit(drafts).expect("written");
        left -= batch;
    }
    let mut journals: Vec<PathBuf> = std::fs::read_dir(book.join("journal"))
        .expect("a journal")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    journals.sort();
    assert!(journals.len() > 1);
    let strangers = |file: &str| tests_file(&format!("strangers/{file}"));
    for (program, script) in [
        (peers::python_strangers("python"), strangers("canonical.py")),
        (peers::node(), strangers("canonical.mjs")),
    ] {
        let answer = said(Command::new(program).arg(&script).args(&journals));
        assert_eq!(answer.as_deref(), Ok("100001"), "{}", script.display());
    }
    for stranger in [Go, Python, Pymerkle] {
        stranger
            .verify(&book, &vkey(&book))
            .unwrap_or_else(|why| panic!("{stranger:?}: {why}"));
    }
}
