//! Step 8's verdict on one call: its declared paths and command against the agent's policy. Counts no strikes.

use countersign_permission::Kind;

use super::denial::{Denial, Reason};
use super::document::{Policy, Ruling, Shell};
use super::target::{Target, TargetFault, Workspace};
use crate::json;
use crate::paths::{Declared, Effect, Files, Found, Readings, Unclear, pick, readings};
use crate::shell::{Command, List, is_safe, outside};

/// Entries of a folder that is moved or removed; above it the folder cannot be judged.
const MOST_BELOW: usize = 10_000;

/// What step 8 needs for one call.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    /// The disk.
    pub files: &'a dyn Files,
    /// The agent's policy.
    pub policy: &'a Policy,
    /// The agent's workspace, absolute.
    pub workspace: &'a str,
    /// The tool as the server names it.
    pub tool: &'a str,
    /// Read or write, as the gate classed it.
    pub kind: Kind,
    /// The tool's declared arguments.
    pub declared: &'a [Declared],
}

/// What step 8 says.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// A read: no decision is recorded.
    NotBounded,
    /// Within the policy: an allowing decision is recorded.
    Allowed(Vec<Judged>),
    /// Refused; [`Denial::strikes`] says whether it counts.
    Denied(Box<Denial>),
    /// The call does not say what it writes: refused as malformed, no strike.
    Malformed {
        /// Where.
        pointer: String,
        /// What is expected there.
        message: &'static str,
    },
}

/// One path that was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The argument, as an exact pointer.
    pub pointer: String,
    /// As written.
    pub requested: String,
    /// Relative to the workspace.
    pub normalized: String,
    /// The absolute path it was judged by: what should be sent, so that the server takes it for no other.
    pub absolute: String,
}

/// An argument's pointer, its text, and what the tool does there.
type Written = (String, String, Effect);

/// A refused path.
struct Refused {
    requested: String,
    normalized: Option<String>,
    reason: Reason,
}

/// A path that may be written, and what the tool does there.
struct Open {
    judged: Judged,
    effect: Effect,
    target: Target,
}

