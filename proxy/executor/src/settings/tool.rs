//! One tool's members as they are written; what is left out is filled by the preset, then by the defaults. Knows no schema of the tool itself.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// What is set for one tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolEntry {
    /// `read` for a tool that changes nothing. A tool without it is a write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Whether no agent sees it. Hiding counts at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// The scope it needs; `<server>:read` or `<server>:write` where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// When a call of it is dangerous.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub danger: Option<Danger>,
    /// Who says yes to a dangerous call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Which arguments are paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<PathEntry>>,
    /// How a call is previewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<PreviewEntry>,
    /// How often it may be called under one permission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ToolLimitsEntry>,
    /// What its arguments may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Vec<ArgumentEntry>>,
    /// The longest list it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u32>,
    /// The largest arguments it takes, in bytes; 2 MB where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// What a call costs, in units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Whether a repeated call may be answered from its first answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<bool>,
    /// Whether wrong arguments are refused or only recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Validation>,
    /// Whether arguments beyond the schema pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_arguments: Option<bool>,
    /// Whether a write waits until a copy has its entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_copy: Option<bool>,
    /// Who may call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<Audience>,
    /// The argument that names a public caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_token: Option<String>,
    /// What it does, in plain words for a person ("write a file").
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verb: Option<String>,
}

/// Whether a tool changes anything.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It changes nothing.
    Read,
    /// It may change something.
    Write,
}

/// When a call is dangerous.
#[derive(Debug, Clone, PartialEq)]
pub enum Danger {
    /// Never.
    Never,
    /// Always.
    Always,
    /// When its arguments match this JSON Schema.
    When(Map<String, Value>),
}

/// Who says yes to a dangerous call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// The agent itself, by repeating the call with its code.
    None,
    /// The person.
    Person,
    /// The person, signing with a passkey.
    Passkey,
}

/// One argument that is a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathEntry {
    /// Where in the arguments (RFC 6901; `*` is every element of a list).
    pub pointer: String,
    /// What the tool does there.
    pub effect: Effect,
}

/// What a tool does to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Reads it.
    Read,
    /// Makes it, and leaves what lies below an existing one alone.
    Create,
    /// Writes, moves or removes it, with all below it.
    Write,
    /// Runs it: a shell command line, or a program and its arguments as list.
    Command,
    /// The folder a command runs in.
    Folder,
}

/// How a call is previewed: by the server's own argument, or by reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PreviewEntry {
    /// The tool's own dry-run argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument: Option<PreviewArgument>,
    /// Reads whose answers are the current values.
    pub reads: Vec<PreviewRead>,
    /// What to compare them with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<PreviewDiff>,
}

/// A tool's own dry-run argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewArgument {
    /// Where in the arguments.
    pub pointer: String,
    /// The value that means a dry run.
    pub value: Value,
}

/// One read of a preview.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewRead {
    /// The read tool.
    pub tool: String,
    /// Its arguments; `{"from": "/pointer"}` takes the call's own, with `*` in the pointer a list of them.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// Where in the call's arguments a value has to be for this read; where absent, the read is always done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Members of the JSON document in the answer that change without meaning (RFC 6901; `*` is every element of a list).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Where in the JSON document in the answer the text is that is compared; the whole answer where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What to compare current values with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewDiff {
    /// Where in the arguments the new value is.
    pub new: String,
}

/// How often a tool may be called under one permission.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolLimitsEntry {
    /// At most this often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u64>,
    /// At most so often in a span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateEntry>,
}

/// At most `max` calls in `per_seconds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateEntry {
    /// The span, in seconds.
    pub per_seconds: u32,
    /// How many calls.
    pub max: u32,
}

/// What one argument may be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArgumentEntry {
    /// Where in the arguments (RFC 6901).
    pub pointer: String,
    /// The comparison.
    pub op: Op,
    /// What to compare with; none for `absent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// A comparison of one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Is this value.
    Equals,
    /// Is one of these values.
    In,
    /// Starts with this text; for a path, lies below it.
    Prefix,
    /// Is at most this.
    Max,
    /// Is at least this.
    Min,
    /// Has at most so many characters.
    MaxLength,
    /// Has at most so many elements.
    MaxItems,
    /// Is not there.
    Absent,
}

/// What a call costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cost {
    /// So many units.
    Units(u32),
    /// As many units as the list at this pointer is long.
    Per(String),
}

/// What happens to arguments that don't match the schema.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Validation {
    /// They are refused.
    Strict,
    /// They pass and are recorded.
    Warn,
}

/// Who may call a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Audience {
    /// Agents with a key.
    Agent,
    /// Anybody, over HTTP.
    Public,
}

impl Op {
    /// The word it is written as.
    pub fn word(self) -> &'static str {
        match self {
            Op::Equals => "equals",
            Op::In => "in",
            Op::Prefix => "prefix",
            Op::Max => "max",
            Op::Min => "min",
            Op::MaxLength => "max_length",
            Op::MaxItems => "max_items",
            Op::Absent => "absent",
        }
    }
}

impl<'de> Deserialize<'de> for Danger {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Danger, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(word) if word == "never" => Ok(Danger::Never),
            Value::String(word) if word == "always" => Ok(Danger::Always),
            Value::Object(schema) => Ok(Danger::When(schema)),
            _ => Err(D::Error::custom(
                "expected `never`, `always` or a JSON Schema over the arguments",
            )),
        }
    }
}

impl Serialize for Danger {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Danger::Never => serializer.serialize_str("never"),
            Danger::Always => serializer.serialize_str("always"),
            Danger::When(schema) => schema.serialize(serializer),
        }
    }
}

impl JsonSchema for Danger {
    fn schema_name() -> Cow<'static, str> {
        "Danger".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "description": "When a call is dangerous: `never`, `always`, or when its arguments match a JSON Schema.",
            "anyOf": [{"enum": ["never", "always"]}, {"type": "object"}]
        })
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cost, D::Error> {
        let wrong =
            || D::Error::custom("expected a whole number from 1 on, or {\"per\": \"/pointer\"}");
        match Value::deserialize(deserializer)? {
            Value::Number(units) => {
                let units = units
                    .as_u64()
                    .and_then(|units| u32::try_from(units).ok())
                    .filter(|units| *units > 0);
                units.map(Cost::Units).ok_or_else(wrong)
            }
            Value::Object(map) if map.len() == 1 => match map.get("per") {
                Some(Value::String(pointer)) => Ok(Cost::Per(pointer.clone())),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cost::Units(units) => serializer.serialize_u32(*units),
            Cost::Per(pointer) => serializer.collect_map([("per", pointer)]),
        }
    }
}

impl JsonSchema for Cost {
    fn schema_name() -> Cow<'static, str> {
        "Cost".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "description": "What a call costs: so many units, or as many as the list at `per` is long.",
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": u32::MAX},
                {"type": "object", "properties": {"per": {"type": "string"}}, "required": ["per"], "additionalProperties": false}
            ]
        })
    }
}
