//! Where the executor's secrets are kept: the keychain or a passphrase file, chosen in executor.json, never one instead of the other.
//! Knows no secret's use.

mod error;
mod file;
mod keychain;
mod memory;
mod passphrase;
mod run;

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::folder::Folder;
use crate::settings::{ExecutorEntry, Name, SecretsKind};

pub use error::SecretsError;
pub use file::{FileStore, KdfParams};
pub use keychain::Keychain;
pub use memory::MemoryStore;
pub use passphrase::{PASSPHRASE_FILE, Passphrase, PassphraseSource};
pub use run::{RunSecrets, fetch};

/// A place for secrets. Every call may block for up to some seconds; none waits for a person.
pub trait SecretStore: Send + Sync {
    /// The word a person knows it by: `keychain`, `file`.
    fn kind(&self) -> &'static str;

    /// The secret of `account`, if there is one.
    fn get(&self, account: &Account) -> Result<Option<Secret>, SecretsError>;

    /// Stores or replaces the secret of `account`.
    fn set(&self, account: &Account, secret: &Secret) -> Result<(), SecretsError>;

    /// Removes the secret of `account`; `false` where there was none.
    fn remove(&self, account: &Account) -> Result<bool, SecretsError>;

    /// The accounts that have a secret, sorted.
    fn list(&self) -> Result<Vec<Account>, SecretsError>;

    /// The least time to leave between two writes that nobody waits for.
    fn pause(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Several secrets in one go.
    fn get_all(&self, accounts: &[Account]) -> Result<Vec<Option<Secret>>, SecretsError> {
        accounts.iter().map(|account| self.get(account)).collect()
    }
}

/// The name under which one secret is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account(String);

/// A secret's bytes: wiped when dropped, never shown.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Secret(Vec<u8>);

/// Whether a person sits in front of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interaction {
    /// A prompt may be shown.
    Allowed,
    /// Nobody could answer one.
    None,
}

/// Opens the store that executor.json names.
pub fn open(
    folder: &Folder,
    executor: &ExecutorEntry,
    kind: SecretsKind,
    interaction: Interaction,
) -> Result<Box<dyn SecretStore>, SecretsError> {
    Ok(match kind {
        SecretsKind::Keychain => Box::new(Keychain::open(&executor.id, interaction)?),
        SecretsKind::File => {
            let passphrase = PassphraseSource::from_environment(interaction)?.read()?;
            Box::new(FileStore::open(folder, passphrase)?)
        }
    })
}

/// Makes the store that executor.json will name, or opens the one an earlier, half-finished `init` made.
pub fn create(
    folder: &Folder,
    executor: &ExecutorEntry,
    kind: SecretsKind,
    interaction: Interaction,
) -> Result<Box<dyn SecretStore>, SecretsError> {
    match kind {
        SecretsKind::Keychain => open(folder, executor, kind, interaction),
        SecretsKind::File => {
            let source = PassphraseSource::from_environment(interaction)?;
            if folder.secrets().exists() {
                return Ok(Box::new(FileStore::open(folder, source.read()?)?));
            }
            Ok(Box::new(FileStore::create(
                folder,
                source.read_new()?,
                KdfParams::default(),
            )?))
        }
    }
}

impl Account {
    /// The book's signing key (an Ed25519 seed).
    pub fn book_signing() -> Account {
        Account("book/signing".to_owned())
    }

    /// The signing key a rotation is putting in force.
    pub fn book_signing_next() -> Account {
        Account("book/signing.next".to_owned())
    }

    /// The signing key before the one in force: signs beside it for a while.
    pub fn book_signing_before() -> Account {
        Account("book/signing.before".to_owned())
    }

    /// The signing key of a book that is being begun.
    pub fn book_signing_era() -> Account {
        Account("book/signing.era".to_owned())
    }

    /// The key that wraps the vault's keys.
    pub fn book_vault() -> Account {
        Account("book/vault".to_owned())
    }

    /// How long the book was when this machine last looked.
    pub fn book_pin() -> Account {
        Account("book/pin".to_owned())
    }

    /// The key under which agents' keys are hashed.
    pub fn pepper() -> Account {
        Account("pepper".to_owned())
    }

    /// The text of an agent's key.
    pub fn agent(name: &Name) -> Account {
        Account(format!("agent/{name}"))
    }

    /// A value a server is started with, by its place in executor.json: `<server>/<KEY>`.
    pub fn server(place: &str) -> Account {
        Account(format!("server/{place}"))
    }

    /// An account as a store names it.
    pub fn from_text(text: impl Into<String>) -> Account {
        Account(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Secret {
    /// Takes the bytes.
    pub fn new(bytes: Vec<u8>) -> Secret {
        Secret(bytes)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as text, where they are UTF-8.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The bytes as a key of 32 bytes.
    pub fn key(&self) -> Option<Zeroizing<[u8; 32]>> {
        Some(Zeroizing::new(self.0.as_slice().try_into().ok()?))
    }

    /// As it is stored: base64 (some keychains hold text only).
    fn to_stored(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(&self.0))
    }

    fn from_stored(stored: &[u8]) -> Option<Secret> {
        Some(Secret(STANDARD.decode(stored).ok()?))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Fresh random bytes from the operating system.
pub fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, SecretsError> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice())
        .map_err(|error| SecretsError::NoRandom(error.to_string()))?;
    Ok(bytes)
}
