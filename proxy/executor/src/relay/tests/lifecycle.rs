//! Eras, crashes, starts and ends.

use super::*;

#[tokio::test]
async fn m14_every_version_is_mirrored() {
    for version in [
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2025-11-25",
        "2099-01-01",
    ] {
        let mut world = World::new(|_| {});
        let server = world.server().await;
        world.open(server, version).await;
        assert_eq!(world.leave().await, Left::ByClient);
    }
}

#[tokio::test]
async fn m15_m16_a_probe_comes_back_and_the_same_server_is_then_opened() {
    let mut world = World::new(|_| {});
    let mut server = world.server().await;
    server.quiet().await;
    world.client.say(r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#).await;
    assert_eq!(server.hear().await["method"], "server/discover");
    server
        .say(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#)
        .await;
    assert_eq!(
        world.client.hear_text().await,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#
    );
    world.open(server, "2025-11-25").await;
    assert!(world.servers.try_recv().is_err());
}

#[tokio::test]
async fn m18_a_modern_request_without_meta_is_the_servers_to_refuse() {
    let mut world = World::new(|_| {});
    let mut server = world.server().await;
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{}}"#;
    world.client.say(line).await;
    assert_eq!(server.hear_text().await, line);
}

#[tokio::test]
async fn m17_a_server_that_ends_on_the_probe_is_started_again_for_initialize() {
    let mut world = World::new(|_| {});
    let mut server = world.server().await;
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}"#)
        .await;
    server.hear().await;
    drop(server);
    assert_eq!(
        world.client.hear().await["error"]["data"]["localhost.countersign/refusal"]["code"],
        "upstream_failed"
    );
    world.client.say(&initialize("2025-11-25")).await;
    let mut server = world.server().await;
    assert_eq!(server.hear().await["method"], "initialize");
}

#[tokio::test]
async fn m25_lif_87_idm_99_a_crash_answers_each_once_and_re_sends_nothing() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    let level =
        r#"{"jsonrpc":"2.0","id":"l","method":"logging/setLevel","params":{"level":"info"}}"#;
    world.client.say(level).await;
    server.hear().await;
    server
        .say(r#"{"jsonrpc":"2.0","id":"l","result":{}}"#)
        .await;
    world.client.hear().await;
    world.client.say(&call("1", "echo")).await;
    world.list_for_gate(&mut server).await;
    server.hear().await;
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#)
        .await;
    server.hear().await;
    drop(server);
    let answers = [world.client.hear().await, world.client.hear().await];
    assert!(answers.iter().any(|answer| answer["id"] == 1
        && answer["result"]["structuredContent"]["code"] == "upstream_failed"));
    assert!(
        answers
            .iter()
            .any(|answer| answer["id"] == 2 && answer["error"]["code"] == -31_502)
    );
    assert_eq!(*world.gate.ends.lock().unwrap(), ["Server Yes"]);
    world.client.quiet().await;
    // The next call starts it again, with the client's own handshake and log level, and nothing of before.
    world.client.say(&call("3", "echo")).await;
    let mut server = world.server().await;
    let handshake = server.hear().await;
    assert_eq!(
        (
            &handshake["method"],
            &handshake["params"]["clientInfo"]["name"]
        ),
        (&"initialize".into(), &"c".into())
    );
    assert_eq!(handshake["params"]["capabilities"], serde_json::json!({}));
    server.quiet().await;
    server
        .say(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"protocolVersion":"2025-11-25"}}}}"#,
            handshake["id"]
        ))
        .await;
    assert_eq!(server.hear().await["method"], "notifications/initialized");
    assert_eq!(server.hear().await["params"]["level"], "info");
    world.list_for_gate(&mut server).await;
    assert_eq!(server.hear().await["id"], 3);
    server.say(&result(&Value::from(3))).await;
    assert_eq!(world.client.hear().await["id"], 3);
}

#[tokio::test]
async fn m26_log_20_21_a_server_that_cannot_start_gives_an_answer_and_the_reason_to_the_person() {
    let (started, servers) = mpsc::unbounded_channel();
    let (gone, _) = mpsc::unbounded_channel();
    drop(started);
    let mut world = World::with_starter(|_| {}, Arc::new(TestStarter { started: gone }), servers);
    world.client.say(&initialize("2025-11-25")).await;
    let answer = world.client.hear().await;
    assert_eq!(
        (&answer["id"], answer["error"]["code"].as_i64()),
        (&Value::from(0), Some(-31_502))
    );
    assert!(!answer.to_string().contains("`x`"), "{answer}");
    assert!(world.said("`x` cannot be started"));
}

#[tokio::test]
async fn m24_the_end_of_input_and_a_signal_end_the_relay_and_the_gate_hears_of_it() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    world.client.say(&call("1", "echo")).await;
    world.list_for_gate(&mut server).await;
    server.hear().await;
    let gate = world.gate.clone();
    let begun = std::time::Instant::now();
    assert_eq!(world.leave().await, Left::ByClient);
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(*gate.ends.lock().unwrap(), ["Cancelled Yes"]);

    let (mut world, _server) = World::opened(|_| {}).await;
    world.stop.take().unwrap().send(()).unwrap();
    assert_eq!(
        tokio::time::timeout(PATIENCE, world.left)
            .await
            .unwrap()
            .unwrap(),
        Left::BySignal
    );
}

#[tokio::test]
async fn m24_answers_under_way_arrive_after_the_end_of_input() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
        .await;
    world.client.writer.shutdown().await.unwrap();
    server.hear().await;
    server.say(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    assert_eq!(world.client.hear().await["id"], 1);
    assert_eq!(world.leave().await, Left::ByClient);
}
