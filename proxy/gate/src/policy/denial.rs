//! A refusal of the write policy as data: what was aimed at, which rule decided, what is recorded of it, and the words for the model.

use countersign_permission::Hash;
use serde_json::{Map, Value};

use super::document::Policy;
use super::judge::{Judge, Judged};
use crate::paths::shown_up_to;
use crate::ports::{DecisionNote, Verdict};
use crate::refusal::{Code, Refusal};

/// The gate's name in entries.
pub const GATE: &str = "write_policy";

/// The reason of a turn that two denials ended.
pub const STRIKE: &str = "write_policy_denied";

/// Every member [`Denial::facts`] may have. Nothing else passes into a record.
pub const FACTS: [&str; 13] = [
    "policy_id",
    "policy_hash",
    "policy_version",
    "tool",
    "requested_command",
    "token",
    "requested_path",
    "normalized_path",
    "symlink_component",
    "uninspectable_component",
    "matched_rule",
    "rule",
    "other_paths",
];

/// Characters of one recorded text, and other paths of one call.
const LONGEST: usize = 1024;
const MOST_OTHERS: usize = 8;

/// One denied call.
#[derive(Clone, Debug, PartialEq)]
pub struct Denial {
    /// The policy's name.
    pub policy_id: String,
    /// Its hash.
    pub policy_hash: Hash,
    /// The tool as the server names it.
    pub tool: String,
    /// The first path that was refused as the call named it.
    pub requested: Option<String>,
    /// The same relative to the workspace, where it lies inside; of a tool without paths its name.
    pub normalized: Option<String>,
    /// Why.
    pub reason: Reason,
    /// Further refused paths of the same call, as named.
    pub others: Vec<String>,
    /// What the policy allows, for the sentence.
    pub allow: Vec<String>,
}

/// Why a call is outside a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A built-in pattern.
    Protected(&'static str),
    /// A rule of `deny_writes`.
    DenyMatch(String),
    /// No rule of `allow_writes`.
    NoAllowMatch,
    /// The workspace itself.
    Root,
    /// Not in the workspace.
    Outside,
    /// A link on the way: this name, relative to the workspace.
    Symlink(String),
    /// A name on the way that cannot be judged, with the reason.
    Uninspectable(String, String),
    /// A word of a command that leads outside.
    Token {
        /// The command.
        command: String,
        /// The word as written.
        token: String,
    },
    /// A call that would set a policy for a child.
    ChildOverride,
    /// A tool that writes, and whose paths nobody declared.
    UnsupportedTool,
    /// A child's rule that reaches further than its parent's.
    NotWithinParent(String),
    /// A command that is neither safe nor declared. No strike.
    ShellDisabled {
        /// The command.
        command: String,
        /// What may run beside the safe list.
        declared: Vec<String>,
        /// Why it could not be let through, the end of a sentence.
        why: &'static str,
    },
}

/// What is recorded of a call that is allowed: members of [`FACTS`], the first path and further ones as named.
pub(crate) fn allowed_facts(judge: &Judge<'_>, judged: &[Judged]) -> Map<String, Value> {
    let first = judged.first();
    let texts = [
        ("policy_id", Some(judge.policy.id())),
        ("tool", Some(judge.tool)),
        ("requested_path", first.map(|path| path.requested.as_str())),
        (
            "normalized_path",
            first.map(|path| path.normalized.as_str()),
        ),
    ];
    let mut facts: Map<String, Value> = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name.to_string(), shown_up_to(text?, LONGEST).into())))
        .collect();
    facts.insert("policy_version".to_string(), 1.into());
    let others = judged.iter().skip(1).take(MOST_OTHERS);
    let others: Vec<String> = others
        .map(|path| shown_up_to(&path.requested, LONGEST))
        .collect();
    if !others.is_empty() {
        facts.insert("other_paths".to_string(), others.into());
    }
    facts
}

impl Denial {
    /// A denial without paths.
    #[must_use]
    pub fn new(policy: &Policy, tool: &str, reason: Reason) -> Self {
        Self {
            policy_id: policy.id().to_string(),
            policy_hash: policy.hash(),
            tool: tool.to_string(),
            requested: None,
            normalized: None,
            reason,
            others: Vec::new(),
            allow: policy.allow_texts(),
        }
    }

    /// A call of `tool` that carries a policy of its own for a child (19.1: refused and recorded where it is asked for).
    #[must_use]
    pub fn child_override(policy: &Policy, tool: &str) -> Self {
        Self {
            normalized: Some(tool.to_string()),
            ..Self::new(policy, tool, Reason::ChildOverride)
        }
    }

    /// A child's write set that reaches further than `policy`, by the rule [`Policy::narrow`] named.
    #[must_use]
    pub fn not_within(policy: &Policy, tool: &str, rule: &str) -> Self {
        Self {
            requested: Some(rule.to_string()),
            normalized: Some(rule.to_string()),
            ..Self::new(policy, tool, Reason::NotWithinParent(rule.to_string()))
        }
    }

    /// Whether it counts as a strike. The kind alone decides; only a disabled shell is of another kind.
    #[must_use]
    pub fn strikes(&self) -> bool {
        !matches!(self.reason, Reason::ShellDisabled { .. })
    }

