//! `doctor` finds what is wrong, names it and says what to do; one broken part hides no other.

use std::fs;

use countersign::secrets::{Account, Secret, SecretStore};

use super::acts::store;
use crate::World;

/// What is broken, and what doctor then says of which check.
struct Case {
    name: &'static str,
    harm: fn(&World),
    check: &'static str,
    level: &'static str,
    words: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "nothing",
        harm: |_| {},
        check: "executor.json",
        level: "ok",
        words: "2 servers, 1 agents",
    },
    Case {
        name: "settings",
        harm: |world| fs::write(world.dir().join("executor.json"), "{\"version\":1}").unwrap(),
        check: "executor.json",
        level: "fail",
        words: "missing member `executor`",
    },
    Case {
        name: "newer settings",
        harm: |world| fs::write(world.dir().join("executor.json"), "{\"version\":2}").unwrap(),
        check: "executor.json",
        level: "fail",
        words: "a newer version of countersign",
    },
    Case {
        name: "state",
        harm: |world| fs::write(world.dir().join("state.db"), "x".repeat(4096)).unwrap(),
        check: "state.db",
        level: "fail",
        words: "is damaged",
    },
    Case {
        name: "no state",
        harm: |world| fs::remove_file(world.dir().join("state.db")).unwrap(),
        check: "state.db",
        level: "fail",
        words: "is missing",
    },
    Case {
        name: "passphrase",
        harm: |world| fs::write(world.root().join("pw"), "other").unwrap(),
        check: "secrets",
        level: "fail",
        words: "the passphrase does not fit",
    },
    Case {
        name: "a secret",
        harm: |world| drop(world.json("server set here --secret TOKEN --json")),
        check: "secrets",
        level: "fail",
        words: "`server/here/TOKEN` is missing",
    },
    Case {
        name: "a program",
        harm: |_| {},
        check: "servers",
        level: "fail",
        words: "`not-a-program-anybody-has`, which is not found",
    },
    Case {
        name: "the switch",
        harm: |world| drop(world.json("off --json")),
        check: "switch",
        level: "warn",
        words: "no agent can call anything",
    },
    Case {
        name: "a removal cut short",
        harm: |world| {
            let path = world.dir().join("book/removal.pending");
            fs::write(path, "countersign removal 1\n1\n").unwrap();
        },
        check: "book",
        level: "warn",
        words: "an erasure or a pruning was begun",
    },
    Case {
        name: "a removal nobody began",
        harm: |world| fs::write(world.dir().join("book/removal.pending"), "junk").unwrap(),
        check: "book",
        level: "fail",
        words: "it does not say which removal was begun",
    },
    Case {
        name: "a removal beyond the book",
        harm: |world| {
            let path = world.dir().join("book/removal.pending");
            fs::write(path, "countersign removal 1\n99999999\n").unwrap();
        },
        check: "book",
        level: "fail",
        words: "it does not say which removal was begun",
    },
    Case {
        name: "a lock that is a folder",
        harm: |world| {
            let path = world.dir().join("book/LOCK");
            let _ = fs::remove_file(&path);
            fs::create_dir(path).unwrap();
        },
        check: "book",
        level: "fail",
        words: "it is not a regular file",
    },
    Case {
        name: "bytes set aside and not recorded",
        harm: |world| {
            fs::write(world.dir().join("book/quarantine/pending"), "{\"v\"").unwrap();
        },
        check: "book",
        level: "warn",
        words: "bytes were set aside and are not on record yet",
    },
    Case {
        name: "an era cut short, its file damaged",
        harm: |world| fs::write(world.dir().join("era.json"), "{}").unwrap(),
        check: "book",
        level: "fail",
        words: "ERA_UNFINISHED: `countersign book new-era` began another book and did not come to its end: `era.json`",
    },
    Case {
        name: "a part of a book",
        harm: |world| fs::create_dir(world.dir().join("book.new")).unwrap(),
        check: "book",
        level: "warn",
        words: "`book.new`: a part of a book that was never put in its place",
    },
    Case {
        name: "a key never put in force",
        harm: |world| {
            let key = Secret::new(vec![9; 32]);
            store(world)
                .set(&Account::book_signing_next(), &key)
                .unwrap();
        },
        check: "book",
        level: "warn",
        words: "`book/signing.next`: a signing key was made and never put in force",
    },
    Case {
        name: "a rotation cut short",
        harm: |world| {
            let store = store(world);
            let key = store.get(&Account::book_signing()).unwrap().unwrap();
            store.set(&Account::book_signing_next(), &key).unwrap();
        },
        check: "book",
        level: "warn",
        words: "a change of the signing key was cut short",
    },
    Case {
        name: "the key of an era that was given up",
        harm: |world| {
            let key = Secret::new(vec![9; 32]);
            store(world)
                .set(&Account::book_signing_era(), &key)
                .unwrap();
        },
        check: "book",
        level: "warn",
        words: "`book/signing.era`: the key of a book that was never put in its place",
    },
    Case {
        name: "a key",
        harm: |world| {
            let path = world.dir().join("executor.json");
            let text = fs::read_to_string(&path).unwrap();
            let at = text.find("csk_").unwrap();
            fs::write(&path, text.replace(&text[at..at + 12], "csk_aaaaaaaa")).unwrap();
        },
        check: "agents",
        level: "fail",
        words: "a key that state.db does not know",
    },
    Case {
        name: "a changed byte",
        harm: |world| {
            let journal = fs::read_dir(world.dir().join("book/journal"))
                .unwrap()
                .next()
                .unwrap()
                .unwrap()
                .path();
            let mut bytes = fs::read(&journal).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&journal, bytes).unwrap();
        },
        check: "book",
        level: "fail",
        words: "",
    },
    Case {
        name: "no book",
        harm: |world| fs::remove_file(world.dir().join("book/BOOK")).unwrap(),
        check: "book",
        level: "fail",
        words: "is not a book",
    },
    #[cfg(unix)]
    Case {
        name: "modes",
        harm: |world| {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(
                world.dir().join("executor.json"),
                fs::Permissions::from_mode(0o644),
            )
            .unwrap();
        },
        check: "folder",
        level: "warn",
        words: "open to other users (mode 644)",
    },
    #[cfg(unix)]
    Case {
        name: "world-writable",
        harm: |world| {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(
                world.dir().join("executor.json"),
                fs::Permissions::from_mode(0o666),
            )
            .unwrap();
        },
        check: "executor.json",
        level: "fail",
        words: "can be changed by other users",
    },
];

#[test]
fn every_harm_is_found_and_has_a_remedy() {
    for Case {
        name,
        harm,
        check,
        level,
        words,
    } in CASES
    {
        let world = World::new();
        for line in [
            "init --development --secrets file --name Maria --json",
            "server add here --json -- sh",
            "server add gone --json -- not-a-program-anybody-has",
            "agent add bar --json",
        ] {
            let answer = world.json(line);
            assert!(answer.get("error").is_none(), "{name}: {line}: {answer}");
        }
        harm(&world);
        let output = world.run("doctor --json");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap();
        let found = checks.iter().find(|answer| {
            answer["name"] == *check
                && answer["level"] == *level
                && answer["what"].as_str().unwrap().contains(words)
        });
        let found = found
            .unwrap_or_else(|| panic!("{name}: {check} should say {level} `{words}`: {report:#}"));
        assert_eq!(*level == "ok", found["remedy"] == "", "{name}: {found}");
        assert_eq!(
            output.status.code(),
            Some(1),
            "{name}: one server's program is not found"
        );
        assert!(checks.len() >= 13, "{name}: every check answers");
    }
}
