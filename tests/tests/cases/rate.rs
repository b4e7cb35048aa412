//! RAT: a looping agent is stopped with a message that says when to go on.

use countersign_tests::client::{code, refusal, text};
use countersign_tests::hostile::Hostile;
use serde_json::json;

#[test]
fn rat_107_108_a_loop_is_stopped_and_told_when_to_retry() {
    let (world, hostile) = Hostile::world(&json!({}));
    world.reads("s", &["slow"]);
    world.edit(|settings| settings["buckets"]["key"] = json!({"size": 20, "per_minute": 20}));
    let mut client = world.connect();
    let mut went = 0;
    let refused = loop {
        let answer = client.call("slow", &json!({"ms": 0}));
        if refusal(&answer).is_some() {
            break answer;
        }
        went += 1;
        assert!(went < 2_000, "never stopped");
    };
    assert_eq!(code(&refused).as_deref(), Some("rate_limited"), "{refused}");
    let document = refused["result"]["structuredContent"].to_string()
        + &refused["result"]["_meta"].to_string();
    assert!(
        document.to_lowercase().contains("retry"),
        "says when to retry: {refused}"
    );
    assert!(
        text(&refused).len() > 40,
        "a sentence for the model: {refused}"
    );
    assert_eq!(hostile.ran().len(), went, "what was refused did not run");
    client.fence();
    assert!(client.close().success());
}

#[test]
fn rat_107_two_processes_share_one_bucket() {
    let (world, hostile) = Hostile::world(&json!({}));
    world.reads("s", &["slow"]);
    world.edit(|settings| settings["buckets"]["key"] = json!({"size": 20, "per_minute": 20}));
    let begin = std::time::Instant::now();
    let mut clients = [world.connect(), world.connect()];
    for n in 0..60 {
        clients[n % 2].call("slow", &json!({"ms": 0}));
    }
    let most = 20 + begin.elapsed().as_secs() as usize / 3 + 1;
    assert!(
        hostile.ran().len() <= most,
        "{} calls ran, at most {most} may",
        hostile.ran().len()
    );
}

#[test]
fn rat_a_bucket_smaller_than_a_price_is_a_configuration_error() {
    let (world, hostile) = Hostile::world(&json!({}));
    world.edit(|settings| settings["buckets"]["key"] = json!({"size": 2, "per_minute": 2}));
    let said = world.fails(&["doctor"]);
    assert!(said.all().contains("buckets"), "{said:?}");
    let (answer, said) = world.first_answer("a", "s");
    assert!(
        answer
            .as_ref()
            .is_none_or(|answer| refusal(answer).is_some()),
        "{answer:?}"
    );
    assert!(
        format!("{answer:?}{said}").contains("buckets.key.size"),
        "{answer:?} {said}"
    );
    assert!(hostile.ran().is_empty());
}
