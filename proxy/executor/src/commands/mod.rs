//! The commands, one file each, and what they share: where they work, what they answer. Parsing is `cli`'s.

pub mod agent;
pub mod book;
pub mod config;
pub mod demo_server;
pub mod doctor;
pub mod findings;
pub mod init;
pub mod probe;
pub mod record;
pub mod run;
pub mod secret;
pub mod server;
pub mod server_check;
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
            Output::Json => writeln!(std::io::stdout(), "{}", self.json),
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
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut shown: String = text
        .chars()
        .take(200)
        .map(|c| if steers(c) { '\u{fffd}' } else { c })
        .collect();
    if text.chars().nth(200).is_some() {
        shown.push('…');
    }
    shown
}

/// Rows under a heading, aligned in columns.
pub fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
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
    for row in rows {
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
}
