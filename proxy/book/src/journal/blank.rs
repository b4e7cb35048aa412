//! The line of an entry before the entry has its place: in canonical form, and open where index, hash before, time and the
//! places of its objects will stand. Refuses to know what those will be.

use std::ops::Range;

use crate::canonical;
use crate::commitment::{At, Field};
use crate::entry::{self, Common, Count, EntryError, MAX_LINE, MAX_SAFE, NO_PREV};
use crate::facts::{self, Fact};
use crate::kinds::Body;
use crate::tree::Hash;

/// A line with open places, and the facts a reader takes from it.
#[derive(Clone, Debug)]
pub(crate) struct Blank {
    kind: &'static str,
    text: Vec<u8>,
    /// Ascending and apart.
    holes: Vec<(Range<usize>, Hole)>,
    facts: Vec<Fact>,
}

/// What a place in a line is open for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hole {
    Index,
    Before,
    Time,
    /// Offset of the field's object in its segment.
    Offset(Field),
    /// Number of the segment.
    Segment(Field),
}

/// Where an entry stands.
#[derive(Clone, Copy)]
pub(crate) struct Position<'a> {
    pub index: u64,
    /// The hash of the leaf before.
    pub before: Hash,
    /// RFC 3339, UTC, milliseconds.
    pub time: &'a str,
}

/// Members that hold a commitment.
const FIELDS: [(&[u8], Field); 3] = [
    (b"args", Field::Args),
    (b"sent", Field::Sent),
    (b"result", Field::Result),
];

impl Blank {
    /// The line of `body`, whose commitments name objects by their length only. It passes a reader's checks here, so that only
    /// digits and one hash can differ later.
    pub(crate) fn of(body: &Body) -> Result<Self, EntryError> {
        let unreadable = || EntryError::Unreadable { kind: body.kind() };
        let text = sorted(&entry::unsorted(body, 0, NO_PREV, "")?).ok_or_else(unreadable)?;
        if text.len() > MAX_LINE {
            return Err(EntryError::TooLong {
                kind: body.kind(),
                length: text.len(),
            });
        }
        debug_assert_eq!(entry::line(body, 0, NO_PREV, "").ok().as_ref(), Some(&text));
        canonical::check(&text).map_err(|_| unreadable())?;
        let line = std::str::from_utf8(&text).map_err(|_| unreadable())?;
        let facts = match facts::at_once(line) {
            Some((_, facts)) => facts,
            None => {
                let common: Common<'_> = serde_json::from_str(line).map_err(|_| unreadable())?;
                facts::of(&common, line).ok_or_else(unreadable)?
            }
        };
        let mut holes = Vec::with_capacity(8);
        find(&text, &mut holes).ok_or_else(unreadable)?;
        Ok(Self {
            kind: body.kind(),
            holes,
            facts,
            text,
        })
    }

    /// Bytes of the line so far.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Appends the line at its place, without a line feed; `place` says where a field's object lies.
    pub(crate) fn fill(
        &self,
        at: Position<'_>,
        place: impl Fn(Field) -> Option<At>,
        line: &mut Vec<u8>,
    ) -> Result<(), EntryError> {
        let (start, mut done) = (line.len(), 0);
        for (range, hole) in &self.holes {
            line.extend_from_slice(&self.text[done..range.start]);
            done = range.end;
            let lost = || EntryError::Unreadable { kind: self.kind };
            match *hole {
                Hole::Index => number(at.index, line),
                Hole::Before => {
                    line.extend_from_slice(b"\"sha256:");
                    for byte in at.before.0 {
                        line.extend_from_slice(&hex(byte));
                    }
                    line.push(b'"');
                }
                Hole::Time => {
                    line.push(b'"');
                    line.extend_from_slice(at.time.as_bytes());
                    line.push(b'"');
                }
                Hole::Offset(field) => decimal(place(field).ok_or_else(lost)?.off, line),
                Hole::Segment(field) => decimal(place(field).ok_or_else(lost)?.seg, line),
            }
        }
        line.extend_from_slice(&self.text[done..]);
        let length = line.len() - start;
        if length > MAX_LINE {
            line.truncate(start);
            return Err(EntryError::TooLong {
                kind: self.kind,
                length,
            });
        }
        Ok(())
    }

    /// The facts of the entry at its place.
    pub(crate) fn facts(
        self,
        index: u64,
        place: impl Fn(Field) -> Option<At>,
    ) -> impl Iterator<Item = Fact> {
        self.facts.into_iter().map(move |mut fact| {
            match &mut fact {
                Fact::Opened(call) => call.index = index,
                Fact::Rotated(rotation) => rotation.index = index,
                Fact::Stored(stored) => {
                    stored.target.i = Count(index);
                    if let Some(at) = place(stored.target.f) {
                        stored.at = at;
                    }
                }
                // Of other entries than this one.
                Fact::Closed(_) | Fact::Explained(_) | Fact::Erased(_) | Fact::Pruned(_) => {}
            }
            fact
        })
    }
}

