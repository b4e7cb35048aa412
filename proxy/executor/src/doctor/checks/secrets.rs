//! The secrets: whether all are there, and out of whose reach they are.

use crate::commands::Context;
use crate::problem::Problem;
use crate::secrets::{Account, PassphraseSource};
use crate::settings::{SecretsKind, Settings};

use super::super::Found;

pub(in crate::doctor) fn secrets(context: &Context, settings: &Settings) -> Vec<Found> {
    let mut exposed = match settings.secrets {
        SecretsKind::File => exposed_passphrase(context),
        SecretsKind::Keychain => Vec::new(),
    };
    exposed.extend(stored_secrets(context, settings));
    exposed
}

fn exposed_passphrase(context: &Context) -> Vec<Found> {
    let source = PassphraseSource::from_environment(context.interaction).ok();
    let path = source.as_ref().and_then(PassphraseSource::exposed);
    let found = path.map(|path| {
        Found::fail(Problem::new(
            "passphrase_exposed",
            format!(
                "other users can read the passphrase in `{}`",
                path.display()
            ),
            format!("chmod 600 '{}'", path.display()),
        ))
    });
    found.into_iter().collect()
}

fn stored_secrets(context: &Context, settings: &Settings) -> Vec<Found> {
    let store = match context.secrets(settings) {
        Err(problem) => return vec![Found::fail(problem)],
        Ok(store) => store,
    };
    let mut wanted = vec![
        Account::book_signing(),
        Account::book_vault(),
        Account::pepper(),
    ];
    wanted.extend(
        settings
            .agents
            .iter()
            .map(|agent| Account::agent(&agent.name)),
    );
    wanted.extend(
        settings
            .servers
            .iter()
            .flat_map(|server| server.secrets().map(|(_, place)| Account::server(place))),
    );
    let values = match store.get_all(&wanted) {
        Err(error) => return vec![Found::fail(error)],
        Ok(values) => values,
    };
    let missing = wanted
        .iter()
        .zip(&values)
        .filter(|(_, value)| value.is_none());
    let mut found: Vec<Found> = missing
        .map(|(account, _)| Found::fail(missing_secret(account)))
        .collect();
    if found.is_empty() {
        found.push(Found::ok(format!(
            "{} in the {}",
            wanted.len(),
            store.kind()
        )));
    }
    found
}

fn missing_secret(account: &Account) -> Problem {
    let remedy = match account.as_str().split_once('/') {
        Some(("server", place)) => format!("`countersign secret set {place}`"),
        Some(("agent", name)) => {
            format!("`countersign agent revoke {name}`, then `countersign agent add {name}`")
        }
        _ => {
            "restore the secrets from a copy; without this one the executor can't go on".to_owned()
        }
    };
    Problem::new(
        "secret_missing",
        format!("the secret `{account}` is missing"),
        remedy,
    )
}

/// Which of two cases product.md names holds: are the executor's secrets out of reach of this user's other programs?
pub(in crate::doctor) fn separation(_context: &Context, settings: &Settings) -> Vec<Found> {
    if nobody_logs_in() {
        return vec![Found::ok(
            "the executor runs under a user of its own, whom nobody logs in as: promises 6 and 7 hold against programs, too",
        )];
    }
    let reach = match settings.secrets {
        SecretsKind::Keychain if cfg!(target_os = "linux") => {
            "any program of this user can read the keychain"
        }
        SecretsKind::Keychain => "a program of this user may ask the keychain",
        SecretsKind::File => "any program of this user can read the passphrase's file",
    };
    vec![Found::warn(
        format!(
            "this executor runs as the same user as its agents: {reach}, so promises 6 and 7 hold against agents that only have their \
             tools, not against programs they may start"
        ),
        "to hold them against programs too, run the executor under a user of its own",
    )]
}

/// Whether this user is one that nobody logs in as: a service's own, by its shell in `/etc/passwd`.
fn nobody_logs_in() -> bool {
    #[cfg(unix)]
    {
        let me = rustix::process::geteuid().as_raw().to_string();
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let row = users
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|row| row.get(2) == Some(&me.as_str()));
        let shell = row.and_then(|row| row.get(6).copied()).unwrap_or_default();
        shell.ends_with("/nologin") || shell.ends_with("/false")
    }
    #[cfg(not(unix))]
    false
}
