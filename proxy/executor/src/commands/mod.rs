//! The commands, one file each, and what they share: where they work, what they answer. Parsing is `cli`'s.

pub mod acts;
pub mod agent;
pub mod approvals;
pub mod book;
pub mod config;
pub mod demo_server;
pub mod doctor;
pub mod findings;
pub mod init;
pub mod key;
mod owed;
pub mod preset_words;
pub mod probe;
pub mod record;
pub mod run;
pub mod secret;
pub mod server;
pub mod server_check;
pub mod suspect;
pub mod switch;
pub mod tool;
pub mod tools;
pub mod tour;

use std::io::Write;
use std::process::ExitCode;

use serde_json::Value;

use crate::folder::Folder;
use crate::problem::Problem;
use crate::secrets::{self, Interaction, SecretStore};
use crate::settings::{Name, Settings, SettingsError, load};

/// Where a command works and how it answers.
#[derive(Debug, Clone)]
pub struct Context {
    /// The executor's folder.
    pub folder: Folder,
    /// How to answer.
    pub output: Output,
    /// Whether a person can be asked.
    pub interaction: Interaction,
}

/// How a command answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Text for a person.
    Text,
    /// One JSON object.
    Json,
}

/// What a command answers, in both forms.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// For a person; ends with a line feed unless empty.
    pub text: String,
    /// For a script: an object.
    pub json: Value,
    /// The exit code: 0 where everything is well.
    pub exit: u8,
}

impl Report {
    /// A good report.
    pub fn new(text: impl Into<String>, json: Value) -> Report {
        Report {
            text: text.into(),
            json,
            exit: 0,
        }
    }

    /// Prints it on standard output.
    pub fn print(&self, output: Output) -> ExitCode {
        let written = match output {
            Output::Json => {
                writeln!(std::io::stdout(), "{}", spelled(&self.json.to_string()))
            }
            Output::Text => std::io::stdout().write_all(self.text.as_bytes()),
        };
        // A reader that has gone away has seen what it wanted; whether the command did its work is in the code.
        drop(written);
        ExitCode::from(self.exit)
    }
}

impl Context {
    /// The settings of this executor.
    pub fn settings(&self) -> Result<Settings, Problem> {
        self.folder
            .check()
            .map_err(|error| match error.is_not_found() {
                true => not_initialised(&self.folder),
                false => error.into(),
            })?;
        match load(&self.folder.settings()) {
            Ok(loaded) => Ok(loaded.settings),
            Err(SettingsError::File(error)) if error.is_not_found() => {
                Err(not_initialised(&self.folder))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The secrets of this executor.
    pub fn secrets(&self, settings: &Settings) -> Result<Box<dyn SecretStore>, Problem> {
        Ok(secrets::open(
            &self.folder,
            &settings.executor,
            settings.secrets,
            self.interaction,
        )?)
    }
}

/// There is no executor in this folder.
pub fn not_initialised(folder: &Folder) -> Problem {
    Problem::new(
        "not_initialised",
        format!("there is no executor in `{}`", folder.root().display()),
        "make one with `countersign init`, or name its folder with --dir",
    )
}

/// A server or agent that executor.json doesn't have.
pub fn unknown(what: &'static str, name: &Name, known: &[&str]) -> Problem {
    let remedy = match known.is_empty() {
        true => format!("there is none yet: `countersign {what} add`"),
        false => format!("there are: {}", known.join(", ")),
    };
    let code = if what == "server" {
        "server_unknown"
    } else {
        "agent_unknown"
    };
    Problem::new(code, format!("no {what} is called `{name}`"), remedy)
}

/// Text without characters that could steer a terminal, at most 200 of them.
pub fn plain(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(200)
        .map(|c| match c.is_control() || steers(c) {
            true => '\u{fffd}',
            false => c,
        })
        .collect();
    if text.chars().nth(200).is_some() {
        shown.push('…');
    }
    shown
}

/// Whether a character that is no control character is invisible or turns the direction of what follows.
fn steers(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// JSON text with every character that could steer a terminal spelled `\uXXXX`: the same document. Line feeds, which outside
/// strings are layout, stay.
pub fn spelled(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' => shown.push(c),
            _ if c.is_control() || steers(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    shown.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => shown.push(c),
        }
    }
    shown
}

/// A cell of a table: no longer than a table bears.
fn cell(text: &str) -> String {
    const LONGEST: usize = 64;
    match text.chars().nth(LONGEST) {
        None => text.to_owned(),
        Some(_) => text.chars().take(LONGEST - 1).chain(['…']).collect(),
    }
}

/// Rows under a heading, aligned in columns. Every cell but a row's last is cut where it would break the table.
pub fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let last = heading.len().saturating_sub(1);
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let cells = row.iter().enumerate();
            cells
                .map(|(column, text)| match column == last {
                    true => text.clone(),
                    false => cell(text),
                })
                .collect()
        })
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells
            .chain([heading[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    let mut text = line(heading.to_vec());
    for row in &rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    text
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A context over a fresh folder with a small development executor whose secrets are in a file, without its book.
    pub fn world() -> (tempfile::TempDir, Context) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::resolve(Some(&temp.path().join("dir"))).unwrap();
        folder.create().unwrap();
        let settings = r#"{"version":1,"executor":{"id":"6d1c2c35-3f0f-4e0c-9d7e-0a1b2c3d4e5f","development":true},"secrets":"file"}"#;
        crate::folder::replace(&folder.settings(), settings.as_bytes()).unwrap();
        crate::store::StateDb::create(&folder).unwrap();
        (
            temp,
            Context {
                folder,
                output: Output::Text,
                interaction: Interaction::None,
            },
        )
    }

    #[test]
    fn text_can_not_steer_a_terminal() {
        assert_eq!(
            plain("a\u{1b}[2Jb\u{202e}c\n"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}"
        );
        assert_eq!(plain(&"x".repeat(300)).chars().count(), 201);
    }

    #[test]
    fn json_keeps_its_meaning_and_loses_what_steers() {
        let value = serde_json::json!({"a": "x\u{202e}y\u{1b}z\u{9b}\u{e0041}\u{7f}\\n\n ü日", "k\u{feff}": 1});
        for text in [value.to_string(), format!("{value:#}")] {
            let shown = spelled(&text);
            assert!(
                shown
                    .chars()
                    .all(|c| c == '\n' || !(c.is_control() || steers(c))),
                "{shown}"
            );
            assert!(
                shown.contains("\\u202e")
                    && shown.contains("\\udb40\\udc41")
                    && shown.contains("ü日")
            );
            assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        }
    }

    #[test]
    fn a_long_name_does_not_break_a_table() {
        let text = table(
            &["tool", "state"],
            &[
                vec!["x".repeat(300), "open".to_owned()],
                vec!["y".to_owned(), "z".repeat(300)],
            ],
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], format!("{}…  open", "x".repeat(63)));
        assert!(
            lines[2].ends_with(&"z".repeat(300)),
            "the last column runs on"
        );
    }
}
