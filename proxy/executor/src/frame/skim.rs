//! Finds `id` and `method` of a message that is too long to be kept, while its bytes pass by.
//! A message so skimmed is only ever answered, never forwarded, so being lenient here is harmless.

/// Longest key or value that is remembered.
const TOKEN_BYTES: usize = 300;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Skimmed {
    /// The JSON text of the id: a string or an integer, seen exactly once.
    pub id: Option<String>,
    /// Whether there was a member `method`.
    pub method: bool,
}

/// A scanner fed with a line piece by piece.
#[derive(Debug, Default)]
pub struct Skim {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// At depth 1: the text since the last `{` or `,`, as long as it is short.
    member: Vec<u8>,
    /// Whether `member` was cut, so that it cannot be judged.
    cut: bool,
    ids: Vec<String>,
    method: bool,
}

impl Skim {
    /// Takes the next bytes of the line.
    pub fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    /// What was found in all bytes fed.
    #[must_use]
    pub fn finish(mut self) -> Skimmed {
        self.end_member();
        let id = if self.ids.len() == 1 {
            self.ids.pop()
        } else {
            None
        };
        Skimmed {
            id,
            method: self.method,
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            self.keep(byte);
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth > 1 {
                    self.cut |= self.depth == 2 && self.member.is_empty();
                    self.keep(byte);
                }
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_member();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b',' if self.depth == 1 => self.end_member(),
            b' ' | b'\t' | b'\r' => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth != 1 {
            // The value is an object or an array: the key is still wanted, the value never.
            return;
        }
        if self.member.len() < TOKEN_BYTES {
            self.member.push(byte)
        } else {
            self.cut = true
        }
    }

    fn end_member(&mut self) {
        let member = std::mem::take(&mut self.member);
        let cut = std::mem::take(&mut self.cut);
        if member.starts_with(b"\"method\":") {
            self.method = true;
        }
        let Some(value) = member.strip_prefix(b"\"id\":") else {
            return;
        };
        let text = std::str::from_utf8(value).unwrap_or_default();
        let readable = !cut
            && serde_json::from_str::<serde_json::Value>(text)
                .is_ok_and(|v| v.is_string() || v.is_i64() || v.is_u64());
        self.ids.push(if readable {
            text.to_owned()
        } else {
            String::new()
        });
        self.ids.retain(|id| !id.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, id: Option<&str>, method: bool) {
        for piece in [1, 3, 100] {
            let mut skim = Skim::default();
            line.as_bytes()
                .chunks(piece)
                .for_each(|bytes| skim.feed(bytes));
            assert_eq!(
                skim.finish(),
                Skimmed {
                    id: id.map(str::to_owned),
                    method
                },
                "{line}"
            );
        }
    }

    #[test]
    fn finds_the_envelope_only() {
        check(
            r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"id":8}}"#,
            Some("7"),
            true,
        );
        check(
            r#"{"params":{"id":8,"a":[1,"}"]} , "id" : "a\"b"}"#,
            Some(r#""a\"b""#),
            false,
        );
        check(
            r#"{"result":{"method":"x"},"id":1774232524389}"#,
            Some("1774232524389"),
            false,
        );
        check(r#"{"id":1,"id":2}"#, None, false);
        check(r#"{"id":null}"#, None, false);
        check(r#"{"id":1.5}"#, None, false);
        check(r#"{"id":{"a":1}}"#, None, false);
        check("not json", None, false);
        check(&format!(r#"{{"id":"{}"}}"#, "x".repeat(400)), None, false);
    }
}
