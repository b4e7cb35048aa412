//! `countersign.keyring-change/1`: one link of the list of passkeys. Knows what a link says, not whether it may be said.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Body, Bytes, ExecutorId, Id, Time, check_distinct, check_text};
use crate::webauthn::{CoseKey, Registration};
use crate::{Hash, Reason, Refusal};

/// Seconds between the request of a recovery and its effect.
pub const RECOVERY_SECONDS: i64 = 86_400;

/// The relying party ids a passkey of ours can be for.
const RP_IDS: [&str; 2] = ["countersign.localhost", "localhost"];

/// `countersign.keyring-change/1`: a link of a hash-linked list whose first hash is the installation's fingerprint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyringChange {
    /// The number of the change, from 1.
    pub seq: u64,
    /// The hash of the change before; absent for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev: Option<Hash>,
    /// The executor whose keyring it is.
    pub executor: ExecutorId,
    /// What changes.
    pub op: Op,
    /// `add`, `recover`: the passkey that comes in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<Credential>,
    /// `revoke`: the id of the passkey that goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_id: Option<Bytes>,
    /// `recover`: the printed code, spent by this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<RecoveryCode>,
    /// The hash of the recovery code that counts from now on; the one before stays where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Hash>,
    /// When it was made.
    pub at: Time,
    /// 16 random bytes.
    pub nonce: Id,
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// A passkey comes in.
    Add,
    /// A passkey goes.
    Revoke,
    /// All passkeys are lost: a day later the new one is the only one and every standing permission ends.
    Recover,
}

/// A passkey as it stands in the keyring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// Its id.
    pub credential_id: Bytes,
    /// Its public key, COSE.
    pub public_key_cose: CoseKey,
    /// The relying party id it was made for.
    pub rp_id: String,
    /// The origins its signatures may be made on.
    pub origins: Vec<String>,
    /// The model of authenticator, a UUID; zeros where it does not say.
    pub aaguid: String,
    /// How it can be reached, as the browser said.
    pub transports: Vec<String>,
    /// Whether it can be synchronised to other devices.
    pub backup_eligible: bool,
    /// The attestation object of its registration.
    pub attestation_object: Bytes,
    /// What the person calls it.
    pub label: String,
}

/// The printed code of last resort: 16 random bytes, written as 26 base32 characters.
#[derive(Clone, PartialEq, Eq)]
pub struct RecoveryCode([u8; 16]);

impl RecoveryCode {
    /// A code of these bytes, which must come from the system's random source.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The code as a person typed it: dashes, blanks and case do not count.
    ///
    /// # Errors
    /// When it is not 26 base32 characters then; the text is not repeated.
    pub fn typed(text: &str) -> Result<Self, RecoveryCodeError> {
        let plain = text.chars().filter(|letter| !matches!(letter, '-' | ' '));
        plain.collect::<String>().to_ascii_uppercase().parse()
    }

    /// The code in five groups, for paper.
    #[must_use]
    pub fn printed(&self) -> String {
        let text = self.reveal();
        let groups: Vec<&str> = [0..5, 5..10, 10..15, 15..20, 20..26]
            .into_iter()
            .filter_map(|group| text.get(group))
            .collect();
        groups.join("-")
    }

    /// What the keyring keeps of it: SHA-256 of `countersign.recovery/1`, a line feed and the 26 characters.
    #[must_use]
    pub fn hash(&self) -> Hash {
        Hash::of(format!("countersign.recovery/1\n{}", self.reveal()).as_bytes())
    }

    fn reveal(&self) -> String {
        BASE32_NOPAD.encode(&self.0)
    }
}

/// A text that is no recovery code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the 26 letters and digits of a recovery code")]
pub struct RecoveryCodeError;

impl FromStr for RecoveryCode {
    type Err = RecoveryCodeError;

    fn from_str(text: &str) -> Result<Self, RecoveryCodeError> {
        let bytes = BASE32_NOPAD
            .decode(text.as_bytes())
            .map_err(|_| RecoveryCodeError)?;
        bytes.try_into().map(Self).map_err(|_| RecoveryCodeError)
    }
}

impl fmt::Debug for RecoveryCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryCode(hidden)")
    }
}

impl Serialize for RecoveryCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.reveal())
    }
}

impl<'de> Deserialize<'de> for RecoveryCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl Body for KeyringChange {
    const TYPE: &'static str = "countersign.keyring-change/1";

    fn check(&self) -> Result<(), Refusal> {
        let shape = |words: &str| Err(Reason::Shape.because(words));
        if self.seq == 0 || (self.seq == 1) != self.prev.is_none() {
            return shape("the first change has `seq` 1 and no `prev`, every other one has `prev`");
        }
        if self.seq == 1 && self.op != Op::Add {
            return shape("the first change adds a passkey");
        }
        let members = (
            self.credential.is_some(),
            self.credential_id.is_some(),
            self.code.is_some(),
        );
        match (self.op, members) {
            (Op::Add, (true, false, false)) | (Op::Recover, (true, false, true)) => {}
            (Op::Revoke, (false, true, false)) => {}
            (Op::Add, _) => return shape("`add` has `credential` alone"),
            (Op::Revoke, _) => return shape("`revoke` has `credential_id` alone"),
            (Op::Recover, _) => return shape("`recover` has `credential` and `code`"),
        }
        self.credential.as_ref().map_or(Ok(()), Credential::check)
    }
}

impl Credential {
    /// Judges what the registration says against what the members say.
    fn check(&self) -> Result<(), Refusal> {
        let rule = |words: String| Err(Reason::Rule.because(words));
        if !RP_IDS.contains(&self.rp_id.as_str()) {
            return rule(format!(
                "`{}` is not one of {}",
                self.rp_id,
                RP_IDS.join(", ")
            ));
        }
        if self.origins.is_empty() {
            return rule("a passkey has at least one origin".into());
        }
        check_distinct("origins", self.origins.iter().map(String::as_str))?;
        if let Some(other) = self.origins.iter().find(|origin| !self.is_own(origin)) {
            return rule(format!(
                "`{other}` is not `http://{}` with a port",
                self.rp_id
            ));
        }
        check_distinct("transports", self.transports.iter().map(String::as_str))?;
        self.transports
            .iter()
            .try_for_each(|transport| check_text("transports", transport, 32))?;
        check_text("label", &self.label, 64)?;
        let made = Registration::read(self.attestation_object.as_slice()).map_err(|error| {
            Reason::Rule.because(format!("attestation_object: {}", error.words))
        })?;
        let agrees = made.credential_id == self.credential_id.as_slice()
            && made.key == self.public_key_cose
            && made.rp_id_hash == *Hash::of(self.rp_id.as_bytes()).as_bytes()
            && made.aaguid == self.aaguid
            && made.backup_eligible == self.backup_eligible;
        if !agrees {
            return rule(
                "the attestation object is of another passkey than the members say".into(),
            );
        }
        Ok(())
    }

    fn is_own(&self, origin: &str) -> bool {
        let port = origin
            .strip_prefix("http://")
            .and_then(|rest| rest.strip_prefix(self.rp_id.as_str()))
            .and_then(|rest| rest.strip_prefix(':'));
        port.is_some_and(|port| {
            port.parse::<u16>()
                .is_ok_and(|number| number > 0 && number.to_string() == port)
        })
    }
}
