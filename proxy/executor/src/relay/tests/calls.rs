//! Lists and calls that are decided.

use super::*;

#[tokio::test]
async fn m27_nam_71_all_pages_are_read_first_and_answered_one_by_one() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    let page = |id: &Value, tools: &str, next: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{tools}]{next},"x":1}}}}"#)
    };
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"k":"v"}}}"#)
        .await;
    let mut cursors = Vec::new();
    for (tools, next) in [
        (
            r#"{"name":"b"},{"name":"hidden1"}"#,
            r#","nextCursor":"c1""#,
        ),
        (r#"{"name":"hidden2"}"#, r#","nextCursor":"""#),
        (r#"{"name":"a","y":1.0}"#, ""),
    ] {
        world.client.quiet().await;
        let asked = server.hear().await;
        assert_eq!(asked["params"]["_meta"]["k"], "v");
        cursors.push(asked["params"]["cursor"].clone());
        server.say(&page(&asked["id"], tools, next)).await;
    }
    assert_eq!(cursors, [Value::Null, "c1".into(), "".into()]);
    let names = |answer: &Value| {
        answer["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let first = world.client.hear().await;
    assert_eq!(
        (names(&first), &first["result"]["nextCursor"]),
        (vec!["b".to_owned()], &Value::from("c1"))
    );
    assert_eq!(world.gate.learnt.load(Ordering::SeqCst), 4);
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"c1"}}"#)
        .await;
    let second = world.client.hear().await;
    assert_eq!(
        (
            names(&second).len(),
            &second["result"]["nextCursor"],
            &second["result"]["x"]
        ),
        (0, &Value::from(""), &Value::from(1))
    );
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":""}}"#)
        .await;
    let third = world.client.hear().await;
    assert_eq!(
        (names(&third), third["result"].get("nextCursor")),
        (vec!["a".to_owned(), "countersign_whoami".to_owned()], None)
    );
    // A cursor never seen goes to the server as it is; what comes back is filtered too.
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"cursor":"other"}}"#)
        .await;
    let asked = server.hear().await;
    assert_eq!(asked["params"]["cursor"], "other");
    server
        .say(&page(&asked["id"], r#"{"name":"hidden3"}"#, ""))
        .await;
    assert_eq!(names(&world.client.hear().await), Vec::<String>::new());
}

#[tokio::test]
async fn m27_a_list_without_an_end_is_an_error() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
        .await;
    for _ in 0..2 {
        let asked = server.hear().await;
        server
            .say(&format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":[],"nextCursor":"same"}}}}"#,
                asked["id"]
            ))
            .await;
    }
    assert_eq!(world.client.hear().await["error"]["code"], -31_502);
}

#[tokio::test]
async fn m28_m29_hidden_and_closed_tools_never_reach_the_server() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    world.client.say(&call("1", "hidden_never_listed")).await;
    world.list_for_gate(&mut server).await;
    assert_eq!(world.client.hear().await["error"]["code"], -32_602);
    world.client.say(&call("2", "closed")).await;
    let answer = world.client.hear().await;
    assert_eq!(
        (
            &answer["result"]["isError"],
            &answer["result"]["structuredContent"]["status"]
        ),
        (&Value::from(true), &Value::from(403))
    );
    world.client.say(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"closed","task":{}}}"#).await;
    assert_eq!(world.client.hear().await["error"]["code"], -31_000);
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":7}}"#)
        .await;
    assert_eq!(world.client.hear().await["error"]["code"], -32_602);
    server.quiet().await;
    world.client.say(&call("5", "echo")).await;
    assert_eq!(server.hear_text().await, call("5", "echo"));
    server.say(&result(&Value::from(5))).await;
    assert_eq!(world.client.hear_text().await, result(&Value::from(5)));
}

#[tokio::test]
async fn m12_a_slow_decision_blocks_nothing() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    world.client.say(&call("1", "slow")).await;
    world.list_for_gate(&mut server).await;
    world.client.say(&call("2", "echo")).await;
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#)
        .await;
    let heard: HashSet<i64> = [server.hear().await, server.hear().await]
        .iter()
        .map(|line| line["id"].as_i64().unwrap())
        .collect();
    assert_eq!(heard, HashSet::from([2, 3]));
    server.say(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#).await;
    assert_eq!(world.client.hear().await["id"], 3);
    world.gate.permits.add_permits(1);
    assert_eq!(server.hear().await["id"], 1);
    server.say(&result(&Value::from(1))).await;
    assert_eq!(world.client.hear().await["id"], 1);
}

#[tokio::test]
async fn m48_not_78_cancellation_before_and_after_the_call_was_sent() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    let cancel = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"r"}}}}"#
        )
    };
    world.client.say(&call("1", "slow")).await;
    world.list_for_gate(&mut server).await;
    world.client.say(&cancel("1")).await;
    world.client.say(&cancel("99")).await;
    server.quiet().await;
    world.gate.permits.add_permits(1);
    server.quiet().await;
    world.client.quiet().await;
    world.client.say(&call("\"two\"", "echo")).await;
    server.hear().await;
    world.client.say(&cancel("\"two\"")).await;
    assert_eq!(server.hear_text().await, cancel("\"two\""));
    server.say(&result(&Value::from("two"))).await;
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#)
        .await;
    server.hear().await;
    world.client.say(&cancel("3")).await;
    assert_eq!(server.hear_text().await, cancel("3"));
    server.say(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#).await;
    world.client.quiet().await;
    assert_eq!(
        *world.gate.ends.lock().unwrap(),
        ["Cancelled No", "Cancelled Yes"]
    );
}

