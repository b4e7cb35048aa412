//! The few facts the journal takes from an entry: which calls begin and end, where payloads lie, which absences are
//! stated. Refuses to know the rest of the schema, so that a newer entry does not stop an older reader.

use std::borrow::Cow;

use serde::Deserialize;

use crate::commitment::{At, Field};
use crate::entry::{CallId, Common, Count, VERSION};
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
    /// A payload was erased on record.
    Erased(Target),
    /// Entries below this index were removed on record.
    Pruned(u64),
    /// Another key signs from here on.
    Rotated(Rotation),
}

/// What a `key.rotate` entry says.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    pub index: u64,
    pub vkey: String,
    pub from: u64,
    pub until: Option<u64>,
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
    /// Whether the payload is padded and `n` rounded up: it holds secrets.
    pub padded: bool,
}

/// Kinds of version 1 that are only described in FORMAT.md until they are written.
const DESCRIBED: [&str; 6] = [
    "act",
    "copy.ack",
    "copy.alarm",
    "copy.attach",
    "keyring",
    "revocation",
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
    #[serde(default)]
    minimum: Option<Count>,
    #[serde(borrow, default)]
    vkey: Option<Cow<'a, str>>,
    #[serde(default)]
    from: Option<Count>,
    #[serde(default)]
    until: Option<Count>,
}

#[derive(Deserialize)]
struct Place {
    at: Option<At>,
    #[serde(default)]
    c: String,
    #[serde(default)]
    n: u64,
    /// What is shown where the payload holds secrets.
    #[serde(default)]
    view: Option<Shown>,
}

#[derive(Deserialize)]
struct Shown {
    at: At,
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
    if !matches!(
        kind,
        "call" | "outcome" | "book.recovered" | "erase" | "prune" | "key.rotate"
    ) {
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
            let Some(place) = place else { continue };
            let padded = place.view.is_some();
            let view = place
                .view
                .map(|view| (field.view(), view.at, view.c, view.n));
            let raw = place.at.map(|at| (field, at, place.c, place.n));
            for (field, at, c, n) in view.into_iter().chain(raw) {
                facts.push(Fact::Stored(Stored {
                    target: Target {
                        f: field,
                        i: Count(common.i),
                    },
                    call: call.clone(),
                    at,
                    c,
                    n,
                    padded: padded && !field.is_view(),
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
        return Some(facts);
    }
    match kind {
        "key.rotate" => facts.push(Fact::Rotated(Rotation {
            index: common.i,
            vkey: view.vkey?.into_owned(),
            from: view.from?.0,
            until: view.until.map(|until| until.0),
        })),
        "prune" => facts.push(Fact::Pruned(view.minimum?.0)),
        "erase" => facts.extend(view.targets.into_iter().map(Fact::Erased)),
        _ => facts.extend(view.missing.into_iter().map(Fact::Explained)),
    }
    Some(facts)
}
