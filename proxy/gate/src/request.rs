//! One request as a transport hands it in: who says they are, what they want, over which way. Nothing here is believed yet.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::key::KeyText;

/// One request.
#[derive(Debug)]
pub struct Request {
    /// Ours, shown to the agent and the person; unique.
    pub request_id: Arc<str>,
    /// The id of the book's `call` entry, should there be one; given by the caller (ULID-like), unique.
    pub call_id: Arc<str>,
    /// Whom the tool is wanted for.
    pub audience: Audience,
    /// The key presented, if any. Over stdio: the one from the keychain.
    pub credential: Option<KeyText>,
    /// The parts of the URL it came to, for step 2; `None` over stdio.
    pub url: Option<UrlParts>,
    /// The caller's address; `None` over stdio.
    pub network: Option<IpAddr>,
    /// The way it came: `stdio`, `http`, `rest`. Recorded.
    pub via: &'static str,
    /// The server this way in is bound to (`--server S`, `/mcp/S`), or `None` where tools of all servers are named.
    pub server: Option<Arc<str>>,
    /// What is wanted.
    pub target: Target,
    /// The arguments as received. For [`Target::Method`]: the raw `params`.
    pub arguments: Arguments,
    /// REST only: the `Idempotency-Key` header. MCP leaves it out (R42).
    pub idempotency_header: Option<String>,
    /// What the client says it is; recorded, never believed.
    pub client: Option<ClientFacts>,
}

/// The [`Request::via`] of a call that was approved and is run for an agent that does not wait for it.
pub const QUEUE: &str = "queue";

/// Whom a tool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Somebody with a key.
    Agent,
    /// Anybody, over HTTP only.
    Public,
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `tools/call`: the tool under the caller's own name for it, as decoded text, matched exactly.
    Tool(String),
    /// A read that is not a tool, on the bound server.
    Method(ReadMethod),
    /// `tools/list` and its like; only for [`crate::serve::list`].
    Discovery,
}

/// The reads that are gated though they are no tools: scope `<server>:read`, price 1, recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMethod {
    /// `resources/read`.
    ResourcesRead,
    /// `prompts/get`.
    PromptsGet,
}

impl ReadMethod {
    /// The method's name, also the tool name in its entries.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ResourcesRead => "resources/read",
            Self::PromptsGet => "prompts/get",
        }
    }
}

/// The arguments member, as it stood in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// No such member.
    Missing,
    /// `null`.
    Null,
    /// Its raw JSON text, a slice of the received body.
    Raw(Bytes),
}

/// The parts of a URL that could hide a credential. Raw text, never decoded into a log.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UrlParts {
    /// `user:password` before the host.
    pub userinfo: Option<String>,
    /// The path.
    pub path: String,
    /// Everything after `?`.
    pub query: Option<String>,
}

impl std::fmt::Debug for UrlParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UrlParts(..)")
    }
}

/// What a client says about itself (`clientInfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFacts {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}
