//! Finds what looks like a secret in a payload in JSON, and gives the payload with it hidden. Owns the walk through the JSON;
//! refuses to judge whether something is a secret (that is `table` and `shapes`) and to change what is committed to.
//!
//! A payload in which nothing is suspect is passed over once and nothing is allocated. One that is no JSON is left as it is.

mod shapes;
mod table;

use std::borrow::Cow;
use std::ops::Range;

use crate::commitment::SecretAt;
use shapes::Place;

/// A payload with its secrets hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redacted {
    pub view: Vec<u8>,
    pub secrets: Vec<SecretAt>,
}

/// Places listed; further ones are hidden too.
const LISTED: usize = 16;
/// The deepest nesting followed: frames and documents are not deeper.
const DEEPEST: usize = 1024;
/// The longest pointer, and the longest name within one.
const POINTER: usize = 160;
const NAME: usize = 48;

/// The payload with what looks like a secret hidden; nothing when there is no such thing or the payload is no JSON.
pub(crate) fn find(payload: &[u8]) -> Option<Redacted> {
    if !shapes::is_suspect(payload) {
        return None;
    }
    let mut walk = Walk {
        bytes: payload,
        at: 0,
        stack: Vec::new(),
        cuts: Vec::new(),
        secrets: Vec::new(),
    };
    walk.document()?;
    if walk.cuts.is_empty() {
        return None;
    }
    let mut view = Vec::with_capacity(payload.len());
    let mut from = 0;
    for cut in &walk.cuts {
        view.extend_from_slice(payload.get(from..cut.range.start)?);
        let hidden = format!("[hidden: {}]", cut.detector);
        match cut.quoted {
            true => view.extend_from_slice(hidden.as_bytes()),
            false => view.extend_from_slice(format!("\"{hidden}\"").as_bytes()),
        }
        from = cut.range.end;
    }
    view.extend_from_slice(payload.get(from..)?);
    Some(Redacted {
        view,
        secrets: walk.secrets,
    })
}

/// A text with what looks like a secret in it hidden, as in the view of a payload. For texts that stand in an entry itself.
#[must_use]
pub fn hide_secrets(text: &str) -> String {
    let shown = || {
        let redacted = find(serde_json::to_string(text).ok()?.as_bytes())?;
        Some(
            serde_json::from_slice(&redacted.view)
                .unwrap_or_else(|_| "[hidden: secret]".to_owned()),
        )
    };
    shown().unwrap_or_else(|| text.to_owned())
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Frame>,
    cuts: Vec<Cut>,
    secrets: Vec<SecretAt>,
}

/// An object or a list that is open.
struct Frame {
    /// The name of the member read now, with its quotes; none in a list.
    name: Option<Range<usize>>,
    index: usize,
    is_object: bool,
}

/// Bytes that are hidden.
struct Cut {
    range: Range<usize>,
    detector: &'static str,
    /// Whether they lie within a string.
    quoted: bool,
}

