//! The index and pages of a small real book: filters, cursors, deletion, damage, rows that lie.

use std::sync::Arc;
use std::time::Duration;

use countersign_book::{
    Actor, Call, CallId, Decision, DecisionVerdict, Draft, Effect, Field, NewBook, Origin, Outcome,
    Payload, Signer, Status, Tlog, VaultKey, Writer, WriterOptions, create,
};
use rusqlite::Connection;

use super::Derived;
use super::filter::Filter;
use super::index::Index;
use super::page::{Asked, Next, Page, read};
use crate::commands::testing::world;
use crate::folder::Folder;
use crate::keeper::sources;
use crate::recorder::written::Written;

const CANARY: &str = "argument-canary";

fn id(n: u64) -> CallId {
    CallId::parse(&format!("01ARZ3NDEKTSV{n:013}")).unwrap()
}

fn call(n: u64) -> Call {
    Call {
        actor: Actor::Agent,
        agent: Some(if n.is_multiple_of(2) { "maria" } else { "otto" }.into()),
        approval: None,
        args: None,
        call: id(n),
        client: None,
        confirmation: None,
        def: None,
        effect: Effect::Write,
        key: None,
        permission: None,
        process: "p".into(),
        purpose: None,
        request: None,
        rows: None,
        sent: None,
        server: "files".into(),
        session: None,
        turn: None,
        tool: if n.is_multiple_of(10) {
            "rare"
        } else {
            "write_file"
        }
        .into(),
        via: "stdio".into(),
    }
}

/// Calls `first..` with their decisions and outcomes; every seventh is denied, every last of three has none.
fn append(folder: &Folder, first: u64, count: u64) {
    let (signer, vault) = (Signer::from_seed([1; 32]), VaultKey::from_bytes([2; 32]));
    if !folder.book().exists() {
        let new = NewBook {
            origin: Origin::from_id([1; 16]),
            development: true,
            name: None,
            program: None,
            process: "init".into(),
        };
        create(&folder.book(), &new, &signer, &mut sources()).unwrap();
    }
    let options = WriterOptions {
        segment_bytes: 20_000,
        ..WriterOptions::new("p")
    };
    let mut writer = Writer::open(&folder.book(), signer, vault, sources(), options).unwrap();
    for n in first..first + count {
        let args = Payload::new(format!("{CANARY} {n}"));
        let denied = n.is_multiple_of(7);
        let decision = Decision {
            bounds: None,
            aim: None,
            call: id(n),
            decision: if denied {
                DecisionVerdict::Deny
            } else {
                DecisionVerdict::Allow
            },
            gate: "policy".into(),
            policy: None,
            rule: None,
        };
        let mut drafts = vec![
            Draft::new(call(n)).with(Field::Args, args),
            Draft::new(decision),
        ];
        if !n.is_multiple_of(3) {
            let status = if denied { Status::Refused } else { Status::Ok };
            drafts.push(Draft::new(Outcome::new(id(n), status)));
        }
        writer.commit(drafts).unwrap();
    }
}

fn asked(filter: Filter) -> Asked {
    Asked {
        filter,
        call: None,
        from: None,
        before: None,
        limit: 50,
        anew: false,
    }
}

fn of(member: &str, text: &str) -> Filter {
    let text = Some(text.to_owned());
    let mut filter = Filter::default();
    match member {
        "agent" => filter.agent = text,
        "tool" => filter.tool = text,
        "outcome" => filter.outcome = text,
        "decision" => filter.decision = text,
        "kind" => filter.kind = text,
        _ => unreachable!("no such member"),
    }
    filter
}

fn kinds(page: &Page) -> Vec<(u64, &str)> {
    page.entries
        .iter()
        .map(|entry| (entry.index, entry.kind.as_str()))
        .collect()
}

fn folder() -> (tempfile::TempDir, Folder) {
    let (temp, context) = world();
    append(&context.folder, 0, 60);
    (temp, context.folder)
}

/// Everything the views answer, to compare before and after.
fn answers(folder: &Folder) -> Vec<Vec<u64>> {
    [
        ("agent", "otto"),
        ("tool", "rare"),
        ("outcome", "refused"),
        ("decision", "deny"),
        ("kind", "call"),
    ]
    .map(|(member, text)| {
        let page = read(folder, &asked(of(member, text))).unwrap();
        page.entries.iter().map(|entry| entry.index).collect()
    })
    .to_vec()
}

