//! What the client says: judged, edited where documented, decided or passed on. Never touches the process.

use std::sync::Arc;

use bytes::Bytes;
use countersign_gate::Code;
use countersign_gate::json::member;
use countersign_gate::request::ClientFacts;

use super::gatekeeper::Reach;
use super::lifecycle;
use super::methods::Handling;
use super::session::{Acknowledged, Request, Session, Stage};
use super::shape::{self, Era, Kind};
use crate::frame::lines::Line;
use crate::frame::{Frame, Id, Judged, Meant, Message, Rejected, emit, judge, judge_element};

/// The one revision with JSON-RPC batches.
const BATCHES: &str = "2025-03-26";
/// Most requests in flight.
const MAX_IN_FLIGHT: usize = 4_096;
/// Most elements of a batch.
const MAX_BATCH: usize = 1_000;
/// Most resources whose subscription is said again to a restarted server.
const MAX_SUBSCRIPTIONS: usize = 1_000;

impl Session {
    pub(super) fn client_line(&mut self, line: Line<'_>) {
        match line {
            Line::Whole(b"") => {}
            Line::Whole(line) => match judge(line, self.settings.depth) {
                Ok(Judged::One(frame)) => self.client_message(&frame, None),
                Ok(Judged::Batch(elements)) => self.client_batch(&elements),
                Err(rejected) => self.client_rejected(&rejected, None),
            },
            Line::TooLong { skimmed, bytes } => {
                let sentence = format!(
                    "the message has {bytes} bytes, more than {}",
                    self.settings.frame_bytes
                );
                self.log(&format!("a message of the client was dropped: {sentence}"));
                if skimmed.method || skimmed.id.is_none() {
                    let id = skimmed.id.as_ref().map(|id| id.as_bytes());
                    self.tell_client(shape::fault(
                        id,
                        shape::INVALID_REQUEST,
                        "too_large",
                        &sentence,
                    ));
                }
            }
            Line::Partial(line) => {
                self.log(&format!(
                    "the client left in the middle of a message of {} bytes, which was dropped",
                    line.len()
                ));
            }
        }
    }

    fn client_rejected(&mut self, rejected: &Rejected, batch: Option<u64>) {
        self.log(&format!(
            "a message of the client was refused: {}",
            rejected.reason
        ));
        let (code, what) = match rejected.meant {
            Meant::Unparsable => (shape::PARSE_ERROR, "malformed_message"),
            Meant::Request => (shape::INVALID_REQUEST, "malformed_message"),
            Meant::Notification => return,
            Meant::Answer => return self.malformed_answer(rejected),
        };
        self.join_batch(batch);
        self.answer(
            batch,
            Some(shape::fault(
                rejected.id.as_deref(),
                code,
                what,
                &rejected.reason,
            )),
        );
    }

    /// The server that waits for this answer gets an error instead of nothing.
    fn malformed_answer(&mut self, rejected: &Rejected) {
        let Some(id) = rejected.id.as_deref().and_then(Id::parse) else {
            return;
        };
        if self.server_requests.remove(&id).is_some() {
            let raw = emit::raw(&id);
            self.tell_server(
                shape::fault(
                    Some(raw.as_bytes()),
                    -32_603,
                    "malformed_message",
                    "the client's answer was malformed",
                ),
                None,
            );
        }
    }

    fn client_batch(&mut self, elements: &[&[u8]]) {
        if self.peers.negotiated.as_deref() != Some(BATCHES)
            || elements.is_empty()
            || elements.len() > MAX_BATCH
        {
            self.log("a batch of the client was refused");
            let sentence = "batches are not part of the protocol revision in use, or this one is empty or too long";
            return self.tell_client(shape::fault(
                None,
                shape::INVALID_REQUEST,
                "malformed_message",
                sentence,
            ));
        }
        let batch = self.open_batch();
        for element in elements {
            match judge_element(element) {
                Ok(frame) => self.client_message(&frame, Some(batch)),
                Err(rejected) => self.client_rejected(&rejected, Some(batch)),
            }
        }
        self.answer(Some(batch), None);
    }

    fn client_message(&mut self, frame: &Frame<'_>, batch: Option<u64>) {
        match &frame.message {
            Message::Request {
                id,
                raw_id,
                method,
                params,
            } => {
                self.join_batch(batch);
                self.client_request(frame, (id, raw_id), method, *params, batch);
            }
            Message::Notification { method, params } => {
                self.client_notification(frame, method, *params)
            }
            Message::Result { id, .. } => self.client_answer(frame, Some(id)),
            Message::Error { id, .. } => self.client_answer(frame, id.as_ref()),
        }
    }

