//! Why secrets can't be had, in words with a remedy. Holds no secret.

use std::path::PathBuf;

use crate::folder::FolderError;
use crate::problem::Problem;

/// Why secrets can't be had.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// Linux: no session bus to ask.
    #[error("no keychain here: this session has no D-Bus")]
    NoBus,
    /// Linux: a bus, but nothing on it keeps secrets.
    #[error("no keychain here: D-Bus runs, but no program on it offers the Secret Service")]
    NoService,
    /// The keychain wants a person first.
    #[error("the keychain is locked")]
    Locked,
    /// The keychain didn't answer in time.
    #[error("the keychain did not answer in {seconds} s; it may be waiting for its password")]
    Slow {
        /// How long it had.
        seconds: u64,
    },
    /// Two entries for one account.
    #[error("the keychain holds `{account}` twice")]
    Ambiguous {
        /// The account.
        account: String,
    },
    /// What is stored is not what we store.
    #[error("the stored secret `{account}` can't be read: it is not what countersign wrote")]
    Malformed {
        /// The account.
        account: String,
    },
    /// A secret that is needed is not there.
    #[error("the secret `{account}` has no value")]
    Missing {
        /// The account.
        account: String,
    },
    /// Anything else the keychain says.
    #[error("the keychain failed: {0}")]
    Keychain(String),
    /// The file is missing.
    #[error("`{}` is missing", .0.display())]
    FileMissing(PathBuf),
    /// The file is there where it should not be.
    #[error("`{}` is there already", .0.display())]
    FileExists(PathBuf),
    /// The passphrase doesn't fit.
    #[error("the passphrase does not fit `{}`", .0.display())]
    WrongPassphrase(PathBuf),
    /// The file was changed or cut.
    #[error("`{}` is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How that is known.
        what: &'static str,
    },
    /// A newer program wrote the file.
    #[error("`{}` was written by a newer version of countersign (format {version})", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        version: u8,
    },
    /// The file can't be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Nobody gave a passphrase.
    #[error("no passphrase: {0}")]
    NoPassphrase(String),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    NoRandom(String),
    /// The key can't be derived.
    #[error("the key can't be derived: {0}")]
    Derive(String),
}

const OTHER_WAY: &str = "or make the executor with `countersign init --secrets file`, which keeps secrets in a file under a passphrase";

impl SecretsError {
    /// What a person does about it.
    pub fn remedy(&self) -> String {
        match self {
            SecretsError::NoBus => format!(
                "log in to a desktop session, or start one with `dbus-run-session` and a keyring such as gnome-keyring; {OTHER_WAY}"
            ),
            SecretsError::NoService => format!("start a keyring such as gnome-keyring, KeePassXC or KWallet in this session; {OTHER_WAY}"),
            SecretsError::Locked | SecretsError::Slow { .. } => {
                "unlock the keychain (log in to the desktop, or open its settings), then try again".to_owned()
            }
            SecretsError::Ambiguous { account } => {
                format!("open the keychain's own program and remove one of the entries named `{account}`")
            }
            SecretsError::Malformed { account } | SecretsError::Missing { account } => match account.strip_prefix("server/") {
                Some(place) => format!("`countersign secret set {place}`"),
                None => "restore the secrets from a copy; without this one the executor can't go on".to_owned(),
            },
            SecretsError::Keychain(_) => format!("look at the keychain's own program; {OTHER_WAY}"),
            SecretsError::FileMissing(_) => "restore the file from a copy; without it the executor's keys are gone".to_owned(),
            SecretsError::FileExists(_) => "use the executor that is there, or another folder".to_owned(),
            SecretsError::WrongPassphrase(_) => "try the passphrase again; it is the one chosen at `countersign init`".to_owned(),
            SecretsError::Damaged { .. } => "restore the file from a copy".to_owned(),
            SecretsError::Newer { .. } => "use the newer version of countersign".to_owned(),
            SecretsError::Folder(error) => error.remedy(),
            SecretsError::NoPassphrase(_) => {
                "put the passphrase in a file only you can read and name it in COUNTERSIGN_PASSPHRASE_FILE, \
                 or hand it over in the descriptor COUNTERSIGN_PASSPHRASE_FD names"
                    .to_owned()
            }
            SecretsError::NoRandom(_) => "nothing here can be done safely; look at the system".to_owned(),
            SecretsError::Derive(_) => "free some memory and try again".to_owned(),
        }
    }

    /// The stable word for scripts.
    pub fn code(&self) -> &'static str {
        match self {
            SecretsError::NoBus | SecretsError::NoService => "keychain_missing",
            SecretsError::Locked | SecretsError::Slow { .. } => "keychain_locked",
            SecretsError::WrongPassphrase(_) => "passphrase_wrong",
            SecretsError::NoPassphrase(_) => "passphrase_missing",
            SecretsError::Damaged { .. } | SecretsError::Malformed { .. } => "secrets_damaged",
            SecretsError::Newer { .. } => "restart_required",
            SecretsError::Missing { .. } => "secret_missing",
            _ => "secrets",
        }
    }
}

impl From<SecretsError> for Problem {
    fn from(error: SecretsError) -> Problem {
        Problem::new(error.code(), error.to_string(), error.remedy())
    }
}
