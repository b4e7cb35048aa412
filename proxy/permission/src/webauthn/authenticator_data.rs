//! The authenticator's own part of an assertion or registration (V6): flags, counter, the new key where there is one.

use ciborium::Value;

use super::{cbor, cose::CoseKey};
use crate::{Hash, Reason, Refusal};

const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const BACKUP_ELIGIBLE: u8 = 0x08;
const BACKED_UP: u8 = 0x10;
const ATTESTED: u8 = 0x40;
const EXTENSIONS: u8 = 0x80;

/// Bytes before anything optional.
const FIXED: usize = 37;

/// Authenticator data, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct AuthenticatorData {
    /// SHA-256 of the relying party id.
    pub rp_id_hash: [u8; 32],
    /// Somebody touched it.
    pub user_present: bool,
    /// It verified the person.
    pub user_verified: bool,
    /// The passkey can be synchronised.
    pub backup_eligible: bool,
    /// It is.
    pub backed_up: bool,
    /// Its counter.
    pub counter: u32,
    /// The new passkey, in a registration.
    pub attested: Option<Attested>,
}

/// A passkey as its authenticator announces it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attested {
    /// The model, a UUID.
    pub aaguid: String,
    /// Its id.
    pub credential_id: Vec<u8>,
    /// Its public key.
    pub key: CoseKey,
}

impl AuthenticatorData {
    /// Reads all of `bytes`.
    ///
    /// # Errors
    /// [`Reason::AuthenticatorData`] when a length is wrong or something is left over.
    pub fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let fault =
            |words: &str| Reason::AuthenticatorData.because(format!("authenticator data: {words}"));
        let (Some(rp_id_hash), Some(flags), Some(counter)) = (
            bytes.first_chunk::<32>(),
            bytes.get(32),
            bytes
                .get(33..FIXED)
                .and_then(|bytes| bytes.first_chunk::<4>()),
        ) else {
            return Err(fault("shorter than 37 bytes"));
        };
        let has = |flag: u8| flags & flag != 0;
        let mut rest = bytes.get(FIXED..).unwrap_or_default();
        let mut attested = None;
        if has(ATTESTED) {
            let (new, after) =
                attested_key(rest).ok_or_else(|| fault("the new passkey can't be read"))?;
            attested = Some(new);
            rest = after;
        }
        if has(EXTENSIONS) {
            match cbor::first(rest) {
                Some((Value::Map(_), after)) => rest = after,
                _ => return Err(fault("the extensions can't be read")),
            }
        }
        if !rest.is_empty() {
            return Err(fault("something follows that no flag announces"));
        }
        Ok(Self {
            rp_id_hash: *rp_id_hash,
            user_present: has(USER_PRESENT),
            user_verified: has(USER_VERIFIED),
            backup_eligible: has(BACKUP_ELIGIBLE),
            backed_up: has(BACKED_UP),
            counter: u32::from_be_bytes(*counter),
            attested,
        })
    }

    /// Judges the flags and the relying party.
    ///
    /// # Errors
    /// The first reason from [`Reason::RelyingParty`] to [`Reason::Backup`].
    pub fn judge(&self, rp_id: &str) -> Result<(), Refusal> {
        if self.rp_id_hash != *Hash::of(rp_id.as_bytes()).as_bytes() {
            return Err(
                Reason::RelyingParty.because(format!("signed for another place than `{rp_id}`"))
            );
        }
        self.judge_flags()
    }

    /// Judges the flags alone, as [`AuthenticatorData::judge`].
    pub(super) fn judge_flags(&self) -> Result<(), Refusal> {
        if !self.user_present {
            return Err(Reason::UserPresence.because("nobody touched the authenticator"));
        }
        if !self.user_verified {
            return Err(
                Reason::UserVerification.because("the authenticator did not verify the person")
            );
        }
        if self.backed_up && !self.backup_eligible {
            return Err(Reason::Backup.because("a passkey is synchronised that can't be"));
        }
        Ok(())
    }
}

fn attested_key(bytes: &[u8]) -> Option<(Attested, &[u8])> {
    let (aaguid, rest) = bytes.split_first_chunk::<16>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (credential_id, rest) = rest.split_at_checked(length)?;
    let (_, after) = cbor::first(rest)?;
    let key = CoseKey::read(rest.get(..rest.len() - after.len())?).ok()?;
    let new = Attested {
        aaguid: uuid(*aaguid),
        credential_id: credential_id.to_vec(),
        key,
    };
    Some((new, after))
}

fn uuid(bytes: [u8; 16]) -> String {
    let hex = data_encoding::HEXLOWER.encode(&bytes);
    let groups: Vec<&str> = [0..8, 8..12, 12..16, 16..20, 20..32]
        .into_iter()
        .filter_map(|group| hex.get(group))
        .collect();
    groups.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(flags: u8, after: &[u8]) -> Vec<u8> {
        let mut bytes = Hash::of(b"localhost").as_bytes().to_vec();
        bytes.push(flags);
        bytes.extend([0, 0, 1, 2]);
        bytes.extend(after);
        bytes
    }

    fn check(bytes: &[u8], want: Option<Reason>) {
        let got = AuthenticatorData::read(bytes).and_then(|data| data.judge("localhost"));
        assert_eq!(got.err().map(|refusal| refusal.reason), want, "{bytes:?}");
    }

    #[test]
    fn v6_lengths_flags_and_what_follows() {
        use Reason::{
            AuthenticatorData as Data, Backup, RelyingParty, UserPresence, UserVerification,
        };
        check(&data(0x05, &[]), None);
        check(&data(0x1d, &[]), None);
        check(&data(0x0d, &[]), None);
        check(&data(0x15, &[]), Some(Backup));
        check(&data(0x04, &[]), Some(UserPresence));
        check(&data(0x01, &[]), Some(UserVerification));
        check(&data(0x05, &[0]), Some(Data));
        check(&data(0x05, &[])[..36], Some(Data));
        check(&[], Some(Data));
        check(&data(0x45, &[]), Some(Data));
        check(&data(0x85, &[]), Some(Data));
        check(&data(0x85, &[0xa0]), None);
        check(&data(0x85, &[0xa0, 0]), Some(Data));
        check(&data(0x85, &[0x80]), Some(Data));
        check(
            &data(0x85, &[0xa2, 0x61, b'a', 1, 0x61, b'a', 1]),
            Some(Data),
        );
        let mut other = data(0x05, &[]);
        other[0] ^= 1;
        check(&other, Some(RelyingParty));
        assert_eq!(AuthenticatorData::read(&data(5, &[])).unwrap().counter, 258);
    }
}
