//! What is in force for one agent: a pure function of the recorded documents, the keyring, the time and executor.json. Grants only
//! what a trusted key signed, takes away at once what executor.json takes away, and says why.

pub(crate) mod meet;
#[cfg(test)]
mod model;
pub(crate) mod server;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::document::{
    AgentRef, AnyDocument, BookTerms, Document, ExecutorId, ExecutorKey, PermissionDocument,
    PolicyTerms, Revocation, Revoked, ServerTerms, Signed, Time,
};
use crate::keyring::{Keyring, trusted};
use crate::verify::verify_signed;
use crate::{
    Authority, Hash, Mode, Permission, Pin, Refusal, ServerGrant, ServerIdentity, ToolGrant, Tools,
};

pub use meet::{Change, Way};
pub use server::{Out, OutReason};

/// How far the clock may be behind the book's last entry, in seconds.
pub const CLOCK_TOLERANCE_SECONDS: i64 = 120;

/// One permission of the agent as the book recorded it.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// The document's hash, from the book's entry.
    pub hash: Hash,
    /// The document and its proof; nothing when it cannot be found or read, or is not what the hash says.
    pub signed: Option<&'a Signed>,
}

/// What this executor is.
#[derive(Clone, Copy, Debug)]
pub struct Own<'a> {
    /// Its id.
    pub id: &'a ExecutorId,
    /// Its key, and those it replaced by a signed act.
    pub keys: &'a [ExecutorKey],
    /// The origin of its book, and those of its earlier eras.
    pub origins: &'a [String],
}

/// The terms an agent works under: what is signed, what executor.json says, or what of both is in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// How its writes are treated as a whole.
    pub mode: Mode,
    /// When its key ends.
    pub key_expires_at: Option<Time>,
    /// Its scopes; those of all its tools where absent.
    pub scopes: Option<Vec<String>>,
    /// The folder it works in.
    pub workspace: Option<String>,
    /// Bounded writes: a write has to be allowed by every one of these.
    pub write_policies: Vec<PolicyTerms>,
    /// Idle minutes after which a turn without a strike ends; 0 is never.
    pub turn_idle_minutes: u32,
    /// What the book keeps.
    pub book: BookTerms,
    /// Its servers and tools.
    pub servers: Vec<ServerTerms>,
}

/// What executor.json says now for one agent, presets and defaults applied, and what is found of its servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// The agent.
    pub agent: AgentRef,
    /// Whether every write waits for the person. It only takes away, so nothing of it is signed.
    pub requires_approval: bool,
    /// The terms as executor.json has them.
    pub terms: Terms,
    /// What is found of each server, by name.
    pub found: BTreeMap<String, Found>,
}

/// What is found of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Whether it is switched on for this agent.
    pub enabled: bool,
    /// Its identity as it resolves now; nothing when it does not.
    pub identity: Option<ServerIdentity>,
    /// Tools that no agent sees: hidden or disabled.
    pub hidden: BTreeSet<String>,
    /// The definitions of its tools as far as they are known. The gate compares each again when it is called.
    pub definitions: BTreeMap<String, Hash>,
}

/// What an agent may do now.
#[derive(Clone, Debug, PartialEq)]
pub struct Force {
    /// The permission as the gate reads it.
    pub permission: Arc<Permission>,
    /// The whole of the terms.
    pub terms: Terms,
    /// Whether every write waits for the person.
    pub requires_approval: bool,
    /// Servers and tools that are signed and not in force, with why.
    pub out: Vec<Out>,
    /// Where executor.json says something else than what was signed.
    pub changed: Vec<Change>,
}

/// Why nothing is in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Withheld {
    /// No permission was signed for this agent.
    #[error("no permission is signed for this agent yet")]
    NoneSigned,
    /// The clock cannot be right.
    #[error(
        "the clock is {seconds} seconds behind the book's last entry: set it right, or sign that it is right"
    )]
    ClockBehind {
        /// How far.
        seconds: i64,
    },
    /// The document is gone.
    #[error(
        "the signed permission {0} is recorded and can't be found: restore it from the copy, or sign a new one"
    )]
    Missing(Hash),
    /// It is not what a trusted key signed.
    #[error("the signed permission can't be trusted: {0}")]
    Untrusted(Refusal),
    /// It was signed when another one stood.
    #[error("the signed permission does not follow the one before it: sign a new one")]
    NotNext,
    /// It is another executor's, or of a key or book that is no longer this executor's.
    #[error("the signed permission is for another executor")]
    Executor,
    /// It is another agent's or for another key.
    #[error("the signed permission is for another agent or another key of this agent")]
    Agent,
    /// It was revoked.
    #[error("the signed permission was revoked")]
    Revoked,
    /// The passkey that signed it was revoked since.
    #[error("the passkey that signed the permission was revoked since: sign it again with another")]
    Suspended,
    /// Its first moment is still to come.
    #[error("the signed permission is not valid yet")]
    NotYet,
    /// Its time is over.
    #[error("the signed permission has expired")]
    Expired,
    /// The agent's key has ended.
    #[error("the agent's key has expired")]
    KeyExpired,
}

