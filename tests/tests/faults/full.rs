//! A disk that is full, a real one: the book lies on a small file system in memory, which is filled, and emptied again while the
//! executor runs (B16).

use std::path::Path;
use std::process::Command;

use countersign_tests::client::{Client, refusal};
use serde_json::json;

use super::{begun, call, endure, hold_against};

/// What runs in a name space of its own before it becomes the executor: the book on 1 MiB of memory, filled up to a few pages. A
/// helper empties it when it is asked to, and takes the book out at the end; it waits a minute at most.
const FILL: &str = r#"
set -e
mount -t tmpfs -o size=1m none dir/book
cp -a before/. dir/book/
dd if=/dev/zero of=dir/book/ballast bs=4096 count=1000 2>/dev/null || true
truncate -s -"$FREE" dir/book/ballast
helper() {
  for n in $(seq 600); do [ -e room ] && break; sleep 0.1; done
  rm -f dir/book/ballast
  for n in $(seq 600); do [ -e over ] && break; sleep 0.1; done
  cp -a dir/book/. after/
  touch out
}
helper </dev/null >/dev/null 2>&1 &
exec "$@"
"#;

#[test]
fn b16_a_full_disk_refuses_calls_and_room_ends_that() {
    // So that the disk is full at a first entry, at a payload, within an outcome.
    std::thread::scope(|scope| {
        for free in [8 << 10, 12 << 10, 20 << 10, 36 << 10] {
            scope.spawn(move || check(free));
        }
    });
}

fn check(free: u64) {
    let what = format!("{free} bytes are free");
    let (world, hostile, _, _) = begun();
    std::fs::rename(world.dir().join("book"), world.path("before")).expect("moved");
    for made in [world.dir().join("book"), world.path("after")] {
        std::fs::create_dir(made).expect("made");
    }
    let run = world.command(&["run", "--agent", "a", "--server", "s"]);
    let mut command = Command::new("unshare");
    command.args(if rustix::process::geteuid().is_root() {
        ["--mount", "--"].as_slice()
    } else {
        ["--map-root-user", "--mount", "--"].as_slice()
    });
    command
        .args(["sh", "-c", FILL, "sh"])
        .arg(run.get_program())
        .args(run.get_args())
        .env_clear()
        .current_dir(world.root());
    for (name, value) in run.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    let mut client = Client::start(command.env("FREE", free.to_string()));
    client.initialize();
    let book = world.dir().join("book");
    let path = book.to_str().expect("a temporary path is text");
    let endured = endure(
        &mut client,
        "no space is left on the disk",
        path,
        &what,
        || touch(&world.path("room")),
    );
    for n in 0..5 {
        let answer = client.call("slow", &json!({"text": format!("after-{n}"), "ms": 0}));
        assert!(refusal(&answer).is_none(), "{what}: {answer}");
    }
    let _ = call(&mut client, "last");
    assert!(client.close().success(), "{what}");
    touch(&world.path("over"));
    let end = std::time::Instant::now() + countersign_tests::PATIENCE;
    while !world.path("out").exists() {
        assert!(
            std::time::Instant::now() < end,
            "{what}: the book was not taken out"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::fs::remove_dir(&book).expect("removed");
    std::fs::rename(world.path("after"), &book).expect("moved");
    hold_against(&world, &hostile, &endured, "no_space", &what);
}

fn touch(path: &Path) {
    std::fs::write(path, "").expect("written");
}
