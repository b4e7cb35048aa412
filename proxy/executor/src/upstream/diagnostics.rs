//! Where a server's words for people go: its log file, the ring of last words, our own stderr. Never blocks the server,
//! never reaches the agent.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Last lines kept for the person.
const RING_LINES: usize = 40;
/// Bytes of one line that are kept.
const LINE_BYTES: usize = 2_000;
/// A log file this long becomes `<name>.log.1`, and the one before is gone.
const LOG_BYTES: u64 = 4 * 1024 * 1024;
/// A shorter value would blot out ordinary words.
const SHORTEST_SECRET: usize = 4;
/// Lines echoed to our stderr per [`ECHO_WINDOW`].
const ECHO_LINES: u32 = 200;
const ECHO_WINDOW: Duration = Duration::from_secs(10);

/// One server's diagnostics. Clones share the same ring.
#[derive(Debug, Clone)]
pub struct Diagnostics {
    server: Arc<str>,
    log: Option<Arc<PathBuf>>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    ring: VecDeque<String>,
    window: Instant,
    echoed: u32,
    suppressed: u64,
    /// Values that are never written down, whoever says them.
    hidden: Vec<zeroize::Zeroizing<String>>,
}

/// Which of the server's streams, or we ourselves, said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Its standard error.
    Stderr,
    /// Something that is not a message on its standard output.
    Stdout,
    /// The executor about the server.
    Executor,
}

impl Source {
    const fn name(self) -> &'static str {
        match self {
            Self::Stderr => "stderr",
            Self::Stdout => "stdout",
            Self::Executor => "executor",
        }
    }
}

impl Diagnostics {
    /// For `server`, with its log in the folder `logs` when there is one.
    #[must_use]
    pub fn new(server: &str, logs: Option<&Path>) -> Self {
        let log = logs.map(|folder| Arc::new(folder.join(format!("{server}.log"))));
        let state = State {
            ring: VecDeque::new(),
            window: Instant::now(),
            echoed: 0,
            suppressed: 0,
            hidden: Vec::new(),
        };
        Self {
            server: server.into(),
            log,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The server's name.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Takes whole lines of one stream: log, ring, echo. Control characters are made visible first.
    pub fn lines<'a>(&self, source: Source, lines: impl IntoIterator<Item = &'a [u8]>) {
        let mut lines: Vec<String> = lines.into_iter().map(printable).collect();
        if lines.is_empty() {
            return;
        }
        self.mask(&mut lines);
        self.append(source, &lines);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for line in lines {
            if let Some(text) = state.echo(&self.server, source, &line) {
                to_stderr(text);
            }
            if state.ring.len() == RING_LINES {
                state.ring.pop_front();
            }
            state.ring.push_back(line);
        }
    }

    /// From now on these values appear as `[secret]`: a server may print the credential it was started with.
    pub fn hide<'a>(&self, values: impl IntoIterator<Item = &'a str>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for value in values
            .into_iter()
            .filter(|value| value.len() >= SHORTEST_SECRET)
        {
            if !state.hidden.iter().any(|hidden| hidden.as_str() == value) {
                state.hidden.push(value.to_owned().into());
            }
        }
    }

    fn mask(&self, lines: &mut [String]) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for value in &state.hidden {
            for line in lines
                .iter_mut()
                .filter(|line| line.contains(value.as_str()))
            {
                *line = line.replace(value.as_str(), "[secret]");
            }
        }
    }

    /// One line of ours about the server.
    pub fn say(&self, text: &str) {
        self.lines(Source::Executor, [text.as_bytes()]);
    }

    /// The last lines the server said, oldest first: for the person only.
    #[must_use]
    pub fn last_words(&self) -> Vec<String> {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .ring
            .iter()
            .cloned()
            .collect()
    }

    /// Opened for each batch of lines, so that several processes can write and rotate one file without stale handles.
    fn append(&self, source: Source, lines: &[String]) {
        let Some(log) = &self.log else { return };
        let path = log.as_path();
        if std::fs::metadata(path).is_ok_and(|meta| meta.len() > LOG_BYTES) {
            let _ = std::fs::rename(path, path.with_extension("log.1"));
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let Ok(mut file) = crate::folder::open_regular(&options, path) else {
            return;
        };
        let (now, pid, name) = (jiff::Timestamp::now(), std::process::id(), source.name());
        let mut text = String::new();
        for line in lines {
            text.push_str(&format!("{now:.3} {pid} {name}: {line}\n"));
        }
        let _ = file.write_all(text.as_bytes());
    }
}

