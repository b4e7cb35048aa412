//! Which processes of this executor are alive: each holds a lock on `run/<process>.lock` for as long as it lives, and the
//! system lets go of it however the process ends. Refuses to know what the processes do.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::folder::open_regular;

/// This process among those of the executor. The lock is let go and its file removed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    path: PathBuf,
    _lock: File,
}

impl Process {
    /// Enters this process into `run`, the executor's folder of living processes (made if missing). The name is
    /// `<process id>-<16 hexadecimal digits>`, so a reused process id is another process.
    ///
    /// # Errors
    /// When the folder cannot be written or the system gives no random bytes.
    pub fn enter(run: &Path) -> io::Result<Self> {
        fs::create_dir_all(run)?;
        let mut random = [0_u8; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = format!(
            "{}-{}",
            std::process::id(),
            data_encoding::HEXLOWER.encode(&random)
        );
        // Locked before it has its name, so nobody ever finds it unlocked while we live.
        let unnamed = run.join(format!(".{name}.new"));
        let lock = File::options()
            .create_new(true)
            .write(true)
            .open(&unnamed)?;
        lock.lock()?;
        let path = run.join(format!("{name}.lock"));
        fs::rename(&unnamed, &path)?;
        clear_dead(run);
        Ok(Self {
            name,
            path,
            _lock: lock,
        })
    }

    /// Its name, as `call` entries carry it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether the process of that name lives. A name that is no file name was never ours and counts as gone; a lock that
/// cannot be judged (no permission, a broken disk) counts as alive, since a living call must never be settled.
#[must_use]
pub fn is_alive(run: &Path, name: &str) -> bool {
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return false;
    }
    let path = run.join(format!("{name}.lock"));
    match open_regular(File::options().write(true), &path) {
        Err(error) => error.kind() != io::ErrorKind::NotFound,
        Ok(file) => match file.try_lock() {
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(_)) => true,
            Ok(()) => {
                let _ = fs::remove_file(&path);
                false
            }
        },
    }
}

/// The names of the living processes, sorted. Takes nothing away.
#[must_use]
pub fn living(run: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(run).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let name = file.to_str().and_then(|file| file.strip_suffix(".lock"));
        let Some(name) = name.filter(|name| name.starts_with(|c: char| c.is_ascii_digit())) else {
            continue;
        };
        let held = open_regular(File::options().read(true), &entry.path())
            .map(|file| file.try_lock_shared());
        if matches!(held, Ok(Err(TryLockError::WouldBlock))) {
            names.push(crate::commands::plain(name));
        }
    }
    names.sort();
    names
}

/// Takes away the lock files of processes that were killed. A file that is not there says the same as one nobody holds.
fn clear_dead(run: &Path) {
    for entry in fs::read_dir(run).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let name = file.to_str().and_then(|file| file.strip_suffix(".lock"));
        if let Some(name) = name.filter(|name| name.starts_with(|c: char| c.is_ascii_digit())) {
            let _ = is_alive(run, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_until_it_is_dropped() {
        let run = tempfile::tempdir().unwrap();
        let process = Process::enter(run.path()).unwrap();
        let name = process.name().to_owned();
        assert!(is_alive(run.path(), &name));
        assert_eq!(living(run.path()), std::slice::from_ref(&name));
        drop(process);
        assert!(!is_alive(run.path(), &name));
        fs::write(run.path().join("77-aa.lock"), "").unwrap();
        assert!(living(run.path()).is_empty() && run.path().join("77-aa.lock").exists());
    }

    #[test]
    fn a_lock_file_nobody_holds_is_a_dead_process_and_is_cleared() {
        let run = tempfile::tempdir().unwrap();
        let path = run.path().join("77-aa.lock");
        fs::write(&path, "").unwrap();
        assert!(!is_alive(run.path(), "77-aa"));
        assert!(!path.exists());
    }

    #[test]
    fn m21_who_enters_clears_the_locks_of_the_dead_and_of_nobody_else() {
        let run = tempfile::tempdir().unwrap();
        let living = Process::enter(run.path()).unwrap();
        for file in ["77-aa.lock", "agents.lock", "settings.sha256"] {
            fs::write(run.path().join(file), "").unwrap();
        }
        let entered = Process::enter(run.path()).unwrap();
        assert!(!run.path().join("77-aa.lock").exists());
        assert!(run.path().join("agents.lock").exists());
        assert!(is_alive(run.path(), living.name()) && is_alive(run.path(), entered.name()));
    }

    #[test]
    fn names_that_are_no_file_names_are_gone() {
        let run = tempfile::tempdir().unwrap();
        for name in ["", "../other", "a/b", "a.b", "nul\0"] {
            assert!(!is_alive(run.path(), name), "{name:?}");
        }
    }
}
