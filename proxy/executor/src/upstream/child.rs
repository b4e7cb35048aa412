//! One server process: started with exactly the environment it is given, its stderr always drained, ended politely and then for certain.
//! Knows nothing of what a message means.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::diagnostics::{Diagnostics, Source};
use super::path::{Found, NotFound, Surroundings, find};
use crate::platform::{Guardian, Spawned, Tree};

/// Longest line of stderr that is looked at as one line; a longer one is cut into several.
const STDERR_LINE: usize = 16 * 1024;

/// How a server is started. Commands come from the configuration only, never from a message (M59).
pub struct ChildSpec {
    /// The server's name, for logs and errors.
    pub name: String,
    /// The program: a name to be found, or a path.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its folder; ours when `None`.
    pub cwd: Option<PathBuf>,
    /// Its whole environment, see [`environment`]. May hold secrets: not shown by `Debug`.
    pub environment: Vec<(OsString, OsString)>,
}

impl std::fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.environment.iter().map(|(name, _)| name).collect();
        f.debug_struct("ChildSpec")
            .field("name", &self.name)
            .field("command", &self.command)
            .field("cwd", &self.cwd)
            .field("environment", &names)
            .finish_non_exhaustive()
    }
}

/// The variables a server gets from our own environment: those MCP clients give their servers, and where language, time zone and
/// temporary files are. Everything else, credentials of other programs above all, comes from the server's entry or not at all.
const INHERITED: &[&str] = if cfg!(windows) {
    &[
        "APPDATA",
        "COMSPEC",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "NUMBER_OF_PROCESSORS",
        "OS",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "USERNAME",
        "USERPROFILE",
        "WINDIR",
    ]
} else {
    &[
        "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    ]
};

fn is_inherited(name: &std::ffi::OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("LC_")
        || INHERITED.iter().any(|known| {
            if cfg!(windows) {
                name.eq_ignore_ascii_case(known)
            } else {
                name == *known
            }
        })
}

/// The environment of a server: a handful of our own variables ([`INHERITED`]), then what the server's entry says. `PATH` is completed
/// at the start, and only when the command is not found through the one given.
#[must_use]
pub fn environment(
    ours: impl IntoIterator<Item = (OsString, OsString)>,
    entry: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let mut all: Vec<(OsString, OsString)> = ours
        .into_iter()
        .filter(|(name, _)| is_inherited(name))
        .collect();
    for (name, value) in entry {
        all.retain(|(existing, _)| *existing != name);
        all.push((name, value));
    }
    all
}

/// Why a server could not be started. For the person; the agent is told only that it could not.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The command is nowhere.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// The operating system refused.
    #[error("`{command}` cannot be started: {source}")]
    Spawn {
        /// The program that was to be started.
        command: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A running server process.
#[derive(Debug)]
pub struct Child {
    /// Its standard input, until it is closed.
    pub stdin: Option<ChildStdin>,
    /// Its standard output, until the relay takes it.
    pub stdout: Option<ChildStdout>,
    tree: Tree,
    stderr: JoinHandle<()>,
    diagnostics: Diagnostics,
}

/// How patient an ending is with the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From the end of its input to the request to end.
    pub after_eof: Duration,
    /// From the request to end to the kill.
    pub after_term: Duration,
}

impl Patience {
    /// For a server that is stopped while we go on.
    pub const RESTART: Self = Self {
        after_eof: Duration::from_secs(2),
        after_term: Duration::from_secs(2),
    };
    /// When our own input ended: hosts give us two seconds in all (M24).
    pub const LEAVING: Self = Self {
        after_eof: Duration::from_millis(500),
        after_term: Duration::from_millis(400),
    };
    /// When we were asked by signal: hosts do that after they have waited already.
    pub const SIGNALLED: Self = Self {
        after_eof: Duration::from_millis(250),
        after_term: Duration::from_millis(700),
    };
}

impl Child {
    /// Finds and starts the server, and drains its stderr from now on.
    ///
    /// # Errors
    /// [`StartError`], which is also in the server's log.
    pub async fn start(
        spec: &ChildSpec,
        guardian: Option<Guardian>,
        diagnostics: Diagnostics,
    ) -> Result<Self, StartError> {
        let given = spec
            .environment
            .iter()
            .find(|(name, _)| name == "PATH")
            .map(|(_, path)| path.clone());
        let Found { program, path } = find(
            &spec.command,
            &Surroundings::here(given, spec.cwd.as_deref()),
        )
        .await?;
        let mut command = Command::new(&program);
        command
            .args(&spec.arguments)
            .env_clear()
            .envs(spec.environment.iter().map(|(name, value)| (name, value)));
        if let Some(path) = path {
            command.env("PATH", path);
        }
        if let Some(cwd) = &spec.cwd {
            command.current_dir(cwd);
        }
        let Spawned {
            tree,
            stdin,
            stdout,
            stderr,
        } = Tree::spawn(command, guardian).map_err(|source| StartError::Spawn {
            command: program.display().to_string(),
            source,
        })?;
        let stderr = tokio::spawn(drain(stderr, diagnostics.clone()));
        Ok(Self {
            stdin: Some(stdin),
            stdout: Some(stdout),
            tree,
            stderr,
            diagnostics,
        })
    }

    /// Its process id, for logs.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.tree.id()
    }

    /// Waits for the process itself to end. Safe to cancel and to repeat.
    ///
    /// # Errors
    /// What the operating system answers.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.tree.wait().await
    }

    /// Ends the process and everything it started: input closed, request, kill. Returns how it ended and its last words,
    /// which are for the person only.
    pub async fn end(mut self, patience: Patience) -> Ended {
        self.stdin = None;
        let mut status = within(patience.after_eof, &mut self.tree).await;
        if status.is_none() {
            self.tree.terminate();
            status = within(patience.after_term, &mut self.tree).await;
        } else {
            // The server has gone; what it started gets the same request before the kill.
            self.tree.terminate();
        }
        self.tree.kill();
        if status.is_none() {
            status = within(Duration::from_secs(1), &mut self.tree).await;
        }
        // Everyone who held the other end of stderr is dead: what is left of it arrives now.
        let _ = tokio::time::timeout(Duration::from_millis(100), &mut self.stderr).await;
        self.stderr.abort();
        Ended {
            status,
            last_words: self.diagnostics.last_words(),
        }
    }
}

