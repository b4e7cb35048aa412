//! Readings, resolution and step 7, by their checklist numbers.

use super::memory::Disk;
use super::*;
use crate::refusal::Code;

const WORK: &str = "/home/maria/desk";
const OURS: &str = "/home/maria/.local/share/countersign";

fn disk() -> Disk {
    Disk::new()
        .home("/home/maria")
        .folder(WORK)
        .folder("/home/maria/desk/notes")
        .file("/home/maria/desk/notes/a.md")
        .folder(OURS)
        .file("/home/maria/.local/share/countersign/executor.json")
        .file("/home/maria/.local/share/countersign/state.db")
        .file("/home/maria/.local/share/countersign/secrets.enc")
        .file("/home/maria/.local/share/countersign/book/journal/0001")
        .file("/home/maria/.local/share/countersign/book/vault/0001")
}

fn holdings() -> Vec<Holding> {
    vec![
        Holding {
            whose: "the executor",
            root: OURS.to_string(),
            closed: Closed::Below(EXECUTOR_CLOSED.map(String::from).to_vec()),
        },
        Holding {
            whose: "the app's settings",
            root: "/home/maria/.config/countersign-app".to_string(),
            closed: Closed::Below(Vec::new()),
        },
    ]
}

/// `open`, `holding`, `process` or `unknown`, of one argument declared as such.
fn verdict(disk: &Disk, effect: Option<Effect>, default: Effect, text: &str) -> &'static str {
    let declared: Vec<Declared> = effect
        .into_iter()
        .map(|effect| Declared {
            pointer: "/path".to_string(),
            effect,
        })
        .collect();
    let protect = Protect {
        files: disk,
        holdings: &holdings(),
        bases: &[WORK.to_string()],
        declared: &declared,
        effect: default,
    };
    let arguments = serde_json::json!({"path": text, "other": [1, null]}).to_string();
    match protect.check(arguments.as_bytes()) {
        Ok(()) => "open",
        Err(trespass) => {
            assert_eq!(trespass.pointer, "/path");
            let refusal = trespass.refusal("files/write");
            assert_eq!((refusal.code, refusal.step), (Code::ProtectedPath, 7));
            assert!(!refusal.next_actions[0].is_empty());
            match trespass.reaches {
                Reaches::Holding(_) => "holding",
                Reaches::Process => "process",
                Reaches::Unknown(_) => "unknown",
            }
        }
    }
}

fn check(disk: &Disk, effect: Effect, cases: &[(&str, &str)]) {
    for (text, want) in cases {
        assert_eq!(
            verdict(disk, Some(effect), Effect::Write, text),
            *want,
            "{effect:?} `{text}`"
        );
    }
}

#[test]
fn p29_every_spelling_of_our_folder_is_refused_for_writes() {
    let disk = disk()
        .link("/home/maria/desk/in", OURS)
        .link("/home/maria/desk/up", "../.local")
        .link(
            "/home/maria/desk/dangling",
            "../.local/share/countersign/new",
        );
    check(
        &disk,
        Effect::Write,
        &[
            ("notes/a.md", "open"),
            ("notes/new/deep/b.md", "open"),
            ("/home/maria/.local/share/countersign", "holding"),
            ("/home/maria/.local/share/countersign/", "holding"),
            (
                "/home/maria//.local/./share///countersign/executor.json",
                "holding",
            ),
            ("../.local/share/countersign/new/file", "holding"),
            ("notes/../../.local/share/countersign/x", "holding"),
            ("missing/../../.local/share/countersign/x", "holding"),
            ("~/.local/share/countersign/x", "holding"),
            ("~maria/.local/share/countersign/x", "holding"),
            ("$HOME/.local/share/countersign/x", "holding"),
            ("file:///home/maria/.local/share/countersign/x", "holding"),
            (
                "FILE://localhost/home/maria/.local/share/%63ountersign/x",
                "holding",
            ),
            ("file:/home/maria/.local/share/countersign/x?y#z", "holding"),
            (" '/home/maria/.local/share/countersign/x' ", "holding"),
            ("in/x", "holding"),
            ("in", "holding"),
            ("up/share/countersign/executor.json", "holding"),
            ("dangling", "holding"),
            (
                "/home/maria/.config/countersign-app/settings.json",
                "holding",
            ),
            // What holds us goes with it.
            ("/home/maria", "holding"),
            ("~", "holding"),
            ("/", "holding"),
            // Fail closed.
            ("a\0b", "unknown"),
            ("~root/x", "unknown"),
            ("file://elsewhere/x", "unknown"),
            ("file:///a%zz", "unknown"),
            // Neighbours are nobody's.
            ("/home/maria/.local/share/countersign-notes/x", "open"),
            ("/home/maria/.local/share/countersig", "open"),
            ("/home/maria/.local/share/COUNTERSIGN/x", "open"),
        ],
    );
    check(
        &disk,
        Effect::Create,
        &[("/home/maria", "open"), ("in/x", "holding")],
    );
}

