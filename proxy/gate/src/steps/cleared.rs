//! A call that passed every step up to 12: noted, counted, allowed. Only the end of step 12 can make one; only
//! [`crate::ports::Upstream`] takes one.

use std::sync::Arc;

use bytes::Bytes;
use countersign_permission::Kind;

use crate::ports::Purpose;
use crate::request::ReadMethod;

/// A call that may be sent, once.
#[derive(Debug)]
pub struct Cleared {
    call_id: Arc<str>,
    request_id: Arc<str>,
    server: Arc<str>,
    what: What,
    kind: Kind,
    purpose: Purpose,
    arguments: Option<Bytes>,
}

/// What is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A tool, as its server names it.
    Tool(Arc<str>),
    /// A method.
    Method(ReadMethod),
}

impl Cleared {
    /// For the end of step 12 only.
    pub(in crate::steps) fn new(
        (call_id, request_id): (Arc<str>, Arc<str>),
        server: Arc<str>,
        what: What,
        (kind, purpose): (Kind, Purpose),
        arguments: Option<Bytes>,
    ) -> Self {
        Self {
            call_id,
            request_id,
            server,
            what,
            kind,
            purpose,
            arguments,
        }
    }

    /// The id of its `call` entry.
    #[must_use]
    pub fn call_id(&self) -> &Arc<str> {
        &self.call_id
    }

    /// The id of the request.
    #[must_use]
    pub fn request_id(&self) -> &Arc<str> {
        &self.request_id
    }

    /// The server to send it to.
    #[must_use]
    pub fn server(&self) -> &Arc<str> {
        &self.server
    }

    /// The tool or method.
    #[must_use]
    pub fn what(&self) -> &What {
        &self.what
    }

    /// Read or write, as judged.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the agent asks for it, or a preview does.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The `arguments` member to send (for a method: its `params`), control fields removed, one line, everything else byte for byte
    /// as received. `None`: the member was missing and stays missing.
    #[must_use]
    pub fn arguments(&self) -> Option<&Bytes> {
        self.arguments.as_ref()
    }
}
