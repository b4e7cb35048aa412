//! Writes one message as one fresh line: the envelope from its judged parts, bodies as received. Knows no method.

use std::borrow::Cow;

use countersign_gate::json::one_line;

use super::{Frame, Message};

/// A member of the envelope that is none of JSON-RPC's.
pub type Extra<'a> = (Cow<'a, str>, &'a [u8]);

/// A request with a raw id.
#[must_use]
pub fn request(raw_id: &[u8], method: &str, params: Option<&[u8]>, extra: &[Extra<'_>]) -> Vec<u8> {
    let mut line = open(params, extra);
    member(&mut line, "id", raw_id);
    text_member(&mut line, "method", method);
    if let Some(params) = params {
        member(&mut line, "params", params);
    }
    close(line, extra)
}

/// A notification.
#[must_use]
pub fn notification(method: &str, params: Option<&[u8]>, extra: &[Extra<'_>]) -> Vec<u8> {
    let mut line = open(params, extra);
    text_member(&mut line, "method", method);
    if let Some(params) = params {
        member(&mut line, "params", params);
    }
    close(line, extra)
}

/// An answer with a raw id: its result.
#[must_use]
pub fn result(raw_id: &[u8], result: &[u8], extra: &[Extra<'_>]) -> Vec<u8> {
    let mut line = open(Some(result), extra);
    member(&mut line, "id", raw_id);
    member(&mut line, "result", result);
    close(line, extra)
}

/// An answer with a raw id (`null` where none could be read): its error.
#[must_use]
pub fn error(raw_id: &[u8], error: &[u8], extra: &[Extra<'_>]) -> Vec<u8> {
    let mut line = open(Some(error), extra);
    member(&mut line, "id", raw_id);
    member(&mut line, "error", error);
    close(line, extra)
}

/// A judged message as it was, rebuilt.
#[must_use]
pub fn again(frame: &Frame<'_>) -> Vec<u8> {
    match &frame.message {
        Message::Request {
            raw_id,
            method,
            params,
            ..
        } => request(raw_id, method, *params, &frame.extra),
        Message::Notification { method, params } => notification(method, *params, &frame.extra),
        Message::Result { id, result: body } => result(raw(id).as_bytes(), body, &frame.extra),
        Message::Error { id, error: body } => error(
            id.as_ref()
                .map_or_else(|| "null".to_owned(), raw)
                .as_bytes(),
            body,
            &frame.extra,
        ),
    }
}

/// A JSON string literal.
#[must_use]
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// An id as JSON text.
#[must_use]
pub fn raw(id: &super::Id) -> String {
    match id {
        super::Id::Integer(text) => text.clone(),
        super::Id::Text(text) => quote(text),
    }
}

fn open(body: Option<&[u8]>, extra: &[Extra<'_>]) -> Vec<u8> {
    let extra: usize = extra
        .iter()
        .map(|(name, value)| name.len() + value.len() + 8)
        .sum();
    let mut line = Vec::with_capacity(body.map_or(0, <[u8]>::len) + extra + 128);
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    line
}

fn member(line: &mut Vec<u8>, name: &str, value: &[u8]) {
    line.extend_from_slice(b",\"");
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b"\":");
    line.extend_from_slice(&one_line(value));
}

fn text_member(line: &mut Vec<u8>, name: &str, text: &str) {
    // Method names are plain in practice; only others need the general encoder.
    if text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/_-.$".contains(&byte))
    {
        line.extend_from_slice(b",\"");
        line.extend_from_slice(name.as_bytes());
        line.extend_from_slice(b"\":\"");
        line.extend_from_slice(text.as_bytes());
        line.push(b'"');
    } else {
        member(line, name, quote(text).as_bytes());
    }
}

fn close(mut line: Vec<u8>, extra: &[Extra<'_>]) -> Vec<u8> {
    for (name, value) in extra {
        line.push(b',');
        line.extend_from_slice(quote(name).as_bytes());
        line.push(b':');
        line.extend_from_slice(&one_line(value));
    }
    line.extend_from_slice(b"}\n");
    line
}
