//! What closes an agent closes everything at once: requests that pass by without a tool, too. What a person changed is on record
//! before the first call it governs, and what a server is trusted with is in no log.

use std::io::Write;
use std::process::Stdio;

use countersign_tests::client::{refusal, text};
use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use serde_json::{Value, json};

const PASSING: [&str; 9] = [
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "tasks/list",
];

fn offering_all() -> (World, Hostile) {
    let all = json!({"tools": {}, "resources": {"subscribe": true}, "prompts": {}, "completions": {}, "logging": {}, "tasks": {"list": {}}});
    Hostile::world(&json!({"capabilities": all}))
}

/// Something that closes the agent `a`, by name.
type Closing = (&'static str, fn(&World));

#[test]
fn what_closes_an_agent_closes_the_requests_that_pass_by() {
    let closings: [Closing; 5] = [
        ("off", |world| drop(world.must(&["off"]))),
        ("revoked", |world| {
            drop(world.must(&["agent", "revoke", "a"]))
        }),
        ("no permission", |world| {
            world.edit(|settings| settings["executor"]["development"] = json!(false));
        }),
        ("a missing scope", |world| {
            world.edit(|settings| settings["agents"]["a"]["scopes"] = json!(["other:read"]));
        }),
        ("a server that is switched off", |world| {
            world.edit(|settings| settings["servers"]["s"]["enabled"] = json!(false));
        }),
    ];
    for (name, close) in closings {
        let (world, hostile) = offering_all();
        let mut client = world.connect();
        let open = client.request("resources/list", &json!({}));
        assert_eq!(open["result"]["method"], "resources/list", "{name}: {open}");
        let before = hostile.calls().len();
        close(&world);
        for method in PASSING {
            let params = json!({"uri": "test://x", "name": "p", "level": "debug"});
            let answer = client.request(method, &params);
            assert!(answer.get("result").is_none(), "{name}: {method}: {answer}");
            assert!(refusal(&answer).is_some(), "{name}: {method}: {answer}");
        }
        client.close();
        assert_eq!(
            hostile.calls().len(),
            before,
            "{name}: {:?}",
            hostile.calls()
        );
    }
}

#[test]
fn changed_settings_are_on_record_before_the_first_call_they_govern() {
    let (world, _) = Hostile::world(&json!({}));
    let mut client = world.connect();
    client.call("constant", &json!({}));
    world.edit(|settings| settings["limits"] = json!({"call_seconds": 77}));
    client.call("size", &json!({"n": 3}));
    client.close();
    let entries = world.journal();
    let at = |wanted: &dyn Fn(&Value) -> bool| entries.iter().position(wanted);
    let call = |tool: &'static str| {
        at(&move |entry| entry["k"] == "call" && entry["tool"] == tool).expect("on record")
    };
    let (first, second) = (call("constant"), call("size"));
    let settings = entries
        .iter()
        .rposition(|entry| entry["k"] == "settings")
        .expect("on record");
    assert!(
        first < settings && settings < second,
        "calls at {first} and {second}, settings at {settings}"
    );
}

#[test]
fn a_secret_a_server_prints_is_in_no_log() {
    const VALUE: &str = "sk-printed-8841-value";
    let world = World::new();
    let printing = json!({"stderr_first": format!("starting with {VALUE}\n")});
    let hostile = Hostile::new(&world, "s", &printing);
    world.server_with("s", &["--secret", "TOKEN"], &hostile.command);
    world.agent("a");
    let mut set = world.command(&["secret", "set", "s/TOKEN"]);
    let mut child = set
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(VALUE.as_bytes()).expect("read");
    drop(input);
    assert!(child.wait().expect("ends").success());
    let mut client = world.connect();
    let environment = text(&client.call("environment", &json!({})));
    assert!(environment.contains(VALUE), "the server has it");
    let (_, said) = client.close_with_stderr();
    let logs = world.logs();
    assert!(logs.contains("starting with [secret]"), "{logs}");
    assert!(
        !logs.contains(VALUE) && !said.contains(VALUE),
        "{logs}{said}"
    );
    assert!(!world.in_clear(VALUE), "on disk");
}
