//! From the text of an argument to the paths a server may take it for: relative, `~`, `file://`, quoted, with stray spaces. Several
//! readings of one text are all judged. Never looks at a disk.

use super::place::{Place, Step, Written, is_separator, split_root, steps};
use super::port::{Files, Style};

/// What a text may mean as a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readings {
    /// Every meaning, the plainest first.
    pub all: Vec<Written>,
    /// Set where it may also mean a path that cannot be told.
    pub unclear: Option<Unclear>,
}

/// Why a text is not clear as a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// Nothing is written.
    #[error("it is empty")]
    Empty,
    /// A zero byte, where C programs stop reading.
    #[error("it holds a zero byte")]
    Nul,
    /// `~user`.
    #[error("it begins with another user's home")]
    Home,
    /// A `file:` URL of another machine, or with a broken escape.
    #[error("it is a file URL that names no local path")]
    Url,
    /// A Windows form without one meaning: `C:name`, a stream, a trailing dot or space, a device.
    #[error("it is a form of Windows path without one meaning")]
    Form,
    /// `\\server\share`, `\\?\`, `\\.\`: a second way to every file.
    #[error("it is a device or network path")]
    Device,
}

/// The paths `text` may mean, relative ones from each of `bases`.
#[must_use]
pub fn readings(text: &str, bases: &[Place], files: &dyn Files) -> Readings {
    let mut found = Readings {
        all: Vec::new(),
        unclear: None,
    };
    let mut texts: Vec<&str> = Vec::new();
    let until_zero = text.split('\0').next().unwrap_or_default();
    if until_zero.len() < text.len() {
        found.unclear = Some(Unclear::Nul);
    }
    for text in [until_zero, bare(until_zero)] {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    for text in texts {
        if text.is_empty() {
            found.unclear.get_or_insert(Unclear::Empty);
            continue;
        }
        found.literal(text, bases, files.style());
        found.home(text, files);
        found.url(text, files.style());
    }
    found
}

impl Readings {
    fn add(&mut self, written: Written) {
        if !self.all.contains(&written) {
            self.all.push(written);
        }
    }

    fn literal(&mut self, text: &str, bases: &[Place], style: Style) {
        if let Some(unclear) = windows_form(text, style) {
            self.unclear.get_or_insert(unclear);
            return;
        }
        if let Some((root, rest)) = split_root(text, style) {
            let steps = steps(rest, style);
            self.add(Written { root, steps });
            return;
        }
        let rooted = style == Style::Windows && text.starts_with(['/', '\\']);
        for base in bases {
            let mut written = base.written();
            if rooted {
                written.steps.clear();
            }
            written.steps.extend(steps(text, style));
            self.add(written);
        }
    }

    fn home(&mut self, text: &str, files: &dyn Files) {
        let style = files.style();
        let home = files.home().and_then(|home| Place::parse(home, style));
        for name in ["~", "$HOME", "${HOME}", "%USERPROFILE%"] {
            let Some(rest) = text.strip_prefix(name) else {
                continue;
            };
            let ends = rest.is_empty() || rest.starts_with(|c| is_separator(c, style));
            match (&home, ends) {
                (Some(home), true) => self.at_home(home, rest, style),
                (Some(home), false) if name == "~" => {
                    let user = rest.split(|c| is_separator(c, style)).next();
                    let user = user.unwrap_or_default();
                    if home.names.last().is_some_and(|own| own == user) {
                        self.at_home(home, &rest[user.len()..], style);
                    } else {
                        self.unclear.get_or_insert(Unclear::Home);
                    }
                }
                (None, _) if name == "~" => {
                    self.unclear.get_or_insert(Unclear::Home);
                }
                _ => {}
            }
        }
    }

    fn at_home(&mut self, home: &Place, rest: &str, style: Style) {
        let mut written = home.written();
        written.steps.extend(steps(rest, style));
        self.add(written);
    }

    /// `file:` URLs, and what follows any other scheme (`sqlite:///x`).
    fn url(&mut self, text: &str, style: Style) {
        let Some((scheme, rest)) = text.split_once(':') else {
            return;
        };
        let is_scheme = scheme.len() > 1
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        if !is_scheme {
            return;
        }
        if !scheme.eq_ignore_ascii_case("file") {
            let rest = rest.split(['?', '#']).next().unwrap_or_default();
            self.absolute(rest, style);
            if let Some((_, rest)) = rest.split_once(':') {
                self.absolute(rest, style);
            }
            return;
        }
        let path = match rest.strip_prefix("//") {
            None => Some(rest),
            Some(local) => {
                let (host, _) = local.split_once(['/', '\\']).unwrap_or((local, ""));
                let here = host.is_empty()
                    || ["localhost", "127.0.0.1", "[::1]"].contains(&host.to_lowercase().as_str());
                here.then(|| &local[host.len()..])
            }
        };
        let Some(decoded) = path.and_then(percent_decoded) else {
            self.unclear.get_or_insert(Unclear::Url);
            return;
        };
        if decoded.contains('\0') {
            self.unclear.get_or_insert(Unclear::Nul);
        }
        self.absolute(&decoded, style);
        let without = path.and_then(|path| path.split(['?', '#']).next());
        if let Some(decoded) = without.and_then(percent_decoded) {
            self.absolute(&decoded, style);
        }
    }

    fn absolute(&mut self, text: &str, style: Style) {
        let after = text.trim_start_matches(['/', '\\']);
        let rooted = match style {
            Style::Unix if after.len() == text.len() => return,
            Style::Unix => Some(("/".to_string(), after)),
            Style::Windows => split_root(after, style),
        };
        if let Some((root, rest)) = rooted {
            let steps = steps(rest, style);
            self.add(Written { root, steps });
        }
    }
}

/// Without the quotes and spaces around it, which some servers take off.
fn bare(text: &str) -> &str {
    text.trim()
        .trim_matches(|c| matches!(c, '"' | '\'' | '`'))
        .trim()
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(bytes.next()?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        out.push(digit()? * 16 + digit()?);
    }
    String::from_utf8(out).ok()
}

fn windows_form(text: &str, style: Style) -> Option<Unclear> {
    if style == Style::Unix {
        return None;
    }
    if text.starts_with(['/', '\\']) && text[1..].starts_with(['/', '\\']) {
        return Some(Unclear::Device);
    }
    let rest = match split_root(text, style) {
        Some((_, rest)) => rest,
        None => text,
    };
    let odd = steps(rest, style).into_iter().any(|step| match step {
        Step::Name(name) => name.contains(':') || name.ends_with(['.', ' ']) || is_device(&name),
        Step::Up => false,
    });
    odd.then_some(Unclear::Form)
}

/// `NUL`, `con.txt`, `COM1` and their like, which mean a device in every folder.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let stem = stem.trim_end().to_ascii_lowercase();
    let numbered = |kind: &str| {
        stem.strip_prefix(kind)
            .is_some_and(|digit| digit.chars().count() == 1 && "123456789¹²³".contains(digit))
    };
    ["con", "prn", "aux", "nul", "conin$", "conout$"].contains(&stem.as_str())
        || numbered("com")
        || numbered("lpt")
}