#[test]
fn p29_links_are_followed_twenty_times_and_no_more() {
    let mut disk = disk();
    for n in 0..22 {
        disk = disk.link(&format!("{WORK}/l{n}"), &format!("l{}", n + 1));
    }
    let disk = disk.file("/home/maria/desk/l22");
    check(
        &disk,
        Effect::Write,
        &[("l2", "open"), ("l1", "unknown"), ("l0", "unknown")],
    );
    let disk = disk
        .link("/home/maria/desk/self", "self")
        .unreadable("/home/maria/desk/closed");
    check(
        &disk,
        Effect::Write,
        &[
            ("self", "unknown"),
            ("closed", "unknown"),
            ("closed/x", "unknown"),
        ],
    );
}

#[test]
fn p30_reads_are_open_but_secrets_vault_and_store_are_not() {
    let disk = disk()
        .file("/proc/77/environ")
        .file("/proc/77/status")
        .link("/proc/self", "77")
        .folder("/proc/77/fd")
        .link("/proc/77/root", "/")
        .link("/dev/fd", "/proc/self/fd")
        .link("/home/maria/desk/me", "/proc/self/environ");
    check(
        &disk,
        Effect::Read,
        &[
            ("~/.local/share/countersign/executor.json", "open"),
            ("~/.local/share/countersign/book/journal/0001", "open"),
            ("~/.local/share/countersign", "open"),
            ("/", "open"),
            ("~/.local/share/countersign/state.db", "holding"),
            ("~/.local/share/countersign/state.db-wal", "holding"),
            ("~/.local/share/countersign/STATE.DB", "holding"),
            ("~/.local/share/countersign/secrets.enc", "holding"),
            ("~/.local/share/countersign/book/vault", "holding"),
            ("~/.local/share/countersign/book/vault/0001", "holding"),
            ("~/.local/share/countersign/book/../run/x", "holding"),
            ("/proc/self/environ", "process"),
            ("/proc/77/environ", "process"),
            ("/proc/1/task/1/mem", "process"),
            ("/proc/self/fd/3", "process"),
            ("/proc/self/root/etc/hosts", "process"),
            ("/dev/fd/0", "process"),
            ("/proc/kcore", "process"),
            ("me", "process"),
            ("/proc/self/status", "open"),
            ("/proc/meminfo", "open"),
        ],
    );
}

#[test]
fn p29_a_second_name_of_our_file_is_our_file() {
    let disk = disk()
        .hard_link(
            "/home/maria/desk/notes/twin",
            "/home/maria/.local/share/countersign/executor.json",
        )
        .hard_link(
            "/home/maria/desk/notes/store",
            "/home/maria/.local/share/countersign/state.db",
        )
        .file("/home/maria/desk/notes/x")
        .hard_link("/home/maria/desk/notes/y", "/home/maria/desk/notes/x");
    let cases = [
        ("notes/twin", "holding"),
        ("notes/store", "holding"),
        ("notes/y", "open"),
    ];
    check(&disk, Effect::Write, &cases);
    let cases = [
        ("notes/twin", "open"),
        ("notes/store", "holding"),
        ("notes/y", "open"),
    ];
    check(&disk, Effect::Read, &cases);
}

#[test]
fn d10_letters_of_another_case_where_the_disk_takes_them_for_the_same() {
    let folding = disk().folding();
    let cases = [
        ("/home/maria/.LOCAL/Share/Countersign/x", "holding"),
        (
            "/HOME/MARIA/.local/share/countersign/executor.json",
            "holding",
        ),
        ("/home/maria/.config/Countersign-App/x", "open"),
    ];
    check(&folding, Effect::Write, &cases[..2]);
    // What is not there has no identity, so its letters decide, and they decide without case.
    check(
        &disk(),
        Effect::Write,
        &[("/home/maria/.config/Countersign-App/x", "holding")],
    );
    check(&disk(), Effect::Write, &[(cases[0].0, "open")]);
}

