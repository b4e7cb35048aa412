//! The vectors in `testdata/`: the bytes this version writes are those of the files, and every case is judged as its name
//! says. A change of these bytes is a change of the format.

use std::path::{Path, PathBuf};

use crate::journal::layout::Layout;
use crate::journal::tests::{KEK, SEED, STEADY, folder, id, open_with, options};
use crate::kinds::{
    Beat, Body, BookClosed, BookOpen, BookRecovered, Catalog, Change, Clock, Decision, Gap, Head,
    Outcome, Permission, RefusalCount, Refusals, Settings, Status, Target, Verdict as Judged,
};
use crate::{
    Actor, Approval, Bounds, Call, Count, Decided, Draft, Effect, Entry, EraOpen, Erase, Field,
    Hash, KeyRotate, Note, Origin, Payload, PayloadCheck, Prune, Reader, Signer, TurnClose,
    TurnFailed, TurnOpen, VaultKey, VerifyOptions, Vkey, verify,
};

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name)
}

fn cases(name: &str) -> Vec<(String, Vec<u8>)> {
    let mut cases: Vec<_> = std::fs::read_dir(testdata(name))
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                std::fs::read(entry.path()).unwrap(),
            )
        })
        .collect();
    cases.sort();
    cases
}

/// One of every kind, every member filled in once.
fn all() -> Vec<Body> {
    let (hash, text) = (Hash::of(b"golden"), |text: &str| Some(text.to_owned()));
    let origin = Origin::from_id([3; 16]);
    let call = Call {
        actor: Actor::Person,
        agent: text("claude-desktop"),
        approval: text("a1"),
        args: None,
        call: id(1),
        client: text("claude-ai 0.1.0"),
        confirmation: text("c1"),
        def: Some(hash),
        effect: Effect::Write,
        key: text("csk_ab12cd34"),
        permission: Some(hash),
        process: "p1".into(),
        purpose: text("preview"),
        request: text("9007199254740993"),
        rows: Some(Count(u64::MAX)),
        sent: None,
        server: "files".into(),
        session: text("s1"),
        turn: None,
        tool: "write_file \u{1f600} \u{e000} \u{202e}".into(),
        via: "stdio".into(),
    };
    let mut outcome = Outcome::new(id(1), Status::ConfirmationRequired);
    outcome.approval = text("a1");
    outcome.code = text("confirm_token_invalid");
    outcome.confirmation = text("c1");
    outcome.ms = Some(Count(12));
    outcome.replaces = text("c0");
    outcome.settled = text("p2");
    outcome.why = text("line\nfeed \"quoted\" \u{7f}");
    vec![
        BookOpen {
            development: false,
            name: text("Maria's laptop"),
            vkey: Signer::from_seed(SEED).vkey(&origin).to_string(),
            origin,
            process: "p1".into(),
            program: text("countersign 0.1.0"),
        }
        .into(),
        Settings {
            by: "countersign tool set".into(),
            hash,
        }
        .into(),
        Catalog {
            agent: text("claude-desktop"),
            change: Change::SetAside,
            hash,
            server: "files".into(),
            tool: text("write_file"),
            tools: Some(Count(12)),
            why: text("its schema can't be compiled"),
        }
        .into(),
        Permission {
            agent: "claude-desktop".into(),
            development: true,
            hash,
            proof: Some(hash),
        }
        .into(),
        call.into(),
        Decision {
            aim: text("/path"),
            bounds: None,
            call: id(1),
            decision: Judged::Deny,
            gate: "write_policy".into(),
            policy: Some(hash),
            rule: text("allow_writes"),
        }
        .into(),
        outcome.into(),
        Refusals {
            agent: text("claude-desktop"),
            counts: vec![RefusalCount {
                code: "rate_limited".into(),
                n: Count(3),
            }],
            minute: "2026-11-30T17:00:00Z".into(),
        }
        .into(),
        Gap {
            count: Some(Count(1)),
            from: text("2026-11-30T17:00:00.000Z"),
            process: "p1".into(),
            reason: "disk_full".into(),
            until: text("2026-11-30T17:01:00.000Z"),
        }
        .into(),
        Clock {
            last: "2026-11-30T17:00:00.000Z".into(),
            process: "p1".into(),
        }
        .into(),
        Beat {
            process: "p1".into(),
        }
        .into(),
        BookRecovered {
            bytes: Count(7),
            file: text("0.tail"),
            lines: Count(1),
            missing: vec![Target {
                f: Field::Result,
                i: Count(4),
            }],
            process: "p1".into(),
            sha256: Some(hash),
            signed: Some(Head {
                root: hash,
                size: Count(9),
            }),
        }
        .into(),
        BookClosed {
            process: "p1".into(),
            reason: "end of the test".into(),
        }
        .into(),
    ]
}

