//! The few facts the journal takes from an entry: which calls begin and end, where payloads lie, which absences are
//! stated. Refuses to know the rest of the schema, so that a newer entry does not stop an older reader.

use std::borrow::Cow;

use serde::Deserialize;

use crate::commitment::{At, Field};
use crate::entry::{CallId, Common, Count, MAX_SAFE, VERSION};
use crate::journal::OpenCall;
use crate::kinds::{Body, Target};
use crate::tree::Hash;

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
    /// Entries below this index were removed on record. Above the entry's own index it means nothing.
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

/// Kinds whose entries state facts.
const TELLING: [&str; 6] = [
    "call",
    "outcome",
    "book.recovered",
    "erase",
    "prune",
    "key.rotate",
];

/// The members facts are taken from, each kind's own.
#[derive(Default)]
struct View<'a> {
    call: Option<Cow<'a, str>>,
    process: Option<Cow<'a, str>>,
    args: Option<Place>,
    sent: Option<Place>,
    result: Option<Place>,
    missing: Vec<Target>,
    targets: Vec<Target>,
    minimum: Option<Count>,
    vkey: Option<Cow<'a, str>>,
    from: Option<Count>,
    until: Option<Count>,
}

/// Of `call` and `outcome`.
#[derive(Deserialize)]
struct OfCall<'a> {
    #[serde(borrow)]
    call: Cow<'a, str>,
    #[serde(borrow, default)]
    process: Option<Cow<'a, str>>,
    #[serde(default)]
    args: Option<Place>,
    #[serde(default)]
    sent: Option<Place>,
    #[serde(default)]
    result: Option<Place>,
}

/// Of `book.recovered`.
#[derive(Deserialize)]
struct OfRecovery {
    #[serde(default)]
    missing: Vec<Target>,
}

/// Of `erase`.
#[derive(Deserialize)]
struct OfErasure {
    targets: Vec<Target>,
}

/// Of `prune`.
#[derive(Deserialize)]
struct OfPruning {
    minimum: Count,
}

/// Of `key.rotate`.
#[derive(Deserialize)]
struct OfRotation<'a> {
    #[serde(borrow)]
    vkey: Cow<'a, str>,
    from: Count,
    #[serde(default)]
    until: Option<Count>,
}

/// [`Common`] and [`View`] together: reading a line twice costs twice.
#[derive(Deserialize)]
struct Whole<'a> {
    i: u64,
    #[serde(borrow)]
    k: Cow<'a, str>,
    prev: Hash,
    #[serde(borrow)]
    ts: Cow<'a, str>,
    v: u64,
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
    c: String,
    n: u64,
    /// What is shown where the payload holds secrets.
    #[serde(default)]
    view: Option<Shown>,
}

#[derive(Deserialize)]
struct Shown {
    at: At,
    c: String,
    n: u64,
}

impl View<'_> {
    /// The members of an entry of this kind; nothing where one is missing or of another form.
    fn of<'a>(kind: &str, line: &'a str) -> Option<View<'a>> {
        fn read<'a, T: Deserialize<'a>>(line: &'a str) -> Option<T> {
            serde_json::from_str(line).ok()
        }
        let none = View::default();
        Some(match kind {
            "call" | "outcome" => {
                let of: OfCall<'a> = read(line)?;
                View {
                    call: Some(of.call),
                    process: of.process,
                    args: of.args,
                    sent: of.sent,
                    result: of.result,
                    ..none
                }
            }
            "book.recovered" => View {
                missing: read::<OfRecovery>(line)?.missing,
                ..none
            },
            "erase" => View {
                targets: read::<OfErasure>(line)?.targets,
                ..none
            },
            "prune" => View {
                minimum: Some(read::<OfPruning>(line)?.minimum),
                ..none
            },
            _ => {
                let of: OfRotation<'a> = read(line)?;
                View {
                    vkey: Some(of.vkey),
                    from: Some(of.from),
                    until: of.until,
                    ..none
                }
            }
        })
    }
}

impl Rotation {
    /// Of an entry that says it replaces the key and does not say how: nothing this version knows comes after it.
    fn not_understood(index: u64) -> Self {
        Self {
            index,
            vkey: String::new(),
            from: 0,
            until: None,
        }
    }
}

