//! A signed document judged by a keyring, and a whole file judged by a pin: the answer another implementation gives to the same bytes.
//! Knows no book: what only the book can tell is named as not checked.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::document::{
    AnyDocument, Bytes, ExecutorId, KeyringRef, Proof, Signed, Time, json as not_json,
};
use crate::keyring::{Keyring, Link, Pin, trusted};
use crate::webauthn::{Assertion, verify_assertion};
use crate::{Hash, Reason, Refusal, strict};

/// A document that was verified.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// The document's hash.
    pub document: Hash,
    /// Who signed; nobody a revocation.
    pub signer: Option<Signer>,
}

/// The key that signed.
#[derive(Clone, Debug, PartialEq)]
pub struct Signer {
    /// Its id.
    pub credential_id: Bytes,
    /// What the person calls it.
    pub label: String,
    /// What its authenticator said.
    pub assertion: Assertion,
}

/// Verifies one document by the state of the keyring it names. That the key still counts today is another question.
///
/// # Errors
/// The first reason from [`Reason::KeyringState`] to [`Reason::Executor`].
pub fn verify_signed(signed: &Signed, keyring: &Keyring) -> Result<Verified, Refusal> {
    let (executor, at) = subject(&signed.document);
    let document = signed.document.hash();
    let signer = match (&signed.document, signed.document.keyring()) {
        (AnyDocument::KeyringChange(change), _) => {
            keyring.verify_change(change, signed)?;
            None
        }
        (_, Some(named)) => Some(signer(signed, keyring, named, at.timestamp())?),
        (_, None) => {
            if signed.proof.is_some() || signed.possession.is_some() {
                return Err(Reason::Proof.because("a revocation has no proof"));
            }
            None
        }
    };
    if executor != keyring.executor() {
        return Err(Reason::Executor.because("the document is another executor's"));
    }
    Ok(Verified { document, signer })
}

fn signer(
    signed: &Signed,
    keyring: &Keyring,
    named: &KeyringRef,
    at: Timestamp,
) -> Result<Signer, Refusal> {
    if !keyring.has(named) {
        return Err(Reason::KeyringState.because("the document names a keyring that never was"));
    }
    let proof = signed.proof.as_ref();
    let (Some(proof), None) = (proof, &signed.possession) else {
        return Err(Reason::Proof.because("the document has exactly one proof"));
    };
    let credential = trusted(keyring.standing_at(named, &proof.credential_id, at))?;
    let assertion = verify_assertion(signed.document.hash(), proof, credential)?;
    Ok(Signer {
        credential_id: credential.credential_id.clone(),
        label: credential.label.clone(),
        assertion,
    })
}

fn subject(document: &AnyDocument) -> (&ExecutorId, Time) {
    match document {
        AnyDocument::Permission(d) => (&d.body().executor.id, d.body().issued_at),
        AnyDocument::Approval(d) => (&d.body().executor.id, d.body().issued_at),
        AnyDocument::Act(d) => (&d.body().executor.id, d.body().issued_at),
        AnyDocument::Revocation(d) => (&d.body().executor.id, d.body().at),
        AnyDocument::KeyringChange(d) => (&d.body().executor, d.body().at),
    }
}

const TYPE: &str = "countersign.bundle/1";

/// Largest bundle, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// `countersign.bundle/1`: a keyring and documents signed under it, for somebody who has nothing else.
///
/// ```json
/// {"type":"countersign.bundle/1","keyring":[{…signed…}],"signed":[{…signed…}]}
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// The whole list of changes.
    pub keyring: Vec<Signed>,
    /// The documents.
    pub signed: Vec<Signed>,
}

/// The answer to a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// All of it is what the keyring of the pin signed.
    Verified(Checked),
    /// Something is not, or cannot be read.
    Refused(Refusal),
    /// It agrees with itself; whose keyring it is nobody said.
    Unpinned(Checked),
}

/// What was verified and what was not.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The fingerprint of the keyring.
    pub fingerprint: Hash,
    /// Every document, in the order of the file.
    pub documents: Vec<Verified>,
    /// The changes of the keyring that are recoveries: from there on other hands may hold it.
    pub recoveries: Vec<u64>,
    /// What a file alone cannot tell.
    pub not_checked: &'static [&'static str],
}

/// What no file tells without the book it belongs to.
const NOT_CHECKED: &[&str] = &[
    "the order and times of the documents: the book has them",
    "how often and with which arguments the permission was used: the book has the calls",
    "whether a later revocation or change of the keyring exists that is not in the file",
    "the counters of the passkeys: they count at the moment of signing only",
];