/// One of every kind the writer makes in acts of its own.
fn acts() -> Vec<Body> {
    let origin = Origin::from_id([3; 16]);
    let target = |f| Target { f, i: Count(4) };
    vec![
        KeyRotate {
            from: Count(11),
            reason: "planned".into(),
            until: Some(Count(1034)),
            vkey: Signer::from_seed([7; 32]).vkey(&origin).to_string(),
        }
        .into(),
        EraOpen {
            checkpoint: "bm90ZQ==".into(),
            origin,
            reason: "the key was stolen".into(),
        }
        .into(),
        Erase {
            by: "countersign book erase".into(),
            reason: "asked for".into(),
            targets: vec![target(Field::ArgsView), target(Field::Args)],
        }
        .into(),
        Prune {
            by: "countersign book prune".into(),
            minimum: Count(31_744),
            reason: "retention".into(),
        }
        .into(),
    ]
}

/// Turns, decisions about held calls, and calls and decisions with what they say of them.
fn turns() -> Vec<Body> {
    let (hash, text) = (Hash::of(b"golden"), |text: &str| Some(text.to_owned()));
    let (agent, at) = ("claude-desktop", "2026-11-30T17:00:00.000Z");
    let all = all();
    let (call, decision) = (all[4].clone(), all[5].clone());
    let (Body::Call(call), Body::Decision(decision)) = (call, decision) else {
        panic!("the places of a call and a decision");
    };
    vec![
        TurnOpen {
            agent: agent.into(),
            at: at.into(),
            by: text("countersign turn open"),
            reason: "person_command".into(),
            turn: Count(2),
        }
        .into(),
        TurnClose {
            agent: agent.into(),
            at: at.into(),
            by: text("countersign turn open"),
            reason: "person_command".into(),
            turn: Count(1),
        }
        .into(),
        TurnFailed {
            agent: agent.into(),
            at: at.into(),
            reason: "write_policy_denied".into(),
            turn: Count(2),
        }
        .into(),
        Approval {
            actor: Actor::Person,
            agent: text(agent),
            approval: "a1".into(),
            at: at.into(),
            hash: Some(hash),
            proof: Some(hash),
            server: "files".into(),
            tool: "write_file".into(),
            verdict: Decided::Approve,
            via: "countersign approvals approve".into(),
        }
        .into(),
        Call {
            actor: Actor::Agent,
            session: None,
            turn: Some(Count(2)),
            ..call
        }
        .into(),
        Decision {
            bounds: Some(Bounds {
                matched_rule: text(".git/**"),
                normalized_path: text("link"),
                other_paths: vec!["b".into(), "c".into()],
                policy_id: text("p"),
                policy_version: Some(Count(1)),
                requested_command: text("cat ~/x"),
                requested_path: text("link/deep/out.txt"),
                symlink_component: text("link"),
                token: text("~/x"),
                tool: text("write_file"),
                uninspectable_component: text("link/deep"),
            }),
            ..decision
        }
        .into(),
    ]
}

