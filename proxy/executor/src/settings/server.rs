//! One server's members as they are written. Knows nothing of how a server is started.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error};
use serde::{Deserialize as DeserializeDerive, Serialize};
use serde_json::Value;

use super::named::Named;
use super::tool::ToolEntry;

/// One upstream server: `command` for a child process, or `url`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, DeserializeDerive, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerEntry {
    /// Whether it may be used. Off counts at once.
    pub enabled: Switch,
    /// The program to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its working folder; the executor's own where absent.
    pub cwd: Option<String>,
    /// Its environment, beside a resolved PATH.
    pub env: Named<Setting>,
    /// Its address, for a server over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers sent to it, for a server over HTTP.
    pub headers: Named<Setting>,
    /// What is known of this server's tools; fills what `tools` leaves out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// What makes it the same server: the resolved package, or only the command line.
    pub identity: Identity,
    /// Requests of the server to the client that pass.
    pub pass: Vec<Pass>,
    /// Client methods outside the specification's list that pass.
    pub methods: Vec<String>,
    /// Whether the tool list keeps the server's pages or becomes one.
    pub pages: Pages,
    /// Whether members of a tool's definition beyond the specification's are shown.
    pub other_members: OtherMembers,
    /// Whether the server is told who calls.
    pub context: bool,
    /// The server's own error codes, for REST.
    pub problems: Named<ProblemEntry>,
    /// What is set for single tools.
    pub tools: Named<ToolEntry>,
}

/// On unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, DeserializeDerive, JsonSchema)]
#[serde(transparent)]
pub struct Switch(pub bool);

/// A value of an environment variable or header: text, or the place of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setting {
    /// The text itself.
    Text(String),
    /// `{"secret": "<server>/<KEY>"}`.
    Secret(String),
}

/// What makes a server the same server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, DeserializeDerive, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Identity {
    /// Command, arguments and the resolved program or package with its digest.
    #[default]
    Package,
    /// The command line alone.
    Command,
}

/// A kind of request that a server sends to the client.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, DeserializeDerive, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Pass {
    /// Which folders the client works in.
    Roots,
    /// Text from the client's model.
    Sampling,
    /// A question to the person.
    Elicitation,
}

/// How the tool list is cut into pages.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Serialize,
    DeserializeDerive,
    JsonSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// As the server cuts it.
    #[default]
    Mirror,
    /// One page, for clients that read only the first.
    One,
}

/// What happens to members beyond the specification's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, DeserializeDerive, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OtherMembers {
    /// They pass and are part of the definition.
    #[default]
    Allow,
    /// They are left out.
    Deny,
}

/// What one of the server's own errors means over REST.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, DeserializeDerive, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProblemEntry {
    /// Our code for it.
    pub code: String,
    /// The HTTP status.
    pub status: u16,
}

impl Default for Switch {
    fn default() -> Self {
        Switch(true)
    }
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Setting, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Setting::Text(text)),
            Value::Object(map) if map.len() == 1 => match map.get("secret") {
                Some(Value::String(place)) => Ok(Setting::Secret(place.clone())),
                _ => Err(D::Error::custom(
                    "expected text or {\"secret\": \"<server>/<KEY>\"}",
                )),
            },
            _ => Err(D::Error::custom(
                "expected text or {\"secret\": \"<server>/<KEY>\"}",
            )),
        }
    }
}

impl Serialize for Setting {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Setting::Text(text) => serializer.serialize_str(text),
            Setting::Secret(place) => serializer.collect_map([("secret", place)]),
        }
    }
}

impl JsonSchema for Setting {
    fn schema_name() -> Cow<'static, str> {
        "Setting".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "description": "A text, or the place of a secret: `<server>/<KEY>`.",
            "anyOf": [
                {"type": "string"},
                {"type": "object", "properties": {"secret": {"type": "string"}}, "required": ["secret"], "additionalProperties": false}
            ]
        })
    }
}
