//! What is in the executor's memory stays there (B35): a process that dies of a fault leaves no core, and another process of the same
//! user, without privileges, reads neither its memory nor its environment.

use std::process::{Command, Output, Stdio};

use countersign_tests::client::{Client, refusal};
use countersign_tests::hostile::Hostile;
use countersign_tests::world::World;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// Cores wherever the system is set to leave them in the folder of who dies.
const CORES: &str = "ulimit -c unlimited; exec \"$@\"";

fn running() -> (World, Client) {
    let (world, _) = Hostile::world(&json!({}));
    world.unlimited();
    let run = world.command(&["run", "--agent", "a", "--server", "s"]);
    let mut command = unprivileged("sh");
    command
        .args(["-c", CORES, "sh"])
        .arg(run.get_program())
        .args(run.get_args())
        .env_clear()
        .current_dir(world.root());
    for (name, value) in run.get_envs() {
        command.env(name, value.expect("a value"));
    }
    let mut client = Client::start(&mut command);
    client.initialize();
    // Keys and secrets are in memory once a call has run.
    assert_eq!(
        refusal(&client.call("slow", &json!({"text": "x", "ms": 0}))),
        None
    );
    (world, client)
}

fn cores(world: &World) -> Vec<String> {
    let entries = std::fs::read_dir(world.root()).expect("a folder");
    let names = entries.map(|entry| {
        let name = entry.expect("an entry").file_name();
        name.to_string_lossy().into_owned()
    });
    names.filter(|name| name.starts_with("core")).collect()
}

#[test]
fn b35_a_process_that_dies_of_a_fault_leaves_no_core() {
    for (signal, number) in [(Signal::SEGV, "SEGV"), (Signal::ABORT, "ABRT")] {
        let (world, mut client) = running();
        let pid = i32::try_from(client.pid()).expect("a process id");
        let pid = Pid::from_raw(pid).expect("not 0");
        // The first fault may be one of the stack's end, which is looked into; it is none, and the next one kills.
        for _ in 0..3 {
            let _ = kill_process(pid, signal);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert!(!client.wait().success());
        assert_eq!(cores(&world), Vec::<String>::new(), "{number}");
        // The system does leave them for others, or hands them to a program, which is not asked either.
        let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
        if pattern.trim() == "core" {
            let mut other = Command::new("sh");
            let script = format!("ulimit -c unlimited; sh -c 'kill -{number} $$'");
            other.args(["-c", &script]).current_dir(world.root());
            assert!(!other.status().expect("sh starts").success());
            assert_ne!(
                cores(&world),
                Vec::<String>::new(),
                "{number}: no core of anybody"
            );
        }
    }
}

#[test]
fn b35_other_processes_of_this_user_read_neither_memory_nor_environment() {
    let (world, mut client) = running();
    let mut sleeper = unprivileged("sleep")
        .arg("60")
        .stdin(Stdio::null())
        .spawn()
        .expect("sleep starts");
    for file in ["environ", "mem", "maps", "auxv"] {
        let ours = read(&format!("/proc/{}/{file}", client.pid()));
        assert!(
            !ours.status.success() && ours.stdout.is_empty(),
            "{file}: {ours:?}"
        );
        let words = String::from_utf8_lossy(&ours.stderr).into_owned();
        assert!(words.contains("Permission denied"), "{file}: {words}");
    }
    // What is refused is refused because of whose it is, not because of who asks.
    let other = read(&format!("/proc/{}/environ", sleeper.id()));
    assert!(other.status.success(), "{other:?}");
    sleeper.kill().expect("killed");
    sleeper.wait().expect("ended");
    assert_eq!(
        refusal(&client.call("slow", &json!({"text": "y", "ms": 0}))),
        None
    );
    assert!(client.close().success());
    drop(world);
}

/// Reads a file.
fn read(path: &str) -> Output {
    let mut head = unprivileged("head");
    head.args(["-c", "1", path]).env("LC_ALL", "C");
    head.output().expect("head starts")
}

/// A program as this user without any privilege: root's own reach everything.
fn unprivileged(program: &str) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", "--", program]);
    command
}
