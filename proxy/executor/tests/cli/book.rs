//! The states of the book as a person meets them: `book status`, `doctor` and the refusals; folders that can't keep a promise; books
//! that somebody prepared.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use countersign::folder::Folder;
use countersign::secrets::{Account, FileStore, Passphrase, Secret, SecretStore};
use countersign_book::{Draft, Hash, Settings, Signer, Sources, VaultKey, Writer, WriterOptions};

use crate::World;

/// A bound on what must end, never a measurement.
const PATIENCE: Duration = Duration::from_secs(120);

fn store(world: &World) -> FileStore {
    let folder = Folder::resolve(Some(&world.dir())).unwrap();
    FileStore::open(&folder, Passphrase::new(b"correct horse".to_vec()).unwrap()).unwrap()
}

/// Adds entries to the world's book in small segments, and remembers the head.
fn grow(world: &World, texts: &[&str]) {
    let store = store(world);
    let key = |account| *store.get(&account).unwrap().unwrap().key().unwrap();
    let sources = Sources {
        clock: Box::new(jiff::Timestamp::now),
        entropy: Box::new(|bytes| {
            bytes.fill(7);
            Ok(())
        }),
    };
    let options = WriterOptions {
        segment_bytes: 1200,
        ..WriterOptions::new("test")
    };
    let mut writer = Writer::open(
        &world.dir().join("book"),
        Signer::from_seed(key(Account::book_signing())),
        VaultKey::from_bytes(key(Account::book_vault())),
        sources,
        options,
    )
    .unwrap();
    for text in texts {
        let entry = Settings {
            by: (*text).to_owned(),
            hash: Hash([0; 32]),
        };
        writer.commit(vec![Draft::new(entry)]).unwrap();
    }
    let folder = Folder::resolve(Some(&world.dir())).unwrap();
    assert!(countersign::pin::raise(&folder, &store, &writer.head()).unwrap());
}

/// An executor whose book has several segments, with an agent and a server.
fn grown() -> World {
    let world = World::new();
    for line in [
        "init --development --secrets file --json",
        "server add here --json -- sh",
        "agent add bar --json",
    ] {
        let answer = world.json(line);
        assert!(answer.get("error").is_none(), "{line}: {answer}");
    }
    grow(&world, &["x"; 30]);
    world
}

fn segments(world: &World) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.dir().join("book/journal")).unwrap();
    let mut all: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// Every plain file below `dir` with its bytes.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap();
        if kind.is_dir() {
            all.extend(files(&path));
        } else if kind.is_file() && kind.len() < 1 << 20 {
            all.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

struct State {
    name: &'static str,
    exit: i32,
    harm: fn(&World),
    words: &'static str,
}

const STATES: &[State] = &[
    State {
        name: "OK",
        exit: 0,
        harm: |_| {},
        words: "31 entries",
    },
    State {
        name: "UNSIGNED_TAIL",
        exit: 13,
        harm: |world| {
            let last = segments(world).pop().unwrap();
            let bytes = [fs::read(&last).unwrap(), b"{\"i\":31}\nx".to_vec()].concat();
            fs::write(last, bytes).unwrap();
        },
        words: "10 bytes with 1 whole lines",
    },
    State {
        name: "DAMAGED",
        exit: 31,
        harm: |world| {
            let last = segments(world).pop().unwrap();
            let mut bytes = fs::read(&last).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(last, bytes).unwrap();
        },
        words: "book verify",
    },
    State {
        name: "ROLLED_BACK",
        exit: 32,
        harm: |world| fs::remove_file(segments(world).pop().unwrap()).unwrap(),
        words: "remembers 31 entries",
    },
    State {
        name: "REMOVED",
        exit: 31,
        harm: |world| fs::remove_file(&segments(world)[2]).unwrap(),
        words: "were removed from the book",
    },
    State {
        name: "KEY_MISSING",
        exit: 40,
        harm: |world| {
            assert!(store(world).remove(&Account::book_signing()).unwrap());
        },
        words: "no new key was made",
    },
    State {
        name: "WRONG_KEY",
        exit: 35,
        harm: |world| {
            let other = Secret::new(vec![9; 32]);
            store(world).set(&Account::book_signing(), &other).unwrap();
        },
        words: "the signing key is not this book's",
    },
    State {
        name: "GONE",
        exit: 31,
        harm: |world| fs::remove_dir_all(world.dir().join("book")).unwrap(),
        words: "no new book was made",
    },
    State {
        name: "NEWER",
        exit: 40,
        harm: |world| {
            let path = world.dir().join("book/BOOK");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replacen("book 1", "book 2", 1)).unwrap();
        },
        words: "newer version",
    },
    State {
        name: "UNREADABLE",
        exit: 2,
        harm: |world| {
            let last = segments(world).pop().unwrap();
            fs::remove_file(&last).unwrap();
            fs::create_dir(&last).unwrap();
        },
        words: "not a regular file",
    },
];

