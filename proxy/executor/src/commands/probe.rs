//! The look at a server for `server check`: started once, greeted, its tools listed and vetted, ended. Decides nothing about agents.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use countersign_gate::catalog::{Catalog, Validators, items};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

use crate::frame::lines::{Line, LineReader};
use crate::launch;
use crate::problem::Problem;
use crate::secrets::{Account, Secret};
use crate::settings::{Open, Server, Settings, facts};
use crate::store::{Pin, StateDb};
use crate::upstream::child::{Child, Patience};
use crate::upstream::diagnostics::Diagnostics;

use super::server::CheckArgs;
use super::server_check::ListedTool;
use super::{Context, plain};

/// Pages of a list that are read at most.
const PAGES: usize = 64;

/// Starts the server, does the handshake and lists its tools. Those seen for the first time are pinned; with `accept` all are, as they are now.
///
/// # Errors
/// When the server does not start, does not answer in time or answers nonsense: with its last words.
pub fn probe(
    context: &Context,
    settings: &Settings,
    server: &Server,
    args: &CheckArgs,
) -> Result<Vec<ListedTool>, Problem> {
    let diagnostics = Diagnostics::new(server.name.as_str(), Some(&context.folder.logs()));
    let values = values(context, settings, server)?;
    let spec = launch::spec(server, &values)
        .map_err(|error| failed(server, &error.to_string(), &diagnostics))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(server, &error.to_string(), &diagnostics))?;
    let patience = Duration::from_secs(settings.limits.start_seconds.into());
    let frame = usize::try_from(settings.limits.frame_bytes).unwrap_or(usize::MAX);
    let pages = runtime.block_on(async {
        let mut child = Child::start(&spec, None, diagnostics.clone())
            .await
            .map_err(|error| error.to_string())?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("it has no standard input and output".to_owned());
        };
        let talked = tokio::time::timeout(patience, Talk::new(stdin, stdout, frame).list()).await;
        child.end(Patience::LEAVING).await;
        talked.unwrap_or_else(|_| Err(format!("it did not answer within {} s", patience.as_secs())))
    });
    let pages = pages.map_err(|why| failed(server, &why, &diagnostics))?;
    judged(context, settings, server, args, &pages)
}

fn judged(
    context: &Context,
    settings: &Settings,
    server: &Server,
    args: &CheckArgs,
    pages: &[Bytes],
) -> Result<Vec<ListedTool>, Problem> {
    let nonsense = |error: String| {
        Problem::new(
            "server_list",
            format!(
                "the tools of server `{}` cannot be read: {error}",
                server.name
            ),
            "report it to the server's makers",
        )
    };
    let mut found = Vec::new();
    for page in pages {
        found.extend(items(page).map_err(|error| nonsense(error.to_string()))?);
    }
    let state = StateDb::open(&context.folder)?;
    let known = facts(settings, 1, Open::Yes, Arc::default())
        .map_err(|error| nonsense(error.to_string()))?;
    let Some(entry) = known.server(server.name.as_str()) else {
        return Ok(Vec::new());
    };
    let catalog = Catalog::build(entry, &found, &mut Validators::default());
    let seen: Vec<Pin> = catalog
        .tools
        .iter()
        .map(|tool| Pin {
            tool: tool.name.to_string(),
            definition: tool.definition,
            text: String::from_utf8_lossy(&tool.raw).into_owned(),
        })
        .collect();
    if args.accept {
        state.forget_pins(server.name.as_str())?;
    }
    // The person looks at them now: what is new is pinned as it is, what has a pin keeps it.
    state.pin_first_seen(server.name.as_str(), &seen, Timestamp::now())?;
    let pins = state.pins()?;
    let pins = pins.get(server.name.as_str());
    let changed = |tool: &countersign_gate::catalog::Tool| {
        let pin = pins.and_then(|pins| pins.get(&*tool.name));
        pin.is_some_and(|pin| *pin != tool.definition)
            .then(|| format!("its definition has changed since it was first seen; look at it, then `countersign server check {} --accept`", server.name))
    };
    let mut tools: Vec<ListedTool> = catalog
        .tools
        .iter()
        .map(|tool| ListedTool {
            name: tool.name.to_string(),
            set_aside: changed(tool),
            schema: schema(&tool.raw),
        })
        .collect();
    tools.extend(catalog.set_aside.iter().map(|aside| ListedTool {
        name: aside.tool.clone(),
        set_aside: Some(format!("{} (at `{}`)", aside.reason, aside.pointer)),
        schema: None,
    }));
    Ok(tools)
}

