//! The relay between scripted peers over in-memory streams.

mod calls;
mod lifecycle;
mod messages;
#[cfg(unix)]
mod processes;
#[cfg(unix)]
mod speed;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use countersign_gate::json::{elements, member};
use countersign_gate::ports::{Failure, Forwarded, Pending, Ran};
use countersign_gate::{Answer, Code, Outcome, Refusal, Target};
use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, split,
};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::gatekeeper::{
    Beat, CallUpstream, Extent, GatedCall, GatedList, Gatekeeper, Listed, Reach,
};
use super::link::{Asked, failed};
use super::{Client, Left, RelaySettings, Running, Starter, run};
use crate::upstream::child::StartError;
use crate::upstream::diagnostics::Diagnostics;

const PATIENCE: Duration = Duration::from_secs(5);

/// One end of a line-based stream.
struct Peer {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
}

impl Peer {
    fn new(stream: DuplexStream) -> Self {
        let (reader, writer) = split(stream);
        Self {
            reader: BufReader::new(reader),
            writer,
        }
    }

    async fn say(&mut self, line: &str) {
        self.writer
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn hear_text(&mut self) -> String {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.reader.read_line(&mut line))
            .await
            .expect("nothing was said");
        assert!(read.unwrap() > 0, "the stream ended");
        line.trim_end().to_owned()
    }

    async fn hear(&mut self) -> Value {
        let line = self.hear_text().await;
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"))
    }

    /// Nothing is said for a while.
    async fn quiet(&mut self) {
        let mut line = String::new();
        let read =
            tokio::time::timeout(Duration::from_millis(80), self.reader.read_line(&mut line)).await;
        assert!(read.is_err(), "said: {line}");
    }
}

/// Decides by the tool's name: `hidden*` does not exist, `closed*` is refused, `slow*` waits for a permit; the rest passes.
struct TestGate {
    permits: Semaphore,
    changes: watch::Sender<u64>,
    learnt: AtomicUsize,
    ends: Mutex<Vec<String>>,
    /// How often progress was told.
    beats: Arc<AtomicUsize>,
}

impl Gatekeeper for TestGate {
    fn closed(&self, _reach: Reach) -> Option<Refusal> {
        None
    }

    fn learn(&self, pages: &[Bytes]) {
        let tools = pages
            .iter()
            .map(|page| member(page, "tools").map_or(0, |tools| elements(tools).count()))
            .sum();
        self.learnt.store(tools, Ordering::SeqCst);
    }

    fn call(
        self: Arc<Self>,
        call: GatedCall,
        upstream: Arc<CallUpstream>,
    ) -> Pending<'static, Answer> {
        Box::pin(async move {
            let name = match &call.target {
                Target::Tool(name) => name.clone(),
                other => format!("{other:?}"),
            };
            let refuse = |code| {
                Outcome::Refused(Box::new(Refusal::new(
                    code,
                    4,
                    format!("`{name}` is not open"),
                    "ask",
                )))
            };
            if name.starts_with("slow") {
                self.permits.acquire().await.unwrap().forget();
            }
            let outcome = if name.starts_with("hidden") {
                refuse(Code::NotFound)
            } else if name.starts_with("closed") {
                refuse(Code::Forbidden)
            } else {
                let beats = Arc::clone(&self.beats);
                let beat = Beat::new(move || {
                    beats.fetch_add(1, Ordering::SeqCst);
                });
                let ran = if name.starts_with("own") {
                    let params = br#"{"name":"x","_meta":{"a":1}}"#.to_vec();
                    let asked = upstream
                        .link
                        .ask_heard("tools/call", Some(params), Some(beat));
                    match asked.await {
                        Asked::Result(body) => Ran::Result {
                            body,
                            is_error: false,
                        },
                        Asked::Error(body) => Ran::ProtocolError { body },
                        Asked::Lost(lost) => failed(lost.failure, Forwarded::Yes, &lost.detail),
                    }
                } else {
                    upstream.send_as_received(beat).await
                };
                self.ends.lock().unwrap().push(match &ran {
                    Ran::Failed {
                        failure, forwarded, ..
                    } => format!("{failure:?} {forwarded:?}"),
                    Ran::ProtocolError { .. } => "error".to_owned(),
                    Ran::Result { is_error, .. } => format!("result {is_error}"),
                });
                match ran {
                    Ran::Result { body, is_error } => Outcome::Result { body, is_error },
                    Ran::ProtocolError { body } => Outcome::ProtocolError { body },
                    Ran::Failed {
                        failure: Failure::Cancelled,
                        ..
                    } => Outcome::Cancelled,
                    Ran::Failed {
                        failure: Failure::Timeout,
                        ..
                    } => refuse(Code::UpstreamTimeout),
                    Ran::Failed {
                        failure: Failure::Server,
                        ..
                    } => refuse(Code::UpstreamFailed),
                }
            };
            Answer {
                request_id: call.request_id,
                outcome,
                rate: None,
                replayed: false,
            }
        })
    }

    fn list(self: Arc<Self>, list: GatedList) -> Pending<'static, Listed> {
        Box::pin(async move {
            let last = list.pages.len() - 1;
            let filter = |(number, page): (usize, &Bytes)| {
                let mut page: Value = serde_json::from_slice(page).unwrap();
                let tools = page["tools"].as_array_mut().unwrap();
                tools.retain(|tool| !tool["name"].as_str().unwrap().starts_with("hidden"));
                if number == last && list.extent == Extent::Whole {
                    tools.push(serde_json::json!({"name": "countersign_whoami"}));
                }
                Bytes::from(page.to_string())
            };
            Listed {
                pages: Ok(list.pages.iter().enumerate().map(filter).collect()),
                rate: None,
            }
        })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

