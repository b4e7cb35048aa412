//! Frames, ids, notifications, server requests.

use super::*;
use crate::relay::methods::Feature;

#[tokio::test]
async fn m3_what_is_refused_is_answered_and_never_forwarded() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    for (line, code, id) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#,
            -32_600,
            Value::from(1),
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            -32_600,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":[]}"#,
            -32_600,
            Value::from(2),
        ),
        ("hello", -32_700, Value::Null),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            -32_600,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"x","method":"vendor/thing"}"#,
            -32_601,
            Value::from("x"),
        ),
    ] {
        world.client.say(line).await;
        let answer = world.client.hear().await;
        assert_eq!(
            (answer["error"]["code"].as_i64(), &answer["id"]),
            (Some(code), &id),
            "{line}"
        );
        assert!(
            answer["error"]["data"]["localhost.countersign/refusal"].is_object(),
            "{line}"
        );
    }
    // Field report 8, and notifications nobody knows: dropped with a line in the log.
    world
        .client
        .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}"#)
        .await;
    world
        .client
        .say(r#"{"jsonrpc":"2.0","method":"notifications/vendor"}"#)
        .await;
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#)
        .await;
    assert_eq!(
        server.hear_text().await,
        r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#
    );
    assert!(world.said("`params` is not an object") && world.said("`notifications/vendor`"));
}

#[tokio::test]
async fn m9_m42_m51_what_passes_passes_as_it_is() {
    let (mut world, mut server) =
        World::opened(|settings| settings.passing.methods.push("skills/list".to_owned())).await;
    for (sent, arrives) in [
        (
            r#"{"jsonrpc":"2.0","id":"a","method":"resources/list","params":{"z":1.0,"a":1e2,"_meta":{"v":null}},"x-y":[1 ,2]}"#,
            None,
        ),
        (
            r#"{"id":7,"method":"skills/list","jsonrpc":"2.0"}"#,
            Some(r#"{"jsonrpc":"2.0","id":7,"method":"skills/list"}"#),
        ),
        (
            r#"{"jsonrpc":"2.0","id":8,"method":"completion/complete","params":{"ref":{"type":"ref/prompt"}}}"#,
            None,
        ),
    ] {
        world.client.say(sent).await;
        assert_eq!(server.hear_text().await, arrives.unwrap_or(sent));
    }
    for line in [
        r#"{"jsonrpc":"2.0","id":"a","result":{"resources":[],"nextCursor":"","big":123456789012345678901234567890},"extra":{"b":1.0}}"#,
        r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32042,"message":"m","data":null,"more":1}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"hologram"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1.50}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:y"}}"#,
    ] {
        server.say(line).await;
        assert_eq!(world.client.hear_text().await, line);
    }
}

#[tokio::test]
async fn m10_a_hundred_requests_answered_in_another_order() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    let mut ids = Vec::new();
    for n in 1..=50 {
        for id in [format!("{n}"), format!("\"{n}\"")] {
            world
                .client
                .say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#))
                .await;
            ids.push(id);
        }
    }
    for _ in &ids {
        server.hear().await;
    }
    ids.sort_by_key(|id| std::cmp::Reverse(id.chars().rev().collect::<String>()));
    for id in &ids {
        server
            .say(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"of":{id}}}}}"#
            ))
            .await;
    }
    for id in &ids {
        assert_eq!(
            world.client.hear_text().await,
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"of":{id}}}}}"#)
        );
    }
}

#[tokio::test]
async fn m11_m13_ids_in_flight_unknown_answers_and_the_wrong_direction() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    world.client.say(ping).await;
    world.client.say(ping).await;
    assert_eq!(
        world.client.hear().await["error"]["data"]["localhost.countersign/refusal"]["code"],
        "id_in_use"
    );
    assert_eq!(server.hear().await["id"], 1);
    server
        .say(r#"{"jsonrpc":"2.0","id":"nobody","result":{}}"#)
        .await;
    server
        .say(r#"{"jsonrpc":"2.0","id":"1","result":{}}"#)
        .await;
    server
        .say(r#"{"jsonrpc":"2.0","id":1,"result":{"right":true}}"#)
        .await;
    assert_eq!(world.client.hear().await["result"]["right"], true);
    // The relay's own question: its id cannot be guessed, and the client cannot answer it.
    world.client.say(&call("2", "echo")).await;
    let asked = server.hear().await;
    let id = asked["id"].as_str().unwrap();
    assert!(id.starts_with("countersign-") && id.len() > 40);
    world
        .client
        .say(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","result":{{"tools":[]}}}}"#
        ))
        .await;
    server.quiet().await;
    server
        .say(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","result":{{"tools":[]}}}}"#
        ))
        .await;
    assert_eq!(server.hear().await["params"]["name"], "echo");
    assert!(world.said("nobody asked") && world.said("a request nobody made"));
}

