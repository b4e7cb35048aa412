//! `secret set|list|remove`: the values servers are started with. A value comes from a prompt or standard input, never from the command line.

use std::io::{IsTerminal, Read};

use clap::{Args, Subcommand};
use serde_json::json;
use zeroize::Zeroizing;

use crate::problem::Problem;
use crate::secrets::{Account, Interaction, Secret};
use crate::settings::{Name, Settings, is_secret_key};

use super::{Context, Report, plain, table};

/// What of the secrets.
#[derive(Debug, Subcommand)]
pub enum SecretCommand {
    /// Store a value, from a prompt or standard input
    Set(PlaceArgs),
    /// List the places that have a value; shows no value
    List,
    /// Remove a value
    Remove(PlaceArgs),
}

/// One secret.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Its place: the server, `/`, the variable or header
    #[arg(value_name = "SERVER/KEY", value_parser = place)]
    pub place: String,
    /// Whatever else was given: perhaps the value, so it is taken here and shown by nobody
    #[arg(hide = true)]
    pub extra: Vec<String>,
}

const LONGEST: u64 = 64 * 1024;

/// Runs the command.
pub fn run(context: &Context, command: SecretCommand) -> Result<Report, Problem> {
    if let SecretCommand::Set(args) | SecretCommand::Remove(args) = &command
        && !args.extra.is_empty()
    {
        return Err(Problem::new(
            "usage",
            "a secret's value never stands on the command line, where other programs and the shell's history see it",
            "run the command without it and type the value, or pipe it in; if it was a real one, change it where it is from",
        ));
    }
    let settings = context.settings()?;
    match command {
        SecretCommand::Set(args) => set(context, &settings, &args.place),
        SecretCommand::List => list(context, &settings),
        SecretCommand::Remove(args) => remove(context, &settings, &args.place),
    }
}

fn set(context: &Context, settings: &Settings, place: &str) -> Result<Report, Problem> {
    let store = context.secrets(settings)?;
    let value = match std::io::stdin().is_terminal() {
        true if context.interaction == Interaction::None => {
            return Err(Problem::new(
                "no_value",
                "no value on standard input",
                "pipe the value in, or leave out --json to be asked",
            ));
        }
        true => rpassword::prompt_password(format!("value of {place} (not shown): "))
            .map(|typed| Zeroizing::new(typed.into_bytes()))
            .map_err(|error| {
                Problem::new(
                    "no_value",
                    format!("no value: {error}"),
                    "type it, or pipe it in",
                )
            })?,
        false => read_value(std::io::stdin().lock())?,
    };
    store_value(store.as_ref(), settings, place, &value)
}

fn store_value(
    store: &dyn crate::secrets::SecretStore,
    settings: &Settings,
    place: &str,
    value: &[u8],
) -> Result<Report, Problem> {
    if value.is_empty() {
        return Err(Problem::new(
            "no_value",
            "the value is empty",
            "give the secret's value; to remove it, `countersign secret remove`",
        ));
    }
    if value.contains(&0) || std::str::from_utf8(value).is_err() {
        return Err(Problem::new(
            "no_value",
            "the value is no text",
            "a variable or header can only hold text without zero bytes",
        ));
    }
    store.set(&Account::server(place), &Secret::new(value.to_vec()))?;
    let mut text = format!(
        "stored {place} in the {}\n",
        if store.kind() == "file" {
            "secrets file"
        } else {
            "keychain"
        }
    );
    let used = is_used(settings, place);
    if !used {
        let (server, key) = place.split_once('/').unwrap_or((place, ""));
        text.push_str(&format!(
            "note: no server uses it yet: `countersign server set {server} --secret {key}`\n"
        ));
    }
    text.push_str("a server that runs keeps the old value until it is started again\n");
    Ok(Report::new(
        text,
        json!({"secret": place, "store": store.kind(), "used": used}),
    ))
}

