//! The person's own session in the app: the ways in for a person who runs tools themselves, through the steps every call passes. Makes
//! no session and believes none: who it is, is asked for each call.

use std::sync::Arc;

use jiff::Timestamp;

use crate::answer::Answer;
use crate::facts::Facts;
use crate::ports::{Pending, Ports};
use crate::request::{Arguments, Audience, Request, Target};
use crate::serve::Listing;

/// Which session, and whose it is said to be. Held by the app's process; no command takes it from a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRef {
    /// The session's id.
    pub session: Arc<str>,
    /// The person's id.
    pub person: Arc<str>,
}

/// The sessions there are. Looked at for every call.
pub trait Sessions: Send + Sync {
    /// Who is signed in under this reference now.
    fn look<'a>(
        &'a self,
        session: &'a SessionRef,
        now: Timestamp,
    ) -> Pending<'a, Result<SignedIn, NoSession>>;
}

/// Whom a session that holds acts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedIn {
    /// The person themselves.
    AsThemselves,
    /// Somebody else: reads only.
    ForAnother,
}

/// Why a session does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSession {
    /// Signed out.
    SignedOut,
    /// Ended by somebody else.
    Revoked,
    /// Too old.
    Expired,
    /// Another person's.
    NotTheirs,
    /// No session has such a reference.
    Malformed,
    /// The sessions cannot be read.
    Unreadable,
}

impl NoSession {
    /// As it stands in the refusal.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::SignedOut => "signed_out",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::NotTheirs => "not_theirs",
            Self::Malformed => "malformed",
            Self::Unreadable => "unreadable",
        }
    }
}

/// What a session may be used for in one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allow {
    /// Tools that read.
    #[default]
    Read,
    /// Also writes, of the servers listed in `person_write_servers`.
    All,
}

/// The label of what asks on behalf of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via(Arc<str>);

/// A label that is empty or longer than 64 bytes: a mistake of the program that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a label of what asks has 1 to 64 bytes")]
pub struct BadVia;

impl Via {
    /// A label.
    ///
    /// # Errors
    /// When it has not 1 to 64 bytes.
    pub fn new(text: &str) -> Result<Self, BadVia> {
        if (1..=64).contains(&text.len()) {
            Ok(Self(text.into()))
        } else {
            Err(BadVia)
        }
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.0
    }
}

impl Default for Via {
    fn default() -> Self {
        Self("session".into())
    }
}

/// One call of a person.
#[derive(Clone, Debug)]
pub struct SessionCall {
    /// Ours, shown to the person; unique.
    pub request_id: Arc<str>,
    /// The id of the book's `call` entry; unique.
    pub call_id: Arc<str>,
    /// The server.
    pub server: Arc<str>,
    /// The tool, as the server names it.
    pub tool: String,
    /// The arguments as received.
    pub arguments: Arguments,
    /// What the session may be used for.
    pub allow: Allow,
    /// What asks.
    pub via: Via,
}

/// A person's call: reads run; a write is previewed and held, and answers with the id of its confirmation and no code.
pub async fn execute_as(
    facts: &Facts,
    ports: Ports<'_>,
    (sessions, session): (&dyn Sessions, &SessionRef),
    call: SessionCall,
) -> Answer {
    let use_ = Use {
        allow: call.allow,
        via: call.via.clone(),
        redeems: None,
    };
    crate::steps::run_as(facts, ports, (sessions, session), (use_, request(call))).await
}

/// The same call again, with the id of its confirmation: everything is judged anew with today's rights, and then it runs.
/// [`SessionCall::allow`] is taken as [`Allow::All`].
pub async fn redeem_as(
    facts: &Facts,
    ports: Ports<'_>,
    (sessions, session): (&dyn Sessions, &SessionRef),
    (confirmation, call): (&str, SessionCall),
) -> Answer {
    let use_ = Use {
        allow: Allow::All,
        via: call.via.clone(),
        redeems: Some(confirmation.into()),
    };
    crate::steps::run_as(facts, ports, (sessions, session), (use_, request(call))).await
}

/// The tools a session may use: a charge of 1, then exactly those a call would be let through to. `server`: of one server only.
pub async fn visible_for(
    facts: &Facts,
    ports: Ports<'_>,
    (sessions, session): (&dyn Sessions, &SessionRef),
    (request_id, allow, server): (Arc<str>, Allow, Option<Arc<str>>),
) -> Listing {
    let use_ = Use {
        allow,
        via: Via::default(),
        redeems: None,
    };
    let request = Request {
        server,
        target: Target::Discovery,
        ..bare(Arc::clone(&request_id), request_id)
    };
    crate::steps::discover_as(facts, ports, (sessions, session), (use_, request)).await
}

/// How a session is used in one call.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub allow: Allow,
    pub via: Via,
    pub redeems: Option<Arc<str>>,
}

fn request(call: SessionCall) -> Request {
    Request {
        server: Some(call.server),
        target: Target::Tool(call.tool),
        arguments: call.arguments,
        ..bare(call.request_id, call.call_id)
    }
}

fn bare(request_id: Arc<str>, call_id: Arc<str>) -> Request {
    Request {
        request_id,
        call_id,
        audience: Audience::Agent,
        credential: None,
        url: None,
        network: None,
        via: "session",
        server: None,
        target: Target::Discovery,
        arguments: Arguments::Missing,
        idempotency_header: None,
        client: None,
    }
}
