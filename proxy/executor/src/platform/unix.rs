//! Unix: a process group per child; on Linux the kernel also kills the child when we die.
//! Knows nothing of what the child says.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};

use super::guardian::watch_line;
use super::{Guardian, Spawned};

/// A child process, its group, and the descendants that left the group.
#[derive(Debug)]
pub struct Tree {
    child: Child,
    group: Pid,
    guardian: Option<Guardian>,
    strays: Vec<Stray>,
}

impl Tree {
    /// Starts `command` in a process group of its own with its three streams piped to us.
    ///
    /// Must be called on a thread that lives as long as the executor: Linux ties the child's life to the spawning *thread*.
    ///
    /// # Errors
    /// What the operating system answers to the spawn.
    pub fn spawn(mut command: Command, guardian: Option<Guardian>) -> io::Result<Spawned> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        before_exec(&mut command, guardian.as_ref());
        let mut child = command.spawn()?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw)
            .ok_or_else(|| io::Error::other("the child has no process id"))?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("the child has no pipes"));
        };
        Ok(Spawned {
            tree: Self {
                child,
                group,
                guardian,
                strays: Vec::new(),
            },
            stdin,
            stdout,
            stderr,
        })
    }

    /// The process id of the child, for logs.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.group.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits for the child itself to end. Safe to cancel and to repeat.
    ///
    /// # Errors
    /// What the operating system answers.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks the whole group to end, and remembers descendants that had left it while their line of parents still shows them.
    pub fn terminate(&mut self) {
        self.strays.extend(strays(self.group));
        let _ = kill_process_group(self.group, Signal::TERM);
    }

    /// Ends the whole group and its strays at once. Nothing of the tree runs afterwards.
    pub fn kill(&mut self) {
        let fresh = strays(self.group);
        self.strays.extend(fresh);
        let _ = kill_process_group(self.group, Signal::KILL);
        for stray in self.strays.drain(..) {
            stray.kill();
        }
        if let Some(guardian) = self.guardian.take() {
            guardian.reaped(self.group);
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A descendant in a group of its own, with its start time so that a reused process id is not mistaken for it.
#[derive(Debug, PartialEq, Eq)]
struct Stray {
    pid: Pid,
    started: u64,
}

impl Stray {
    fn kill(&self) {
        if process(self.pid.as_raw_nonzero().get()).is_some_and(|now| now.started == self.started) {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

struct Process {
    id: i32,
    parent: i32,
    group: i32,
    started: u64,
}

/// Descendants of `root` outside its group. Empty where there is no `/proc`.
fn strays(root: Pid) -> Vec<Stray> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let all: Vec<Process> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
        })
        .filter_map(process)
        .collect();
    let root = root.as_raw_nonzero().get();
    let mut family: Vec<i32> = all
        .iter()
        .filter(|one| one.group == root || one.id == root)
        .map(|one| one.id)
        .collect();
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        next += 1;
        let found: Vec<i32> = all
            .iter()
            .filter(|one| one.parent == parent && !family.contains(&one.id))
            .map(|one| one.id)
            .collect();
        family.extend(found);
    }
    all.iter()
        .filter(|one| family.contains(&one.id) && one.group != root)
        .filter_map(|one| {
            Some(Stray {
                pid: Pid::from_raw(one.id)?,
                started: one.started,
            })
        })
        .collect()
}

/// One line of `/proc/<id>/stat`: the fields after the parenthesised name (proc_pid_stat(5)).
fn process(id: i32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let started = fields.nth(16)?.parse().ok()?;
    Some(Process {
        id,
        parent,
        group,
        started,
    })
}

/// What the child does between fork and exec: the kernel is told to kill it when we die (Linux), the guardian to watch its group. So
/// there is no moment at which the server runs and nobody would end it.
#[allow(unsafe_code)]
fn before_exec(command: &mut Command, guardian: Option<&Guardian>) {
    if let Some(guardian) = guardian {
        guardian.ready();
    }
    let pipe = guardian.map(Guardian::pipe);
    let parent = rustix::process::getpid();
    // SAFETY: the closure runs in the child between fork and exec. It makes system calls and touches its own stack only: no
    // allocation, no lock.
    unsafe {
        command.pre_exec(move || {
            #[cfg(target_os = "linux")]
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            if let Some(pipe) = &pipe {
                let (line, length) = watch_line(std::process::id());
                let _ = rustix::io::write(&pipe.writing, &line[..length]);
            }
            // We may have died before the kernel was told.
            if rustix::process::getppid() == Some(parent) {
                Ok(())
            } else {
                Err(io::Error::from_raw_os_error(
                    rustix::io::Errno::SRCH.raw_os_error(),
                ))
            }
        });
    }
}

/// The kind of the network or user-space file system `path`, or its nearest parent that exists, lies on; none on a disk of this
/// machine.
#[must_use]
pub fn file_system(path: &Path) -> Option<String> {
    let answered = path
        .ancestors()
        .find_map(|path| rustix::fs::statfs(path).ok())?;
    #[cfg(target_os = "linux")]
    #[allow(
        clippy::cast_sign_loss,
        clippy::unnecessary_cast,
        reason = "a number whose type differs between machines"
    )]
    return crate::disk::linux_kind(answered.f_type as u64).map(str::to_owned);
    #[cfg(target_os = "macos")]
    {
        let name: Vec<u8> = answered.f_fstypename.iter().map(|c| *c as u8).collect();
        let name = name.split(|c| *c == 0).next().unwrap_or_default();
        return crate::disk::mac_kind(&String::from_utf8_lossy(name));
    }
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    {
        let _ = answered;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_own_line_of_proc() {
        let Some(me) = i32::try_from(std::process::id()).ok().and_then(process) else {
            return;
        };
        assert!(me.started > 0);
        assert!(me.group > 0 && me.parent > 0);
    }

    #[tokio::test]
    async fn m24_a_killed_tree_takes_the_strays_with_it() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let mut command = Command::new("sh");
        command.args(["-c", "setsid sleep 300 & echo $!; wait"]);
        let mut spawned = Tree::spawn(command, None).unwrap();
        let mut line = String::new();
        let mut reader = tokio::io::BufReader::new(&mut spawned.stdout);
        tokio::io::AsyncBufReadExt::read_line(&mut reader, &mut line)
            .await
            .unwrap();
        let stray: i32 = line.trim().parse().unwrap();
        // `setsid` forks no child here, but it needs a moment to leave the group.
        for _ in 0..200 {
            if process(stray).is_some_and(|one| one.group == stray) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert!(process(stray).is_some_and(|one| one.group == stray));
        spawned.tree.kill();
        spawned.tree.wait().await.unwrap();
        for _ in 0..200 {
            if !running(stray) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("the stray lives");
    }

    /// A zombie that nobody has waited for does not run.
    fn running(id: i32) -> bool {
        std::fs::read_to_string(format!("/proc/{id}/stat"))
            .is_ok_and(|stat| !stat[stat.rfind(')').unwrap()..].starts_with(") Z"))
    }
}