fn list(context: &Context, settings: &Settings) -> Result<Report, Problem> {
    let store = context.secrets(settings)?;
    let stored: Vec<String> = store
        .list()?
        .iter()
        .filter_map(|account| account.as_str().strip_prefix("server/").map(str::to_owned))
        .collect();
    let wanted = settings
        .servers
        .iter()
        .flat_map(|server| server.secrets().map(|(_, place)| place.to_owned()));
    let missing: Vec<String> = wanted.filter(|place| !stored.contains(place)).collect();
    let mut rows: Vec<Vec<String>> = stored
        .iter()
        .map(|place| {
            vec![
                plain(place),
                if is_used(settings, place) {
                    "stored"
                } else {
                    "stored, not used"
                }
                .to_owned(),
            ]
        })
        .collect();
    rows.extend(missing.iter().map(|place| {
        vec![
            place.clone(),
            format!("missing: `countersign secret set {place}`"),
        ]
    }));
    let text = if rows.is_empty() {
        "no secret yet\n".to_owned()
    } else {
        table(&["secret", "state"], &rows)
    };
    Ok(Report::new(
        text,
        json!({"store": store.kind(), "stored": stored, "missing": missing}),
    ))
}

fn remove(context: &Context, settings: &Settings, place: &str) -> Result<Report, Problem> {
    if !context.secrets(settings)?.remove(&Account::server(place))? {
        return Err(Problem::new(
            "secret_unknown",
            format!("there is no secret `{place}`"),
            "see `countersign secret list`",
        ));
    }
    Ok(Report::new(
        format!("removed {place}\n"),
        json!({"secret": place}),
    ))
}

fn is_used(settings: &Settings, place: &str) -> bool {
    settings
        .servers
        .iter()
        .any(|server| server.secrets().any(|(_, used)| used == place))
}

/// All of `source`, without one line feed at its end.
fn read_value(source: impl Read) -> Result<Zeroizing<Vec<u8>>, Problem> {
    let mut value = Zeroizing::new(Vec::with_capacity(4096));
    source
        .take(LONGEST + 1)
        .read_to_end(&mut value)
        .map_err(|error| {
            Problem::new(
                "no_value",
                format!("can't read standard input: {error}"),
                "pipe the value in",
            )
        })?;
    if value.len() as u64 > LONGEST {
        return Err(Problem::new(
            "no_value",
            "the value is longer than 64 KiB",
            "a secret this long can't be a variable or header",
        ));
    }
    if value.ends_with(b"\n") {
        value.pop();
        if value.ends_with(b"\r") {
            value.pop();
        }
    }
    Ok(value)
}

fn place(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some((server, key)) if Name::parse(server).is_ok() && is_secret_key(key) => Ok(text.to_owned()),
        _ => Err("expected SERVER/KEY, like files/TOKEN; the value is asked for, or read from standard input".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing::world;
    use crate::secrets::{MemoryStore, SecretStore};

    #[test]
    fn values_are_read_whole_and_never_shown() {
        let (_temp, context) = world();
        let settings = context.settings().unwrap();
        let store = MemoryStore::default();
        let cases: [(&[u8], Option<&[u8]>); 6] = [
            (b"top-secret\n", Some(b"top-secret")),
            (b"top-secret", Some(b"top-secret")),
            (b"two\nlines\r\n", Some(b"two\nlines")),
            (b"\n", None),
            (b"", None),
            (b"a\0b", None),
        ];
        for (input, expected) in cases {
            let value = read_value(input).unwrap();
            let report = store_value(&store, &settings, "files/TOKEN", &value);
            match expected {
                Some(expected) => {
                    let report = report.unwrap();
                    assert_eq!(
                        store
                            .get(&Account::server("files/TOKEN"))
                            .unwrap()
                            .unwrap()
                            .bytes(),
                        expected
                    );
                    assert!(!format!("{report:?}").contains("top-secret"));
                    assert!(report.text.contains("no server uses it yet"));
                }
                None => assert_eq!(report.unwrap_err().code, "no_value"),
            }
        }
        for (text, good) in [
            ("files/TOKEN", true),
            ("files", false),
            ("book/", false),
            ("A/B", false),
            ("files/a b", false),
        ] {
            assert_eq!(place(text).is_ok(), good, "{text}");
        }
    }
}
