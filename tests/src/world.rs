//! A throw-away executor: its folder, its passphrase file, its servers and agents, made by the same commands a person types.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::countersign;
use crate::client::Client;

/// One executor in a folder of its own, which goes away with it.
pub struct World {
    folder: TempDir,
    secrets: Secrets,
    environment: Vec<(String, String)>,
}

/// Where the world's executor keeps its secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// The passphrase-encrypted file.
    File,
    /// The desktop's keychain.
    Keychain,
}

/// What a command said.
#[derive(Debug)]
pub struct Said {
    /// Exit code, -1 for a signal.
    pub code: i32,
    /// All of stdout.
    pub stdout: String,
    /// All of stderr.
    pub stderr: String,
}

impl World {
    /// An executor with a development permission and its secrets in a file.
    pub fn new() -> Self {
        let world = Self::bare();
        world.must(&["init", "--development", "--secrets", "file"]);
        world
    }

    /// A folder and a passphrase, nothing set up.
    pub fn bare() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("countersign-test-")
            .tempdir()
            .expect("a temporary folder");
        let passphrase = folder.path().join("passphrase");
        std::fs::write(&passphrase, "correct horse\n").expect("written");
        std::fs::set_permissions(
            &passphrase,
            std::os::unix::fs::PermissionsExt::from_mode(0o600),
        )
        .expect("set");
        std::fs::create_dir(folder.path().join("files")).expect("created");
        Self {
            folder,
            secrets: Secrets::File,
            environment: Vec::new(),
        }
    }

    /// The same with another place for secrets and more of the environment.
    #[must_use]
    pub fn with(mut self, secrets: Secrets, environment: &[(&str, &str)]) -> Self {
        self.secrets = secrets;
        self.environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        self
    }

    /// A world with one server `s` and one agent `a`.
    pub fn of(server: &[String]) -> Self {
        let world = Self::new();
        world.server("s", server);
        world.agent("a");
        world
    }

    /// The temporary folder.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// The executor's folder.
    pub fn dir(&self) -> PathBuf {
        self.path("dir")
    }

    /// A path inside the temporary folder.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join(relative)
    }

    /// The same as text.
    pub fn text_path(&self, relative: &str) -> String {
        self.path(relative)
            .to_str()
            .expect("a temporary path is text")
            .to_owned()
    }

    /// The binary with the little environment that clients give: HOME, PATH and the world's own two.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(countersign());
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.root())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("COUNTERSIGN_DIR", self.dir())
            .current_dir(self.root());
        if self.secrets == Secrets::File {
            command.env("COUNTERSIGN_PASSPHRASE_FILE", self.path("passphrase"));
        }
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }

    /// Runs a command to its end.
    pub fn cs(&self, arguments: &[&str]) -> Said {
        Said::of(
            &self
                .command(arguments)
                .stdin(std::process::Stdio::null())
                .output()
                .expect("the binary starts"),
        )
    }

    /// Runs a command that has to succeed; its stdout.
    pub fn must(&self, arguments: &[&str]) -> String {
        let said = self.cs(arguments);
        assert_eq!(
            said.code,
            0,
            "countersign {}: {said:?}",
            arguments.join(" ")
        );
        said.stdout
    }

    /// Runs a command that has to fail; what it said.
    pub fn fails(&self, arguments: &[&str]) -> Said {
        let said = self.cs(arguments);
        assert_ne!(
            said.code,
            0,
            "countersign {} should fail: {said:?}",
            arguments.join(" ")
        );
        said
    }

    /// Runs a command with `--json`; its document.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut with = arguments.to_vec();
        with.push("--json");
        let stdout = self.must(&with);
        serde_json::from_str(&stdout)
            .unwrap_or_else(|error| panic!("not one JSON document ({error}): {stdout}"))
    }

    /// Adds a server.
    pub fn server(&self, name: &str, command: &[String]) {
        self.server_with(name, &[], command);
    }

    /// Adds a server with options of `server add`.
    pub fn server_with(&self, name: &str, options: &[&str], command: &[String]) {
        let mut arguments = vec!["server", "add", name];
        arguments.extend_from_slice(options);
        arguments.push("--");
        arguments.extend(command.iter().map(String::as_str));
        self.must(&arguments);
    }

    /// Marks tools as reads.
    pub fn reads(&self, server: &str, tools: &[&str]) {
        for tool in tools {
            self.must(&["tool", "set", server, tool, "--kind", "read"]);
        }
    }

    /// Adds an agent with everything open.
    pub fn agent(&self, name: &str) {
        self.must(&["agent", "add", name]);
    }

    /// Starts the proxy between agent and server.
    pub fn run(&self, agent: &str, server: &str) -> Client {
        Client::start(&mut self.command(&["run", "--agent", agent, "--server", server]))
    }

    /// Starts the proxy of [`World::of`] and shakes hands.
    pub fn connect(&self) -> Client {
        let mut client = self.run("a", "s");
        client.initialize();
        client
    }

    /// Opens a connection that may be refused: the answer to `initialize`, if one came, and what was said on stderr.
    pub fn first_answer(&self, agent: &str, server: &str) -> (Option<Value>, String) {
        let mut client = self.run(agent, server);
        client.try_raw(
            concat!(
                r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
                r#""capabilities":{},"clientInfo":{"name":"countersign-tests","version":"1"}}}"#,
                "\n"
            )
            .as_bytes(),
        );
        let answer = client.next_line().map(|line| {
            serde_json::from_slice(&line)
                .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&line)))
        });
        (answer, client.close_with_stderr().1)
    }

    /// executor.json as it is.
    pub fn settings(&self) -> Value {
        let text =
            std::fs::read_to_string(self.dir().join("executor.json")).expect("executor.json");
        serde_json::from_str(&text).expect("executor.json is JSON")
    }

    /// Edits executor.json as a person with an editor would.
    pub fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut settings = self.settings();
        change(&mut settings);
        let text = serde_json::to_string_pretty(&settings).expect("it was JSON");
        std::fs::write(self.dir().join("executor.json"), text).expect("written");
    }

    /// All entries of the book, verified first.
    pub fn book(&self) -> Vec<Value> {
        self.must(&["book", "verify"]);
        self.entries()
    }

    /// All entries of the book as `book list --json` gives them.
    pub fn entries(&self) -> Vec<Value> {
        let stdout = self.must(&["book", "list", "--json"]);
        entries_of(&stdout)
    }

    /// All lines of the journal that are entries, read by the format and not by the product.
    pub fn journal(&self) -> Vec<Value> {
        let mut found = Vec::new();
        for file in self.journal_files() {
            let text = std::fs::read_to_string(&file).expect("a journal");
            for line in text.lines().filter(|line| line.starts_with('{')) {
                found.push(serde_json::from_str(line).expect("an entry is JSON"));
            }
        }
        found
    }

    /// Every recorded call with its outcomes, in order, after the book was verified.
    pub fn recorded(&self) -> Vec<Recorded> {
        self.must(&["book", "verify"]);
        let entries = self.journal();
        entries
            .iter()
            .filter(|entry| entry["k"] == "call")
            .map(|call| {
                let ends: Vec<&Value> = entries
                    .iter()
                    .filter(|entry| entry["k"] == "outcome" && entry["call"] == call["call"])
                    .collect();
                Recorded {
                    tool: call["tool"].as_str().unwrap_or_default().to_owned(),
                    effect: call["effect"].as_str().unwrap_or_default().to_owned(),
                    outcomes: ends
                        .iter()
                        .map(|end| end["status"].as_str().unwrap_or_default().to_owned())
                        .collect(),
                    code: ends
                        .iter()
                        .find_map(|end| Some(end["code"].as_str()?.to_owned())),
                }
            })
            .collect()
    }

    /// Outcomes of the calls of one tool, in order, each call having exactly one.
    pub fn outcomes(&self, tool: &str) -> Vec<String> {
        self.recorded()
            .into_iter()
            .filter(|call| call.tool == tool)
            .map(|call| {
                assert_eq!(
                    call.outcomes.len(),
                    1,
                    "one outcome for each call: {call:?}"
                );
                call.outcomes[0].clone()
            })
            .collect()
    }

    /// Buckets so large that no test meets them by chance.
    pub fn unlimited(&self) {
        self.edit(|settings| {
            let bucket = serde_json::json!({"size": 1_000_000, "per_minute": 1_000_000});
            settings["buckets"] = serde_json::json!({
                "key": bucket, "person": bucket, "network": bucket, "token": bucket
            });
        });
    }

    /// Everything in the executor's `logs` folder.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        let mut open = vec![self.dir().join("logs")];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() {
                    open.push(entry.path());
                } else if let Ok(bytes) = std::fs::read(entry.path()) {
                    text.push_str(&format!(
                        "{}:\n{}\n",
                        entry.path().display(),
                        String::from_utf8_lossy(&bytes)
                    ));
                }
            }
        }
        text
    }

    /// The journal's segments, oldest first.
    pub fn journal_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(self.dir().join("book/journal"))
            .expect("a journal folder")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "jsonl")
            })
            .collect();
        files.sort();
        files
    }

    /// True when `needle` is in any file of the executor's folder, in clear.
    pub fn in_clear(&self, needle: &str) -> bool {
        holds(&self.dir(), needle.as_bytes())
    }
}

/// One `call` entry and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The tool.
    pub tool: String,
    /// `read` or `write`.
    pub effect: String,
    /// Status of every `outcome` entry of the call.
    pub outcomes: Vec<String>,
    /// The code of its outcome.
    pub code: Option<String>,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl Said {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Both streams, for searching.
    pub fn all(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

fn entries_of(stdout: &str) -> Vec<Value> {
    match serde_json::from_str::<Value>(stdout) {
        Ok(Value::Array(entries)) => entries,
        Ok(Value::Object(mut document)) => match document.remove("entries") {
            Some(Value::Array(entries)) => entries,
            _ => vec![Value::Object(document)],
        },
        _ => stdout
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| {
                serde_json::from_str(line)
                    .unwrap_or_else(|error| panic!("not an entry ({error}): {line}"))
            })
            .collect(),
    }
}

fn holds(folder: &Path, needle: &[u8]) -> bool {
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| {
            let path = entry.path();
            if path.is_dir() {
                holds(&path, needle)
            } else {
                std::fs::read(&path)
                    .is_ok_and(|bytes| bytes.windows(needle.len()).any(|window| window == needle))
            }
        })
}
