//! The state of one client session and its one server process: who asked what, what waits where. One thread owns it; every change
//! is one method. What the messages mean is in `from_client` and `from_server`, how a call is decided in `decide`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use countersign_gate::ports::{Failure, Forwarded, Ran};
use countersign_gate::request::ClientFacts;
use countersign_gate::{Code, Refusal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::catalog::Catalog;
use super::gatekeeper::Gatekeeper;
use super::link::{Asked, Beat, Command, Link, failed};
use super::outbox::Outbox;
use super::process::Process;
use super::shape::{self, Era, Kind};
use super::{RelaySettings, Running, Starter};
use crate::frame::{Id, emit};
use crate::upstream::child::StartError;
use crate::upstream::diagnostics::{Diagnostics, printable};

pub(super) struct Session {
    pub(super) settings: RelaySettings,
    pub(super) gatekeeper: Arc<dyn Gatekeeper>,
    pub(super) diagnostics: Diagnostics,
    pub(super) to_client: Outbox,
    pub(super) to_server: Outbox,
    /// Waits until a restarted server has the client's handshake again.
    pub(super) held: Vec<(Vec<u8>, Option<Id>)>,
    pub(super) link: Link,
    pub(super) catalog: Arc<Catalog>,
    pub(super) tasks: JoinSet<Done>,
    /// The client's requests that have no answer yet.
    pub(super) requests: HashMap<Id, Request>,
    /// Our own requests to the server.
    pub(super) asked: HashMap<Id, Ask>,
    /// Ids the server may still answer although nobody waits.
    pub(super) abandoned: HashSet<Id>,
    /// The server's requests that the client has not answered yet.
    pub(super) server_requests: HashMap<Id, ServerRequest>,
    /// Progress tokens of the client's requests whose answer the server still owes.
    pub(super) tokens: HashMap<Id, Id>,
    pub(super) peers: Peers,
    pub(super) process: Process,
    pub(super) starter: Arc<dyn Starter>,
    pub(super) deadlines: BTreeSet<(Instant, Id)>,
    batches: HashMap<u64, Batch>,
    next: u64,
    pub(super) prefix: String,
}

/// What a task of the session ended with.
pub(super) enum Done {
    /// A decided request: its line, or nothing to send.
    Answered(Id, Option<Vec<u8>>),
    /// The server process is up, or not.
    Started(Box<Result<Running, StartError>>),
    /// A server process has been seen off.
    SeenOff,
}

pub(super) struct Request {
    pub(super) raw_id: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) era: Era,
    pub(super) method: Arc<str>,
    pub(super) stage: Stage,
    pub(super) batch: Option<u64>,
    pub(super) token: Option<Id>,
    pub(super) cancelled: bool,
    pub(super) deadline: Option<Instant>,
    /// Told of the progress of a call that runs.
    pub(super) beat: Option<Beat>,
    /// A listen request that wants to hear of tools, and whether it was acknowledged.
    pub(super) listens: Option<Acknowledged>,
    /// The params of what may have to be said again to a restarted server.
    pub(super) repeatable: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acknowledged {
    NotYet,
    Yes,
}

pub(super) enum Stage {
    /// The server's answer is passed on.
    Passing,
    /// Nothing has been sent.
    Deciding,
    /// Sent for the gate, which waits.
    Running(oneshot::Sender<Ran>),
    /// The gate has the end of it and writes it down.
    Recording,
}

pub(super) struct Ask {
    pub(super) purpose: Purpose,
    pub(super) deadline: Instant,
    /// Told of progress under the request's own id as token.
    pub(super) beat: Option<Beat>,
}

pub(super) enum Purpose {
    Answer(oneshot::Sender<Asked>),
    /// The client's handshake, said again.
    Handshake,
    /// A subscription or log level, said again: its answer interests nobody.
    Repeat,
}

pub(super) struct ServerRequest {
    pub(super) token: Option<Id>,
}

/// What the two peers have said of themselves.
#[derive(Default)]
pub(super) struct Peers {
    pub(super) negotiated: Option<String>,
    pub(super) initialized: bool,
    pub(super) modern: bool,
    pub(super) has_tools: bool,
    pub(super) client: Option<ClientFacts>,
    /// The params of the client's `initialize`, as sent to the server.
    pub(super) handshake: Option<Vec<u8>>,
    /// What a restarted server is told again: the log level, and resources by their params.
    pub(super) log_level: Option<Vec<u8>>,
    pub(super) subscriptions: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Batch {
    open: usize,
    lines: Vec<Vec<u8>>,
}

impl Session {
    pub(super) fn new(
        settings: RelaySettings,
        gatekeeper: Arc<dyn Gatekeeper>,
        starter: Arc<dyn Starter>,
        diagnostics: Diagnostics,
    ) -> std::io::Result<(Self, mpsc::UnboundedReceiver<Command>)> {
        let (link, commands) = Link::new();
        let mut random = [0_u8; 16];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let prefix = format!("countersign-{}", data_encoding::HEXLOWER.encode(&random));
        let session = Self {
            settings,
            gatekeeper,
            diagnostics,
            to_client: Outbox::default(),
            to_server: Outbox::default(),
            held: Vec::new(),
            link,
            catalog: Arc::new(Catalog::new()),
            tasks: JoinSet::new(),
            requests: HashMap::new(),
            asked: HashMap::new(),
            abandoned: HashSet::new(),
            server_requests: HashMap::new(),
            tokens: HashMap::new(),
            peers: Peers::default(),
            process: Process::default(),
            starter,
            deadlines: BTreeSet::new(),
            batches: HashMap::new(),
            next: 0,
            prefix,
        };
        Ok((session, commands))
    }

    /// A line of diagnostics, for the person only.
    pub(super) fn log(&self, text: &str) {
        self.diagnostics.say(text);
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    // === towards the client

    pub(super) fn tell_client(&mut self, line: Vec<u8>) {
        self.to_client.push(line, None);
    }

    /// An answer to the client, kept back where its request came in a batch.
    pub(super) fn answer(&mut self, batch: Option<u64>, line: Option<Vec<u8>>) {
        let Some(number) = batch else {
            if let Some(line) = line {
                self.tell_client(line);
            }
            return;
        };
        let Some(open) = self.batches.get_mut(&number) else {
            return;
        };
        open.open -= 1;
        open.lines.extend(line);
        if open.open > 0 {
            return;
        }
        let lines = self
            .batches
            .remove(&number)
            .map(|batch| batch.lines)
            .unwrap_or_default();
        if !lines.is_empty() {
            let parts: Vec<&[u8]> = lines.iter().map(|line| line.trim_ascii_end()).collect();
            self.tell_client([b"[", &parts.join(&b","[..])[..], b"]\n"].concat());
        }
    }

    /// Opens a batch that ends with [`Session::answer`] once for itself and once for each [`Session::join_batch`].
    pub(super) fn open_batch(&mut self) -> u64 {
        let number = self.number();
        self.batches.insert(
            number,
            Batch {
                open: 1,
                lines: Vec::new(),
            },
        );
        number
    }

    pub(super) fn join_batch(&mut self, batch: Option<u64>) {
        if let Some(open) = batch.and_then(|number| self.batches.get_mut(&number)) {
            open.open += 1;
        }
    }

    /// Ends a request that is passed on with an error of ours.
    pub(super) fn fail_passing(&mut self, id: &Id, code: Code, sentence: &str) {
        let Some(request) = self.take_request(id) else {
            return;
        };
        let refusal = Refusal::new(
            code,
            13,
            sentence,
            "Try again later, or ask the person to look at the server's log.",
        );
        let asked = shape::Asked {
            raw_id: request.raw_id,
            kind: Kind::Method,
            era: request.era,
        };
        let line = (!request.cancelled).then(|| shape::refused(&asked, &refusal, id.text(), None));
        self.answer(request.batch, line);
    }

    pub(super) fn take_request(&mut self, id: &Id) -> Option<Request> {
        let request = self.requests.remove(id)?;
        self.server_owes_nothing(id, &request.token, request.deadline);
        Some(request)
    }

    /// The server has answered, or never will: its deadline and progress end.
    pub(super) fn server_owes_nothing(
        &mut self,
        id: &Id,
        token: &Option<Id>,
        deadline: Option<Instant>,
    ) {
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, id.clone()));
        }
        if let Some(token) = token
            && self.tokens.get(token) == Some(id)
        {
            self.tokens.remove(token);
        }
    }

    /// Tells the client that its list of tools may be another one now.
    pub(super) fn announce(&mut self) {
        const METHOD: &str = "notifications/tools/list_changed";
        if self.peers.initialized && self.peers.has_tools {
            self.tell_client(emit::notification(METHOD, None, &[]));
        }
        let listening: Vec<Vec<u8>> = self
            .requests
            .values()
            .filter(|request| request.listens == Some(Acknowledged::Yes))
            .map(|request| request.raw_id.clone())
            .collect();
        for raw_id in listening {
            let id = String::from_utf8_lossy(&raw_id);
            let params = format!(
                "{{\"_meta\":{{\"{}\":{id}}}}}",
                super::lifecycle::META_SUBSCRIPTION
            );
            self.tell_client(emit::notification(METHOD, Some(params.as_bytes()), &[]));
        }
    }

    /// Whether a client that left still waits for something we can give it.
    pub(super) fn owes_answers(&self) -> bool {
        !self.to_client.is_empty()
            || self.requests.values().any(|request| {
                !request.cancelled && request.deadline.is_some()
                    || !matches!(request.stage, Stage::Passing)
            })
    }

    /// The client is gone: what runs ends as cancelled, so that every noted call has an outcome.
    pub(super) fn client_gone(&mut self) {
        let running: Vec<Id> = self.requests.keys().cloned().collect();
        for id in running {
            if let Some(request) = self.requests.get_mut(&id) {
                request.cancelled = true;
            }
            let sent = !self.to_server.withdraw(&id);
            let forwarded = if sent { Forwarded::Yes } else { Forwarded::No };
            self.finish_running(
                &id,
                failed(Failure::Cancelled, forwarded, "the client is gone"),
            );
        }
        let asked: Vec<Id> = self.asked.keys().cloned().collect();
        for id in asked {
            self.take_asked(&id);
        }
    }

    pub(super) fn quote_for_log(text: &str) -> String {
        printable(text.as_bytes())
    }
}
