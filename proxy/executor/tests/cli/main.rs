//! The commands through the real binary. One integration binary, a module a feature.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says where it failed"
)]

mod acts;
mod book;
mod doctor;
#[cfg(target_os = "linux")]
mod faults;
mod held;
mod init;
mod transcripts;
mod upkeep;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder of its own with a passphrase, and the binary over it.
struct World {
    temp: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let temp = tempfile::tempdir().unwrap();
        private(&temp.path().join("pw"), "correct horse\n");
        World { temp }
    }

    fn root(&self) -> &Path {
        self.temp.path()
    }

    fn dir(&self) -> PathBuf {
        self.root().join("dir")
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command
            .args(line.split(' '))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.root())
            .env("COUNTERSIGN_DIR", self.dir())
            .env("COUNTERSIGN_PASSPHRASE_FILE", self.root().join("pw"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Runs a command that must do its work; gives its JSON.
    fn json(&self, line: &str) -> serde_json::Value {
        let output = self.run(line);
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"))
    }
}

/// Writes a file only its owner can read.
fn private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}
