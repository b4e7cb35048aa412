//! Keys, eras, erasure and pruning through the real binary, on a book with kept payloads.

use std::path::Path;

use countersign::folder::Folder;
use countersign::keeper::sources;
use countersign::recorder::liveness::Process;
use countersign::secrets::{Account, FileStore, Passphrase, Secret, SecretStore};
use countersign_book::{
    Actor, Call, CallId, Draft, Effect, Field, Outcome, Payload, Signer, Sources, Status, VaultKey,
    Writer, WriterOptions,
};
use serde_json::Value;

use crate::World;

const INIT: &str = "init --development --secrets file --name Maria --json";

pub(super) fn made() -> World {
    let world = World::new();
    assert_eq!(world.json(INIT)["development"], true);
    world
}

pub(super) fn store(world: &World) -> FileStore {
    let folder = Folder::resolve(Some(&world.dir())).unwrap();
    FileStore::open(&folder, Passphrase::new(b"correct horse".to_vec()).unwrap()).unwrap()
}

fn seed(store: &FileStore, account: &Account) -> [u8; 32] {
    *store.get(account).unwrap().unwrap().key().unwrap()
}

/// Calls whose arguments and results are kept, in small segments, as an executor writes them.
pub(super) fn write(world: &World, calls: std::ops::Range<u64>) {
    write_with(world, calls, sources());
}

/// The same with another clock.
pub(super) fn write_with(world: &World, calls: std::ops::Range<u64>, sources: Sources) {
    let store = store(world);
    let signer = Signer::from_seed(seed(&store, &Account::book_signing()));
    let vault = VaultKey::from_bytes(seed(&store, &Account::book_vault()));
    let options = WriterOptions {
        segment_bytes: 4000,
        vault_segment_bytes: 2000,
        ..WriterOptions::new("test")
    };
    let mut writer =
        Writer::open(&world.dir().join("book"), signer, vault, sources, options).unwrap();
    for n in calls {
        let id = CallId::parse(&format!("01ARZ3NDEKTSV4RRFFQ69G{n:04}")).unwrap();
        let call = Call {
            actor: Actor::Agent,
            agent: Some("a".into()),
            approval: None,
            args: None,
            call: id.clone(),
            client: None,
            confirmation: None,
            def: None,
            effect: Effect::Write,
            key: None,
            permission: None,
            process: "test".into(),
            purpose: None,
            request: None,
            rows: None,
            sent: None,
            server: "s".into(),
            session: None,
            turn: None,
            tool: "t".into(),
            via: "stdio".into(),
        };
        let args = format!("{{\"path\":\"canary-{n}\",\"password\":\"hunter-{n}\"}}");
        let result = format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"result-{n}\"}}]}}");
        writer
            .commit(vec![
                Draft::new(call).with(Field::Args, Payload::new(args)),
                Draft::new(Outcome::new(id, Status::Ok)).with(Field::Result, Payload::new(result)),
            ])
            .unwrap();
    }
}

fn holds(dir: &Path, what: &[u8]) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => holds(&path, what),
            false => {
                let bytes = std::fs::read(&path).unwrap();
                bytes.windows(what.len()).any(|window| window == what)
            }
        }
    })
}

fn code(answer: &Value) -> &str {
    answer["error"]["code"].as_str().unwrap_or("none")
}

