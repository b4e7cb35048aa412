//! `countersign try`: the product shown on real parts in a temporary folder. Owns the story and its words; everything it
//! shows is done by the binary's own commands and a proxy process, so what is seen is what a person would get.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::folder::replace;

use super::client::Client;
use super::server::PID_FILE;

/// Name of the agent and of the server in the story.
const AGENT: &str = "demo-agent";
const SERVER: &str = "notes";

/// Units one call of `list_notes` costs in the story, so that the rate limit (120) is met at the third.
const LIST_COST: &str = "50";

/// What the story found; printed as JSON with `--json`.
#[derive(Debug, serde::Serialize)]
pub struct Told {
    /// The folder that was made and left behind.
    pub folder: PathBuf,
    /// Whether every scene ended as it should.
    pub ok: bool,
    /// What each scene showed, in order.
    pub scenes: Vec<Scene>,
}

/// One scene: what was done, what came of it, whether that is what the product promises.
#[derive(Debug, serde::Serialize)]
pub struct Scene {
    /// What was done, in words.
    pub did: String,
    /// What came of it, in words.
    pub saw: String,
    /// Whether it was as promised.
    pub ok: bool,
}

/// Plays the story with the binary at `program`, writing it to `out` as it goes.
///
/// # Errors
/// When a folder, process or pipe of the story breaks; a promise not kept is told in the result instead.
pub fn play(program: &Path, out: &mut dyn Write) -> io::Result<Told> {
    let folder = tempfile::Builder::new()
        .prefix("countersign-try-")
        .tempdir()?
        .keep();
    let mut stage = Stage::new(program, &folder, out)?;
    stage.title("A small executor, in a folder of its own")?;
    stage.say(&format!("   {}", folder.display()))?;
    set_up(&mut stage)?;
    let mut client = stage.connect()?;
    allowed(&mut stage, &mut client)?;
    refused(&mut stage, &mut client)?;
    pull_the_plug(&mut stage, &mut client)?;
    drop(client);
    the_book(&mut stage)?;
    one_byte(&mut stage)?;
    let ok = stage.scenes.iter().all(|scene| scene.ok);
    stage.say("")?;
    stage.say(if ok {
        "All of it as promised."
    } else {
        "Something was not as promised: see the lines marked `!!`."
    })?;
    stage.say(&format!(
        "The folder stays for you to look at: {}",
        folder.display()
    ))?;
    Ok(Told {
        folder,
        ok,
        scenes: stage.scenes,
    })
}

struct Stage<'a> {
    program: PathBuf,
    executor: PathBuf,
    notes: PathBuf,
    passphrase: PathBuf,
    log: PathBuf,
    out: &'a mut dyn Write,
    scenes: Vec<Scene>,
    titles: u32,
}

