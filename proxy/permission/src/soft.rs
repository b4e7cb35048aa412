//! A passkey in software, for tests: its client data are what browsers send. Never part of a program that is shipped.

use data_encoding::BASE64URL_NOPAD;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{DerSignature, SigningKey};

use crate::Hash;
use crate::document::{Bytes, Credential, Proof};
use crate::webauthn::{CoseKey, Registration};

/// Whose client data are imitated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Browser {
    /// With the member by which Chromium reminds readers that there may be others.
    Chromium,
    /// Without it.
    Firefox,
}

/// What a software passkey signs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftAlgorithm {
    /// ECDSA over P-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

/// A passkey made of a seed. Every signature is determined by it.
#[derive(Clone)]
pub struct SoftPasskey {
    key: SoftKey,
    id: Vec<u8>,
    rp_id: String,
    origin: String,
    /// The counter of the next signature; 0 stays 0.
    pub counter: u32,
    /// The flags of the next signature: present and verified.
    pub flags: u8,
    /// Whose client data are made.
    pub browser: Browser,
}

#[derive(Clone)]
enum SoftKey {
    Ec(Box<SigningKey>),
    Ed(Box<ed25519_dalek::SigningKey>),
}

/// Present and verified.
pub const PRESENT_AND_VERIFIED: u8 = 0x05;

impl SoftPasskey {
    /// A passkey for `http://<rp_id>:47821`.
    ///
    /// # Panics
    /// Never: a hash is a valid scalar but with a chance no test will meet.
    #[must_use]
    pub fn new(seed: &str, algorithm: SoftAlgorithm, rp_id: &str) -> Self {
        let secret = Hash::of(format!("software passkey {seed}").as_bytes());
        let key = match algorithm {
            SoftAlgorithm::Es256 => {
                let key = SigningKey::from_slice(secret.as_bytes()).expect("a scalar");
                SoftKey::Ec(Box::new(key))
            }
            SoftAlgorithm::EdDsa => {
                let key = ed25519_dalek::SigningKey::from_bytes(secret.as_bytes());
                SoftKey::Ed(Box::new(key))
            }
        };
        Self {
            key,
            id: Hash::of(format!("id of {seed}").as_bytes()).as_bytes()[..16].to_vec(),
            rp_id: rp_id.to_owned(),
            origin: format!("http://{rp_id}:47821"),
            counter: 0,
            flags: PRESENT_AND_VERIFIED,
            browser: Browser::Chromium,
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> Bytes {
        self.id.as_slice().into()
    }

    /// The entry of the keyring its registration leads to.
    ///
    /// # Panics
    /// When its own registration could not be read.
    #[must_use]
    pub fn credential(&self, label: &str) -> Credential {
        let attestation_object = self.attestation_object();
        let made = Registration::read(&attestation_object).expect("its own registration");
        Credential {
            credential_id: self.id(),
            public_key_cose: made.key,
            rp_id: self.rp_id.clone(),
            origins: vec![self.origin.clone()],
            aaguid: made.aaguid,
            transports: vec!["internal".into()],
            backup_eligible: made.backup_eligible,
            attestation_object: attestation_object.into(),
            label: label.into(),
        }
    }

    /// What `navigator.credentials.create()` answers with attestation `none`.
    #[must_use]
    pub fn attestation_object(&self) -> Vec<u8> {
        let mut data = Hash::of(self.rp_id.as_bytes()).as_bytes().to_vec();
        data.push(self.flags | 0x40);
        data.extend([0; 4]);
        data.extend([0; 16]);
        data.extend((self.id.len() as u16).to_be_bytes());
        data.extend(&self.id);
        data.extend(self.cose());
        let mut object = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58".to_vec();
        object.push(data.len() as u8);
        object.extend(data);
        object
    }

    /// What a browser makes of the signature over this document's hash.
    #[must_use]
    pub fn sign(&self, document: Hash) -> Proof {
        self.sign_client_data(&self.client_data(document))
    }

    /// The client data a browser would make.
    #[must_use]
    pub fn client_data(&self, document: Hash) -> String {
        let challenge = BASE64URL_NOPAD.encode(document.as_bytes());
        let other = match self.browser {
            Browser::Chromium => {
                r#","other_keys_can_be_added_here":"do not compare clientDataJSON against a template. See https://goo.gl/yabPex""#
            }
            Browser::Firefox => "",
        };
        format!(
            r#"{{"type":"webauthn.get","challenge":"{challenge}","origin":"{}","crossOrigin":false{other}}}"#,
            self.origin
        )
    }

    /// The authenticator data of an assertion.
    #[must_use]
    pub fn authenticator_data(&self) -> Vec<u8> {
        let mut data = Hash::of(self.rp_id.as_bytes()).as_bytes().to_vec();
        data.push(self.flags);
        data.extend(self.counter.to_be_bytes());
        data
    }

    /// A signature over any client data, honest or not.
    #[must_use]
    pub fn sign_client_data(&self, client_data: &str) -> Proof {
        self.sign_parts(client_data, self.authenticator_data())
    }

    /// A signature over any client data and authenticator data, honest or not.
    #[must_use]
    pub fn sign_parts(&self, client_data: &str, authenticator_data: Vec<u8>) -> Proof {
        let mut message = authenticator_data.clone();
        message.extend(Hash::of(client_data.as_bytes()).as_bytes());
        let signature = match &self.key {
            SoftKey::Ec(key) => {
                let signature: DerSignature = key.sign(&message);
                signature.as_bytes().to_vec()
            }
            SoftKey::Ed(key) => ed25519_dalek::Signer::sign(key.as_ref(), &message)
                .to_bytes()
                .to_vec(),
        };
        Proof::new(
            self.id(),
            client_data.as_bytes().into(),
            authenticator_data.into(),
            signature.into(),
        )
    }

    /// The public key, COSE.
    ///
    /// # Panics
    /// When its own key could not be read.
    #[must_use]
    pub fn public_key(&self) -> CoseKey {
        CoseKey::read(&self.cose()).expect("its own key")
    }

    fn cose(&self) -> Vec<u8> {
        match &self.key {
            SoftKey::Ec(key) => {
                let point = key.verifying_key().to_sec1_point(false);
                let bytes = point.as_bytes();
                let head = [0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 32];
                [&head, &bytes[1..33], &[0x22, 0x58, 32], &bytes[33..]].concat()
            }
            SoftKey::Ed(key) => {
                let head = [0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 32];
                [&head, key.verifying_key().as_bytes().as_slice()].concat()
            }
        }
    }
}
