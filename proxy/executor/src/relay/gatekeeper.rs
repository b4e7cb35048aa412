//! The one seam between the relay and whoever decides: what is asked, what is answered. Knows no wire format of the answers.

use std::sync::Arc;

use bytes::Bytes;
use countersign_gate::ports::Pending;
use countersign_gate::rate::RateState;
use countersign_gate::request::ClientFacts;
use countersign_gate::{Answer, Arguments, Refusal, Target};
use tokio::sync::watch;

pub use super::link::{Beat, CallUpstream, Heard, OwnUpstream};

/// A call that must be decided: `tools/call`, `resources/read`, `prompts/get`.
#[derive(Debug)]
pub struct GatedCall {
    /// The JSON-RPC id's text: the integer's or the decoded string.
    pub request_id: Arc<str>,
    /// What is wanted.
    pub target: Target,
    /// The `arguments` member as received; for a method its `params`.
    pub arguments: Arguments,
    /// What the client says it is.
    pub client: Option<ClientFacts>,
}

/// A `tools/list` that must be filtered.
#[derive(Debug)]
pub struct GatedList {
    /// The JSON-RPC id's text.
    pub request_id: Arc<str>,
    /// The raw `result` members of the server's pages.
    pub pages: Vec<Bytes>,
    /// How much of the server's list these are.
    pub extent: Extent,
    /// What the client says it is.
    pub client: Option<ClientFacts>,
}

/// How much of a server's list some pages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it, in order: the executor's own tools belong to the last one.
    Whole,
    /// A page of its own, reached by a cursor we never saw.
    Piece,
}

/// The pages as the client may see them.
#[derive(Debug)]
pub struct Listed {
    /// As many raw results as there were pages (or one for all, where the settings join them), or why not.
    pub pages: Result<Vec<Bytes>, Box<Refusal>>,
    /// How the limiter stands, where it was reached.
    pub rate: Option<RateState>,
}

/// What an undecided request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// To open the session or to see tools, which the gate filters.
    Opening,
    /// Anything that reaches into the server.
    Server,
}

/// Decides. Its futures are driven to their end, whatever the client does.
pub trait Gatekeeper: Send + Sync {
    /// Takes the pages of the server's whole list as received, before any call of a tool is asked about and whenever they were read anew.
    fn learn(&self, pages: &[Bytes]);

    /// One call, from arrival to answer. What may be sent goes through `upstream` (a
    /// [`countersign_gate::ports::Upstream`]), at most once.
    fn call(
        self: Arc<Self>,
        call: GatedCall,
        upstream: Arc<CallUpstream>,
    ) -> Pending<'static, Answer>;

    /// Why nothing at all is open now: switched off, unusable settings, an agent or server that is gone. Asked before every request
    /// that [`Gatekeeper::call`] does not decide.
    fn closed(&self, reach: Reach) -> Option<Refusal>;

    /// One list.
    fn list(self: Arc<Self>, list: GatedList) -> Pending<'static, Listed>;

    /// Changes whenever what is open may have changed.
    fn changes(&self) -> watch::Receiver<u64>;
}