    /// The class of rule that decided.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        match &self.reason {
            Reason::Protected(_) => "protected_path",
            Reason::DenyMatch(_) => "deny_match",
            Reason::NoAllowMatch => "no_allow_match",
            Reason::Root => "workspace_root_not_writable",
            Reason::Outside => "path_outside_workspace",
            Reason::Symlink(_) => "symlink_path_component",
            Reason::Uninspectable(..) => "path_not_inspectable",
            Reason::Token { .. } => "outside_workspace",
            Reason::ChildOverride => "child_policy_override_unsupported",
            Reason::UnsupportedTool => "unsupported_mutating_tool",
            Reason::NotWithinParent(_) => "not_within_parent_allow",
            Reason::ShellDisabled { .. } => "shell_disabled",
        }
    }

    /// The concrete rule: the pattern or the rule's text where there is one, else the class.
    #[must_use]
    pub fn matched_rule(&self) -> &str {
        match &self.reason {
            Reason::Protected(pattern) => pattern,
            Reason::DenyMatch(rule) => rule,
            _ => self.rule(),
        }
    }

    /// What the call aimed at: the path as named, else the command, else the tool.
    #[must_use]
    pub fn aim(&self) -> &str {
        match (&self.requested, &self.reason) {
            (Some(requested), _) => requested,
            (None, Reason::Token { command, .. } | Reason::ShellDisabled { command, .. }) => {
                command
            }
            (None, _) => self.normalized.as_deref().unwrap_or(&self.tool),
        }
    }

    /// What is recorded: members of [`FACTS`] only, each at most 1024 characters.
    #[must_use]
    pub fn facts(&self) -> Map<String, Value> {
        let (command, token) = match &self.reason {
            Reason::Token { command, token } => (Some(command.as_str()), Some(token.as_str())),
            Reason::ShellDisabled { command, .. } => (Some(command.as_str()), None),
            _ => (None, None),
        };
        let (symlink, uninspectable) = match &self.reason {
            Reason::Symlink(name) => (Some(name.as_str()), None),
            Reason::Uninspectable(name, _) => (None, Some(name.as_str())),
            _ => (None, None),
        };
        let hash = self.policy_hash.to_string();
        let texts = [
            ("policy_id", Some(self.policy_id.as_str())),
            ("policy_hash", Some(&hash)),
            ("tool", Some(&self.tool)),
            ("requested_command", command),
            ("token", token),
            ("requested_path", self.requested.as_deref()),
            ("normalized_path", self.normalized.as_deref()),
            ("symlink_component", symlink),
            ("uninspectable_component", uninspectable),
            ("matched_rule", Some(self.matched_rule())),
            ("rule", Some(self.rule())),
        ];
        let mut facts: Map<String, Value> = texts
            .into_iter()
            .filter_map(|(name, text)| Some((name.to_string(), shown_up_to(text?, LONGEST).into())))
            .collect();
        facts.insert("policy_version".to_string(), 1.into());
        if !self.others.is_empty() {
            let others = self.others.iter().take(MOST_OTHERS);
            let others: Vec<String> = others.map(|other| shown_up_to(other, LONGEST)).collect();
            facts.insert("other_paths".to_string(), others.into());
        }
        facts
    }

    /// The `decision` entry.
    #[must_use]
    pub fn note(&self) -> DecisionNote {
        DecisionNote {
            gate: GATE,
            rule: self.rule().to_string(),
            verdict: Verdict::Deny,
            policy: Some(self.policy_hash),
            aim: Some(shown_up_to(self.aim(), LONGEST)),
            bounds: self.facts(),
        }
    }

    /// What can be done, as stable words.
    #[must_use]
    pub fn actions(&self) -> &'static [&'static str] {
        match &self.reason {
            Reason::Outside => &["write_within_workspace", "request_policy_expansion"],
            Reason::Symlink(_) => &["write_to_real_workspace_paths", "request_policy_expansion"],
            Reason::Uninspectable(..) => &["check_workspace_path", "retry_after_fixing_path"],
            Reason::Token { .. } => &[
                "use_workspace_relative_paths",
                "use_read_tools_for_file_access",
                "request_policy_expansion",
            ],
            Reason::NotWithinParent(_) => &["narrow_child_write_set", "request_policy_expansion"],
            Reason::ShellDisabled { .. } => {
                &["use_read_tools", "use_write_tools_within_allowed_rules"]
            }
            _ => &["request_policy_expansion", "write_within_allowed_globs"],
        }
    }

    /// This call's answer where the agent may go on: `write_policy_denied` for a first strike, or `shell_disabled`.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        let strikes = self.strikes();
        let code = if strikes {
            Code::WritePolicyDenied
        } else {
            Code::ShellDisabled
        };
        let mut sentence = format!("`{}` was not run: {}.", self.tool, self.why());
        if strikes {
            sentence.push_str(" Nothing was changed. This is the first refusal of this kind in this turn; your other calls go on, but a second one ends the turn.");
        } else {
            sentence.push_str(" Nothing was run. This does not count against you.");
        }
        let mut refusal = Refusal::new(code, 8, sentence, self.advice());
        if let Some(more) = self.second_advice() {
            refusal.next_actions.push(more);
        }
        for (name, value) in self.facts() {
            refusal = refusal.with(&name, value);
        }
        let allow: Vec<Value> = self.allow.iter().map(|rule| rule.clone().into()).collect();
        let allowed = match &self.reason {
            Reason::NotWithinParent(_) => "parent_allow_writes",
            _ => "allow_writes",
        };
        refusal = refusal.with(allowed, allow.into());
        if let Reason::Uninspectable(_, why) = &self.reason {
            refusal = refusal.with("reason", shown_up_to(why, LONGEST).into());
        }
        if let Reason::ShellDisabled { declared, .. } = &self.reason {
            refusal = refusal.with("verify_commands_declared", declared.clone().into());
        }
        let actions: Vec<Value> = self.actions().iter().map(|word| (*word).into()).collect();
        refusal.with("actions", actions.into())
    }

    /// Why, as the middle of a sentence.
    #[must_use]
    pub fn why(&self) -> String {
        let aim = shown_up_to(self.aim(), 200);
        let others = match self.others.len() {
            0 => String::new(),
            1 => " (and one more path of this call)".to_string(),
            more => format!(" (and {more} more paths of this call)"),
        };
        match &self.reason {
            Reason::Protected(pattern) => format!("`{aim}`{others} is always closed for writing, by the built-in rule `{pattern}`"),
            Reason::DenyMatch(rule) => format!("`{aim}`{others} is closed for writing by the rule `{rule}`"),
            Reason::NoAllowMatch => format!("`{aim}`{others} is not among the paths you may write"),
            Reason::Root => format!("`{aim}`{others} is the workspace itself, which cannot be written as a whole"),
            Reason::Outside => format!("`{aim}`{others} is outside the workspace"),
            Reason::Symlink(name) => {
                format!("`{aim}`{others} goes through the link `{}`, and writes do not go through links", shown_up_to(name, 200))
            }
            Reason::Uninspectable(name, why) => format!(
                "it cannot be told where `{aim}`{others} leads (`{}`: {})",
                shown_up_to(name, 200),
                shown_up_to(why, 200)
            ),
            Reason::Token { token, .. } => {
                format!("the word `{}` of the command leads outside the workspace", shown_up_to(token, 200))
            }
            Reason::ChildOverride => "a write policy cannot be given or changed by a call; a child has the policy it was started with".to_string(),
            Reason::UnsupportedTool => {
                "your writes are bounded to certain paths, and nobody has declared which arguments of this tool are paths".to_string()
            }
            Reason::NotWithinParent(rule) => {
                format!("the rule `{}` reaches further than the policy it should lie in", shown_up_to(rule, 200))
            }
            Reason::ShellDisabled { why, .. } => format!("{why}, and under a write policy only commands that plainly read, or that were declared, are run"),
        }
    }

    fn advice(&self) -> String {
        let writable = self.writable();
        match &self.reason {
            Reason::Outside => format!("Write to a path inside the workspace. {writable}"),
            Reason::Symlink(_) => format!("Write to the real path inside the workspace, not through a link. {writable}"),
            Reason::Uninspectable(..) => "Check that path with a read tool, and call again with a plain path inside the workspace that can be looked at.".to_string(),
            Reason::Token { .. } => {
                "Write the command with paths relative to the workspace, or use a read tool to look at that file.".to_string()
            }
            Reason::ChildOverride => "Make the call again without a policy in it.".to_string(),
            Reason::UnsupportedTool => format!("Use another tool whose paths are declared, such as one that writes files. {writable}"),
            Reason::NotWithinParent(_) => format!("Make the child's write set narrower. {writable}"),
            Reason::ShellDisabled { declared, .. } if declared.is_empty() => {
                "Use the read tools to look at files, and the write tools to change them within the allowed paths.".to_string()
            }
            Reason::ShellDisabled { declared, .. } => format!(
                "Use the read tools to look at files and the write tools to change them within the allowed paths, or run one of the declared commands exactly as written: `{}`.",
                declared.join("`, `")
            ),
            _ => writable,
        }
    }

    fn second_advice(&self) -> Option<String> {
        let ask = "If the work needs this, tell the person what you wanted to write and why, and ask them to extend the policy; do not try other ways around it.";
        match &self.reason {
            Reason::Uninspectable(..) | Reason::ShellDisabled { .. } => None,
            _ => Some(ask.to_string()),
        }
    }

    /// What may be written, in words.
    fn writable(&self) -> String {
        const SHOWN: usize = 6;
        let first: Vec<String> = self
            .allow
            .iter()
            .take(SHOWN)
            .map(|rule| format!("`{rule}`"))
            .collect();
        match self.allow.len() {
            0 => "This policy lets nothing be written.".to_string(),
            count if count > SHOWN => format!(
                "You may write: {} and {} more rules, all listed in `allow_writes`.",
                first.join(", "),
                count - SHOWN
            ),
            _ => format!("You may write: {}.", first.join(", ")),
        }
    }
}
