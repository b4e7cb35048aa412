//! `secrets.enc`: all secrets in one file under a passphrase, for machines without a keychain. Knows nothing of where the passphrase comes from.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::folder::{Folder, read_own, replace};

use super::{Account, Passphrase, Secret, SecretStore, SecretsError, random};

/// The store in `secrets.enc`. Every change re-reads the file under a lock, so several processes lose nothing.
///
/// ```text
///  0  8  "CSSECRET"
///  8  1  format: 1
///  9  1  derivation: 1 = Argon2id 1.3, 64 bytes: key (32), check (32)
/// 10  4  Argon2 memory in KiB, big-endian
/// 14  4  Argon2 passes
/// 18  4  Argon2 lanes
/// 22 16  salt
/// 38 32  SHA-256 of the check: tells a wrong passphrase from a damaged file
/// 70 24  nonce, fresh at every write
/// 94  n  XChaCha20-Poly1305 over {"<account>": "<base64>", …}, bytes 0..94 authenticated with it
///  … 32  SHA-256 of everything before: tells damage without a passphrase
/// ```
pub struct FileStore {
    folder: Folder,
    passphrase: Passphrase,
    derived: Mutex<Option<Derived>>,
}

/// What Argon2id costs. The default is OWASP's minimum (19 MiB, 2 passes, 1 lane), because a proxy derives at each start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KdfParams {
    /// Memory in KiB.
    pub memory: u32,
    /// Passes.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

/// The derived key, kept so that one process derives once.
struct Derived {
    salt: [u8; 16],
    params: KdfParams,
    key: Zeroizing<[u8; 64]>,
}

type Secrets = BTreeMap<String, Zeroizing<String>>;

const MAGIC: &[u8; 8] = b"CSSECRET";
const FORMAT: u8 = 1;
const ARGON2ID: u8 = 1;
const HEADER: usize = 94;
const SUM: usize = 32;
const LARGEST: u64 = 16 << 20;
const WAIT: Duration = Duration::from_secs(10);

impl FileStore {
    /// Makes an empty store.
    pub fn create(
        folder: &Folder,
        passphrase: Passphrase,
        params: KdfParams,
    ) -> Result<FileStore, SecretsError> {
        let store = FileStore {
            folder: folder.clone(),
            passphrase,
            derived: Mutex::new(None),
        };
        let _lock = folder.lock("secrets.lock", WAIT)?;
        if folder.secrets().exists() {
            return Err(SecretsError::FileExists(folder.secrets()));
        }
        let salt = *random::<16>()?;
        store.derive(salt, params)?;
        store.write(&Secrets::new())?;
        Ok(store)
    }

    /// Opens the store and tries the passphrase.
    pub fn open(folder: &Folder, passphrase: Passphrase) -> Result<FileStore, SecretsError> {
        let store = FileStore {
            folder: folder.clone(),
            passphrase,
            derived: Mutex::new(None),
        };
        store.read()?;
        Ok(store)
    }

    fn path(&self) -> PathBuf {
        self.folder.secrets()
    }

    fn damaged(&self, what: &'static str) -> SecretsError {
        SecretsError::Damaged {
            path: self.path(),
            what,
        }
    }

    fn read(&self) -> Result<Secrets, SecretsError> {
        let bytes = match read_own(&self.path(), LARGEST) {
            Ok((bytes, _)) => bytes,
            Err(error) if error.is_not_found() => {
                return Err(SecretsError::FileMissing(self.path()));
            }
            Err(error) => return Err(error.into()),
        };
        if bytes.len() < MAGIC.len() + 1 || &bytes[..MAGIC.len()] != MAGIC {
            return Err(self.damaged("it does not start as a secrets file does"));
        }
        if bytes[8] > FORMAT {
            return Err(SecretsError::Newer {
                path: self.path(),
                version: bytes[8],
            });
        }
        if bytes.len() < HEADER + 16 + SUM {
            return Err(self.damaged("it is too short"));
        }
        let (content, sum) = bytes.split_at(bytes.len() - SUM);
        if Sha256::digest(content).as_slice() != sum {
            return Err(self.damaged("its checksum does not fit"));
        }
        if content[8] != FORMAT || content[9] != ARGON2ID {
            return Err(self.damaged("its format does not exist"));
        }
        let params = KdfParams {
            memory: number(content, 10),
            passes: number(content, 14),
            lanes: number(content, 18),
        };
        if !params.is_sane() {
            return Err(self.damaged("its parameters are out of bounds"));
        }
        let mut salt = [0; 16];
        salt.copy_from_slice(&content[22..38]);
        self.derive(salt, params)?;
        let derived = self.lock();
        let Some(Derived { key, .. }) = derived.as_ref() else {
            return Err(SecretsError::Derive("no key".to_owned()));
        };
        let check = Sha256::digest(&key[32..]);
        if !bool::from(check.as_slice().ct_eq(&content[38..70])) {
            return Err(SecretsError::WrongPassphrase(self.path()));
        }
        let plain = cipher(key)
            .decrypt(
                &nonce(&content[70..HEADER]),
                Payload {
                    msg: &content[HEADER..],
                    aad: &content[..HEADER],
                },
            )
            .map(Zeroizing::new)
            .map_err(|_| self.damaged("its content does not authenticate"))?;
        serde_json::from_slice::<BTreeMap<String, String>>(&plain)
            .map(|secrets| {
                secrets
                    .into_iter()
                    .map(|(account, value)| (account, Zeroizing::new(value)))
                    .collect()
            })
            .map_err(|_| self.damaged("its content is not what countersign writes"))
    }