    fn client_request(
        &mut self,
        frame: &Frame<'_>,
        (id, raw_id): (&Id, &[u8]),
        method: &str,
        params: Option<&[u8]>,
        batch: Option<u64>,
    ) {
        if self.requests.contains_key(id) || self.abandoned.contains(id) {
            let sentence = "a request with this id is still in flight";
            return self.answer(
                batch,
                Some(shape::fault(
                    Some(raw_id),
                    shape::INVALID_REQUEST,
                    "id_in_use",
                    sentence,
                )),
            );
        }
        if self.requests.len() >= MAX_IN_FLIGHT {
            let sentence = "too many requests are in flight";
            let line = shape::fault(
                Some(raw_id),
                shape::INVALID_REQUEST,
                "too_many_in_flight",
                sentence,
            );
            return self.answer(batch, Some(line));
        }
        let Some(handling) = self.settings.passing.client_request(method) else {
            self.log(&format!("the client's request `{}` was refused: not in the specification, not in the entry's `methods`", Self::quote_for_log(method)));
            let sentence = "this method is not open on this server";
            return self.answer(
                batch,
                Some(shape::fault(
                    Some(raw_id),
                    shape::METHOD_NOT_FOUND,
                    "method_not_open",
                    sentence,
                )),
            );
        };
        let era = if lifecycle::is_modern(params) {
            Era::Modern
        } else {
            Era::Legacy
        };
        let reach = match handling {
            Handling::Opening | Handling::List => Reach::Opening,
            _ => Reach::Server,
        };
        if handling != Handling::Gated
            && method != "ping"
            && let Some(refusal) = self.gatekeeper.closed(reach)
        {
            let asked = shape::Asked {
                raw_id: raw_id.to_vec(),
                kind: Kind::Method,
                era,
            };
            let line = shape::refused(&asked, &refusal, &String::from_utf8_lossy(raw_id), None);
            return self.answer(batch, Some(line));
        }
        self.note_client(method, params, era);
        let passing = &self.settings.passing;
        let edited = match method {
            "initialize" => params.map(|params| lifecycle::initialize_params(params, passing)),
            _ => params.and_then(|params| lifecycle::request_params(params, passing)),
        };
        let params: Option<Bytes> = edited
            .map(Bytes::from)
            .or_else(|| params.map(Bytes::copy_from_slice));
        let meta = params.as_deref().and_then(|params| member(params, "_meta"));
        let token = meta
            .and_then(|meta| member(meta, "progressToken"))
            .and_then(Id::parse);
        let kind = match (
            method,
            params.as_deref().and_then(|params| member(params, "task")),
        ) {
            ("tools/call", None) => Kind::Tool,
            ("tools/call", Some(_)) => Kind::TaskTool,
            _ => Kind::Method,
        };
        let task = params
            .as_deref()
            .is_some_and(|params| member(params, "task").is_some());
        let request = Request {
            raw_id: raw_id.to_vec(),
            kind,
            era,
            method: method.into(),
            stage: if matches!(handling, Handling::List | Handling::Gated) {
                Stage::Deciding
            } else {
                Stage::Passing
            },
            batch,
            // Progress of a task goes on after the answer that created it.
            token: token.clone().filter(|_| !task),
            cancelled: false,
            deadline: None,
            beat: None,
            listens: listens(handling, params.as_deref()),
            repeatable: repeatable(method, params.as_deref()),
        };
        if let Some(token) = token
            && self.tokens.len() < 2 * MAX_IN_FLIGHT
        {
            self.tokens.insert(token, id.clone());
        }
        self.requests.insert(id.clone(), request);
        match handling {
            Handling::List => self.decide_list(id, params.as_ref()),
            Handling::Gated => self.decide_call(id, method, params.as_ref()),
            Handling::Opening | Handling::Pass | Handling::Listen => {
                let line = emit::request(raw_id, method, params.as_deref(), &frame.extra);
                self.pass(id, handling, line);
            }
        }
    }

    fn pass(&mut self, id: &Id, handling: Handling, line: Vec<u8>) {
        if let Err(detail) = self.wake() {
            self.log(&detail);
            let sentence = format!(
                "The server `{}` is not available now.",
                self.settings.server
            );
            return self.fail_passing(id, Code::UpstreamFailed, &sentence);
        }
        let patience = match handling {
            Handling::Listen => None,
            Handling::Opening => Some(self.settings.start),
            _ => Some(self.settings.call),
        };
        let deadline = patience.map(|patience| self.set_deadline(id, patience));
        if let Some(request) = self.requests.get_mut(id) {
            request.deadline = deadline;
        }
        self.tell_server(line, Some(id.clone()));
    }

