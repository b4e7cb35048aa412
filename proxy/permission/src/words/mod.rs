//! What a person reads before signing: the same structured text for the app, the page and the terminal, composed by our code. Words of
//! an agent, a server or executor.json stand in quotes only. Knows no screen.

mod act;
mod arguments;
mod call;
mod difference;
mod permission;
#[cfg(test)]
mod tests;
mod visible;

use serde::Serialize;

pub use act::act_page;
pub use call::{CallView, call_page};
pub use difference::{Difference, Direction, differences};
pub use permission::{Texts, permission_page};
pub use visible::{Flag, Piece, Shown};

use crate::{Code, Hash};

/// Characters from which on a quote is folded.
const LONG_CHARACTERS: usize = 400;

/// Lines from which on a quote is folded.
const LONG_LINES: usize = 8;

/// A document as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Page {
    /// What is asked for, in one sentence of ours.
    pub title: Line,
    /// The parts in the order they are shown.
    pub sections: Vec<Section>,
    /// The six characters to compare.
    pub code: String,
    /// The document's hash.
    pub hash: Hash,
}

/// One part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    /// Which.
    pub part: Part,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// The parts of a page, in the order they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Which tool of which server, and whether it changed.
    Tool,
    /// Every argument.
    Arguments,
    /// What is granted, server by server.
    Grants,
    /// Limits.
    Limits,
    /// Which agent, and what it says.
    Agent,
    /// From when until when.
    Expiry,
    /// What is different from before.
    Difference,
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// Its parts.
    pub spans: Vec<Span>,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// Words of ours.
    Ours(String),
    /// A number, true, false or null, as it was received.
    Literal(String),
    /// Somebody else's words.
    Quote(Quote),
}

/// Somebody else's words, whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quote {
    /// Whose.
    pub source: Source,
    /// The words, with everything invisible made visible.
    pub shown: Shown,
    /// Set where they are long: a screen may fold them, and shows this beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold: Option<Fold>,
}

/// Whose words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The agent's.
    Agent,
    /// The server's.
    Server,
    /// executor.json's.
    Settings,
    /// The person's own.
    Person,
}

/// How long folded words are, and their hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Fold {
    /// Unicode scalar values.
    pub characters: usize,
    /// Bytes of UTF-8.
    pub bytes: usize,
    /// SHA-256 of the UTF-8.
    pub hash: Hash,
}

/// How a page becomes plain text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folding {
    /// Long quotes by their beginning, length and hash.
    Closed,
    /// Everything.
    Open,
}

impl Quote {
    /// These words of `source`.
    #[must_use]
    pub fn new(source: Source, text: &str) -> Self {
        let characters = text.chars().count();
        let long = characters > LONG_CHARACTERS || text.lines().count() > LONG_LINES;
        Self {
            source,
            shown: Shown::of(text),
            fold: long.then(|| Fold {
                characters,
                bytes: text.len(),
                hash: Hash::of(text.as_bytes()),
            }),
        }
    }
}

impl Line {
    /// A line that begins with words of ours.
    #[must_use]
    pub fn ours(text: impl Into<String>) -> Self {
        Self::default().and(text)
    }

    /// The line with words of ours after it.
    #[must_use]
    pub fn and(mut self, text: impl Into<String>) -> Self {
        self.spans.push(Span::Ours(text.into()));
        self
    }

    /// The line with somebody's words after it.
    #[must_use]
    pub fn quote(mut self, source: Source, text: &str) -> Self {
        self.spans.push(Span::Quote(Quote::new(source, text)));
        self
    }

    /// The line with a number or word of JSON after it.
    #[must_use]
    pub fn literal(mut self, text: impl Into<String>) -> Self {
        self.spans.push(Span::Literal(text.into()));
        self
    }

    /// Everything that is odd about the words quoted in it.
    pub fn flags(&self) -> impl Iterator<Item = &Flag> {
        self.spans.iter().flat_map(|span| match span {
            Span::Quote(quote) => quote.shown.flags.as_slice(),
            Span::Ours(_) | Span::Literal(_) => &[],
        })
    }

    /// The line as plain text: quotes in “ ”, what was invisible in ⟨ ⟩.
    #[must_use]
    pub fn to_text(&self, folding: Folding) -> String {
        let mut text = String::new();
        for span in &self.spans {
            match span {
                Span::Ours(words) | Span::Literal(words) => text.push_str(words),
                Span::Quote(quote) => quote.write(&mut text, folding),
            }
        }
        for flag in self.flags() {
            text.push_str(&format!(" [{flag}]"));
        }
        text
    }
}

impl Quote {
    fn write(&self, text: &mut String, folding: Folding) {
        let fold = self.fold.filter(|_| folding == Folding::Closed);
        text.push('“');
        let most = if fold.is_some() { 80 } else { usize::MAX };
        text.push_str(&self.shown.to_text(most));
        if let Some(fold) = fold {
            text.push_str(&format!(
                "” … (folded: {} characters, {} bytes, {})",
                fold.characters, fold.bytes, fold.hash
            ));
        } else {
            text.push('”');
        }
    }
}

impl Page {
    /// A page of this document.
    fn of(hash: Hash, title: Line, sections: Vec<Section>) -> Self {
        let sections = sections
            .into_iter()
            .filter(|section| !section.lines.is_empty());
        Self {
            title,
            sections: sections.collect(),
            code: Code::of(hash).to_string(),
            hash,
        }
    }

    /// Every line of the page, the title first.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        let rest = self.sections.iter().flat_map(|section| &section.lines);
        std::iter::once(&self.title).chain(rest)
    }

    /// The page as plain text, for a terminal. What a folded quote leaves out is told by its length and hash.
    #[must_use]
    pub fn to_text(&self, folding: Folding) -> String {
        let mut text = self.title.to_text(folding);
        text.push_str("\n\n");
        for section in &self.sections {
            for line in &section.lines {
                text.push_str(&line.to_text(folding));
                text.push('\n');
            }
            text.push('\n');
        }
        text.push_str(&format!("code {}\n{}\n", self.code, self.hash));
        text
    }
}
