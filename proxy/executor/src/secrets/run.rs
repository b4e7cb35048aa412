//! Everything `run` needs of the secrets, fetched in one go. Uses none of it.

use countersign_book::Signer;
use zeroize::Zeroizing;

use crate::settings::{Name, Server};

use super::{Account, Secret, SecretStore, SecretsError};

/// The secrets of one run. Wiped when dropped.
pub struct RunSecrets {
    /// The book's signing keys, the one in force first where no rotation was cut short.
    pub signing: Vec<Signer>,
    /// The key that wraps the vault's keys.
    pub vault: Zeroizing<[u8; 32]>,
    /// The key under which agents' keys are hashed.
    pub pepper: Zeroizing<[u8; 32]>,
    /// The agent's key; `None` where the store has none: its calls are then refused.
    pub agent: Option<Secret>,
    /// The server's values: (variable or header, value).
    pub values: Vec<(String, Secret)>,
}

impl std::fmt::Debug for RunSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RunSecrets(..)")
    }
}

/// Fetches the secrets for `agent` calling `server`. A missing one of the executor's or the server's is an error that names it.
pub fn fetch(
    store: &dyn SecretStore,
    agent: &Name,
    server: &Server,
) -> Result<RunSecrets, SecretsError> {
    let places: Vec<(&str, &str)> = server.secrets().collect();
    let mut accounts = vec![
        Account::book_signing(),
        Account::book_vault(),
        Account::pepper(),
        Account::agent(agent),
        Account::book_signing_next(),
        Account::book_signing_before(),
        Account::book_signing_era(),
    ];
    let own = accounts.len();
    accounts.extend(places.iter().map(|(_, place)| Account::server(place)));
    let mut found = store.get_all(&accounts)?;
    let values = found.split_off(own);
    let missing = |account: &Account| SecretsError::Missing {
        account: account.to_string(),
    };
    let key = |at: usize| {
        let secret = found[at].as_ref().ok_or_else(|| missing(&accounts[at]))?;
        secret.key().ok_or_else(|| SecretsError::Malformed {
            account: accounts[at].to_string(),
        })
    };
    let values = places
        .iter()
        .zip(values)
        .map(|((name, place), value)| {
            Ok((
                (*name).to_owned(),
                value.ok_or_else(|| missing(&Account::server(place)))?,
            ))
        })
        .collect::<Result<_, SecretsError>>()?;
    // While a key is replaced there are more.
    let more = (4..own).filter(|at| found[*at].is_some());
    let signing = std::iter::once(0).chain(more).map(key);
    let signing = signing.map(|key| Ok(Signer::from_seed(*key?)));
    Ok(RunSecrets {
        signing: signing.collect::<Result<_, SecretsError>>()?,
        vault: key(1)?,
        pepper: key(2)?,
        agent: found[3].clone(),
        values,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::secrets::MemoryStore;

    #[test]
    fn what_is_missing_is_named() {
        let text = r#"{"version":1,"executor":{"id":"6d1c2c35-3f0f-4e0c-9d7e-0a1b2c3d4e5f"},"secrets":"file",
            "servers":{"s":{"command":"x","env":{"T":{"secret":"s/K"},"L":"info"}}}}"#;
        let settings =
            crate::settings::check_bytes(Path::new("executor.json"), text.as_bytes()).unwrap();
        let (store, agent) = (MemoryStore::default(), Name::parse("a").unwrap());
        let fetch = || super::fetch(&store, &agent, settings.server("s").unwrap());
        for account in [
            Account::book_signing(),
            Account::book_vault(),
            Account::pepper(),
        ] {
            let error = fetch().unwrap_err().to_string();
            store.set(&account, &Secret::new(vec![1; 32])).unwrap();
            assert!(!error.is_empty());
        }
        assert_eq!(
            fetch().unwrap_err().to_string(),
            "the secret `server/s/K` has no value"
        );
        store
            .set(&Account::server("s/K"), &Secret::new(b"v".to_vec()))
            .unwrap();
        let run = fetch().unwrap();
        assert!(run.agent.is_none());
        assert_eq!(run.values, [("T".to_owned(), Secret::new(b"v".to_vec()))]);
        store
            .set(&Account::pepper(), &Secret::new(vec![1; 31]))
            .unwrap();
        assert!(matches!(fetch(), Err(SecretsError::Malformed { .. })));
        assert_eq!(format!("{run:?}"), "RunSecrets(..)");
    }
}
