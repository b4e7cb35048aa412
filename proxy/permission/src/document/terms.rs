//! What a permission says of a server and its tools: the effective settings, as they are signed. Plain data in their one spelling.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Name, check_distinct, check_text};
use crate::{
    Approval, ArgumentLimit, CallLimits, Danger, Hash, Kind, Rate, Reason, Refusal, Validation,
};

/// Longest name of a tool, scope or method, in characters.
const LONGEST_NAME: usize = 256;

/// One server and what of it is granted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerTerms {
    /// Its name in executor.json.
    pub name: Name,
    /// The hash of its [`crate::ServerIdentity`].
    pub identity: Hash,
    /// Its working folder; the executor's own where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Setting>,
    /// Headers sent to it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Setting>,
    /// Requests of the server to the client that pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass: Vec<Pass>,
    /// Client methods outside the specification's list that pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// Whether members of a definition beyond the specification's are shown.
    #[serde(default, skip_serializing_if = "is_default")]
    pub other_members: OtherMembers,
    /// Whether the server is told who calls.
    #[serde(default, skip_serializing_if = "is_default")]
    pub context: bool,
    /// The tools that are granted, and no other.
    pub tools: Vec<ToolTerms>,
}

/// One tool as it is granted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolTerms {
    /// Its name as the server gives it.
    pub name: String,
    /// SHA-256 of the RFC 8785 form of its name, description, input schema and annotations.
    pub definition: Hash,
    /// Whether it changes anything.
    pub kind: Kind,
    /// The scope it needs; `<server>:<kind>` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// When a call is dangerous; never where absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub danger: Danger,
    /// Who says yes to a dangerous call; nobody but the agent where absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub approval: Approval,
    /// Whether a mismatch with the schema is refused; it is where absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub validation: Validation,
    /// Whether arguments beyond the schema pass.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open_arguments: bool,
    /// Which arguments are paths; not known where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<PathTerm>>,
    /// How a call is previewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<PreviewTerm>,
    /// How often it may be called.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: LimitTerms,
    /// What its arguments may be; all of these hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<LimitTerm>,
    /// The longest list it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u64>,
    /// The largest arguments it takes, in bytes; 2 000 000 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// What a call costs; by its size where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Whether a repeated call may be answered from its first answer.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub replay: bool,
    /// Whether a write waits until a copy has its entry.
    #[serde(default, skip_serializing_if = "is_default")]
    pub require_copy: bool,
    /// Who may call it; agents with a key where absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub audience: Audience,
    /// The argument that names a public caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_token: Option<String>,
}

/// A value of an environment variable or header: text, or the place of a secret, never the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The text itself.
    Text(String),
    /// `{"secret":"<server>/<KEY>"}`.
    Secret(String),
}

/// A kind of request that a server sends to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// Which folders the client works in.
    Roots,
    /// Text from the client's model.
    Sampling,
    /// A question to the person.
    Elicitation,
}

/// What happens to members of a definition beyond the specification's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtherMembers {
    /// They pass and are part of the definition.
    #[default]
    Allow,
    /// They are left out.
    Deny,
}

/// Who may call a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// Agents with a key.
    #[default]
    Agent,
    /// Anybody, over HTTP.
    Public,
}

/// One argument that is a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathTerm {
    /// Where in the arguments (RFC 6901; `*` is every element of a list).
    pub pointer: String,
    /// What the tool does there.
    pub effect: PathEffect,
}

/// What a tool does to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathEffect {
    /// Reads it.
    Read,
    /// Makes it, and leaves what lies below an existing one alone.
    Create,
    /// Writes, moves or removes it, with all below it.
    Write,
    /// Runs it: a command line, or a program and its arguments as list.
    Command,
    /// The folder a command runs in.
    Folder,
}

/// How a call is previewed: by the server's own argument, or by reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreviewTerm {
    /// The tool's own dry-run argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument: Option<PreviewArgument>,
    /// Reads whose answers are the current values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<PreviewRead>,
    /// What to compare them with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<PreviewDiff>,
}

/// A tool's own dry-run argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreviewArgument {
    /// Where in the arguments.
    pub pointer: String,
    /// The value that means a dry run.
    pub value: Value,
}

/// One read of a preview.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreviewRead {
    /// The read tool.
    pub tool: String,
    /// Its arguments; `{"from":"/pointer"}` takes the call's own.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
}

/// What to compare current values with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreviewDiff {
    /// Where in the arguments the new value is.
    pub new: String,
}

/// How often a tool may be called under one permission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitTerms {
    /// Calls over the permission's whole life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u64>,
    /// Calls over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// One limit on an argument, as a document spells it.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitTerm(pub ArgumentLimit);

