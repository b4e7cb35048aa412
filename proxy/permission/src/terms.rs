//! The words a permission and a tool's settings share: kind, danger, approval, mode, limits. Plain data, no rule.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Whether a tool changes anything. Whatever is not exactly `read` is a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Looks, changes nothing.
    Read,
    /// May change something.
    Write,
}

impl Kind {
    /// The stricter of two: a write beats a read.
    #[must_use]
    pub fn stricter(self, other: Self) -> Self {
        if self == Self::Read {
            other
        } else {
            Self::Write
        }
    }
}

/// When a call of the tool needs a second step. Written `"never"`, `"always"` or as the schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Danger {
    /// Never.
    #[default]
    Never,
    /// Every call.
    Always,
    /// When the arguments match this JSON Schema.
    When(Value),
}

/// Who must say yes before a dangerous call runs; the later in this list, the stricter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Nobody: the agent confirms with a code.
    #[default]
    None,
    /// The person, in the app.
    Person,
    /// The person, with a passkey.
    Passkey,
}

/// How an agent's writes are treated as a whole; the later in this list, the stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// As each tool says.
    Auto,
    /// Every write waits for the person.
    Ask,
    /// No write runs.
    ReadOnly,
}

/// How strictly arguments are held to the tool's schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validation {
    /// A mismatch is refused.
    #[default]
    Strict,
    /// A mismatch is noted and the call goes on. Control fields are never relaxed.
    Warn,
}

/// At most `max` calls in any `per_seconds` seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Length of the window in seconds.
    pub per_seconds: u32,
    /// Calls allowed in it.
    pub max: u32,
}

/// How often a tool may be used under one permission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLimits {
    /// Uses over the permission's whole life.
    pub max_calls: Option<u64>,
    /// Uses over time.
    pub rate: Option<Rate>,
}

impl CallLimits {
    /// Whether there is anything to count.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.max_calls.is_none() && self.rate.is_none()
    }
}

impl Serialize for Danger {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Never => serializer.serialize_str("never"),
            Self::Always => serializer.serialize_str("always"),
            Self::When(schema) => schema.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Danger {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(word) if word == "never" => Ok(Self::Never),
            Value::String(word) if word == "always" => Ok(Self::Always),
            schema @ Value::Object(_) => Ok(Self::When(schema)),
            _ => Err(D::Error::custom(
                "expected `never`, `always` or a JSON Schema over the arguments",
            )),
        }
    }
}
