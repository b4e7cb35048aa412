//! What the gate costs: the same calls direct, through a bare two-pipe relay, through the executor and through other
//! proxies, in one run, as one table. Measures only; nothing here asserts on time. Started by `tests/bench`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Bodies measured: (label, bytes of the echoed text).
const SIZES: [(&str, usize); 3] = [("100 B", 100), ("64 KB", 64 << 10), ("1 MB", 1 << 20)];
/// Clients that call at the same time, each through a process of its own.
const CLIENTS: [usize; 3] = [1, 8, 32];

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("echo-server") => echo_server(),
        Some("relay") => relay(arguments.get(1..).unwrap_or_default()),
        Some("run") => run(arguments.get(1..).unwrap_or_default()),
        _ => Err("usage: bench run --countersign BINARY [--other NAME=COMMAND …] [--quick]".into()),
    }
}

/// A server as fast as a server can be: `echo` answers its text, `put` writes nothing and says so.
fn echo_server() -> Result<(), Failure> {
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    let mut output = io::stdout().lock();
    let mut line = String::new();
    loop {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let Some(id) = member(&line, "\"id\":") else {
            continue;
        };
        let answer = if line.contains("\"initialize\"") {
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}"#.to_owned()
        } else if line.contains("\"tools/list\"") {
            let schema =
                r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
            format!(
                r#"{{"tools":[{{"name":"echo","inputSchema":{schema}}},{{"name":"put","inputSchema":{schema}}}]}}"#
            )
        } else if line.contains("\"tools/call\"") {
            let text = member(&line, "\"text\":").unwrap_or("\"\"");
            let text = if line.contains("\"put\"") {
                "\"stored\""
            } else {
                text
            };
            format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#)
        } else {
            "{}".to_owned()
        };
        let message = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{answer}}}\n");
        output.write_all(message.as_bytes())?;
        output.flush()?;
    }
}

/// Text of a scalar member, found by its quoted name: enough for messages this program itself writes.
fn member<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let start = line.find(name)? + name.len();
    let rest = line.get(start..)?.trim_start();
    let end = if let Some(inside) = rest.strip_prefix('"') {
        inside.find('"')? + 2
    } else {
        rest.find([',', '}', '\n'])?
    };
    rest.get(..end)
}

/// The floor of any proxy: two threads that copy lines between two pipes and look at nothing.
fn relay(command: &[String]) -> Result<(), Failure> {
    let program = command.first().ok_or("relay needs a command")?;
    let mut child = Command::new(program)
        .args(command.get(1..).unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdin = child.stdin.take().ok_or("no stdin")?;
    let stdout = child.stdout.take().ok_or("no stdout")?;
    let back = std::thread::spawn(move || copy_lines(stdout, io::stdout()));
    copy_lines(io::stdin(), stdin)?;
    back.join().map_err(|_| "relay thread")??;
    child.wait()?;
    Ok(())
}

fn copy_lines(from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut from = BufReader::with_capacity(1 << 16, from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        line.clear();
    }
    Ok(())
}

/// One way to reach the server: what it is called and how it is started.
#[derive(Clone)]
struct Way {
    name: String,
    command: Vec<String>,
    environment: Vec<(String, String)>,
}

struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
    first_answer: Duration,
}