#[tokio::test]
async fn m6_too_long_either_way_is_answered_and_the_next_message_works() {
    let (mut world, mut server) = World::opened(|settings| settings.frame_bytes = 10_000).await;
    let long = "x".repeat(20_000);
    world
        .client
        .say(&format!(
            r#"{{"jsonrpc":"2.0","method":"ping","params":{{"a":"{long}"}},"id":5}}"#
        ))
        .await;
    let answer = world.client.hear().await;
    assert_eq!(
        (&answer["id"], answer["error"]["code"].as_i64()),
        (&Value::from(5), Some(-32_600))
    );
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#)
        .await;
    assert_eq!(server.hear().await["id"], 6);
    server
        .say(&format!(
            r#"{{"jsonrpc":"2.0","result":{{"a":"{long}"}},"id":6}}"#
        ))
        .await;
    let answer = world.client.hear().await;
    assert_eq!(
        answer["error"]["data"]["localhost.countersign/refusal"]["code"],
        "upstream_failed"
    );
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#)
        .await;
    assert_eq!(server.hear().await["id"], 7);
}

#[tokio::test]
async fn fr_1_lines_of_64_kb_and_5_mb_pass() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    for size in [65_535 - 60, 65_536, 65_537, 5 << 20] {
        world
            .client
            .say(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
            .await;
        server.hear().await;
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":"{}"}}}}"#,
            "x".repeat(size)
        );
        let (_, heard) = tokio::join!(server.say(&line), world.client.hear_text());
        assert!(heard == line);
    }
}

#[tokio::test]
async fn fr_6_a_malformed_answer_is_an_error_for_the_one_who_waits() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    for answer in [
        r#"{"id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":{"a":1},"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":[]}"#,
        r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}"#,
    ] {
        world
            .client
            .say(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
            .await;
        server.hear().await;
        server.say(answer).await;
        let line = world.client.hear().await;
        assert_eq!(
            line["error"]["data"]["localhost.countersign/refusal"]["code"], "upstream_failed",
            "{answer}: {line}"
        );
    }
    world.client.quiet().await;
}

#[tokio::test]
async fn m7_log_9_to_14_noise_on_stdout_is_in_the_log_only() {
    let mut world = World::new(|_| {});
    let mut server = world.server().await;
    server.say("🚀 server-x 1.2 listening").await;
    server.say("info: ready").await;
    let mut server = world.open(server, "2024-11-05").await;
    server.say("info: between").await;
    server
        .say(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#)
        .await;
    assert_eq!(world.client.hear().await["method"], "notifications/message");
    assert!(world.said("🚀 server-x 1.2 listening") && world.said("info: between"));
}

#[tokio::test]
async fn m8_batches_in_the_one_revision_that_has_them() {
    let mut world = World::new(|_| {});
    let server = world.server().await;
    let mut server = world.open(server, "2025-03-26").await;
    world
        .client
        .say(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/vendor"},{"jsonrpc":"2.0","id":2,"method":"no/such"},{"jsonrpc":"2.0","id":3,"method":"ping"}]"#)
        .await;
    assert_eq!(
        (
            server.hear().await["id"].clone(),
            server.hear().await["id"].clone()
        ),
        (Value::from(1), Value::from(3))
    );
    server.say(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#).await;
    world.client.quiet().await;
    server.say(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    let answers = world.client.hear().await;
    let ids: Vec<_> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| answer["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids, [2, 3, 1]);
    world.client.say("[]").await;
    assert_eq!(world.client.hear().await["error"]["code"], -32_600);
}

#[tokio::test]
async fn m43_m44_withheld_requests_are_declined_and_the_client_sees_nothing() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    for (method, expected) in [
        (
            "elicitation/create",
            r#"{"jsonrpc":"2.0","id":0,"result":{"action":"decline"}}"#,
        ),
        ("sampling/createMessage", r#""code":-1"#),
        ("roots/list", r#""code":-32601"#),
        ("vendor/ask", r#""code":-32601"#),
    ] {
        server
            .say(&format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"{method}","params":{{}}}}"#
            ))
            .await;
        let answer = server.hear_text().await;
        assert!(answer.contains(expected), "{method}: {answer}");
    }
    world
        .client
        .say(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#)
        .await;
    server.quiet().await;
    world.client.quiet().await;
}

#[tokio::test]
async fn m43_m44_not_84_passed_requests_go_round_with_their_own_ids() {
    let (mut world, mut server) =
        World::opened(|settings| settings.passing.features = Feature::ALL.to_vec()).await;
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
        .await;
    server.hear().await;
    // The same id in the other direction is another request.
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?"}}"#;
    server.say(ask).await;
    assert_eq!(world.client.hear_text().await, ask);
    server.say(ask).await;
    assert_eq!(
        server.hear().await["error"]["data"]["localhost.countersign/refusal"]["code"],
        "id_in_use"
    );
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"n":1.0}}}"#;
    world.client.say(answer).await;
    assert_eq!(server.hear_text().await, answer);
    world.client.say(answer).await;
    server.quiet().await;
    server.say(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    assert_eq!(world.client.hear().await["id"], 1);
    // Cancelled by the server: passed on, and a late answer finds nobody.
    server
        .say(r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{}}"#)
        .await;
    assert_eq!(world.client.hear().await["id"], "s");
    server
        .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}"#)
        .await;
    assert_eq!(world.client.hear().await["params"]["requestId"], "s");
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":"s","result":{}}"#)
        .await;
    server.quiet().await;
}

#[tokio::test]
async fn m19_not_82_progress_is_exact_and_late_progress_is_dropped() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    world.client.say(r#"{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{"_meta":{"progressToken":"t"}}}"#).await;
    server.hear().await;
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1.0,"total":2}}"#;
    server.say(progress).await;
    assert_eq!(world.client.hear_text().await, progress);
    server.say(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    world.client.hear().await;
    server.say(progress).await;
    world.client.quiet().await;
    assert!(world.said("progress for nothing in flight"));
}

/// Waits until progress was told that often.
async fn beats(world: &World, count: usize) {
    let told = async {
        while world.gate.beats.load(Ordering::SeqCst) < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
    assert_eq!(world.gate.beats.load(Ordering::SeqCst), count);
}

fn progress(token: &Value) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1.0}}}}"#
    )
}

