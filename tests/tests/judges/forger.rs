//! Makes books as somebody who holds the keys could: every checkpoint signed anew over what was put in. Knows FORMAT.md alone and
//! uses none of the book's code but its tree.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use countersign_book::{CompactRange, Hash, leaf_hash};
use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub const ORIGIN: &str = "countersign.localhost/book/aaaaaaaaaaaaaaaaaaaaaaaaaa";

/// One act of the forger: what is put in, and the number of the edit made to it, 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// An entry of this number in [`ENTRIES`].
    Entry(usize, usize),
    /// A rotation to the next key.
    Rotate(usize),
    /// Many plain entries.
    Many(usize),
    /// A checkpoint over nothing new.
    Again,
    /// A checkpoint by the keys of this number in [`HANDS`].
    Sign(usize, usize),
    /// The end of a segment.
    Split(usize),
    /// The segments so far are pruned, in a way of [`PRUNINGS`].
    Prune(usize),
    /// Bytes of [`TAILS`] at the end.
    Tail(usize),
}

/// A key, and how a checkpoint names it.
pub struct Key {
    signing: SigningKey,
    id: [u8; 4],
    pub vkey: String,
}

pub struct Forger {
    pub keys: Vec<Key>,
    range: CompactRange,
    last: Hash,
    text: Vec<u8>,
    first: u64,
    segments: BTreeMap<u64, Vec<u8>>,
    note: Option<String>,
    ranges: Vec<(usize, u64, Option<u64>)>,
    rotated: Option<(u64, Option<u64>)>,
    open: BTreeMap<String, (u64, &'static str)>,
    vault: Vec<u8>,
    end: u64,
    calls: u64,
    /// The size of the last checkpoint.
    signed: u64,
}

fn vkey(name: &str, raw: &[u8]) -> ([u8; 4], String) {
    let typed = [&[1], raw].concat();
    let digest = Sha256::digest([name.as_bytes(), b"\n", &typed].concat());
    let id = [digest[0], digest[1], digest[2], digest[3]];
    let hex = data_encoding::HEXLOWER.encode(&id);
    (id, format!("{name}+{hex}+{}", STANDARD.encode(typed)))
}

pub fn key(seed: u8) -> Key {
    let signing = SigningKey::from_bytes(&[seed; 32]);
    let (id, vkey) = vkey(ORIGIN, signing.verifying_key().as_bytes());
    Key { signing, id, vkey }
}

/// What an entry says besides its common members.
type Made = fn(&mut Forger) -> Value;

pub const ENTRIES: &[Made] = &[
    |_| json!({"k": "beat", "process": "p"}),
    |f| f.call(0),
    |f| f.call(1),
    |f| f.call(2),
    |f| f.call(3),
    |f| {
        let call = f.open.keys().next_back().cloned().unwrap_or_else(|| f.id());
        let _ = f.open.remove(&call);
        json!({"k": "outcome", "call": call, "status": "ok"})
    },
    |f| json!({"k": "erase", "by": "p", "reason": "r", "targets": [{"f": "args", "i": f.next().saturating_sub(1)}]}),
    |f| json!({"k": "erase", "by": "p", "reason": "r", "targets": [{"f": "args", "i": f.next() + 1}, {"f": "args.view", "i": 1}]}),
    |f| json!({"k": "book.recovered", "bytes": 0, "lines": 0, "process": "p", "missing": [{"f": "args", "i": f.next().saturating_sub(1)}]}),
    |f| json!({"k": "prune", "by": "p", "minimum": f.next(), "reason": "r"}),
    |f| json!({"k": "prune", "by": "p", "minimum": f.next() + 5, "reason": "r"}),
    |_| json!({"k": "erase", "targets": 5}),
    |_| json!({"k": "erase", "targets": [{"f": "else", "i": 1}]}),
    |_| json!({"k": "erase", "targets": [{"f": "args", "i": "1"}, {"f": "args", "i": 1, "x": 1}]}),
    |_| json!({"k": "prune", "minimum": "x"}),
    |_| json!({"k": "prune", "minimum": "9007199254740993"}),
    |_| json!({"k": "book.recovered", "missing": [1]}),
    |_| json!({"k": "call", "call": 5, "process": []}),
    |_| json!({"k": "call", "call": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}),
    |_| json!({"k": "outcome", "call": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "process": 1}),
    |_| json!({"k": "outcome", "call": "81ARZ3NDEKTSV4RRFFQ69G5FAV", "status": "ok"}),
    |f| f.at(&json!({"len": 200, "off": -1, "seg": 0})),
    |f| f.at(&json!({"len": 200, "off": "9007199254740993", "seg": 0})),
    |f| f.at(&json!({"len": 200, "off": 9007199254740991_u64, "seg": 0})),
    |f| f.at(&json!({"len": 200, "off": 32, "seg": 9007199254740991_u64})),
    |f| f.at(&json!({"len": 200, "off": 32, "seg": 0, "x": 1})),
    |f| f.at(&json!(7)),
    |f| json!({"k": "call", "call": f.id(), "process": "p", "args": "x"}),
    |f| json!({"k": "call", "call": f.id(), "process": "p", "args": {"c": "x"}}),
    |f| json!({"k": "call", "call": f.id(), "process": "p", "args": {"c": "x", "n": 1, "view": {"c": "x", "n": 1}}}),
    |f| json!({"k": "call", "call": f.id(), "process": "p", "minimum": "x", "targets": 7, "from": "y"}),
    |_| json!({"k": "key.rotate", "reason": "r"}),
    |_| json!({"k": "key.rotate", "v": 2, "from": 3, "vkey": "x"}),
    |_| json!({"k": "zz", "v": 7}),
    |_| json!({"k": 5}),
    |_| json!({"v": "1", "k": "beat"}),
    |_| json!({"v": -1, "k": "beat"}),
    |_| json!({"ts": "yesterday", "k": "beat"}),
    |_| json!({"ts": "2026-13-99T99:99:99.999Z", "k": "beat"}),
    |_| json!({"prev": "x", "k": "beat"}),
    |_| json!({"k": "beat", "process": "\u{1b}\u{202e}\u{1f600}\n\"\\\u{7f}"}),
    |_| json!({"k": "beat", "zz": null}),
    |_| json!({"k": "beat", "zz": 1.5}),
    |_| json!({"k": "beat", "\u{e4}": 1}),
    |_| json!({"k": "beat", "zz": 9007199254740992_u64}),
    |_| json!({"k": "beat", "zz": [-1, true, {}, []]}),
];

/// Edits of a line; 0 is none.
type Edit = fn(String) -> Vec<u8>;

pub const LINES: &[Edit] = &[
    |line| line.into_bytes(),
    |line| line.replace(r#""i":"#, r#""i": "#).into_bytes(),
    |line| {
        line.replace(r#","prev""#, r#".0,"prev""#)
            .replace(r#","k""#, r#"e0,"k""#)
            .into_bytes()
    },
    |line| line.replacen('{', r#"{"a":NaN,"#, 1).into_bytes(),
    |line| line.replacen('{', r#"{"a":{"b":1,"b":1},"#, 1).into_bytes(),
    |line| line.replacen('{', r#"{"i":1,"#, 1).into_bytes(),
    |line| format!("{},\"zz\":1,\"zz\":1}}", &line[..line.len() - 1]).into_bytes(),
    |line| format!("{},\"zz\":1}}", &line[..line.len() - 1]).into_bytes(),
    |line| format!("{},\"a\":1}}", &line[..line.len() - 1]).into_bytes(),
    |line| format!("{line} ").into_bytes(),
    |line| format!("{line}\r").into_bytes(),
    |line| format!("\u{feff}{line}").into_bytes(),
    |line| format!("{line}x").into_bytes(),
    |line| [&line.as_bytes()[..line.len() - 1], b",\"zz\":\"\xff\"}"].concat(),
    |line| format!("{},\"zz\":\"\\ud800\"}}", &line[..line.len() - 1]).into_bytes(),
    |line| format!("{},\"zz\":\"\\u0041\"}}", &line[..line.len() - 1]).into_bytes(),
    |line| format!("{},\"zz\":\"\\u001F\"}}", &line[..line.len() - 1]).into_bytes(),
    |line| format!("{},\"zz\":\"\\/\"}}", &line[..line.len() - 1]).into_bytes(),
    |line| format!("{},\"zz\":\"\u{1}\"}}", &line[..line.len() - 1]).into_bytes(),
    |line| deep(&line, 63),
    |line| deep(&line, 64),
    |line| deep(&line, 20_000),
    |line| long(&line, 65_535),
    |line| long(&line, 65_536),
    |line| long(&line, 4 << 20),
    |line| long(&line, (4 << 20) + 1),
    |line| line.to_uppercase().into_bytes(),
    |line| line.replace("sha256:", "sha256: ").into_bytes(),
    |_| b"[1]".to_vec(),
    |_| Vec::new(),
    |line| line.replace(r#""v":1"#, r#""v":01"#).into_bytes(),
    |line| line.replace(r#""v":1"#, r#""v":true"#).into_bytes(),
];

fn deep(line: &str, depth: usize) -> Vec<u8> {
    let (open, close) = ("[".repeat(depth), "]".repeat(depth));
    format!("{},\"zz\":{open}{close}}}", &line[..line.len() - 1]).into_bytes()
}

fn long(line: &str, length: usize) -> Vec<u8> {
    let text = "a".repeat(length - line.len() - r#","zz":"""#.len());
    format!("{},\"zz\":\"{text}\"}}", &line[..line.len() - 1]).into_bytes()
}

/// Who signs: nothing is who must.
pub const HANDS: &[&[usize]] = &[
    &[],
    &[0],
    &[1],
    &[2],
    &[0, 1],
    &[1, 2],
    &[0, 0],
    &[3],
    &[0, 3],
    &[0, 1, 2],
];

/// What of a checkpoint is changed before it is signed, after it, and in how it is written.
pub struct NoteEdit {
    text: fn(String) -> String,
    note: fn(String) -> Vec<u8>,
    encoded: fn(&[u8]) -> Vec<u8>,
}

fn same(text: String) -> String {
    text
}

fn written(text: String) -> Vec<u8> {
    text.into_bytes()
}

fn standard(note: &[u8]) -> Vec<u8> {
    STANDARD.encode(note).into_bytes()
}

const fn text(text: fn(String) -> String) -> NoteEdit {
    NoteEdit {
        text,
        note: written,
        encoded: standard,
    }
}

const fn note(note: fn(String) -> Vec<u8>) -> NoteEdit {
    NoteEdit {
        text: same,
        note,
        encoded: standard,
    }
}

const fn encoded(encoded: fn(&[u8]) -> Vec<u8>) -> NoteEdit {
    NoteEdit {
        text: same,
        note: written,
        encoded,
    }
}

fn signers(note: String, count: usize, line: fn(usize) -> String) -> Vec<u8> {
    let lines: String = (0..count).map(line).collect();
    (note + &lines).into_bytes()
}

fn other(at: usize) -> String {
    format!("— other.example/{at} {}\n", STANDARD.encode([7; 68]))
}

/// The last character of base64 before its padding, with other bits that mean nothing.
fn loose(text: &str) -> String {
    let bare = text.trim_end_matches('=');
    let (head, last) = bare.split_at(bare.len() - 1);
    let next = char::from(last.bytes().next().map_or(b'A', |byte| byte + 1));
    format!("{head}{next}{}", &text[bare.len()..])
}

fn third(text: &str, edit: fn(&str) -> String) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    format!("{}\n{}\n{}\n", lines[0], lines[1], edit(lines[2]))
}

fn second(text: &str, edit: fn(&str) -> String) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    format!("{}\n{}\n{}\n", lines[0], edit(lines[1]), lines[2])
}

pub const NOTES: &[NoteEdit] = &[
    text(same),
    text(|text| second(&text, |size| format!("0{size}"))),
    text(|text| second(&text, |size| format!("+{size}"))),
    text(|text| second(&text, |size| format!("{size}7"))),
    text(|text| second(&text, |_| "1".to_owned())),
    text(|text| second(&text, |_| "18446744073709551616".to_owned())),
    text(|text| third(&text, loose)),
    text(|text| third(&text, |root| root.trim_end_matches('=').to_owned())),
    text(|text| third(&text, |_| STANDARD.encode([1; 32]))),
    text(|text| text + "extension\n"),
    text(|text| text.replacen('a', "b", 9)),
    text(|text| text.replace('\n', "\r\n")),
    note(|note| signers(note, 63, other)),
    note(|note| signers(note, 64, other)),
    note(|note| signers(note, 300, other)),
    note(|note| signers(note, 1, |_| "— other.example AAAA\n".to_owned())),
    note(|note| signers(note, 1, |_| "— other.example AAAAAA==\n".to_owned())),
    note(|note| signers(note, 1, |_| "— other.example AAAAAAA=\n".to_owned())),
    note(|note| signers(note, 1, |_| "— other.example AAAAAAB=\n".to_owned())),
    note(|note| signers(note, 1, |_| "— other+x AAAAAAA=\n".to_owned())),
    note(|note| signers(note, 1, |_| "— oth\u{a0}er AAAAAAA=\n".to_owned())),
    note(|note| signers(note, 1, |_| "— oth\u{85}er AAAAAAA=\n".to_owned())),
    note(|note| signers(note, 1, |_| "— oth\u{1b}er AAAAAAA=\n".to_owned())),
    note(|note| signers(note, 1, |_| "— oth\u{202e}er AAAAAAA=\n".to_owned())),
    note(|note| signers(note, 1, |_| "— a b AAAAAAA=\n".to_owned())),
    note(|note| signers(note, 1, |_| "- other AAAAAAA=\n".to_owned())),
    note(|note| signers(note, 1, |_| "\n".to_owned())),
    note(|note| {
        signers(note, 1, |_| {
            format!(
                "— {ORIGIN} {}\n",
                STANDARD.encode([&key(1).id[..], &[1; 64]].concat())
            )
        })
    }),
    note(|note| {
        signers(note, 1, |_| {
            format!(
                "— {ORIGIN} {}\n",
                STANDARD.encode([&key(2).id[..], &[1; 64]].concat())
            )
        })
    }),
    note(|note| {
        signers(note, 1, |_| {
            format!(
                "— {ORIGIN} {}\n",
                STANDARD.encode([&key(1).id[..], &[1; 9]].concat())
            )
        })
    }),
    note(|note| note.trim_end().as_bytes().to_vec()),
    note(|note| {
        let head = note.trim_end();
        format!("{}\n", loose(head)).into_bytes()
    }),
    note(|note| note.replacen("\n\n", "\n\n\n", 1).into_bytes()),
    note(|note| [note.as_bytes(), b"\xe2\x80\x94 \xff AAAAAAA=\n"].concat()),
    encoded(|note| STANDARD_NO_PAD.encode(note).into_bytes()),
    encoded(|note| URL_SAFE.encode(note).into_bytes()),
    encoded(|note| loose(&STANDARD.encode(note)).into_bytes()),
    encoded(|note| format!("{} ", STANDARD.encode(note)).into_bytes()),
    encoded(|note| format!(" {}", STANDARD.encode(note)).into_bytes()),
    encoded(|_| Vec::new()),
];

/// Edits of a segment's first line.
pub type SegEdit = fn(&mut Value);

pub const SEGS: &[SegEdit] = &[
    |_| {},
    |line| line["v"] = json!(2),
    |line| line["v"] = json!(1.0),
    |line| line["v"] = json!(true),
    |line| line["zz"] = json!(1),
    |line| line["calls"] = json!([]),
    |line| line["calls"] = json!([{"call": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "i": 0, "process": "p"}]),
    |line| line["calls"] = json!([{"call": "x", "i": 0, "process": "p"}]),
    |line| line["vault"]["end"] = json!(5),
    |line| line["vault"]["x"] = json!(5),
    |line| line["vault"]["end"] = json!(-5),
    |line| line["range"] = json!([]),
    |line| line["range"][0] = json!("sha256:x"),
    |line| line["keys"] = json!([key(2).vkey]),
    |line| line["keys"] = json!([{"from": 0, "vkey": key(1).vkey}]),
    |line| {
        line["keys"] =
            json!([{"from": 0, "until": 1, "vkey": key(1).vkey}, {"from": 2, "vkey": key(2).vkey}])
    },
    |line| {
        line["keys"] = json!([{"from": 0, "until": 900, "vkey": key(1).vkey}, {"from": 2, "vkey": key(2).vkey}])
    },
    |line| line["keys"] = json!([{"from": 0, "until": "18446744073709551615", "vkey": key(1).vkey}, {"from": 2, "vkey": key(2).vkey}]),
    |line| {
        line["keys"] =
            json!([{"from": 0, "until": 1, "vkey": key(1).vkey}, {"from": 2, "vkey": key(1).vkey}])
    },
    |line| line["keys"] = json!([key(1).vkey, key(2).vkey]),
    |line| line["keys"] = json!([key(1).vkey, {"from": 2, "vkey": key(2).vkey}]),
    |line| line["keys"] = json!([key(1).vkey + "x"]),
    |line| line["keys"] = json!([]),
    |line| line["keys"] = json!([7]),
    |line| line["prevcp"] = json!("AAAA"),
    |line| drop(line.as_object_mut().map(|line| line.remove("prevcp"))),
    |line| line["prevcp"] = json!(loose(line["prevcp"].as_str().unwrap_or("AA=="))),
    |line| line["origin"] = json!("x"),
    |line| line["first"] = json!(1),
    |line| line["first"] = json!("2"),
    |line| line["last"] = json!(format!("sha256:{}", "0".repeat(64))),
];

/// How a start is pruned: what the entry states beyond the segment's first index; nothing where none is written.
pub const PRUNINGS: &[Option<i64>] = &[Some(0), Some(-1), None, Some(40)];

pub const TAILS: &[&[u8]] = &[
    b"x",
    b"x\n",
    b"{}\n",
    b"\n",
    b"#cp \n",
    b"#cp AAAA\n",
    b"#seg {}\n",
    &[0; 600],
    b"\r\n",
    b"{\"i\":1",
];

impl Forger {
    pub fn new() -> Self {
        let mut forger = Self {
            keys: (1..=4).map(key).collect(),
            range: CompactRange::default(),
            last: Hash([0; 32]),
            text: Vec::new(),
            first: 0,
            segments: BTreeMap::new(),
            note: None,
            ranges: vec![(0, 0, None)],
            rotated: None,
            open: BTreeMap::new(),
            vault: b"countersign vault segment 1\n\n\n\n\n".to_vec(),
            end: 0,
            calls: 0,
            signed: 0,
        };
        forger.begin(0);
        let vkey = forger.keys[0].vkey.clone();
        forger.entry(&json!({"k": "book.open", "development": true, "origin": ORIGIN, "process": "p", "vkey": vkey}), 0);
        forger.sign(0, 0);
        forger
    }

    pub fn act(&mut self, act: Act) {
        match act {
            Act::Entry(made, edit) => {
                let entry = ENTRIES[made % ENTRIES.len()](self);
                self.entry(&entry, edit);
            }
            Act::Rotate(how) => self.rotate(how),
            Act::Many(count) => {
                (0..count).for_each(|_| self.entry(&json!({"k": "beat", "process": "p"}), 0))
            }
            // What nobody would sign is left to `Again`.
            Act::Sign(0, 0) if self.signed == self.next() => {}
            Act::Sign(hands, edit) => self.sign(hands, edit),
            Act::Again => self.sign(0, 0),
            Act::Split(edit) => {
                self.end();
                self.begin(edit);
            }
            Act::Prune(how) => {
                self.end();
                self.begin(0);
                if let Some(more) = PRUNINGS[how % PRUNINGS.len()] {
                    let minimum = i64::try_from(self.next()).unwrap_or_default() + more;
                    self.entry(
                        &json!({"k": "prune", "by": "p", "minimum": minimum, "reason": "r"}),
                        0,
                    );
                    self.sign(0, 0);
                }
                self.segments.clear();
            }
            Act::Tail(tail) => self.text.extend_from_slice(TAILS[tail % TAILS.len()]),
        }
    }

    /// Writes the book to a folder that is there.
    pub fn write(mut self, to: &Path) {
        self.end();
        let write =
            |path: String, bytes: &[u8]| std::fs::write(to.join(path), bytes).expect("written");
        for folder in ["journal", "vault"] {
            let _ = std::fs::remove_dir_all(to.join(folder));
            std::fs::create_dir_all(to.join(folder)).expect("made");
        }
        let vkey = &self.keys[0].vkey;
        let book = format!(
            "countersign book 1\norigin: {ORIGIN}\nvkey: {vkey}\ncreated: 2026-11-30T17:00:00.000Z\n"
        );
        write("BOOK".to_owned(), book.as_bytes());
        write(format!("vault/{:020}.seg", 0), &self.vault);
        for (first, text) in &self.segments {
            write(format!("journal/{first:020}.jsonl"), text);
        }
    }

    fn next(&self) -> u64 {
        self.range.size()
    }

    fn id(&mut self) -> String {
        self.calls += 1;
        format!("01ARZ3NDEKTSV4RRFF{:08}", self.calls)
    }

    fn at(&mut self, at: &Value) -> Value {
        json!({"k": "call", "call": self.id(), "process": "p", "args": {"at": at, "c": "x", "n": 1}})
    }

    /// A call with a payload: 0 there, 1 erased, 2 missing, 3 with a view.
    fn call(&mut self, how: usize) -> Value {
        let call = self.id();
        let at = self.object(&call, "args", how);
        let _ = self.open.insert(call.clone(), (self.next(), "p"));
        let mut args = json!({"at": at, "c": "x", "n": 1});
        if how == 3 {
            args["view"] = json!({"at": self.object(&call, "args.view", 0), "c": "x", "n": 1});
        }
        json!({"k": "call", "call": call, "process": "p", "args": args})
    }

    fn object(&mut self, call: &str, field: &str, how: usize) -> Value {
        let mut object = b"CSVOBJ1\n".to_vec();
        let length = 8 + 8 + 2 + call.len() + field.len() + 104 + 24 + 16 + 1;
        object.extend_from_slice(&(length as u64).to_be_bytes());
        for name in [call, field] {
            object.push(u8::try_from(name.len()).unwrap_or_default());
            object.extend_from_slice(name.as_bytes());
        }
        object.extend_from_slice(&[if how == 1 { 0 } else { 9 }; 104]);
        object.resize(length, 9);
        if how == 2 {
            object.fill(0);
        }
        let off = self.vault.len();
        self.vault.extend_from_slice(&object);
        self.end = self.end.max(self.vault.len() as u64);
        json!({"len": length, "off": off, "seg": 0})
    }

    fn entry(&mut self, members: &Value, edit: usize) {
        let mut entry = json!({
            "i": self.next(), "prev": format!("{}", Prefixed(self.last)), "ts": "2026-11-30T17:00:00.000Z", "v": 1,
        });
        for (name, value) in members.as_object().into_iter().flatten() {
            entry[name] = value.clone();
        }
        let line = LINES[edit % LINES.len()](spell(&entry));
        self.last = leaf_hash(&line);
        self.range.push(self.last);
        self.text.extend_from_slice(&line);
        self.text.push(b'\n');
    }

    /// 0 as it should be, 1 without overlap, 2 a wrong range, 3 the same key, 4 a text for a number.
    fn rotate(&mut self, how: usize) {
        let (index, next) = (self.next(), self.ranges.len().min(3));
        let until = (how != 1).then_some(index + 4);
        let vkey = match how {
            3 => self.keys[0].vkey.clone(),
            _ => self.keys[next].vkey.clone(),
        };
        let mut entry = json!({"k": "key.rotate", "from": index + 2, "reason": "r", "vkey": vkey});
        match (how, until) {
            (2, _) => entry["from"] = json!(index + 9),
            (4, _) => entry["until"] = json!("9"),
            (_, Some(until)) => entry["until"] = json!(until),
            (_, None) => {}
        }
        self.entry(&entry, 0);
        self.rotated = Some((index, until));
    }

    fn sign(&mut self, hands: usize, edit: usize) {
        let size = self.next();
        self.signed = size;
        let covers = |(_, from, until): &&(usize, u64, Option<u64>)| {
            size >= *from && until.is_none_or(|until| size <= until)
        };
        let hands: Vec<usize> = match HANDS[hands % HANDS.len()] {
            [] => self
                .ranges
                .iter()
                .filter(covers)
                .map(|range| range.0)
                .collect(),
            hands => hands.to_vec(),
        };
        let edit = &NOTES[edit % NOTES.len()];
        let text = (edit.text)(format!(
            "{ORIGIN}\n{size}\n{}\n",
            STANDARD.encode(self.range.root().0)
        ));
        let lines: String = hands
            .iter()
            .map(|hand| {
                let key = &self.keys[*hand];
                let signature = key.signing.sign(text.as_bytes()).to_bytes();
                format!(
                    "— {ORIGIN} {}\n",
                    STANDARD.encode([&key.id[..], &signature].concat())
                )
            })
            .collect();
        let encoded = (edit.encoded)(&(edit.note)(format!("{text}\n{lines}")));
        self.text
            .extend_from_slice(&[b"#cp ", &encoded[..], b"\n"].concat());
        self.note = Some(String::from_utf8_lossy(&encoded).into_owned());
        if let Some((index, until)) = self.rotated.take() {
            let next = self.ranges.len().min(3);
            if let Some(last) = self.ranges.last_mut() {
                last.2 = Some(until.unwrap_or(index + 1));
            }
            self.ranges.push((next, index + 2, None));
        }
    }

    fn begin(&mut self, edit: usize) {
        self.first = self.next();
        let keys: Vec<Value> = match &self.ranges[..] {
            [_] => vec![json!(self.keys[0].vkey)],
            ranges => ranges
                .iter()
                .map(|(key, from, until)| match until {
                    Some(until) => {
                        json!({"from": from, "until": until, "vkey": self.keys[*key].vkey})
                    }
                    None => json!({"from": from, "vkey": self.keys[*key].vkey}),
                })
                .collect(),
        };
        let calls: Vec<Value> = self
            .open
            .iter()
            .map(|(call, (i, process))| json!({"call": call, "i": i, "process": process}))
            .collect();
        let range: Vec<String> = self
            .range
            .hashes()
            .iter()
            .map(|hash| Prefixed(*hash).to_string())
            .collect();
        let mut line = json!({
            "v": 1, "origin": ORIGIN, "first": self.first, "keys": keys, "range": range, "last": Prefixed(self.last).to_string(),
            "calls": calls, "vault": {"seg": 0, "end": self.end},
        });
        if let Some(note) = &self.note {
            line["prevcp"] = json!(note);
        }
        SEGS[edit % SEGS.len()](&mut line);
        self.text = format!("#seg {}\n", spell(&line)).into_bytes();
    }

    fn end(&mut self) {
        let text = std::mem::take(&mut self.text);
        let _ = self.segments.insert(self.first, text);
    }
}

/// JSON with its members in order, whatever map this program's build of serde_json has.
fn spell(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<_, _> = members.iter().collect();
            let members = members
                .iter()
                .map(|(name, value)| format!("{}:{}", json!(name), spell(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(values) => format!(
            "[{}]",
            values.iter().map(spell).collect::<Vec<_>>().join(",")
        ),
        value => value.to_string(),
    }
}

struct Prefixed(Hash);

impl std::fmt::Display for Prefixed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sha256:{}", data_encoding::HEXLOWER.encode(&self.0.0))
    }
}
