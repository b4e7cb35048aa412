//! Text with everything in it that a reader would not see made visible. Knows no screen and no meaning.

use std::fmt;

use serde::Serialize;
use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization as _;
use unicode_security::MixedScript as _;

/// Marks on one letter beyond which they are shown apart.
const MARKS: usize = 2;

/// A text in pieces, nothing left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// The pieces in order.
    pub pieces: Vec<Piece>,
    /// What is odd about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<Flag>,
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    /// Letters that show themselves.
    Text(String),
    /// A line feed.
    Break,
    /// A character that does not show itself, or not as what it is: its code, `U+202E`.
    Mark(String),
}

/// What is odd about a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// It holds characters that are not seen, or change the direction of reading.
    Invisible,
    /// A letter is spelled otherwise than usual: another text looks the same.
    Spelling,
    /// This word mixes letters of several scripts.
    MixedScripts(String),
}

impl Shown {
    /// The text, made visible.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let composed = text.nfc().eq(text.chars());
        let mut shown = Self {
            pieces: Vec::new(),
            flags: Vec::new(),
        };
        let mut marks = 0;
        let mut invisible = false;
        for letter in text.chars() {
            let category = get_general_category(letter);
            let combining = is_combining(category);
            marks = if combining { marks + 1 } else { 0 };
            let hidden = is_hidden(letter, category);
            let respelled = !composed && (combining || !std::iter::once(letter).nfc().eq([letter]));
            if letter == '\n' {
                shown.pieces.push(Piece::Break);
            } else if hidden || respelled || marks > MARKS {
                invisible |= hidden;
                shown
                    .pieces
                    .push(Piece::Mark(format!("U+{:04X}", u32::from(letter))));
            } else if let Some(Piece::Text(last)) = shown.pieces.last_mut() {
                last.push(letter);
            } else {
                shown.pieces.push(Piece::Text(letter.into()));
            }
        }
        if invisible {
            shown.flags.push(Flag::Invisible);
        }
        if !composed {
            shown.flags.push(Flag::Spelling);
        }
        shown.flags.extend(mixed(text).map(Flag::MixedScripts));
        shown
    }

    /// Up to `most` characters as plain text: a line feed as `↵` and a new line, a mark as `⟨U+202E⟩`, and so are the characters used
    /// here for quoting.
    #[must_use]
    pub fn to_text(&self, most: usize) -> String {
        let mut out = String::new();
        let mut left = most;
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => {
                    for letter in text.chars().take(left) {
                        match letter {
                            '“' | '”' | '⟨' | '⟩' | '↵' => {
                                out.push_str(&format!("⟨U+{:04X}⟩", u32::from(letter)));
                            }
                            letter => out.push(letter),
                        }
                    }
                    left = left.saturating_sub(text.chars().count());
                }
                Piece::Break if left > 0 => out.push_str("↵\n"),
                Piece::Mark(code) if left > 0 => out.push_str(&format!("⟨{code}⟩")),
                Piece::Break | Piece::Mark(_) => {}
            }
            if !matches!(piece, Piece::Text(_)) {
                left = left.saturating_sub(1);
            }
        }
        out
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invisible => f.write_str("holds invisible characters"),
            Self::Spelling => f.write_str("spelled unusually: another text looks the same"),
            Self::MixedScripts(word) => {
                write!(f, "mixes scripts: {}", Shown::of(word).to_text(usize::MAX))
            }
        }
    }
}

fn is_combining(category: GeneralCategory) -> bool {
    matches!(
        category,
        GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark
    )
}

fn is_hidden(letter: char, category: GeneralCategory) -> bool {
    let unseen = matches!(
        category,
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::Surrogate
            | GeneralCategory::PrivateUse
            | GeneralCategory::Unassigned
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::EnclosingMark
    );
    let blank = category == GeneralCategory::SpaceSeparator && letter != ' ';
    // Letters, marks and symbols of those categories that have no ink (Default_Ignorable_Code_Point, blank Braille).
    let inkless = matches!(letter,
        '\u{034f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2800}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{1d159}' | '\u{e0100}'..='\u{e01ef}');
    unseen || blank || inkless
}

/// Words whose letters are of several scripts that are not written together.
fn mixed(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|letter: char| {
        !letter.is_alphanumeric() || is_hidden(letter, get_general_category(letter))
    });
    let mut found: Vec<String> = words
        .filter(|word| !word.is_ascii() && !word.is_single_script())
        .map(String::from)
        .collect();
    found.sort();
    found.dedup();
    found.into_iter()
}