/// The canonical form of an entry written by serde_json: its members in order. Everything else is canonical as it is: names of
/// inner members are declared in order, numbers are integers, text is escaped as RFC 8785 says.
fn sorted(text: &[u8]) -> Option<Vec<u8>> {
    let members = Members::of(text, 0..text.len())?;
    let mut members = members.collect::<Option<Vec<_>>>()?;
    members.sort_unstable_by_key(|(name, _)| *name);
    let mut line = Vec::with_capacity(text.len());
    for (name, value) in members {
        line.push(if line.is_empty() { b'{' } else { b',' });
        line.push(b'"');
        line.extend_from_slice(name);
        line.extend_from_slice(b"\":");
        line.extend_from_slice(&text[value]);
    }
    line.push(b'}');
    Some(line)
}

/// Finds the places in a canonical line that are open; nothing when it is none.
fn find(text: &[u8], holes: &mut Vec<(Range<usize>, Hole)>) -> Option<()> {
    for member in Members::of(text, 0..text.len())? {
        let (name, value) = member?;
        match name {
            b"i" => holes.push((value, Hole::Index)),
            b"prev" => holes.push((value, Hole::Before)),
            b"ts" => holes.push((value, Hole::Time)),
            name => {
                if let Some((_, field)) = FIELDS.iter().find(|(member, _)| *member == name) {
                    object(text, value, *field, holes)?;
                }
            }
        }
    }
    Some(())
}

/// The same within a commitment or a view.
fn object(
    text: &[u8],
    range: Range<usize>,
    field: Field,
    holes: &mut Vec<(Range<usize>, Hole)>,
) -> Option<()> {
    for member in Members::of(text, range)? {
        match member? {
            (b"at", value) => {
                for member in Members::of(text, value)? {
                    match member? {
                        (b"off", value) => holes.push((value, Hole::Offset(field))),
                        (b"seg", value) => holes.push((value, Hole::Segment(field))),
                        _ => {}
                    }
                }
            }
            (b"view", value) => object(text, value, field.view(), holes)?,
            _ => {}
        }
    }
    Some(())
}

/// The members of an object in canonical form: their names as they are spelled, and where their values stand.
struct Members<'a> {
    text: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Members<'a> {
    fn of(text: &'a [u8], range: Range<usize>) -> Option<Self> {
        (*text.get(range.start)? == b'{').then_some(Self {
            text,
            at: range.start + 1,
            end: range.end.checked_sub(1)?,
        })
    }

    fn member(&mut self) -> Option<(&'a [u8], Range<usize>)> {
        let name = self.string(self.at)?;
        let colon = name.end + 1;
        (*self.text.get(colon)? == b':').then_some(())?;
        let start = colon + 1;
        let end = self.value(start)?;
        // The comma, or the object's end.
        self.at = end + 1;
        Some((&self.text[name], start..end))
    }

    /// What stands between the quotes.
    fn string(&self, start: usize) -> Option<Range<usize>> {
        (*self.text.get(start)? == b'"').then_some(())?;
        let mut at = start + 1;
        loop {
            at += memchr::memchr2(b'"', b'\\', self.text.get(at..)?)?;
            if self.text[at] == b'"' {
                return Some(start + 1..at);
            }
            at += 2;
        }
    }

    /// The offset after the value.
    fn value(&self, start: usize) -> Option<usize> {
        let (mut at, mut depth) = (start, 0_usize);
        loop {
            match *self.text.get(at)? {
                b'"' => at = self.string(at)?.end + 1,
                b'{' | b'[' => {
                    depth += 1;
                    at += 1;
                }
                b'}' | b']' if depth > 0 => {
                    depth -= 1;
                    at += 1;
                }
                // A number or a word ends before what follows the value.
                _ => at += 1,
            }
            if depth == 0 && matches!(self.text.get(at)?, b',' | b'}' | b']') {
                return Some(at);
            }
        }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Option<(&'a [u8], Range<usize>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let member = self.member();
        if member.is_none() {
            self.at = self.end;
        }
        Some(member)
    }
}

/// An integer as [`Count`] writes it.
fn number(n: u64, line: &mut Vec<u8>) {
    if n <= MAX_SAFE {
        return decimal(n, line);
    }
    line.push(b'"');
    decimal(n, line);
    line.push(b'"');
}

fn decimal(mut n: u64, line: &mut Vec<u8>) {
    let (mut digits, mut at) = ([0; 20], 20);
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            return line.extend_from_slice(&digits[at..]);
        }
    }
}

