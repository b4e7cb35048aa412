//! The book after real calls: sealed payloads, a changed byte, a cut end, a forged line.

use countersign_tests::hostile::{Hostile, lines};
use countersign_tests::peers;
use countersign_tests::world::World;
use serde_json::json;

fn written() -> World {
    let world = World::new();
    let files = world.text_path("files");
    std::fs::write(world.path("files/a.txt"), "hello\n").expect("written");
    world.server("files", &peers::filesystem(&files));
    world.reads("files", &["read_text_file", "list_directory"]);
    world.must(&[
        "tool",
        "set",
        "files",
        "write_file",
        "--kind",
        "write",
        "--danger",
        "never",
    ]);
    world.agent("bar");
    let mut client = world.run("bar", "files");
    client.initialize();
    client.tools();
    for n in 0..5 {
        client.call(
            "write_file",
            &json!({"path": format!("{files}/{n}.txt"), "content": "SECRETPAYLOAD"}),
        );
    }
    client.close();
    world
}

fn read_once(world: &World) {
    let mut client = world.run("bar", "files");
    client.initialize();
    client.tools();
    client.call(
        "read_text_file",
        &json!({"path": world.text_path("files/a.txt")}),
    );
    client.close();
}

#[test]
fn payloads_are_sealed_and_a_flipped_byte_is_found() {
    let world = written();
    assert_eq!(world.outcomes("write_file"), vec!["ok"; 5]);
    assert!(
        !world.in_clear("SECRETPAYLOAD"),
        "a payload is in clear on disk"
    );
    assert!(
        !world.in_clear("correct horse"),
        "the passphrase is on disk"
    );
    let journal = world.journal_files().remove(0);
    let whole = std::fs::read(&journal).expect("a journal");
    for at in [
        whole.len() / 7,
        whole.len() / 2,
        whole.len() - whole.len() / 5,
    ] {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        std::fs::write(&journal, &flipped).expect("written");
        let said = world.fails(&["book", "verify"]);
        assert!(
            said.all().chars().any(|letter| letter.is_ascii_digit()),
            "says where: {said:?}"
        );
    }
    std::fs::write(&journal, whole).expect("written");
    world.must(&["book", "verify"]);
}

#[test]
fn b12_a_write_runs_only_once_its_entry_is_signed_in_the_journal() {
    let world = World::new();
    let (journal, witnessed) = (world.dir().join("book/journal"), world.path("witnessed"));
    let hostile = Hostile::new(
        &world,
        "s",
        &json!({"journal": journal, "witnessed": witnessed}),
    );
    world.server("s", &hostile.command);
    world.agent("a");
    world.unlimited();
    let mut client = world.connect();
    for _ in 0..5 {
        client.call("constant", &json!({}));
    }
    let asked: Vec<_> = (0..40)
        .map(|_| client.ask_call("constant", &json!({})))
        .collect();
    for id in &asked {
        client.answer(id);
    }
    assert!(client.close().success());
    let seen = lines(&witnessed);
    assert_eq!(seen.len(), 45);
    for (ran, signed) in seen.iter().enumerate() {
        let signed: usize = signed.parse().expect("a number");
        assert!(signed > ran, "call {ran} ran while {signed} were signed");
    }
}

#[test]
fn a_cut_end_is_seen_by_whoever_keeps_the_pin() {
    let world = written();
    let journal = world.journal_files().remove(0);
    let whole = std::fs::read_to_string(&journal).expect("a journal");
    let lines: Vec<&str> = whole.lines().collect();
    let heads: Vec<usize> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with("#cp"))
        .map(|(n, _)| n)
        .collect();
    let keep = heads[heads.len() - 3];
    std::fs::write(&journal, format!("{}\n", lines[..=keep].join("\n"))).expect("written");
    let said = world.cs(&["book", "status"]);
    assert!(
        said.code == 32 && said.all().contains("ROLLED_BACK"),
        "a cut tail goes unnoticed: {said:?}"
    );
    assert_eq!(world.cs(&["book", "verify"]).code, 32);
    // The model is told, nothing runs, nothing is added; the newer bytes heal it.
    let cut = std::fs::read(&journal).expect("a journal");
    let mut client = world.run("bar", "files");
    client.initialize();
    client.tools();
    let path = world.text_path("files/after.txt");
    let answer = client.call("write_file", &json!({"path": path, "content": "x"}));
    client.close();
    let shown = answer.to_string();
    assert!(
        shown.contains("record_unavailable")
            && shown.contains("ROLLED_BACK")
            && shown.contains("countersign book status"),
        "{shown}"
    );
    assert!(!world.path("files/after.txt").exists());
    assert_eq!(std::fs::read(&journal).expect("a journal"), cut);
    std::fs::write(&journal, &whole).expect("written");
    world.must(&["book", "status"]);
    read_once(&world);
    world.must(&["book", "verify"]);
}

#[test]
fn rec_a_forged_line_at_the_end_is_never_signed() {
    let world = written();
    let journal = world.journal_files().remove(0);
    let mut bytes = std::fs::read(&journal).expect("a journal");
    bytes.extend_from_slice(b"{\"forged\":1}\n");
    std::fs::write(&journal, bytes).expect("written");
    let said = world.cs(&["book", "verify"]);
    assert!(
        said.code == 0 || said.code == 13,
        "an unsigned tail: {said:?}"
    );
    read_once(&world);
    let all: String = world
        .journal_files()
        .iter()
        .map(|file| std::fs::read_to_string(file).expect("a journal"))
        .collect();
    assert!(!all.contains("forged"), "a forged tail was taken in");
    world.must(&["book", "verify"]);
}

#[test]
fn rec_a_torn_last_batch_is_set_aside_and_the_next_start_goes_on() {
    let world = written();
    let journal = world.journal_files().remove(0);
    let whole = std::fs::read(&journal).expect("a journal");
    // Half of a batch, as a crash leaves it: nobody was told that it is written.
    let entry = whole.windows(2).position(|w| w == b"\n{");
    let torn = &whole[entry.expect("an entry") + 1..][..60];
    std::fs::write(&journal, [&whole[..], torn].concat()).expect("written");
    read_once(&world);
    world.must(&["book", "verify"]);
    assert!(
        world
            .dir()
            .join("book/quarantine")
            .read_dir()
            .is_ok_and(|mut entries| entries.next().is_some()),
        "kept in quarantine"
    );
}

/// Takes as long as the executor's patience with another process, twenty seconds.
#[test]
fn a_book_that_another_process_holds_is_answered_and_nothing_runs() {
    let (world, hostile) = Hostile::world(&json!({}));
    let lock = std::fs::File::options()
        .read(true)
        .write(true)
        .open(world.dir().join("book/LOCK"))
        .expect("the book's lock");
    lock.lock().expect("taken");
    let mut client = world.connect();
    let answer = client.call("constant", &json!({}));
    assert_eq!(
        countersign_tests::client::code(&answer).as_deref(),
        Some("record_unavailable"),
        "{answer}"
    );
    assert!(hostile.ran().is_empty());
    lock.unlock().expect("let go");
    let answer = client.call("constant", &json!({}));
    assert!(
        answer["result"]["isError"].is_null() || answer["result"]["isError"] == false,
        "{answer}"
    );
    client.close();
    assert_eq!(hostile.ran(), ["constant"]);
    world.must(&["book", "verify"]);
}
