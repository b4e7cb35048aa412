//! A registration: which passkey was made. Proves nothing: a passkey enters the keyring by its first signature, not by this.

use ciborium::Value;

use super::{AuthenticatorData, CoseKey, cbor};
use crate::{Reason, Refusal};

/// Longest id of a passkey, in bytes (WebAuthn's own limit).
const LONGEST_ID: usize = 1023;

/// What an attestation object says, without an attestation that would mean anything to us.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// The passkey's id.
    pub credential_id: Vec<u8>,
    /// Its public key.
    pub key: CoseKey,
    /// The model of authenticator, a UUID.
    pub aaguid: String,
    /// SHA-256 of the relying party id.
    pub rp_id_hash: [u8; 32],
    /// Whether it can be synchronised.
    pub backup_eligible: bool,
    /// Whether it is.
    pub backed_up: bool,
    /// The counter to begin with.
    pub counter: u32,
}

impl Registration {
    /// Reads an attestation object of format `none`, or `packed` signed by the new key itself, which some browsers leave in place. The
    /// statement is not judged.
    ///
    /// # Errors
    /// When it is of another format, holds no key of ours, or nobody was verified.
    pub fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let fault = |words: &str| Reason::AuthenticatorData.because(words);
        let Some(Value::Map(map)) = cbor::only(bytes) else {
            return Err(fault("the attestation object is not one CBOR map"));
        };
        let format = cbor::member(&map, "fmt").and_then(Value::as_text);
        let statement = cbor::member(&map, "attStmt").and_then(Value::as_map);
        let data = cbor::member(&map, "authData").and_then(Value::as_bytes);
        let (Some(format), Some(statement), Some(data), 3) = (format, statement, data, map.len())
        else {
            return Err(fault(
                "the attestation object has `fmt`, `attStmt` and `authData`",
            ));
        };
        let anonymous = match format {
            "none" => statement.is_empty(),
            "packed" => cbor::member(statement, "x5c").is_none(),
            _ => false,
        };
        if !anonymous {
            return Err(fault("the attestation is not `none`"));
        }
        let data = AuthenticatorData::read(data)?;
        data.judge_flags()?;
        let Some(new) = data.attested else {
            return Err(fault("the registration holds no passkey"));
        };
        if !(1..=LONGEST_ID).contains(&new.credential_id.len()) {
            return Err(fault("the passkey's id has from 1 to 1023 bytes"));
        }
        Ok(Self {
            credential_id: new.credential_id,
            key: new.key,
            aaguid: new.aaguid,
            rp_id_hash: data.rp_id_hash,
            backup_eligible: data.backup_eligible,
            backed_up: data.backed_up,
            counter: data.counter,
        })
    }
}
