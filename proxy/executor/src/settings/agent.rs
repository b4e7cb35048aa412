//! One agent's members as they are written. Knows nothing of keys beyond their public prefix.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// One agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentEntry {
    /// The public prefix of its key, `csk_` + 8 characters.
    pub key: String,
    /// The servers it may use; all where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
    /// The scopes it has; all of its servers' where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// When its key ends (RFC 3339); never where absent.
    #[serde(default)]
    pub expires_at: Option<String>,
    /// Whether its calls go through, are asked for, or may only read.
    #[serde(default)]
    pub mode: Mode,
    /// Whether every write waits for the person.
    #[serde(default)]
    pub requires_approval: bool,
    /// The folder it works in.
    #[serde(default)]
    pub workspace: Option<String>,
    /// Bounded writes; none where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_policy: Option<WritePolicyEntry>,
    /// After how many idle minutes a turn without a strike ends; 0 is never.
    #[serde(default)]
    pub turn_idle_minutes: u32,
}

/// What happens to an agent's calls by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// They go through.
    #[default]
    Auto,
    /// Every write waits for the person.
    Ask,
    /// Writes are refused.
    ReadOnly,
}

/// Bounded writes: which paths may be written. The rules' own grammar is the write policy's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WritePolicyEntry {
    /// The version of the policy's form: 1.
    pub version: u32,
    /// What a person wants to say about it; `id` names the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Map<String, Value>>,
    /// Rules of paths that may be written, at most 100.
    pub allow_writes: Vec<String>,
    /// Rules of paths that may not, at most 100.
    #[serde(default)]
    pub deny_writes: Vec<String>,
    /// Which shell commands may run.
    #[serde(default)]
    pub shell: Shell,
}

/// Which shell commands may run under a write policy.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Shell {
    /// Only those on the safe list.
    #[default]
    Disabled,
    /// Those on the safe list and the ones declared here.
    Verify(serde_json::Map<String, Value>),
}

impl<'de> Deserialize<'de> for Shell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shell, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(word) if word == "disabled" => Ok(Shell::Disabled),
            Value::Object(map) => Ok(Shell::Verify(map)),
            _ => Err(D::Error::custom(
                "expected `disabled` or an object of declared commands",
            )),
        }
    }
}

impl Serialize for Shell {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Shell::Disabled => serializer.serialize_str("disabled"),
            Shell::Verify(map) => map.serialize(serializer),
        }
    }
}

impl JsonSchema for Shell {
    fn schema_name() -> Cow<'static, str> {
        "Shell".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "description": "Which shell commands may run under the write policy.",
            "anyOf": [{"const": "disabled"}, {"type": "object"}]
        })
    }
}
