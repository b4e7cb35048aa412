//! The one form of JSON a line of the journal may have (FORMAT.md, section 3.3), told byte by byte: what is accepted here every
//! JSON reader takes for the same value. Refuses to know what a line means.

/// How many objects and lists may stand within each other, the line's own object counted.
const DEPTH: usize = 64;

/// Digits of 2^53 − 1, the largest number.
const MOST: &[u8] = b"9007199254740991";

/// What every escape but `\u` stands as.
const SHORT: &[u8] = b"\"\\bfnrt";

/// Checks that a line is one object in canonical form.
///
/// # Errors
/// Why it is not, in words.
pub(crate) fn check(line: &[u8]) -> Result<(), &'static str> {
    std::str::from_utf8(line).map_err(|_| "it is not UTF-8")?;
    let mut text = Text { line, at: 0 };
    if text.peek() != Some(b'{') {
        return Err("it is no object");
    }
    text.value(1)?;
    match text.peek() {
        None => Ok(()),
        Some(_) => Err("something follows the object"),
    }
}

struct Text<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Text<'a> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn value(&mut self, depth: usize) -> Result<(), &'static str> {
        match self.peek() {
            Some(b'{' | b'[') if depth > DEPTH => {
                Err("more than 64 objects and lists are within each other")
            }
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), &'static str> {
        self.at += 1;
        if self.take(b'}') {
            return Ok(());
        }
        let mut before: Option<&[u8]> = None;
        loop {
            let name = self.string()?;
            if !name
                .iter()
                .all(|byte| matches!(byte, b' '..=b'~' if *byte != b'\\'))
            {
                return Err("a member's name is not plain ASCII");
            }
            if before.is_some_and(|before| before >= name) {
                return Err("its members are not in order, or one stands twice");
            }
            before = Some(name);
            if !self.take(b':') {
                return Err("a member has no value");
            }
            self.value(depth + 1)?;
            if self.take(b'}') {
                return Ok(());
            }
            if !self.take(b',') {
                return Err("an object does not end");
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<(), &'static str> {
        self.at += 1;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            if self.take(b']') {
                return Ok(());
            }
            if !self.take(b',') {
                return Err("a list does not end");
            }
        }
    }

    /// A string; what stands between its quotes.
    fn string(&mut self) -> Result<&'a [u8], &'static str> {
        if !self.take(b'"') {
            return Err("a member's name is no text");
        }
        let start = self.at;
        loop {
            match self.peek() {
                None => return Err("a text does not end"),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(&self.line[start..self.at - 1]);
                }
                Some(b'\\') => self.escape()?,
                Some(0..0x20) => return Err("a control character stands in a text"),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), &'static str> {
        const WRONG: &str = "a character is escaped that is not, or in another way";
        let rest = &self.line[self.at + 1..];
        if rest.first().is_some_and(|byte| SHORT.contains(byte)) {
            self.at += 2;
            return Ok(());
        }
        match rest.first_chunk() {
            // Control characters without a short escape.
            Some([b'u', b'0', b'0', b'0', b'0'..=b'7' | b'b' | b'e' | b'f'])
            | Some([b'u', b'0', b'0', b'1', b'0'..=b'9' | b'a'..=b'f']) => {
                self.at += 6;
                Ok(())
            }
            _ => Err(WRONG),
        }
    }

