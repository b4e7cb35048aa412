//! Signed documents: read from strict JSON to their checked form, written in canonical form (RFC 8785), named by their hash.
//! Knows no signature; layouts in `FORMAT.md`.

mod act;
mod approval;
mod keyring_change;
mod permission;
mod revocation;
mod signed;
mod spell;
mod terms;
mod terms_text;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use act::{ACTS, Act, ActDocument};
pub use approval::{
    APPROVAL_SECONDS, ApprovalDocument, ApprovedArguments, ServerRef, ToolRef, commitment,
};
pub use keyring_change::{Credential, KeyringChange, Op, RECOVERY_SECONDS, RecoveryCode};
pub use permission::{
    AgentRef, ExecutorRef, KeyringRef, LONGEST_LIFE_DAYS, PermissionDocument, USUAL_LIFE_DAYS,
};
pub use revocation::{Revocation, Revoked};
pub use signed::{Proof, Signed};
pub use spell::{Bytes, ExecutorId, ExecutorKey, Id, KeyPrefix, Name, SpellError, Time};
pub use terms::{
    Audience, BookTerms, Cost, LimitTerm, LimitTerms, OtherMembers, Pass, PathEffect, PathTerm,
    Payloads, PolicyTerms, PreviewArgument, PreviewDiff, PreviewRead, PreviewTerm, ServerTerms,
    Setting, ToolTerms,
};

use crate::{Hash, Reason, Refusal, strict};

/// What stands in a document of one type.
pub trait Body: Serialize + DeserializeOwned {
    /// The member `type`.
    const TYPE: &'static str;

    /// Judges what the shape alone does not: times, duplicates, rules.
    ///
    /// # Errors
    /// The first fault, with [`Reason::Shape`], [`Reason::Times`] or [`Reason::Rule`].
    fn check(&self) -> Result<(), Refusal>;
}

/// A checked document: its members, its canonical bytes and their hash. There is no member of the text that is not in the body.
#[derive(Clone, PartialEq)]
pub struct Document<T> {
    body: T,
    canonical: Arc<[u8]>,
    hash: Hash,
}

/// A document of any type that is signed.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyDocument {
    /// `countersign.permission/1`
    Permission(Document<PermissionDocument>),
    /// `countersign.approval/1`
    Approval(Document<ApprovalDocument>),
    /// `countersign.revocation/1`
    Revocation(Document<Revocation>),
    /// `countersign.keyring-change/1`
    KeyringChange(Document<KeyringChange>),
    /// `countersign.act/1`
    Act(Document<ActDocument>),
}

impl<T: Body> Document<T> {
    /// The document with this body.
    ///
    /// # Errors
    /// When the body is refused by its own rules, or holds what strict JSON does not.
    pub fn new(body: &T) -> Result<Self, Refusal> {
        let mut value =
            serde_json::to_value(body).map_err(|error| Reason::Shape.because(error.to_string()))?;
        if let Value::Object(members) = &mut value {
            members.insert("type".into(), T::TYPE.into());
        }
        Self::from_value(value)
    }

    /// Reads a document of this type from JSON text.
    ///
    /// # Errors
    /// The first reason in the order of [`crate::REASONS`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        Self::from_value(strict::parse(bytes).map_err(json)?)
    }

    /// Reads a document of this type from a value that [`strict::check`] accepts.
    ///
    /// # Errors
    /// As [`Document::parse`].
    pub fn from_value(value: Value) -> Result<Self, Refusal> {
        let canonical = strict::canonical(&value).map_err(json)?;
        let found = type_of(&value)?;
        if found != T::TYPE {
            return Err(Reason::Type.because(format!("`{found}` where `{}` is expected", T::TYPE)));
        }
        let written = value.clone();
        let body: T = read(value)?;
        let mut again = serde_json::to_value(&body)
            .map_err(|error| Reason::Shape.because(error.to_string()))?;
        if let Value::Object(members) = &mut again {
            members.insert("type".into(), T::TYPE.into());
        }
        if let Some(member) = difference(&written, &again, "") {
            return Err(Reason::Spelling.because(format!(
                "`{member}` is not in its one spelling: what equals its default is left out"
            )));
        }
        body.check()?;
        Ok(Self {
            body,
            hash: Hash::of(&canonical),
            canonical: canonical.into(),
        })
    }

    /// What stands in it.
    #[must_use]
    pub fn body(&self) -> &T {
        &self.body
    }

    /// Its canonical bytes: what is hashed, shown and kept.
    #[must_use]
    pub fn to_canonical(&self) -> &[u8] {
        &self.canonical
    }

    /// SHA-256 of the canonical bytes: the document's name, and the challenge of its signature.
    #[must_use]
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The six characters by which a person sees that two screens show the same document.
    #[must_use]
    pub fn code(&self) -> crate::Code {
        crate::Code::of(self.hash)
    }

    /// The document as a JSON value.
    ///
    /// # Errors
    /// Never for a document that was read; kept so that nothing is assumed.
    pub fn to_value(&self) -> Result<Value, Refusal> {
        strict::parse(&self.canonical).map_err(json)
    }
}