#[tokio::test]
async fn m48_initialize_is_never_cancelled() {
    let mut world = World::new(|_| {});
    let mut server = world.server().await;
    world.client.say(&initialize("2025-11-25")).await;
    world
        .client
        .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}"#)
        .await;
    assert_eq!(server.hear().await["method"], "initialize");
    server.quiet().await;
    server
        .say(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#)
        .await;
    assert_eq!(world.client.hear().await["id"], 0);
}

#[tokio::test]
async fn no_answer_in_time_is_a_timeout_and_a_cancellation_for_the_server() {
    let (mut world, mut server) =
        World::opened(|settings| settings.call = Duration::from_millis(150)).await;
    world.client.say(&call("1", "echo")).await;
    world.list_for_gate(&mut server).await;
    assert_eq!(server.hear().await["id"], 1);
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#)
        .await;
    server.hear().await;
    let answers = [world.client.hear().await, world.client.hear().await];
    let codes: HashSet<&str> = answers
        .iter()
        .map(|answer| {
            answer["result"]["structuredContent"]["code"]
                .as_str()
                .or(answer["error"]["data"]["localhost.countersign/refusal"]["code"].as_str())
                .unwrap()
        })
        .collect();
    assert_eq!(codes, HashSet::from(["upstream_timeout"]));
    assert_eq!(server.hear().await["method"], "notifications/cancelled");
    assert_eq!(server.hear().await["method"], "notifications/cancelled");
    server.say(&result(&Value::from(1))).await;
    world.client.quiet().await;
    assert_eq!(*world.gate.ends.lock().unwrap(), ["Timeout Yes"]);
}

#[tokio::test]
async fn m37_not_74_75_76_changes_are_announced_and_nothing_stale_is_served() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    world
        .gate
        .changes
        .send_modify(|generation| *generation += 1);
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    assert_eq!(world.client.hear_text().await, changed);
    world.client.say(&call("1", "echo")).await;
    world.list_for_gate(&mut server).await;
    server.hear().await;
    server.say(changed).await;
    assert_eq!(world.client.hear_text().await, changed);
    // Known pages are forgotten: the next call has the list read first.
    world.client.say(&call("2", "echo")).await;
    world.list_for_gate(&mut server).await;
    assert_eq!(server.hear().await["id"], 2);
}

#[tokio::test]
async fn m49_listen_streams_never_time_out_and_hear_of_our_changes() {
    let mut world = World::new(|settings| settings.call = Duration::from_millis(50));
    let mut server = world.server().await;
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#)
        .await;
    server.hear().await;
    world
        .gate
        .changes
        .send_modify(|generation| *generation += 1);
    world.client.quiet().await;
    server.say(r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}"#).await;
    assert_eq!(
        world.client.hear().await["params"]["notifications"]["toolsListChanged"],
        true
    );
    world
        .gate
        .changes
        .send_modify(|generation| *generation += 1);
    let change = world.client.hear().await;
    assert_eq!(
        change["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        "L"
    );
    server
        .say(r#"{"jsonrpc":"2.0","id":"L","result":{"resultType":"complete"}}"#)
        .await;
    assert_eq!(world.client.hear().await["id"], "L");
}

#[tokio::test]
async fn m43_m45_a_modern_result_that_asks_for_what_is_withheld_becomes_an_error() {
    let mut world = World::new(|_| {});
    let mut server = world.server().await;
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"progressToken":5}"#;
    let request = |id: u8| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo",{meta}}}}}"#
        )
    };
    world.client.say(&request(1)).await;
    // The list we ask for carries what a modern server needs to know, without the call's progress.
    let asked = server.hear().await;
    let copied = &asked["params"]["_meta"];
    assert_eq!(
        copied["io.modelcontextprotocol/protocolVersion"],
        "2026-07-28"
    );
    assert_eq!(copied.get("progressToken"), None);
    server
        .say(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":[]}}}}"#,
            asked["id"]
        ))
        .await;
    let sent = server.hear().await;
    let capabilities = &sent["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*capabilities, serde_json::json!({}));
    server
        .say(r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"}}}}"#)
        .await;
    assert_eq!(world.client.hear().await["error"]["code"], -31_403);
    // What is not withheld passes as it is.
    world.client.say(&request(2)).await;
    server.hear().await;
    let state = r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","requestState":"opaque\u0041"}}"#;
    server.say(state).await;
    assert_eq!(world.client.hear_text().await, state);
}

#[tokio::test]
async fn m47_tasks_pass_and_their_progress_goes_on_after_the_answer() {
    let (mut world, mut server) = World::opened(|_| {}).await;
    world
        .client
        .say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","task":{"ttl":1.0},"_meta":{"progressToken":"t"}}}"#)
        .await;
    world.list_for_gate(&mut server).await;
    assert_eq!(server.hear().await["params"]["task"]["ttl"], 1.0);
    let created = r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"x","status":"working"}}}"#;
    server.say(created).await;
    assert_eq!(world.client.hear_text().await, created);
    for line in [
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"x"}}"#,
    ] {
        server.say(line).await;
        assert_eq!(world.client.hear_text().await, line);
    }
    let get = r#"{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"x"}}"#;
    world.client.say(get).await;
    assert_eq!(server.hear_text().await, get);
}