/// What a call costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// So many units.
    Units(u32),
    /// As many units as the list at this pointer is long.
    Per(String),
}

/// Bounded writes: which paths may be written. The gate reads the rules; here they are texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyTerms {
    /// The version of the policy's form.
    pub version: u32,
    /// What a person says about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Rules of paths that may be written.
    pub allow_writes: Vec<String>,
    /// Rules of paths that may not.
    pub deny_writes: Vec<String>,
    /// Which shell commands may run: `"disabled"` or an object of declared ones.
    pub shell: Value,
}

/// What the book keeps of this agent's work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BookTerms {
    /// The origin of the book.
    pub origin: String,
    /// Whether reads are recorded.
    pub reads: bool,
    /// Whether arguments and results are kept or only committed to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub payloads: Payloads,
    /// How many days entries stay; for ever where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retain: Option<u32>,
    /// Whether the book may lie where locks and flushes cannot be relied on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_network_folder: bool,
}

/// What happens to arguments and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payloads {
    /// Kept encrypted beside the book.
    #[default]
    Keep,
    /// Committed to, not kept.
    Digest,
}

impl ServerTerms {
    /// Judges names, duplicates and every tool.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let methods = self.methods.iter().map(String::as_str);
        check_distinct("methods", methods)?;
        check_distinct("pass", self.pass.iter().map(|pass| pass.word()))?;
        check_distinct("tools", self.tools.iter().map(|tool| tool.name.as_str()))?;
        self.methods
            .iter()
            .try_for_each(|method| check_text("methods", method, LONGEST_NAME))?;
        self.tools.iter().try_for_each(ToolTerms::check)
    }
}

impl ToolTerms {
    /// The terms of a tool of which only this is said.
    #[must_use]
    pub fn plain(name: impl Into<String>, definition: Hash, kind: Kind) -> Self {
        Self {
            name: name.into(),
            definition,
            kind,
            scope: None,
            danger: Danger::Never,
            approval: Approval::None,
            validation: Validation::Strict,
            open_arguments: false,
            paths: None,
            preview: None,
            limits: LimitTerms::default(),
            arguments: Vec::new(),
            max_items: None,
            max_bytes: None,
            cost: None,
            replay: true,
            require_copy: false,
            audience: Audience::Agent,
            client_token: None,
        }
    }

    /// The scope it needs on `server`.
    #[must_use]
    pub fn scope_on(&self, server: &str) -> String {
        match (&self.scope, self.kind) {
            (Some(scope), _) => scope.clone(),
            (None, Kind::Read) => format!("{server}:read"),
            (None, Kind::Write) => format!("{server}:write"),
        }
    }

    fn check(&self) -> Result<(), Refusal> {
        check_text("name", &self.name, LONGEST_NAME)?;
        if let Some(scope) = &self.scope {
            check_text("scope", scope, LONGEST_NAME)?;
        }
        let pointers = self
            .paths
            .iter()
            .flatten()
            .map(|path| path.pointer.as_str());
        let preview = self.preview.iter();
        let previewed = preview.clone().filter_map(|preview| {
            let argument = preview.argument.as_ref();
            argument.map(|argument| argument.pointer.as_str())
        });
        let compared = preview
            .filter_map(|preview| preview.diff.as_ref())
            .map(|diff| diff.new.as_str());
        let counted = self.cost.iter().filter_map(|cost| match cost {
            Cost::Per(pointer) => Some(pointer.as_str()),
            Cost::Units(_) => None,
        });
        for pointer in pointers.chain(previewed).chain(compared).chain(counted) {
            if !crate::limits::is_pointer(pointer) {
                let name = &self.name;
                return Err(
                    Reason::Rule.because(format!("tool `{name}`: `{pointer}` is no JSON Pointer"))
                );
            }
        }
        if self.limits.rate.is_some_and(|rate| rate.per_seconds == 0) {
            return Err(
                Reason::Rule.because(format!("tool `{}`: a rate over 0 seconds", self.name))
            );
        }
        Ok(())
    }
}

impl Pass {
    /// The word it is written as.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Roots => "roots",
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
        }
    }
}

impl PathEffect {
    /// The word it is written as.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Create => "create",
            Self::Write => "write",
            Self::Command => "command",
            Self::Folder => "folder",
        }
    }
}

impl LimitTerms {
    /// The limits as the gate counts them.
    #[must_use]
    pub fn counted(self) -> CallLimits {
        CallLimits {
            max_calls: self.max_calls,
            rate: self.rate,
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}
