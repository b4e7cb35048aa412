//! A command's words and where each command of a line begins. Knows neither paths nor which program does what.

use crate::json;
use crate::paths::{Declared, Effect, pick, strings};

/// The command among the arguments of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The first argument it was taken from.
    pub pointer: String,
    /// It.
    pub text: Text,
}

/// How a command is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// A line for a shell.
    Line(String),
    /// A program and its arguments, split already.
    List(Vec<String>),
}

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// As written.
    pub text: String,
    /// What it is for.
    pub role: Role,
}

/// What a word is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A word of the command.
    Plain,
    /// The file after `<`.
    Input,
    /// The file after `>` or `>>`.
    Output,
}

impl Command {
    /// The command in checked arguments: a string alone is a line, anything else a list. `None` where there is none.
    #[must_use]
    pub fn of(declared: &[Declared], arguments: &[u8]) -> Option<Self> {
        let picked: Vec<_> = declared
            .iter()
            .filter(|declared| declared.effect == Effect::Command)
            .flat_map(|declared| pick(arguments, &declared.pointer))
            .filter(|picked| picked.value != b"null")
            .collect();
        let first = picked.first()?;
        let text = match (picked.as_slice(), json::decode(first.value)) {
            ([_], Some(line)) => Text::Line(line.into_owned()),
            _ => Text::List(
                picked
                    .iter()
                    .flat_map(|picked| strings(picked.value))
                    .map(|(_, text)| text)
                    .collect(),
            ),
        };
        Some(Self {
            pointer: first.pointer.clone(),
            text,
        })
    }

    /// Its commands, each a list of words.
    #[must_use]
    pub fn words(&self) -> Vec<Vec<Word>> {
        match &self.text {
            Text::Line(line) => words(line),
            Text::List(list) => {
                let plain = |text: &String| Word {
                    text: text.clone(),
                    role: Role::Plain,
                };
                vec![list.iter().map(plain).collect()]
            }
        }
    }

    /// As one trimmed line; `None` for a list some word of which a shell would not take as one word.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        match &self.text {
            Text::Line(line) => Some(line.trim().to_string()),
            Text::List(list) => {
                let plain = |word: &String| {
                    !word.is_empty()
                        && word
                            .chars()
                            .all(|c| c.is_alphanumeric() || "_-+=.,:/@%".contains(c))
                };
                list.iter().all(plain).then(|| list.join(" "))
            }
        }
    }

    /// As it is shown.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.text {
            Text::Line(line) => line.clone(),
            Text::List(list) => list.join(" "),
        }
    }
}

/// The words of a line. White space, parentheses and `&` part words; line ends, `&&`, `||`, `;` and `|` begin a new command; the word
/// after a redirection is its file.
#[must_use]
pub fn words(line: &str) -> Vec<Vec<Word>> {
    let mut split = Split::default();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let operator = ["&&", "||", ";", "|", "\n", "\r"]
            .into_iter()
            .find(|operator| rest.starts_with(operator));
        if let Some(operator) = operator {
            split.next_command();
            rest = &rest[operator.len()..];
        } else if let Some(operator) = [">>", ">|", ">&", ">", "<<<", "<<", "<&", "<>", "<"]
            .into_iter()
            .find(|operator| rest.starts_with(operator))
        {
            split.redirect(if operator.starts_with('>') || operator == "<>" {
                Role::Output
            } else {
                Role::Input
            });
            rest = &rest[operator.len()..];
        } else {
            if c.is_whitespace() || "()&".contains(c) {
                split.end_word();
            } else {
                split.word.push(c);
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    split.next_command();
    split.commands
}

/// Whether the line holds anything that makes a shell do more than run one program.
#[must_use]
pub fn has_control(line: &str) -> bool {
    line.contains(['\n', '\r', '&', ';', '|', '>', '<', '`', '\0']) || line.contains("$(")
}

#[derive(Default)]
struct Split {
    commands: Vec<Vec<Word>>,
    command: Vec<Word>,
    word: String,
    role: Option<Role>,
}

impl Split {
    fn end_word(&mut self) {
        if !self.word.is_empty() {
            let text = std::mem::take(&mut self.word);
            let role = self.role.take().unwrap_or(Role::Plain);
            self.command.push(Word { text, role });
        }
    }

    fn redirect(&mut self, role: Role) {
        // Digits right before the sign are the number of an open file.
        if !self.word.is_empty() && self.word.bytes().all(|b| b.is_ascii_digit()) {
            self.word.clear();
        }
        self.end_word();
        self.role = Some(role);
    }

    fn next_command(&mut self) {
        self.end_word();
        self.role = None;
        if !self.command.is_empty() {
            self.commands.push(std::mem::take(&mut self.command));
        }
    }
}
