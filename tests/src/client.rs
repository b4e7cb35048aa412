//! A raw MCP client over a child's stdio: lines in, lines out, nothing typed, so that what a proxy changes is seen.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{PATIENCE, process};

/// One connection. Dropping it kills the process it started.
pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    last_id: i64,
    aside: Vec<Value>,
    seen: Vec<Vec<u8>>,
}

impl Client {
    /// Starts `command` and connects to its stdio.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let (sender, lines) = channel();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        std::thread::spawn(move || {
            loop {
                let mut line = Vec::new();
                match stdout.read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {
                        if sender.send(line).is_err() {
                            break;
                        }
                    }
                }
            }
        });
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&stderr);
        let mut errors = child.stderr.take().expect("stderr is piped");
        std::thread::spawn(move || {
            let mut chunk = [0; 8192];
            while let Ok(n @ 1..) = errors.read(&mut chunk) {
                kept.lock()
                    .expect("no panic while held")
                    .extend_from_slice(&chunk[..n]);
            }
        });
        Self {
            stdin: child.stdin.take(),
            child,
            lines,
            stderr,
            last_id: 0,
            aside: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// Id of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        assert!(
            self.try_raw(bytes),
            "the process does not read any more: {}",
            self.stderr()
        );
    }

    /// Writes bytes as they are; false when nobody reads them any more.
    pub fn try_raw(&mut self, bytes: &[u8]) -> bool {
        let Some(stdin) = self.stdin.as_mut() else {
            return false;
        };
        stdin.write_all(bytes).and_then(|()| stdin.flush()).is_ok()
    }

    /// Writes one line of text.
    pub fn line(&mut self, text: &str) {
        self.raw(format!("{text}\n").as_bytes());
    }

    /// Writes one message.
    pub fn send(&mut self, message: &Value) {
        self.line(&message.to_string());
    }

    /// The next line with its end, `None` when the stream is closed.
    pub fn next_line(&mut self) -> Option<Vec<u8>> {
        self.next_line_within(PATIENCE)
    }

    fn next_line_within(&mut self, patience: Duration) -> Option<Vec<u8>> {
        match self.lines.recv_timeout(patience) {
            Ok(line) => {
                self.seen.push(line.clone());
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no answer; stderr: {}", self.stderr()),
        }
    }

    /// The next message that is not yet read, those set aside by [`Client::answer`] excluded.
    pub fn next_message(&mut self) -> Value {
        match self.next_line() {
            Some(line) => parse(&line),
            None => panic!("the stream is closed; stderr: {}", self.stderr()),
        }
    }

    /// Waits for a message that `wanted` accepts; the others are set aside.
    pub fn wait_for(&mut self, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        if let Some(at) = self.aside.iter().position(&mut wanted) {
            return self.aside.remove(at);
        }
        loop {
            let message = self.next_message();
            if wanted(&message) {
                return message;
            }
            self.aside.push(message);
        }
    }

    /// Waits for the response to `id`.
    pub fn answer(&mut self, id: &Value) -> Value {
        self.wait_for(|message| is_response(message) && message.get("id") == Some(id))
    }

    /// As [`Client::answer`], where more patience is asked for than any other answer needs.
    pub fn late_answer(&mut self, id: &Value, patience: Duration) -> Value {
        let is_it = |message: &Value| is_response(message) && message.get("id") == Some(id);
        if let Some(at) = self.aside.iter().position(is_it) {
            return self.aside.remove(at);
        }
        loop {
            let Some(line) = self.next_line_within(patience) else {
                panic!("the stream is closed; stderr: {}", self.stderr());
            };
            let message = parse(&line);
            if is_it(&message) {
                return message;
            }
            self.aside.push(message);
        }
    }

    /// Waits for a notification or request of the server of that method.
    pub fn incoming(&mut self, method: &str) -> Value {
        self.wait_for(|message| message.get("method").and_then(Value::as_str) == Some(method))
    }

    /// Messages that came while others were waited for, oldest first.
    pub fn aside(&self) -> &[Value] {
        &self.aside
    }

    /// Every line read so far.
    pub fn seen(&self) -> &[Vec<u8>] {
        &self.seen
    }

    /// The raw line of the response to `id`, among those already read.
    pub fn raw_answer(&self, id: &Value) -> String {
        self.seen
            .iter()
            .rev()
            .find(|line| {
                serde_json::from_slice::<Value>(line)
                    .is_ok_and(|message| is_response(&message) && message.get("id") == Some(id))
            })
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .unwrap_or_else(|| panic!("no response to {id} was read"))
    }

    /// Sends a request and returns its id without waiting.
    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let id = json!(self.last_id);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request and waits for its response.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.ask(method, params);
        self.answer(&id)
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// The 2025-11-25 handshake; returns the `initialize` response.
    pub fn initialize(&mut self) -> Value {
        self.initialize_as("2025-11-25", &json!({}))
    }

    /// The handshake with a version and capabilities of choice.
    pub fn initialize_as(&mut self, version: &str, capabilities: &Value) -> Value {
        let answer = self.request(
            "initialize",
            &json!({
                "protocolVersion": version,
                "capabilities": capabilities,
                "clientInfo": {"name": "countersign-tests", "version": "1"},
            }),
        );
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }

    /// All tools, page by page.
    pub fn tools(&mut self) -> Vec<Value> {
        let mut tools = Vec::new();
        let mut params = json!({});
        loop {
            let answer = self.request("tools/list", &params);
            let result = answer
                .get("result")
                .unwrap_or_else(|| panic!("no list: {answer}"));
            let page = result["tools"].as_array().expect("a list of tools");
            tools.extend(page.iter().cloned());
            match result.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return tools,
            }
        }
    }

    /// Calls a tool; the whole response.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Sends a call and returns its id without waiting.
    pub fn ask_call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// A ping that comes back proves that everything sent before it was taken in.
    pub fn fence(&mut self) {
        let answer = self.request("ping", &json!({}));
        assert!(is_response(&answer), "no answer to a ping: {answer}");
    }

    /// What the process wrote on stderr so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().expect("no panic while held")).into_owned()
    }

    /// Closes stdin.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Closes stdin and waits for the process to end.
    pub fn close(mut self) -> ExitStatus {
        self.close_stdin();
        process::wait(&mut self.child)
    }

    /// Closes stdin, waits for the end, and returns all that was said on stderr.
    pub fn close_with_stderr(mut self) -> (ExitStatus, String) {
        self.close_stdin();
        let status = process::wait(&mut self.child);
        while self.lines.recv_timeout(PATIENCE).is_ok() {}
        (status, self.stderr())
    }

    /// Kills the process as a power cut would.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for the process to end by itself.
    pub fn wait(&mut self) -> ExitStatus {
        process::wait(&mut self.child)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// True for a result or an error.
pub fn is_response(message: &Value) -> bool {
    message.get("result").is_some() || message.get("error").is_some()
}

/// The refusal's or error's text, whichever way it was answered; `None` when the call went through.
pub fn refusal(answer: &Value) -> Option<String> {
    if let Some(error) = answer.get("error") {
        return Some(error.to_string());
    }
    let result = &answer["result"];
    (result["isError"] == json!(true)).then(|| result.to_string())
}

/// The member of `_meta` and of an error's `data` that holds our own refusals.
pub const REFUSAL: &str = "localhost.countersign/refusal";

/// The code of a refusal, where it stands for this kind of answer.
pub fn code(answer: &Value) -> Option<String> {
    let result = &answer["result"];
    let marked = [&result["_meta"][REFUSAL], &answer["error"]["data"][REFUSAL]];
    marked
        .into_iter()
        .chain([&result["structuredContent"]])
        .find_map(|place| {
            place
                .as_str()
                .or_else(|| place["code"].as_str())
                .map(str::to_owned)
        })
}

/// The answer without the one member that is added to every counted result: how much of the rate is left.
pub fn without_rate(answer: &Value) -> Value {
    let mut answer = answer.clone();
    for body in ["result", "error"] {
        let name = if body == "result" { "_meta" } else { "data" };
        let Some(meta) = answer
            .get_mut(body)
            .and_then(|body| body.get_mut(name))
            .and_then(Value::as_object_mut)
        else {
            continue;
        };
        let had = meta.remove("localhost.countersign/rate").is_some();
        let empty = meta.is_empty();
        if had
            && empty
            && let Some(body) = answer.get_mut(body).and_then(Value::as_object_mut)
        {
            body.remove(name);
        }
    }
    answer
}

/// The first text of a result.
pub fn text(answer: &Value) -> String {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {answer}"))
        .to_owned()
}

fn parse(line: &[u8]) -> Value {
    assert_eq!(
        line.last(),
        Some(&b'\n'),
        "a line without its end: {:?}",
        String::from_utf8_lossy(line)
    );
    let value: Value = serde_json::from_slice(line)
        .unwrap_or_else(|error| panic!("not JSON ({error}): {:?}", String::from_utf8_lossy(line)));
    assert!(value.is_object(), "not an object: {value}");
    value
}
