//! Diagnostics of this process: `logs/executor.log` and, for what a person must know, standard error. Never standard output.

use std::fs::{self, File};
use std::io::{self, Write};
use std::str::FromStr;
use std::sync::Mutex;

use tracing::Level;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::folder::{Folder, open_regular};

/// A log this long becomes `executor.log.1`, and the one before is gone.
const LOG_BYTES: u64 = 4 << 20;

/// Starts logging; `RUST_LOG` names what goes into the file (default `info`). Where the file cannot be written, standard error is all there is.
pub fn start(folder: &Folder) {
    let wanted = std::env::var("RUST_LOG")
        .ok()
        .and_then(|text| Targets::from_str(&text).ok());
    let file = open(folder).ok().map(|file| {
        tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(Mutex::new(file))
            .with_filter(wanted.unwrap_or_else(|| Targets::new().with_default(Level::INFO)))
    });
    let people = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_writer(|| Stderr)
        .with_filter(Targets::new().with_default(Level::WARN));
    // A second start in one process (tests) keeps the first.
    let _ = tracing_subscriber::registry()
        .with(file)
        .with(people)
        .try_init();
}

fn open(folder: &Folder) -> io::Result<File> {
    let path = folder.logs().join("executor.log");
    if fs::metadata(&path).is_ok_and(|meta| meta.len() > LOG_BYTES) {
        fs::rename(&path, path.with_extension("log.1"))?;
    }
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    open_regular(&options, &path)
}

/// Standard error that a closed or full pipe cannot break.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