#[test]
fn the_bytes_of_acts_and_turns_do_not_change() {
    for body in acts().into_iter().chain(turns()) {
        let name = match &body {
            Body::Call(_) => "call-in-a-turn",
            Body::Decision(_) => "decision-of-a-write-policy",
            body => body.kind(),
        };
        let line =
            crate::entry::line(&body, 9, Hash::of(b"golden"), "2026-11-30T17:00:00.000Z").unwrap();
        let golden = std::fs::read(testdata("entries").join(format!("{name}.json")));
        let golden = String::from_utf8(golden.unwrap_or_default()).unwrap();
        assert_eq!(String::from_utf8(line).unwrap() + "\n", golden);
    }
}

#[test]
fn books_are_judged_as_their_names_say() {
    let mut seen = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(testdata("books")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let expected: u8 = name.split('-').next().unwrap().parse().unwrap();
        for vault in [None, Some(VaultKey::from_bytes(KEK))] {
            let options = VerifyOptions {
                vault,
                threads: 1,
                ..VerifyOptions::default()
            };
            let report = verify(&testdata("books").join(&name), &options).unwrap();
            assert_eq!(
                report.verdict().exit_code(),
                expected,
                "{name}: {:?}",
                report.findings
            );
            assert!(report.not_understood == 0 || expected != 0, "{name}");
        }
        *seen.entry(expected).or_insert(0) += 1;
    }
    assert!(
        seen[&0] >= 6 && seen[&34] >= 3 && seen.len() >= 5,
        "{seen:?}"
    );
}

#[test]
fn the_bytes_of_the_format_do_not_change() {
    let folder = folder();
    let mut small = options("p1");
    small.segment_bytes = 5900;
    small.vault_ahead_bytes = 0;
    let mut writer = open_with(&folder.book, STEADY, small).unwrap();
    let mut batch: Vec<Draft> = all().into_iter().map(Draft::new).collect();
    let outcome = batch
        .remove(6)
        .with(Field::Result, Payload::new("{\"content\":[]}"));
    let call = batch.remove(4);
    let call = call
        .with(Field::Args, Payload::new("{\"n\":9007199254740993}"))
        .with(Field::Sent, Payload::new("{}"));
    writer.commit(vec![call, outcome]).unwrap();
    writer.commit(batch).unwrap();
    writer
        .commit(vec![crate::journal::tests::draft(9, "p1")])
        .unwrap();
    drop(writer);
    let layout = Layout::new(&folder.book);
    let mut files = vec![layout.book(), layout.vault_segment(0)];
    files.extend(
        layout
            .segments()
            .unwrap()
            .into_iter()
            .map(|first| layout.segment(first)),
    );
    assert_eq!(files.len(), 4, "two segments");
    for file in files {
        let golden = testdata("book").join(file.strip_prefix(&folder.book).unwrap());
        let (is, should) = (
            std::fs::read(&file).unwrap(),
            std::fs::read(&golden).unwrap_or_default(),
        );
        assert!(
            is == should,
            "{} differs from {}",
            file.display(),
            golden.display()
        );
    }
    let report = verify(&testdata("book"), &VerifyOptions::default()).unwrap();
    assert_eq!(report.verdict().exit_code(), 0, "{:?}", report.findings);
    let reader = Reader::open(&testdata("book")).unwrap();
    let payload = reader
        .payload(&VaultKey::from_bytes(KEK), 1, Field::Args)
        .unwrap();
    assert_eq!(payload, b"{\"n\":9007199254740993}");
}

#[test]
fn journals_are_judged_as_their_names_say() {
    let mut seen = 0;
    for (name, bytes) in cases("journals") {
        let expected = name.split('-').next().unwrap();
        assert_eq!(judge(&bytes).to_string(), expected, "{name}");
        seen += 1;
    }
    assert!(seen >= 30, "{seen}");
}

