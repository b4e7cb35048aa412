//! Token buckets: ids, sizes, and the values a transport shows. The arithmetic is `bucket`'s, where they are kept the store's.

use serde::{Deserialize, Serialize};
use serde_json::json;

/// Which bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BucketId {
    /// One per key, by its visible prefix.
    Key(String),
    /// One per person.
    Person(String),
    /// One per network: IPv4 /32, IPv6 /64, in text.
    Network(String),
    /// One per client token of a public tool.
    Token(String),
}

impl BucketId {
    /// The policy's name in headers, and the class in the store: `key`, `person`, `network`, `token`.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Key(_) => "key",
            Self::Person(_) => "person",
            Self::Network(_) => "network",
            Self::Token(_) => "token",
        }
    }

    /// Whose, within its class.
    #[must_use]
    pub fn owner(&self) -> &str {
        match self {
            Self::Key(owner) | Self::Person(owner) | Self::Network(owner) | Self::Token(owner) => {
                owner
            }
        }
    }
}

/// A configured size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketSize {
    /// Units a full one holds.
    pub size: u32,
    /// Units that flow in per minute.
    pub per_minute: u32,
}

/// The configured sizes of all four classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buckets {
    /// Per key.
    pub key: BucketSize,
    /// Per person.
    pub person: BucketSize,
    /// Per network.
    pub network: BucketSize,
    /// Per client token.
    pub token: BucketSize,
}

impl Default for Buckets {
    fn default() -> Self {
        let both = |units| BucketSize {
            size: units,
            per_minute: units,
        };
        Self {
            key: both(120),
            person: both(120),
            network: both(60),
            token: both(30),
        }
    }
}

/// How a charge went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    /// Whether the units were taken.
    pub taken: bool,
    /// Whole units left.
    pub remaining: u32,
    /// Seconds until it is full again.
    pub reset_seconds: u64,
    /// Where it was not taken: seconds until it could be. 0 otherwise.
    pub retry_seconds: u64,
}

/// How the limiter stood when an answer was made. On every answer that reached the limiter, on no other (R5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateState {
    /// The bucket's class.
    pub policy: &'static str,
    /// Its size.
    pub size: BucketSize,
    /// How it stands.
    pub charged: Charged,
}

impl RateState {
    /// `RateLimit` (draft-ietf-httpapi-ratelimit-headers): `"key";r=117;t=2`.
    #[must_use]
    pub fn header(&self) -> String {
        format!(
            "\"{}\";r={};t={}",
            self.policy, self.charged.remaining, self.charged.reset_seconds
        )
    }

    /// `RateLimit-Policy`: `"key";q=120;w=60`, the window being the time an empty bucket needs to fill.
    #[must_use]
    pub fn policy_header(&self) -> String {
        let window =
            (u64::from(self.size.size) * 60).div_ceil(u64::from(self.size.per_minute.max(1)));
        format!("\"{}\";q={};w={window}", self.policy, self.size.size)
    }

    /// `Retry-After` in seconds, where units were refused.
    #[must_use]
    pub fn retry_after(&self) -> Option<u64> {
        (!self.charged.taken).then_some(self.charged.retry_seconds)
    }

    /// The same values for MCP's `_meta`, under the key [`META_KEY`].
    #[must_use]
    pub fn meta(&self) -> serde_json::Value {
        let mut meta =
            json!({"RateLimit": self.header(), "RateLimit-Policy": self.policy_header()});
        if let Some(seconds) = self.retry_after() {
            meta["Retry-After"] = json!(seconds);
        }
        meta
    }
}

/// The `_meta` key for [`RateState::meta`].
pub const META_KEY: &str = "localhost.countersign/rate";