/// How a server ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status when it could be had.
    pub status: Option<ExitStatus>,
    /// The last lines it said, for the person.
    pub last_words: Vec<String>,
}

async fn within(patience: Duration, tree: &mut Tree) -> Option<ExitStatus> {
    tokio::time::timeout(patience, tree.wait())
        .await
        .ok()
        .and_then(Result::ok)
}

async fn drain(mut stream: impl AsyncRead + Unpin, diagnostics: Diagnostics) {
    let mut buffer = Vec::with_capacity(4 * 1024);
    loop {
        let read = stream.read_buf(&mut buffer).await;
        let ended = !matches!(read, Ok(bytes) if bytes > 0);
        let whole = if ended || buffer.len() > STDERR_LINE {
            buffer.len()
        } else {
            memchr::memrchr(b'\n', &buffer).map_or(0, |end| end + 1)
        };
        let lines = buffer[..whole]
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        diagnostics.lines(Source::Stderr, lines);
        buffer.drain(..whole);
        if ended {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_gets_what_clients_give_and_what_its_entry_says() {
        let pair = |(name, value): (&str, &str)| (OsString::from(name), OsString::from(value));
        let ours = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("COUNTERSIGN_DIR", "d"),
            ("TZ", "UTC"),
        ];
        let entry = [("TOKEN", "t"), ("TZ", "CET")];
        let got = environment(ours.map(pair), entry.map(pair));
        assert_eq!(
            got,
            [
                ("PATH", "/bin"),
                ("LC_ALL", "C"),
                ("TOKEN", "t"),
                ("TZ", "CET")
            ]
            .map(pair)
        );
    }
}