#[test]
fn notes_are_judged_as_their_names_say() {
    let vkey = Vkey::parse(
        std::fs::read_to_string(testdata("notes.vkey"))
            .unwrap()
            .trim(),
    )
    .unwrap();
    let mut seen = (0, 0);
    for (name, bytes) in cases("notes") {
        let result = Note::parse(&bytes)
            .and_then(|note| note.verify(std::slice::from_ref(&vkey)).map(|()| note))
            .and_then(|note| crate::Checkpoint::from_note(&note));
        assert_eq!(
            result.is_ok(),
            name.starts_with("good"),
            "{name}: {result:?}"
        );
        if result.is_ok() {
            seen.0 += 1
        } else {
            seen.1 += 1
        }
    }
    assert!(seen.0 >= 3 && seen.1 >= 15, "{seen:?}");
}

#[test]
fn entries_are_judged_as_their_names_say() {
    let mut understood = std::collections::BTreeSet::new();
    for (name, bytes) in cases("entries") {
        let text = String::from_utf8(bytes).unwrap();
        let entry = Entry::parse(text.strip_suffix('\n').unwrap());
        match name.trim_end_matches(".json").split('-').next().unwrap() {
            "bad" => assert!(entry.is_err(), "{name}"),
            "unknown" => assert!(entry.unwrap().body.is_none(), "{name}"),
            kind => {
                let body = entry.unwrap().body.unwrap_or_else(|| panic!("{name}"));
                assert_eq!(body.kind(), kind, "{name}");
                understood.insert(body.kind());
            }
        }
    }
    // A kind without a vector is a kind nobody else can implement.
    let known = all().into_iter().chain(acts()).chain(turns());
    assert_eq!(
        understood,
        known
            .map(|body| body.kind())
            .collect::<std::collections::BTreeSet<_>>()
    );
}

/// Verifies the first segment of the golden book with these bytes in its place.
fn judge(bytes: &[u8]) -> u8 {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("journal")).unwrap();
    std::fs::copy(testdata("book/BOOK"), dir.path().join("BOOK")).unwrap();
    std::fs::write(Layout::new(dir.path()).segment(0), bytes).unwrap();
    let skip = VerifyOptions {
        payloads: PayloadCheck::Skip,
        threads: 1,
        ..VerifyOptions::default()
    };
    verify(dir.path(), &skip).unwrap().verdict().exit_code()
}

fn golden_segment() -> Vec<u8> {
    std::fs::read(Layout::new(&testdata("book")).segment(0)).unwrap()
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(96))]

    #[test]
    fn b25_no_edit_of_a_journal_is_judged_whole(
        at in proptest::prelude::any::<proptest::sample::Index>(),
        cut in 0usize..900,
        put in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60),
    ) {
        let bytes = golden_segment();
        let at = at.index(bytes.len());
        let end = (at + cut).min(bytes.len());
        let edited = [&bytes[..at], &put, &bytes[end..]].concat();
        // Cutting at a checkpoint leaves a whole book: only a copy knows better.
        let is_prefix = bytes.starts_with(&edited);
        proptest::prop_assume!(edited != bytes);
        proptest::prop_assert!(judge(&edited) != 0 || is_prefix);
    }

    #[test]
    fn b60_no_bytes_panic_a_parser(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = Note::parse(&bytes).map(|note| crate::Checkpoint::from_note(&note));
        let _ = Vkey::parse(&text);
        let _ = Origin::parse(&text);
        let _ = Entry::parse(&text);
        let _ = crate::journal::segment::SegmentLine::parse(&[b"#seg ", &bytes[..]].concat());
        let escaped = crate::escape(&text);
        proptest::prop_assert!(!escaped.contains(char::is_control));
        proptest::prop_assert_ne!(judge(&bytes), 0);
    }
}

#[test]
fn a_writer_can_be_moved_to_its_thread() {
    fn sendable<T: Send>() {}
    sendable::<crate::Writer>();
    sendable::<Draft>();
    sendable::<crate::Committed>();
    sendable::<crate::BookError>();
}
