//! LIF: start, restart, end; nothing of us stays behind.

use countersign_tests::client::{refusal, text};
use countersign_tests::hostile::{Hostile, lines};
use countersign_tests::process::{alive, descendants, kill, terminate, until};
use countersign_tests::world::World;
use serde_json::json;

#[test]
fn lif_87_after_a_restart_of_the_child_the_list_is_the_same() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    let before = client.tools();
    let child = text(&client.call("pid", &json!({})))
        .parse()
        .expect("a process id");
    kill(child);
    until("the child is gone", || !alive(child));
    // The next call starts it again; it may meet the moment of the death and then says so.
    let mut answers = Vec::new();
    until("calls go through again", || {
        let answer = client.call("slow", &json!({"text": "back"}));
        let went = refusal(&answer).is_none();
        answers.push(answer);
        went
    });
    assert_eq!(client.tools(), before);
    assert_eq!(hostile.starts().len(), 2, "one restart");
    let handshakes = hostile
        .received()
        .iter()
        .filter(|line| line.contains("\"initialize\""))
        .count();
    assert_eq!(
        handshakes, 2,
        "the client's handshake was played to the new child"
    );
    assert!(client.close().success());
}

#[test]
fn lif_99_m25_a_child_that_commits_and_dies_is_not_asked_again() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    for tool in ["commit_then_die", "partial_then_die"] {
        let answer = client.call(tool, &json!({}));
        let said = refusal(&answer).unwrap_or_else(|| panic!("{tool}: {answer}"));
        assert!(
            said.contains("upstream_failed") || said.contains("unknown"),
            "{tool}: {said}"
        );
    }
    until("calls go through again", || {
        refusal(&client.call("slow", &json!({}))).is_none()
    });
    for tool in ["commit_then_die", "partial_then_die"] {
        assert_eq!(
            hostile.ran().iter().filter(|ran| *ran == tool).count(),
            1,
            "{tool} ran once"
        );
        assert_eq!(world.outcomes(tool), ["unknown"]);
    }
}

#[test]
fn lif_m25_every_call_in_flight_is_answered_once_when_the_child_dies() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    let ids: Vec<_> = (0..20)
        .map(|_| client.ask_call("wait", &json!({})))
        .collect();
    until("all calls are at the server", || hostile.ran().len() == 20);
    client.ask_call("commit_then_die", &json!({}));
    for id in &ids {
        assert!(refusal(&client.answer(id)).is_some(), "{id}");
    }
    client.fence();
    for id in &ids {
        let answers = client
            .seen()
            .iter()
            .filter(|line| String::from_utf8_lossy(line).contains(&format!("\"id\":{id},")))
            .count();
        assert_eq!(answers, 1, "answers to {id}");
    }
    assert_eq!(
        hostile.ran().iter().filter(|tool| *tool == "wait").count(),
        20,
        "nothing was sent again"
    );
    assert!(client.close().success());
    assert_eq!(world.outcomes("wait"), vec!["unknown"; 20]);
}

#[test]
fn lif_89_a_server_that_cannot_start_costs_only_itself() {
    let world = World::new();
    world.server("missing", &["no-such-command-anywhere".into()]);
    let hostile = Hostile::new(&world, "works", &json!({}));
    world.server("works", &hostile.command);
    world.agent("a");
    let mut broken = world.run("a", "missing");
    let answer = broken.initialize();
    let said = refusal(&answer).expect("an answer that says so");
    assert!(said.contains("missing"), "names the server: {said}");
    let mut works = world.run("a", "works");
    works.initialize();
    assert_eq!(text(&works.call("slow", &json!({"text": "fine"}))), "fine");
    let doctor = world.cs(&["doctor"]);
    assert!(doctor.all().contains("missing"), "{doctor:?}");
}

#[test]
fn lif_89_m26_a_server_that_never_answers_is_given_up() {
    let world = World::new();
    let hostile = Hostile::new(&world, "s", &json!({"never_initialize": true}));
    world.server("s", &hostile.command);
    world.agent("a");
    world.edit(|settings| settings["limits"]["start_seconds"] = json!(2));
    let mut client = world.run("a", "s");
    let answer = client.initialize();
    assert!(
        refusal(&answer).is_some_and(|said| said.contains('s')),
        "{answer}"
    );
}

#[test]
fn lif_90_buffered_and_unbuffered_python_children_read_their_input() {
    for options in [vec![], vec!["-u".to_owned()]] {
        let world = World::new();
        let hostile = Hostile::new(&world, "s", &json!({}));
        let mut command = hostile.command.clone();
        command.splice(1..1, options);
        world.server("s", &command);
        world.agent("a");
        let mut client = world.connect();
        assert_eq!(text(&client.call("slow", &json!({"text": "read"}))), "read");
    }
}