impl Walk<'_> {
    /// Walks the whole document; nothing when it is not one.
    fn document(&mut self) -> Option<()> {
        loop {
            self.value()?;
            // The value has ended: so may what it is in.
            loop {
                self.space();
                let Some(frame) = self.stack.last_mut() else {
                    return (self.at == self.bytes.len()).then_some(());
                };
                let (byte, is_object) = (*self.bytes.get(self.at)?, frame.is_object);
                self.at += 1;
                match byte {
                    b',' => {
                        frame.index += 1;
                        if is_object {
                            self.name()?;
                        }
                        break;
                    }
                    b'}' if is_object => drop(self.stack.pop()),
                    b']' if !is_object => drop(self.stack.pop()),
                    _ => return None,
                }
            }
        }
    }

    /// Reads a value up to its end, or up to the first value within it.
    fn value(&mut self) -> Option<()> {
        loop {
            self.space();
            let start = self.at;
            let secret = self.is_secret_member();
            match *self.bytes.get(start)? {
                b'"' => {
                    let range = self.string()?;
                    self.text(start, range, secret);
                    return Some(());
                }
                open @ (b'{' | b'[') => {
                    if secret && self.skip()? {
                        self.hide(start..self.at, "member_name", Quoted::No);
                        return Some(());
                    }
                    self.at = start + 1;
                    self.space();
                    let is_object = open == b'{';
                    let close = if is_object { b'}' } else { b']' };
                    if *self.bytes.get(self.at)? == close {
                        self.at += 1;
                        return Some(());
                    }
                    if self.stack.len() == DEEPEST {
                        return None;
                    }
                    self.stack.push(Frame {
                        name: None,
                        index: 0,
                        is_object,
                    });
                    if is_object {
                        self.name()?;
                    }
                }
                byte => {
                    let scalar = |byte: &u8| {
                        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
                    };
                    self.at += self.bytes[start..]
                        .iter()
                        .take_while(|byte| scalar(byte))
                        .count();
                    if secret && (byte.is_ascii_digit() || byte == b'-') {
                        self.hide(start..self.at, "member_name", Quoted::No);
                    }
                    return (self.at > start).then_some(());
                }
            }
        }
    }

    /// Reads a member's name and the colon after it.
    fn name(&mut self) -> Option<()> {
        self.space();
        let start = self.at;
        let content = self.string()?;
        self.stack.last_mut()?.name = Some(start..self.at);
        for place in self.places(&content) {
            self.hide(place.range, place.detector, Quoted::Yes);
        }
        self.space();
        (*self.bytes.get(self.at)? == b':').then_some(())?;
        self.at += 1;
        Some(())
    }

    /// Looks at a string that is a value: hidden whole for its name, or the parts of it that look like secrets.
    fn text(&mut self, _start: usize, content: Range<usize>, secret: bool) {
        if content.is_empty() {
            return;
        }
        if secret {
            return self.hide(content, "member_name", Quoted::Yes);
        }
        for place in self.places(&content) {
            self.hide(place.range, place.detector, Quoted::Yes);
        }
    }

    /// The places in a string's content. Where it has escaped characters the unescaped text is looked at, and all of it is
    /// hidden for one place.
    fn places(&self, content: &Range<usize>) -> Vec<Place> {
        let bytes = &self.bytes[content.clone()];
        if memchr::memmem::find(bytes, b"\\u00").is_some()
            && let Some(place) = self
                .unescaped(content)
                .and_then(|text| shapes::places(text.as_bytes()).into_iter().next())
        {
            return vec![Place {
                range: content.clone(),
                detector: place.detector,
            }];
        }
        let mut places = shapes::places(bytes);
        for place in &mut places {
            place.range = place.range.start + content.start..place.range.end + content.start;
        }
        places
    }

    fn unescaped(&self, content: &Range<usize>) -> Option<Cow<'_, str>> {
        let quoted = self.bytes.get(content.start - 1..content.end + 1)?;
        let text: String = serde_json::from_slice(quoted).ok()?;
        Some(Cow::Owned(text))
    }

    fn is_secret_member(&self) -> bool {
        let name = self.stack.last().and_then(|frame| frame.name.clone());
        name.and_then(|name| self.spelled(&name))
            .is_some_and(|name| table::is_secret_name(&name))
    }

    /// The text of a name, given with its quotes.
    fn spelled(&self, quoted: &Range<usize>) -> Option<Cow<'_, str>> {
        let content = quoted.start + 1..quoted.end - 1;
        let bytes = self.bytes.get(content.clone())?;
        match bytes.contains(&b'\\') {
            true => self.unescaped(&content),
            false => Some(String::from_utf8_lossy(bytes)),
        }
    }

    fn hide(&mut self, range: Range<usize>, detector: &'static str, quoted: Quoted) {
        self.cuts.push(Cut {
            range,
            detector,
            quoted: quoted == Quoted::Yes,
        });
        let secret = SecretAt {
            d: detector.to_owned(),
            p: self.pointer(),
        };
        if self.secrets.contains(&secret) {
            return;
        }
        match self.secrets.len() {
            0..LISTED => self.secrets.push(secret),
            LISTED => self.secrets.push(SecretAt {
                d: "and_more".to_owned(),
                p: String::new(),
            }),
            _ => {}
        }
    }

    /// The JSON pointer of the value read now. Names that are long or hold a secret themselves are `*`.
    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for frame in &self.stack {
            pointer.push('/');
            match frame.name.as_ref().map(|name| self.spelled(name)) {
                None => pointer.push_str(&frame.index.to_string()),
                Some(Some(name))
                    if name.len() <= NAME && shapes::places(name.as_bytes()).is_empty() =>
                {
                    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                }
                Some(_) => pointer.push('*'),
            }
            if pointer.len() > POINTER {
                let end = (0..=POINTER).rev().find(|at| pointer.is_char_boundary(*at));
                pointer.truncate(end.unwrap_or(0));
                pointer.push('…');
                break;
            }
        }
        pointer
    }

    /// Reads a string; answers the range of its content.
    fn string(&mut self) -> Option<Range<usize>> {
        (*self.bytes.get(self.at)? == b'"').then_some(())?;
        let start = self.at + 1;
        let mut at = start;
        loop {
            at += memchr::memchr2(b'"', b'\\', self.bytes.get(at..)?)?;
            if self.bytes[at] == b'"' {
                self.at = at + 1;
                return Some(start..at);
            }
            at += 2;
        }
    }

    /// Passes over an object or a list; whether there is anything in it.
    fn skip(&mut self) -> Option<bool> {
        let (mut depth, start) = (0usize, self.at);
        loop {
            match *self.bytes.get(self.at)? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                    if depth == 0 {
                        let inside = &self.bytes[start + 1..self.at - 1];
                        return Some(inside.iter().any(|byte| !byte.is_ascii_whitespace()));
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    fn space(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().take_while(|byte| space(byte)).count();
    }
}

/// Whether bytes lie within a string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoted {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(payload: &str, view: &str, secrets: &[(&str, &str)]) {
        let found = find(payload.as_bytes());
        let found = found.map(|found| {
            let secrets: Vec<_> = found
                .secrets
                .into_iter()
                .map(|secret| (secret.d, secret.p))
                .collect();
            (String::from_utf8(found.view).unwrap(), secrets)
        });
        let expected = (!secrets.is_empty()).then(|| {
            let secrets: Vec<_> = secrets
                .iter()
                .map(|(d, p)| ((*d).to_owned(), (*p).to_owned()))
                .collect();
            (view.to_owned(), secrets)
        });
        assert_eq!(found, expected, "{payload}");
    }

    #[test]
    fn secrets_are_hidden_where_they_are() {
        check(
            r#"{"user":"m","password":"hunter2","n":[1,{"api_key" : "k"}]}"#,
            r#"{"user":"m","password":"[hidden: member_name]","n":[1,{"api_key" : "[hidden: member_name]"}]}"#,
            &[
                ("member_name", "/password"),
                ("member_name", "/n/1/api_key"),
            ],
        );
        check(
            r#"{"content":[{"type":"text","text":"PASSWORD=hunter22\nok"}]}"#,
            r#"{"content":[{"type":"text","text":"PASSWORD=[hidden: assignment]\nok"}]}"#,
            &[("assignment", "/content/0/text")],
        );
        check(
            r#"{"credentials":{"a":["}"]},"pin":1234,"token":null,"secret":{}}"#,
            r#"{"credentials":"[hidden: member_name]","pin":"[hidden: member_name]","token":null,"secret":{}}"#,
            &[("member_name", "/credentials"), ("member_name", "/pin")],
        );
        check(
            r#"{"pass\u0077ord":"x1","a":"p\u0061ssword=hunter22","a/b~":{"ghp_Abcdefghij0123456789Abcdefghij0123":"v"}}"#,
            r#"{"pass\u0077ord":"[hidden: member_name]","a":"[hidden: assignment]","a/b~":{"[hidden: github_token]":"v"}}"#,
            &[
                ("member_name", "/password"),
                ("assignment", "/a"),
                ("github_token", "/a~1b~0/*"),
            ],
        );
        check(
            r#""Bearer abcdefgh12345""#,
            r#""Bearer [hidden: bearer]""#,
            &[("bearer", "")],
        );
    }

    #[test]
    fn b11_what_is_no_json_or_strange_is_left_as_it_is() {
        for payload in [
            "",
            "password=hunter22",
            r#"{"password":"x""#,
            r#"{"password":"x"} "#,
            r#"{"password":"x"}}"#,
            r#"{"password" "x"}"#,
            r#"{"password":"#,
            r#"["password":"x"]"#,
            r#"{"password":"x\"#,
            "\u{0}password: abcd",
            r#"{"a":"b"}"#,
            r#"{"password":""}"#,
        ] {
            let strange = payload.ends_with(' ');
            assert_eq!(find(payload.as_bytes()).is_some(), strange, "{payload}");
        }
        check(
            r#"{"a":"\ud800","b":1e400,"password":"x1"}"#,
            r#"{"a":"\ud800","b":1e400,"password":"[hidden: member_name]"}"#,
            &[("member_name", "/password")],
        );
        let deep = format!(
            "{}{{\"password\":\"x\"}}{}",
            "[".repeat(200),
            "]".repeat(200)
        );
        assert_eq!(
            find(deep.as_bytes()).unwrap().secrets[0].p.len(),
            POINTER + '…'.len_utf8()
        );
        let deeper = format!(
            "{}{{\"password\":\"x\"}}{}",
            "[".repeat(2000),
            "]".repeat(2000)
        );
        assert_eq!(find(deeper.as_bytes()), None);
    }

    #[test]
    fn the_list_is_bounded_and_everything_is_hidden() {
        let members: Vec<String> = (0..40)
            .map(|n| format!("\"{n}_password\":\"canary{n}\""))
            .collect();
        let found = find(format!("{{{}}}", members.join(",")).as_bytes()).unwrap();
        assert_eq!(
            (found.secrets.len(), found.secrets[LISTED].d.as_str()),
            (LISTED + 1, "and_more")
        );
        assert!(memchr::memmem::find(&found.view, b"canary").is_none());
        assert!(serde_json::from_slice::<serde_json::Value>(&found.view).is_ok());
    }

    /// Prints, asserts nothing: `cargo test --release -p countersign-book --lib -- --ignored --nocapture speed_of`.
    #[test]
    #[ignore = "a measurement"]
    #[allow(clippy::disallowed_methods, reason = "it measures time")]
    fn speed_of_the_scan() {
        let text = "The quick brown fox jumps over https://example.com/lazy/dog?page=12 and passes tokens: none of them secret. ";
        let prose = format!(
            "{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}",
            text.repeat(600)
        );
        let json = format!(
            "[{}]",
            r#"{"id":12,"name":"a file","path":"/home/maria/notes.txt","size":1234},"#.repeat(900)
                + "1"
        );
        let secret = json.replacen("\"name\"", "\"password\"", 1);
        for (what, payload) in [
            ("prose", &prose),
            ("json", &json),
            ("json with one secret", &secret),
        ] {
            let bytes = payload.as_bytes();
            // The quickest of many: the machine may be busy.
            let quickest = |act: &dyn Fn()| {
                let times = (0..300).map(|_| {
                    let start = std::time::Instant::now();
                    act();
                    start.elapsed().as_nanos()
                });
                times.min().unwrap() * 1024 / bytes.len() as u128
            };
            let scan = quickest(&|| {
                std::hint::black_box(find(std::hint::black_box(bytes)));
            });
            let hash = quickest(&|| {
                std::hint::black_box(crate::Hash::of(std::hint::black_box(bytes)));
            });
            println!(
                "{what}: {} KiB, {scan} ns per KiB, SHA-256 {hash}",
                bytes.len() >> 10
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn b60_no_bytes_panic_and_what_is_json_stays_json(
            bytes in proptest::collection::vec(
                proptest::sample::select(vec![
                    "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u00", "password", "token", "=", " ", "eyJ", "a.b", "://", "@",
                    "ghp_", "-----BEGIN", "PRIVATE KEY", "bearer", "0", "é", "\n", "\"x\":", "\"secret\":\"y\"",
                ]),
                0..60,
            ),
        ) {
            let text = bytes.concat();
            if let Some(found) = find(text.as_bytes()) {
                let before = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
                let after = serde_json::from_slice::<serde::de::IgnoredAny>(&found.view).is_ok();
                proptest::prop_assert!(!before || after, "{text}");
            }
        }
    }
}
