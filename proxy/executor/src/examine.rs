//! What state this executor's own book is in, and what a person wants to know of it beside: its key, what is remembered of it, who
//! has it open, where it lies. For `book status` and `doctor`. Writes nothing.

use countersign_book::{BookError, Look, LookOptions, Reader, Vkey, look};

use crate::commands::Context;
use crate::commands::book::{new_era, own};
use crate::condition::Condition;
use crate::disk::Place;
use crate::leftovers::{Leftover, leftovers};
use crate::pin::Remembered;
use crate::recorder::liveness;
use crate::secrets::Account;
use crate::settings::Settings;

/// One thing found.
#[derive(Debug)]
pub struct Finding {
    /// The state.
    pub condition: Condition,
    /// What exactly was found; escaped where it comes from the book.
    pub what: String,
    /// The exit code it stands for.
    pub exit: u8,
}

/// Whether the key at hand is the book's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// It is.
    Own,
    /// The secret store has none, or another.
    NotOurs,
    /// It could not be looked at, and why.
    NotAsked(String),
}

/// Everything that was found.
#[derive(Debug)]
pub struct Examined {
    /// What is wrong, worst first; empty where nothing is.
    pub findings: Vec<Finding>,
    /// The book, where there is one to look at.
    pub look: Option<Look>,
    /// What acts that were cut short have left.
    pub leftovers: Vec<Leftover>,
    /// The key.
    pub key: Key,
    /// What the secret store remembers; `None` where it could not be asked.
    pub remembered: Option<Remembered>,
    /// Living processes that have it open.
    pub processes: Vec<String>,
    /// Where its folder lies.
    pub place: Place,
}

/// Why nothing may be made of the book, where its state or an act that was cut short says so: the worst finding that is more than
/// an unsigned end or a missing key.
#[must_use]
pub fn in_the_way(context: &Context, settings: Option<&Settings>) -> Option<Finding> {
    let found = examine(context, settings).findings.into_iter();
    let mut worse = found.filter(|finding| {
        !matches!(
            finding.condition,
            Condition::UnsignedTail | Condition::KeyMissing
        )
    });
    worse.next()
}

/// Looks at the book of `context`.
#[must_use]
pub fn examine(context: &Context, settings: Option<&Settings>) -> Examined {
    let dir = context.folder.book();
    // The secrets first: what is remembered must be older than what is looked at.
    let own = settings.map(|settings| own::own(context, settings));
    let mut findings = Vec::new();
    let (mut key, mut remembered) = (Key::NotOurs, None);
    let (mut signers, mut accounts) = (Vec::new(), Vec::new());
    match own {
        None => key = Key::NotAsked("executor.json can't be read".to_owned()),
        Some(Err(problem)) => key = Key::NotAsked(problem.message),
        Some(Ok(own)) => {
            remembered = Some(own.remembered);
            signers = own.signers;
            accounts = own.accounts;
        }
    }
    let origin = Reader::open(&dir)
        .ok()
        .map(|reader| reader.book().origin.clone());
    let vkeys: Vec<Vkey> = origin
        .iter()
        .flat_map(|origin| signers.iter().map(|signer| signer.vkey(origin)))
        .collect();
    let pin = remembered.as_ref().and_then(Remembered::pin).cloned();
    let options = LookOptions { vkeys, pin };
    let look = match look(&dir, &options) {
        Ok(look) => {
            if look
                .key
                .as_ref()
                .is_some_and(|key| options.vkeys.contains(key))
            {
                key = Key::Own;
            }
            findings.extend(look.fault.iter().chain(&look.obstacle).map(finding));
            if let Some((bytes, lines)) = look.tail {
                findings.push(Finding {
                    condition: Condition::UnsignedTail,
                    what: format!(
                        "{bytes} bytes with {lines} whole lines after the last checkpoint"
                    ),
                    exit: Condition::UnsignedTail.exit_code(),
                });
            }
            Some(look)
        }
        Err(error) => {
            findings.push(finding(&error));
            None
        }
    };
    if signers.is_empty() && key == Key::NotOurs {
        findings.push(Finding {
            condition: Condition::KeyMissing,
            what: "the secret `book/signing` is not in the secret store".to_owned(),
            exit: Condition::KeyMissing.exit_code(),
        });
    }
    if let Some(what) = new_era::begun(context) {
        findings.push(Finding {
            condition: Condition::EraUnfinished,
            what: countersign_book::escape(&what),
            exit: Condition::EraUnfinished.exit_code(),
        });
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.condition));
    let kept: Vec<(Account, Vkey)> = accounts.into_iter().zip(options.vkeys).collect();
    let in_force = look.as_ref().and_then(|look: &Look| look.key.as_ref());
    Examined {
        leftovers: leftovers(context, &kept, in_force),
        findings,
        look,
        key,
        remembered,
        processes: liveness::living(&context.folder.run()),
        place: Place::of(&dir),
    }
}

fn finding(error: &BookError) -> Finding {
    let condition = Condition::of(error).unwrap_or(Condition::Unreadable);
    let exit = match error {
        BookError::RolledBack { found, .. } => found.exit_code(),
        _ => condition.exit_code(),
    };
    Finding {
        condition,
        what: countersign_book::escape(&error.to_string()),
        exit,
    }
}