#[test]
fn lif_92_94_96_our_end_ends_the_whole_tree() {
    for (what, specification) in [
        ("ignores the end of its input", json!({"ignore_eof": true})),
        (
            "ignores SIGTERM, too",
            json!({"ignore_eof": true, "ignore_term": true}),
        ),
    ] {
        for how in ["eof", "term", "kill"] {
            let world = World::new();
            let mut specification = specification.clone();
            let grandchildren = world.path("grandchildren");
            specification["grandchildren"] = json!(grandchildren);
            let hostile = Hostile::new(&world, "s", &specification);
            // npx -> npm -> sh -> node: a shell in between that passes nothing on.
            let quoted: Vec<String> = hostile
                .command
                .iter()
                .map(|part| format!("'{part}'"))
                .collect();
            world.server(
                "s",
                &[
                    "sh".into(),
                    "-c".into(),
                    format!("{}; true", quoted.join(" ")),
                ],
            );
            world.agent("a");
            let mut client = world.connect();
            client.fence();
            let mut tree = descendants(client.pid());
            tree.extend(hostile.starts());
            tree.extend(
                lines(&grandchildren)
                    .iter()
                    .map(|id| id.parse::<u32>().expect("a process id")),
            );
            assert!(tree.len() >= 4, "{what}: {tree:?}");
            match how {
                "eof" => assert!(
                    client.close().success(),
                    "{what}: exit code after the end of input"
                ),
                "term" => {
                    terminate(client.pid());
                    client.wait();
                }
                _ => client.kill(),
            }
            until(&format!("{what}, after {how}: {tree:?} end"), || {
                tree.iter().all(|id| !alive(*id))
            });
        }
    }
}

#[test]
fn lif_94_m24_end_of_input_is_a_good_end_and_leaves_nothing() {
    let (world, hostile) = Hostile::world(&json!({}));
    for _ in 0..5 {
        let mut client = world.connect();
        client.fence();
        assert!(client.close().success());
    }
    until("all children end", || {
        hostile.starts().iter().all(|id| !alive(*id))
    });
}

#[test]
fn lif_m21_started_and_killed_twenty_times_nothing_stays() {
    let (world, hostile) = Hostile::world(&json!({}));
    let files = |folder: &str| {
        let mut names: Vec<String> = std::fs::read_dir(world.dir().join(folder))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    // Once in peace, so that all that is made once is there.
    let mut client = world.connect();
    client.fence();
    client.close();
    for n in 0..20 {
        let mut client = world.run("a", "s");
        if n % 2 == 0 {
            client.initialize();
        }
        client.kill();
    }
    until("all children end", || {
        hostile.starts().iter().all(|id| !alive(*id))
    });
    // The next one works, cleans up after the dead, and the book is whole.
    let mut client = world.connect();
    assert_eq!(text(&client.call("slow", &json!({"text": "on"}))), "on");
    assert!(client.close().success());
    // A process's own lock starts with its id.
    let dead: Vec<String> = files("run")
        .into_iter()
        .filter(|name| name.starts_with(|letter: char| letter.is_ascii_digit()))
        .collect();
    assert!(dead.is_empty(), "locks of the dead: {dead:?}");
    assert!(
        files("").iter().all(|name| !name.contains("tmp")),
        "{:?}",
        files("")
    );
    world.recorded();
}

#[test]
fn lif_106_only_the_server_asked_for_is_started() {
    let world = World::new();
    let servers: Vec<Hostile> = (0..40)
        .map(|n| {
            let name = format!("server-{n}");
            let hostile = Hostile::new(&world, &name, &json!({}));
            world.server(&name, &hostile.command);
            hostile
        })
        .collect();
    world.agent("a");
    let before: Vec<usize> = servers
        .iter()
        .map(|hostile| hostile.starts().len())
        .collect();
    let mut client = world.run("a", "server-7");
    client.initialize();
    client.fence();
    for (n, hostile) in servers.iter().enumerate() {
        let started = hostile.starts().len() - before[n];
        assert_eq!(started, usize::from(n == 7), "server-{n}");
    }
}

#[test]
fn lif_m17_a_child_that_dies_of_a_probe_is_started_again_for_the_handshake() {
    let (world, hostile) = Hostile::world(&json!({"exit_on": ["server/discover"]}));
    let mut client = world.run("a", "s");
    let probe = client.request("server/discover", &json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}));
    assert!(probe.get("error").is_some(), "{probe}");
    let answer = client.initialize();
    assert_eq!(
        answer["result"]["serverInfo"]["name"], "hostile",
        "{answer}"
    );
    assert_eq!(text(&client.call("slow", &json!({"text": "on"}))), "on");
    assert_eq!(hostile.starts().len(), 2);
}

#[test]
fn lif_m22_two_proxies_with_one_configuration_work_at_once() {
    let (world, _) = Hostile::world(&json!({}));
    let mut clients: Vec<_> = (0..3).map(|_| world.run("a", "s")).collect();
    for client in &mut clients {
        client.initialize();
    }
    for n in 0..10 {
        for client in &mut clients {
            assert_eq!(
                text(&client.call("slow", &json!({"text": n.to_string()}))),
                n.to_string()
            );
        }
    }
    for client in clients {
        assert!(client.close().success());
    }
    assert_eq!(world.outcomes("slow"), vec!["ok"; 30]);
}
