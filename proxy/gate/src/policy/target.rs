//! Where a write target lies in the workspace: inside, without a link on the way, and what stands there. Knows no rule.

use crate::paths::{Files, Found, Look, LookError, Place, Written, resolve};

/// The workspace of an agent, and where it really is.
#[derive(Clone, Debug)]
pub struct Workspace {
    named: Place,
    real: Place,
}

/// A target inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Names from the workspace on, at least one.
    pub names: Vec<String>,
    /// The absolute path by which it is judged and should be sent.
    pub absolute: Place,
    /// What stands there.
    pub look: Option<Look>,
}

/// A target that cannot be judged by its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetFault {
    /// Not inside.
    Outside,
    /// The workspace itself.
    Root,
    /// Through a link: its path relative to the workspace.
    Symlink(String),
    /// A name that cannot be looked at or judged, relative to the workspace, and why.
    Uninspectable(String, String),
}

impl Workspace {
    /// The workspace at an absolute path; it may be a link itself. `None` where it cannot be found.
    #[must_use]
    pub fn at(path: &str, files: &dyn Files) -> Option<Self> {
        let named = Place::parse(path, files.style())?;
        let real = resolve(&named.written(), files).ok()?.place;
        Some(Self { named, real })
    }

    /// Where relative paths begin.
    #[must_use]
    pub fn base(&self) -> &Place {
        &self.named
    }

    /// Places a written path.
    ///
    /// # Errors
    /// See [`TargetFault`].
    pub fn place(&self, written: &Written, files: &dyn Files) -> Result<Target, TargetFault> {
        let lexical = written.lexical();
        let names = self.inside(&lexical, files).ok_or(TargetFault::Outside)?;
        if written.climbs() {
            self.same_both_ways(written, &lexical, files)?;
        }
        if names.is_empty() {
            return Err(TargetFault::Root);
        }
        let look = self.walk(&names, files)?;
        Ok(Target {
            absolute: self.real.join(&names),
            names,
            look,
        })
    }

    /// The names from the workspace on; a root of other letters counts where the disk says that it is the same folder.
    fn inside(&self, lexical: &Place, files: &dyn Files) -> Option<Vec<String>> {
        for root in [&self.named, &self.real] {
            if let Some(names) = lexical.after(root) {
                return Some(names.to_vec());
            }
            if let Some(names) = lexical.after_folded(root) {
                let count = root.names.len();
                let spelled = Place {
                    root: lexical.root.clone(),
                    names: lexical.names[..count].to_vec(),
                };
                let same = match (files.look(&spelled.text()), files.look(&root.text())) {
                    (Ok(Look { id: Some(a), .. }), Ok(Look { id: Some(b), .. })) => a == b,
                    (Ok(Look { id: None, .. }), Ok(Look { id: None, .. })) => true,
                    _ => false,
                };
                if same {
                    return Some(names.to_vec());
                }
            }
        }
        None
    }

    /// With `..` in it, a path must mean the same to a program that normalises first and to one that follows it name by name.
    fn same_both_ways(
        &self,
        written: &Written,
        lexical: &Place,
        files: &dyn Files,
    ) -> Result<(), TargetFault> {
        let ways = (resolve(written, files), resolve(&lexical.written(), files));
        match ways {
            (Ok(followed), Ok(plain)) if followed.place == plain.place => Ok(()),
            (Ok(followed), _) => {
                let link = followed.through.first().unwrap_or(&followed.place);
                Err(TargetFault::Symlink(self.relative(link)))
            }
            (Err(error), _) => {
                let reason = error.reason();
                Err(TargetFault::Uninspectable(self.relative(lexical), reason))
            }
        }
    }

    fn walk(&self, names: &[String], files: &dyn Files) -> Result<Option<Look>, TargetFault> {
        let mut look = None;
        for count in 1..=names.len() {
            let relative = names[..count].join("/");
            match files.look(&self.real.join(&names[..count]).text()) {
                Err(LookError::Missing) => return Ok(None),
                Err(LookError::Unreadable(why)) => {
                    return Err(TargetFault::Uninspectable(relative, why));
                }
                Ok(Look {
                    found: Found::Link { .. },
                    ..
                }) => {
                    return Err(TargetFault::Symlink(relative));
                }
                Ok(Look {
                    found: Found::Other,
                    ..
                }) => {
                    let why = "it is neither a file nor a folder".to_string();
                    return Err(TargetFault::Uninspectable(relative, why));
                }
                Ok(Look {
                    found: Found::File,
                    names: 2..,
                    ..
                }) => {
                    let why = "the file has a second name elsewhere (a hard link)".to_string();
                    return Err(TargetFault::Uninspectable(relative, why));
                }
                Ok(other) => look = Some(other),
            }
        }
        Ok(look)
    }

    fn relative(&self, place: &Place) -> String {
        let names = place.after(&self.named).or_else(|| place.after(&self.real));
        match names {
            Some([]) => ".".to_string(),
            Some(names) => names.join("/"),
            // Outside, and not the agent's business.
            None => "..".to_string(),
        }
    }
}
