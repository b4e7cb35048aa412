//! A request that is decided: a task of its own from the decision to the line, so that a slow one blocks nothing (M12).
//! Asks the gatekeeper; has no rule.

use std::sync::Arc;

use bytes::Bytes;
use countersign_gate::json::{Change, edit, member};
use countersign_gate::ports::Failure;
use countersign_gate::request::{ClientFacts, ReadMethod};
use countersign_gate::{Answer, Arguments, Code, Outcome, Refusal, Target};

use super::catalog::{Catalog, ListError, one_page};
use super::gatekeeper::{Extent, GatedCall, GatedList, Gatekeeper};
use super::lifecycle;
use super::link::{CallUpstream, Link};
use super::session::{Done, Session};
use super::shape::{self, Asked, Kind};
use crate::frame::{Id, emit};
use crate::upstream::diagnostics::Diagnostics;

/// What a deciding task has in hand.
struct Desk {
    gatekeeper: Arc<dyn Gatekeeper>,
    catalog: Arc<Catalog>,
    link: Link,
    diagnostics: Diagnostics,
    server: String,
    client: Option<ClientFacts>,
    asked: Asked,
    request_id: Arc<str>,
}

impl Session {
    pub(super) fn decide_call(&mut self, id: &Id, method: &str, params: Option<&Bytes>) {
        let Some(desk) = self.desk(id) else { return };
        let target = match method {
            "resources/read" => Some(Target::Method(ReadMethod::ResourcesRead)),
            "prompts/get" => Some(Target::Method(ReadMethod::PromptsGet)),
            _ => lifecycle::text(params.map(|params| &params[..]), "name").map(Target::Tool),
        };
        let Some(target) = target else {
            let line = shape::fault(
                Some(&desk.asked.raw_id),
                shape::INVALID_PARAMS,
                "malformed_message",
                "`name` is not a string",
            );
            self.decided(id, Some(line));
            return;
        };
        let arguments = match (&target, params) {
            (Target::Tool(_), Some(params)) => arguments(params),
            (_, Some(params)) => Arguments::Raw(params.clone()),
            (_, None) => Arguments::Missing,
        };
        let upstream = CallUpstream {
            link: self.link.clone(),
            id: id.clone(),
            method: method.into(),
            params: params.cloned(),
        };
        let (id, params) = (id.clone(), params.cloned());
        self.tasks.spawn(async move {
            let line = desk.call(target, arguments, upstream, params).await;
            Done::Answered(id, line)
        });
    }

    pub(super) fn decide_list(&mut self, id: &Id, params: Option<&Bytes>) {
        let Some(desk) = self.desk(id) else { return };
        let (id, params) = (id.clone(), params.cloned());
        self.tasks.spawn(async move {
            let line = desk.list(params.as_deref()).await;
            Done::Answered(id, Some(line))
        });
    }

    /// A decided request ends: its line goes out unless the client cancelled it.
    pub(super) fn decided(&mut self, id: &Id, line: Option<Vec<u8>>) {
        let Some(request) = self.take_request(id) else {
            return;
        };
        self.answer(request.batch, line.filter(|_| !request.cancelled));
    }

    fn desk(&self, id: &Id) -> Option<Desk> {
        let request = self.requests.get(id)?;
        Some(Desk {
            gatekeeper: self.gatekeeper.clone(),
            catalog: self.catalog.clone(),
            link: self.link.clone(),
            diagnostics: self.diagnostics.clone(),
            server: self.settings.server.clone(),
            client: self.peers.client.clone(),
            asked: Asked {
                raw_id: request.raw_id.clone(),
                kind: request.kind,
                era: request.era,
            },
            request_id: id.text().into(),
        })
    }
}

impl Desk {
    async fn call(
        self,
        target: Target,
        arguments: Arguments,
        upstream: CallUpstream,
        params: Option<Bytes>,
    ) -> Option<Vec<u8>> {
        if matches!(target, Target::Tool(_)) && self.catalog.known().is_none() {
            let params = params.as_deref().and_then(list_params);
            if let Err(error) = self
                .catalog
                .ensure(&self.link, &*self.gatekeeper, params.as_deref())
                .await
            {
                return Some(self.unavailable(&error));
            }
        }
        let tool = match (&target, self.asked.kind) {
            (Target::Tool(name), Kind::Tool) => Some(name.clone()),
            _ => None,
        };
        let call = GatedCall {
            request_id: self.request_id.clone(),
            target,
            arguments,
            client: self.client.clone(),
        };
        let answer = self.gatekeeper.clone().call(call, Arc::new(upstream)).await;
        self.explain(&answer);
        let mut asked = self.asked;
        let ours = matches!(answer.outcome, Outcome::Refused(_) | Outcome::Finished(_));
        if ours && tool.is_some_and(|tool| self.catalog.declares_output(&tool)) {
            asked.kind = Kind::StructuredTool;
        }
        shape::answer(&asked, &answer)
    }

