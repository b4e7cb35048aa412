//! What running decisions ask of the session: to send a cleared call, to ask the server something of our own.
//! Holds a channel, no state.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use countersign_gate::Cleared;
use countersign_gate::json::{Change, edit, member};
use countersign_gate::ports::{Failure, Forwarded, Pending, Purpose, Ran, Upstream};
use countersign_gate::steps::What;
use tokio::sync::{mpsc, oneshot};

use crate::frame::Id;

/// Told whenever the server says that a call makes progress. Called where the session lives, so it must not wait.
#[derive(Clone)]
pub struct Beat(Arc<dyn Fn() + Send + Sync>);

/// Something a decision wants of the session.
#[derive(Debug)]
pub(super) enum Command {
    /// Send a client's cleared request under its own id.
    Forward {
        /// The client's id.
        id: Id,
        /// The method.
        method: Arc<str>,
        /// The rebuilt params.
        params: Option<Bytes>,
        /// Told of its progress, where the client asked for it.
        beat: Option<Beat>,
        /// Where its end is told.
        reply: oneshot::Sender<Ran>,
    },
    /// Ask the server on our own account.
    Ask {
        /// The method.
        method: &'static str,
        /// The params.
        params: Option<Vec<u8>>,
        /// Told of its progress, which is asked for under a token of our own.
        beat: Option<Beat>,
        /// Where the answer goes.
        reply: oneshot::Sender<Asked>,
    },
}

/// What came of a question of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// The raw `result`.
    Result(Bytes),
    /// The server's raw `error`.
    Error(Bytes),
    /// No answer.
    Lost(Lost),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Why.
    pub failure: Failure,
    /// For the log and the person.
    pub detail: String,
}

/// A handle on the session. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Link {
    commands: mpsc::UnboundedSender<Command>,
}

impl Link {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Command>) {
        // As many commands as calls in flight, which the client's ids bound.
        let (commands, receiver) = mpsc::unbounded_channel();
        (Self { commands }, receiver)
    }

    pub(super) async fn ask(&self, method: &'static str, params: Option<Vec<u8>>) -> Asked {
        self.ask_heard(method, params, None).await
    }

    pub(super) async fn ask_heard(
        &self,
        method: &'static str,
        params: Option<Vec<u8>>,
        beat: Option<Beat>,
    ) -> Asked {
        let (reply, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Ask {
            method,
            params,
            beat,
            reply,
        });
        answer.await.unwrap_or_else(|_| {
            Asked::Lost(Lost {
                failure: Failure::Cancelled,
                detail: "the session has ended".to_owned(),
            })
        })
    }
}

/// The gate's upstream for one request of the client. Takes only what the gate has cleared.
#[derive(Debug)]
pub struct CallUpstream {
    pub(super) link: Link,
    pub(super) id: Id,
    pub(super) method: Arc<str>,
    pub(super) params: Option<Bytes>,
}

/// An upstream whose calls' progress can be heard.
pub trait Heard: Send + Sync {
    /// As [`Upstream::run`], and `beat` is told of progress.
    fn run_heard(&self, cleared: Cleared, beat: Option<Beat>) -> Pending<'_, Ran>;
}

impl Beat {
    /// A beat that calls `told`.
    pub fn new(told: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    pub(super) fn tell(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Beat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Beat")
    }
}

impl Upstream for CallUpstream {
    fn run(&self, cleared: Cleared) -> Pending<'_, Ran> {
        self.run_heard(cleared, None)
    }
}

impl Heard for CallUpstream {
    fn run_heard(&self, cleared: Cleared, beat: Option<Beat>) -> Pending<'_, Ran> {
        if cleared.purpose() == Purpose::Preview {
            let apart = self.apart();
            return Box::pin(async move { apart.run(cleared).await });
        }
        let params = forwarded_params(self.params.as_ref(), cleared.what(), cleared.arguments());
        Box::pin(self.send(params, beat))
    }
}

