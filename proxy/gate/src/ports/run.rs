//! The servers as a port, and what came of a run. How a message is sent and answered is the executor's.

use bytes::Bytes;

use super::Pending;
use crate::steps::Cleared;

/// The servers.
pub trait Upstream: Send + Sync {
    /// Sends a cleared call, once, and waits for its end. One whose [`Cleared::purpose`] is a preview is the executor's own request,
    /// never the client's. Never re-sends. Holds time-outs and cancellation. The arguments to send are
    /// [`Cleared::arguments`]; the rest of the message is the executor's.
    fn run(&self, cleared: Cleared) -> Pending<'_, Ran>;
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Ran {
    /// A result, passed on unchanged.
    Result {
        /// The raw `result` member.
        body: Bytes,
        /// Whether it is a tool error (`isError: true`).
        is_error: bool,
    },
    /// A JSON-RPC error of the server, passed on unchanged.
    ProtocolError {
        /// The raw `error` member.
        body: Bytes,
    },
    /// No answer.
    Failed {
        /// Why.
        failure: Failure,
        /// Whether the message may have reached the server.
        forwarded: Forwarded,
        /// For the log and the person: the server's last words. Never shown to the agent.
        detail: String,
    },
}

/// Whether a message may have reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// At least one byte may have left: outcome `unknown`.
    Yes,
    /// Certainly not: outcome `error`.
    No,
}

/// Why a run gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server died, could not be started, or answered malformed: 502 `upstream_failed`.
    Server,
    /// No answer in time: 504 `upstream_timeout`.
    Timeout,
    /// The client cancelled or is gone.
    Cancelled,
}
