//! What went wrong, for a person or a script: a code, a sentence and what to do next. Knows no feature; every feature's error becomes one.

use serde_json::{Value, json};

/// An error as the command line shows it. No secret may be in any member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// Stable word for scripts, snake case.
    pub code: &'static str,
    /// One sentence: lower case, no full stop, input in backticks.
    pub message: String,
    /// What to do next; empty where nothing can be said.
    pub remedy: String,
}

impl Problem {
    /// A problem with its remedy.
    pub fn new(
        code: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Problem {
        Problem {
            code,
            message: message.into(),
            remedy: remedy.into(),
        }
    }

    /// `{"error": {"code", "message", "remedy"}}`, the machine form.
    pub fn to_json(&self) -> Value {
        json!({"error": {"code": self.code, "message": self.message, "remedy": self.remedy}})
    }

    /// The text form, one or two lines, each ended by a line feed.
    pub fn to_text(&self) -> String {
        let mut text = format!("error: {}\n", self.message);
        if !self.remedy.is_empty() {
            text.push_str(&format!("  what to do: {}\n", self.remedy));
        }
        text
    }
}