/// The input schema of a tool's definition.
fn schema(definition: &[u8]) -> Option<Value> {
    let mut definition: Value = serde_json::from_slice(definition).ok()?;
    definition.get_mut("inputSchema").map(Value::take)
}

/// The values of the server's secrets: (variable, value).
fn values(
    context: &Context,
    settings: &Settings,
    server: &Server,
) -> Result<Vec<(String, Secret)>, Problem> {
    if server.secrets().next().is_none() {
        return Ok(Vec::new());
    }
    let store = context.secrets(settings)?;
    let mut values = Vec::new();
    for (name, place) in server.secrets() {
        if let Some(value) = store.get(&Account::server(place))? {
            values.push((name.to_owned(), value));
        }
    }
    Ok(values)
}

fn failed(server: &Server, why: &str, diagnostics: &Diagnostics) -> Problem {
    let words = diagnostics.last_words();
    let last: Vec<String> = words
        .iter()
        .rev()
        .take(5)
        .rev()
        .map(|line| plain(line))
        .collect();
    let said = if last.is_empty() {
        String::new()
    } else {
        format!("; its last words: {}", last.join(" | "))
    };
    Problem::new(
        "server_failed",
        format!(
            "server `{}` cannot be used: {}{said}",
            server.name,
            plain(why)
        ),
        "start the same command in a terminal and see what it needs; its log is in the folder `logs`",
    )
}

/// A conversation with one server, one request after the other.
struct Talk {
    stdin: ChildStdin,
    lines: LineReader<BufReader<ChildStdout>>,
    next: u64,
}

impl Talk {
    fn new(stdin: ChildStdin, stdout: ChildStdout, frame: usize) -> Self {
        Self {
            stdin,
            lines: LineReader::new(BufReader::new(stdout), frame),
            next: 0,
        }
    }

    /// Handshake and list: the raw `result` members of all pages.
    async fn list(mut self) -> Result<Vec<Bytes>, String> {
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "countersign", "version": env!("CARGO_PKG_VERSION")},
        });
        let greeted = self.request("initialize", &hello).await?;
        let greeted: Value = serde_json::from_slice(&greeted).map_err(|error| error.to_string())?;
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await?;
        if greeted["capabilities"].get("tools").is_none() {
            return Ok(Vec::new());
        }
        let mut pages = Vec::new();
        let mut params = json!({});
        while pages.len() < PAGES {
            let page = self.request("tools/list", &params).await?;
            let cursor = countersign_gate::json::member(&page, "nextCursor")
                .and_then(countersign_gate::json::decode)
                .map(std::borrow::Cow::into_owned);
            pages.push(page);
            match cursor {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return Ok(pages),
            }
        }
        Err(format!("its list of tools has more than {PAGES} pages"))
    }

    async fn say(&mut self, message: &Value) -> Result<(), String> {
        let line = format!("{message}\n");
        self.stdin
            .write_all(line.as_bytes())
            .await
            .map_err(|error| format!("it takes no input: {error}"))?;
        self.stdin
            .flush()
            .await
            .map_err(|error| format!("it takes no input: {error}"))
    }

    async fn request(&mut self, method: &str, params: &Value) -> Result<Bytes, String> {
        self.next += 1;
        let id = self.next;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await?;
        loop {
            let line = self
                .lines
                .next()
                .await
                .map_err(|error| format!("its output cannot be read: {error}"))?;
            let Some(line) = line else {
                return Err("it ended without an answer".to_owned());
            };
            let Line::Whole(line) = line else { continue };
            // A server may talk, notify and ask in between; here nothing but the answer counts.
            let Ok(message) = serde_json::from_slice::<Value>(line) else {
                continue;
            };
            if message["id"] != id || message.get("method").is_some() {
                continue;
            }
            if let Some(result) = countersign_gate::json::member(line, "result") {
                return Ok(Bytes::copy_from_slice(result));
            }
            return Err(format!(
                "it answered `{method}` with an error: {}",
                message["error"]["message"].as_str().unwrap_or_default()
            ));
        }
    }
}
