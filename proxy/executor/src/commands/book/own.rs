//! What the secret store holds for this executor's own book: its keys and how long it was. Asked without a prompt, once.

use countersign_book::{Signer, VaultKey};

use crate::commands::Context;
use crate::pin::{self, Remembered};
use crate::problem::Problem;
use crate::secrets::{Account, Interaction};
use crate::settings::Settings;
use crate::signing;

/// The secrets of the book.
pub struct Own {
    /// The keys it is signed with, the one in force first; more than one while a key is being replaced, none where the store has none.
    pub signers: Vec<Signer>,
    /// Where each of them is kept.
    pub accounts: Vec<Account>,
    /// The key of its vault; `None` where the store has none.
    pub vault: Option<VaultKey>,
    /// How long it was.
    pub remembered: Remembered,
}

/// Asks the secret store. To be asked before the book is opened: the book only grows.
///
/// # Errors
/// When the store can't be had without asking a person, or holds what is no key.
pub fn own(context: &Context, settings: &Settings) -> Result<Own, Problem> {
    let quiet = Context {
        interaction: Interaction::None,
        ..context.clone()
    };
    let store = quiet.secrets(settings)?;
    let remembered = pin::read(store.as_ref())?;
    let (accounts, signers) = signing::held_by_account(store.as_ref())?
        .into_iter()
        .unzip();
    let account = Account::book_vault();
    let vault = match store.get(&account)? {
        None => None,
        Some(secret) => Some(secret.key().ok_or_else(|| not_a_key(&account))?),
    };
    Ok(Own {
        signers,
        accounts,
        vault: vault.map(|key| VaultKey::from_bytes(*key)),
        remembered,
    })
}

fn not_a_key(account: &Account) -> Problem {
    Problem::new(
        "secrets_damaged",
        format!("the stored secret `{account}` is not a key"),
        "restore the secrets from a copy",
    )
}
