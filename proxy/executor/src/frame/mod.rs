//! One JSON-RPC message as strict text in and one fresh line out. Judges the envelope (RFC 8259, JSON-RPC 2.0, MCP ids);
//! bodies stay raw text. Knows no method.

pub mod emit;
pub mod lines;
pub mod skim;

use std::borrow::Cow;

use countersign_gate::json::{Fault, Kind, Lone, check, check_with, decode, elements, members};

/// The names of the envelope. Another name that folds to one of these is ambiguous: some servers fold case (Go), others do not.
const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The members of `params` that this proxy or a server decides by.
const PARAMS: [&str; 17] = [
    "name",
    "arguments",
    "uri",
    "task",
    "_meta",
    "cursor",
    "protocolVersion",
    "capabilities",
    "clientInfo",
    "requestId",
    "progressToken",
    "taskId",
    "ref",
    "argument",
    "level",
    "requestState",
    "inputResponses",
];

/// An id as received. Two ids are the same when kind and decoded text are: `1` is not `"1"`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    /// An integer, by its text.
    Integer(String),
    /// A string, decoded.
    Text(String),
}

impl Id {
    /// Reads an id: a string, or an integer in its one usual spelling. `None` for null, fractions, exponents, `-0`, and everything else.
    #[must_use]
    pub fn parse(raw: &[u8]) -> Option<Self> {
        if raw.first() == Some(&b'"') {
            return decode(raw).map(|text| Self::Text(text.into_owned()));
        }
        let digits = raw.strip_prefix(b"-").unwrap_or(raw);
        let integer = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && raw != b"-0";
        integer.then(|| Self::Integer(String::from_utf8_lossy(raw).into_owned()))
    }

    /// The integer's text or the decoded string, as recorded.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Integer(text) | Self::Text(text) => text,
        }
    }
}

/// One judged message. All slices are checked JSON texts inside the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it is.
    pub message: Message<'a>,
    /// Members of the envelope that are none of JSON-RPC's, kept in order.
    pub extra: Vec<(Cow<'a, str>, &'a [u8])>,
}

/// What a message is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// Wants an answer.
    Request {
        /// Its id.
        id: Id,
        /// The id as received.
        raw_id: &'a [u8],
        /// The method, decoded.
        method: Cow<'a, str>,
        /// An object, when there is one.
        params: Option<&'a [u8]>,
    },
    /// Wants none.
    Notification {
        /// The method, decoded.
        method: Cow<'a, str>,
        /// An object, when there is one.
        params: Option<&'a [u8]>,
    },
    /// Answers a request.
    Result {
        /// The request's id.
        id: Id,
        /// An object.
        result: &'a [u8],
    },
    /// Answers a request, or (without an id) something nobody could read.
    Error {
        /// The request's id; `None` for null.
        id: Option<Id>,
        /// An object with an integer `code` and a string `message`.
        error: &'a [u8],
    },
}

/// Why a line is no message. Nothing of it is ever forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The reason, for the peer and the log.
    pub reason: String,
    /// The raw id to answer with or whose request this ends, where it can be read without doubt.
    pub id: Option<Vec<u8>>,
    /// What the line was meant to be.
    pub meant: Meant,
}

/// What a rejected line was meant to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meant {
    /// Not JSON at all: JSON-RPC's parse error.
    Unparsable,
    /// It has a method: a request, or a notification when it has no `id` member.
    Request,
    /// A notification: nothing to answer.
    Notification,
    /// It has no method: an answer.
    Answer,
}

/// A line, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged<'a> {
    /// One message.
    One(Frame<'a>),
    /// A batch: its elements, each to be judged by [`judge_element`]. Only JSON was checked.
    Batch(Vec<&'a [u8]>),
}

/// Judges one line of at most `depth` levels.
///
/// # Errors
/// [`Rejected`]: anything that two readers could read differently.
pub fn judge(line: &[u8], depth: usize) -> Result<Judged<'_>, Rejected> {
    judge_with(line, depth, Lone::Refused)
}

/// As [`judge`], for what a server says: half a surrogate pair in its text passes, since nothing is decided by that text
/// and servers written in JavaScript make it by cutting inside an emoji.
///
/// # Errors
/// As [`judge`].
pub fn judge_from_server(line: &[u8], depth: usize) -> Result<Judged<'_>, Rejected> {
    judge_with(line, depth, Lone::Passes)
}