fn hex(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [
        DIGITS[usize::from(byte >> 4)],
        DIGITS[usize::from(byte & 15)],
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::commitment::{Commitment, SecretAt, View};
    use crate::entry::CallId;
    use crate::journal::tests::{call, id};
    use crate::kinds::{Decision, Outcome, Settings, Status, Target, Verdict};
    use crate::lifecycle::{Erase, KeyRotate};

    /// Where a field's object lies in these tests.
    fn at(field: Field) -> At {
        let n = field.as_str().len() as u64;
        At {
            len: n * 100,
            off: n * 1_000_003,
            seg: n,
        }
    }

    fn commitment(field: Field, text: &str, padded: bool, placed: bool) -> Commitment {
        let lie = |field| match placed {
            true => at(field),
            false => At {
                off: 0,
                seg: 0,
                ..at(field)
            },
        };
        let secret = SecretAt {
            d: text.to_owned(),
            p: text.to_owned(),
        };
        Commitment {
            at: Some(lie(field)),
            c: "hmac-sha256:ab".to_owned(),
            keep: None,
            n: Count(7),
            secrets: padded.then_some(secret).into_iter().collect(),
            view: padded.then(|| View {
                at: lie(field.view()),
                c: "hmac-sha256:cd".to_owned(),
                n: Count(6),
            }),
        }
    }

    /// The filled line and its facts are those of the body written and read at that place.
    fn check(open: &Body, placed: &Body, index: u64, before: Hash, time: &str) {
        let blank = Blank::of(open).unwrap();
        let position = Position {
            index,
            before,
            time,
        };
        let mut line = b"before".to_vec();
        blank
            .fill(position, |field| Some(at(field)), &mut line)
            .unwrap();
        let expected = entry::line(placed, index, before, time).unwrap();
        let text = std::str::from_utf8(&expected).unwrap();
        assert_eq!(std::str::from_utf8(&line[6..]).unwrap(), text);
        if index <= MAX_SAFE {
            let read = facts::of(&serde_json::from_str(text).unwrap(), text).unwrap();
            let facts: Vec<_> = blank.facts(index, |field| Some(at(field))).collect();
            assert_eq!(format!("{facts:?}"), format!("{read:?}"));
        }
    }

    fn with_payloads(text: &str, padded: bool, placed: bool) -> [Body; 2] {
        let mut call = call(9, text);
        call.tool = text.to_owned();
        call.args = Some(commitment(Field::Args, text, padded, placed));
        call.sent = Some(commitment(Field::Sent, text, !padded, placed));
        let mut outcome = Outcome::new(id(9), Status::Ok);
        outcome.result = Some(commitment(Field::Result, text, padded, placed));
        outcome.why = Some(text.to_owned());
        [call.into(), outcome.into()]
    }

    fn without(text: &str) -> [Body; 4] {
        let target = Target {
            f: Field::Args,
            i: Count(3),
        };
        [
            Settings {
                by: text.to_owned(),
                hash: Hash([9; 32]),
            }
            .into(),
            Decision {
                aim: Some(text.to_owned()),
                bounds: None,
                call: id(9),
                decision: Verdict::Deny,
                gate: text.to_owned(),
                policy: None,
                rule: Some(text.to_owned()),
            }
            .into(),
            Erase {
                by: text.to_owned(),
                reason: text.to_owned(),
                targets: vec![target.clone(), target],
            }
            .into(),
            KeyRotate {
                from: Count(12),
                reason: text.to_owned(),
                until: Some(Count(90)),
                vkey: text.to_owned(),
            }
            .into(),
        ]
    }

    proptest! {
        #[test]
        fn b8_a_line_filled_in_is_the_canonical_line_of_its_place(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "\"", "\\", "\\\"", "{", "}", "[", "]", ",", ":", "\"i\":0", "\"at\":{\"off\":0", "\"prev\":\"", "sha256:", "\n",
                    "\u{1}", "\u{7f}", "é", "\u{1f600}", "\u{e000}", "ts", "a", "0", "/",
                ]),
                0..20,
            ),
            index in prop_oneof![0..3_u64, MAX_SAFE - 1..MAX_SAFE + 3, any::<u64>()],
            before: [u8; 32],
            padded: bool,
        ) {
            let (text, time) = (parts.concat(), "2026-11-30T17:00:00.123Z");
            let open = with_payloads(&text, padded, false);
            for (open, placed) in open.iter().zip(&with_payloads(&text, padded, true)) {
                check(open, placed, index, Hash(before), time);
            }
            for body in &without(&text) {
                check(body, body, index, Hash(before), time);
            }
        }
    }

    #[test]
    fn b7_a_line_that_its_place_makes_too_long_is_refused_and_not_begun() {
        let filled = |length: usize, index: u64| {
            let body = Decision {
                aim: Some("x".repeat(length)),
                bounds: None,
                call: CallId::parse("01ARZ3NDEKTSV4RRFFQ69G5FAV").unwrap(),
                decision: Verdict::Allow,
                gate: String::new(),
                policy: None,
                rule: None,
            };
            let position = Position {
                index,
                before: NO_PREV,
                time: "2026-11-30T17:00:00.123Z",
            };
            let (blank, mut line) = (Blank::of(&body.into()).unwrap(), b"before".to_vec());
            let refused = blank.fill(position, |_| None, &mut line).is_err();
            (refused, line.len() - 6)
        };
        let room = MAX_LINE - filled(0, 0).1;
        assert_eq!(filled(room, 9), (false, MAX_LINE));
        assert_eq!(filled(room, 10), (true, 0));
    }
}