impl<T: fmt::Debug> fmt::Debug for Document<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("hash", &self.hash)
            .field("body", &self.body)
            .finish()
    }
}

impl AnyDocument {
    /// Reads a document of any known type.
    ///
    /// # Errors
    /// The first reason in the order of [`crate::REASONS`]; an unknown `type` is [`Reason::Type`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        Self::from_value(strict::parse(bytes).map_err(json)?)
    }

    /// Reads a document of any known type from a value.
    ///
    /// # Errors
    /// As [`AnyDocument::parse`].
    pub fn from_value(value: Value) -> Result<Self, Refusal> {
        match type_of(&value)? {
            PermissionDocument::TYPE => Document::from_value(value).map(Self::Permission),
            ApprovalDocument::TYPE => Document::from_value(value).map(Self::Approval),
            Revocation::TYPE => Document::from_value(value).map(Self::Revocation),
            KeyringChange::TYPE => Document::from_value(value).map(Self::KeyringChange),
            ActDocument::TYPE => Document::from_value(value).map(Self::Act),
            other => Err(Reason::Type.because(format!("`{other}` is no document of ours"))),
        }
    }

    /// Its hash.
    #[must_use]
    pub fn hash(&self) -> Hash {
        match self {
            Self::Permission(document) => document.hash(),
            Self::Approval(document) => document.hash(),
            Self::Revocation(document) => document.hash(),
            Self::KeyringChange(document) => document.hash(),
            Self::Act(document) => document.hash(),
        }
    }

    /// Its canonical bytes.
    #[must_use]
    pub fn to_canonical(&self) -> &[u8] {
        match self {
            Self::Permission(document) => document.to_canonical(),
            Self::Approval(document) => document.to_canonical(),
            Self::Revocation(document) => document.to_canonical(),
            Self::KeyringChange(document) => document.to_canonical(),
            Self::Act(document) => document.to_canonical(),
        }
    }

    /// The member `type`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Permission(_) => PermissionDocument::TYPE,
            Self::Approval(_) => ApprovalDocument::TYPE,
            Self::Revocation(_) => Revocation::TYPE,
            Self::KeyringChange(_) => KeyringChange::TYPE,
            Self::Act(_) => ActDocument::TYPE,
        }
    }

    /// The state of the keyring it names; a keyring change and a revocation name none.
    #[must_use]
    pub fn keyring(&self) -> Option<&KeyringRef> {
        match self {
            Self::Permission(document) => Some(&document.body().keyring),
            Self::Approval(document) => Some(&document.body().keyring),
            Self::Act(document) => Some(&document.body().keyring),
            Self::Revocation(_) | Self::KeyringChange(_) => None,
        }
    }
}

impl From<strict::StrictError> for Refusal {
    fn from(error: strict::StrictError) -> Self {
        Reason::Json.because(error.to_string())
    }
}

pub(crate) fn json(error: strict::StrictError) -> Refusal {
    error.into()
}

fn type_of(value: &Value) -> Result<&str, Refusal> {
    let Value::Object(members) = value else {
        return Err(Reason::Type.because("a document is a JSON object with a `type`"));
    };
    match members.get("type") {
        Some(Value::String(found)) => Ok(found),
        _ => Err(Reason::Type.because("the document has no `type`")),
    }
}

fn read<T: DeserializeOwned>(mut value: Value) -> Result<T, Refusal> {
    if let Value::Object(members) = &mut value {
        members.shift_remove("type");
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        match path.as_str() {
            "." => Reason::Shape.because(error.inner().to_string()),
            path => Reason::Shape.because(format!("{path}: {}", error.inner())),
        }
    })
}

/// Where two values differ first; the empty path is the whole.
fn difference(a: &Value, b: &Value, path: &str) -> Option<String> {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a
                .keys()
                .chain(b.keys().filter(|name| !a.contains_key(*name)));
            names
                .filter_map(|name| {
                    let path = format!("{path}/{name}");
                    match (a.get(name), b.get(name)) {
                        (Some(a), Some(b)) => difference(a, b, &path),
                        _ => Some(path),
                    }
                })
                .next()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(place, (a, b))| difference(a, b, &format!("{path}/{place}"))),
        (a, b) => (a != b).then(|| path.to_owned()),
    }
}

/// Refuses a text that is longer than `most` characters or empty.
pub(crate) fn check_text(member: &str, text: &str, most: usize) -> Result<(), Refusal> {
    if text.is_empty() || text.chars().count() > most {
        return Err(Reason::Shape.because(format!("`{member}` has from 1 to {most} characters")));
    }
    Ok(())
}

/// Refuses a list that names something twice.
pub(crate) fn check_distinct<'a>(
    member: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), Refusal> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Reason::Shape.because(format!("`{member}` names `{name}` twice")));
        }
    }
    Ok(())
}
