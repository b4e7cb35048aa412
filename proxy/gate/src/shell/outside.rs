//! The first word of a command that names something outside a folder. A tripwire: see the module.

use super::words::{Command, Role, Word};
use crate::paths::{Files, Place, resolve};

/// The first word, as written, that leads outside `root` when the command runs in `folder`.
#[must_use]
pub fn outside(
    command: &Command,
    folder: &Place,
    root: &Place,
    files: &dyn Files,
) -> Option<String> {
    let real = resolve(&root.written(), files).ok();
    let scan = Scan {
        folder,
        roots: std::iter::once(root.clone())
            .chain(real.map(|real| real.place))
            .collect(),
        files,
    };
    command
        .words()
        .into_iter()
        .find_map(|words| scan.command(&words))
}

struct Scan<'a> {
    folder: &'a Place,
    roots: Vec<Place>,
    files: &'a dyn Files,
}

impl Scan<'_> {
    fn command(&self, words: &[Word]) -> Option<String> {
        let mut leading = true;
        for word in words {
            let assignment = assignment(&word.text);
            if word.role == Role::Plain && leading && assignment.is_some() {
                continue;
            }
            leading = leading && word.role != Role::Plain;
            let out = match assignment {
                Some((name, value)) => self.is_outside(name) || self.is_outside(value),
                None => self.is_outside(&word.text),
            };
            if out {
                return Some(word.text.clone());
            }
        }
        None
    }

    fn is_outside(&self, written: &str) -> bool {
        let word = written.trim_matches(['"', '\'']);
        let plain: String = word.chars().filter(|c| !"\"'\\".contains(*c)).collect();
        self.leads_out(word) || (plain != word && self.leads_out(&plain))
    }

    fn leads_out(&self, word: &str) -> bool {
        if word.is_empty() || word == "/dev/null" {
            return false;
        }
        let parts = |text: &str| {
            text.split(['/', '\\'])
                .any(|part| part.trim_matches(['"', '\'']) == "..")
        };
        let home = ["$HOME", "${HOME}"].iter().any(|name| {
            word.strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        if parts(word) || home || word.starts_with('~') || word.contains('\0') {
            return true;
        }
        let style = self.files.style();
        let written = match Place::parse(word, style) {
            Some(place) => place.written(),
            None if word.starts_with(['-', '$']) => return false,
            None => {
                let mut written = self.folder.written();
                written.steps.extend(crate::paths::steps_of(word, style));
                written
            }
        };
        match resolve(&written, self.files) {
            Ok(resolved) => !self
                .roots
                .iter()
                .any(|root| resolved.place.after(root).is_some()),
            Err(_) => true,
        }
    }
}

/// `NAME=value`, or any word with `=` in it.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    (!name.is_empty()).then_some((name, value))
}
