//! What differs by operating system about processes: a child and everything it starts end together, and end with us.
//! Owns the only `unsafe` of the executor. Knows nothing of messages, settings or servers.

#[cfg(unix)]
mod guardian;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use guardian::{Guardian, guard};
#[cfg(unix)]
pub use unix::Tree;
#[cfg(windows)]
pub use windows::{Guardian, Tree, guard};

use std::path::PathBuf;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

/// How the guardian process is started: our own program with a hidden subcommand that calls [`guard`].
#[derive(Debug, Clone)]
pub struct GuardianProgram {
    /// The program; on Linux `/proc/self/exe` survives its own replacement.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl GuardianProgram {
    /// This executable with the given hidden subcommand.
    ///
    /// # Errors
    /// The path of the running program cannot be found.
    pub fn this(subcommand: &str) -> std::io::Result<Self> {
        let program = if cfg!(target_os = "linux") { PathBuf::from("/proc/self/exe") } else { std::env::current_exe()? };
        Ok(Self { program, arguments: vec![subcommand.to_owned()] })
    }
}

/// A started process with its three streams.
#[derive(Debug)]
pub struct Spawned {
    /// The process and everything it starts.
    pub tree: Tree,
    /// Its standard input.
    pub stdin: ChildStdin,
    /// Its standard output.
    pub stdout: ChildStdout,
    /// Its standard error.
    pub stderr: ChildStderr,
}
