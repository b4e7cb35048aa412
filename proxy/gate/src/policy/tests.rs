//! The write policy by its checklist numbers (P), edge cases (e) and repaired defects (d).

use countersign_permission::Kind;
use proptest::prelude::{Strategy, prop, prop_assert, proptest};
use serde_json::{Value, json};

use super::*;
use crate::paths::memory::Disk;
use crate::paths::{Declared, Effect};
use crate::refusal::Code;

const WORK: &str = "/data/space";

fn policy(allow: &[&str], deny: &[&str]) -> Policy {
    Policy::from_value(
        &json!({"version": 1, "metadata": {"id": "p"}, "allow_writes": allow, "deny_writes": deny}),
    )
    .unwrap()
}

fn disk() -> Disk {
    Disk::new()
        .home("/home/maria")
        .file("/data/space/src/main.rs")
        .file("/data/space/docs/a.md")
        .file("/data/space/tree/one.txt")
        .file("/data/space/tree/.env.local")
        .folder("/data/space/clean/deep")
        .file("/data/space/clean/deep/x.txt")
        .folder("/data/space/closed")
        .link("/data/space/link", "src")
        .link("/data/space/src/leaf", "main.rs")
        .link("/data/space/out", "/elsewhere")
        .unreadable("/data/space/src/locked")
        .other("/data/space/src/pipe")
        .file("/data/space/src/twin")
        .hard_link("/data/space/src/twin2", "/data/space/src/twin")
        .file("/elsewhere/x")
}

fn declared(list: &[(&str, Effect)]) -> Vec<Declared> {
    list.iter()
        .map(|(pointer, effect)| Declared {
            pointer: (*pointer).to_string(),
            effect: *effect,
        })
        .collect()
}

fn judged(disk: &Disk, policy: &Policy, list: &[(&str, Effect)], arguments: &Value) -> Judgement {
    let judge = Judge {
        files: disk,
        policy,
        workspace: WORK,
        tool: "write_file",
        kind: Kind::Write,
        declared: &declared(list),
    };
    judge.judge(arguments.to_string().as_bytes())
}

fn write(policy: &Policy, path: &str) -> Judgement {
    judged(
        &disk(),
        policy,
        &[("/path", Effect::Write)],
        &json!({"path": path, "content": "x"}),
    )
}

fn denied(judgement: Judgement) -> Denial {
    match judgement {
        Judgement::Denied(denial) => *denial,
        other => panic!("{other:?}"),
    }
}

/// Every path with the class of the rule that refuses it, or `ok`.
fn check(policy: &Policy, cases: &[(&str, &str, &str)]) {
    for (path, rule, matched) in cases {
        match write(policy, path) {
            Judgement::Allowed(_) => assert_eq!(*rule, "ok", "`{path}`"),
            Judgement::Denied(denial) => {
                assert_eq!(
                    (denial.rule(), denial.matched_rule()),
                    (*rule, *matched),
                    "`{path}`"
                );
                assert!(denial.strikes(), "`{path}`");
                assert_eq!(denial.facts()["requested_path"], *path);
            }
            other => panic!("`{path}`: {other:?}"),
        }
    }
}