#[test]
fn windows_forms() {
    let disk = Disk::of(Style::Windows)
        .home("C:\\Users\\Maria")
        .folder("C:\\Users\\Maria\\AppData\\Roaming\\countersign")
        .link("C:\\Users\\MARIA~1", "Maria");
    let holdings = [Holding {
        whose: "the executor",
        root: "C:\\Users\\Maria\\AppData\\Roaming\\countersign".to_string(),
        closed: Closed::All,
    }];
    let protect = Protect {
        files: &disk,
        holdings: &holdings,
        bases: &["C:\\Users\\Maria\\Documents".to_string()],
        declared: &[Declared {
            pointer: "/p".to_string(),
            effect: Effect::Write,
        }],
        effect: Effect::Write,
    };
    for (text, open) in [
        ("a.txt", true),
        ("D:\\x\\y", true),
        ("c:/users/maria/appdata/roaming/COUNTERSIGN/x", false),
        ("..\\AppData/Roaming\\countersign", false),
        ("\\Users\\Maria\\AppData\\Roaming\\countersign", false),
        (
            "C:\\Users\\MARIA~1\\AppData\\Roaming\\countersign\\x",
            false,
        ),
        (
            "file:///C:/Users/Maria/AppData/Roaming/countersign/x",
            false,
        ),
        ("~\\AppData\\Roaming\\countersign\\x", false),
        ("%USERPROFILE%\\AppData\\Roaming\\countersign\\x", false),
        ("\\\\?\\C:\\Users", false),
        ("\\\\localhost\\C$\\Users", false),
        ("C:relative", false),
        ("a.txt:stream", false),
        ("a.txt.", false),
        ("nul", false),
        ("sub\\COM1.txt", false),
    ] {
        let arguments = serde_json::json!({"p": text}).to_string();
        assert_eq!(protect.check(arguments.as_bytes()).is_ok(), open, "{text}");
    }
}

#[test]
fn step7_without_declarations_every_string_counts() {
    let disk = disk();
    for (text, want) in [
        ("hello, ~5 files in /", "open"),
        ("/", "open"),
        ("SELECT * FROM notes; -- ../x", "open"),
        ("~/.local/share/countersign/executor.json", "holding"),
        (
            "sqlite:////home/maria/.local/share/countersign/state.db",
            "holding",
        ),
        ("/home/maria/.local/share/countersign/x\0.png", "holding"),
    ] {
        assert_eq!(verdict(&disk, None, Effect::Write, text), want, "`{text}`");
    }
    assert_eq!(
        verdict(
            &disk,
            None,
            Effect::Read,
            "~/.local/share/countersign/executor.json"
        ),
        "open"
    );
    let declared = [];
    let protect = Protect {
        files: &disk,
        holdings: &holdings(),
        bases: &[],
        declared: &declared,
        effect: Effect::Write,
    };
    let nested = br#"{"files":[{"/home/maria/.local/share/countersign/x":"content"}]}"#;
    let trespass = protect.check(nested).unwrap_err();
    assert!(
        trespass.pointer.starts_with("/files/0/"),
        "{}",
        trespass.pointer
    );
}

#[test]
fn step7_a_refusal_never_says_where_a_link_leads() {
    let disk = disk()
        .link("/home/maria/desk/in", OURS)
        .link("/home/maria/desk/far", "/hidden/place")
        .unreadable("/hidden/place");
    let protect = Protect {
        files: &disk,
        holdings: &holdings(),
        bases: &[WORK.to_string()],
        declared: &[Declared {
            pointer: "/p".to_string(),
            effect: Effect::Write,
        }],
        effect: Effect::Write,
    };
    let refusal = protect
        .check(br#"{"p":"in/x"}"#)
        .unwrap_err()
        .refusal("write_file");
    let document = refusal.document("r1").to_string();
    assert!(
        document.contains("in/x") && !document.contains("share/"),
        "{document}"
    );
    let refusal = protect
        .check(br#"{"p":"far/x"}"#)
        .unwrap_err()
        .refusal("write_file");
    let document = refusal.document("r1").to_string();
    assert!(
        document.contains("far/x") && !document.contains("hidden"),
        "{document}"
    );
}

#[test]
fn step7_a_holding_that_cannot_be_found_closes_everything() {
    let disk = disk().unreadable("/home/maria/.config");
    check(&disk, Effect::Write, &[("notes/a.md", "unknown")]);
}

#[test]
fn pointers_are_picked() {
    let arguments = br#"{"a/b":[{"p":"x"},{"p":"y"}],"c":{"m":1},"n":null}"#;
    for (pointer, want) in [
        (
            "/a~1b/*/p",
            vec![("/a~1b/0/p", r#""x""#), ("/a~1b/1/p", r#""y""#)],
        ),
        ("/a~1b/1/p", vec![("/a~1b/1/p", r#""y""#)]),
        ("/c/*", vec![("/c/m", "1")]),
        ("/n", vec![("/n", "null")]),
        ("/n/*", vec![]),
        ("/none/*/p", vec![]),
    ] {
        let got: Vec<(String, String)> = pick(arguments, pointer)
            .into_iter()
            .map(|picked| {
                (
                    picked.pointer,
                    String::from_utf8_lossy(picked.value).into_owned(),
                )
            })
            .collect();
        let want: Vec<(String, String)> = want
            .into_iter()
            .map(|(pointer, value)| (pointer.to_string(), value.to_string()))
            .collect();
        assert_eq!(got, want, "{pointer}");
    }
}
