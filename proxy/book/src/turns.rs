//! The kinds of entries about an agent's turns and about what the person decides on held calls, and what a write policy looked at in a
//! `decision`. Refuses to know the two-strike rule.

use serde::{Deserialize, Serialize};

use crate::entry::Count;
use crate::kinds::Actor;
use crate::tree::Hash;

/// `turn.open`: a turn of an agent began. A second entry of the same agent, turn and kind says nothing new: the first counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnOpen {
    /// The agent.
    pub agent: String,
    /// When it began, RFC 3339; the entry may be written later.
    pub at: String,
    /// The command or program a person opened it with; none where the agent's first call did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
    /// Why: `first_call`, `person_app`, `person_command`, `person_hook`.
    pub reason: String,
    /// The turn's number, from 1 for each agent.
    pub turn: Count,
}

/// `turn.close`: a turn ended without a second strike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnClose {
    /// The agent.
    pub agent: String,
    /// When, RFC 3339.
    pub at: String,
    /// The command or program of the person who ended it; none where it was idle.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<String>,
    /// Why: `idle`, `person_app`, `person_command`, `person_hook`.
    pub reason: String,
    /// The turn's number.
    pub turn: Count,
}

/// `turn.failed`: a second strike latched a turn. The denial is the `decision` before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnFailed {
    /// The agent.
    pub agent: String,
    /// When, RFC 3339.
    pub at: String,
    /// Why: `write_policy_denied`.
    pub reason: String,
    /// The turn's number.
    pub turn: Count,
}

/// What is decided about a held call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decided {
    /// It may run once.
    Approve,
    /// It may not.
    Decline,
    /// Its agent took it back.
    Withdraw,
}

/// `approval`: what was decided about a held call, before it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// Who decided.
    pub actor: Actor,
    /// The agent whose call it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<String>,
    /// The approval's id, as `outcome` and `call` entries carry it.
    pub approval: String,
    /// When it was decided, RFC 3339; the entry may be written later.
    pub at: String,
    /// SHA-256 of the signed document's canonical form; none where no signature was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hash: Option<Hash>,
    /// SHA-256 of its proof (signature envelope) in `signed/`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub proof: Option<Hash>,
    /// The server.
    pub server: String,
    /// The tool, as the server names it.
    pub tool: String,
    /// What was decided.
    pub verdict: Decided,
    /// The command, program or tool it was decided with.
    pub via: String,
}

/// What a write policy looked at, in a `decision` of gate `write_policy`. Every text as the call wrote it, cut by the writer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// The pattern, rule or class of rule that matched.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub matched_rule: Option<String>,
    /// The first path, relative to the workspace where it lies inside; of a tool without paths its name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub normalized_path: Option<String>,
    /// Further refused paths of the same call.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub other_paths: Vec<String>,
    /// The policy's name. Its hash is the decision's `policy`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy_id: Option<String>,
    /// The version of the policy's form.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy_version: Option<Count>,
    /// The command that was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requested_command: Option<String>,
    /// The first path as the call named it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requested_path: Option<String>,
    /// The link on the way.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub symlink_component: Option<String>,
    /// The word of the command that leads outside.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token: Option<String>,
    /// The tool, as the server names it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<String>,
    /// The name on the way that could not be looked at.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub uninspectable_component: Option<String>,
}
