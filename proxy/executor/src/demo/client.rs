//! A real MCP client, as small as it can be: one child process, one request after the other, newline JSON-RPC.
//! Refuses to know what it talks to: the proxy looks to it like any server.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long the client waits for one answer before it gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to one MCP server over stdio.
pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: u64,
}

impl Client {
    /// Starts `program` with `arguments` and `environment` and completes the handshake. What it says on stderr goes to `log`.
    ///
    /// # Errors
    /// When the process cannot be started or does not answer `initialize`.
    pub fn start(
        program: &Path,
        arguments: &[String],
        environment: &[(&str, &str)],
        log: std::fs::File,
    ) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(log))
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no stdout"))?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut client = Self {
            child,
            stdin,
            lines,
            next_id: 0,
        };
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "countersign-try", "version": env!("CARGO_PKG_VERSION")},
        });
        let answer = client.request("initialize", &hello)?;
        if answer.get("result").is_none() {
            return Err(io::Error::other(format!(
                "initialize was answered with {answer}"
            )));
        }
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(client)
    }

    /// Sends a request and waits for its response, the whole JSON-RPC object.
    ///
    /// # Errors
    /// When the other side is gone or silent.
    pub fn request(&mut self, method: &str, params: &Value) -> io::Result<Value> {
        let id = self.post(method, params)?;
        self.answer(id)
    }

    /// Sends a request and returns its id without waiting.
    ///
    /// # Errors
    /// When the other side is gone.
    pub fn post(&mut self, method: &str, params: &Value) -> io::Result<u64> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    /// Waits for the response to the request with this id; notifications are passed over.
    ///
    /// # Errors
    /// When the other side is gone or silent.
    pub fn answer(&mut self, id: u64) -> io::Result<Value> {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).map_err(|gone| match gone {
                RecvTimeoutError::Timeout => {
                    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
                }
                RecvTimeoutError::Disconnected => {
                    io::Error::new(io::ErrorKind::UnexpectedEof, "the other side ended")
                }
            })?;
            let message: Value = serde_json::from_str(&line).map_err(io::Error::other)?;
            if message["id"] == id && message.get("method").is_none() {
                return Ok(message);
            }
        }
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// When the other side is gone or silent.
    pub fn tool(&mut self, name: &str, arguments: &Value) -> io::Result<Value> {
        self.request("tools/call", &json!({"name": name, "arguments": arguments}))
    }

    /// Ends the conversation as a host does, by closing stdin, and waits for the process.
    ///
    /// # Errors
    /// When waiting fails.
    pub fn close(mut self) -> io::Result<()> {
        drop(self.stdin.take());
        self.child.wait().map(|_| ())
    }

    fn send(&mut self, message: &Value) -> io::Result<()> {
        let stdin = self
            .stdin
            .as_mut()
            .ok_or_else(|| io::Error::other("closed"))?;
        let mut text = message.to_string();
        text.push('\n');
        stdin.write_all(text.as_bytes())?;
        stdin.flush()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
