//! What the server says: judged as strictly as the client's words, matched to who waits, edited where documented, or dropped with a line
//! in its log. Never touches the process.

use bytes::Bytes;
use countersign_gate::Code;
use countersign_gate::json::{Change, edit, member};
use countersign_gate::ports::{Failure, Forwarded, Ran};

use super::link::{Asked, Lost, failed};
use super::methods::Feature;
use super::session::{Acknowledged, Purpose, ServerRequest, Session, Stage};
use super::{lifecycle, shape};
use crate::frame::lines::Line;
use crate::frame::{
    Frame, Id, Judged, Meant, Message, Rejected, emit, judge_element, judge_from_server,
};
use crate::upstream::diagnostics::Source;

const BATCHES: &str = "2025-03-26";
/// JSON-RPC code of a refused sampling request, as the specification's example has it.
const USER_REJECTED: i64 = -1;

impl Session {
    pub(super) fn server_line(&mut self, line: Line<'_>) {
        match line {
            Line::Whole(b"") => {}
            Line::Whole(line) => match judge_from_server(line, self.settings.depth) {
                Ok(Judged::One(frame)) => self.server_message(&frame),
                Ok(Judged::Batch(elements)) => self.server_batch(&elements),
                Err(rejected) => self.server_rejected(line, &rejected),
            },
            Line::TooLong { skimmed, bytes } => {
                let limit = self.settings.frame_bytes;
                let reason =
                    format!("a message of {bytes} bytes is longer than {limit} and was dropped");
                self.log(&reason);
                if let (Some(id), false) = (
                    skimmed.id.and_then(|id| Id::parse(id.as_bytes())),
                    skimmed.method,
                ) {
                    self.malformed(Some(&id), &reason);
                }
            }
            Line::Partial(line) => self.diagnostics.lines(Source::Stdout, [line]),
        }
    }

    fn server_batch(&mut self, elements: &[&[u8]]) {
        let allowed = self.peers.negotiated.as_deref() == Some(BATCHES);
        for element in elements {
            match (judge_element(element), allowed) {
                (Ok(frame), true) => self.server_message(&frame),
                (Ok(frame), false) => {
                    let id = match &frame.message {
                        Message::Result { id, .. } => Some(id),
                        Message::Error { id, .. } => id.as_ref(),
                        _ => None,
                    };
                    self.malformed(
                        id,
                        "a batch, which is not part of the protocol revision in use",
                    );
                }
                (Err(rejected), _) => self.server_rejected(element, &rejected),
            }
        }
        if elements.is_empty() {
            self.log("an empty batch was dropped");
        }
    }

    fn server_rejected(&mut self, line: &[u8], rejected: &Rejected) {
        match rejected.meant {
            Meant::Unparsable => self.diagnostics.lines(Source::Stdout, [line]),
            Meant::Notification => {
                self.log(&format!("a notification was dropped: {}", rejected.reason))
            }
            Meant::Request => {
                self.log(&format!("a request was refused: {}", rejected.reason));
                let line = shape::fault(
                    rejected.id.as_deref(),
                    shape::INVALID_REQUEST,
                    "malformed_message",
                    &rejected.reason,
                );
                self.tell_server(line, None);
            }
            Meant::Answer => {
                let id = rejected.id.as_deref().and_then(Id::parse);
                self.malformed(id.as_ref(), &rejected.reason);
            }
        }
    }

    /// An answer nobody can use: whoever waits for it gets one error. Without a readable id that is the only one who waits, if there is one.
    fn malformed(&mut self, id: Option<&Id>, reason: &str) {
        self.log(&format!("an answer was malformed: {reason}"));
        let id = id.cloned().or_else(|| self.only_one_waiting());
        let Some(id) = id else { return };
        if let Some(purpose) = self.take_asked(&id) {
            match purpose {
                Purpose::Answer(reply) => {
                    let _ = reply.send(Asked::Lost(Lost {
                        failure: Failure::Server,
                        detail: reason.to_owned(),
                    }));
                }
                Purpose::Handshake => self.process.ask_to_replace(),
                Purpose::Repeat => {}
            }
            return;
        }
        match self.requests.get(&id).map(|request| &request.stage) {
            Some(Stage::Passing) => {
                let sentence = format!(
                    "The server `{}` gave a malformed answer.",
                    self.settings.server
                );
                self.fail_passing(&id, Code::UpstreamFailed, &sentence);
            }
            Some(Stage::Running(_)) => {
                self.finish_running(&id, failed(Failure::Server, Forwarded::Yes, reason))
            }
            _ => _ = self.abandoned.remove(&id),
        }
    }

    fn only_one_waiting(&self) -> Option<Id> {
        let at_server = |stage: &Stage| matches!(stage, Stage::Passing | Stage::Running(_));
        let mut waiting: Vec<&Id> = self
            .requests
            .iter()
            .filter(|(_, request)| at_server(&request.stage))
            .map(|(id, _)| id)
            .collect();
        waiting.extend(self.asked.keys());
        if waiting.len() == 1 {
            waiting.first().map(|id| (*id).clone())
        } else {
            None
        }
    }