    fn number(&mut self) -> Result<(), &'static str> {
        const WRONG: &str = "a number is no plain integer within 2^53 - 1";
        let negative = self.take(b'-');
        let digits = self.line[self.at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit());
        let digits = &self.line[self.at..self.at + digits.count()];
        self.at += digits.len();
        let plain = match digits {
            [b'0'] => !negative,
            [b'1'..=b'9', ..] => (digits.len(), digits) <= (MOST.len(), MOST),
            _ => false,
        };
        let goes_on = matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        if plain && !goes_on {
            Ok(())
        } else {
            Err(WRONG)
        }
    }

    fn word(&mut self) -> Result<(), &'static str> {
        for word in ["true", "false"] {
            if self.line[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(());
            }
        }
        Err("it is not JSON, or has a `null`")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn b9_there_is_one_form_only() {
        for good in [
            "{}",
            r#"{"":0}"#,
            r#"{"a":[],"b":{},"c":true,"d":false,"e":-1,"f":9007199254740991}"#,
            r#"{"A":1,"a":"\u0000\u001f\b\t\n\f\r\"\\/","b":[{"a":1},{"a":1}]}"#,
            "{\"a\":\"\u{7f}\u{2028}\u{1f600}\"}",
        ] {
            assert_eq!(check(good.as_bytes()), Ok(()), "{good}");
        }
        for bad in [
            "",
            "[]",
            "1",
            "{} ",
            " {}",
            "{}\r",
            "{}{}",
            "{",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":1,"a":1}"#,
            r#"{"b":1,"a":1}"#,
            r#"{"a":{"b":1,"b":1}}"#,
            r#"{"a": 1}"#,
            r#"{"a":1 }"#,
            r#"{"a":1.0}"#,
            r#"{"a":1e0}"#,
            r#"{"a":01}"#,
            r#"{"a":-0}"#,
            r#"{"a":-}"#,
            r#"{"a":+1}"#,
            r#"{"a":9007199254740992}"#,
            r#"{"a":-9007199254740992}"#,
            r#"{"a":10000000000000000}"#,
            r#"{"a":null}"#,
            r#"{"a":NaN}"#,
            r#"{"a":Infinity}"#,
            r#"{"a":True}"#,
            r#"{"a":tru}"#,
            r#"{"a":"\u000a"}"#,
            r#"{"a":"\u001F"}"#,
            r#"{"a":"\u0061"}"#,
            r#"{"a":"\/"}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":"\ud83d\ude00"}"#,
            r#"{"a":"\"#,
            "{\"a\":\"\n\"}",
            "{\"a\":\"\0\"}",
            r#"{"a":"b}"#,
            r#"{"\u0000":1}"#,
            "{\"\u{e4}\":1}",
            r#"{"\"":1}"#,
            r#"{1:1}"#,
            r#"{"a":[1,]}"#,
            r#"{"a":[1 ,2]}"#,
            r#"{"a":[1}"#,
            "\u{feff}{}",
        ] {
            assert!(check(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(check(b"{\"a\":\"\xff\"}").is_err());
        let deep = |depth: usize| {
            format!(
                r#"{{"a":{}{}}}"#,
                "[".repeat(depth - 1),
                "]".repeat(depth - 1)
            )
        };
        assert_eq!(check(deep(DEPTH).as_bytes()), Ok(()));
        for depth in [DEPTH + 1, 30_000] {
            assert!(check(deep(depth).as_bytes()).is_err(), "{depth}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (-(1i64 << 53) + 1..1i64 << 53).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        let value = leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ !#-\\[\\]-~]{0,4}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        });
        prop::collection::btree_map("[a-z._A-Z]{0,4}", value, 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn b8_what_the_writer_spells_is_the_one_form(value in value()) {
            let line = serde_jcs::to_vec(&value).unwrap();
            prop_assert_eq!(check(&line), Ok(()), "{}", String::from_utf8_lossy(&line));
        }

        /// What is accepted is what the canonicaliser makes of it.
        #[test]
        fn b8_no_other_spelling_is_accepted(
            value in value(),
            at in any::<prop::sample::Index>(),
            cut in 0usize..3,
            put in prop::sample::select(vec!["", " ", "0", "1", "-", ".", "\"", "\\", "\\u0061", ",", "\"a\":1,", "null", "e1", "{", "]", "\u{e4}"]),
        ) {
            let line = serde_jcs::to_vec(&value).unwrap();
            let at = at.index(line.len());
            let edited = [&line[..at], put.as_bytes(), &line[(at + cut).min(line.len())..]].concat();
            if check(&edited).is_ok() {
                let again: Value = serde_json::from_slice(&edited).unwrap();
                prop_assert_eq!(serde_jcs::to_vec(&again).unwrap(), edited);
            }
        }
    }
}
