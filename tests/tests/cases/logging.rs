//! LOG: what children print where it does not belong, and what a person gets to see of it.

use countersign_tests::client::{is_response, refusal, text};
use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use serde_json::{Value, json};

#[test]
fn log_9_11_13_14_noise_on_stdout_costs_nothing_and_is_kept_by_name() {
    for (report, banner) in [
        (9, "Server ready on stdio"),
        (11, "info: Microsoft.Hosting.Lifetime[0]"),
        (13, "\u{1F680} Starting \u{1F9EA}"),
        (14, "1.2.3"),
        (14, "{\"level\":\"info\"}"),
        (9, "[1,2,3]"),
        (9, "\"text\""),
        (9, ""),
    ] {
        let (world, _) = Hostile::world(&json!({"banner": [banner]}));
        let mut client = world.connect();
        let answer = client.call("noise", &json!({"text": banner}));
        assert_eq!(text(&answer), "after the noise", "report {report}");
        client.fence();
        for line in client.seen() {
            let message: Value = serde_json::from_slice(line).expect("only JSON on stdout");
            assert_eq!(message["jsonrpc"], "2.0", "report {report}: {message}");
        }
        assert!(client.close().success());
        if banner.chars().any(char::is_alphabetic) {
            assert!(
                world.logs().contains(banner),
                "report {report}: {banner:?} is not in {}",
                world.logs()
            );
        }
    }
}

#[test]
fn log_10_noise_is_logged_under_the_name_of_its_server() {
    let world = World::new();
    for name in ["quiet", "noisy"] {
        let banner = if name == "noisy" {
            json!(["only noisy says this"])
        } else {
            json!([])
        };
        let hostile = Hostile::new(&world, name, &json!({"banner": banner}));
        world.server(name, &hostile.command);
    }
    world.agent("a");
    for name in ["quiet", "noisy"] {
        let mut client = world.run("a", name);
        client.initialize();
        client.fence();
        client.close();
    }
    let logs = world.logs();
    let at = logs
        .find("only noisy says this")
        .expect("the noise is in the log");
    let file = logs[..at]
        .rfind(":\n")
        .map(|end| &logs[..end])
        .expect("a file's name");
    assert!(
        file.ends_with("noisy.log") || file.contains("noisy"),
        "under another name: {logs}"
    );
}

#[test]
fn log_13_bytes_that_are_no_text_on_stdout() {
    // 0xFF 0xFE, a lone continuation byte, a cut four-byte character, each on a line.
    let (world, _) = Hostile::world(&json!({"banner_raw": "//4KgArwn5oK"}));
    let mut client = world.connect();
    client.fence();
    assert_eq!(client.seen().len(), 2);
}

#[test]
fn log_15_16_a_child_that_fills_stderr_is_never_blocked() {
    let (world, _) = Hostile::world(&json!({"stderr_bytes": 262_144}));
    let mut client = world.connect();
    for _ in 0..4 {
        assert_eq!(
            text(&client.call("stderr", &json!({"n": 262_144}))),
            "wrote"
        );
    }
    // One line without end, too.
    assert_eq!(
        text(&client.call("stderr", &json!({"n": 1_000_000}))),
        "wrote"
    );
    assert!(client.seen().iter().all(|line| {
        serde_json::from_slice::<Value>(line).is_ok_and(|message| is_response(&message))
    }));
    assert!(client.close().success());
}

#[test]
fn log_19_two_servers_at_once_keep_their_own_logs() {
    let world = World::new();
    for name in ["one", "two"] {
        let hostile = Hostile::new(
            &world,
            name,
            &json!({"stderr_first": format!("words of {name}")}),
        );
        world.server(name, &hostile.command);
    }
    world.agent("a");
    let mut clients: Vec<_> = ["one", "two"]
        .iter()
        .map(|name| world.run("a", name))
        .collect();
    for client in &mut clients {
        client.initialize();
        client.fence();
    }
    for (client, (own, other)) in clients.into_iter().zip([("one", "two"), ("two", "one")]) {
        let (status, stderr) = client.close_with_stderr();
        assert!(status.success());
        let line = stderr
            .lines()
            .find(|line| line.contains(&format!("words of {own}")))
            .unwrap_or_else(|| panic!("the child's words are not on stderr: {stderr}"));
        assert!(
            line.find(own) < line.find("words of"),
            "no name in front: {line}"
        );
        assert!(!stderr.contains(&format!("words of {other}")));
    }
}

#[test]
fn log_20_21_a_child_that_dies_leaves_its_last_words_to_the_person() {
    for (report, script) in [
        (20, "echo 'FATAL: no API key given' >&2; exit 1"),
        (
            21,
            "echo 'npm error 404 Not Found - no-such-package' >&2; exit 1",
        ),
    ] {
        let words = script.split('\'').nth(1).expect("quoted words");
        let world = World::of(&["sh".into(), "-c".into(), script.into()]);
        let mut client = world.run("a", "s");
        let answer = client.initialize();
        let told = refusal(&answer)
            .unwrap_or_else(|| panic!("report {report}: initialize went through: {answer}"));
        assert!(
            !told.contains(words),
            "report {report}: the agent gets the server's own words: {told}"
        );
        assert!(told.contains('s'), "names the server");
        let (_, stderr) = client.close_with_stderr();
        let seen = format!("{stderr}{}", world.logs());
        assert!(
            seen.contains(words),
            "report {report}: nowhere to be read: {seen}"
        );
        let check = world.fails(&["server", "check", "s"]);
        assert!(
            check.all().contains(words),
            "report {report}: `server check` says only {check:?}"
        );
    }
}

#[test]
fn log_21_a_command_that_does_not_exist_is_named() {
    let world = World::of(&["no-such-command-anywhere".into()]);
    let mut client = world.run("a", "s");
    let answer = client.initialize();
    assert!(refusal(&answer).is_some(), "{answer}");
    let (_, stderr) = client.close_with_stderr();
    let check = world.fails(&["server", "check", "s"]);
    assert!(
        check.all().contains("no-such-command-anywhere"),
        "{check:?}"
    );
    assert!(
        format!("{stderr}{}", world.logs()).contains("no-such-command-anywhere"),
        "{stderr}"
    );
}