impl Peer {
    fn start(path: &Way) -> Result<Self, Failure> {
        let begin = Instant::now();
        let mut child = Command::new(&path.command[0])
            .args(&path.command[1..])
            .envs(path.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = BufReader::with_capacity(1 << 16, child.stdout.take().ok_or("no stdout")?);
        let mut peer = Self {
            child,
            stdin,
            stdout,
            next: 0,
            first_answer: Duration::ZERO,
        };
        peer.request("initialize", r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}"#)?;
        peer.first_answer = begin.elapsed();
        peer.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        peer.request("tools/list", "{}")?;
        Ok(peer)
    }

    fn send(&mut self, text: &str) -> Result<(), Failure> {
        let stdin = self.stdin.as_mut().ok_or("closed")?;
        stdin.write_all(text.as_bytes())?;
        Ok(stdin.flush()?)
    }

    fn request(&mut self, method: &str, params: &str) -> Result<String, Failure> {
        self.next += 1;
        let wanted = format!("\"id\":{}", self.next);
        self.send(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{method}\",\"params\":{params}}}\n",
            self.next
        ))?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.stdout.read_line(&mut line)? == 0 {
                return Err("the other side ended".into());
            }
            if line.contains(&wanted) && !line.contains("\"method\"") {
                return Ok(line);
            }
        }
    }

    fn call(&mut self, tool: &str, text: &str) -> Result<Duration, Failure> {
        let params = format!("{{\"name\":\"{tool}\",\"arguments\":{{\"text\":\"{text}\"}}}}");
        let begin = Instant::now();
        let answer = self.request("tools/call", &params)?;
        let took = begin.elapsed();
        if answer.contains("\"isError\":true") || answer.contains("\"error\"") {
            return Err(format!(
                "a call was refused: {}",
                answer.get(..answer.len().min(400)).unwrap_or_default()
            )
            .into());
        }
        Ok(took)
    }

    /// Resident memory of the started process in KiB, where the system tells it.
    fn resident(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut countersign = None;
    let mut others = Vec::new();
    let mut calls = 2_000;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--countersign" => countersign = rest.next().cloned(),
            "--other" => others.push(rest.next().cloned().ok_or("--other NAME=COMMAND")?),
            "--quick" => calls = 200,
            other => return Err(format!("unknown argument `{other}`").into()),
        }
    }
    let countersign = PathBuf::from(countersign.ok_or("--countersign BINARY is needed")?);
    let myself = std::env::current_exe()?.to_string_lossy().into_owned();
    let folder = tempfile::tempdir()?;
    let executor = executor(&countersign, &myself, folder.path())?;
    let server = vec![myself.clone(), "echo-server".to_owned()];
    let mut relay = vec![myself, "relay".to_owned()];
    relay.extend(server.clone());
    let mut paths = vec![
        plain("direct", server.clone()),
        plain("relay", relay),
        executor,
    ];
    for other in others {
        let (name, command) = other.split_once('=').ok_or("--other NAME=COMMAND")?;
        paths.push(plain(
            name,
            command.split_whitespace().map(str::to_owned).collect(),
        ));
    }
    println!(
        "append + fsync of 1.2 KiB on this disk: {}",
        floor(folder.path())?
    );
    starts(&paths)?;
    table(&paths, calls)?;
    println!(
        "binary: {:.1} MiB",
        fs::metadata(&countersign)?.len() as f64 / f64::from(1 << 20)
    );
    Ok(())
}

fn plain(name: &str, command: Vec<String>) -> Way {
    Way {
        name: name.to_owned(),
        command,
        environment: Vec::new(),
    }
}

/// An executor with the echo server, `echo` a read and `put` a write, and buckets that never run dry.
fn executor(countersign: &Path, myself: &str, folder: &Path) -> Result<Way, Failure> {
    let dir = folder.join("executor");
    let passphrase = folder.join("passphrase");
    fs::write(&passphrase, "bench")?;
    let environment = vec![
        (
            "COUNTERSIGN_DIR".to_owned(),
            dir.to_string_lossy().into_owned(),
        ),
        (
            "COUNTERSIGN_PASSPHRASE_FILE".to_owned(),
            passphrase.to_string_lossy().into_owned(),
        ),
    ];
    let commands: [&[&str]; 5] = [
        &["init", "--development", "--secrets", "file"],
        &["server", "add", "echo", "--", myself, "echo-server"],
        &["tool", "set", "echo", "echo", "--kind", "read"],
        &[
            "tool", "set", "echo", "put", "--kind", "write", "--danger", "never",
        ],
        &["agent", "add", "bench"],
    ];
    for command in commands {
        let output = Command::new(countersign)
            .args(command)
            .envs(environment.clone())
            .output()?;
        if !output.status.success() {
            return Err(format!(
                "countersign {}: {}",
                command.join(" "),
                String::from_utf8_lossy(&output.stderr)
            )
            .into());
        }
    }
    let file = dir.join("executor.json");
    let mut settings: serde_json::Value = serde_json::from_slice(&fs::read(&file)?)?;
    settings["buckets"]["key"] = serde_json::json!({"size": 1_000_000, "per_minute": 1_000_000});
    fs::write(&file, serde_json::to_vec_pretty(&settings)?)?;
    let command = [
        countersign.to_string_lossy().as_ref(),
        "run",
        "--agent",
        "bench",
        "--server",
        "echo",
    ]
    .map(str::to_owned);
    Ok(Way {
        name: "countersign".to_owned(),
        command: command.to_vec(),
        environment,
    })
}