#[tokio::test]
async fn r59_progress_of_a_call_of_ours_is_told_and_not_passed_on() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    world.client.say(&call("1", "own")).await;
    world.list_for_gate(&mut server).await;
    let asked = server.hear().await;
    let token = asked["params"]["_meta"]["progressToken"].clone();
    assert_eq!(
        (&asked["id"], &asked["params"]["_meta"]["a"]),
        (&token, &1.into())
    );
    for count in 1..=3 {
        server.say(&progress(&token)).await;
        beats(&world, count).await;
    }
    server.say(&progress(&"another".into())).await;
    world.client.quiet().await;
    server.say(&result(&asked["id"])).await;
    assert_eq!(world.client.hear().await["id"], 1);
    // Late progress is nobody's.
    server.say(&progress(&token)).await;
    world.client.quiet().await;
    beats(&world, 3).await;
}

#[tokio::test]
async fn r59_progress_of_a_call_of_the_clients_is_told_and_passed_on_as_it_is() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    let with_token = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":7}}}"#;
    world.client.say(with_token).await;
    world.list_for_gate(&mut server).await;
    assert_eq!(server.hear().await["params"]["_meta"]["progressToken"], 7);
    let line = progress(&7.into());
    server.say(&line).await;
    assert_eq!(world.client.hear_text().await, line);
    beats(&world, 1).await;
    server.say(&result(&1.into())).await;
    world.client.hear().await;
    // None is invented for a call without a token.
    world.client.say(&call("2", "echo")).await;
    assert!(server.hear().await["params"].get("_meta").is_none());
    server.say(&result(&2.into())).await;
    world.client.hear().await;
}

#[tokio::test]
async fn r59_a_call_of_ours_that_makes_progress_outlives_the_patience_of_one_that_makes_none() {
    let patience = Duration::from_millis(1_500);
    let (mut world, mut server) = World::opened(|settings| settings.call = patience).await;
    world.client.say(&call("1", "own")).await;
    world.list_for_gate(&mut server).await;
    let asked = server.hear().await;
    let begun = std::time::Instant::now();
    while begun.elapsed() < patience * 2 {
        server.say(&progress(&asked["id"])).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.say(&result(&asked["id"])).await;
    assert_eq!(world.client.hear().await["result"]["n"], 1.0);
    // And silence still ends it.
    world.client.say(&call("2", "own")).await;
    server.hear().await;
    assert_eq!(server.hear().await["method"], "notifications/cancelled");
    assert_eq!(world.client.hear().await["id"], 2);
}
