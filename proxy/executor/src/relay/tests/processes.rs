//! Real child processes behind the relay.

use super::*;
use crate::relay::ProcessStarter;
use crate::upstream::child::ChildSpec;

fn world(script: &str, environment: &[(&str, &str)]) -> World {
    let mut environment: Vec<_> = environment
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect();
    environment.push(("PATH".into(), std::env::var_os("PATH").unwrap()));
    let spec = ChildSpec {
        name: "files".to_owned(),
        command: "sh".to_owned(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        cwd: Some("/".into()),
        environment,
    };
    // The relay's own diagnostics are made inside; the starter's are read here.
    let diagnostics = Diagnostics::new("files", None);
    let starter = ProcessStarter {
        spec: Arc::new(spec),
        guardian: None,
        diagnostics: diagnostics.clone(),
    };
    let mut world = World::with_starter(|_| {}, Arc::new(starter), mpsc::unbounded_channel().1);
    world.diagnostics = diagnostics;
    world
}

/// Stderr is drained beside the messages, so its lines may come after an answer.
async fn until_said(world: &World, part: &str) {
    for _ in 0..400 {
        if world.said(part) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{:?}", world.words());
}

/// Whether a process of the group runs; one that nobody has waited for does not.
fn lives(group: i32) -> bool {
    let output = std::process::Command::new("ps")
        .args(["-A", "-o", "pgid=,stat="])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).lines().any(|line| {
        let mut fields = line.split_whitespace();
        fields.next() == Some(&group.to_string()) && !fields.next().unwrap().starts_with('Z')
    })
}

const ANSWER: &str = r#"read line; printf '{"jsonrpc":"2.0","id":1,"result":{"v":"%s"}}\n' "$VALUE:$COUNTERSIGN_DIR:$(pwd)";"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[tokio::test]
async fn a_server_has_exactly_its_environment_and_folder() {
    let mut world = world(&format!("{ANSWER} cat >/dev/null"), &[("VALUE", "v")]);
    world.client.say(PING).await;
    assert_eq!(world.client.hear().await["result"]["v"], "v::/");
    let begun = std::time::Instant::now();
    assert_eq!(world.leave().await, Left::ByClient);
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn log_15_16_stderr_is_drained_before_the_answer() {
    let mut world = world(
        &format!(
            "head -c 262144 /dev/zero | tr '\\0' 'x' >&2; echo >&2; echo last words >&2; {ANSWER} cat >/dev/null"
        ),
        &[],
    );
    world.client.say(PING).await;
    assert_eq!(world.client.hear().await["id"], 1);
    until_said(&world, "last words").await;
}

#[tokio::test]
async fn m24_lif_94_96_a_tree_that_ignores_eof_and_term_is_gone_in_two_seconds() {
    // sh -> sh -> sleep, all deaf.
    let script = format!(
        "trap '' TERM; (trap '' TERM; echo $$ >&2; sleep 300; sleep 300) & {ANSWER} sleep 300; sleep 300"
    );
    let mut world = world(&script, &[]);
    world.client.say(PING).await;
    world.client.hear().await;
    let group: i32 = loop {
        if let Some(number) = world
            .diagnostics
            .last_words()
            .iter()
            .find_map(|line| line.parse().ok())
        {
            break number;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let begun = std::time::Instant::now();
    assert_eq!(world.leave().await, Left::ByClient);
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    for _ in 0..100 {
        if !lives(group) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the group lives");
}

#[tokio::test]
async fn log_20_the_last_words_of_a_server_that_fails_are_the_persons() {
    let mut world = world("echo 'no token in $TOKEN' >&2; exit 3", &[]);
    world.client.say(PING).await;
    let answer = world.client.hear().await;
    assert_eq!(answer["error"]["code"], -31_502);
    assert!(!answer.to_string().contains("token"), "{answer}");
    until_said(&world, "no token in $TOKEN").await;
}
