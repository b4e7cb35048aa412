//! Why a document or a proof is refused: one table of reasons in the order they are looked for. Knows no document.

use std::fmt;

/// A reason, in the order the checks are made: of several faults the first one in this order is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// V1: not strict JSON.
    Json,
    /// V1: a `type` that is not known, or not the one expected here.
    Type,
    /// V1: a member missing, unknown, or of the wrong shape.
    Shape,
    /// V1: a member in another spelling than the one of its value.
    Spelling,
    /// V2: the keyring is not the one of the pin.
    Pin,
    /// V2: the changes of the keyring do not follow one another.
    Chain,
    /// V2: the document names a state of the keyring that never was.
    KeyringState,
    /// V4: no key of that id is in the keyring.
    UnknownKey,
    /// V4: the key was revoked by then, or ended by a recovery.
    RevokedKey,
    /// V4: a proof that has to be there is not, or one that may not be there is.
    Proof,
    /// V5: the client data are not strict JSON of the known shape.
    ClientData,
    /// V5: the client data are of another ceremony.
    Ceremony,
    /// V3, V5: the challenge is not the hash of the document.
    Challenge,
    /// V5: made for another origin.
    Origin,
    /// V5: made inside another site's page.
    CrossOrigin,
    /// V5: made for a payment.
    Payment,
    /// V6: authenticator data of the wrong length or with members that do not belong there.
    AuthenticatorData,
    /// V6: made for another relying party id.
    RelyingParty,
    /// V6: nobody was present.
    UserPresence,
    /// V6: nobody was verified.
    UserVerification,
    /// V6: synchronised without being able to be.
    Backup,
    /// V7: the signature is not this key's over this.
    Signature,
    /// V8: times that cannot be or are longer than allowed.
    Times,
    /// V8: a rule of the document that cannot be read.
    Rule,
    /// V8: the document is another executor's.
    Executor,
}

/// Every reason with its code, in order.
pub const REASONS: [(Reason, &str); 25] = [
    (Reason::Json, "json"),
    (Reason::Type, "type"),
    (Reason::Shape, "shape"),
    (Reason::Spelling, "spelling"),
    (Reason::Pin, "pin"),
    (Reason::Chain, "chain"),
    (Reason::KeyringState, "keyring_state"),
    (Reason::UnknownKey, "unknown_key"),
    (Reason::RevokedKey, "revoked_key"),
    (Reason::Proof, "proof"),
    (Reason::ClientData, "client_data"),
    (Reason::Ceremony, "ceremony"),
    (Reason::Challenge, "challenge"),
    (Reason::Origin, "origin"),
    (Reason::CrossOrigin, "cross_origin"),
    (Reason::Payment, "payment"),
    (Reason::AuthenticatorData, "authenticator_data"),
    (Reason::RelyingParty, "relying_party"),
    (Reason::UserPresence, "user_presence"),
    (Reason::UserVerification, "user_verification"),
    (Reason::Backup, "backup"),
    (Reason::Signature, "signature"),
    (Reason::Times, "times"),
    (Reason::Rule, "rule"),
    (Reason::Executor, "executor"),
];

/// A refused document: the first reason, and what exactly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct Refusal {
    /// The first reason in the order of [`REASONS`].
    pub reason: Reason,
    /// What is wrong, for a person.
    pub words: String,
}

impl Reason {
    /// The code in files and answers, `lower_case`.
    #[must_use]
    pub fn code(self) -> &'static str {
        REASONS[self as usize].1
    }

    /// A refusal for this reason.
    pub fn because(self, words: impl Into<String>) -> Refusal {
        Refusal {
            reason: self,
            words: words.into(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_is_in_order_and_codes_are_unique() {
        for (place, (reason, code)) in REASONS.iter().enumerate() {
            assert_eq!(*reason as usize, place, "{reason:?}");
            assert_eq!(reason.code(), *code);
        }
        assert_eq!(
            REASONS
                .iter()
                .map(|row| row.1)
                .collect::<BTreeSet<_>>()
                .len(),
            REASONS.len()
        );
    }
}