#[test]
fn filters_let_through_what_was_asked_for_and_nothing_else() {
    let (_temp, folder) = folder();
    let rare = read(&folder, &asked(of("tool", "rare"))).unwrap();
    assert_eq!(
        kinds(&rare)
            .iter()
            .map(|(_, kind)| *kind)
            .collect::<Vec<_>>()
            .concat()
            .matches("call")
            .count(),
        6
    );
    assert!(
        rare.entries
            .iter()
            .all(|entry| entry.body.as_ref().unwrap().call().is_some())
    );
    assert_eq!(
        rare.entries
            .iter()
            .filter(|entry| entry.kind == "decision")
            .count(),
        6
    );
    let ended: Vec<bool> = rare
        .entries
        .iter()
        .zip(&rare.outcomes)
        .filter(|(entry, _)| entry.kind == "call")
        .map(|(_, outcome)| outcome.is_some())
        .collect();
    assert_eq!(ended, [false, true, true, false, true, true]);
    // A call whose outcome is not on the page says it all the same.
    let calls = read(
        &folder,
        &Asked {
            limit: 4,
            ..asked(Filter {
                kind: Some("call".into()),
                ..of("agent", "otto")
            })
        },
    )
    .unwrap();
    assert_eq!(
        calls
            .outcomes
            .iter()
            .filter(|outcome| outcome.is_some())
            .count(),
        3
    );
    assert!(kinds(&calls).iter().all(|(_, kind)| *kind == "call"));
    let none = read(&folder, &asked(of("agent", "nobody' OR 1=1 --"))).unwrap();
    assert_eq!(kinds(&none), []);
    let future = Filter {
        since: Some(i64::MAX),
        ..Filter::default()
    };
    assert_eq!(kinds(&read(&folder, &asked(future)).unwrap()), []);
    let past = Filter {
        since: Some(0),
        until: Some(i64::MAX),
        ..Filter::default()
    };
    assert_eq!(read(&folder, &asked(past)).unwrap().entries.len(), 50);
    let of_call = Asked {
        call: Some(id(10).to_string()),
        from: Some(0),
        ..asked(Filter::default())
    };
    let page = read(&folder, &of_call).unwrap();
    assert_eq!(
        kinds(&page)
            .iter()
            .map(|(_, kind)| *kind)
            .collect::<Vec<_>>(),
        ["call", "decision", "outcome"]
    );
}

#[test]
fn cursors_reach_every_entry_once_in_both_directions() {
    let (_temp, folder) = folder();
    for filter in [Filter::default(), of("agent", "maria")] {
        let whole = read(
            &folder,
            &Asked {
                from: Some(0),
                limit: 1000,
                ..asked(filter.clone())
            },
        )
        .unwrap();
        assert_eq!(whole.next, None);
        let whole: Vec<u64> = whole.entries.iter().map(|entry| entry.index).collect();
        assert!(whole.len() > 70);
        let (mut up, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let page = read(
                &folder,
                &Asked {
                    from: Some(at),
                    limit: 7,
                    ..asked(filter.clone())
                },
            )
            .unwrap();
            up.extend(page.entries.iter().map(|entry| entry.index));
            from = page.next.map(|next| match next {
                Next::From(from) => from,
                Next::Before(_) => unreachable!("ascending"),
            });
        }
        assert_eq!(up, whole);
        let (mut down, mut before) = (Vec::new(), None);
        loop {
            let page = read(
                &folder,
                &Asked {
                    before,
                    limit: 7,
                    ..asked(filter.clone())
                },
            )
            .unwrap();
            down.extend(page.entries.iter().rev().map(|entry| entry.index));
            match page.next {
                Some(Next::Before(next)) => before = Some(next),
                _ => break,
            }
        }
        down.reverse();
        assert_eq!(down, whole);
    }
    let page = read(
        &folder,
        &Asked {
            before: Some(0),
            ..asked(Filter::default())
        },
    )
    .unwrap();
    assert_eq!(kinds(&page), []);
}

#[test]
fn b28_a_deleted_damaged_foreign_or_older_index_is_made_anew() {
    let (_temp, folder) = folder();
    let before = answers(&folder);
    let path = folder.index_db();
    let wal = path.with_extension("db-wal");
    type Harm = Box<dyn Fn()>;
    let write = |bytes: &'static [u8]| {
        let (path, wal) = (path.clone(), wal.clone());
        Box::new(move || {
            let _ = std::fs::remove_file(&wal);
            std::fs::write(&path, bytes).unwrap();
        })
    };
    let run = |sql: &'static str| {
        let path = path.clone();
        Box::new(move || Connection::open(&path).unwrap().execute_batch(sql).unwrap())
    };
    let harms: [(&str, Harm); 8] = [
        ("deleted", Box::new({
            let path = path.clone();
            move || std::fs::remove_file(&path).unwrap()
        })),
        ("no database", write(b"this is not a database, but it is longer than a header of one is, by far: 100 bytes and more .......")),
        ("empty", write(b"")),
        ("newer", run("PRAGMA user_version = 99")),
        ("another schema", run("DROP TABLE entry; CREATE TABLE entry (i)")),
        ("another root", run("UPDATE built SET root = 'sha256:' || hex(zeroblob(32))")),
        ("beyond the book", run("UPDATE built SET size = 100000")),
        ("nothing built", run("DELETE FROM built")),
    ];
    for (name, harm) in harms {
        harm();
        assert_eq!(answers(&folder), before, "{name}");
    }
    append(&folder, 60, 10);
    assert_ne!(answers(&folder), before, "it grows with the book");
    let mut index = Index::open(&folder).unwrap();
    index.update().unwrap();
    assert_eq!(
        index.size().unwrap(),
        Tlog::open(&folder.book())
            .unwrap()
            .extend()
            .unwrap()
            .head
            .size
    );
}