fn judge_with(line: &[u8], depth: usize, lone: Lone) -> Result<Judged<'_>, Rejected> {
    if let Some(at) = memchr::memchr2(b'\r', b'\n', line) {
        // Legal white space, but readers that end lines at CR would see more than one message (M4).
        return Err(unparsable(
            line,
            depth,
            format!("a line break inside the message at byte {at}"),
        ));
    }
    match check_with(line, depth, lone) {
        Ok(Kind::Object) => judge_element(line).map(Judged::One),
        Ok(Kind::Array) => Ok(Judged::Batch(elements(line).collect())),
        Ok(_) => Err(unparsable(
            line,
            depth,
            "a message is a JSON object".to_owned(),
        )),
        Err(fault) => Err(faulty(line, fault)),
    }
}

/// Judges one element of a checked line.
///
/// # Errors
/// [`Rejected`], as [`judge`].
pub fn judge_element(object: &[u8]) -> Result<Frame<'_>, Rejected> {
    if object.first() != Some(&b'{') && !object.trim_ascii_start().starts_with(b"{") {
        return Err(Rejected {
            reason: "a message is a JSON object".to_owned(),
            id: None,
            meant: Meant::Unparsable,
        });
    }
    let mut parts = Parts::default();
    for member in members(object) {
        let slot = match &*member.name {
            "jsonrpc" => &mut parts.jsonrpc,
            "id" => &mut parts.id,
            "method" => &mut parts.method,
            "params" => &mut parts.params,
            "result" => &mut parts.result,
            "error" => &mut parts.error,
            other => {
                if ENVELOPE.iter().any(|name| folds_to(other, name)) {
                    parts.ambiguous = Some(other.to_owned());
                }
                parts.extra.push((member.name, member.value));
                continue;
            }
        };
        *slot = Some(member.value);
    }
    parts.message()
}

#[derive(Default)]
struct Parts<'a> {
    jsonrpc: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
    method: Option<&'a [u8]>,
    params: Option<&'a [u8]>,
    result: Option<&'a [u8]>,
    error: Option<&'a [u8]>,
    extra: Vec<(Cow<'a, str>, &'a [u8])>,
    ambiguous: Option<String>,
}

impl<'a> Parts<'a> {
    fn message(self) -> Result<Frame<'a>, Rejected> {
        let id = self.id.map(Id::parse);
        if let Some(reason) = self.wrong(id.as_ref()) {
            let doubtful = self
                .ambiguous
                .as_deref()
                .is_some_and(|name| folds_to(name, "id"));
            let id = if matches!(id, Some(Some(_))) && !doubtful {
                self.id.map(<[u8]>::to_vec)
            } else {
                None
            };
            return Err(Rejected {
                reason,
                id,
                meant: self.meant(),
            });
        }
        let method = self.method.and_then(decode);
        let message = match (method, id, self.id, self.result, self.error) {
            (Some(method), Some(Some(id)), Some(raw_id), _, _) => Message::Request {
                id,
                raw_id,
                method,
                params: self.params,
            },
            (Some(method), _, _, _, _) => Message::Notification {
                method,
                params: self.params,
            },
            (None, Some(Some(id)), _, Some(result), _) => Message::Result { id, result },
            (None, id, _, _, Some(error)) => Message::Error {
                id: id.flatten(),
                error,
            },
            _ => {
                let reason = "a message has a `method`, a `result` or an `error`".to_owned();
                return Err(Rejected {
                    reason,
                    id: None,
                    meant: Meant::Unparsable,
                });
            }
        };
        Ok(Frame {
            message,
            extra: self.extra,
        })
    }

    fn meant(&self) -> Meant {
        match (self.method, self.id, self.result.or(self.error)) {
            (Some(_), None, _) => Meant::Notification,
            (Some(_), Some(_), None) => Meant::Request,
            (None, Some(_), _) | (_, _, Some(_)) => Meant::Answer,
            (None, None, None) => Meant::Unparsable,
        }
    }

    fn wrong(&self, id: Option<&Option<Id>>) -> Option<String> {
        let object = |raw: &[u8]| raw.first() == Some(&b'{');
        let answers = usize::from(self.result.is_some()) + usize::from(self.error.is_some());
        let reason = if let Some(name) = &self.ambiguous {
            format!(
                "the member `{}` is the envelope's in another case",
                crate::upstream::diagnostics::printable(name.as_bytes())
            )
        } else if self.jsonrpc.and_then(decode).as_deref() != Some("2.0") {
            "`jsonrpc` is not \"2.0\"".to_owned()
        } else if self.method.is_some_and(|method| decode(method).is_none()) {
            "`method` is not a string".to_owned()
        } else if usize::from(self.method.is_some()) + answers != 1 {
            "a message has exactly one of `method`, `result` and `error`".to_owned()
        } else if self.method.is_none() && self.params.is_some() {
            "an answer has no `params`".to_owned()
        } else if self.params.is_some_and(|params| !object(params)) {
            "`params` is not an object".to_owned()
        } else if let Some(name) = self.params.and_then(ambiguous_param) {
            format!(
                "the member `{}` of `params` is one that decides, in another case",
                crate::upstream::diagnostics::printable(name.as_bytes())
            )
        } else if self.result.is_some_and(|result| !object(result)) {
            "`result` is not an object".to_owned()
        } else if self.error.is_some_and(|error| !is_error(error)) {
            "`error` is not an object with a `code` and a `message`".to_owned()
        } else if id == Some(&None) && !(self.error.is_some() && self.id == Some(b"null")) {
            "`id` is not a string or an integer".to_owned()
        } else if self.result.is_some() && id.is_none() {
            "an answer has an `id`".to_owned()
        } else {
            return None;
        };
        Some(reason)
    }
}

