//! What a call came to, ready to be rendered by a transport. Knows no transport.

use std::sync::Arc;

use bytes::Bytes;

use crate::rate::RateState;
use crate::refusal::Refusal;

/// What a request came to. There is always one.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The request's id.
    pub request_id: Arc<str>,
    /// What it came to.
    pub outcome: Outcome,
    /// How the limiter stands; `Some` exactly when it was reached.
    pub rate: Option<RateState>,
    /// Whether it is an earlier answer again: a stored one, or an approval that was already asked for. `Idempotency-Replayed` over
    /// HTTP, [`REPLAYED_KEY`] in MCP's `_meta`.
    pub replayed: bool,
}

/// The `_meta` key of an answer that was given before.
pub const REPLAYED_KEY: &str = "localhost.countersign/replayed";

/// What a call came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The server's result: the raw `result` member, to be passed on byte for byte.
    Result {
        /// Raw JSON.
        body: Bytes,
        /// Whether it is a tool error.
        is_error: bool,
    },
    /// The server's JSON-RPC error: the raw `error` member, to be passed on byte for byte with the caller's id.
    ProtocolError {
        /// Raw JSON.
        body: Bytes,
    },
    /// Answered by the gate; nothing was run.
    Finished(Finished),
    /// Refused, or failed without an answer. An MCP transport renders `not_found` and `module_disabled` of a tool as JSON-RPC
    /// −32602, everything else as a tool result with `isError: true`; refusals of methods as JSON-RPC errors.
    Refused(Box<Refusal>),
    /// The client cancelled: an MCP transport sends nothing.
    Cancelled,
}

/// A body the gate made itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// What a model or person reads first.
    pub text: String,
    /// The document, JSON text: `structuredContent`, or the body of a REST answer.
    pub document: String,
    /// REST status: 200, or 202 for previews, prompts and pending answers.
    pub status: u16,
}

impl Answer {
    /// Its HTTP headers: the rate values, and `Idempotency-Replayed: true` on an answer that was given before.
    #[must_use]
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = headers(self.rate.as_ref());
        if self.replayed {
            headers.push(("Idempotency-Replayed", "true".to_string()));
        }
        headers
    }
}

/// The rate values as HTTP headers: `RateLimit`, `RateLimit-Policy`, and `Retry-After` where units were refused.
#[must_use]
pub fn headers(rate: Option<&RateState>) -> Vec<(&'static str, String)> {
    let Some(rate) = rate else { return Vec::new() };
    let mut headers = vec![
        ("RateLimit", rate.header()),
        ("RateLimit-Policy", rate.policy_header()),
    ];
    headers.extend(
        rate.retry_after()
            .map(|seconds| ("Retry-After", seconds.to_string())),
    );
    headers
}