#[test]
fn b31_b35_a_key_is_rotated_and_its_seed_is_nowhere() {
    let world = made();
    write(&world, 0..3);
    let before = world.json("key show --json");
    let genesis = before["keys"][0]["vkey"].as_str().unwrap().to_owned();
    assert_eq!(
        (
            before["keys"].as_array().unwrap().len(),
            &before["keys"][0]["held"]
        ),
        (1, &true.into())
    );
    let old = seed(&store(&world), &Account::book_signing());
    assert_eq!(code(&world.json("key rotate --json")), "needs_yes");
    assert_eq!(world.json("key show --json"), before, "nothing was changed");
    let rotated = world.json("key rotate --reason yearly --yes --json");
    assert_ne!(rotated["vkey"], genesis.as_str(), "{rotated}");
    let new = seed(&store(&world), &Account::book_signing());
    assert_eq!(seed(&store(&world), &Account::book_signing_before()), old);
    assert_eq!(
        store(&world).get(&Account::book_signing_next()).unwrap(),
        None
    );
    write(&world, 10..13);
    for line in [
        "book verify --json".to_owned(),
        format!("book verify --vkey {genesis} --json"),
        format!(
            "book verify --vkey {} --json",
            rotated["vkey"].as_str().unwrap()
        ),
    ] {
        let verified = world.json(&line);
        assert_eq!(verified["verdict"], "ok", "{line} {verified:#}");
    }
    let shown = world.json("key show --json");
    assert_eq!(shown["keys"][1]["state"], "in force");
    let fingerprint = shown["keys"][1]["fingerprint"].as_str().unwrap();
    assert_eq!(
        (fingerprint.len(), fingerprint.matches(' ').count()),
        (39, 7)
    );

    let mut outputs = Vec::new();
    for line in [
        "key show",
        "key rotate --yes",
        "book verify",
        "book list",
        "doctor",
        "book show 1 --payload",
    ] {
        let output = world.run(line);
        outputs.extend([output.stdout, output.stderr].concat());
    }
    for secret in [old, new, seed(&store(&world), &Account::book_vault())] {
        let hex = data_encoding(&secret);
        for spelled in [&secret[..], hex.as_bytes(), base64(&secret).as_bytes()] {
            assert!(!holds(&world.dir(), spelled), "a seed is in a file");
            assert!(
                !outputs
                    .windows(spelled.len())
                    .any(|window| window == spelled)
            );
        }
    }
}

fn data_encoding(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = bytes.chunks(3).flat_map(|chunk| {
        let bits = chunk
            .iter()
            .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        (0..=chunk.len()).map(move |at| char::from(ALPHABET[(bits >> (18 - 6 * at) & 63) as usize]))
    });
    digits.collect()
}

