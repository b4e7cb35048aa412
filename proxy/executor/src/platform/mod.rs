//! What differs by operating system about processes: a child and everything it starts end together, and end with us.
//! Owns the only `unsafe` of the executor. Knows nothing of messages, settings or servers.

#[cfg(unix)]
mod guardian;
mod memory;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(windows)]
pub use self::windows::{Guardian, Tree, file_system, guard};
#[cfg(unix)]
pub use guardian::{Guardian, guard};
pub use memory::keep_memory_private;
#[cfg(unix)]
pub use unix::{Tree, file_system};

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
        let program = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe()?
        };
        Ok(Self {
            program,
            arguments: vec![subcommand.to_owned()],
        })
    }
}

/// Makes the calling thread one that runs when no other wants to. A wish: where the system has no such call nothing happens.
pub fn yield_to_others() {
    // Linux counts threads as processes here; elsewhere it would be this whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 19);
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

/// Ends when the operating system asks us to end: SIGTERM, SIGINT or SIGHUP, or Ctrl-C and the like on Windows.
/// Where no handler can be had it never ends, and the default action of the signal holds.
pub async fn asked_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let signals = (
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
            signal(SignalKind::hangup()),
        );
        if let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)) = signals {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
            }
            return;
        }
    }
    #[cfg(windows)]
    {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close};
        if let (Ok(mut c), Ok(mut pause), Ok(mut close)) = (ctrl_c(), ctrl_break(), ctrl_close()) {
            tokio::select! {
                _ = c.recv() => {}
                _ = pause.recv() => {}
                _ = close.recv() => {}
            }
            return;
        }
    }
    std::future::pending().await
}

/// Sends panics to our stderr queue and to nothing else: standard output belongs to the protocol (M1), and a reader of stderr that
/// has stopped reading must not keep a panic from ending us.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|panic| {
        crate::upstream::diagnostics::to_stderr(format!("countersign: internal error: {panic}\n"));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }));
}
