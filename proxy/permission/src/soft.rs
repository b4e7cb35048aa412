//! A passkey in software, for tests: its client data are what browsers send. Never part of a program that is shipped.

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{DerSignature, SigningKey};
use rsa::traits::PublicKeyParts as _;
use rsa::{BoxedUint, Pkcs1v15Sign, PrivateKey};
use sha2::Sha256;

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
    /// RSA, one key for every seed.
    Rs256,
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
    Rsa(Box<PrivateKey>),
}

/// The two primes of the one RSA key, made for these tests and worth nothing.
const PRIMES: [&str; 2] = [
    "ec2e62c16e388daa4f5f523b2e769f006492599fe852bd04d681240a148d2748f022a68aed822830cdd8dcaba259ac86007e4a700152522d55eb57c5d70e842903a533683e3a8d60897d9af8251a46cdeb6995ff6f7a302096e9d91f4a08a5304e4f64c0f13499e97d9f32476953745b9b6fa3ef8fce5e03e30ae01e5b3a8fe7",
    "bc03a4613143434ad22b21ac0b05092e7ad229e720001c67ba4e879b21d8bd49bcf12b0cd54bde6a3091ba84746eed39b1f6859e0ad50d394f8a359fdc2eb2c2a89c220eb6846372c579cec2f800096b6bc520014826e849c819c0d69384b886a3697b662185ed8dd8821e4d19a46066952e88b8d5a6d69997d742c501fef173",
];

/// Present and verified.
pub const PRESENT_AND_VERIFIED: u8 = 0x05;

impl SoftPasskey {
    /// A passkey for `http://<rp_id>:47821`.
    ///
    /// # Panics
    /// Never: a hash is a valid scalar but for a chance that no test meets.
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
            SoftAlgorithm::Rs256 => {
                let prime = |hex: &str| {
                    let bytes = HEXLOWER.decode(hex.as_bytes()).expect("hex");
                    BoxedUint::from_be_slice_vartime(&bytes)
                };
                let [p, q] = PRIMES.map(prime);
                let key =
                    PrivateKey::from_p_q(p, q, BoxedUint::from(65537u32)).expect("two primes");
                SoftKey::Rsa(Box::new(key))
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
        let mut object = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData".to_vec();
        match u8::try_from(data.len()) {
            Ok(length) => object.extend([0x58, length]),
            Err(_) => {
                object.push(0x59);
                object.extend((data.len() as u16).to_be_bytes());
            }
        }
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
            SoftKey::Rsa(key) => {
                let digest = Hash::of(&message);
                key.sign(Pkcs1v15Sign::new::<Sha256>(), digest.as_bytes())
                    .expect("a signature")
            }
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
            SoftKey::Rsa(key) => {
                let n = key.n().to_be_bytes_trimmed_vartime();
                let head = [
                    0xa4, 0x01, 0x03, 0x03, 0x39, 0x01, 0x00, 0x20, 0x59, 0x01, 0x00,
                ];
                [&head, &n[..], &[0x21, 0x43, 0x01, 0x00, 0x01]].concat()
            }
        }
    }
}
