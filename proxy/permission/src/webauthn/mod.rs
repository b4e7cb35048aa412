//! A passkey's assertion judged offline, from the bytes alone (V3 to V7). Knows no keyring, no time and no ceremony.

mod authenticator_data;
mod cbor;
mod client_data;
mod cose;
mod registration;

use crate::document::{Credential, Proof};
use crate::{Hash, Reason, Refusal};

pub use authenticator_data::AuthenticatorData;
pub use cose::{Algorithm, CoseKey};
pub use registration::Registration;

/// What an accepted assertion says beside yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assertion {
    /// The authenticator's counter; 0 for ever with synchronised passkeys. Reported, not judged: order is the book's.
    pub counter: u32,
    /// Whether the passkey can be synchronised.
    pub backup_eligible: bool,
    /// Whether it is.
    pub backed_up: bool,
}

/// Whether `proof` is the signature of `credential` over a document of hash `document`, made on one of its origins by a verified person.
///
/// # Errors
/// The first reason from [`Reason::ClientData`] to [`Reason::Signature`].
pub fn verify_assertion(
    document: Hash,
    proof: &Proof,
    credential: &Credential,
) -> Result<Assertion, Refusal> {
    let client_data = proof.client_data_json.as_slice();
    client_data::check(client_data, document, &credential.origins)?;
    let data = AuthenticatorData::read(proof.authenticator_data.as_slice())?;
    if data.attested.is_some() {
        return Err(Reason::AuthenticatorData.because("an assertion carries no new passkey"));
    }
    data.judge(&credential.rp_id)?;
    let mut signed = proof.authenticator_data.as_slice().to_vec();
    signed.extend_from_slice(Hash::of(client_data).as_bytes());
    if !credential
        .public_key_cose
        .verifies(&signed, proof.signature.as_slice())
    {
        return Err(
            Reason::Signature.because("the signature is not this passkey's over this document")
        );
    }
    Ok(Assertion {
        counter: data.counter,
        backup_eligible: data.backup_eligible,
        backed_up: data.backed_up,
    })
}

/// Whether a counter tells of a second authenticator with the same key: both zero is a passkey that does not count; else it has to rise.
/// For the moment of signing only; a record is judged without it.
#[must_use]
pub fn counter_fell_back(stored: u32, seen: u32) -> bool {
    (stored, seen) != (0, 0) && seen <= stored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k13_t15_a_counter_has_to_rise_once_it_counts() {
        for (stored, seen, fell) in [
            (0, 0, false),
            (0, 1, false),
            (1, 2, false),
            (u32::MAX - 1, u32::MAX, false),
            (1, 1, true),
            (2, 1, true),
            (2, 0, true),
        ] {
            assert_eq!(counter_fell_back(stored, seen), fell, "{stored} {seen}");
        }
    }
}
