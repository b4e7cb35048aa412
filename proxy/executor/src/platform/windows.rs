//! Windows: a job object per child that is closed, and so ended, with our last handle; no console window.
//! Knows nothing of what the child says.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use process_wrap::tokio::{ChildWrapper, CommandWrap, CreationFlags, JobObject, KillOnDrop};
use tokio::process::Command;
use windows::Win32::Storage::FileSystem::GetDriveTypeW;
use windows::Win32::System::Threading::CREATE_NO_WINDOW;
use windows::core::PCWSTR;

use super::{GuardianProgram, Spawned};

/// A child process and its job.
#[derive(Debug)]
pub struct Tree {
    child: Box<dyn ChildWrapper>,
    id: u32,
}

impl Tree {
    /// Starts `command` in a job of its own with its three streams piped to us.
    ///
    /// # Errors
    /// What the operating system answers to the spawn.
    pub fn spawn(mut command: Command, _guardian: Option<Guardian>) -> io::Result<Spawned> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut command = CommandWrap::from(command);
        command
            .wrap(CreationFlags(CREATE_NO_WINDOW))
            .wrap(KillOnDrop)
            .wrap(JobObject);
        let mut child = command.spawn()?;
        let id = child.id().unwrap_or_default();
        let (Some(stdin), Some(stdout), Some(stderr)) = (
            child.stdin().take(),
            child.stdout().take(),
            child.stderr().take(),
        ) else {
            return Err(io::Error::other("the child has no pipes"));
        };
        Ok(Spawned {
            tree: Self { child, id },
            stdin,
            stdout,
            stderr,
        })
    }

    /// The process id of the child, for logs.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Waits for the child itself to end. Safe to cancel and to repeat.
    ///
    /// # Errors
    /// What the operating system answers.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.inner_mut().wait().await
    }

    /// Windows has no polite signal for a process without a window; closing its input was the request.
    pub fn terminate(&mut self) {}

    /// Ends the whole job at once.
    pub fn kill(&mut self) {
        let _ = self.child.start_kill();
    }
}

/// The job object does the guardian's work here.
#[derive(Debug, Clone)]
pub struct Guardian;

impl Guardian {
    /// Nothing to start.
    ///
    /// # Errors
    /// Never.
    pub fn start(_program: GuardianProgram) -> io::Result<Self> {
        Ok(Self)
    }
}

/// Nothing to do.
pub fn guard() {}

/// The kind of the network drive `path` lies on; none on a drive of this machine, and none where Windows does not tell.
#[allow(
    unsafe_code,
    reason = "GetDriveTypeW reads one zero-terminated string, which lives for the call"
)]
#[must_use]
pub fn file_system(path: &Path) -> Option<String> {
    use std::path::{Component, Prefix};
    const DRIVE_REMOTE: u32 = 4;
    let Some(Component::Prefix(prefix)) = path.components().next() else {
        return None;
    };
    match prefix.kind() {
        Prefix::UNC(..) | Prefix::VerbatimUNC(..) => Some("network share".to_owned()),
        Prefix::Disk(letter) | Prefix::VerbatimDisk(letter) => {
            let root: Vec<u16> = [u16::from(letter), u16::from(b':'), u16::from(b'\\'), 0].to_vec();
            // SAFETY: `root` ends with a zero and outlives the call.
            let kind = unsafe { GetDriveTypeW(PCWSTR(root.as_ptr())) };
            (kind == DRIVE_REMOTE).then(|| "network drive".to_owned())
        }
        _ => None,
    }
}
