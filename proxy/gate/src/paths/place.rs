//! A path as a root and names: as somebody wrote it ([`Written`]), and with its dots gone ([`Place`]). Never looks at a disk.

use super::port::Style;

/// An absolute path without `.`, `..`, doubled or trailing separators.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// `/`, or `C:\` with the letter in upper case.
    pub root: String,
    /// The names from there.
    pub names: Vec<String>,
}

/// One step of a written path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into this name.
    Name(String),
    /// `..`
    Up,
}

/// An absolute path as it was written, its `..` still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// As in [`Place`].
    pub root: String,
    /// The steps from there.
    pub steps: Vec<Step>,
}

impl Place {
    /// An absolute path of this style; `None` where it is none.
    #[must_use]
    pub fn parse(text: &str, style: Style) -> Option<Self> {
        let (root, rest) = split_root(text, style)?;
        Some(
            Written {
                root,
                steps: steps(rest, style),
            }
            .lexical(),
        )
    }

    /// As text.
    #[must_use]
    pub fn text(&self) -> String {
        let separator = if self.root == "/" { "/" } else { "\\" };
        format!("{}{}", self.root, self.names.join(separator))
    }

    /// The names after `other`, where this place is `other` or below it, letters compared exactly.
    #[must_use]
    pub fn after(&self, other: &Self) -> Option<&[String]> {
        (self.root == other.root)
            .then(|| self.names.strip_prefix(&other.names[..]))
            .flatten()
    }

    /// As [`Place::after`], letters compared without their case.
    #[must_use]
    pub fn after_folded(&self, other: &Self) -> Option<&[String]> {
        let count = other.names.len();
        let same = self.root == other.root
            && self.names.len() >= count
            && self
                .names
                .iter()
                .zip(&other.names)
                .all(|(a, b)| a == b || fold(a) == fold(b));
        same.then(|| &self.names[count..])
    }

    /// The same with more names.
    #[must_use]
    pub fn join(&self, names: &[String]) -> Self {
        let mut joined = self.clone();
        joined.names.extend_from_slice(names);
        joined
    }

    /// As if it had been written so.
    #[must_use]
    pub fn written(&self) -> Written {
        Written {
            root: self.root.clone(),
            steps: self.names.iter().cloned().map(Step::Name).collect(),
        }
    }
}

impl Written {
    /// With `..` removed by text, as programs that normalise before they open do.
    #[must_use]
    pub fn lexical(&self) -> Place {
        let mut names: Vec<String> = Vec::new();
        for step in &self.steps {
            match step {
                Step::Name(name) => names.push(name.clone()),
                Step::Up => {
                    names.pop();
                }
            }
        }
        Place {
            root: self.root.clone(),
            names,
        }
    }

    /// How long it is as text, in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        let steps = self.steps.iter().map(|step| match step {
            Step::Name(name) => name.len() + 1,
            Step::Up => 3,
        });
        self.root.len() + steps.sum::<usize>()
    }

    /// Whether it has a `..`.
    #[must_use]
    pub fn climbs(&self) -> bool {
        self.steps.contains(&Step::Up)
    }
}

/// The form in which names of different case are the same.
#[must_use]
pub fn fold(name: &str) -> String {
    name.to_lowercase()
}

/// The steps of a relative path.
#[must_use]
pub fn steps(text: &str, style: Style) -> Vec<Step> {
    text.split(|c| is_separator(c, style))
        .filter(|name| !matches!(*name, "" | "."))
        .map(|name| match name {
            ".." => Step::Up,
            name => Step::Name(name.to_string()),
        })
        .collect()
}

/// Root and rest of an absolute path; `None` where it is relative.
#[must_use]
pub fn split_root(text: &str, style: Style) -> Option<(String, &str)> {
    match style {
        Style::Unix => text.strip_prefix('/').map(|rest| ("/".to_string(), rest)),
        Style::Windows => {
            let letter = text.chars().next().filter(char::is_ascii_alphabetic)?;
            let rest = text[1..].strip_prefix(':')?;
            let rest = rest.strip_prefix(['/', '\\'])?;
            Some((format!("{}:\\", letter.to_ascii_uppercase()), rest))
        }
    }
}

/// Whether the character parts names.
#[must_use]
pub fn is_separator(c: char, style: Style) -> bool {
    c == '/' || (c == '\\' && style == Style::Windows)
}