/// Median and 99th percentile of the bare append and sync that no durable record can undercut.
fn floor(folder: &Path) -> Result<String, Failure> {
    let mut file = File::create(folder.join("floor"))?;
    let bytes = vec![b'x'; 1_200];
    let mut times = Vec::new();
    for _ in 0..300 {
        let begin = Instant::now();
        file.write_all(&bytes)?;
        file.sync_data()?;
        times.push(begin.elapsed());
    }
    Ok(format!(
        "p50 {}, p99 {}",
        ms(percentile(&mut times, 50)),
        ms(percentile(&mut times, 99))
    ))
}

fn starts(paths: &[Way]) -> Result<(), Failure> {
    println!(
        "\n{:<14} {:>22} {:>16}",
        "path", "start to first answer", "resident, idle"
    );
    for path in paths {
        let mut times = Vec::new();
        let mut resident = None;
        for _ in 0..15 {
            let peer = Peer::start(path)?;
            times.push(peer.first_answer);
            resident = peer.resident();
        }
        let memory = resident.map_or_else(
            || "?".to_owned(),
            |kib| format!("{:.1} MiB", kib as f64 / 1024.0),
        );
        println!(
            "{:<14} {:>22} {memory:>16}",
            path.name,
            ms(percentile(&mut times, 50))
        );
    }
    Ok(())
}

fn table(paths: &[Way], calls: usize) -> Result<(), Failure> {
    println!(
        "\n{:<14} {:<6} {:<6} {:>3} {:>10} {:>10} {:>10} {:>14}",
        "path", "tool", "body", "n", "p50", "p99", "calls/s", "p50 - relay"
    );
    for (tool, sizes) in [("echo", &SIZES[..]), ("put", &SIZES[..1])] {
        for (label, size) in sizes {
            for clients in CLIENTS {
                if *size > 1 << 16 && clients > 8 {
                    continue;
                }
                let each = (calls / clients / if *size > 1 << 12 { 10 } else { 1 }).max(20);
                let mut relay: BTreeMap<&str, Duration> = BTreeMap::new();
                for path in paths {
                    let (mut times, wall) = measure(path, tool, *size, clients, each)?;
                    let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
                    relay.insert(path.name.as_str(), p50);
                    let over = relay
                        .get("relay")
                        .map_or_else(String::new, |relay| signed(p50, *relay));
                    let rate = times.len() as f64 / wall.as_secs_f64();
                    println!(
                        "{:<14} {tool:<6} {label:<6} {clients:>3} {:>10} {:>10} {rate:>10.0} {over:>14}",
                        path.name,
                        ms(p50),
                        ms(p99)
                    );
                }
            }
        }
    }
    Ok(())
}

fn measure(
    path: &Way,
    tool: &str,
    size: usize,
    clients: usize,
    each: usize,
) -> Result<(Vec<Duration>, Duration), Failure> {
    let mut peers = Vec::new();
    for _ in 0..clients {
        peers.push(Peer::start(path)?);
    }
    let text = "x".repeat(size);
    let begin = Instant::now();
    let results: Vec<Result<Vec<Duration>, Failure>> = std::thread::scope(|scope| {
        let threads: Vec<_> = peers
            .iter_mut()
            .map(|peer| {
                let text = &text;
                scope.spawn(move || {
                    peer.call(tool, text)?;
                    (0..each).map(|_| peer.call(tool, text)).collect()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err("a client died".into()))
            })
            .collect()
    });
    let wall = begin.elapsed();
    let mut times = Vec::new();
    for result in results {
        times.extend(result?);
    }
    Ok((times, wall))
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times
        .get((times.len() * percent / 100).min(times.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

fn ms(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

fn signed(time: Duration, relay: Duration) -> String {
    format!(
        "{:+.3} ms",
        (time.as_secs_f64() - relay.as_secs_f64()) * 1e3
    )
}