    fn server_message(&mut self, frame: &Frame<'_>) {
        match &frame.message {
            Message::Request {
                id,
                raw_id,
                method,
                params,
            } => self.server_request(frame, (id, raw_id), method, *params),
            Message::Notification { method, params } => {
                self.server_notification(frame, method, *params)
            }
            Message::Result { id, result } => self.server_result(frame, id, result),
            Message::Error {
                id: Some(id),
                error,
            } => self.server_error(frame, id, error),
            Message::Error { id: None, error } => {
                self.log(&format!(
                    "it could not read something: {}",
                    Self::quote_for_log(&String::from_utf8_lossy(error))
                ));
            }
        }
    }

    fn server_request(
        &mut self,
        frame: &Frame<'_>,
        (id, raw_id): (&Id, &[u8]),
        method: &str,
        params: Option<&[u8]>,
    ) {
        let refuse = |code, what, sentence: &str| shape::fault(Some(raw_id), code, what, sentence);
        let modern = self.peers.negotiated.is_none() && self.peers.modern;
        let answer = if self.server_requests.contains_key(id) {
            refuse(
                shape::INVALID_REQUEST,
                "id_in_use",
                "a request with this id is still in flight",
            )
        } else if modern || !self.settings.passing.server_request(method) {
            self.log(&format!(
                "its request `{}` was refused",
                Self::quote_for_log(method)
            ));
            refuse(
                shape::METHOD_NOT_FOUND,
                "method_not_open",
                "this method is not open on this client",
            )
        } else if self.settings.passing.withholds(method) {
            self.log(&format!(
                "its request `{method}` was declined: its entry does not pass it"
            ));
            match Feature::of(method) {
                Some(Feature::Elicitation) => emit::result(raw_id, br#"{"action":"decline"}"#, &[]),
                Some(Feature::Sampling) => {
                    refuse(USER_REJECTED, "not_passed", "sampling was rejected")
                }
                _ => refuse(
                    shape::METHOD_NOT_FOUND,
                    "not_passed",
                    "this client has no roots",
                ),
            }
        } else {
            let meta = params.and_then(|params| member(params, "_meta"));
            let token = meta
                .and_then(|meta| member(meta, "progressToken"))
                .and_then(Id::parse);
            self.server_requests
                .insert(id.clone(), ServerRequest { token });
            return self.tell_client(emit::again(frame));
        };
        self.tell_server(answer, None);
    }

    fn server_notification(&mut self, frame: &Frame<'_>, method: &str, params: Option<&[u8]>) {
        if !self.settings.passing.server_notification(method) {
            return self.log(&format!(
                "its notification `{}` was dropped",
                Self::quote_for_log(method)
            ));
        }
        let id = |name: &str| {
            params
                .and_then(|params| member(params, name))
                .and_then(Id::parse)
        };
        match method {
            "notifications/progress" => {
                let token = id("progressToken");
                if token.as_ref().is_some_and(|token| self.own_progress(token)) {
                    return;
                }
                let Some(of) = token.and_then(|token| self.tokens.get(&token)) else {
                    return self.log("progress for nothing in flight was dropped");
                };
                if let Some(beat) = self.requests.get(of).and_then(|of| of.beat.as_ref()) {
                    beat.tell();
                }
            }
            "notifications/tasks" | "notifications/tasks/status" => {
                let asks = params
                    .and_then(|params| lifecycle::withheld_input(params, &self.settings.passing));
                if asks.is_some() {
                    return self.log("its notification of a task asks for what its entry does not pass and was dropped");
                }
            }
            "notifications/cancelled" => {
                let Some(id) = id("requestId") else {
                    return self.log("a cancellation without a request was dropped");
                };
                let listening = self
                    .requests
                    .get(&id)
                    .is_some_and(|request| &*request.method == "subscriptions/listen");
                if self.server_requests.remove(&id).is_none() && !listening {
                    return self.log("a cancellation for nothing in flight was dropped");
                }
                if listening {
                    self.take_request(&id);
                }
            }
            "notifications/tools/list_changed" => self.catalog.forget(),
            "notifications/subscriptions/acknowledged" => {
                if let Some(line) = self.acknowledged(params) {
                    return self.tell_client(line);
                }
            }
            _ => {}
        }
        self.tell_client(emit::again(frame));
    }

    /// A listen request that wants to hear of tools will: we announce changes of what is open ourselves.
    fn acknowledged(&mut self, params: Option<&[u8]>) -> Option<Vec<u8>> {
        let params = params?;
        let id = member(params, "_meta")
            .and_then(|meta| member(meta, lifecycle::META_SUBSCRIPTION))
            .and_then(Id::parse)?;
        let request = self.requests.get_mut(&id)?;
        request.listens = Some(Acknowledged::Yes).filter(|_| request.listens.is_some());
        request.listens?;
        let honoured =
            member(params, "notifications").filter(|honoured| honoured.first() == Some(&b'{'))?;
        let honoured = edit(honoured, &[Change::Set("toolsListChanged", b"true")]);
        let params = edit(params, &[Change::Set("notifications", &honoured)]);
        Some(emit::notification(
            "notifications/subscriptions/acknowledged",
            Some(&params),
            &[],
        ))
    }

    fn server_result(&mut self, frame: &Frame<'_>, id: &Id, result: &[u8]) {
        if let Some(purpose) = self.take_asked(id) {
            match purpose {
                Purpose::Answer(reply) => {
                    _ = reply.send(Asked::Result(Bytes::copy_from_slice(result)))
                }
                Purpose::Handshake => self.handshake_repeated(),
                Purpose::Repeat => {}
            }
            return;
        }
        match self.requests.get(id).map(|request| &request.stage) {
            Some(Stage::Running(_)) => {
                let ran = self.judged_result(result);
                self.finish_running(id, ran);
            }
            Some(Stage::Passing) => {
                let Some(request) = self.take_request(id) else {
                    return;
                };
                let edited = match &*request.method {
                    "initialize" | "server/discover" => {
                        self.note_opening(&request.method, result);
                        lifecycle::opening_result(result)
                    }
                    _ => None,
                };
                let line = match (
                    edited,
                    lifecycle::withheld_input(result, &self.settings.passing),
                ) {
                    (_, Some(method)) => emit::error(&request.raw_id, &self.withheld(&method), &[]),
                    (Some(result), None) => emit::result(&request.raw_id, &result, &frame.extra),
                    (None, None) => emit::result(&request.raw_id, result, &frame.extra),
                };
                self.answer(request.batch, Some(line));
                self.remember(&request.method, request.repeatable);
            }
            _ => self.nobody_waits(id),
        }
    }

    fn server_error(&mut self, frame: &Frame<'_>, id: &Id, error: &[u8]) {
        if let Some(purpose) = self.take_asked(id) {
            match purpose {
                Purpose::Answer(reply) => {
                    _ = reply.send(Asked::Error(Bytes::copy_from_slice(error)))
                }
                Purpose::Handshake => {
                    self.log("it refused the handshake after a restart");
                    self.process.ask_to_replace();
                }
                Purpose::Repeat => {}
            }
            return;
        }
        match self.requests.get(id).map(|request| &request.stage) {
            Some(Stage::Running(_)) => {
                self.finish_running(
                    id,
                    Ran::ProtocolError {
                        body: Bytes::copy_from_slice(error),
                    },
                );
            }
            Some(Stage::Passing) => {
                let Some(request) = self.take_request(id) else {
                    return;
                };
                self.answer(
                    request.batch,
                    Some(emit::error(&request.raw_id, error, &frame.extra)),
                );
            }
            _ => self.nobody_waits(id),
        }
    }

    fn nobody_waits(&mut self, id: &Id) {
        if !self.abandoned.remove(id) {
            self.log(&format!(
                "an answer to `{}`, which nobody asked, was dropped",
                Self::quote_for_log(id.text())
            ));
        }
    }

    fn judged_result(&self, result: &[u8]) -> Ran {
        match lifecycle::withheld_input(result, &self.settings.passing) {
            Some(method) => Ran::ProtocolError {
                body: self.withheld(&method),
            },
            None => Ran::Result {
                body: Bytes::copy_from_slice(result),
                is_error: member(result, "isError") == Some(b"true"),
            },
        }
    }

    fn withheld(&self, method: &str) -> Bytes {
        let name = Self::quote_for_log(method);
        let sentence = format!("the server asked for `{name}`, which its entry does not pass");
        self.log(&sentence);
        shape::error_body(-31_403, "not_passed", &sentence)
    }

    fn note_opening(&mut self, method: &str, result: &[u8]) {
        if method == "initialize" {
            self.peers.negotiated =
                Some(lifecycle::text(Some(result), "protocolVersion").unwrap_or_default());
        }
        let tools =
            member(result, "capabilities").and_then(|capabilities| member(capabilities, "tools"));
        self.peers.has_tools = tools.is_some();
    }

    /// The restarted server has the client's handshake: then what it was told since, then what waited.
    fn handshake_repeated(&mut self) {
        self.process.release();
        if self.peers.initialized {
            self.to_server.push(
                emit::notification("notifications/initialized", None, &[]),
                None,
            );
        }
        if let Some(level) = self.peers.log_level.clone() {
            self.ask("logging/setLevel", Some(&level), Purpose::Repeat);
        }
        for subscription in self.peers.subscriptions.clone() {
            self.ask("resources/subscribe", Some(&subscription), Purpose::Repeat);
        }
        for (line, request) in std::mem::take(&mut self.held) {
            self.to_server.push(line, request);
        }
    }
}
