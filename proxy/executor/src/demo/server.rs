//! The demo server: notes in a folder, spoken to over stdio (MCP 2025-11-25, legacy era).
//! Owns its tools and their files; refuses to know that a gate may stand in front of it.

use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

/// Pause between the lines of `append_slowly`, long enough for somebody to pull the plug between two of them.
const SLOW_LINE: Duration = Duration::from_millis(150);

/// File in the notes folder that holds the server's process id while it runs.
pub const PID_FILE: &str = ".demo-server.pid";

/// Serves MCP on stdin and stdout until stdin ends. `folder` is made if it is missing.
///
/// # Errors
/// When the folder cannot be made or stdio breaks.
pub fn serve(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(PID_FILE), std::process::id().to_string())?;
    let notes = Notes {
        folder: folder.to_path_buf(),
    };
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let Some(answer) = notes.answer(&line) else {
            continue;
        };
        let mut text = answer.to_string();
        text.push('\n');
        out.write_all(text.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

struct Notes {
    folder: PathBuf,
}

impl Notes {
    /// The answer to one line; `None` for notifications.
    fn answer(&self, line: &str) -> Option<Value> {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return Some(failed(&Value::Null, -32700, "not JSON"));
        };
        let id = message.get("id")?.clone();
        let params = message.get("params").cloned().unwrap_or_else(|| json!({}));
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": params["protocolVersion"].as_str().unwrap_or("2025-11-25"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "countersign-demo-notes", "version": env!("CARGO_PKG_VERSION")},
            }),
            "ping" => json!({}),
            "tools/list" => json!({"tools": tools()}),
            "tools/call" => self.call(
                params["name"].as_str().unwrap_or_default(),
                &params["arguments"],
            ),
            _ => return Some(failed(&id, -32601, "method not found")),
        };
        Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let outcome = match tool {
            "list_notes" => self.list(),
            "read_note" => self
                .path(arguments)
                .and_then(|path| fs::read_to_string(path).map_err(plain)),
            "write_note" => self.path(arguments).and_then(|path| {
                fs::write(path, text_of(arguments))
                    .map_err(plain)
                    .map(|()| "written".to_owned())
            }),
            "append_slowly" => self.append_slowly(arguments),
            "delete_note" => self.path(arguments).and_then(|path| {
                fs::remove_file(path)
                    .map_err(plain)
                    .map(|()| "deleted".to_owned())
            }),
            other => Err(format!("no tool `{other}`")),
        };
        let is_error = outcome.is_err();
        let text = outcome.unwrap_or_else(|error| error);
        json!({"content": [{"type": "text", "text": text}], "isError": is_error})
    }

    fn list(&self) -> Result<String, String> {
        let mut titles: Vec<String> = fs::read_dir(&self.folder)
            .map_err(plain)?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".txt").map(str::to_owned))
            .collect();
        titles.sort();
        Ok(titles.join("\n"))
    }

    fn append_slowly(&self, arguments: &Value) -> Result<String, String> {
        let path = self.path(arguments)?;
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(plain)?;
        for line in text_of(arguments).lines() {
            writeln!(file, "{line}").map_err(plain)?;
            std::thread::sleep(SLOW_LINE);
        }
        Ok("appended".to_owned())
    }

    fn path(&self, arguments: &Value) -> Result<PathBuf, String> {
        let title = arguments["title"].as_str().unwrap_or_default();
        let plain_title = title
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        if title.is_empty() || title.len() > 64 || !plain_title {
            return Err("a title has 1 to 64 letters, digits, spaces, `-` or `_`".to_owned());
        }
        Ok(self.folder.join(format!("{title}.txt")))
    }
}

fn text_of(arguments: &Value) -> &str {
    arguments["text"].as_str().unwrap_or_default()
}

#[allow(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn plain(error: io::Error) -> String {
    error.to_string()
}

fn failed(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn tools() -> Value {
    let title =
        json!({"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[A-Za-z0-9 _-]+$"});
    let text = json!({"type": "string", "maxLength": 100_000});
    let tool =
        |name: &str, description: &str, properties: Value, required: Value, read_only: Value| {
            json!({
                "name": name, "description": description,
                "inputSchema": {"type": "object", "properties": properties, "required": required},
                "annotations": {"readOnlyHint": read_only},
            })
        };
    json!([
        tool(
            "list_notes",
            "Titles of all notes",
            json!({}),
            json!([]),
            json!(true)
        ),
        tool(
            "read_note",
            "Text of one note",
            json!({"title": title}),
            json!(["title"]),
            json!(true)
        ),
        tool(
            "write_note",
            "Writes a note, replacing its text",
            json!({"title": title, "text": text}),
            json!(["title", "text"]),
            json!(false)
        ),
        tool(
            "append_slowly",
            "Adds lines to a note, one after the other",
            json!({"title": title, "text": text}),
            json!(["title", "text"]),
            json!(false)
        ),
        tool(
            "delete_note",
            "Deletes a note",
            json!({"title": title}),
            json!(["title"]),
            json!(false)
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(calls: &[(&str, Value, &str, bool)]) {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes {
            folder: folder.path().to_path_buf(),
        };
        for (tool, arguments, text, is_error) in calls {
            let result = notes.call(tool, arguments);
            assert_eq!(result["isError"], *is_error, "{tool} {arguments}: {result}");
            assert!(
                result["content"][0]["text"]
                    .as_str()
                    .unwrap()
                    .contains(text),
                "{tool} {arguments}: {result}"
            );
        }
    }

    #[test]
    fn notes_are_written_read_listed_and_deleted() {
        check(&[
            (
                "write_note",
                json!({"title": "shopping", "text": "milk"}),
                "written",
                false,
            ),
            (
                "append_slowly",
                json!({"title": "shopping", "text": "\nbread"}),
                "appended",
                false,
            ),
            ("read_note", json!({"title": "shopping"}), "bread", false),
            ("list_notes", json!({}), "shopping", false),
            (
                "delete_note",
                json!({"title": "shopping"}),
                "deleted",
                false,
            ),
            ("read_note", json!({"title": "shopping"}), "", true),
        ]);
    }

    #[test]
    fn a_title_cannot_leave_the_folder() {
        check(&[
            (
                "write_note",
                json!({"title": "../escape", "text": "x"}),
                "a title has",
                true,
            ),
            (
                "write_note",
                json!({"title": "", "text": "x"}),
                "a title has",
                true,
            ),
            ("unknown", json!({}), "no tool", true),
        ]);
    }
}
