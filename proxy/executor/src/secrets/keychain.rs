//! The operating system's keychain, asked from a thread of its own so that a prompt nobody answers can't hold the program.
//! On Linux the bus is found from the user id (`/run/user/<uid>/bus`) where the environment names none.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keyring_core::{CredentialStore, Entry, Error};
use zeroize::Zeroizing;

use super::{Account, Interaction, Secret, SecretStore, SecretsError};

/// The keychain's entries of one executor: service `countersign/<executor id>`, user = the account, value in base64.
pub struct Keychain {
    jobs: Mutex<Sender<Job>>,
    patience: Duration,
}

type Job = Box<dyn FnOnce(&Entries) + Send>;

/// What the worker thread holds.
struct Entries {
    store: Arc<CredentialStore>,
    service: String,
}

impl Keychain {
    /// Connects to the keychain of this user for the executor `id`.
    pub fn open(id: &str, interaction: Interaction) -> Result<Keychain, SecretsError> {
        Keychain::over(native, id, interaction)
    }

    fn over(
        store: fn() -> keyring_core::Result<Arc<CredentialStore>>,
        id: &str,
        interaction: Interaction,
    ) -> Result<Keychain, SecretsError> {
        let patience = match interaction {
            Interaction::Allowed => Duration::from_secs(60),
            Interaction::None => Duration::from_secs(10),
        };
        let service = format!("countersign/{id}");
        let (jobs, work) = channel::<Job>();
        let (opened, opening) = sync_channel(1);
        std::thread::Builder::new()
            .name("keychain".to_owned())
            .spawn(move || serve(store, service, &work, |result| drop(opened.send(result))))
            .map_err(|error| SecretsError::Keychain(error.to_string()))?;
        wait(&opening, patience)??;
        Ok(Keychain {
            jobs: Mutex::new(jobs),
            patience,
        })
    }

    /// Runs `job` on the worker, waiting for its answer no longer than our patience.
    fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Entries) -> Result<T, SecretsError> + Send + 'static,
    ) -> Result<T, SecretsError> {
        let (answer, answered) = sync_channel(1);
        let job: Job = Box::new(move |entries| drop(answer.send(job(entries))));
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.send(job)
            .map_err(|_| SecretsError::Keychain("its thread has ended".to_owned()))?;
        drop(jobs);
        wait(&answered, self.patience)?
    }
}

impl SecretStore for Keychain {
    fn kind(&self) -> &'static str {
        "keychain"
    }

    fn get(&self, account: &Account) -> Result<Option<Secret>, SecretsError> {
        let account = account.clone();
        self.ask(move |entries| entries.get(&account))
    }

    fn set(&self, account: &Account, secret: &Secret) -> Result<(), SecretsError> {
        let (account, secret) = (account.clone(), secret.clone());
        self.ask(move |entries| {
            let entry = entries.entry(&account)?;
            entry
                .set_secret(secret.to_stored().as_bytes())
                .map_err(|error| translate(&account, &error))
        })
    }

    fn remove(&self, account: &Account) -> Result<bool, SecretsError> {
        let account = account.clone();
        self.ask(
            move |entries| match entries.entry(&account)?.delete_credential() {
                Ok(()) => Ok(true),
                Err(Error::NoEntry) => Ok(false),
                Err(error) => Err(translate(&account, &error)),
            },
        )
    }

    fn list(&self) -> Result<Vec<Account>, SecretsError> {
        self.ask(Entries::list)
    }

    fn get_all(&self, accounts: &[Account]) -> Result<Vec<Option<Secret>>, SecretsError> {
        let accounts = accounts.to_vec();
        self.ask(move |entries| {
            accounts
                .iter()
                .map(|account| entries.get(account))
                .collect()
        })
    }
}

impl std::fmt::Debug for Keychain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keychain(..)")
    }
}

impl Entries {
    fn entry(&self, account: &Account) -> Result<Entry, SecretsError> {
        Entry::new_in_store(&self.store, &self.service, account.as_str())
            .map_err(|error| translate(account, &error))
    }

    fn get(&self, account: &Account) -> Result<Option<Secret>, SecretsError> {
        match self.entry(account)?.get_secret() {
            Ok(stored) => {
                let stored = Zeroizing::new(stored);
                let secret = Secret::from_stored(&stored);
                secret.map(Some).ok_or_else(|| SecretsError::Malformed {
                    account: account.to_string(),
                })
            }
            Err(Error::NoEntry) => Ok(None),
            Err(error) => Err(translate(account, &error)),
        }
    }

    fn list(&self) -> Result<Vec<Account>, SecretsError> {
        let all = Account::from_text("");
        // The stores filter differently (attributes, a pattern, a service); what comes back is filtered again below.
        let found = if cfg!(windows) {
            Entry::search_in_store(
                &self.store,
                &HashMap::from([("pattern", self.service.as_str())]),
            )
        } else {
            Entry::search_in_store(
                &self.store,
                &HashMap::from([("service", self.service.as_str())]),
            )
        };
        let mut accounts: Vec<Account> = found
            .map_err(|error| translate(&all, &error))?
            .iter()
            .filter_map(Entry::get_specifiers)
            .filter(|(service, _)| *service == self.service)
            .map(|(_, user)| Account::from_text(user))
            .collect();
        accounts.sort();
        Ok(accounts)
    }
}

