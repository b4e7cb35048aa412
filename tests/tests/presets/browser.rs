//! The browser's preset before the real server, and no browser: what is closed or held never gets as far as starting one.

use countersign_tests::client::code;
use countersign_tests::peers;
use countersign_tests::world::World;
use serde_json::{Value, json};

use super::{document, must_show, under};

#[test]
fn what_a_browser_may_do_is_closed_held_or_asked_about() {
    let world = World::new();
    under(&world, "playwright", &[], &peers::playwright());
    world.edit(|settings| settings["approval"] = json!({"hold_seconds": 0}));
    let mut client = world.connect();
    // With this argument what only reads would write a file.
    for (tool, mut arguments) in [
        ("browser_snapshot", json!({})),
        ("browser_find", json!({"text": "x"})),
        ("browser_console_messages", json!({"level": "info"})),
        ("browser_network_requests", json!({"static": false})),
        ("browser_network_request", json!({"index": 1})),
    ] {
        arguments["filename"] = json!("x.md");
        let answer = client.call(tool, &arguments);
        assert_eq!(
            code(&answer).as_deref(),
            Some("outside_permission"),
            "{tool}: {answer}"
        );
        assert!(answer.to_string().contains("/filename"), "{tool}: {answer}");
    }
    for (tool, arguments) in [
        (
            "browser_evaluate",
            json!({"function": "() => document.cookie"}),
        ),
        ("browser_file_upload", json!({"paths": ["/x"]})),
        ("browser_drop", json!({"target": "e1", "paths": ["/x"]})),
    ] {
        let asked = must_show(&client.call(tool, &arguments));
        assert_eq!(asked.kind(), "arguments_only", "{tool}");
    }
    let program = json!({"code": "async (page) => require('fs')"});
    let held = client.call("browser_run_code_unsafe", &program);
    assert_eq!(document(&held)["status"], "pending_approval", "{held}");
    assert!(client.close().success());
    let ran: Vec<Value> = world
        .recorded()
        .iter()
        .filter(|call| {
            call.outcomes
                .iter()
                .any(|end| end == "ok" || end == "error")
        })
        .map(|call| json!(call.tool))
        .collect();
    assert_eq!(ran, Vec::<Value>::new(), "nothing reached the server");
}

#[test]
fn messages_to_people_are_asked_about() {
    for (preset, command, environment, tool, arguments) in [
        (
            "slack",
            peers::slack(),
            [("SLACK_BOT_TOKEN", "none"), ("SLACK_TEAM_ID", "T1")],
            "slack_post_message",
            json!({"channel_id": "C1", "text": "hello"}),
        ),
        (
            "notion",
            peers::notion(),
            [("NOTION_TOKEN", "none"), ("LOG", "none")],
            "API-create-a-comment",
            json!({"parent": {"page_id": "p"}, "rich_text": [{"text": {"content": "hello"}}]}),
        ),
    ] {
        let world = World::new();
        under(&world, preset, &environment, &command);
        let mut client = world.connect();
        let asked = must_show(&client.call(tool, &arguments));
        assert_eq!(asked.kind(), "arguments_only", "{tool}");
        assert!(client.close().success());
        assert_eq!(world.outcomes(tool), ["confirmation_required"], "{preset}");
    }
}