struct TestStarter {
    started: mpsc::UnboundedSender<Peer>,
}

impl Starter for TestStarter {
    fn start(&self) -> Pending<'static, Result<Running, StartError>> {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let started = self.started.send(Peer::new(theirs));
        Box::pin(async move {
            if started.is_err() {
                return Err(StartError::Spawn {
                    command: "x".to_owned(),
                    source: std::io::ErrorKind::NotFound.into(),
                });
            }
            let (stdout, stdin) = split(ours);
            Ok(Running {
                stdin: Box::new(stdin),
                stdout: Box::new(stdout),
                process: None,
            })
        })
    }
}

struct World {
    client: Peer,
    servers: mpsc::UnboundedReceiver<Peer>,
    gate: Arc<TestGate>,
    diagnostics: Diagnostics,
    stop: Option<oneshot::Sender<()>>,
    left: JoinHandle<Left>,
}

impl World {
    fn new(adjust: impl FnOnce(&mut RelaySettings)) -> Self {
        let (started, servers) = mpsc::unbounded_channel();
        Self::with_starter(adjust, Arc::new(TestStarter { started }), servers)
    }

    fn with_starter(
        adjust: impl FnOnce(&mut RelaySettings),
        starter: Arc<dyn Starter>,
        servers: mpsc::UnboundedReceiver<Peer>,
    ) -> Self {
        let mut settings = RelaySettings::new("files");
        adjust(&mut settings);
        let gate = Arc::new(TestGate {
            permits: Semaphore::new(0),
            changes: watch::Sender::new(0),
            learnt: AtomicUsize::new(0),
            ends: Mutex::new(Vec::new()),
            beats: Arc::default(),
        });
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (input, output) = split(ours);
        let client = Client {
            input: Box::new(input),
            output: Box::new(output),
        };
        let diagnostics = Diagnostics::new("files", None);
        let (stop, stopped) = oneshot::channel::<()>();
        let relay = run(
            settings,
            client,
            starter,
            gate.clone(),
            diagnostics.clone(),
            async {
                let _ = stopped.await;
            },
        );
        let left = tokio::spawn(async move { relay.await.unwrap() });
        Self {
            client: Peer::new(theirs),
            servers,
            gate,
            diagnostics,
            stop: Some(stop),
            left,
        }
    }

    async fn server(&mut self) -> Peer {
        tokio::time::timeout(PATIENCE, self.servers.recv())
            .await
            .expect("no server was started")
            .unwrap()
    }

    /// A legacy session that is open, with tools.
    async fn opened(adjust: impl FnOnce(&mut RelaySettings)) -> (Self, Peer) {
        let mut world = Self::new(adjust);
        let server = world.server().await;
        let server = world.open(server, "2025-11-25").await;
        (world, server)
    }

    async fn open(&mut self, mut server: Peer, version: &str) -> Peer {
        self.client.say(&initialize(version)).await;
        assert_eq!(server.hear().await["method"], "initialize");
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}}}}}}"#)).await;
        assert_eq!(
            self.client.hear().await["result"]["capabilities"]["tools"]["listChanged"],
            true
        );
        self.client
            .say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            .await;
        assert_eq!(server.hear().await["method"], "notifications/initialized");
        server
    }

    /// Answers the relay's own `tools/list`.
    async fn list_for_gate(&self, server: &mut Peer) {
        let asked = server.hear().await;
        assert_eq!(asked["method"], "tools/list");
        server
            .say(&format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":[{{"name":"echo"}}]}}}}"#,
                asked["id"]
            ))
            .await;
    }

    async fn leave(self) -> Left {
        drop(self.client);
        tokio::time::timeout(PATIENCE, self.left)
            .await
            .expect("the relay does not end")
            .unwrap()
    }

    fn words(&self) -> HashSet<String> {
        self.diagnostics.last_words().into_iter().collect()
    }

    fn said(&self, part: &str) -> bool {
        self.words().iter().any(|line| line.contains(part))
    }
}

fn initialize(version: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{"roots":{{}},"sampling":{{}}}},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
    )
}

fn call(id: &str, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"n":1e2}}}}}}"#
    )
}

fn result(id: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"n":1.0}}}}"#)
}