/// The worker: opens the store, says how that went, then takes jobs until nobody can send one.
fn serve(
    store: fn() -> keyring_core::Result<Arc<CredentialStore>>,
    service: String,
    work: &Receiver<Job>,
    opened: impl FnOnce(Result<(), SecretsError>),
) {
    match store() {
        Ok(store) => {
            opened(Ok(()));
            let entries = Entries { store, service };
            while let Ok(job) = work.recv() {
                job(&entries);
            }
        }
        Err(error) => opened(Err(translate(&Account::from_text(""), &error))),
    }
}

fn wait<T>(answered: &Receiver<T>, patience: Duration) -> Result<T, SecretsError> {
    answered
        .recv_timeout(patience)
        .map_err(|error| match error {
            RecvTimeoutError::Timeout => SecretsError::Slow {
                seconds: patience.as_secs(),
            },
            RecvTimeoutError::Disconnected => {
                SecretsError::Keychain("its thread has ended".to_owned())
            }
        })
}

fn native() -> keyring_core::Result<Arc<CredentialStore>> {
    #[cfg(target_os = "linux")]
    return Ok(zbus_secret_service_keyring_store::Store::new()?);
    #[cfg(windows)]
    return Ok(windows_native_keyring_store::Store::new()?);
    #[cfg(target_os = "macos")]
    return Ok(apple_native_keyring_store::keychain::Store::new()?);
    #[cfg(not(any(target_os = "linux", windows, target_os = "macos")))]
    return Err(Error::NotSupportedByStore(
        "this system has no keychain countersign knows".to_owned(),
    ));
}

/// The store's words become ours. The stores say where they failed only in their texts, so those are read.
fn translate(account: &Account, error: &Error) -> SecretsError {
    let (words, shown) = (format!("{error:?}"), format!("{error}"));
    let has = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    match error {
        Error::Ambiguous(_) => SecretsError::Ambiguous {
            account: account.to_string(),
        },
        Error::NoStorageAccess(_) => SecretsError::Locked,
        Error::BadEncoding(_) | Error::BadDataFormat(..) | Error::BadStoreFormat(_) => {
            SecretsError::Malformed {
                account: account.to_string(),
            }
        }
        _ if has(&[
            "ServiceUnknown",
            "NameHasNoOwner",
            "org.freedesktop.secrets was not provided",
            "Spawn.",
        ]) =>
        {
            SecretsError::NoService
        }
        _ if has(&["Locked", "Prompt"]) => SecretsError::Locked,
        _ if has(&[
            "Unavailable",
            "NotFound",
            "ConnectionRefused",
            "Address(",
            "InputOutput(",
        ]) =>
        {
            SecretsError::NoBus
        }
        _ => SecretsError::Keychain(crate::commands::plain(&shown)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mock() -> keyring_core::Result<Arc<CredentialStore>> {
        Ok(keyring_core::mock::Store::new()?)
    }

    fn stuck() -> keyring_core::Result<Arc<CredentialStore>> {
        std::thread::sleep(Duration::from_secs(30));
        mock()
    }

    #[test]
    fn secrets_go_in_and_out() {
        let keychain = Keychain::over(mock, "id", Interaction::None).unwrap();
        let (here, there) = (Account::pepper(), Account::book_signing());
        keychain.set(&here, &Secret::new(vec![0, 255, 10])).unwrap();
        let all = keychain.get_all(&[here.clone(), there.clone()]).unwrap();
        assert_eq!(all, [Some(Secret::new(vec![0, 255, 10])), None]);
        assert!(keychain.remove(&here).unwrap());
        assert!(!keychain.remove(&here).unwrap());
    }

    #[test]
    fn a_keychain_that_waits_for_somebody_is_left() {
        let (_jobs, work) = channel::<Job>();
        let (opened, opening) = sync_channel(1);
        std::thread::spawn(move || {
            serve(stuck, String::new(), &work, |result| {
                drop(opened.send(result))
            })
        });
        let error = wait(&opening, Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, SecretsError::Slow { .. }), "{error}");
    }

    #[test]
    fn failures_have_our_words() {
        let platform = |text: &str| Error::PlatformFailure(text.to_owned().into());
        let cases = [
            (
                platform("Zbus(InputOutput(Os { code: 2, kind: NotFound }))"),
                "no keychain here: this session has no D-Bus",
            ),
            (
                platform("Unavailable"),
                "no keychain here: this session has no D-Bus",
            ),
            (
                platform("MethodError(\"org.freedesktop.DBus.Error.ServiceUnknown\")"),
                "no program on it offers the Secret Service",
            ),
            (
                Error::NoStorageAccess("Prompt".to_owned().into()),
                "the keychain is locked",
            ),
            (platform("Locked"), "the keychain is locked"),
            (platform("strange\u{1b}[2J"), "the keychain failed: "),
            (Error::BadEncoding(vec![1]), "is not what countersign wrote"),
        ];
        for (error, words) in cases {
            let ours = translate(&Account::pepper(), &error);
            assert!(ours.to_string().contains(words), "{error:?} gives {ours}");
            assert!(!ours.to_string().contains('\u{1b}') && !ours.remedy().is_empty());
        }
    }
}