    /// What the client says of itself: shown and recorded, never believed.
    fn note_client(&mut self, method: &str, params: Option<&[u8]>, era: Era) {
        self.peers.modern |= era == Era::Modern;
        self.peers.initialized &= method != "initialize";
        let info = match (method, era) {
            ("initialize", _) => params.and_then(|params| member(params, "clientInfo")),
            (_, Era::Modern) => params
                .and_then(|params| member(params, "_meta"))
                .and_then(|meta| member(meta, lifecycle::META_CLIENT)),
            (_, Era::Legacy) => None,
        };
        if let Some(name) = lifecycle::text(info, "name") {
            let version = lifecycle::text(info, "version").unwrap_or_default();
            self.peers.client = Some(ClientFacts { name, version });
        }
    }

    fn client_notification(&mut self, frame: &Frame<'_>, method: &str, params: Option<&[u8]>) {
        if !self.settings.passing.client_notification(method) {
            return self.log(&format!(
                "the client's notification `{}` was dropped",
                Self::quote_for_log(method)
            ));
        }
        match method {
            "notifications/cancelled" => return self.client_cancels(frame, params),
            "notifications/progress" => {
                let token = params
                    .and_then(|params| member(params, "progressToken"))
                    .and_then(Id::parse);
                let known = token.is_some()
                    && self
                        .server_requests
                        .values()
                        .any(|request| request.token == token);
                if !known {
                    return self.log(
                        "progress of the client for nothing the server waits for was dropped",
                    );
                }
            }
            "notifications/initialized" => self.peers.initialized = true,
            _ => {}
        }
        if self.process.is_down() {
            return self.log(&format!(
                "the client's notification `{method}` was dropped: the server is not running"
            ));
        }
        self.tell_server(emit::again(frame), None);
    }

    fn client_cancels(&mut self, frame: &Frame<'_>, params: Option<&[u8]>) {
        let id = params
            .and_then(|params| member(params, "requestId"))
            .and_then(Id::parse);
        let Some((id, request)) =
            id.and_then(|id| self.requests.get_mut(&id).map(|request| (id, request)))
        else {
            return self.log("a cancellation of the client for no request in flight was dropped");
        };
        if &*request.method == "initialize" {
            return self.log("the client cancelled `initialize`, which cannot be cancelled");
        }
        request.cancelled = true;
        let at_server = matches!(request.stage, Stage::Running(_) | Stage::Passing);
        let passing = matches!(request.stage, Stage::Passing);
        if !at_server {
            return;
        }
        let withdrawn = self.to_server.withdraw(&id) || self.withdraw_held(&id);
        if !withdrawn {
            self.abandon(&id);
            self.tell_server(emit::again(frame), None);
        }
        if passing {
            if let Some(request) = self.take_request(&id) {
                self.answer(request.batch, None);
            }
        } else {
            use countersign_gate::ports::{Failure, Forwarded};
            let forwarded = if withdrawn {
                Forwarded::No
            } else {
                Forwarded::Yes
            };
            self.finish_running(
                &id,
                super::link::failed(Failure::Cancelled, forwarded, "the client cancelled"),
            );
        }
    }

    fn withdraw_held(&mut self, id: &Id) -> bool {
        let place = self
            .held
            .iter()
            .position(|(_, request)| request.as_ref() == Some(id));
        place.map(|place| self.held.remove(place)).is_some()
    }

    fn client_answer(&mut self, frame: &Frame<'_>, id: Option<&Id>) {
        if id.is_some_and(|id| self.server_requests.remove(id).is_some()) {
            self.tell_server(emit::again(frame), None);
        } else {
            self.log("an answer of the client to a request nobody made was dropped");
        }
    }

    /// A request of the client that the server has answered well: what must be said again to a restarted server.
    pub(super) fn remember(&mut self, method: &Arc<str>, params: Option<Vec<u8>>) {
        let Some(params) = params else { return };
        let uri = |params: &[u8]| lifecycle::text(Some(params), "uri");
        match &**method {
            "initialize" => self.peers.handshake = Some(params),
            "logging/setLevel" => self.peers.log_level = Some(params),
            "resources/subscribe" | "resources/unsubscribe" => {
                self.peers
                    .subscriptions
                    .retain(|known| uri(known) != uri(&params));
                if &**method == "resources/subscribe"
                    && self.peers.subscriptions.len() < MAX_SUBSCRIPTIONS
                {
                    self.peers.subscriptions.push(params);
                }
            }
            _ => {}
        }
    }
}

fn listens(handling: Handling, params: Option<&[u8]>) -> Option<Acknowledged> {
    let wants = params
        .and_then(|params| member(params, "notifications"))
        .and_then(|wants| member(wants, "toolsListChanged"));
    (handling == Handling::Listen && wants == Some(b"true")).then_some(Acknowledged::NotYet)
}

fn repeatable(method: &str, params: Option<&[u8]>) -> Option<Vec<u8>> {
    let repeatable = [
        "initialize",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
    ]
    .contains(&method);
    params.filter(|_| repeatable).map(<[u8]>::to_vec)
}
