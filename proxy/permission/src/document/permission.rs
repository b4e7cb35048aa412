//! `countersign.permission/1`: what one agent may do, with which limits, until when.

use serde::{Deserialize, Serialize};

use super::{
    Body, BookTerms, ExecutorId, ExecutorKey, Id, KeyPrefix, Name, PolicyTerms, ServerTerms, Time,
    check_distinct, check_text,
};
use crate::{Hash, Mode, Reason, Refusal};

/// Days a permission lives where nothing else is asked for.
pub const USUAL_LIFE_DAYS: u32 = 90;

/// Days a permission can live.
pub const LONGEST_LIFE_DAYS: u32 = 365;

/// Longest purpose, in characters.
const LONGEST_PURPOSE: usize = 280;

const DAY: i64 = 86_400;

/// `countersign.permission/1`: the only thing that grants anything, once signed.
///
/// ```json
/// {"type":"countersign.permission/1","id":"…","executor":{"id":"…","key":"ed25519:…"},"keyring":{"seq":1,"head":"sha256:…"},
///  "agent":{"name":"…","key":"csk_…"},"supersedes":"sha256:…","issued_at":"…","not_before":"…","expires_at":"…",
///  "servers":[…],"mode":"auto","book":{"origin":"…","reads":true},"purpose":"…"}
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermissionDocument {
    /// 16 random bytes of the executor.
    pub id: Id,
    /// The executor it holds in.
    pub executor: ExecutorRef,
    /// The keyring as it stood.
    pub keyring: KeyringRef,
    /// The agent it is for.
    pub agent: AgentRef,
    /// The permission of this agent that stood before, in force or not; absent for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<Hash>,
    /// When it was made.
    pub issued_at: Time,
    /// First moment it holds.
    pub not_before: Time,
    /// First moment it no longer holds.
    pub expires_at: Time,
    /// What it grants; an empty list grants nothing.
    pub servers: Vec<ServerTerms>,
    /// How the agent's writes are treated as a whole.
    pub mode: Mode,
    /// When the agent's key ends; with the permission where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_expires_at: Option<Time>,
    /// The scopes the agent has; those of all granted tools where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// The folder the agent works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Bounded writes; none where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_policy: Option<PolicyTerms>,
    /// Idle minutes after which a turn without a strike ends; never where absent.
    #[serde(default, skip_serializing_if = "never")]
    pub turn_idle_minutes: u32,
    /// What the book keeps.
    pub book: BookTerms,
    /// What the person says it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
}

/// Which executor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecutorRef {
    /// Its id.
    pub id: ExecutorId,
    /// The key that signs its book.
    pub key: ExecutorKey,
}

/// Which state of the keyring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyringRef {
    /// Number of the last change, from 1.
    pub seq: u64,
    /// The hash of the last change.
    pub head: Hash,
}

/// Which agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentRef {
    /// Its name in executor.json.
    pub name: Name,
    /// The public prefix of its key.
    pub key: KeyPrefix,
}

impl Body for PermissionDocument {
    const TYPE: &'static str = "countersign.permission/1";

    fn check(&self) -> Result<(), Refusal> {
        check_distinct(
            "servers",
            self.servers.iter().map(|server| server.name.as_str()),
        )?;
        self.servers.iter().try_for_each(ServerTerms::check)?;
        if let Some(scopes) = &self.scopes {
            check_distinct("scopes", scopes.iter().map(String::as_str))?;
            scopes
                .iter()
                .try_for_each(|scope| check_text("scopes", scope, 256))?;
        }
        if let Some(purpose) = &self.purpose {
            check_text("purpose", purpose, LONGEST_PURPOSE)?;
        }
        check_text("book.origin", &self.book.origin, 256)?;
        if self.not_before < self.issued_at || self.expires_at <= self.not_before {
            return Err(Reason::Times.because(
                "`issued_at` is not after `not_before`, and `not_before` is before `expires_at`",
            ));
        }
        if self.expires_at.seconds_after(self.issued_at) > i64::from(LONGEST_LIFE_DAYS) * DAY {
            return Err(Reason::Times.because(format!(
                "a permission lives at most {LONGEST_LIFE_DAYS} days"
            )));
        }
        Ok(())
    }
}

impl PermissionDocument {
    /// The terms of `server`, if any.
    #[must_use]
    pub fn server(&self, server: &str) -> Option<&ServerTerms> {
        self.servers
            .iter()
            .find(|terms| terms.name.as_str() == server)
    }
}

fn never(minutes: &u32) -> bool {
    *minutes == 0
}
