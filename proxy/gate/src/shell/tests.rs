//! The scans of a shell command, by their checklist numbers.

use super::*;
use crate::paths::memory::Disk;
use crate::paths::{Closed, Declared, Effect, Files, Holding, Place, Protect, Style};

const WORK: &str = "/data/space";

fn disk() -> Disk {
    Disk::new()
        .home("/home/maria")
        .folder("/data/space/src")
        .file("/data/space/README.md")
        .folder("/data/space/.countersign/book")
        .file("/data/space/.countersign/secrets.enc")
        .file("/data/space/.countersign/a")
        .folder("/data/space/.countersign-notes")
        .folder("/elsewhere")
        .link("/data/space/outside-link", "/elsewhere")
        .link("/data/space/inside-link", "src")
}

fn line(text: &str) -> Command {
    Command {
        pointer: "/command".to_string(),
        text: Text::Line(text.to_string()),
    }
}

fn place(text: &str) -> Place {
    Place::parse(text, Style::Unix).unwrap()
}

/// The evidence scan's verdict.
fn reaches(disk: &dyn Files, text: &str) -> bool {
    let protect = Protect {
        files: disk,
        holdings: &[Holding {
            whose: "the executor",
            root: "/data/space/.countersign".to_string(),
            closed: Closed::Below(vec!["secrets*".to_string()]),
        }],
        bases: &[WORK.to_string()],
        declared: &[Declared {
            pointer: "/command".to_string(),
            effect: Effect::Command,
        }],
        effect: Effect::Write,
    };
    let arguments = serde_json::json!({"command": text}).to_string();
    protect.check(arguments.as_bytes()).is_err()
}

#[test]
fn p31_commands_that_reach_the_protected_folder() {
    for text in [
        "rm -rf .countersign",
        "(rm -rf .countersign)",
        "env rm -rf .countersign",
        "python -c \"import shutil; shutil.rmtree('.countersign')\"",
        "echo x >.countersign/a",
        "echo x >> .countersign/a",
        "echo x 2>.countersign/a",
        "find . -exec rm {} +",
        "find -H / -delete",
        "find -delete",
        "find . -fprint .x",
        "git -C . clean -fdx",
        "git clean -fdX",
        "git --work-tree=. clean -xf",
        "cat .countersign/a > copy",
        "tee .countersign/a",
        "rm -rf .counter*",
        "rm -rf ./.c?untersign",
        "rm -rf ../space",
        "rm -rf /",
        "mv . /elsewhere",
        "cp x .countersign/a",
        "sed -i s/a/b/ .countersign/a",
        "cat .countersign/secrets.enc",
        "cat ./.countersign/../.countersign/secrets.enc",
        "head .countersign/'secrets.enc'",
        "cat /proc/self/environ",
        "cat </proc/1/environ",
        "true; rm -rf src/../.countersign",
        "dd of=.countersign/a",
        "tar -C/data/space/.countersign -x",
    ] {
        assert!(reaches(&disk(), text), "`{text}`");
    }
    for text in [
        "ls .countersign/book",
        "find .countersign -print",
        "git clean -ndx",
        "git clean --dry-run -fdx",
        "git clean -fd",
        "cat .countersign-notes/x > y",
        "find -H /elsewhere -delete",
        "cat .countersign/a",
        "rm -rf src",
        "mv README.md .",
        "rm *",
        "echo countersign",
        "make test",
    ] {
        assert!(!reaches(&disk(), text), "`{text}`");
    }
}

#[test]
fn p31_a_list_of_words_is_scanned_as_it_is() {
    let check = |words: serde_json::Value| {
        let protect = Protect {
            files: &disk(),
            holdings: &[Holding {
                whose: "the executor",
                root: "/data/space/.countersign".to_string(),
                closed: Closed::All,
            }],
            bases: &[],
            declared: &[
                Declared {
                    pointer: "/cmd".to_string(),
                    effect: Effect::Command,
                },
                Declared {
                    pointer: "/args".to_string(),
                    effect: Effect::Command,
                },
                Declared {
                    pointer: "/cwd".to_string(),
                    effect: Effect::Folder,
                },
            ],
            effect: Effect::Write,
        };
        protect.check(words.to_string().as_bytes()).is_err()
    };
    assert!(check(
        serde_json::json!({"cmd": "rm", "args": ["-r", "space/.countersign"], "cwd": "/data"})
    ));
    assert!(check(
        serde_json::json!({"cmd": "make", "cwd": "/data/space/.countersign"})
    ));
    assert!(check(
        serde_json::json!({"cmd": "sh", "args": ["-c", "rm -r .countersign"], "cwd": "/data/space"})
    ));
    assert!(!check(
        serde_json::json!({"cmd": "rm", "args": ["-r", "src"], "cwd": "/data/space"})
    ));
}

