//! Follows a written path name by name to where it really leads. Judges nothing; a path that cannot be followed to its end is an
//! error, which callers take for protected.

use std::collections::VecDeque;

use super::place::{Place, Step, Written, split_root, steps};
use super::port::{FileId, Files, Found, Look, LookError};

/// Links followed before a path counts as unreadable.
pub const MAX_LINKS: usize = 20;

/// Looks before a path counts as unreadable: far beyond what any system opens.
const MAX_LOOKS: usize = 4096;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The place, without links as far as it exists.
    pub place: Place,
    /// Identities of root and each name of `place`, as far as it exists and the system tells them: `ids[n]` is that of the first `n` names.
    pub ids: Vec<Option<FileId>>,
    /// What stands there; `None` where nothing does yet.
    pub look: Option<Look>,
    /// The links that were followed, as places.
    pub through: Vec<Place>,
}

/// A path that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// More than [`MAX_LINKS`] links.
    #[error("more than {MAX_LINKS} links in a row")]
    TooManyLinks,
    /// A name on the way cannot be looked at.
    #[error("`{}` cannot be looked at: {reason}", place.text())]
    Unreadable {
        /// Where.
        place: Place,
        /// The system's words.
        reason: String,
    },
}

impl ResolveError {
    /// Why, without saying where: where a link leads is not told to an agent.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::TooManyLinks => self.to_string(),
            Self::Unreadable { reason, .. } => {
                format!("a name on the way cannot be looked at: {reason}")
            }
        }
    }
}

/// Follows the path, links and `..` as the system does.
///
/// # Errors
/// When a name cannot be looked at, or there are too many links.
pub fn resolve(written: &Written, files: &dyn Files) -> Result<Resolved, ResolveError> {
    let mut walk = Walk {
        files,
        resolved: start(written.root.clone(), files),
        todo: written.steps.iter().cloned().collect(),
        missing_from: None,
        looks: 0,
    };
    while let Some(step) = walk.todo.pop_front() {
        match step {
            Step::Up => walk.up(),
            Step::Name(name) => walk.enter(name)?,
        }
    }
    Ok(walk.resolved)
}

/// One path on its way.
struct Walk<'a> {
    files: &'a dyn Files,
    resolved: Resolved,
    todo: VecDeque<Step>,
    /// From so many names on, nothing is there.
    missing_from: Option<usize>,
    looks: usize,
}

impl Walk<'_> {
    fn up(&mut self) {
        let names = &mut self.resolved.place.names;
        names.pop();
        let count = names.len();
        self.resolved.ids.truncate(count + 1);
        if self.missing_from.is_some_and(|from| count < from) {
            self.missing_from = None;
        }
        // What stands there is known again only when something is looked at; a folder it is in any case.
        self.resolved.look = self
            .missing_from
            .is_none()
            .then(|| folder(self.resolved.ids.last()));
    }

    fn enter(&mut self, name: String) -> Result<(), ResolveError> {
        self.resolved.place.names.push(name);
        let count = self.resolved.place.names.len();
        if self.missing_from.is_some() {
            return Ok(());
        }
        self.looks += 1;
        let looked = if self.looks > MAX_LOOKS {
            Err(LookError::Unreadable("too many names".to_string()))
        } else {
            self.files.look(&self.resolved.place.text())
        };
        match looked {
            Err(LookError::Missing) => {
                self.missing_from = Some(count);
                self.resolved.look = None;
                Ok(())
            }
            Err(LookError::Unreadable(reason)) => Err(ResolveError::Unreadable {
                place: self.resolved.place.clone(),
                reason,
            }),
            Ok(Look {
                found: Found::Link { target },
                ..
            }) => self.follow(&target),
            Ok(look) => {
                self.resolved.ids.push(look.id);
                self.resolved.look = Some(look);
                Ok(())
            }
        }
    }

    fn follow(&mut self, target: &str) -> Result<(), ResolveError> {
        self.resolved.through.push(self.resolved.place.clone());
        if self.resolved.through.len() > MAX_LINKS {
            return Err(ResolveError::TooManyLinks);
        }
        let style = self.files.style();
        self.resolved.place.names.pop();
        let rest = match split_root(target, style) {
            Some((root, rest)) => {
                let through = std::mem::take(&mut self.resolved.through);
                self.resolved = Resolved {
                    through,
                    ..start(root, self.files)
                };
                rest
            }
            None => target,
        };
        for step in steps(rest, style).into_iter().rev() {
            self.todo.push_front(step);
        }
        self.resolved.look = Some(folder(self.resolved.ids.last()));
        Ok(())
    }
}

fn start(root: String, files: &dyn Files) -> Resolved {
    let place = Place {
        root,
        names: Vec::new(),
    };
    let id = files.look(&place.text()).ok().and_then(|look| look.id);
    Resolved {
        place,
        ids: vec![id],
        look: Some(folder(Some(&id))),
        through: Vec::new(),
    }
}

fn folder(id: Option<&Option<FileId>>) -> Look {
    Look {
        found: Found::Folder,
        id: id.copied().flatten(),
        names: 1,
    }
}
