//! The members of executor.json as they are written, with their defaults. Knows nothing of whether they fit together: `checked` does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agent::AgentEntry;
use super::named::Named;
use super::server::ServerEntry;

/// executor.json: the settings of one executor. Holds no secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SettingsFile {
    /// Where an editor finds this schema.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// The version of this file's format.
    pub version: u32,
    /// Who this executor is.
    pub executor: ExecutorEntry,
    /// Whether agents may call at all.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Where secrets are kept.
    pub secrets: SecretsKind,
    /// The upstream servers, by name. The first of two tools with one public name keeps it.
    #[serde(default)]
    pub servers: Named<ServerEntry>,
    /// The agents, by name.
    #[serde(default)]
    pub agents: Named<AgentEntry>,
    /// Tools that don't exist for anybody: `tool` or `server__tool`.
    #[serde(default)]
    pub disabled_tools: Vec<String>,
    /// Servers whose tools don't exist for anybody.
    #[serde(default)]
    pub disabled_servers: Vec<String>,
    /// Servers through which the person's own session may write.
    #[serde(default)]
    pub person_write_servers: Vec<String>,
    /// Sizes of the rate buckets.
    #[serde(default)]
    pub buckets: BucketsEntry,
    /// What the book keeps.
    #[serde(default)]
    pub book: BookEntry,
    /// Where the copies of the book are.
    #[serde(default)]
    pub copies: Vec<CopyEntry>,
    /// The page on which a person approves.
    #[serde(default)]
    pub approval: ApprovalEntry,
    /// Sizes and times that bound a connection.
    #[serde(default)]
    pub limits: LimitsEntry,
}

/// Who this executor is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutorEntry {
    /// A UUID, made once.
    pub id: String,
    /// A name for people.
    #[serde(default)]
    pub name: String,
    /// Whether an unsigned permission counts. Chosen at `init`, never switched on later.
    #[serde(default)]
    pub development: bool,
}

/// Where secrets are kept. There is no fall-back from one to the other.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum SecretsKind {
    /// The operating system's keychain.
    Keychain,
    /// `secrets.enc`, encrypted under a passphrase.
    File,
}

/// Sizes of the rate buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BucketsEntry {
    /// One for each agent's key.
    pub key: BucketEntry,
    /// One for each person.
    pub person: BucketEntry,
    /// One for each network of public callers.
    pub network: BucketEntry,
    /// One for each client token of public callers.
    pub token: BucketEntry,
}

/// One kind of bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BucketEntry {
    /// How many units it holds when full.
    pub size: u32,
    /// How many units flow back in a minute.
    pub per_minute: u32,
}

/// What the book keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BookEntry {
    /// Whether reads are recorded.
    #[serde(default = "yes")]
    pub reads: bool,
    /// Whether arguments and results are kept (encrypted) or only committed to.
    #[serde(default)]
    pub payloads: Payloads,
    /// How many days entries and what is kept of them stay: running executors remove what is older, on record, whole files at
    /// a time; for ever without.
    #[serde(default)]
    pub retain: Option<u32>,
    /// Whether the book may lie where locks and flushes can't be relied on: a network file system, a synchronised folder.
    #[serde(default)]
    pub allow_network_folder: bool,
}

/// What happens to arguments and results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Payloads {
    /// Kept encrypted beside the book.
    #[default]
    Keep,
    /// Committed to, not kept.
    Digest,
}

/// One copy of the book: a folder or a witness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CopyEntry {
    /// The folder it lies in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// How far away it is from the book.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grade: Option<Grade>,
    /// The witness's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<String>,
    /// The witness's verifier key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How far away a copy is from the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// The same disk.
    SameDisk,
    /// Another disk.
    OtherDisk,
    /// Another person, or storage that can't be overwritten.
    OtherPerson,
    /// Another operator, who countersigns.
    OtherOperator,
}

/// The page on which a person approves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalEntry {
    /// The passkeys' relying party.
    pub rp_id: String,
    /// The page's port on this machine.
    pub port: u16,
    /// How long an agent's request waits before it is answered `pending_approval`, in seconds.
    pub hold_seconds: u32,
}

/// Sizes and times that bound a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsEntry {
    /// Largest message each way, in bytes.
    pub frame_bytes: u64,
    /// Deepest nesting of a message.
    pub depth: u32,
    /// How long a server may take to start, in seconds.
    pub start_seconds: u32,
    /// How long a call may take, in seconds.
    pub call_seconds: u32,
}

impl SettingsFile {
    /// The version this program reads and writes.
    pub const VERSION: u32 = 1;
}

impl Default for BucketsEntry {
    fn default() -> Self {
        let bucket = |units| BucketEntry {
            size: units,
            per_minute: units,
        };
        BucketsEntry {
            key: bucket(120),
            person: bucket(120),
            network: bucket(60),
            token: bucket(30),
        }
    }
}

impl Default for BookEntry {
    fn default() -> Self {
        BookEntry {
            reads: true,
            payloads: Payloads::Keep,
            retain: None,
            allow_network_folder: false,
        }
    }
}

impl Default for ApprovalEntry {
    fn default() -> Self {
        ApprovalEntry {
            rp_id: "countersign.localhost".to_owned(),
            port: 47821,
            hold_seconds: 45,
        }
    }
}

impl Default for LimitsEntry {
    fn default() -> Self {
        LimitsEntry {
            frame_bytes: 16 << 20,
            depth: 128,
            start_seconds: 30,
            call_seconds: 300,
        }
    }
}

fn yes() -> bool {
    true
}
