//! The few facts the journal takes from an entry: which calls begin and end, where payloads lie, which absences are
//! stated. Refuses to know the rest of the schema, so that a newer entry does not stop an older reader.

use std::borrow::Cow;

use serde::Deserialize;

use crate::commitment::{At, Field};
use crate::entry::{CallId, Common, VERSION};
use crate::journal::OpenCall;
use crate::kinds::{Body, Target};

/// One fact.
#[derive(Clone, Debug)]
pub(crate) enum Fact {
    /// A call began.
    Opened(OpenCall),
    /// A call ended.
    Closed(CallId),
    /// A payload lies in the vault.
    Stored(Stored),
    /// The absence of a payload is on record.
    Explained(Target),
}

/// A payload in the vault.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub target: Target,
    pub call: CallId,
    pub at: At,
    /// The commitment's text and the payload's bytes, as the entry states them.
    pub c: String,
    pub n: u64,
}

/// Kinds of version 1 that are only described in FORMAT.md until they are written.
const DESCRIBED: [&str; 14] = [
    "act",
    "approval",
    "copy.ack",
    "copy.alarm",
    "copy.attach",
    "era.open",
    "erase",
    "key.rotate",
    "keyring",
    "prune",
    "revocation",
    "turn.close",
    "turn.failed",
    "turn.open",
];

#[derive(Deserialize)]
struct View<'a> {
    #[serde(borrow, default)]
    call: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    process: Option<Cow<'a, str>>,
    #[serde(default)]
    args: Option<Place>,
    #[serde(default)]
    sent: Option<Place>,
    #[serde(default)]
    result: Option<Place>,
    #[serde(default)]
    missing: Vec<Target>,
    #[serde(default)]
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Place {
    at: Option<At>,
    #[serde(default)]
    c: String,
    #[serde(default)]
    n: u64,
}

/// The facts of an entry, or nothing when its version, its kind or one of these members is not understood.
pub(crate) fn of(common: &Common<'_>, line: &str) -> Option<Vec<Fact>> {
    if common.v != VERSION {
        return None;
    }
    let kind = common.k.as_ref();
    if !matches!(kind, "call" | "outcome" | "book.recovered" | "erase") {
        return (Body::is_kind(kind) || DESCRIBED.contains(&kind)).then(Vec::new);
    }
    let view: View<'_> = serde_json::from_str(line).ok()?;
    let mut facts = Vec::new();
    if let "call" | "outcome" = kind {
        let call = CallId::parse(view.call?.as_ref()).ok()?;
        for (field, place) in [
            (Field::Args, view.args),
            (Field::Sent, view.sent),
            (Field::Result, view.result),
        ] {
            if let Some(Place { at: Some(at), c, n }) = place {
                let target = Target {
                    f: field,
                    i: crate::entry::Count(common.i),
                };
                facts.push(Fact::Stored(Stored {
                    target,
                    call: call.clone(),
                    at,
                    c,
                    n,
                }));
            }
        }
        facts.push(match kind {
            "call" => Fact::Opened(OpenCall {
                call,
                process: view.process?.into_owned(),
                index: common.i,
            }),
            _ => Fact::Closed(call),
        });
    } else {
        facts.extend(
            view.missing
                .into_iter()
                .chain(view.targets)
                .map(Fact::Explained),
        );
    }
    Some(facts)
}
