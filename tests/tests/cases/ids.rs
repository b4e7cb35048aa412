//! ID: ids are echoed as they were sent and answers find their question.

use countersign_tests::client::{refusal, text};
use countersign_tests::hostile::Hostile;
use serde_json::{Value, json};

fn call(id: &Value, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

#[test]
fn id_27_28_30_a_second_call_with_an_id_in_flight_is_refused_and_the_first_is_answered() {
    let (world, hostile) = Hostile::world(&json!({}));
    let mut client = world.connect();
    client.send(&call(
        &json!(1),
        "slow",
        &json!({"ms": 1500, "text": "first"}),
    ));
    client.send(&call(
        &json!(1),
        "slow",
        &json!({"ms": 1, "text": "second"}),
    ));
    let (one, two) = (client.answer(&json!(1)), client.answer(&json!(1)));
    let (refused, went) = if refusal(&one).is_some() {
        (one, two)
    } else {
        (two, one)
    };
    assert!(refusal(&refused).is_some(), "{refused}");
    assert_eq!(text(&went), "first");
    client.fence();
    assert_eq!(hostile.ran(), ["slow"]);
    // Once it is answered the id may be used again.
    client.send(&call(&json!(1), "slow", &json!({"ms": 1, "text": "third"})));
    assert_eq!(text(&client.answer(&json!(1))), "third");
}

#[test]
fn id_29_two_hundred_parallel_calls_of_two_clients_match_up() {
    let (world, _) = Hostile::world(&json!({}));
    world.unlimited();
    let mut clients = [world.connect(), world.connect()];
    let mut asked = Vec::new();
    for n in 0..100 {
        for (which, client) in clients.iter_mut().enumerate() {
            let label = format!("{which}-{n}");
            let id = client.ask_call("slow", &json!({"ms": (n * 7) % 40, "text": label}));
            asked.push((which, id, label));
        }
    }
    for (which, id, label) in asked {
        assert_eq!(text(&clients[which].answer(&id)), label);
    }
    for client in clients {
        assert!(client.close().success());
    }
    assert_eq!(world.outcomes("slow").len(), 200);
}

#[test]
fn id_32_answers_in_reverse_order_match_up() {
    let (world, _) = Hostile::world(&json!({}));
    world.unlimited();
    let mut client = world.connect();
    let asked: Vec<(Value, String)> = (0..100)
        .map(|n| {
            let label = format!("call {n}");
            (
                client.ask_call("group", &json!({"n": 100, "text": label})),
                label,
            )
        })
        .collect();
    for (id, label) in asked {
        assert_eq!(text(&client.answer(&id)), label);
    }
}

#[test]
fn id_33_35_text_and_number_are_different_ids() {
    let (world, _) = Hostile::world(&json!({}));
    let mut client = world.connect();
    let ids = [
        json!("init-1"),
        json!(""),
        json!("1"),
        json!(1),
        json!("é\u{1F600}"),
        json!(-5),
        json!("0"),
        json!(0),
    ];
    for (n, id) in ids.iter().enumerate() {
        client.send(&call(
            id,
            "group",
            &json!({"n": ids.len(), "text": n.to_string()}),
        ));
    }
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(text(&client.answer(id)), n.to_string(), "id {id}");
        assert!(
            client.raw_answer(id).contains(&format!("\"id\":{id}")),
            "id {id} as it was sent"
        );
    }
}

#[test]
fn id_34_large_ids_are_not_cut() {
    let (world, _) = Hostile::world(&json!({}));
    let mut client = world.connect();
    for id in [
        "1774232524389",
        "9007199254740993",
        "-9223372036854775808",
        "123456789012345678901234567890",
    ] {
        client.line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"slow","arguments":{{"ms":1}}}}}}"#
        ));
        let line = String::from_utf8(client.next_line().expect("an answer")).expect("text");
        assert!(
            line.contains(&format!("\"id\":{id},")) || line.contains(&format!("\"id\":{id}}}")),
            "{id}: {line}"
        );
    }
}

#[test]
fn id_wrong_answers_of_the_server_reach_nobody() {
    let (world, _) = Hostile::world(&json!({}));
    let mut client = world.connect();
    assert_eq!(text(&client.call("wrong_id", &json!({}))), "yours");
    assert_eq!(text(&client.call("twice", &json!({}))), "first");
    client.fence();
    assert!(client.aside().is_empty(), "{:?}", client.aside());
    assert!(client.close().success());
}