/// An entry's common members and its facts by one reading of its line. Nothing where it states none or is not understood: what it
/// is, [`of`] says.
pub(crate) fn at_once(line: &str) -> Option<(Common<'_>, Vec<Fact>)> {
    let whole: Whole<'_> = serde_json::from_str(line).ok()?;
    let common = Common {
        i: whole.i,
        k: whole.k,
        prev: whole.prev,
        ts: whole.ts,
        v: whole.v,
    };
    let view = View {
        call: whole.call,
        process: whole.process,
        args: whole.args,
        sent: whole.sent,
        result: whole.result,
        missing: whole.missing,
        targets: whole.targets,
        minimum: whole.minimum,
        vkey: whole.vkey,
        from: whole.from,
        until: whole.until,
    };
    let facts = of_view(&common, view)?;
    Some((common, facts))
}

/// The facts of an entry, or nothing when its version, its kind or one of these members is not understood.
pub(crate) fn of(common: &Common<'_>, line: &str) -> Option<Vec<Fact>> {
    if common.v != VERSION {
        return None;
    }
    let kind = common.k.as_ref();
    if !TELLING.contains(&kind) {
        return (Body::is_kind(kind) || DESCRIBED.contains(&kind)).then(Vec::new);
    }
    match View::of(kind, line).and_then(|view| of_view(common, view)) {
        None if kind == "key.rotate" => {
            Some(vec![Fact::Rotated(Rotation::not_understood(common.i))])
        }
        facts => facts,
    }
}

/// The facts of an entry of one of the kinds that have some.
fn of_view(common: &Common<'_>, view: View<'_>) -> Option<Vec<Fact>> {
    let kind = common.k.as_ref();
    if common.v != VERSION || !TELLING.contains(&kind) {
        return None;
    }
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
                // Where it ends a segment's first line may have to state.
                at.off.checked_add(at.len).filter(|end| *end <= MAX_SAFE)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// One reading says what two say, or nothing.
    fn check(line: &str, at_once: Option<usize>) {
        let once = super::at_once(line);
        assert_eq!(
            once.as_ref().map(|(_, facts)| facts.len()),
            at_once,
            "{line}"
        );
        let Some((common, facts)) = once else { return };
        let read: Common<'_> = serde_json::from_str(line).unwrap();
        assert_eq!(
            (common.i, &common.k, common.prev, &common.ts, common.v),
            (read.i, &read.k, read.prev, &read.ts, read.v)
        );
        assert_eq!(
            format!("{facts:?}"),
            format!("{:?}", of(&read, line).unwrap())
        );
    }

    #[test]
    fn a_line_read_once_says_what_it_says_read_twice() {
        let prev = format!("\"prev\":\"sha256:{}\"", "0".repeat(64));
        let call = "\"call\":\"01ARZ3NDEKTSV4RRFFQ69G5FAV\"";
        let args = r#""args":{"at":{"len":9,"off":8,"seg":7},"c":"x","n":3,"view":{"at":{"len":1,"off":2,"seg":3},"c":"y","n":2}}"#;
        for (members, v, at_once) in [
            (
                format!(r#"{args},{call},"k":"call","process":"p""#),
                1,
                Some(3),
            ),
            (
                format!(r#"{call},"k":"outcome","result":{{"c":"x","n":1}}"#),
                1,
                Some(1),
            ),
            (
                r#""from":3,"k":"key.rotate","until":"9007199254740993","vkey":"a\u0062""#
                    .to_owned(),
                1,
                Some(1),
            ),
            (
                r#""k":"erase","targets":[{"f":"args","i":2},{"f":"result.view","i":3}]"#
                    .to_owned(),
                1,
                Some(2),
            ),
            (
                r#""k":"book.recovered","missing":[{"f":"sent","i":2}]"#.to_owned(),
                1,
                Some(1),
            ),
            (r#""k":"prune","minimum":4"#.to_owned(), 1, Some(1)),
            // Read each by itself: another version, a kind without facts, members of another form.
            (format!(r#"{call},"k":"outcome""#), 2, None),
            (format!(r#"{call},"k":"decision""#), 1, None),
            (r#""from":"2026","k":"gap""#.to_owned(), 1, None),
            (r#""call":7,"k":"call","process":"p""#.to_owned(), 1, None),
            (r#""call":"x","k":"call","process":"p""#.to_owned(), 1, None),
            (format!(r#"{call},"k":"call""#), 1, None),
        ] {
            let line = format!(r#"{{"i":12,{members},{prev},"ts":"t","v":{v}}}"#);
            check(&line, at_once);
        }
        check(r#"{"k":"call"}"#, None);
    }
}