/// The first member of `params` that some servers (Go's) would read as one of [`PARAMS`] and others would not.
fn ambiguous_param(params: &[u8]) -> Option<Cow<'_, str>> {
    members(params).map(|member| member.name).find(|name| {
        PARAMS
            .iter()
            .any(|exact| name != exact && folds_to(name, exact))
    })
}

fn is_error(error: &[u8]) -> bool {
    use countersign_gate::json::member;
    error.first() == Some(&b'{')
        && member(error, "code").is_some_and(|code| matches!(Id::parse(code), Some(Id::Integer(_))))
        && member(error, "message").is_some_and(|message| message.first() == Some(&b'"'))
}

/// Whether `other` is not `name` and would be for a reader that ignores case, Unicode's simple folding included
/// (`ſ` for `s`, the Kelvin sign for `k`).
fn folds_to(other: &str, name: &str) -> bool {
    other.chars().count() == name.chars().count()
        && other.chars().zip(name.chars()).all(|(a, b)| {
            a == b || a.to_lowercase().eq(b.to_lowercase()) || a.to_uppercase().eq(b.to_uppercase())
        })
}

/// A text that is no strict JSON: only an id that the lenient skimmer sees exactly once can be answered.
fn faulty(line: &[u8], fault: Fault) -> Rejected {
    use countersign_gate::json::FaultKind;
    let mut skim = skim::Skim::default();
    skim.feed(line);
    let found = skim.finish();
    let looks_whole = line.trim_ascii().starts_with(b"{")
        && !matches!(
            fault.kind,
            FaultKind::Empty
                | FaultKind::Bom
                | FaultKind::Cut
                | FaultKind::Utf8
                | FaultKind::Trailing
        );
    let meant = match (&found.id, found.method) {
        _ if !looks_whole => Meant::Unparsable,
        (Some(_), true) => Meant::Request,
        (Some(_), false) => Meant::Answer,
        (None, _) => Meant::Unparsable,
    };
    let id = found.id.filter(|_| looks_whole).map(String::into_bytes);
    Rejected {
        reason: fault.to_string(),
        id,
        meant,
    }
}

fn unparsable(line: &[u8], depth: usize, reason: String) -> Rejected {
    match check(line, depth) {
        Ok(Kind::Object) => {
            let meant = if countersign_gate::json::member(line, "method").is_some() {
                Meant::Request
            } else {
                Meant::Answer
            };
            let id = countersign_gate::json::member(line, "id")
                .filter(|raw| Id::parse(raw).is_some())
                .map(<[u8]>::to_vec);
            let meant = if id.is_none() && meant == Meant::Request {
                Meant::Notification
            } else {
                meant
            };
            Rejected { reason, id, meant }
        }
        _ => Rejected {
            reason,
            id: None,
            meant: Meant::Unparsable,
        },
    }
}

#[cfg(test)]
mod tests;