    async fn list(self, params: Option<&[u8]>) -> Vec<u8> {
        let cursor = lifecycle::text(params, "cursor");
        let known = cursor.as_ref().and_then(|cursor| {
            let pages = self.catalog.known()?;
            let place = pages
                .iter()
                .position(|page| page.cursor.as_ref() == Some(cursor))?;
            Some((pages, place))
        });
        let read = match (known, &cursor) {
            (Some((pages, place)), _) => Ok((pages, place, Extent::Whole)),
            (None, None) => self
                .catalog
                .read(&self.link, &*self.gatekeeper, params)
                .await
                .map(|pages| (pages, 0, Extent::Whole)),
            (None, Some(cursor)) => match self
                .catalog
                .ensure(&self.link, &*self.gatekeeper, params)
                .await
            {
                Ok(()) => one_page(&self.link, params, Some(cursor))
                    .await
                    .map(|page| (Arc::new(vec![page]), 0, Extent::Piece)),
                Err(error) => Err(error),
            },
        };
        let (pages, place, extent) = match read {
            Ok(read) => read,
            Err(error) => return self.unavailable(&error),
        };
        let pages = pages.iter().map(|page| page.result.clone()).collect();
        let list = GatedList {
            request_id: self.request_id.clone(),
            pages,
            extent,
            client: self.client.clone(),
        };
        let listed = self.gatekeeper.clone().list(list).await;
        match listed.pages.as_ref().map(|pages| pages.get(place)) {
            Ok(Some(page)) => shape::page(&self.asked.raw_id, page, listed.rate.as_ref()),
            Ok(None) => {
                let sentence = "this cursor is not valid any more";
                shape::fault(
                    Some(&self.asked.raw_id),
                    shape::INVALID_PARAMS,
                    "cursor_expired",
                    sentence,
                )
            }
            Err(refusal) => {
                shape::refused(&self.asked, refusal, &self.request_id, listed.rate.as_ref())
            }
        }
    }

    fn unavailable(&self, error: &ListError) -> Vec<u8> {
        let (code, detail) = match error {
            ListError::Server(error) => return emit::error(&self.asked.raw_id, error, &[]),
            ListError::Lost(lost) if lost.failure == Failure::Timeout => {
                (Code::UpstreamTimeout, &lost.detail)
            }
            ListError::Lost(lost) => (Code::UpstreamFailed, &lost.detail),
            ListError::Bad(detail) => (Code::UpstreamFailed, detail),
        };
        self.diagnostics
            .say(&format!("its tools cannot be listed: {detail}"));
        let sentence = format!("The server `{}` is not available now.", self.server);
        let refusal = Refusal::new(
            code,
            4,
            sentence,
            "Try again later, or ask the person to look at the server's log.",
        );
        shape::refused(&self.asked, &refusal, &self.request_id, None)
    }

    /// What the agent is not told goes to the person.
    fn explain(&self, answer: &Answer) {
        if let Outcome::Refused(refusal) = &answer.outcome
            && let Some(detail) = &refusal.detail
        {
            self.diagnostics.say(&format!(
                "a call ended with `{}`: {detail}",
                refusal.code.text()
            ));
        }
    }
}

fn arguments(params: &Bytes) -> Arguments {
    match member(params, "arguments") {
        None => Arguments::Missing,
        Some(b"null") => Arguments::Null,
        Some(raw) => Arguments::Raw(params.slice_ref(raw)),
    }
}

/// The params of a list of our own, from a call's: what a modern server needs to know, without the call's progress.
fn list_params(params: &[u8]) -> Option<Vec<u8>> {
    let meta =
        member(params, "_meta").filter(|meta| member(meta, lifecycle::META_VERSION).is_some())?;
    let meta = edit(meta, &[Change::Remove("progressToken")]);
    Some([b"{\"_meta\":", &meta[..], b"}"].concat())
}
