//! The write policy of one agent: read strictly, hashed, narrowed. Decides over relative paths; where a path leads is not known here.

use countersign_permission::Hash;
use serde_json::{Map, Value, json};

use super::read::{fault, kind, read_id, read_rules, read_rules_up_to, read_shell};
use super::rule::Rule;
use crate::json as strict;
use crate::paths::fold;

/// Rules of each kind.
pub const MOST_RULES: usize = 100;

/// Declared commands, and prefixes of them.
pub const MOST_COMMANDS: usize = 8;

/// What no policy can open, first in its list of denials.
pub const IMPLICIT_DENIES: [&str; 4] = [".countersign/**", ".git/**", "**/.env*", "**/secrets/**"];

/// The first words a declared command may have where the policy names none.
pub const DEFAULT_PREFIXES: [&str; 2] = ["mix format", "mix compile"];

/// A checked policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    id: String,
    allow: Vec<Rule>,
    deny: Vec<Rule>,
    shell: Shell,
    hash: Hash,
}

/// Which commands may run beside the safe list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shell {
    /// None.
    Disabled,
    /// These, compared byte for byte after trimming.
    Verify {
        /// The commands.
        commands: Vec<String>,
        /// The prefixes they were held to, where the policy named some.
        prefixes: Option<Vec<String>>,
    },
}

