//! One client session and one server process: raw messages, judged, decided, passed on. Knows methods, not rules.
//!
//! `run` is the loop, `session` the state, `owed` what the server still owes, `from_client` and `from_server` what messages mean, `decide` the tasks that ask the
//! gatekeeper, `process` when the server is started again.

mod catalog;
mod decide;
mod from_client;
mod from_server;
pub mod gatekeeper;
pub mod lifecycle;
mod link;
pub mod methods;
mod outbox;
mod owed;
mod process;
mod run;
mod session;
pub mod shape;

#[cfg(test)]
mod tests;

pub use run::run;

use std::time::Duration;

use countersign_gate::ports::Pending;

use crate::downstream::stdio::{Input, Output};
use crate::platform::Guardian;
use crate::upstream::child::{Child, ChildSpec, StartError};
use crate::upstream::diagnostics::Diagnostics;

/// What one relay is set to, from executor.json.
#[derive(Debug, Clone)]
pub struct RelaySettings {
    /// The server's name.
    pub server: String,
    /// Longest message either way, in bytes.
    pub frame_bytes: usize,
    /// Deepest nesting.
    pub depth: usize,
    /// Patience with a start and the opening request.
    pub start: Duration,
    /// Patience with any other request.
    pub call: Duration,
    /// What passes beyond the specification's tables.
    pub passing: methods::Passing,
}

impl RelaySettings {
    /// The defaults of executor.json for a server of this name.
    #[must_use]
    pub fn new(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            frame_bytes: 16 * 1024 * 1024,
            depth: countersign_gate::json::MAX_DEPTH,
            start: Duration::from_secs(30),
            call: Duration::from_secs(300),
            passing: methods::Passing::default(),
        }
    }
}

/// The client's two streams.
pub struct Client {
    /// What it says.
    pub input: Input,
    /// What it hears.
    pub output: Output,
}

/// A running server.
pub struct Running {
    /// What it hears.
    pub stdin: Output,
    /// What it says.
    pub stdout: Input,
    /// Its process; `None` for a server inside this process.
    pub process: Option<Child>,
}

/// Starts the server, and starts it again after a crash.
pub trait Starter: Send + Sync {
    /// One start.
    fn start(&self) -> Pending<'static, Result<Running, StartError>>;
}

/// Why a relay ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The client closed its end.
    ByClient,
    /// The future `stop` ended.
    BySignal,
}

/// Starts the process a server's entry names.
pub struct ProcessStarter {
    /// How.
    pub spec: std::sync::Arc<ChildSpec>,
    /// Who kills it should we be killed.
    pub guardian: Option<Guardian>,
    /// Where its words for people go.
    pub diagnostics: Diagnostics,
}

impl Starter for ProcessStarter {
    fn start(&self) -> Pending<'static, Result<Running, StartError>> {
        let (spec, guardian, diagnostics) = (
            self.spec.clone(),
            self.guardian.clone(),
            self.diagnostics.clone(),
        );
        Box::pin(async move {
            let mut process = Child::start(&spec, guardian, diagnostics).await?;
            let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
                let source = std::io::Error::other("the child has no pipes");
                return Err(StartError::Spawn {
                    command: spec.command.clone(),
                    source,
                });
            };
            Ok(Running {
                stdin: Box::new(stdin),
                stdout: Box::new(stdout),
                process: Some(process),
            })
        })
    }
}
