//! Starts and kills of a whole relay process with a tree of processes behind it. Uses the example `relay`.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // a test

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The tests look at the machine's processes, so they take turns.
static TURN: Mutex<()> = Mutex::new(());

fn relay() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples/relay");
    assert!(
        path.exists(),
        "build it first: cargo build -p countersign --example relay"
    );
    path
}

/// A server that ignores the end of its input and TERM, with a child and a grandchild that do so too. `mark` makes all of them findable.
fn start(mark: &str) -> Child {
    let deaf = format!("trap '' TERM HUP INT; sleep {mark}");
    let ready = r#"printf '{"jsonrpc":"2.0","method":"notifications/message","params":{}}\n'"#;
    let script = format!(
        "trap '' TERM HUP INT; sh -c \"({deaf}; true) & {deaf}; true\" & {ready}; sleep {mark}; true"
    );
    Command::new(relay())
        .args(["--guardian", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn processes(part: &str) -> Vec<String> {
    let output = Command::new("ps")
        .args(["-A", "-o", "stat=,pid=,args="])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter(|line| line.contains(part) && !line.starts_with('Z'))
        .map(str::to_owned)
        .collect()
}

fn gone(part: &str, within: Duration) {
    let begun = Instant::now();
    loop {
        let left = processes(part);
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < within, "left after {within:?}: {left:#?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The first line the relay writes, within ten seconds.
fn first_line(relay: &mut Child) -> String {
    let mut output = BufReader::new(relay.stdout.take().unwrap());
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = output.read_line(&mut line);
        // The stream stays open for as long as the relay writes.
        let _ = sender.send(line);
        let _ = std::io::copy(&mut output, &mut std::io::sink());
    });
    receiver
        .recv_timeout(Duration::from_secs(10))
        .unwrap_or_else(|_| {
            let _ = relay.kill();
            panic!("the relay said nothing");
        })
}

fn wait_until_ready(relay: &mut Child) {
    let line = first_line(relay);
    assert!(line.contains("notifications/message"), "{line}");
}

/// In a container the leader of the session is outside of the process namespace, and its number is 0.
#[test]
#[cfg(target_os = "linux")]
fn m21_m24_hold_in_a_process_namespace() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let inside = |command: &str| {
        Command::new("unshare")
            .args(["-Urpf", "--mount-proc", "sh", "-c", command])
            .output()
    };
    if !inside("exit 0").is_ok_and(|output| output.status.success()) {
        println!("not run: this system lets nobody make a process namespace");
        return;
    }
    let me = std::env::current_exe().unwrap();
    // The shell is the namespace's first process and takes in what the killed relays leave.
    let output = inside(&format!("'{}' --exact {TWENTY}; exit $?", me.display())).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

fn kill(signal: &str, process: u32) {
    let command = format!("kill -{signal} {process}");
    let status = Command::new("sh").args(["-c", &command]).status().unwrap();
    assert!(status.success());
}

const TWENTY: &str = "m21_m24_twenty_starts_and_kills_leave_nothing";

#[test]
fn m21_m24_twenty_starts_and_kills_leave_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for round in 0..20_u64 {
        let mark = format!("98{:05}{round}", std::process::id());
        let mut relay = start(&mark);
        if round % 2 == 0 {
            wait_until_ready(&mut relay);
        } else {
            std::thread::sleep(Duration::from_millis(round * 4));
        }
        relay.kill().unwrap();
        relay.wait().unwrap();
        gone(&mark, Duration::from_secs(2));
    }
    gone("countersign-guardian", Duration::from_secs(2));
}

#[test]
fn m24_end_of_input_and_term_end_everything_with_exit_code_0_in_two_seconds() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for (round, signal) in [None, Some("TERM"), Some("INT")].into_iter().enumerate() {
        let mark = format!("97{:05}{round}", std::process::id());
        let mut relay = start(&mark);
        wait_until_ready(&mut relay);
        let begun = Instant::now();
        match signal {
            None => drop(relay.stdin.take()),
            Some(signal) => {
                kill(signal, relay.id());
            }
        }
        let status = relay.wait().unwrap();
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{signal:?}: {:?}",
            begun.elapsed()
        );
        assert_eq!(status.code(), Some(0), "{signal:?}");
        gone(&mark, Duration::from_secs(1));
    }
}

#[test]
fn m26_a_command_that_is_nowhere_is_an_answer_and_not_a_hang() {
    let mut relay = Command::new(relay())
        .args(["countersign-no-such-command"])
        .env("SHELL", "/bin/false")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = relay.stdin.take().unwrap();
    stdin
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\n")
        .unwrap();
    let line = first_line(&mut relay);
    assert!(
        line.contains("upstream_failed") && !line.contains("no-such-command"),
        "{line}"
    );
    drop(stdin);
    let output = relay.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("command `countersign-no-such-command` not found; looked in"),
        "{said}"
    );
}