#[test]
fn rows_that_lie_never_show_what_the_journal_does_not_say() {
    let (_temp, folder) = folder();
    let before = answers(&folder);
    for sql in [
        // Another entry in its place.
        "UPDATE entry SET offset = (SELECT offset FROM entry WHERE i = 1), segment = 0 WHERE i > 3",
        "UPDATE entry SET offset = offset + 1",
        "UPDATE entry SET segment = 999999",
        // Other members than its own.
        "UPDATE entry SET tool = (SELECT id FROM word WHERE text = 'rare')",
        "UPDATE entry SET outcome = (SELECT id FROM word WHERE text = 'refused') WHERE outcome IS NOT NULL",
        "UPDATE entry SET ends = 1 WHERE ends IS NOT NULL",
        "UPDATE entry SET ends = NULL, ms = 0, kind = (SELECT id FROM word WHERE text = 'call')",
    ] {
        Connection::open(folder.index_db())
            .unwrap()
            .execute_batch(sql)
            .unwrap();
        for (member, text) in [("tool", "rare"), ("outcome", "refused"), ("kind", "call")] {
            let page = read(&folder, &asked(of(member, text))).unwrap();
            for (entry, outcome) in page.entries.iter().zip(&page.outcomes) {
                assert!(
                    !of(member, text).is_contradicted_by(entry),
                    "{sql}: {entry:?}"
                );
                let same = outcome.as_ref().is_none_or(|outcome| {
                    outcome.body.as_ref().unwrap().call() == entry.body.as_ref().unwrap().call()
                });
                assert!(same, "{sql}: another call's outcome");
            }
        }
        let anew = Asked {
            anew: true,
            ..asked(of("tool", "rare"))
        };
        read(&folder, &anew).unwrap();
        assert_eq!(answers(&folder), before, "{sql}");
    }
}

#[test]
fn b36_the_index_and_the_derived_log_hold_no_argument() {
    let (_temp, folder) = folder();
    answers(&folder);
    Tlog::open(&folder.book()).unwrap().extend().unwrap();
    let (mut open, mut looked) = (vec![folder.root().to_owned()], 0);
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes
                .windows(CANARY.len())
                .any(|part| part == CANARY.as_bytes());
            assert!(!found, "{}", path.display());
            looked += 1;
        }
    }
    assert!(looked > 6);
}

#[test]
fn a_changed_entry_is_not_listed() {
    let (_temp, folder) = folder();
    answers(&folder);
    let segment = folder.book().join("journal/00000000000000000000.jsonl");
    let text = std::fs::read_to_string(&segment).unwrap();
    std::fs::write(
        &segment,
        text.replacen("\"tool\":\"rare\"", "\"tool\":\"RARE\"", 1),
    )
    .unwrap();
    for filter in [Filter::default(), of("agent", "maria")] {
        let first = Asked {
            from: Some(0),
            ..asked(filter)
        };
        assert!(read(&folder, &first).is_err());
    }
}

#[test]
fn the_thread_brings_both_up_to_date_and_ends() {
    let (_temp, folder) = folder();
    let written = Arc::new(Written::default());
    let derived = Derived::start(&folder, None, Arc::clone(&written)).unwrap();
    written.tell();
    derived.close(Duration::from_secs(60));
    let check = Tlog::open(&folder.book()).unwrap().check().unwrap();
    assert_eq!(
        (check.findings.len(), check.published),
        (0, check.head.size)
    );
    assert_eq!(
        Index::open(&folder).unwrap().size().unwrap(),
        check.head.size
    );
    // While another process is at the log it is left alone.
    append(&folder, 60, 5);
    let held = folder.lock(super::LOCK, Duration::ZERO).unwrap();
    let written = Arc::new(Written::default());
    let derived = Derived::start(&folder, None, Arc::clone(&written)).unwrap();
    derived.close(Duration::from_secs(60));
    assert_eq!(
        Tlog::open(&folder.book())
            .unwrap()
            .check()
            .unwrap()
            .published,
        check.head.size
    );
    drop(held);
}