#[test]
fn every_state_is_told_with_what_it_means_and_what_to_do_and_nothing_is_written() {
    for State {
        name,
        exit,
        harm,
        words,
    } in STATES
    {
        let world = grown();
        harm(&world);
        let before = files(&world.dir());
        let told = world.run("book status");
        let text = String::from_utf8(told.stdout).unwrap();
        assert_eq!(told.status.code(), Some(*exit), "{name}: {text}");
        assert!(text.starts_with(&format!("{name}: ")), "{name}: {text}");
        let data = world.json("book status --json");
        assert_eq!(data["state"], *name, "{data:#}");
        assert_eq!(data["exit"], *exit, "{data:#}");
        let all = format!("{text}{data}");
        assert!(all.contains(words), "{name}: `{words}` in {text}");
        let doctor = world.json("doctor --json");
        let check = doctor["checks"]
            .as_array()
            .unwrap()
            .iter()
            .find(|check| check["name"] == "book")
            .unwrap();
        if *name == "OK" {
            assert_eq!(check["level"], "ok", "{check}");
        } else {
            assert!(text.contains("not changed: ") && text.contains("what to do: "));
            assert_eq!(check["remedy"], data["findings"][0]["remedy"], "{name}");
            assert!(check["what"].as_str().unwrap().starts_with(name), "{check}");
        }
        // The stores beside the book may be opened; the book and the secrets are as they were.
        let after = files(&world.dir());
        let kept = |all: &[(PathBuf, Vec<u8>)]| -> Vec<_> {
            all.iter()
                .filter(|(path, _)| !path.to_string_lossy().contains(".db"))
                .filter(|(path, _)| !path.starts_with(world.dir().join("run")))
                .cloned()
                .collect()
        };
        assert_eq!(kept(&after), kept(&before), "{name}");
    }
}

#[test]
fn b54_a_book_nothing_remembers_is_not_called_fine_in_silence() {
    let world = grown();
    assert!(store(&world).remove(&Account::book_pin()).unwrap());
    let status = String::from_utf8(world.run("book status").stdout).unwrap();
    assert!(
        status.contains("nothing remembers how long the book was"),
        "{status}"
    );
    let doctor = world.json("doctor --json").to_string();
    assert!(
        doctor.contains("nothing remembers how long the book was"),
        "{doctor}"
    );
    let verified = String::from_utf8(world.run("book verify").stdout).unwrap();
    assert!(verified.contains("nothing remembers"), "{verified}");
    let elsewhere = format!("book verify {}", world.dir().join("book").display());
    let verified = String::from_utf8(world.run(&elsewhere).stdout).unwrap();
    assert!(verified.contains("no independent reference"), "{verified}");
}

#[test]
fn b29_no_command_makes_a_key_for_a_book_whose_key_is_missing() {
    let world = grown();
    assert!(store(&world).remove(&Account::book_signing()).unwrap());
    let accounts = store(&world).list().unwrap();
    let secrets = fs::read(world.dir().join("secrets.enc")).unwrap();
    let book = files(&world.dir().join("book"));
    for (line, refused) in [
        ("book status", true),
        ("doctor", true),
        ("book verify", false),
        ("book list", false),
        ("book show 3", false),
        ("init --development --secrets file", true),
        ("run --agent bar --server here", false),
    ] {
        let output = world.run(line);
        assert!(!refused || !output.status.success(), "{line}");
        assert_eq!(store(&world).list().unwrap(), accounts, "{line}");
        assert_eq!(
            fs::read(world.dir().join("secrets.enc")).unwrap(),
            secrets,
            "{line}"
        );
        assert_eq!(files(&world.dir().join("book")), book, "{line}");
    }
}