/// What is in force for one agent at `now`. `recorded` are the permissions of this agent in the order of the book, `revocations` all
/// there are, `last_entry` the time of the book's last entry.
///
/// # Errors
/// The first reason for which nothing is.
pub fn in_force_signed(
    recorded: &[Recorded<'_>],
    revocations: &[Document<Revocation>],
    keyring: &Keyring,
    own: Own<'_>,
    effective: &Effective,
    now: Timestamp,
    last_entry: Option<Timestamp>,
) -> Result<Force, Withheld> {
    let document = standing(recorded, revocations, keyring, own, now, last_entry)?;
    let body = document.body();
    if body.agent != effective.agent {
        return Err(Withheld::Agent);
    }
    if now < body.not_before.timestamp() {
        return Err(Withheld::NotYet);
    }
    if now >= body.expires_at.timestamp() {
        return Err(Withheld::Expired);
    }
    let force = meet::meet(document, effective);
    let key_end = force.terms.key_expires_at;
    if key_end.is_some_and(|end| now >= end.timestamp()) {
        return Err(Withheld::KeyExpired);
    }
    Ok(force)
}

/// The permission that stands for an agent, its time apart.
///
/// # Errors
/// The first reason for which none does.
pub fn standing<'a>(
    recorded: &[Recorded<'a>],
    revocations: &[Document<Revocation>],
    keyring: &Keyring,
    own: Own<'_>,
    now: Timestamp,
    last_entry: Option<Timestamp>,
) -> Result<&'a Document<PermissionDocument>, Withheld> {
    let last = recorded.last().ok_or(Withheld::NoneSigned)?;
    if let Some(behind) = last_entry.and_then(|entry| clock_behind(now, entry)) {
        return Err(Withheld::ClockBehind { seconds: behind });
    }
    let signed = last
        .signed
        .filter(|signed| signed.document.hash() == last.hash)
        .ok_or(Withheld::Missing(last.hash))?;
    let AnyDocument::Permission(document) = &signed.document else {
        return Err(Withheld::Missing(last.hash));
    };
    let verified = verify_signed(signed, keyring).map_err(Withheld::Untrusted)?;
    let body = document.body();
    let mut earlier = recorded.iter().rev().map(|one| one.hash);
    let before = earlier.find(|hash| *hash != last.hash);
    let again = earlier.any(|hash| hash == last.hash);
    if body.supersedes != before || again {
        return Err(Withheld::NotNext);
    }
    let ours = body.executor.id == *own.id
        && own.keys.contains(&body.executor.key)
        && own.origins.contains(&body.book.origin);
    if !ours {
        return Err(Withheld::Executor);
    }
    let revoked = |what: &Revoked| {
        revocations
            .iter()
            .map(Document::body)
            .any(|one| one.executor.id == *own.id && one.revokes == *what)
    };
    if revoked(&Revoked::Permission(last.hash)) {
        return Err(Withheld::Revoked);
    }
    let signer = verified.signer.map(|signer| signer.credential_id);
    let counts = signer.is_some_and(|id| {
        trusted(keyring.standing(&id, now)).is_ok() && !revoked(&Revoked::Credential(id))
    });
    if !counts {
        return Err(Withheld::Suspended);
    }
    Ok(document)
}

/// By how many seconds the clock is behind `entry`, when that is more than [`CLOCK_TOLERANCE_SECONDS`].
#[must_use]
pub fn clock_behind(now: Timestamp, entry: Timestamp) -> Option<i64> {
    let behind = entry.duration_since(now);
    (behind > SignedDuration::from_secs(CLOCK_TOLERANCE_SECONDS)).then(|| behind.as_secs())
}

impl From<&PermissionDocument> for Terms {
    fn from(body: &PermissionDocument) -> Self {
        Self {
            mode: body.mode,
            key_expires_at: body.key_expires_at,
            scopes: body.scopes.clone(),
            workspace: body.workspace.clone(),
            write_policies: body.write_policy.iter().cloned().collect(),
            turn_idle_minutes: body.turn_idle_minutes,
            book: body.book.clone(),
            servers: body.servers.clone(),
        }
    }
}

/// The terms as the gate reads a permission.
fn granted(document: &Document<PermissionDocument>, terms: &Terms) -> Permission {
    let body = document.body();
    let scopes = match &terms.scopes {
        Some(scopes) => scopes.iter().cloned().collect(),
        None => meet::labels(&terms.servers),
    };
    let servers = terms.servers.iter().map(|server| {
        let tools = server.tools.iter().map(|tool| {
            let grant = ToolGrant {
                pin: Pin::Definition(tool.definition),
                kind: tool.kind,
                limits: tool.limits.counted(),
                arguments: tool.arguments.iter().map(|limit| limit.0.clone()).collect(),
            };
            (tool.name.clone(), grant)
        });
        let grant = ServerGrant {
            identity: Some(server.identity),
            tools: Tools::Listed(tools.collect()),
        };
        (server.name.to_string(), grant)
    });
    let ends = terms
        .key_expires_at
        .map_or(body.expires_at, |end| end.min(body.expires_at));
    Permission {
        authority: Authority::Signed,
        document: document.hash(),
        agent: body.agent.name.to_string(),
        scopes,
        servers: servers.collect(),
        mode: terms.mode,
        not_before: Some(body.not_before.timestamp()),
        expires_at: Some(ends.timestamp()),
    }
}
