//! The rules of idempotency keys: what a call's twin means for it, which answers are kept and how they are written down. Pure; the
//! rows are the store's, the time is handed in.

use bytes::Bytes;
use countersign_permission::Hash;
use jiff::{SignedDuration, Timestamp};

use crate::answer::Outcome;
use crate::ports::Ran;

/// How long an answer is kept. Its key stays used after that, for the book's life.
pub const KEPT: SignedDuration = SignedDuration::from_hours(24);

/// A key that was claimed once.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRow {
    /// The hash of the arguments it was claimed with.
    pub arguments: Hash,
    /// The call that claimed it.
    pub call_id: String,
    /// How that call stands.
    pub state: KeyState,
}

/// How the call that claimed a key stands.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyState {
    /// It was claimed and has not been settled.
    Running {
        /// Whether the process that claimed it lives.
        owner: Owner,
    },
    /// It ended with an answer.
    Done {
        /// When.
        at: Timestamp,
        /// The answer; gone once its time is over, or where it cannot be read any more.
        answer: Option<Stored>,
    },
    /// It was or may have been forwarded, and nobody knows how it ended.
    Unknown,
}

/// The process that claimed a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It lives.
    Alive,
    /// It is gone without having settled the claim.
    Gone,
}

/// What a call finds under its key.
#[derive(Clone, Debug, PartialEq)]
pub enum Twin {
    /// Nothing: it is the first.
    None,
    /// A finished twin's answer.
    Finished(Stored),
    /// A twin that is running.
    Running,
    /// A call with other arguments.
    OtherArguments,
    /// A finished twin whose answer is no longer kept.
    Expired,
    /// A twin nobody knows the end of.
    Unknown {
        /// Its call.
        call_id: String,
    },
}

/// A server's answer that is kept for a twin: a result, or its own error. Nothing else ever is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The raw `result` member.
    Result {
        /// Raw JSON.
        body: Bytes,
        /// Whether it is a tool error.
        is_error: bool,
    },
    /// The raw `error` member.
    ProtocolError {
        /// Raw JSON.
        body: Bytes,
    },
}

/// What the row of a key means for a call with these arguments.
#[must_use]
pub fn twin(row: Option<&KeyRow>, arguments: &Hash, now: Timestamp) -> Twin {
    let Some(row) = row else { return Twin::None };
    if row.arguments != *arguments {
        return Twin::OtherArguments;
    }
    match &row.state {
        KeyState::Running {
            owner: Owner::Alive,
        } => Twin::Running,
        KeyState::Running { owner: Owner::Gone } | KeyState::Unknown => Twin::Unknown {
            call_id: row.call_id.clone(),
        },
        KeyState::Done { at, answer } => match answer {
            Some(stored) if now.duration_since(*at) < KEPT => Twin::Finished(stored.clone()),
            _ => Twin::Expired,
        },
    }
}

impl Stored {
    /// What is kept of a run; nothing where there was no answer of the server.
    #[must_use]
    pub fn of(ran: &Ran) -> Option<Self> {
        match ran {
            Ran::Result { body, is_error } => Some(Self::Result {
                body: body.clone(),
                is_error: *is_error,
            }),
            Ran::ProtocolError { body } => Some(Self::ProtocolError { body: body.clone() }),
            Ran::Failed { .. } => None,
        }
    }

    /// The answer again.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Result { body, is_error } => Outcome::Result { body, is_error },
            Self::ProtocolError { body } => Outcome::ProtocolError { body },
        }
    }

    /// One byte for the kind (`r` a result, `e` a tool error, `p` a protocol error), then the raw JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (kind, body) = match self {
            Self::Result {
                body,
                is_error: false,
            } => (b'r', body),
            Self::Result {
                body,
                is_error: true,
            } => (b'e', body),
            Self::ProtocolError { body } => (b'p', body),
        };
        let mut out = Vec::with_capacity(body.len() + 1);
        out.push(kind);
        out.extend_from_slice(body);
        out
    }

    /// The reverse of [`Stored::encode`].
    #[must_use]
    pub fn decode(text: &[u8]) -> Option<Self> {
        let (kind, body) = text.split_first()?;
        let body = Bytes::copy_from_slice(body);
        match kind {
            b'r' => Some(Self::Result {
                body,
                is_error: false,
            }),
            b'e' => Some(Self::Result {
                body,
                is_error: true,
            }),
            b'p' => Some(Self::ProtocolError { body }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r45_r46_what_a_row_means() {
        let (at, hash) = (Timestamp::UNIX_EPOCH, Hash::of(b"a"));
        let body = Bytes::from_static(b"{}");
        let answer = Stored::Result {
            body,
            is_error: false,
        };
        let row = |state| KeyRow {
            arguments: hash,
            call_id: "c".into(),
            state,
        };
        let done = |answer| row(KeyState::Done { at, answer });
        let running = |owner| row(KeyState::Running { owner });
        let unknown = Twin::Unknown {
            call_id: "c".into(),
        };
        let kept = at + KEPT;
        let just = kept - SignedDuration::from_nanos(1);
        let cases = [
            (running(Owner::Alive), at, Twin::Running),
            (running(Owner::Gone), at, unknown.clone()),
            (row(KeyState::Unknown), kept, unknown),
            (
                done(Some(answer.clone())),
                just,
                Twin::Finished(answer.clone()),
            ),
            (done(Some(answer)), kept, Twin::Expired),
            (done(None), at, Twin::Expired),
        ];
        for (row, now, want) in cases {
            assert_eq!(twin(Some(&row), &hash, now), want, "{row:?}");
            assert_eq!(twin(Some(&row), &Hash::of(b"b"), now), Twin::OtherArguments);
        }
        assert_eq!(twin(None, &hash, at), Twin::None);
    }

    #[test]
    fn stored_answers_come_back_as_they_were() {
        let body = Bytes::from_static(b"{ \"x\":1.0 }");
        for stored in [
            Stored::Result {
                body: body.clone(),
                is_error: false,
            },
            Stored::Result {
                body: body.clone(),
                is_error: true,
            },
            Stored::ProtocolError { body },
        ] {
            assert_eq!(Stored::decode(&stored.encode()), Some(stored));
        }
        assert_eq!(Stored::decode(b""), None);
        assert_eq!(Stored::decode(b"x{}"), None);
    }
}