#[test]
fn b19_a_synchronised_folder_is_refused_without_the_flag() {
    let world = World::new();
    let dir = world.root().join("Dropbox/executor");
    let line = |words: &str| format!("{words} --dir {} --json", dir.display());
    let refused = world.json(&line("init --development --secrets file"));
    assert_eq!(refused["error"]["code"], "book_place", "{refused}");
    let remedy = refused["error"]["remedy"].as_str().unwrap();
    assert!(remedy.contains("--allow-network-folder"), "{remedy}");
    assert!(!dir.exists());
    let made = world.json(&line(
        "init --development --secrets file --allow-network-folder",
    ));
    assert!(made.get("error").is_none(), "{made}");
    let settings = fs::read_to_string(dir.join("executor.json")).unwrap();
    assert!(
        settings.contains("\"allow_network_folder\": true"),
        "{settings}"
    );
    let status = world.json(&line("book status"));
    assert_eq!(
        (&status["state"], &status["allow_network_folder"]),
        (&"OK".into(), &true.into())
    );
    assert!(
        status["place"].as_str().unwrap().contains("Dropbox"),
        "{status}"
    );
    let doctor = world.json(&line("doctor"));
    assert_eq!(doctor["wrong"], 0, "{doctor:#}");
    assert!(doctor.to_string().contains("synchronised by Dropbox"));
}

/// A real file system in user space, where the system has one to offer.
#[cfg(target_os = "linux")]
#[test]
fn b19_a_fuse_mount_is_refused_without_the_flag() {
    let world = World::new();
    let (behind, mount) = (world.root().join("behind"), world.root().join("mount"));
    fs::create_dir(&behind).unwrap();
    fs::create_dir(&mount).unwrap();
    let mounted = Command::new("bindfs").arg(&behind).arg(&mount).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        eprintln!("no FUSE here; b19 is held by the injected answers");
        return;
    }
    let dir = mount.join("executor");
    let line = |words: &str| format!("{words} --dir {} --json", dir.display());
    let refused = world.json(&line("init --development --secrets file"));
    let made = world.json(&line(
        "init --development --secrets file --allow-network-folder",
    ));
    let doctor = world.json(&line("doctor")).to_string();
    let ended = Command::new("fusermount3").arg("-u").arg(&mount).status();
    assert!(ended.unwrap().success());
    assert_eq!(refused["error"]["code"], "book_place", "{refused}");
    assert!(refused.to_string().contains("(FUSE)"), "{refused}");
    assert!(made.get("error").is_none(), "{made}");
    assert!(doctor.contains("(FUSE)"), "{doctor}");
}

struct Hostile {
    name: &'static str,
    harm: fn(&World),
}

const HOSTILE: &[Hostile] = &[
    Hostile {
        name: "text that steers a terminal, in signed entries",
        harm: |world| {
            grow(
                world,
                &["\u{202e}gnp.exe\u{1b}[2J\u{1b}]0;x\u{7}\r\u{9b}31m\u{200b}\u{feff}\u{e0041}"],
            );
        },
    },
    Hostile {
        name: "a huge line",
        harm: |world| append(world, &vec![b'x'; 80 << 20]),
    },
    Hostile {
        name: "many lines that look like checkpoints",
        harm: |world| append(world, &b"#cp AAAA\n".repeat(1 << 20)),
    },
    Hostile {
        name: "deep nesting",
        harm: |world| {
            let deep = [b"{\"a\":".repeat(200_000), b"1\n".to_vec()].concat();
            append(world, &deep);
        },
    },
    Hostile {
        name: "control text after the last checkpoint",
        harm: |world| append(world, "\u{1b}[2J\u{202e}\n".as_bytes()),
    },
    Hostile {
        name: "an absurd size",
        harm: |world| {
            let file = fs::File::options()
                .write(true)
                .open(segments(world).pop().unwrap())
                .unwrap();
            file.set_len(1 << 40).unwrap();
        },
    },
    Hostile {
        name: "a directory in place of a segment",
        harm: |world| {
            let path = segments(world).remove(1);
            fs::remove_file(&path).unwrap();
            fs::create_dir(path).unwrap();
        },
    },
    #[cfg(unix)]
    Hostile {
        name: "a pipe in place of the last segment",
        harm: |world| pipe(&segments(world).pop().unwrap()),
    },
    #[cfg(unix)]
    Hostile {
        name: "a pipe in place of the lock",
        harm: |world| pipe(&world.dir().join("book/LOCK")),
    },
    #[cfg(unix)]
    Hostile {
        name: "a pipe in place of BOOK",
        harm: |world| pipe(&world.dir().join("book/BOOK")),
    },
    #[cfg(unix)]
    Hostile {
        name: "a link to a device in place of a segment",
        harm: |world| {
            let path = segments(world).remove(0);
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink("/dev/zero", path).unwrap();
        },
    },
    Hostile {
        name: "a first line of another kind",
        harm: |world| {
            let path = segments(world).pop().unwrap();
            fs::write(path, "#seg {\"v\":1,\"origin\":\"\u{202e}\u{1b}[2J\"}\n").unwrap();
        },
    },
    Hostile {
        name: "names that are no segments",
        harm: |world| {
            for name in [
                "\u{202e}x.jsonl",
                "99999999999999999999.jsonl",
                "x\u{1b}[2J",
            ] {
                fs::write(world.dir().join("book/journal").join(name), "x").unwrap();
            }
        },
    },
];