impl Judge<'_> {
    /// Judges checked arguments.
    #[must_use]
    pub fn judge(&self, arguments: &[u8]) -> Judgement {
        let runs = self.declares(|effect| effect == Effect::Command);
        if self.kind == Kind::Read && !runs {
            return Judgement::NotBounded;
        }
        let writes = self.declares(|effect| matches!(effect, Effect::Write | Effect::Create));
        if !runs && !writes {
            let mut denial = Denial::new(self.policy, self.tool, Reason::UnsupportedTool);
            denial.normalized = Some(self.tool.to_string());
            return Judgement::Denied(Box::new(denial));
        }
        let Some(workspace) = Workspace::at(self.workspace, self.files) else {
            let why = "the workspace cannot be found".to_string();
            let reason = Reason::Uninspectable(".".to_string(), why);
            return Judgement::Denied(Box::new(Denial::new(self.policy, self.tool, reason)));
        };
        let written = match self.written(arguments) {
            Ok(written) => written,
            Err((pointer, message)) => return Judgement::Malformed { pointer, message },
        };
        let (mut open, mut refused) = (Vec::new(), Vec::new());
        for (pointer, text, effect) in written {
            match self.path(&workspace, pointer, text, effect) {
                Ok(path) => open.push(path),
                Err(path) => refused.push(path),
            }
        }
        if refused.is_empty() {
            refused.extend(self.below(&open));
        }
        if let Some(denial) = self.denial(refused) {
            return Judgement::Denied(Box::new(denial));
        }
        if runs {
            let folder = open.iter().find(|path| path.effect == Effect::Folder);
            let folder = folder.map_or(workspace.base(), |path| &path.target.absolute);
            if let Some(verdict) = self.command(arguments, &workspace, folder) {
                return verdict;
            }
        }
        Judgement::Allowed(open.into_iter().map(|path| path.judged).collect())
    }

    fn declares(&self, test: impl Fn(Effect) -> bool) -> bool {
        self.declared.iter().any(|declared| test(declared.effect))
    }

    /// Every path the call names, or where one is missing or no text.
    fn written(&self, arguments: &[u8]) -> Result<Vec<Written>, (String, &'static str)> {
        let mut found = Vec::new();
        for declared in self.declared {
            let effect = declared.effect;
            if matches!(effect, Effect::Read | Effect::Command) {
                continue;
            }
            let picked = pick(arguments, &declared.pointer);
            let exact = !declared.pointer.split('/').any(|step| step == "*");
            if picked.is_empty() && exact && effect != Effect::Folder {
                return Err((
                    declared.pointer.clone(),
                    "must be given: writes are bounded to certain paths, so every path has to be named",
                ));
            }
            for picked in picked {
                match json::decode(picked.value) {
                    Some(text) if !text.trim().is_empty() => {
                        found.push((picked.pointer, text.into_owned(), effect))
                    }
                    None if effect == Effect::Folder && picked.value == b"null" => {}
                    _ => return Err((picked.pointer, "must be a path as text that is not empty")),
                }
            }
        }
        let writes = |effect: &Effect| matches!(effect, Effect::Write | Effect::Create);
        let wanted = self
            .declared
            .iter()
            .find(|declared| writes(&declared.effect));
        match wanted {
            Some(declared) if !found.iter().any(|(_, _, effect)| writes(effect)) => Err((
                declared.pointer.clone(),
                "must name at least one path: writes are bounded to certain paths",
            )),
            _ => Ok(found),
        }
    }

    /// One path, in every meaning it may have to a server: the first that is refused decides.
    fn path(
        &self,
        workspace: &Workspace,
        pointer: String,
        requested: String,
        effect: Effect,
    ) -> Result<Open, Refused> {
        let Readings { all, unclear } = readings(
            &requested,
            std::slice::from_ref(workspace.base()),
            self.files,
        );
        let refused = |normalized: Option<String>, reason| Refused {
            requested: requested.clone(),
            normalized,
            reason,
        };
        if let Some(unclear) = unclear.filter(|unclear| *unclear != Unclear::Empty) {
            let reason = Reason::Uninspectable(requested.clone(), unclear.to_string());
            return Err(refused(None, reason));
        }
        let mut first = None;
        for written in &all {
            let target = match workspace.place(written, self.files) {
                Ok(target) => target,
                // A command may run in the workspace itself.
                Err(TargetFault::Root) if effect == Effect::Folder => Target {
                    names: Vec::new(),
                    absolute: workspace.base().clone(),
                    look: None,
                },
                Err(fault) => {
                    let (normalized, reason) = said(fault);
                    return Err(refused(normalized, reason));
                }
            };
            if effect != Effect::Folder
                && let Some(reason) = self.rule_on(&target.names)
            {
                return Err(refused(Some(target.names.join("/")), reason));
            }
            first.get_or_insert(target);
        }
        let Some(target) = first else {
            let why = "it means no path".to_string();
            return Err(refused(None, Reason::Uninspectable(requested.clone(), why)));
        };
        let judged = Judged {
            pointer,
            requested,
            normalized: target.names.join("/"),
            absolute: target.absolute.text(),
        };
        Ok(Open {
            judged,
            effect,
            target,
        })
    }

    fn rule_on(&self, names: &[String]) -> Option<Reason> {
        match self.policy.rule_on(names) {
            Ruling::Allowed(_) => None,
            Ruling::Protected(pattern) => Some(Reason::Protected(pattern)),
            Ruling::Denied(rule) => Some(Reason::DenyMatch(rule.text().to_string())),
            Ruling::NoMatch => Some(Reason::NoAllowMatch),
        }
    }

    /// What a written folder takes along: everything below it, where it stands and where the call's other paths may put it.
    fn below(&self, open: &[Open]) -> Vec<Refused> {
        let writes: Vec<&Open> = open
            .iter()
            .filter(|path| path.effect == Effect::Write)
            .collect();
        let mut refused = Vec::new();
        for path in &writes {
            let is_folder = path
                .target
                .look
                .as_ref()
                .is_some_and(|look| look.found == Found::Folder);
            let others = writes
                .iter()
                .filter(|other| other.judged.pointer != path.judged.pointer);
            let leaf = path.target.names.last().cloned();
            // Into a folder that is there, a move goes under its own name.
            let mut starts: Vec<Vec<String>> = Vec::new();
            if is_folder {
                starts.push(path.target.names.clone());
            }
            for other in others {
                let there = other
                    .target
                    .look
                    .as_ref()
                    .is_some_and(|look| look.found == Found::Folder);
                if is_folder {
                    starts.push(other.target.names.clone());
                }
                if there {
                    let mut inner = other.target.names.clone();
                    inner.extend(leaf.clone());
                    starts.push(inner);
                }
            }
            let mut names: Vec<Vec<String>> = Vec::new();
            if is_folder {
                let below = self.files.below(&path.target.absolute.text(), MOST_BELOW);
                if !below.whole {
                    let why = format!(
                        "the folder holds more than {MOST_BELOW} entries, or some that cannot be looked at"
                    );
                    refused.push(
                        path.refused(Reason::Uninspectable(path.judged.normalized.clone(), why)),
                    );
                    continue;
                }
                names.extend(below.entries.into_iter().map(|(names, _)| names));
            }
            let bare = starts
                .iter()
                .filter(|start| **start != path.target.names)
                .cloned();
            let all = bare.chain(starts.iter().flat_map(|start| {
                names
                    .iter()
                    .map(move |rest| [start.as_slice(), rest].concat())
            }));
            let first = all.into_iter().find_map(|names| {
                let reason = self.rule_on(&names)?;
                Some((names, reason))
            });
            if let Some((names, reason)) = first {
                refused.push(Refused {
                    requested: path.judged.requested.clone(),
                    normalized: Some(names.join("/")),
                    reason,
                });
            }
        }
        refused
    }

    /// One denial for a call, whatever the number of refused paths.
    fn denial(&self, refused: Vec<Refused>) -> Option<Denial> {
        let mut refused = refused.into_iter();
        let first = refused.next()?;
        let mut denial = Denial::new(self.policy, self.tool, first.reason);
        denial.requested = Some(first.requested);
        denial.normalized = first.normalized;
        denial.others = refused.map(|path| path.requested).collect();
        Some(denial)
    }

    /// A command: a word that leads outside is a strike; what is neither safe nor declared is not run.
    fn command(
        &self,
        arguments: &[u8],
        workspace: &Workspace,
        folder: &crate::paths::Place,
    ) -> Option<Judgement> {
        let Some(command) = Command::of(self.declared, arguments) else {
            let pointer = self
                .declared
                .iter()
                .find(|declared| declared.effect == Effect::Command);
            return Some(Judgement::Malformed {
                pointer: pointer
                    .map(|declared| declared.pointer.clone())
                    .unwrap_or_default(),
                message: "must be a command",
            });
        };
        let denied = |reason| {
            Some(Judgement::Denied(Box::new(Denial::new(
                self.policy,
                self.tool,
                reason,
            ))))
        };
        if let Some(token) = outside(&command, folder, workspace.base(), self.files) {
            return denied(Reason::Token {
                command: command.shown(),
                token,
            });
        }
        let declared: &[String] = match self.policy.shell() {
            Shell::Verify { commands, .. } => commands,
            Shell::Disabled => &[],
        };
        let disabled = |why| {
            denied(Reason::ShellDisabled {
                command: command.shown(),
                declared: declared.to_vec(),
                why,
            })
        };
        if self.has_more(arguments) {
            return disabled(
                "the call has further arguments (such as input or environment) that cannot be judged",
            );
        }
        let Some(line) = command.line() else {
            return disabled("the command has words that are no plain words");
        };
        if is_safe(&line, List::Bounded) || declared.contains(&line) {
            None
        } else {
            disabled("the command is neither on the safe list nor declared")
        }
    }

    /// Whether the call has a member that is declared as nothing and could carry more than a number.
    fn has_more(&self, arguments: &[u8]) -> bool {
        let known = |name: &str| {
            let start = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            self.declared.iter().any(|declared| {
                declared.pointer == start
                    || declared
                        .pointer
                        .strip_prefix(&start)
                        .is_some_and(|rest| rest.starts_with('/'))
            })
        };
        json::members(arguments.trim_ascii()).any(|member| {
            let heavy = matches!(member.value.first(), Some(b'"' | b'[' | b'{'));
            heavy && !known(&member.name)
        })
    }
}

impl Open {
    fn refused(&self, reason: Reason) -> Refused {
        Refused {
            requested: self.judged.requested.clone(),
            normalized: Some(self.judged.normalized.clone()),
            reason,
        }
    }
}

fn said(fault: TargetFault) -> (Option<String>, Reason) {
    match fault {
        TargetFault::Outside => (None, Reason::Outside),
        TargetFault::Root => (Some(".".to_string()), Reason::Root),
        TargetFault::Symlink(name) => (Some(name.clone()), Reason::Symlink(name)),
        TargetFault::Uninspectable(name, why) => {
            (Some(name.clone()), Reason::Uninspectable(name, why))
        }
    }
}