#[test]
fn p48_the_token_scan() {
    for (text, want) in [
        ("ls src", None),
        ("/bin/cat README.md", Some("/bin/cat")),
        ("cat ../x", Some("../x")),
        ("cat '..'/outside.txt", Some("'..'/outside.txt")),
        (
            "cat outside-link/missing.txt",
            Some("outside-link/missing.txt"),
        ),
        ("cat outside-link/*.txt", Some("outside-link/*.txt")),
        ("cat inside-link/x", None),
        ("cat /data/space/README.md", None),
        ("cat /data/spaces/x", Some("/data/spaces/x")),
        ("cat ~/x", Some("~/x")),
        ("cat ~", Some("~")),
        ("cat ~root/x", Some("~root/x")),
        ("cat $HOME", Some("$HOME")),
        ("cat ${HOME}/x", Some("${HOME}/x")),
        ("cat \"$HOME\"/x", Some("\"$HOME\"/x")),
        ("cat $HOMES", None),
        ("TMPDIR=/tmp make test", None),
        ("A=/x B=/y make test", None),
        ("echo ok FOO=/outside", Some("FOO=/outside")),
        ("true && PREFIX=/usr/local ./configure", None),
        ("true; P=/usr ./c", None),
        ("true || P=/usr ./c", None),
        ("true | P=/usr ./c", None),
        ("true\nP=/usr ./c", None),
        ("true & P=/usr ./c", Some("P=/usr")),
        ("make --prefix=/usr", Some("--prefix=/usr")),
        ("echo x >/elsewhere/y", Some("/elsewhere/y")),
        ("P=/x >/elsewhere/y", Some("/elsewhere/y")),
        ("make 2>/dev/null", None),
        ("make >/dev/nullx", Some("/dev/nullx")),
        ("cat </etc/passwd", Some("/etc/passwd")),
        ("cat \\/etc/passwd", Some("\\/etc/passwd")),
        ("V=/outside cmd $V", None),
        ("git log main..HEAD", None),
        ("cat -", None),
    ] {
        let got = outside(&line(text), &place(WORK), &place(WORK), &disk());
        assert_eq!(got.as_deref(), want, "`{text}`");
    }
    let list = Command {
        pointer: String::new(),
        text: Text::List(vec!["cat".to_string(), "/etc/passwd".to_string()]),
    };
    let got = outside(&list, &place(WORK), &place(WORK), &disk());
    assert_eq!(got.as_deref(), Some("/etc/passwd"));
}

#[test]
fn p48_a_linked_workspace_is_inside_itself() {
    let disk = disk().link("/ws", WORK);
    for text in ["cat /ws/README.md", "cat README.md", "cat /data/space/src"] {
        assert_eq!(
            outside(&line(text), &place("/ws"), &place("/ws"), &disk),
            None,
            "{text}"
        );
    }
}

#[test]
fn p46_the_safe_list() {
    for text in [
        "ls -la src",
        "cat README.md",
        " pwd ",
        "grep -rn foo src",
        "grep 'a$' src/x",
        "rg --files",
        "head -n 5 x",
        "head -20 x",
        "wc -l x",
        "date",
        "date +%F",
        "sort -k2,2 -r x",
        "uniq -c x",
        "diff -u a b",
        "tree -L 2",
        "cat ./*.md",
        "echo 'a{b}'",
        "cat -- -x",
    ] {
        assert!(is_safe(text, List::Bounded), "`{text}`");
    }
    for text in [
        "",
        "rm x",
        "ls src\nrm -rf src",
        "ls\rrm x",
        "ls & rm x",
        "ls; rm x",
        "ls > x",
        "ls >> x",
        "cat < x",
        "grep x f | head",
        "echo `rm x`",
        "echo $(rm x)",
        "cat $X",
        "cat a/../b",
        "cat \"..\"/b",
        "cat {a,b}",
        "cat a\\ b",
        "echo 'open",
        "find .",
        "env",
        "git status",
        "find . -delete",
    ] {
        assert!(!is_safe(text, List::Bounded), "`{text}`");
    }
}

#[test]
fn d6_options_that_write_or_run_are_not_safe() {
    for text in [
        "sort -o .env README.md",
        "sort -uo x y",
        "sort --output=x y",
        "sort --compress-program=sh x",
        "sort -T /x y",
        "uniq in out",
        "tree -o f",
        "tree -R -H x",
        "rg --pre cmd x",
        "rg -z x",
        "date -s 12:00",
        "date 010100002030",
        "date --set=x",
        "file -C x",
        "diff -l a b",
        "tail -f x",
        "sort *",
        "cat ?x",
    ] {
        for list in [List::Bounded, List::Reading] {
            assert!(!is_safe(text, list), "`{text}`");
        }
    }
    for text in [
        "git -C . push",
        "git --no-pager commit",
        "git restore x",
        "git stash",
        "git config a b",
        "git branch -D x",
        "git diff --output=f",
        "git grep -O x",
        "git worktree add x",
        "git show --textconv x",
        "find -fprint f",
        "find . -ok rm",
        "env -Srm\\_-rf",
        "env rm x",
        "env A=b ls",
        "env -i ls",
    ] {
        assert!(!is_safe(text, List::Reading), "`{text}`");
    }
    for text in [
        "git status",
        "git log main..HEAD",
        "git diff a b",
        "find . -name x -print",
        "env",
        "env ls -l",
    ] {
        assert!(is_safe(text, List::Reading), "`{text}`");
    }
}