#[test]
fn p33_the_loader_names_what_is_wrong() {
    for (document, want) in [
        (json!([]), "policy: expected an object, not a list"),
        (
            json!({"version": 2, "allow_writes": []}),
            "version: `2` is not supported; it is 1",
        ),
        (
            json!({"version": "1", "allow_writes": []}),
            "version: `\"1\"` is not supported",
        ),
        (json!({"allow_writes": []}), "version: is missing"),
        (json!({"version": 1}), "allow_writes: is missing"),
        (
            json!({"version": 1, "allow_writes": "src/**"}),
            "allow_writes: expected a list of rules",
        ),
        (
            json!({"version": 1, "allow_writes": [7]}),
            "allow_writes[0]: expected a text",
        ),
        (
            json!({"version": 1, "allow_writes": [], "bash": "disabled"}),
            "bash: no such member",
        ),
        (
            json!({"version": 1, "allow_writes": [], "metadata": {"id": 7}}),
            "metadata.id: expected a text",
        ),
        (
            json!({"version": 1, "allow_writes": [], "metadata": []}),
            "metadata: expected an object",
        ),
        (
            json!({"version": 1, "allow_writes": [], "shell": "on"}),
            "shell: expected `disabled`",
        ),
        (
            json!({"version": 1, "allow_writes": vec!["a"; 101]}),
            "allow_writes: 101 rules; at most 100",
        ),
        (
            json!({"version": 1, "allow_writes": [], "deny_writes": vec!["a"; 101]}),
            "deny_writes: 101 rules; at most 100",
        ),
    ] {
        let error = Policy::from_value(&document).unwrap_err().to_string();
        assert!(error.starts_with(want), "{error}");
    }
    let twice = br#"{"version":1,"allow_writes":["a"],"allow_writes":["**/*"]}"#;
    assert!(
        Policy::parse(twice)
            .unwrap_err()
            .reason
            .contains("strict JSON")
    );
    assert!(Policy::parse(br#"{"version":1,"allow_writes":[]}"#).is_ok());
}

#[test]
fn p33_d8_rules_outside_the_grammar_or_without_a_match_are_refused_by_path() {
    for rule in [
        "",
        "  ",
        "/abs",
        "C:/x",
        "..",
        "a/../b",
        "a/",
        "*",
        "**",
        "src/*",
        "src/*.rs",
        "src/**/x",
        "**/*.rs",
        "**/x*/**",
        "**/",
        "a//",
        "**/a/b",
        "**/a/b/**",
        "src/./a",
        ".",
        "**/**",
        "~/x",
        "a\\b",
        "**/.",
        "a*b",
        "**/a*b*",
        "./",
        "a\u{0}b",
    ] {
        let document = json!({"version": 1, "allow_writes": ["ok"], "deny_writes": ["fine", rule]});
        let error = Policy::from_value(&document).unwrap_err();
        assert_eq!(error.path, "deny_writes[1]", "`{rule}`");
        assert!(!error.reason.is_empty());
    }
    for (written, text) in [
        ("  ./././a//b ", "a/b"),
        ("**/*", "**/*"),
        ("a/**", "a/**"),
        ("**/.env*", "**/.env*"),
        ("**/x/**", "**/x/**"),
    ] {
        assert_eq!(Rule::parse(written).unwrap().text(), text);
    }
}

#[test]
fn p34_the_implicit_denials_are_always_there_and_first() {
    let metadata = policy(&["**/*"], &["a", "a", ".git/**", "b"]).metadata();
    let want = json!([
        ".countersign/**",
        ".git/**",
        "**/.env*",
        "**/secrets/**",
        "a",
        "b"
    ]);
    assert_eq!(metadata["deny_writes"], want);
}

#[test]
fn p35_deny_beats_allow_and_forgets_the_case_of_letters() {
    assert!(Rule::parse("src/**").unwrap().allows(&["src".to_string()]));
    let policy = policy(&["src/**", "Docs/**"], &["src/private/**", "**/Key.pem"]);
    check(
        &policy,
        &[
            ("src/a", "ok", ""),
            ("SRC/a", "no_allow_match", "no_allow_match"),
            ("docs/a.md", "no_allow_match", "no_allow_match"),
            ("src/private/a", "deny_match", "src/private/**"),
            ("src/Private/a", "deny_match", "src/private/**"),
            ("SRC/PRIVATE/a", "deny_match", "src/private/**"),
            ("src/KEY.PEM", "deny_match", "**/Key.pem"),
            ("src/key.pem/x", "deny_match", "**/Key.pem"),
        ],
    );
}

#[test]
fn p36_names_match_the_leaf_for_allow_and_any_segment_for_deny() {
    check(
        &policy(&["**/config", "**/gen*", "**/open/**"], &[]),
        &[
            ("a/config", "ok", ""),
            ("a/config/x", "no_allow_match", "no_allow_match"),
            ("a/generated", "ok", ""),
            ("generated/a", "no_allow_match", "no_allow_match"),
            ("a/open", "ok", ""),
            ("open/a/b", "ok", ""),
        ],
    );
    check(
        &policy(&["**/*"], &["**/config", "**/gen*"]),
        &[
            ("a/config/x", "deny_match", "**/config"),
            ("Generated/x", "deny_match", "**/gen*"),
            ("a/b", "ok", ""),
        ],
    );
}

#[test]
fn p37_e2_d9_built_in_names_in_any_case_and_any_folder() {
    check(
        &policy(&["**/*"], &[]),
        &[
            (".countersign/x", "protected_path", ".countersign/**"),
            (".COUNTERSIGN/x", "protected_path", ".countersign/**"),
            (".countersign", "protected_path", ".countersign/**"),
            (".Git/config", "protected_path", ".git/**"),
            ("vendor/.git/hooks/x", "protected_path", "**/.git/**"),
            (".env", "protected_path", "**/.env*"),
            ("src/.ENV.local", "protected_path", "**/.env*"),
            ("src/Secrets/k", "protected_path", "**/secrets/**"),
            (".gitignore", "ok", ""),
            ("src/secretsx", "ok", ""),
        ],
    );
}

#[test]
fn p38_p39_p40_e1_e3_where_a_target_lies() {
    let all = policy(&["**/*", "link/**"], &[]);
    check(
        &all,
        &[
            (
                ".",
                "workspace_root_not_writable",
                "workspace_root_not_writable",
            ),
            (
                "src/..",
                "workspace_root_not_writable",
                "workspace_root_not_writable",
            ),
            (
                WORK,
                "workspace_root_not_writable",
                "workspace_root_not_writable",
            ),
            (
                "../escape.txt",
                "path_outside_workspace",
                "path_outside_workspace",
            ),
            (
                "/etc/passwd",
                "path_outside_workspace",
                "path_outside_workspace",
            ),
            (
                "/data/spaces/x",
                "path_outside_workspace",
                "path_outside_workspace",
            ),
            ("~/x", "path_outside_workspace", "path_outside_workspace"),
            (
                "file:///etc/passwd",
                "path_outside_workspace",
                "path_outside_workspace",
            ),
            ("/data/space/src/new.rs", "ok", ""),
            ("file:///data/space/src/new.rs", "ok", ""),
            ("docs/../src/new.rs", "ok", ""),
            ("link/x", "symlink_path_component", "symlink_path_component"),
            (
                "src/leaf",
                "symlink_path_component",
                "symlink_path_component",
            ),
            ("out/x", "symlink_path_component", "symlink_path_component"),
            (
                "out/../src/x",
                "symlink_path_component",
                "symlink_path_component",
            ),
            (
                "src/locked/x",
                "path_not_inspectable",
                "path_not_inspectable",
            ),
            ("src/pipe", "path_not_inspectable", "path_not_inspectable"),
            ("src/twin", "path_not_inspectable", "path_not_inspectable"),
            ("a\0b", "path_not_inspectable", "path_not_inspectable"),
            ("~root/x", "path_not_inspectable", "path_not_inspectable"),
        ][..18],
    );
    for odd in ["a\0b", "~root/x"] {
        assert_eq!(denied(write(&all, odd)).rule(), "path_not_inspectable");
    }
    let link = denied(write(&all, "link/deep/out.txt"));
    let facts = link.facts();
    assert_eq!(
        (
            link.aim(),
            &facts["symlink_component"],
            &facts["normalized_path"]
        ),
        ("link/deep/out.txt", &json!("link"), &json!("link"))
    );
    assert_eq!(
        link.actions(),
        ["write_to_real_workspace_paths", "request_policy_expansion"]
    );
    let locked = denied(write(&all, "src/locked/x"));
    assert_eq!(locked.facts()["uninspectable_component"], "src/locked");
    assert_eq!(locked.refusal().context["reason"], "permission denied");
    assert_eq!(denied(write(&all, ".")).facts()["normalized_path"], ".");
    assert!(
        !denied(write(&all, "../x"))
            .facts()
            .contains_key("normalized_path")
    );
}

#[test]
fn p38_the_workspace_may_be_a_link_itself_and_be_named_either_way() {
    let disk = disk().link("/ws", WORK);
    let policy = policy(&["src/**"], &[]);
    let list = declared(&[("/path", Effect::Write)]);
    for path in ["src/x", "/ws/src/x", "/data/space/src/x", "../ws/src/x"] {
        let judge = Judge {
            files: &disk,
            policy: &policy,
            workspace: "/ws",
            tool: "t",
            kind: Kind::Write,
            declared: &list,
        };
        let judgement = judge.judge(json!({"path": path}).to_string().as_bytes());
        // `../ws` from the link's own folder and from the real one are two things.
        match (path, judgement) {
            (_, Judgement::Allowed(judged)) => {
                assert_eq!(
                    (judged[0].absolute.as_str(), judged[0].normalized.as_str()),
                    ("/data/space/src/x", "src/x")
                );
                assert_ne!(path, "../ws/src/x");
            }
            ("../ws/src/x", Judgement::Denied(denial)) => {
                assert_eq!(denial.rule(), "symlink_path_component")
            }
            (path, other) => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn spellings_that_a_server_may_take_for_another_path_are_judged_as_both() {
    let policy = policy(&["**/*"], &["notes/private.txt"]);
    for path in [
        " notes/private.txt ",
        "'notes/private.txt'",
        "\"notes/private.txt\" ",
        "./notes//private.txt/",
        "NOTES/Private.txt",
    ] {
        assert_eq!(
            denied(write(&policy, path)).rule(),
            "deny_match",
            "`{path}`"
        );
    }
}

#[test]
fn d10_letters_of_another_case_on_a_folding_disk() {
    let folding = Disk::new().file("/data/space/src/a").folding();
    let list = [("/path", Effect::Write)];
    let policy = policy(&["src/**"], &[]);
    let same = judged(
        &folding,
        &policy,
        &list,
        &json!({"path": "/DATA/Space/src/a"}),
    );
    assert!(matches!(same, Judgement::Allowed(_)), "{same:?}");
    let other = judged(
        &disk(),
        &policy,
        &list,
        &json!({"path": "/DATA/Space/src/a"}),
    );
    assert_eq!(denied(other).rule(), "path_outside_workspace");
}

#[test]
fn p25_p73_malformed_calls_are_no_denial() {
    let policy = policy(&["**/*"], &[]);
    let list = [("/path", Effect::Write), ("/more/*", Effect::Write)];
    for arguments in [
        json!({}),
        json!({"path": ""}),
        json!({"path": "  "}),
        json!({"path": 7}),
        json!({"path": null}),
        json!({"path": "a", "more": [1]}),
    ] {
        let judgement = judged(&disk(), &policy, &list, &arguments);
        assert!(
            matches!(judgement, Judgement::Malformed { .. }),
            "{arguments}: {judgement:?}"
        );
    }
    let empty = judged(
        &disk(),
        &policy,
        &[("/more/*", Effect::Write)],
        &json!({"more": []}),
    );
    assert!(matches!(empty, Judgement::Malformed { .. }));
}

#[test]
fn p24_tools_nobody_declared_are_denied_and_reads_are_not_asked() {
    let policy = policy(&["**/*"], &[]);
    for list in [&[][..], &[("/path", Effect::Read)][..]] {
        let denial = denied(judged(&disk(), &policy, list, &json!({"path": "a"})));
        assert_eq!(
            (denial.rule(), denial.aim()),
            ("unsupported_mutating_tool", "write_file")
        );
        assert_eq!(denial.facts()["normalized_path"], "write_file");
        assert!(denial.strikes());
    }
    let judge = Judge {
        files: &disk(),
        policy: &policy,
        workspace: WORK,
        tool: "read_file",
        kind: Kind::Read,
        declared: &[],
    };
    assert_eq!(
        judge.judge(b"{\"path\":\"/etc/passwd\"}"),
        Judgement::NotBounded
    );
}

#[test]
fn p67_several_paths_are_all_judged_and_make_one_denial() {
    let policy = policy(
        &["src/**", "docs/**", "clean/**", "new/**"],
        &["src/private/**"],
    );
    let list = [("/source", Effect::Write), ("/destination", Effect::Write)];
    let call = |source: &str, destination: &str| {
        judged(
            &disk(),
            &policy,
            &list,
            &json!({"source": source, "destination": destination}),
        )
    };
    assert!(
        matches!(call("src/main.rs", "docs/main.rs"), Judgement::Allowed(paths) if paths.len() == 2)
    );
    let denial = denied(call("tree/one.txt", "../x"));
    assert_eq!(
        (denial.rule(), denial.aim(), denial.others.as_slice()),
        ("no_allow_match", "tree/one.txt", &["../x".to_string()][..])
    );
    assert_eq!(denial.facts()["other_paths"], json!(["../x"]));
    assert_eq!(
        denied(call("src/main.rs", ".git/hooks/x")).rule(),
        "protected_path"
    );
    let list = [("/files/*/path", Effect::Write)];
    let many =
        json!({"files": [{"path": "src/a"}, {"path": "elsewhere/b"}, {"path": "elsewhere/c"}]});
    let denial = denied(judged(&disk(), &policy, &list, &many));
    assert_eq!((denial.aim(), denial.others.len()), ("elsewhere/b", 1));
}

#[test]
fn a_folder_takes_along_what_lies_below_it() {
    let all = policy(&["**/*"], &["new/deep/**", "**/x.txt/**"]);
    let list = [("/source", Effect::Write), ("/destination", Effect::Write)];
    let call = |policy: &Policy, source: &str, destination: &str| {
        judged(
            &disk(),
            policy,
            &list,
            &json!({"source": source, "destination": destination}),
        )
    };
    let env = denied(call(&all, "tree", "other"));
    assert_eq!(
        (env.rule(), &env.facts()["normalized_path"]),
        ("protected_path", &json!("tree/.env.local"))
    );
    let open = policy(&["**/*"], &["new/deep/**", "closed/clean/**"]);
    assert!(matches!(
        call(&open, "clean", "other"),
        Judgement::Allowed(_)
    ));
    // Denied where it would come to lie.
    assert_eq!(
        denied(call(&open, "clean", "new")).matched_rule(),
        "new/deep/**"
    );
    // Into a folder that is there, under its own name.
    assert_eq!(
        denied(call(&open, "clean", "closed")).matched_rule(),
        "closed/clean/**"
    );
    let only = policy(&["clean/**", "spot"], &[]);
    assert_eq!(
        denied(call(&only, "clean", "spot")).facts()["normalized_path"],
        "spot/deep"
    );
    let create = judged(
        &disk(),
        &all,
        &[("/path", Effect::Create)],
        &json!({"path": "tree"}),
    );
    assert!(matches!(create, Judgement::Allowed(_)));
    let remove = judged(
        &disk(),
        &all,
        &[("/path", Effect::Write)],
        &json!({"path": "tree"}),
    );
    assert_eq!(denied(remove).rule(), "protected_path");
}

fn shell(policy: &Policy, arguments: &Value) -> Judgement {
    let list = [("/command", Effect::Command), ("/cwd", Effect::Folder)];
    judged(&disk(), policy, &list, arguments)
}

fn with_shell(shell: &Value) -> Result<Policy, PolicyFault> {
    Policy::from_value(&json!({"version": 1, "allow_writes": ["src/**"], "shell": shell}))
}

#[test]
fn p45_p46_p49_e4_e5_commands() {
    let policy =
        with_shell(&json!({"verify": ["mix format --check-formatted", "mix compile /etc/passwd"]}))
            .unwrap();
    for (command, want) in [
        ("ls src", "ok"),
        ("cat docs/a.md", "ok"),
        ("  mix format --check-formatted ", "ok"),
        ("mix format  --check-formatted", "shell_disabled"),
        ("mix format", "shell_disabled"),
        ("mix compile /etc/passwd", "outside_workspace"),
        ("cat ../x", "outside_workspace"),
        ("rm -rf src", "shell_disabled"),
        ("ls src\nrm -rf src", "shell_disabled"),
        ("ls src\rrm", "shell_disabled"),
        ("ls & rm x", "shell_disabled"),
        ("ls; rm x", "shell_disabled"),
        ("ls > x", "shell_disabled"),
        ("grep x f | head", "shell_disabled"),
        ("sort -o .env README.md", "shell_disabled"),
        ("find . -name x", "shell_disabled"),
        ("", "shell_disabled"),
    ] {
        match shell(&policy, &json!({"command": command})) {
            Judgement::Allowed(_) => assert_eq!(want, "ok", "`{command}`"),
            Judgement::Denied(denial) => {
                assert_eq!(denial.rule(), want, "`{command}`");
                assert_eq!(denial.strikes(), want != "shell_disabled");
                assert_eq!(denial.aim(), command);
            }
            other => panic!("`{command}`: {other:?}"),
        }
    }
    let token = denied(shell(&policy, &json!({"command": "cat '..'/outside.txt"})));
    assert_eq!(
        (&token.facts()["token"], &token.facts()["matched_rule"]),
        (&json!("'..'/outside.txt"), &json!("outside_workspace"))
    );
    let disabled = denied(shell(&policy, &json!({"command": "make"})));
    let refusal = disabled.refusal();
    assert_eq!(refusal.code, Code::ShellDisabled);
    assert_eq!(
        refusal.context["verify_commands_declared"],
        json!(["mix format --check-formatted", "mix compile /etc/passwd"])
    );
    for (arguments, want) in [
        (json!({"command": "ls", "cwd": "src"}), "ok"),
        (json!({"command": "ls", "cwd": "."}), "ok"),
        (json!({"command": "ls", "cwd": null}), "ok"),
        (json!({"command": "ls", "timeout": 5}), "ok"),
        (
            json!({"command": "cat main.rs", "cwd": "/elsewhere"}),
            "path_outside_workspace",
        ),
        (
            json!({"command": "ls", "cwd": "link"}),
            "symlink_path_component",
        ),
        (
            json!({"command": "ls", "env": {"A": "b"}}),
            "shell_disabled",
        ),
        (json!({"command": "ls", "stdin": "x"}), "shell_disabled"),
        (json!({"command": ["cat", "docs/a.md"]}), "ok"),
        (
            json!({"command": ["cat", "/etc/passwd"]}),
            "outside_workspace",
        ),
        (json!({"command": ["sh", "-c", "rm x"]}), "shell_disabled"),
        (
            json!({"command": ["mix", "format", "--check-formatted"]}),
            "ok",
        ),
    ] {
        match shell(&policy, &arguments) {
            Judgement::Allowed(_) => assert_eq!(want, "ok", "{arguments}"),
            Judgement::Denied(denial) => assert_eq!(denial.rule(), want, "{arguments}"),
            other => panic!("{arguments}: {other:?}"),
        }
    }
    assert!(matches!(
        shell(&policy, &json!({})),
        Judgement::Malformed { .. }
    ));
}

#[test]
fn p47_declared_commands_are_checked_at_load() {
    for (value, want) in [
        (json!({}), "shell.verify: is missing"),
        (json!({"verify": "x"}), "shell.verify: expected a list"),
        (
            json!({"verify": ["  "]}),
            "shell.verify[0]: expected a text",
        ),
        (
            json!({"verify": ["mix format; rm x"]}),
            "shell.verify[0]: `mix format; rm x` holds a sign",
        ),
        (
            json!({"verify": ["mix format ../x"]}),
            "shell.verify[0]: `mix format ../x` holds `..`",
        ),
        (
            json!({"verify": ["mix test"]}),
            "shell.verify[0]: `mix test` begins with none of the accepted prefixes `mix format`, `mix compile`",
        ),
        (
            json!({"verify": ["mix formatter"]}),
            "shell.verify[0]: `mix formatter` begins with none",
        ),
        (
            json!({"verify": ["pnpm typechecker"], "verify_prefixes": ["pnpm typecheck"]}),
            "shell.verify[0]: `pnpm typechecker` begins with none of the accepted prefixes `pnpm typecheck`",
        ),
        (
            json!({"verify": ["mix format"], "verify_prefixes": ["pnpm typecheck"]}),
            "shell.verify[0]: `mix format` begins with none",
        ),
        (
            json!({"verify": [], "verify_prefixes": []}),
            "shell.verify_prefixes: is empty",
        ),
        (
            json!({"verify": [], "verify_prefixes": ["a b c"]}),
            "shell.verify_prefixes[0]: expected one or two",
        ),
        (
            json!({"verify": vec!["mix format"; 9]}),
            "shell.verify: 9 of them; at most 8",
        ),
        (
            json!({"verify": [], "more": 1}),
            "shell.more: no such member",
        ),
    ] {
        let error = with_shell(&value).unwrap_err().to_string();
        assert!(error.starts_with(want), "{error}");
    }
    assert!(
        with_shell(
            &json!({"verify": ["pnpm typecheck --strict"], "verify_prefixes": ["pnpm typecheck"]})
        )
        .is_ok()
    );
}

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts
        .iter()
        .map(|text| Rule::parse(text).unwrap())
        .collect()
}

#[test]
fn p42_both_published_hashes() {
    let implicit = [".pixir/**", ".git/**", "**/.env*", "**/secrets/**"];
    let verify = Shell::Verify {
        commands: vec![
            "mix format --check-formatted".to_string(),
            "mix compile --warnings-as-errors".to_string(),
        ],
        prefixes: None,
    };
    let probe = Policy::build(
        "hash-probe".to_string(),
        rules(&["src/**"]),
        rules(&implicit),
        verify,
    );
    assert_eq!(
        probe.hash().to_string(),
        "sha256:b425fb551b5fd68fe3a3ccda136c72d1c129780e40200fea0336ca9145af7d54"
    );
    let mut deny = rules(&implicit);
    deny.extend(rules(&["src/secret.txt"]));
    let task = Policy::build(
        "task-c".to_string(),
        rules(&["src/**"]),
        deny,
        Shell::Disabled,
    );
    assert_eq!(
        task.hash().to_string(),
        "sha256:f2204dd3c43dca4a1acea65fb36391fef617b62feee48c080fec482f184fc3b7"
    );
}

#[test]
fn p42_e14_e15_metadata_is_restored_only_unaltered() {
    let wide = with_shell(&json!({"verify": ["a b"], "verify_prefixes": ["a"]})).unwrap();
    assert_eq!(Policy::from_metadata(&wide.metadata()).unwrap(), wide);
    for (member, value) in [
        ("allow_writes", json!(["**/*"])),
        ("deny_writes", json!([])),
        ("id", json!("other")),
        ("bash", json!("disabled")),
        ("hash", json!("sha256:00")),
    ] {
        let mut forged = wide.metadata();
        forged[member] = value;
        let error = Policy::from_metadata(&forged).unwrap_err();
        assert!(
            error.reason.starts_with("metadata_hash_mismatch"),
            "{member}: {error}"
        );
    }
    let narrowed = wide.narrow(&policy(&["src/a/**"], &["src/a/b"])).unwrap();
    assert_ne!(narrowed.hash(), wide.hash());
    assert_eq!(
        Policy::from_metadata(&narrowed.metadata()).unwrap(),
        narrowed
    );
}

#[test]
fn p41_p44_every_denial_has_its_facts_and_no_others() {
    let all = policy(&["src/**"], &["src/x"]);
    let denials = [
        denied(write(&all, "src/x")),
        denied(write(&all, "docs/x")),
        denied(write(&all, ".env")),
        denied(write(&all, "link/x")),
        denied(write(&all, "src/locked/a")),
        denied(write(&all, "/etc/x")),
        denied(shell(&all, &json!({"command": "cat ~/x"}))),
        denied(shell(&all, &json!({"command": "make"}))),
        denied(judged(&disk(), &all, &[], &json!({}))),
        Denial::child_override(&all, "spawn_agent"),
        Denial::not_within(&all, "spawn_agent", "**/*"),
    ];
    for denial in denials {
        let facts = denial.facts();
        for member in [
            "tool",
            "policy_id",
            "policy_hash",
            "policy_version",
            "matched_rule",
            "rule",
        ] {
            assert!(!facts[member].is_null(), "{member}: {facts:?}");
        }
        assert!(facts.keys().all(|member| FACTS.contains(&member.as_str())));
        assert!(!denial.aim().is_empty());
        let note = denial.note();
        assert_eq!((note.gate, note.policy), ("write_policy", Some(all.hash())));
        let refusal = denial.refusal();
        assert!(!refusal.next_actions.is_empty() && !denial.actions().is_empty());
        assert!(
            refusal
                .sentence
                .starts_with(&format!("`{}` was not run: ", denial.tool))
        );
    }
    let long = denied(write(&all, &"x/".repeat(3000)));
    assert!(
        long.facts()["requested_path"]
            .as_str()
            .unwrap()
            .chars()
            .count()
            <= 1025
    );
}

#[test]
fn the_sentences() {
    let all = policy(&["notes/**", "**/*"], &[]);
    let bound = policy(&["notes/**", "README.md"], &["notes/private/**"]);
    assert!(matches!(write(&all, "anything"), Judgement::Allowed(_)));
    let text = denied(write(&bound, "docs/a.md")).refusal().shown("r").text;
    assert_eq!(
        text,
        "write_policy_denied: `write_file` was not run: `docs/a.md` is not among the paths you may write. Nothing was changed. This is the first refusal of this kind in this turn; your other calls go on, but a second one ends the turn. What to do: You may write: `notes/**`, `README.md`. If the work needs this, tell the person what you wanted to write and why, and ask them to extend the policy; do not try other ways around it."
    );
}

#[test]
fn p50_d16_narrowing_is_over_what_rules_match() {
    for (outer, inner, within) in [
        ("**/*", "**/x/**", true),
        ("a/**", "a", true),
        ("a/**", "a/b/**", true),
        ("a/b/**", "a/**", false),
        ("a/**", "ab/**", false),
        ("a", "a", true),
        ("a", "a/**", false),
        ("**/pre*", "**/prefix", true),
        ("**/pre*", "**/prefix*", true),
        ("**/pre*", "a/prefix", true),
        ("**/pre*", "**/prefixdir/**", false),
        ("**/pre*", "prefix/**", false),
        ("**/d/**", "a/d/b/**", true),
        ("**/d/**", "**/d", true),
        ("**/d/**", "**/d*", false),
        ("**/n", "a/n", true),
        ("**/n", "**/n/**", false),
        ("a/**", "**/*", false),
    ] {
        let outer_rule = Rule::parse(outer).unwrap();
        assert_eq!(
            outer_rule.contains(&Rule::parse(inner).unwrap()),
            within,
            "`{inner}` in `{outer}`"
        );
    }
    let wide = policy(&["src/**"], &["src/x"]);
    let error = wide
        .narrow(&policy(&["src/a/**", "docs/**"], &[]))
        .unwrap_err();
    assert_eq!(
        (error.rule.as_str(), error.parent_allow),
        ("docs/**", vec!["src/**".to_string()])
    );
    let commands = with_shell(&json!({"verify": ["mix format"]})).unwrap();
    assert!(wide.narrow(&commands).is_err());
    assert!(commands.narrow(&policy(&["src/a"], &[])).is_ok());
}

fn names() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a", "b", "pre", "prefix", "PRE", ".env", "secrets", "n", "nn",
    ])
    .prop_map(String::from)
}

fn rule_text() -> impl Strategy<Value = String> {
    (prop::collection::vec(names(), 1..4), 0..6_usize).prop_map(|(path, form)| match form {
        0 => path.join("/"),
        1 => format!("{}/**", path.join("/")),
        2 => format!("**/{}", path[0]),
        3 => format!("**/{}*", path[0]),
        4 => format!("**/{}/**", path[0]),
        _ => "**/*".to_string(),
    })
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(4000))]

    #[test]
    fn p50_what_a_narrowed_policy_admits_the_wider_admits(
        outer in prop::collection::vec(rule_text(), 1..5),
        inner in prop::collection::vec(rule_text(), 1..12),
        denies in prop::collection::vec(rule_text(), 0..3),
        paths in prop::collection::vec(prop::collection::vec(names(), 1..5), 1..30),
    ) {
        let build = |allow: &[String], deny: &[String]| Policy::from_value(&json!({"version": 1, "allow_writes": allow, "deny_writes": deny})).unwrap();
        let wide = build(&outer, &denies);
        let inner: Vec<String> = inner.into_iter().filter(|rule| wide.narrow(&build(std::slice::from_ref(rule), &[])).is_ok()).collect();
        let narrowed = wide.narrow(&build(&inner, &[])).unwrap();
        for path in &paths {
            if matches!(narrowed.rule_on(path), Ruling::Allowed(_)) {
                prop_assert!(matches!(wide.rule_on(path), Ruling::Allowed(_)), "{path:?}");
            }
        }
    }

    #[test]
    fn what_is_allowed_lies_inside_and_is_no_protected_name(path in "[a-zA-Z./~ 'é\\\\-]{0,24}") {
        if let Judgement::Allowed(judged) = write(&policy(&["**/*"], &[]), &path) {
            for judged in judged {
                prop_assert!(judged.absolute.starts_with("/data/space/"));
                prop_assert!(!judged.normalized.split('/').any(|name| [".", "..", ""].contains(&name)));
                prop_assert!(!judged.normalized.to_lowercase().split('/').any(|name| name == ".git" || name.starts_with(".env")));
            }
        }
    }
}