impl<'a> Stage<'a> {
    fn new(program: &Path, folder: &Path, out: &'a mut dyn Write) -> io::Result<Self> {
        let passphrase = folder.join("passphrase");
        let mut random = [0_u8; 20];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let words = data_encoding::BASE32_NOPAD.encode(&random);
        replace(&passphrase, words.as_bytes()).map_err(io::Error::other)?;
        Ok(Self {
            program: program.to_path_buf(),
            executor: folder.join("executor"),
            notes: folder.join("notes"),
            passphrase,
            log: folder.join("stderr.log"),
            out,
            scenes: Vec::new(),
            titles: 0,
        })
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    fn title(&mut self, text: &str) -> io::Result<()> {
        self.titles += 1;
        let number = self.titles;
        self.say(&format!("\n{number}. {text}"))
    }

    /// Shows one scene and keeps it for the result.
    fn scene(&mut self, did: &str, saw: &str, ok: bool) -> io::Result<()> {
        let mark = if ok { "  " } else { "!!" };
        let shown = one_line(saw);
        self.say(&format!("{mark} {did:<44} {shown}"))?;
        self.scenes.push(Scene {
            did: did.to_owned(),
            saw: shown,
            ok,
        });
        Ok(())
    }

    /// Runs one of the binary's own commands, shows its command line, gives exit code and output.
    fn command(&mut self, arguments: &[&str]) -> io::Result<(Option<i32>, String)> {
        self.say(&format!("   $ countersign {}", arguments.join(" ")))?;
        let output = Command::new(&self.program)
            .args(arguments)
            .env("COUNTERSIGN_DIR", &self.executor)
            .env("COUNTERSIGN_PASSPHRASE_FILE", &self.passphrase)
            .stdin(Stdio::null())
            .output()?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok((output.status.code(), text))
    }

    fn must(&mut self, arguments: &[&str]) -> io::Result<String> {
        let (code, text) = self.command(arguments)?;
        if code == Some(0) {
            Ok(text)
        } else {
            Err(io::Error::other(format!(
                "`countersign {}` failed: {text}",
                arguments.join(" ")
            )))
        }
    }

    fn connect(&mut self) -> io::Result<Client> {
        let dir = self.executor.to_string_lossy().into_owned();
        let passphrase = self.passphrase.to_string_lossy().into_owned();
        let arguments = ["run", "--agent", AGENT, "--server", SERVER].map(str::to_owned);
        let environment = [
            ("COUNTERSIGN_DIR", dir.as_str()),
            ("COUNTERSIGN_PASSPHRASE_FILE", passphrase.as_str()),
        ];
        let log = File::options().create(true).append(true).open(&self.log)?;
        Client::start(&self.program, &arguments, &environment, log)
    }
}

fn set_up(stage: &mut Stage<'_>) -> io::Result<()> {
    stage.must(&[
        "init",
        "--name",
        "try",
        "--secrets",
        "file",
        "--development",
    ])?;
    let program = stage.program.to_string_lossy().into_owned();
    let notes = stage.notes.to_string_lossy().into_owned();
    stage.must(&[
        "server",
        "add",
        SERVER,
        "--",
        &program,
        "demo-server",
        &notes,
    ])?;
    stage.must(&[
        "tool",
        "set",
        SERVER,
        "list_notes",
        "--kind",
        "read",
        "--cost",
        LIST_COST,
    ])?;
    stage.must(&["tool", "set", SERVER, "read_note", "--kind", "read"])?;
    stage.must(&["tool", "set", SERVER, "delete_note", "--hidden"])?;
    stage.must(&["agent", "add", AGENT])?;
    stage.say("   The permission is \"(development)\": not signed by a passkey, good for trying things out.")
}

fn allowed(stage: &mut Stage<'_>, client: &mut Client) -> io::Result<()> {
    stage.title("The agent sees what is open, reads and writes")?;
    let listed = client.request("tools/list", &json!({}))?;
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    let ok = names.contains(&"write_note") && !names.contains(&"delete_note");
    stage.scene("lists the tools", &names.join(", "), ok)?;
    let written = client.tool(
        "write_note",
        &json!({"title": "shopping", "text": "milk, bread"}),
    )?;
    let on_disk = fs::read_to_string(stage.notes.join("shopping.txt")).unwrap_or_default();
    stage.scene(
        "writes the note \"shopping\"",
        &text_of(&written),
        on_disk == "milk, bread",
    )?;
    let read = client.tool("read_note", &json!({"title": "shopping"}))?;
    stage.scene(
        "reads it back",
        &text_of(&read),
        text_of(&read) == "milk, bread",
    )
}

fn refused(stage: &mut Stage<'_>, client: &mut Client) -> io::Result<()> {
    stage.title("What is not allowed never reaches the server")?;
    let hidden = client.tool("delete_note", &json!({"title": "shopping"}))?;
    let ok = is_refusal(&hidden) && stage.notes.join("shopping.txt").exists();
    stage.scene("calls the hidden tool delete_note", &text_of(&hidden), ok)?;
    let bad = client.tool(
        "write_note",
        &json!({"title": "shopping", "text": "gone", "force": true}),
    )?;
    let kept =
        fs::read_to_string(stage.notes.join("shopping.txt")).unwrap_or_default() == "milk, bread";
    stage.scene(
        "writes with an argument the tool has not",
        &text_of(&bad),
        is_refusal(&bad) && kept,
    )?;
    for _ in 0..2 {
        client.tool("list_notes", &json!({}))?;
    }
    let flood = client.tool("list_notes", &json!({}))?;
    let ok = is_refusal(&flood) && flood.to_string().contains("rate_limited");
    stage.scene(
        &format!("lists notes a third time (costs {LIST_COST} of 120)"),
        &text_of(&flood),
        ok,
    )
}

fn pull_the_plug(stage: &mut Stage<'_>, client: &mut Client) -> io::Result<()> {
    stage.title("The server dies in the middle of a write")?;
    let pid = fs::read_to_string(stage.notes.join(PID_FILE))?;
    let lines = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten";
    let call = client.post(
        "tools/call",
        &json!({"name": "append_slowly", "arguments": {"title": "log", "text": lines}}),
    )?;
    wait_for(&stage.notes.join("log.txt"))?;
    kill(pid.trim())?;
    let answer = client.answer(call)?;
    let ok = is_refusal(&answer);
    stage.scene(
        &format!("kill of process {}, mid-write", pid.trim()),
        &text_of(&answer),
        ok,
    )?;
    let half = fs::read_to_string(stage.notes.join("log.txt")).unwrap_or_default();
    let ok = half.lines().count() < 10;
    stage.scene(
        "what is in the file",
        &format!(
            "{} of 10 lines; nobody can know without looking",
            half.lines().count()
        ),
        ok,
    )
}

fn the_book(stage: &mut Stage<'_>) -> io::Result<()> {
    stage.title("All of it is in the book, signed")?;
    let listed = stage.must(&["book", "list"])?;
    for line in listed.lines() {
        stage.say(&format!("   {line}"))?;
    }
    stage.scene(
        "the interrupted write",
        "is recorded as `outcome: unknown`, neither ok nor error",
        listed.contains("unknown"),
    )?;
    let (code, text) = stage.command(&["book", "verify"])?;
    stage.scene("book verify", last_line(&text), code == Some(0))
}

fn one_byte(stage: &mut Stage<'_>) -> io::Result<()> {
    stage.title("Somebody changes one byte of a copy")?;
    let copy = stage.executor.with_file_name("changed-book");
    copy_folder(&stage.executor.join("book"), &copy)?;
    let journal = first_journal(&copy.join("journal"))?;
    let mut bytes = fs::read(&journal)?;
    let middle = bytes.len() / 2;
    let byte = bytes
        .get_mut(middle)
        .ok_or_else(|| io::Error::other("the journal is empty"))?;
    let before = *byte;
    *byte = if before == b'7' { b'8' } else { b'7' };
    let after = *byte;
    make_writable(&journal)?;
    fs::write(&journal, bytes)?;
    let name = journal
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    stage.say(&format!(
        "   byte {middle} of {name}: `{}` -> `{}`",
        before.escape_ascii(),
        after.escape_ascii()
    ))?;
    let path = copy.to_string_lossy().into_owned();
    let (code, text) = stage.command(&["book", "verify", &path])?;
    let found = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .to_owned();
    stage.scene(
        &format!("book verify of the copy, exit {}", code.unwrap_or(-1)),
        &found,
        code.is_some_and(|code| code != 0),
    )
}

/// Text of a tool result or of a JSON-RPC error.
fn text_of(answer: &Value) -> String {
    let result = &answer["result"];
    if let Some(sentence) = result["structuredContent"]["detail"].as_str() {
        let code = result["structuredContent"]["code"]
            .as_str()
            .unwrap_or_default();
        return format!("refused, {code}: {sentence}");
    }
    let text = result["content"][0]["text"]
        .as_str()
        .or(answer["error"]["message"].as_str());
    text.unwrap_or_default().to_owned()
}

fn is_refusal(answer: &Value) -> bool {
    answer.get("error").is_some() || answer["result"]["isError"] == true
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= 150 {
        line
    } else {
        line.chars().take(149).chain(['…']).collect()
    }
}

fn last_line(text: &str) -> &str {
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
}

fn wait_for(path: &Path) -> io::Result<()> {
    for _ in 0..500 {
        if fs::metadata(path).is_ok_and(|file| file.len() > 0) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "the demo server did not begin to write",
    ))
}

fn first_journal(folder: &Path) -> io::Result<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "jsonl")
    });
    files.sort();
    files
        .into_iter()
        .next()
        .ok_or_else(|| io::Error::other("no journal"))
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn make_writable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn make_writable(path: &Path) -> io::Result<()> {
    let mut permissions = fs::metadata(path)?.permissions();
    permissions.set_readonly(false);
    fs::set_permissions(path, permissions)
}

#[cfg(unix)]
fn kill(pid: &str) -> io::Result<()> {
    let raw: i32 = pid.parse().map_err(io::Error::other)?;
    let pid =
        rustix::process::Pid::from_raw(raw).ok_or_else(|| io::Error::other("no process id"))?;
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).map_err(io::Error::from)
}

#[cfg(not(unix))]
fn kill(pid: &str) -> io::Result<()> {
    let status = Command::new("taskkill")
        .args(["/F", "/PID", pid])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other("taskkill failed"))
    }
}