impl CallUpstream {
    async fn send(&self, params: Option<Bytes>, beat: Option<Beat>) -> Ran {
        let (reply, answer) = oneshot::channel();
        let command = Command::Forward {
            id: self.id.clone(),
            method: self.method.clone(),
            params,
            beat,
            reply,
        };
        if self.link.commands.send(command).is_err() {
            return failed(Failure::Cancelled, Forwarded::No, "the session has ended");
        }
        answer
            .await
            .unwrap_or_else(|_| failed(Failure::Cancelled, Forwarded::Yes, "the session has ended"))
    }

    /// The same server for a call that is no request of the client's.
    pub fn apart(&self) -> OwnUpstream {
        OwnUpstream {
            link: self.link.clone(),
        }
    }

    /// Sends the request as received: for tests, which have no gate to clear it.
    #[cfg(test)]
    pub(super) async fn send_as_received(&self, beat: Beat) -> Ran {
        self.send(self.params.clone(), Some(beat)).await
    }
}

/// The gate's upstream for calls the executor makes itself, under its own id: those of previews, and approved ones nobody waits for.
#[derive(Debug)]
pub struct OwnUpstream {
    link: Link,
}

impl Upstream for OwnUpstream {
    fn run(&self, cleared: Cleared) -> Pending<'_, Ran> {
        self.run_heard(cleared, None)
    }
}

impl Heard for OwnUpstream {
    fn run_heard(&self, cleared: Cleared, beat: Option<Beat>) -> Pending<'_, Ran> {
        Box::pin(self.send(cleared, beat))
    }
}

impl OwnUpstream {
    async fn send(&self, cleared: Cleared, beat: Option<Beat>) -> Ran {
        let What::Tool(tool) = cleared.what() else {
            return failed(Failure::Server, Forwarded::No, "only tools are called so");
        };
        let name = serde_json::Value::from(&**tool).to_string();
        let arguments = cleared.arguments().map_or(&b"{}"[..], |bytes| bytes);
        let changes = [
            Change::Set("name", name.as_bytes()),
            Change::Set("arguments", arguments),
        ];
        let params = edit(b"{}", &changes);
        let asked = self.link.ask_heard("tools/call", Some(params), beat);
        match asked.await {
            Asked::Result(body) => Ran::Result {
                is_error: member(&body, "isError") == Some(b"true"),
                body,
            },
            Asked::Error(body) => Ran::ProtocolError { body },
            Asked::Lost(lost) => failed(lost.failure, Forwarded::Yes, &lost.detail),
        }
    }
}

/// The client's params with what was judged in the place of what was received; everything else as it was.
fn forwarded_params(
    received: Option<&Bytes>,
    what: &What,
    arguments: Option<&Bytes>,
) -> Option<Bytes> {
    match (what, received) {
        (What::Method(_), _) => arguments.cloned(),
        (What::Tool(_), None) => None,
        (What::Tool(_), Some(received)) => {
            let same = member(received, "arguments") == arguments.map(|bytes| &bytes[..]);
            match arguments {
                _ if same => Some(Bytes::clone(received)),
                Some(arguments) => {
                    Some(edit(received, &[Change::Set("arguments", arguments)]).into())
                }
                None => Some(edit(received, &[Change::Remove("arguments")]).into()),
            }
        }
    }
}

pub(super) fn failed(failure: Failure, forwarded: Forwarded, detail: &str) -> Ran {
    Ran::Failed {
        failure,
        forwarded,
        detail: detail.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forwarded_is_what_was_judged() {
        let tool = What::Tool("t".into());
        let check = |received: &'static str, arguments: Option<&'static str>, expected: &str| {
            let out = forwarded_params(
                Some(&Bytes::from_static(received.as_bytes())),
                &tool,
                arguments
                    .map(|text| Bytes::from_static(text.as_bytes()))
                    .as_ref(),
            );
            assert_eq!(String::from_utf8(out.unwrap().to_vec()).unwrap(), expected);
        };
        check(
            r#"{"name":"t","arguments":{"a":1,"dry_run":false},"_meta":{"v":1.0}}"#,
            Some(r#"{"a":1}"#),
            r#"{"name":"t","arguments":{"a":1},"_meta":{"v":1.0}}"#,
        );
        check(r#"{"name":"t"}"#, None, r#"{"name":"t"}"#);
        check(
            r#"{"name":"t","arguments":null}"#,
            Some("null"),
            r#"{"name":"t","arguments":null}"#,
        );
    }
}
