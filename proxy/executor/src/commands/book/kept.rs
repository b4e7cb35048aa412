//! What `book show --payload` shows of an entry: what the vault keeps, decrypted, with what looks like a secret hidden unless the
//! person asks for it. Nothing here writes.

use countersign_book::{BookError, Field, Kept, KeptState, Reader, VaultKey, escape};
use serde_json::{Map, Value, json};

use crate::commands::Context;
use crate::commands::acts::{Act, Consent, consent};
use crate::problem::Problem;
use crate::secrets::Account;

use super::{missing, unreadable};

/// Whether secrets are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrets {
    /// Hidden.
    Hidden,
    /// Shown, once the person agrees.
    Shown(Consent),
}

/// What is shown: text, and the members `payloads` and `kept` of the answer.
pub(super) struct Shown {
    pub text: String,
    pub payloads: Value,
    pub kept: Value,
}

/// The kept payloads of an entry, as text.
pub(super) fn show(
    context: &Context,
    reader: &Reader,
    index: u64,
    secrets: Secrets,
) -> Result<Shown, Problem> {
    let failed = |error: BookError| unreadable(context, &context.folder.book(), &error);
    let kept = reader.kept(index).map_err(failed)?;
    if let Secrets::Shown(given) = secrets
        && kept.iter().any(|kept| !kept.secrets.is_empty())
    {
        let act = Act {
            command: "book show --secrets",
            consequence: "what looks like passwords and keys is printed in clear",
        };
        consent(context, &act, given)?;
    }
    let key = vault_key(context)?;
    let mut shown = Shown {
        text: String::new(),
        payloads: json!({}),
        kept: json!({}),
    };
    let (mut payloads, mut states) = (Map::new(), Map::new());
    for item in &kept {
        let field = item.field;
        let has_view = |field: Field| {
            kept.iter()
                .any(|kept| kept.field == field.view() && kept.state == KeptState::Kept)
        };
        // A view stands for its payload, or is passed over for it.
        let raw = matches!(secrets, Secrets::Shown(_)) || item.secrets.is_empty();
        let pass = match field.is_view() {
            true => matches!(secrets, Secrets::Shown(_)),
            false => !raw && has_view(field),
        };
        states.insert(
            field.as_str().to_owned(),
            state(reader, index, item).map_err(failed)?,
        );
        if item.state != KeptState::Kept {
            shown
                .text
                .push_str(&absent(reader, index, item).map_err(failed)?);
            continue;
        }
        if !field.is_view() && !item.secrets.is_empty() {
            shown.text.push_str(&hidden(index, item));
        }
        if pass || !raw && !field.is_view() {
            continue;
        }
        let bytes = reader.payload(&key, index, field).map_err(failed)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        shown.text.push_str(&format!("\n{}\n", field.as_str()));
        for line in text.lines() {
            shown.text.push_str(&format!("  {}\n", escape(line)));
        }
        payloads.insert(field.as_str().to_owned(), Value::String(text));
    }
    shown.payloads = payloads.into();
    shown.kept = states.into();
    Ok(shown)
}

fn vault_key(context: &Context) -> Result<VaultKey, Problem> {
    let settings = context.settings()?;
    let account = Account::book_vault();
    let secret = context.secrets(&settings)?.get(&account)?;
    let key = secret.and_then(|secret| secret.key());
    Ok(VaultKey::from_bytes(*key.ok_or_else(|| missing(&account))?))
}

fn hidden(index: u64, kept: &Kept) -> String {
    let mut text = format!(
        "\n{} holds what looks like secrets; they are kept apart and are not shown here:\n",
        kept.field.as_str()
    );
    for secret in &kept.secrets {
        let place = if secret.p.is_empty() {
            "(the whole)"
        } else {
            &secret.p
        };
        text.push_str(&format!("  {} at {}\n", escape(&secret.d), escape(place)));
    }
    text.push_str(&format!(
        "  `countersign book show {index} --payload --secrets` shows them, `countersign book erase {index} --secrets` destroys them\n"
    ));
    text
}

fn absent(reader: &Reader, index: u64, kept: &Kept) -> Result<String, BookError> {
    let field = kept.field.as_str();
    Ok(match kept.state {
        KeptState::Erased => match reader.erased_by(index, kept.field)? {
            Some(entry) => format!("\n{field} was erased, on record in entry {entry}\n"),
            None => format!("\n{field} was erased, and no entry says so\n"),
        },
        _ => format!(
            "\n{field} is not in the vault; `countersign book verify` says whether an entry says why\n"
        ),
    })
}

fn state(reader: &Reader, index: u64, kept: &Kept) -> Result<Value, BookError> {
    let word = match kept.state {
        KeptState::Kept => "kept",
        KeptState::Erased => "erased",
        KeptState::Missing => "missing",
    };
    let by = match kept.state {
        KeptState::Erased => reader.erased_by(index, kept.field)?,
        _ => None,
    };
    let secrets: Vec<Value> = kept
        .secrets
        .iter()
        .map(|secret| json!({"d": secret.d, "p": secret.p}))
        .collect();
    Ok(json!({"state": word, "erased_by": by, "secrets": secrets}))
}