fn append(world: &World, bytes: &[u8]) {
    let last = segments(world).pop().unwrap();
    let whole = [&fs::read(&last).unwrap()[..], bytes].concat();
    fs::write(last, whole).unwrap();
}

#[cfg(unix)]
fn pipe(path: &Path) {
    fs::remove_file(path).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn b55_hostile_books_cost_bounded_time_and_memory_and_print_neutral_text() {
    for Hostile { name, harm } in HOSTILE {
        let world = grown();
        harm(&world);
        for line in [
            "book status",
            "book status --json",
            "book verify",
            "book verify --json",
            "book list",
            "book list --json",
            "book show 30",
            "book show 31",
            "doctor",
        ] {
            let output = bounded(&world, line, name);
            assert!(output.status.code().is_some(), "{name}: {line} was ended");
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8(said).unwrap();
            assert!(
                !said.is_empty() && !said.contains("panicked"),
                "{name}: {line}: {said}"
            );
            let steering = said.chars().find(|c| {
                (c.is_control() && *c != '\n')
                    || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
            });
            assert_eq!(steering, None, "{name}: {line}: {said:?}");
        }
    }
}

/// Files an executor or a command opens beside its record.
#[cfg(unix)]
const OPENED: &[&str] = &[
    "logs/here.log",
    "logs/executor.log",
    "run/settings.sha256",
    "run/1-aaaa.lock",
    "run/pin.lock",
    "run/keys.lock",
    "run/tlog.lock",
    "state.db-journal",
    "state.db-wal",
    "buckets.db",
    "index.db",
    "era.json",
    "book/LOCK",
    "book/removal.pending",
    "book/quarantine/pending",
    "book/tlog/checkpoint",
    "book/tlog/checkpoint.tmp",
    "book/vault/00000000000000000000.seg",
];

#[test]
#[cfg(unix)]
fn b55_a_pipe_in_the_place_of_a_file_holds_nobody_up() {
    for name in OPENED {
        let world = grown();
        let path = world.dir().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        pipe(&path);
        for line in [
            "run here --agent bar",
            "book status",
            "book list",
            "book tlog",
            "book verify",
            "doctor",
        ] {
            let output = bounded(&world, line, name);
            assert!(output.status.code().is_some(), "{name}: {line} was ended");
        }
    }
}

#[test]
fn b54_nothing_is_published_of_a_book_that_is_not_well() {
    for (name, exit, harm) in STATES.iter().filter_map(|state| {
        matches!(state.name, "ROLLED_BACK" | "REMOVED" | "DAMAGED")
            .then_some((state.name, state.exit, state.harm))
    }) {
        let world = grown();
        assert!(world.run("book tlog").status.success());
        harm(&world);
        let before = files(&world.dir().join("book"));
        let told = world.run("book tlog");
        let text = String::from_utf8(told.stdout).unwrap();
        assert_eq!(told.status.code(), Some(exit), "{name}: {text}");
        assert!(
            text.starts_with(name) && text.contains("what to do: "),
            "{text}"
        );
        assert!(files(&world.dir().join("book")) == before, "{name}");
    }
}

/// Runs a command with a limit on its memory, and not for ever.
fn bounded(world: &World, line: &str, name: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_countersign");
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -v 1500000; exec \"$@\"", "sh", program])
        .args(line.split(' '))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", world.root())
        .env("COUNTERSIGN_DIR", world.dir())
        .env("COUNTERSIGN_PASSPHRASE_FILE", world.root().join("pw"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut reader = child.stdout.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let end = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("{name}: `{line}` does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut output = child.wait_with_output().unwrap();
    output.stdout = reading.join().unwrap();
    output
}
