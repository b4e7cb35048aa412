//! What the server is told and still owes: requests of ours and of the client, their deadlines, their cancellation, and what becomes of
//! all of them when it is gone. Knows no method's meaning.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use countersign_gate::Code;
use countersign_gate::json::{Change, edit, member};
use countersign_gate::ports::{Failure, Forwarded, Ran};
use tokio::sync::oneshot;

use super::link::{Asked, Beat, Command, Lost, failed};
use super::session::{Ask, Purpose, Session, Stage};
use crate::frame::{Id, emit};

/// Most ids remembered of requests nobody waits for any more.
const MAX_ABANDONED: usize = 4_096;

impl Session {
    /// Queues a line for the server, behind the handshake where that has to be said again.
    pub(super) fn tell_server(&mut self, line: Vec<u8>, request: Option<Id>) {
        if self.process.is_held() {
            self.held.push((line, request));
        } else {
            self.to_server.push(line, request);
        }
    }

    pub(super) fn set_deadline(&mut self, id: &Id, after: Duration) -> Instant {
        let deadline = Instant::now() + after;
        self.deadlines.insert((deadline, id.clone()));
        deadline
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Asks the server something of our own.
    pub(super) fn ask(&mut self, method: &str, params: Option<&[u8]>, purpose: Purpose) {
        let id = self.own_id();
        self.ask_as(id, (method, params), purpose, None);
    }

    fn own_id(&mut self) -> Id {
        let number = self.number();
        Id::Text(format!("{}-{number}", self.prefix))
    }

    /// Asks under a token of our own, and tells `beat` of the progress that comes with it.
    fn ask_heard(&mut self, method: &str, params: Option<&[u8]>, purpose: Purpose, beat: Beat) {
        let id = self.own_id();
        let params = params.unwrap_or(b"{}");
        let meta = member(params, "_meta").unwrap_or(b"{}");
        let meta = edit(
            meta,
            &[Change::Set("progressToken", emit::raw(&id).as_bytes())],
        );
        let params = edit(params, &[Change::Set("_meta", &meta)]);
        self.ask_as(id, (method, Some(&params)), purpose, Some(beat));
    }

    /// Progress of something of ours: it is alive, and has its time anew. Whether it was.
    pub(super) fn own_progress(&mut self, token: &Id) -> bool {
        let Some(Ask { deadline, beat, .. }) = self.asked.get(token) else {
            return false;
        };
        let (before, beat) = (*deadline, beat.clone());
        if let Some(beat) = beat {
            beat.tell();
            self.deadlines.remove(&(before, token.clone()));
            let deadline = self.set_deadline(token, self.settings.call);
            if let Some(ask) = self.asked.get_mut(token) {
                ask.deadline = deadline;
            }
        }
        true
    }

    fn ask_as(
        &mut self,
        id: Id,
        (method, params): (&str, Option<&[u8]>),
        purpose: Purpose,
        beat: Option<Beat>,
    ) {
        let first = matches!(purpose, Purpose::Handshake);
        let patience = if first {
            self.settings.start
        } else {
            self.settings.call
        };
        let line = emit::request(emit::raw(&id).as_bytes(), method, params, &[]);
        let deadline = self.set_deadline(&id, patience);
        let ask = Ask {
            purpose,
            deadline,
            beat,
        };
        self.asked.insert(id.clone(), ask);
        if first {
            self.to_server.push(line, Some(id));
        } else {
            self.tell_server(line, Some(id));
        }
    }

    pub(super) fn take_asked(&mut self, id: &Id) -> Option<Purpose> {
        let ask = self.asked.remove(id)?;
        self.deadlines.remove(&(ask.deadline, id.clone()));
        Some(ask.purpose)
    }

    pub(super) fn command(&mut self, command: Command) {
        match command {
            Command::Ask {
                method,
                params,
                beat,
                reply,
            } => match self.wake() {
                Ok(()) => {
                    let (params, purpose) = (params.as_deref(), Purpose::Answer(reply));
                    match beat {
                        Some(beat) => self.ask_heard(method, params, purpose, beat),
                        None => self.ask(method, params, purpose),
                    }
                }
                Err(detail) => {
                    let _ = reply.send(Asked::Lost(Lost {
                        failure: Failure::Server,
                        detail,
                    }));
                }
            },
            Command::Forward {
                id,
                method,
                params,
                beat,
                reply,
            } => self.forward(&id, (&method, params.as_ref()), beat, reply),
        }
    }

    fn forward(
        &mut self,
        id: &Id,
        (method, params): (&str, Option<&Bytes>),
        beat: Option<Beat>,
        reply: oneshot::Sender<Ran>,
    ) {
        let refuse = match self.requests.get(id) {
            None => Some((Failure::Cancelled, "the request has ended".to_owned())),
            Some(request) if request.cancelled => {
                Some((Failure::Cancelled, "the client cancelled".to_owned()))
            }
            Some(request) if !matches!(request.stage, Stage::Deciding) => {
                Some((Failure::Server, "the request was sent already".to_owned()))
            }
            Some(_) => self.wake().err().map(|detail| (Failure::Server, detail)),
        };
        if let Some((failure, detail)) = refuse {
            let _ = reply.send(failed(failure, Forwarded::No, &detail));
            return;
        }
        let deadline = self.set_deadline(id, self.settings.call);
        let Some(request) = self.requests.get_mut(id) else {
            return;
        };
        request.stage = Stage::Running(reply);
        request.beat = beat;
        request.deadline = Some(deadline);
        let line = emit::request(
            &request.raw_id,
            method,
            params.map(|params| &params[..]),
            &[],
        );
        self.tell_server(line, Some(id.clone()));
    }

    /// Tells the gate how its call ended and leaves the request to its recording.
    pub(super) fn finish_running(&mut self, id: &Id, ran: Ran) {
        let Some(request) = self.requests.get_mut(id) else {
            return;
        };
        let (token, deadline) = (request.token.clone(), request.deadline.take());
        if let Stage::Running(reply) = std::mem::replace(&mut request.stage, Stage::Recording) {
            let _ = reply.send(ran);
        }
        self.server_owes_nothing(id, &token, deadline);
    }

    /// Everything whose time is over.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((deadline, id)) = self.deadlines.first().cloned()
            && deadline <= now
        {
            self.deadlines.remove(&(deadline, id.clone()));
            self.expired(&id);
        }
    }

