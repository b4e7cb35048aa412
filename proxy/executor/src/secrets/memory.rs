//! Secrets in memory, for tests and the built-in tour. Keeps nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Account, Secret, SecretStore, SecretsError};

/// Secrets that live as long as the value.
#[derive(Debug, Default)]
pub struct MemoryStore {
    secrets: Mutex<BTreeMap<Account, Secret>>,
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Account, Secret>> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SecretStore for MemoryStore {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn get(&self, account: &Account) -> Result<Option<Secret>, SecretsError> {
        Ok(self.lock().get(account).cloned())
    }

    fn set(&self, account: &Account, secret: &Secret) -> Result<(), SecretsError> {
        self.lock().insert(account.clone(), secret.clone());
        Ok(())
    }

    fn remove(&self, account: &Account) -> Result<bool, SecretsError> {
        Ok(self.lock().remove(account).is_some())
    }

    fn list(&self) -> Result<Vec<Account>, SecretsError> {
        Ok(self.lock().keys().cloned().collect())
    }
}