    /// Encrypts and replaces the file under the derived key. The caller holds the lock.
    fn write(&self, secrets: &Secrets) -> Result<(), SecretsError> {
        let derived = self.lock();
        let Some(Derived { salt, params, key }) = derived.as_ref() else {
            return Err(SecretsError::Derive("no key".to_owned()));
        };
        let mut bytes = Vec::with_capacity(HEADER + 4096);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[FORMAT, ARGON2ID]);
        for number in [params.memory, params.passes, params.lanes] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(salt);
        bytes.extend_from_slice(&Sha256::digest(&key[32..]));
        let fresh = random::<24>()?;
        bytes.extend_from_slice(fresh.as_slice());
        let plain: BTreeMap<&str, &str> = secrets
            .iter()
            .map(|(account, value)| (account.as_str(), value.as_str()))
            .collect();
        let plain = Zeroizing::new(
            serde_json::to_vec(&plain).map_err(|error| SecretsError::Derive(error.to_string()))?,
        );
        let sealed = cipher(key)
            .encrypt(
                &nonce(fresh.as_slice()),
                Payload {
                    msg: &plain,
                    aad: &bytes,
                },
            )
            .map_err(|_| SecretsError::Derive("encryption failed".to_owned()))?;
        bytes.extend_from_slice(&sealed);
        let sum = Sha256::digest(&bytes);
        bytes.extend_from_slice(&sum);
        replace(&self.path(), &bytes)?;
        Ok(())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Secrets) -> T) -> Result<T, SecretsError> {
        let _lock = self.folder.lock("secrets.lock", WAIT)?;
        let mut secrets = self.read()?;
        let value = change(&mut secrets);
        self.write(&secrets)?;
        Ok(value)
    }

    fn derive(&self, salt: [u8; 16], params: KdfParams) -> Result<(), SecretsError> {
        let mut derived = self.lock();
        if derived
            .as_ref()
            .is_some_and(|derived| derived.salt == salt && derived.params == params)
        {
            return Ok(());
        }
        let wrong = |error: argon2::Error| SecretsError::Derive(error.to_string());
        let argon =
            Params::new(params.memory, params.passes, params.lanes, Some(64)).map_err(wrong)?;
        let mut key = Zeroizing::new([0; 64]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, argon)
            .hash_password_into(self.passphrase.bytes(), &salt, key.as_mut_slice())
            .map_err(wrong)?;
        *derived = Some(Derived { salt, params, key });
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Derived>> {
        self.derived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KdfParams {
    /// A file can't ask for more than this machine would lend: 1 GiB, 16 passes, 16 lanes.
    fn is_sane(&self) -> bool {
        (8..=1 << 20).contains(&self.memory)
            && (1..=16).contains(&self.passes)
            && (1..=16).contains(&self.lanes)
    }
}

impl Default for KdfParams {
    fn default() -> Self {
        KdfParams {
            memory: 19 * 1024,
            passes: 2,
            lanes: 1,
        }
    }
}

impl SecretStore for FileStore {
    fn kind(&self) -> &'static str {
        "file"
    }

    /// Each write replaces the file with all secrets and flushes it and its folder: measured 16 ms, beside 2 ms of a keychain. Once in
    /// five seconds keeps that away from the flushes of the book.
    fn pause(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn get(&self, account: &Account) -> Result<Option<Secret>, SecretsError> {
        Ok(self.get_all(std::slice::from_ref(account))?.pop().flatten())
    }

    fn set(&self, account: &Account, secret: &Secret) -> Result<(), SecretsError> {
        let stored = secret.to_stored();
        self.change(|secrets| {
            secrets.insert(account.as_str().to_owned(), stored);
        })
    }

    fn remove(&self, account: &Account) -> Result<bool, SecretsError> {
        self.change(|secrets| secrets.remove(account.as_str()).is_some())
    }

    fn list(&self) -> Result<Vec<Account>, SecretsError> {
        Ok(self.read()?.into_keys().map(Account::from_text).collect())
    }

    fn get_all(&self, accounts: &[Account]) -> Result<Vec<Option<Secret>>, SecretsError> {
        let secrets = self.read()?;
        let one = |account: &Account| match secrets.get(account.as_str()) {
            None => Ok(None),
            Some(stored) => Secret::from_stored(stored.as_bytes())
                .map(Some)
                .ok_or_else(|| SecretsError::Malformed {
                    account: account.to_string(),
                }),
        };
        accounts.iter().map(one).collect()
    }
}

impl std::fmt::Debug for FileStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileStore")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4]
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn cipher(key: &[u8; 64]) -> XChaCha20Poly1305 {
    let mut half = Zeroizing::new([0; 32]);
    half.copy_from_slice(&key[..32]);
    XChaCha20Poly1305::new((&*half).into())
}

fn nonce(bytes: &[u8]) -> XNonce {
    let mut nonce = [0; 24];
    nonce.copy_from_slice(bytes);
    nonce.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: KdfParams = KdfParams {
        memory: 8,
        passes: 1,
        lanes: 1,
    };

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::new(text.as_bytes().to_vec()).unwrap()
    }

    fn world() -> (tempfile::TempDir, Folder, FileStore) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::resolve(Some(&temp.path().join("dir"))).unwrap();
        folder.create().unwrap();
        let store = FileStore::create(&folder, passphrase("right"), QUICK).unwrap();
        (temp, folder, store)
    }

    #[test]
    fn secrets_survive_and_stay_out_of_the_file() {
        let (_temp, folder, store) = world();
        let account = Account::server("files/TOKEN");
        assert_eq!(store.get(&account).unwrap(), None);
        store
            .set(&account, &Secret::new(b"top\0secret\xff".to_vec()))
            .unwrap();
        store
            .set(&Account::pepper(), &Secret::new(vec![7; 32]))
            .unwrap();
        let again = FileStore::open(&folder, passphrase("right")).unwrap();
        assert_eq!(
            again.get(&account).unwrap().unwrap().bytes(),
            b"top\0secret\xff"
        );
        assert_eq!(again.list().unwrap(), [Account::pepper(), account.clone()]);
        assert!(again.remove(&account).unwrap());
        assert!(!again.remove(&account).unwrap());
        assert_eq!(
            store.get(&account).unwrap(),
            None,
            "the other handle sees it"
        );
        let bytes = std::fs::read(folder.secrets()).unwrap();
        assert!(
            !bytes.windows(6).any(|w| w == b"pepper"),
            "account names are encrypted too"
        );
        assert_eq!(
            format!("{:?} {:?}", Secret::new(vec![1]), passphrase("x")),
            "Secret(..) Passphrase(..)"
        );
    }

    #[test]
    fn a_wrong_passphrase_is_told_from_damage() {
        let (_temp, folder, store) = world();
        store
            .set(&Account::pepper(), &Secret::new(vec![7; 32]))
            .unwrap();
        let whole = std::fs::read(folder.secrets()).unwrap();
        let open = |word: &str| FileStore::open(&folder, passphrase(word)).map(|_| ());
        assert!(matches!(
            open("wrong"),
            Err(SecretsError::WrongPassphrase(_))
        ));
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            replace(&folder.secrets(), &bytes).unwrap();
            let error = open("right").unwrap_err();
            let newer = at == 8 && bytes[8] > FORMAT;
            assert!(
                matches!(error, SecretsError::Damaged { .. })
                    || (newer && matches!(error, SecretsError::Newer { .. })),
                "byte {at}: {error}"
            );
        }
        for length in [0, 5, 9, HEADER, whole.len() - 1] {
            replace(&folder.secrets(), &whole[..length]).unwrap();
            assert!(
                matches!(open("right"), Err(SecretsError::Damaged { .. })),
                "cut to {length}"
            );
        }
        std::fs::remove_file(folder.secrets()).unwrap();
        assert!(matches!(open("right"), Err(SecretsError::FileMissing(_))));
        assert!(matches!(
            store.set(&Account::pepper(), &Secret::new(vec![1])),
            Err(SecretsError::FileMissing(_))
        ));
    }

    #[test]
    fn concurrent_edits_are_all_there() {
        let (_temp, folder, _store) = world();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let folder = &folder;
                scope.spawn(move || {
                    let store = FileStore::open(folder, passphrase("right")).unwrap();
                    for n in 0..5 {
                        store
                            .set(
                                &Account::server(&format!("s{thread}/K{n}")),
                                &Secret::new(vec![n]),
                            )
                            .unwrap();
                    }
                });
            }
        });
        assert_eq!(
            FileStore::open(&folder, passphrase("right"))
                .unwrap()
                .list()
                .unwrap()
                .len(),
            20
        );
    }
}