    fn expired(&mut self, id: &Id) {
        let sentence = "The server did not answer in time.";
        if let Some(purpose) = self.take_asked(id) {
            self.cancel_at_server(id, "timeout");
            match purpose {
                Purpose::Answer(reply) => {
                    let lost = Lost {
                        failure: Failure::Timeout,
                        detail: "no answer in time".to_owned(),
                    };
                    let _ = reply.send(Asked::Lost(lost));
                }
                Purpose::Handshake => self.process.ask_to_replace(),
                Purpose::Repeat => {}
            }
            return;
        }
        let Some(request) = self.requests.get(id) else {
            return;
        };
        match request.stage {
            Stage::Running(_) => {
                let forwarded = if self.cancel_at_server(id, "timeout") {
                    Forwarded::Yes
                } else {
                    Forwarded::No
                };
                self.finish_running(id, failed(Failure::Timeout, forwarded, "no answer in time"));
            }
            Stage::Passing if &*request.method == "initialize" => {
                // Never cancelled (M48): the process that does not open is replaced.
                self.fail_passing(id, Code::UpstreamTimeout, sentence);
                self.process.ask_to_replace();
            }
            Stage::Passing => {
                self.cancel_at_server(id, "timeout");
                self.fail_passing(id, Code::UpstreamTimeout, sentence);
            }
            Stage::Deciding | Stage::Recording => {}
        }
    }

    /// Withdraws a request from the queue or cancels it at the server. Whether it may have reached the server.
    pub(super) fn cancel_at_server(&mut self, id: &Id, reason: &str) -> bool {
        if let Some(place) = self
            .held
            .iter()
            .position(|(_, request)| request.as_ref() == Some(id))
        {
            self.held.remove(place);
            return false;
        }
        if self.to_server.withdraw(id) {
            return false;
        }
        self.abandon(id);
        let params = format!(
            "{{\"requestId\":{},\"reason\":{}}}",
            emit::raw(id),
            emit::quote(reason)
        );
        self.tell_server(
            emit::notification("notifications/cancelled", Some(params.as_bytes()), &[]),
            None,
        );
        true
    }

    /// The server may still answer this; nobody waits. Servers that honour a cancellation never do, so the memory is bounded.
    pub(super) fn abandon(&mut self, id: &Id) {
        if self.abandoned.len() >= MAX_ABANDONED {
            self.abandoned.clear();
        }
        self.abandoned.insert(id.clone());
    }

    /// The server is gone: everything that waits for it ends, once. `detail` is for the person.
    pub(super) fn server_lost(&mut self, detail: &str) {
        let mut unsent: HashSet<Id> = self.to_server.discard().into_iter().collect();
        unsent.extend(self.held.drain(..).filter_map(|(_, request)| request));
        self.catalog.forget();
        self.abandoned.clear();
        let asked: Vec<Id> = self.asked.keys().cloned().collect();
        for id in asked {
            if let Some(Purpose::Answer(reply)) = self.take_asked(&id) {
                let _ = reply.send(Asked::Lost(Lost {
                    failure: Failure::Server,
                    detail: detail.to_owned(),
                }));
            }
        }
        let waiting: Vec<Id> = self.requests.keys().cloned().collect();
        for id in waiting {
            match self.requests.get(&id).map(|request| &request.stage) {
                Some(Stage::Passing) => {
                    let sentence = format!(
                        "The server `{}` ended or could not be started.",
                        self.settings.server
                    );
                    self.fail_passing(&id, Code::UpstreamFailed, &sentence);
                }
                Some(Stage::Running(_)) => {
                    let forwarded = if unsent.contains(&id) {
                        Forwarded::No
                    } else {
                        Forwarded::Yes
                    };
                    self.finish_running(&id, failed(Failure::Server, forwarded, detail));
                }
                _ => {}
            }
        }
        // What the dead server asked the client is withdrawn; a late answer finds nobody and is dropped.
        let questions: Vec<Id> = self.server_requests.drain().map(|(id, _)| id).collect();
        for id in questions {
            let params = format!(
                "{{\"requestId\":{},\"reason\":\"the server ended\"}}",
                emit::raw(&id)
            );
            self.tell_client(emit::notification(
                "notifications/cancelled",
                Some(params.as_bytes()),
                &[],
            ));
        }
        self.tokens.clear();
        self.log(detail);
    }
}