impl State {
    fn echo(&mut self, server: &str, source: Source, line: &str) -> Option<String> {
        let now = Instant::now();
        let mut text = String::new();
        if now.duration_since(self.window) >= ECHO_WINDOW {
            if self.suppressed > 0 {
                text = format!(
                    "[{server}] {} more lines are in its log only\n",
                    self.suppressed
                );
            }
            (self.window, self.echoed, self.suppressed) = (now, 0, 0);
        }
        if self.echoed >= ECHO_LINES {
            self.suppressed += 1;
            return (!text.is_empty()).then_some(text);
        }
        self.echoed += 1;
        let mark = if source == Source::Stdout {
            "stdout, not a message: "
        } else {
            ""
        };
        text.push_str(&format!("[{server}] {mark}{line}\n"));
        Some(text)
    }
}

enum Echo {
    Text(String),
    Flush(SyncSender<()>),
}

/// Writes to our stderr without ever waiting for its reader: a thread of its own, a bounded queue, what does not fit is dropped.
pub fn to_stderr(text: String) {
    if let Some(queue) = echo() {
        let _ = queue.try_send(Echo::Text(text));
    }
}

/// Waits until what was queued for our stderr is written, for at most `patience`. For the end of the process.
pub fn flush_stderr(patience: Duration) {
    let (written, done) = sync_channel(1);
    if let Some(queue) = echo()
        && queue.try_send(Echo::Flush(written)).is_ok()
    {
        let _ = done.recv_timeout(patience);
    }
}

fn echo() -> Option<&'static SyncSender<Echo>> {
    static QUEUE: OnceLock<Option<SyncSender<Echo>>> = OnceLock::new();
    let start = || {
        let (sender, receiver) = sync_channel::<Echo>(256);
        let write = move || {
            while let Ok(echo) = receiver.recv() {
                match echo {
                    Echo::Text(text) => _ = std::io::stderr().write_all(text.as_bytes()),
                    Echo::Flush(done) => _ = done.try_send(()),
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("stderr".to_owned())
            .stack_size(64 * 1024);
        thread.spawn(write).is_ok().then_some(sender)
    };
    QUEUE.get_or_init(start).as_ref()
}

/// Bytes as one line a terminal cannot be fooled by: control, bidi and escape characters shown as `\u{…}`, length bounded.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    let cut = bytes.len() > LINE_BYTES;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LINE_BYTES)]);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push('\t'),
            '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}' => {
                out.extend(c.escape_unicode());
            }
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                out.extend(c.escape_unicode())
            }
            c => out.push(c),
        }
    }
    if cut {
        out.push_str(" […]");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_a_server_prints_is_written_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let diagnostics = Diagnostics::new("s", Some(folder.path()));
        diagnostics.hide(["tok-12345", "ab"]);
        diagnostics.lines(Source::Stderr, [&b"using tok-12345 about ab"[..]]);
        assert_eq!(diagnostics.last_words(), ["using [secret] about ab"]);
        let log = std::fs::read_to_string(folder.path().join("s.log")).unwrap();
        assert!(
            log.contains("[secret]") && !log.contains("tok-12345"),
            "{log}"
        );
    }

    #[test]
    fn text_for_people_is_neutralised() {
        for (input, expected) in [
            ("plain", "plain"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("🚀 ready\r", "🚀 ready"),
        ] {
            assert_eq!(printable(input.as_bytes()), expected);
        }
        assert!(printable(&[b'x'; 5_000]).len() < 2_100);
        assert!(printable(b"\xff\xfe").contains('\u{fffd}'));
    }

    #[test]
    fn log_10_lines_are_in_the_log_and_the_ring_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let diagnostics = Diagnostics::new("files", Some(folder.path()));
        for number in 0..100 {
            diagnostics.lines(Source::Stdout, [format!("line {number}").as_bytes()]);
        }
        let words = diagnostics.last_words();
        assert_eq!(words.len(), RING_LINES);
        assert_eq!(words.last().map(String::as_str), Some("line 99"));
        let log = std::fs::read_to_string(folder.path().join("files.log")).unwrap();
        assert_eq!(log.lines().count(), 100);
        assert!(log.lines().all(|line| line.contains(" stdout: line ")));
    }

    #[test]
    fn m62_the_echo_is_prefixed_and_rate_limited() {
        let mut state = State {
            ring: VecDeque::new(),
            window: Instant::now(),
            echoed: 0,
            suppressed: 0,
            hidden: Vec::new(),
        };
        assert_eq!(
            state.echo("s", Source::Stderr, "hello").as_deref(),
            Some("[s] hello\n")
        );
        let shown = (0..1_000)
            .filter(|_| state.echo("s", Source::Stderr, "x").is_some())
            .count();
        assert_eq!(shown, ECHO_LINES as usize - 1);
        state.window -= ECHO_WINDOW;
        let text = state.echo("s", Source::Stderr, "again").unwrap();
        assert_eq!(text, "[s] 801 more lines are in its log only\n[s] again\n");
    }
}