#[test]
fn a_rotation_cut_short_is_finished_and_no_second_key_is_made() {
    let world = made();
    write(&world, 0..2);
    let secrets = store(&world);
    let (old, fresh) = (seed(&secrets, &Account::book_signing()), [8; 32]);
    // Up to the moment the book has taken the key.
    secrets
        .set(&Account::book_signing_next(), &Secret::new(fresh.to_vec()))
        .unwrap();
    let vault = VaultKey::from_bytes(seed(&secrets, &Account::book_vault()));
    let options = WriterOptions::new("cut");
    Writer::open(
        &world.dir().join("book"),
        Signer::from_seed(old),
        vault,
        sources(),
        options,
    )
    .unwrap()
    .rotate_key(Signer::from_seed(fresh), "cut")
    .unwrap();
    assert_eq!(world.json("key show --json")["keys"][1]["held"], true);
    assert_eq!(world.json("book verify --json")["verdict"], "ok");
    let finished = world.run("key rotate --yes");
    assert!(
        String::from_utf8_lossy(&finished.stdout).contains("it is finished now"),
        "{finished:?}"
    );
    assert_eq!(seed(&secrets, &Account::book_signing()), fresh);
    assert_eq!(
        world.json("key show --json")["keys"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    // Before the book has taken it: the one left in the store gives way.
    secrets
        .set(&Account::book_signing_next(), &Secret::new(vec![9; 32]))
        .unwrap();
    world.json("key rotate --yes --json");
    assert_eq!(
        world.json("key show --json")["keys"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_ne!(seed(&secrets, &Account::book_signing()), [9; 32]);
    assert_eq!(world.json("book verify --json")["verdict"], "ok");
}

#[test]
fn b29_without_its_key_no_command_makes_one() {
    for account in [Account::book_signing(), Account::book_vault()] {
        let world = made();
        write(&world, 0..2);
        store(&world).remove(&account).unwrap();
        let kept = store(&world).list().unwrap();
        let before = world.json("book list --json");
        for line in [
            "key rotate --yes --json",
            "book erase 1 --yes --json",
            "book prune --before 2 --yes --json",
        ] {
            assert_eq!(
                code(&world.json(line)),
                "secret_missing",
                "{line} without {account}"
            );
        }
        for line in [
            "key show --json",
            "book verify --json",
            "book show 1 --payload --json",
            "doctor --json",
            INIT,
        ] {
            world.json(line);
        }
        assert_eq!(world.json("book list --json"), before);
        assert!(!kept.contains(&account), "{kept:?}");
        assert_eq!(store(&world).list().unwrap(), kept);
    }
}

#[test]
fn b38_erased_payloads_are_gone_and_said_so() {
    let world = made();
    write(&world, 0..3);
    let shown = world.json("book show 1 --payload --json");
    assert!(
        shown["payloads"].to_string().contains("canary-0"),
        "{shown:#}"
    );
    assert_eq!(code(&world.json("book erase 1 --json")), "needs_yes");
    let erased = world.json("book erase 1 --reason complaint --yes --json");
    assert_eq!(erased["entry"], 7, "{erased}");
    let again = world.run("book erase 1 --yes");
    assert!(
        again.status.success()
            && String::from_utf8_lossy(&again.stdout).contains("was erased before"),
        "{again:?}"
    );
    let shown = world.json("book show 1 --payload --json");
    assert_eq!(shown["kept"]["args"]["erased_by"], 7, "{shown:#}");
    assert!(!shown["payloads"].to_string().contains("canary-0"));
    let verified = world.json("book verify --json");
    assert_eq!(
        (&verified["verdict"], &verified["findings"][0]["kind"]),
        (&"ok".into(), &"payload erased, on record".into())
    );
    for (line, expected) in [
        ("book erase 99 --yes --json", "entry_unknown"),
        ("book erase 0 --yes --json", "entry_unknown"),
        ("book erase 3 --field result --yes --json", "entry_unknown"),
        ("book erase 4 --secrets --yes --json", "nothing_to_erase"),
    ] {
        assert_eq!(code(&world.json(line)), expected, "{line}");
    }
    let listed = world.run("book list");
    assert!(
        String::from_utf8_lossy(&listed.stdout).contains("complaint"),
        "{listed:?}"
    );
}

#[test]
fn pruned_entries_are_said_to_be_pruned() {
    let world = made();
    write(&world, 0..30);
    assert_eq!(code(&world.json("book prune --yes --json")), "usage");
    let nothing = world.json("book prune --before 2000-01-01 --yes --json");
    assert_eq!(
        (&nothing["entry"], &nothing["minimum"]),
        (&Value::Null, &0.into()),
        "{nothing}"
    );
    let pruned = world.json("book prune --before 30 --reason year --yes --json");
    let minimum = pruned["minimum"].as_u64().unwrap();
    assert!((1..=30).contains(&minimum), "{pruned}");
    assert_eq!(code(&world.json("book show 1 --json")), "entry_pruned");
    let verified = world.json("book verify --json");
    assert_eq!(
        (&verified["verdict"], &verified["first"]),
        (&"ok".into(), &minimum.into()),
        "{verified:#}"
    );
    assert_eq!(
        world.json("book list --from 0 --json")["entries"][0]["index"],
        minimum
    );
    assert_eq!(
        code(&world.json("book erase 1 --yes --json")),
        "entry_unknown"
    );
    write(&world, 40..42);
}

#[test]
fn b34_a_new_era_names_the_old_book_and_keeps_it() {
    let world = made();
    write(&world, 0..3);
    let old = world.json("key show --json");
    let refused = world.json("book new-era --json");
    assert_eq!(code(&refused), "needs_yes");
    let living = Process::enter(&world.dir().join("run")).unwrap();
    assert_eq!(
        code(&world.json("book new-era --yes --json")),
        "executors_running"
    );
    drop(living);
    let begun = world.json("book new-era --reason stolen --yes --json");
    assert_eq!(begun["before"]["origin"], old["origin"], "{begun:#}");
    assert_eq!(begun["before"]["closed"], true);
    assert_ne!(begun["origin"], old["origin"]);
    let closed = begun["before"]["path"].as_str().unwrap();
    let before = world.json(&format!(
        "book verify {closed} --vkey {} --json",
        old["keys"][0]["vkey"].as_str().unwrap()
    ));
    assert_eq!(
        (&before["verdict"], &before["size"]),
        (&"ok".into(), &8.into()),
        "{before:#}"
    );
    let entries = world.json("book list --json");
    let era = &entries["entries"][1];
    assert_eq!(
        (&era["kind"], &era["entry"]["reason"]),
        (&"era.open".into(), &"stolen".into())
    );
    let shown = world.json("key show --json");
    assert_eq!(
        (
            &shown["keys"][0]["held"],
            shown["keys"].as_array().unwrap().len()
        ),
        (&true.into(), 1)
    );
    write(&world, 50..52);
    assert_eq!(world.json("book verify --json")["verdict"], "ok");
    for left in ["era.json", "book.new"] {
        assert!(!world.dir().join(left).exists(), "{left}");
    }
    assert_eq!(
        store(&world).get(&Account::book_signing_era()).unwrap(),
        None
    );
}

#[test]
fn a_new_era_replaces_a_lost_key_and_a_damaged_book() {
    let world = made();
    write(&world, 0..3);
    store(&world).remove(&Account::book_signing()).unwrap();
    let begun = world.json("book new-era --reason lost --yes --json");
    assert_eq!(begun["before"]["closed"], false, "{begun:#}");
    assert_eq!(world.json("book verify --json")["verdict"], "ok");
    write(&world, 10..12);
    let journal = world.dir().join("book/journal/00000000000000000000.jsonl");
    let mut bytes = std::fs::read(&journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    assert_ne!(world.json("book verify --json")["verdict"], "ok");
    let begun = world.json("book new-era --reason damaged --yes --json");
    assert!(
        begun["before"]["why"].as_str().unwrap().contains("damaged"),
        "{begun:#}"
    );
    assert_eq!(world.json("book verify --json")["verdict"], "ok");
}

#[test]
fn a_new_era_cut_short_at_any_step_goes_on() {
    for step in 0..4 {
        let world = made();
        write(&world, 0..2);
        let dir = world.dir();
        let book = countersign_book::BookFile::read(&dir.join("book")).unwrap();
        let new = countersign_book::Origin::from_id([7; 16]);
        let plan = serde_json::json!({
            "origin": book.origin, "checkpoint": "", "closed": "book-closed", "new": new, "reason": "cut", "not_closed": null,
        });
        std::fs::write(dir.join("era.json"), plan.to_string()).unwrap();
        let secrets = store(&world);
        if step >= 1 {
            secrets
                .set(&Account::book_signing_era(), &Secret::new(vec![6; 32]))
                .unwrap();
            let begun = countersign_book::NewBook {
                origin: new.clone(),
                development: true,
                name: None,
                program: None,
                process: "cut".into(),
            };
            let era = countersign_book::Era {
                origin: book.origin.clone(),
                checkpoint: String::new(),
                reason: "cut".into(),
            };
            countersign_book::create_era(
                &dir.join("book.new"),
                &begun,
                &era,
                &Signer::from_seed([6; 32]),
                &mut sources(),
            )
            .unwrap();
        }
        if step >= 2 {
            std::fs::rename(dir.join("book"), dir.join("book-closed")).unwrap();
        }
        if step >= 3 {
            std::fs::rename(dir.join("book.new"), dir.join("book")).unwrap();
        }
        let begun = world.json("book new-era --yes --json");
        assert_eq!(begun["origin"], new.as_str(), "step {step}: {begun:#}");
        assert_eq!(
            world.json("book verify --json")["verdict"],
            "ok",
            "step {step}"
        );
        assert!(dir.join("book-closed/BOOK").exists() && !dir.join("era.json").exists());
        write(&world, 5..6);
    }
}