impl Answer {
    /// 0 verified, 1 refused, 2 consistent but unpinned.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Verified(_) => 0,
            Self::Refused(_) => 1,
            Self::Unpinned(_) => 2,
        }
    }

    /// `verified`, `unpinned`, or the code of the reason.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Verified(_) => "verified",
            Self::Refused(refusal) => refusal.reason.code(),
            Self::Unpinned(_) => "unpinned",
        }
    }
}

/// Judges a file. Only with a pin from elsewhere can the answer be verified.
#[must_use]
pub fn verify_file(bytes: &[u8], pin: Option<&Pin>) -> Answer {
    match Bundle::parse(bytes).and_then(|bundle| bundle.verify(pin)) {
        Err(refusal) => Answer::Refused(refusal),
        Ok(checked) if pin.is_some() => Answer::Verified(checked),
        Ok(checked) => Answer::Unpinned(checked),
    }
}

impl Bundle {
    /// Reads a bundle.
    ///
    /// # Errors
    /// The first reason of the first part that is refused.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let depth = strict::MAX_DEPTH + 3;
        let value = strict::parse_within(bytes, MAX_BYTES, depth).map_err(not_json)?;
        let Value::Object(mut members) = value else {
            return Err(Reason::Type.because("a bundle is a JSON object with a `type`"));
        };
        match members.shift_remove("type") {
            Some(Value::String(found)) if found == TYPE => {}
            _ => return Err(Reason::Type.because(format!("the file is no `{TYPE}`"))),
        }
        let mut list = |name: &str| match members.shift_remove(name) {
            Some(Value::Array(items)) => Ok(items),
            _ => Err(Reason::Shape.because(format!("`{name}` is a list of signed documents"))),
        };
        let (keyring, signed) = (list("keyring")?, list("signed")?);
        if let Some(other) = members.keys().next() {
            return Err(Reason::Shape.because(format!("`{other}` is no member of a bundle")));
        }
        let read = |items: Vec<Value>| -> Result<Vec<Signed>, Refusal> {
            items.into_iter().map(Signed::from_value).collect()
        };
        Ok(Self {
            keyring: read(keyring)?,
            signed: read(signed)?,
        })
    }

    /// The bundle as a JSON value.
    ///
    /// # Errors
    /// Never for what was read.
    pub fn to_value(&self) -> Result<Value, Refusal> {
        let write = |items: &[Signed]| {
            let values: Result<Vec<Value>, Refusal> = items.iter().map(Signed::to_value).collect();
            values
        };
        Ok(json!({"type": TYPE, "keyring": write(&self.keyring)?, "signed": write(&self.signed)?}))
    }

    fn verify(&self, pin: Option<&Pin>) -> Result<Checked, Refusal> {
        if self.signed.is_empty() {
            return Err(Reason::Shape.because("the file holds no document"));
        }
        let links: Vec<Link<'_>> = self
            .keyring
            .iter()
            .map(|signed| Link {
                signed,
                recorded: None,
            })
            .collect();
        let keyring = Keyring::replay(&links, pin)?;
        let mut documents = Vec::new();
        for signed in &self.signed {
            documents.push(verify_signed(signed, &keyring)?);
        }
        let latest = self
            .signed
            .iter()
            .map(|signed| subject(&signed.document).1)
            .max();
        let latest = latest.map_or(Timestamp::MIN, Time::timestamp);
        Ok(Checked {
            fingerprint: keyring.fingerprint(),
            documents,
            recoveries: keyring.recovered(latest),
            not_checked: NOT_CHECKED,
        })
    }
}

/// Whether a proof may be stored now: the document names the keyring as it stands, and its key is trusted at this moment. `suspended` are
/// the passkeys a revocation takes out of use.
///
/// # Errors
/// The first reason from [`Reason::UnknownKey`] to [`Reason::Signature`].
pub fn verify_now(
    document: &AnyDocument,
    proof: &Proof,
    keyring: &Keyring,
    suspended: &BTreeSet<Bytes>,
    now: Timestamp,
) -> Result<Assertion, Refusal> {
    if document
        .keyring()
        .is_some_and(|named| *named != keyring.head())
    {
        return Err(Reason::KeyringState
            .because("the keyring changed since the document was made: make it anew"));
    }
    let credential = trusted(keyring.standing(&proof.credential_id, now))?;
    if suspended.contains(&proof.credential_id) {
        let label = &credential.label;
        return Err(Reason::RevokedKey.because(format!("the passkey `{label}` was revoked")));
    }
    verify_assertion(document.hash(), proof, credential)
}
