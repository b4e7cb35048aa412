//! What a permission says once it is read: which servers and tools, with which limits, until when.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::{ArgumentLimit, CallLimits, Hash, Kind, Mode};

/// Where a permission takes its force from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// Nobody signed it: recomputed from executor.json, only with `--development`. Never satisfies `approval: passkey`.
    Development,
    /// A person's passkey signed the document.
    Signed,
}

/// The permission of one agent. The only thing that grants anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Permission {
    /// Where its force comes from.
    pub authority: Authority,
    /// SHA-256 of its canonical form; named in every decision made under it and the key its uses are counted under.
    pub document: Hash,
    /// The agent it is for.
    pub agent: String,
    /// The scopes it grants.
    pub scopes: BTreeSet<String>,
    /// What it grants, by server name.
    pub servers: BTreeMap<String, ServerGrant>,
    /// How writes are treated as a whole.
    pub mode: Mode,
    /// First moment it holds; `None` means always.
    pub not_before: Option<Timestamp>,
    /// First moment it no longer holds; `None` (development only) means never.
    pub expires_at: Option<Timestamp>,
}

/// What a permission grants on one server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerGrant {
    /// The pinned identity; `None` only in the development permission.
    pub identity: Option<Hash>,
    /// Its tools.
    pub tools: Tools,
}

/// The tools granted on one server.
#[derive(Clone, Debug, PartialEq)]
pub enum Tools {
    /// Development: every tool; those with settings of their own are held to them.
    Every(BTreeMap<String, ToolGrant>),
    /// Signed: these and no other.
    Listed(BTreeMap<String, ToolGrant>),
}

/// What a permission grants on one tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolGrant {
    /// The definition it was granted for.
    pub pin: Pin,
    /// The kind it was granted as.
    pub kind: Kind,
    /// How often.
    pub limits: CallLimits,
    /// With which arguments.
    pub arguments: Vec<ArgumentLimit>,
}

/// The tool definition a grant is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Development: the definition the executor saw first (it keeps those).
    FirstSeen,
    /// Signed: exactly this one.
    Definition(Hash),
}

impl ToolGrant {
    /// The development grant of a tool executor.json says nothing about: a write, unlimited.
    pub const UNSET: Self = Self {
        pin: Pin::FirstSeen,
        kind: Kind::Write,
        limits: CallLimits {
            max_calls: None,
            rate: None,
        },
        arguments: Vec::new(),
    };
}

impl Permission {
    /// What is granted on `tool` of `server`, if anything.
    #[must_use]
    pub fn grant(&self, server: &str, tool: &str) -> Option<&ToolGrant> {
        const UNSET: &ToolGrant = &ToolGrant::UNSET;
        match &self.servers.get(server)?.tools {
            Tools::Every(set) => Some(set.get(tool).unwrap_or(UNSET)),
            Tools::Listed(set) => set.get(tool),
        }
    }

    /// The words shown wherever this permission is named: `(development)`, or nothing for a signed one.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self.authority {
            Authority::Development => "(development)",
            Authority::Signed => "",
        }
    }
}
