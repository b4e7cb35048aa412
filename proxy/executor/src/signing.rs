//! The keys the book is signed with, as the secret store holds them: the one in force, the one a rotation is putting in force,
//! the one before. Refuses to make or choose one: the book says which is in force.

use countersign_book::{FetchSigner, Origin, Signer, Signers};

use crate::folder::Folder;
use crate::secrets::{self, Account, Interaction, SecretStore, SecretsError};
use crate::settings::Settings;

/// Where signing keys are kept, the one in force first.
#[must_use]
pub fn accounts() -> [Account; 4] {
    [
        Account::book_signing(),
        Account::book_signing_next(),
        Account::book_signing_before(),
        Account::book_signing_era(),
    ]
}

/// Every signing key the store holds.
///
/// # Errors
/// When the store can't be read or what it holds is no key.
pub fn held(store: &dyn SecretStore) -> Result<Vec<Signer>, SecretsError> {
    let held = held_by_account(store)?;
    Ok(held.into_iter().map(|(_, signer)| signer).collect())
}

/// The same, each with the account it is kept under.
///
/// # Errors
/// As [`held`].
pub fn held_by_account(store: &dyn SecretStore) -> Result<Vec<(Account, Signer)>, SecretsError> {
    let accounts = accounts();
    let found = store.get_all(&accounts)?;
    let mut signers = Vec::new();
    for (account, secret) in accounts.into_iter().zip(found) {
        let Some(secret) = secret else { continue };
        let key = secret.key().ok_or_else(|| SecretsError::Malformed {
            account: account.to_string(),
        })?;
        signers.push((account, Signer::from_seed(*key)));
    }
    Ok(signers)
}

/// The keys at hand, and the store to ask when another process changes the key.
#[must_use]
pub fn signers(folder: &Folder, settings: &Settings, held: Vec<Signer>) -> Signers {
    Signers::new(held).or_fetch(fetch(folder.clone(), settings))
}

/// Asks the secret store anew. It is asked by the book's thread, so nobody is prompted.
fn fetch(folder: Folder, settings: &Settings) -> FetchSigner {
    let (executor, kind) = (settings.executor.clone(), settings.secrets);
    Box::new(move |vkey| {
        let origin = Origin::parse(vkey.name()).ok()?;
        let found = secrets::open(&folder, &executor, kind, Interaction::None)
            .and_then(|store| held(store.as_ref()));
        match found {
            Ok(found) => found
                .into_iter()
                .find(|signer| signer.vkey(&origin) == *vkey),
            Err(error) => {
                tracing::error!(%error, "the book's key was changed, and the secret store does not give the new one");
                None
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::{MemoryStore, Secret};

    #[test]
    fn b29_an_empty_store_holds_no_key_and_none_is_made() {
        let store = MemoryStore::default();
        assert!(held(&store).unwrap().is_empty());
        assert!(store.list().unwrap().is_empty());
        store
            .set(&Account::book_signing_next(), &Secret::new(vec![1; 32]))
            .unwrap();
        assert_eq!(held(&store).unwrap().len(), 1);
        store
            .set(&Account::book_signing(), &Secret::new(vec![1; 31]))
            .unwrap();
        assert!(matches!(held(&store), Err(SecretsError::Malformed { .. })));
    }
}