/// What a policy says to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling<'a> {
    /// This rule allows it.
    Allowed(&'a Rule),
    /// Built in: this pattern.
    Protected(&'static str),
    /// This rule denies it.
    Denied(&'a Rule),
    /// No rule allows it.
    NoMatch,
}

/// Why a document is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct PolicyFault {
    /// The member, `allow_writes[3]`; `policy` where it is the whole.
    pub path: String,
    /// What is wrong, with what is written there in backticks.
    pub reason: String,
}

/// A narrower policy that would allow more than the one it is for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{rule}` is not within what the wider policy allows")]
pub struct NotWithin {
    /// The rule or command.
    pub rule: String,
    /// The rules it should lie in.
    pub parent_allow: Vec<String>,
}

impl Policy {
    /// Reads a document.
    ///
    /// # Errors
    /// When it is no strict JSON, has a member too many or too few, a rule outside the grammar or one that could never match.
    pub fn parse(text: &[u8]) -> Result<Self, PolicyFault> {
        strict::check(text, 16)
            .map_err(|error| fault("policy", format!("not strict JSON: {error}")))?;
        let value =
            serde_json::from_slice(text).map_err(|error| fault("policy", error.to_string()))?;
        Self::from_value(&value)
    }

    /// Reads a document that was parsed already.
    ///
    /// # Errors
    /// As [`Policy::parse`].
    pub fn from_value(value: &Value) -> Result<Self, PolicyFault> {
        let members = value
            .as_object()
            .ok_or_else(|| fault("policy", format!("expected an object, not {}", kind(value))))?;
        const KNOWN: [&str; 5] = [
            "version",
            "metadata",
            "allow_writes",
            "deny_writes",
            "shell",
        ];
        if let Some(unknown) = members.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            let known = KNOWN.join("`, `");
            return Err(fault(
                unknown,
                format!("no such member; there are `{known}`"),
            ));
        }
        match members.get("version") {
            Some(version) if version.as_u64() == Some(1) => {}
            Some(other) => {
                return Err(fault(
                    "version",
                    format!("`{other}` is not supported; it is 1"),
                ));
            }
            None => return Err(fault("version", "is missing; it is 1".to_string())),
        }
        let id = read_id(members.get("metadata"))?;
        let allow = match members.get("allow_writes") {
            Some(rules) => read_rules("allow_writes", rules)?,
            None => {
                return Err(fault(
                    "allow_writes",
                    "is missing; `[]` lets nothing be written".to_string(),
                ));
            }
        };
        let mut deny = Vec::new();
        for rule in IMPLICIT_DENIES {
            deny.push(Rule::parse(rule).map_err(|error| fault("deny_writes", error.to_string()))?);
        }
        if let Some(rules) = members.get("deny_writes") {
            deny.extend(read_rules("deny_writes", rules)?);
        }
        let shell = read_shell(members.get("shell"))?;
        Ok(Self::build(id, allow, deny, shell))
    }

    /// Restores a policy from [`Policy::metadata`].
    ///
    /// # Errors
    /// When a member is missing or malformed, or the hash is not that of the rest.
    pub fn from_metadata(value: &Value) -> Result<Self, PolicyFault> {
        let members = value
            .as_object()
            .ok_or_else(|| fault("policy", "expected an object".to_string()))?;
        let member = |name: &str| {
            members
                .get(name)
                .ok_or_else(|| fault(name, "is missing".to_string()))
        };
        if let Some(unknown) = members.keys().find(|name| {
            ![
                "version",
                "id",
                "hash",
                "allow_writes",
                "deny_writes",
                "bash",
            ]
            .contains(&name.as_str())
        }) {
            return Err(fault(unknown, "no such member".to_string()));
        }
        if member("version")?.as_u64() != Some(1) {
            return Err(fault("version", "is not supported; it is 1".to_string()));
        }
        let id = member("id")?
            .as_str()
            .ok_or_else(|| fault("id", "expected a text".to_string()))?;
        let policy = Self::build(
            id.to_string(),
            read_rules_up_to("allow_writes", member("allow_writes")?, MOST_RULES)?,
            read_rules_up_to(
                "deny_writes",
                member("deny_writes")?,
                2 * MOST_RULES + IMPLICIT_DENIES.len(),
            )?,
            read_shell(Some(member("bash")?))?,
        );
        let stored = member("hash")?.as_str().unwrap_or_default();
        if stored != policy.hash.to_string() {
            let reason = format!(
                "metadata_hash_mismatch: `{stored}` is stored, `{}` is computed",
                policy.hash
            );
            return Err(fault("hash", reason));
        }
        Ok(policy)
    }

    pub(super) fn build(id: String, allow: Vec<Rule>, deny: Vec<Rule>, shell: Shell) -> Self {
        let mut unique: Vec<Rule> = Vec::with_capacity(deny.len());
        for rule in deny {
            if !unique.contains(&rule) {
                unique.push(rule);
            }
        }
        let mut policy = Self {
            id,
            allow,
            deny: unique,
            shell,
            hash: Hash::of(b""),
        };
        policy.hash = Hash::of(policy.hashed().to_string().as_bytes());
        policy
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// SHA-256 over its compact JSON with sorted members `allow_writes`, `bash`, `deny_writes`, `id`, `version`.
    #[must_use]
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// Which commands it lets run.
    #[must_use]
    pub fn shell(&self) -> &Shell {
        &self.shell
    }

    /// Its allowing rules as text.
    #[must_use]
    pub fn allow_texts(&self) -> Vec<String> {
        texts(&self.allow)
    }

    /// Version, id, hash and rules: what an allowing decision and a settings entry record.
    #[must_use]
    pub fn metadata(&self) -> Value {
        let Value::Object(mut members) = self.hashed() else {
            return Value::Null;
        };
        members.insert("hash".to_string(), self.hash.to_string().into());
        Value::Object(members)
    }

    /// What it says to a path relative to the workspace: built-in protection, denials, allowances, else no.
    #[must_use]
    pub fn rule_on(&self, path: &[String]) -> Ruling<'_> {
        if let Some(pattern) = built_in(path) {
            return Ruling::Protected(pattern);
        }
        if let Some(rule) = self.deny.iter().find(|rule| rule.denies(path)) {
            return Ruling::Denied(rule);
        }
        match self.allow.iter().find(|rule| rule.allows(path)) {
            Some(rule) => Ruling::Allowed(rule),
            None => Ruling::NoMatch,
        }
    }

    /// A policy for a child: its own allowances and commands, each inside of this one's, and the denials of both.
    ///
    /// # Errors
    /// When a rule or command of the child reaches further.
    pub fn narrow(&self, child: &Self) -> Result<Self, NotWithin> {
        let not_within = |rule: &str| NotWithin {
            rule: rule.to_string(),
            parent_allow: self.allow_texts(),
        };
        let wide = child
            .allow
            .iter()
            .find(|rule| !self.allow.iter().any(|outer| outer.contains(rule)));
        if let Some(rule) = wide {
            return Err(not_within(rule.text()));
        }
        if let Shell::Verify { commands, .. } = &child.shell {
            let ours: &[String] = match &self.shell {
                Shell::Verify { commands, .. } => commands,
                Shell::Disabled => &[],
            };
            if let Some(command) = commands.iter().find(|command| !ours.contains(command)) {
                return Err(not_within(command));
            }
        }
        let deny = self.deny.iter().chain(&child.deny).cloned().collect();
        Ok(Self::build(
            child.id.clone(),
            child.allow.clone(),
            deny,
            child.shell.clone(),
        ))
    }

    fn hashed(&self) -> Value {
        json!({
            "allow_writes": texts(&self.allow), "bash": self.shell.value(), "deny_writes": texts(&self.deny), "id": self.id, "version": 1,
        })
    }
}

impl Shell {
    fn value(&self) -> Value {
        match self {
            Self::Disabled => "disabled".into(),
            Self::Verify { commands, prefixes } => {
                let mut members = Map::new();
                members.insert("verify".to_string(), json!(commands));
                if let Some(prefixes) = prefixes {
                    members.insert("verify_prefixes".to_string(), json!(prefixes));
                }
                Value::Object(members)
            }
        }
    }
}

/// The built-in pattern that protects the path, in any letter case. `.git` counts in every folder.
fn built_in(path: &[String]) -> Option<&'static str> {
    path.iter().enumerate().find_map(|(at, name)| {
        let name = fold(name);
        match name.as_str() {
            ".countersign" if at == 0 => Some(IMPLICIT_DENIES[0]),
            ".git" if at == 0 => Some(IMPLICIT_DENIES[1]),
            ".git" => Some("**/.git/**"),
            name if name.starts_with(".env") => Some(IMPLICIT_DENIES[2]),
            "secrets" => Some(IMPLICIT_DENIES[3]),
            _ => None,
        }
    })
}

fn texts(rules: &[Rule]) -> Vec<String> {
    rules.iter().map(|rule| rule.text().to_string()).collect()
}
