//! Answers as MCP lines (flow.md, step 15). Decides nothing; every error made here carries the marker that tells it from a server's.

use bytes::Bytes;
use countersign_gate::answer::REPLAYED_KEY;
use countersign_gate::json::{Change, edit, member};
use countersign_gate::rate::{META_KEY, RateState};
use countersign_gate::refusal::{MARKER, TASK_REFUSED};
use countersign_gate::{Answer, Code, Outcome, Refusal};
use serde_json::{Map, Value, json};

use crate::frame::emit;

/// JSON-RPC 2.0 and MCP codes that a relay may use itself.
pub const PARSE_ERROR: i64 = -32_700;
/// The message is no valid request.
pub const INVALID_REQUEST: i64 = -32_600;
/// The method is not open here.
pub const METHOD_NOT_FOUND: i64 = -32_601;
/// The tool does not exist, for this client.
pub const INVALID_PARAMS: i64 = -32_602;

/// What an answer needs to know of its request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The raw id.
    pub raw_id: Vec<u8>,
    /// What was asked, as far as its answer's shape depends on it.
    pub kind: Kind,
    /// Its era.
    pub era: Era,
}

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `tools/call`.
    Tool,
    /// `tools/call` of a tool with an `outputSchema`: clients check `structuredContent` against it, in refusals too.
    StructuredTool,
    /// `tools/call` that wants a task: its client expects no tool result.
    TaskTool,
    /// Anything else.
    Method,
}

/// The era of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// With a handshake (2024-11-05 to 2025-11-25).
    Legacy,
    /// Without (2026-07-28).
    Modern,
}

/// The gate's answer as a line; `None` where nothing is to be sent.
#[must_use]
pub fn answer(asked: &Asked, answer: &Answer) -> Option<Vec<u8>> {
    let rate = answer.rate.as_ref();
    let meta = meta(rate, answer.replayed);
    match &answer.outcome {
        Outcome::Result { body, .. } => {
            Some(emit::result(&asked.raw_id, &with_meta(body, &meta), &[]))
        }
        Outcome::ProtocolError { body } => Some(emit::error(&asked.raw_id, body, &[])),
        Outcome::Finished(finished) => {
            // Nothing ran, so there is no output: without `isError` a client would miss it.
            let more = match asked.kind {
                Kind::StructuredTool => vec![("isError", json!(true))],
                _ => Vec::new(),
            };
            let fields = tool_result(asked, &finished.text, &finished.document, more, meta);
            Some(emit::result(&asked.raw_id, fields.as_bytes(), &[]))
        }
        Outcome::Refused(refusal) => Some(refused(asked, refusal, &answer.request_id, rate)),
        Outcome::Cancelled => None,
    }
}

/// A refusal as a line.
#[must_use]
pub fn refused(
    asked: &Asked,
    refusal: &Refusal,
    request_id: &str,
    rate: Option<&RateState>,
) -> Vec<u8> {
    let code = match (asked.kind, refusal.code) {
        (
            Kind::Tool | Kind::StructuredTool | Kind::TaskTool,
            Code::NotFound | Code::ModuleDisabled,
        ) => INVALID_PARAMS,
        (Kind::TaskTool, _) => TASK_REFUSED,
        // The status below the reserved range, so that it is still readable: -31403, -31502.
        (Kind::Method, code) => TASK_REFUSED - i64::from(code.status()),
        (Kind::Tool | Kind::StructuredTool, _) => {
            let shown = refusal.shown(request_id);
            let marker = match asked.kind {
                Kind::StructuredTool => refusal.document(request_id),
                _ => Value::from(refusal.code.text()),
            };
            let more = vec![("isError", json!(true)), (MARKER, marker)];
            let meta = meta(rate, false);
            let body = tool_result(asked, &shown.text, &shown.document, more, meta);
            return emit::result(&asked.raw_id, body.as_bytes(), &[]);
        }
    };
    let mut data = json!({ MARKER: refusal.document(request_id) });
    if let (Some(rate), Some(data)) = (rate, data.as_object_mut()) {
        data.insert(META_KEY.to_owned(), rate.meta());
    }
    error_line(&asked.raw_id, code, &refusal.sentence, &data)
}

/// An error of ours about the message itself.
#[must_use]
pub fn fault(raw_id: Option<&[u8]>, code: i64, what: &str, sentence: &str) -> Vec<u8> {
    error_line(
        raw_id.unwrap_or(b"null"),
        code,
        sentence,
        &json!({ MARKER: { "code": what, "detail": sentence } }),
    )
}

/// A raw `error` member of ours.
#[must_use]
pub fn error_body(code: i64, what: &str, sentence: &str) -> Bytes {
    let data = json!({ MARKER: { "code": what, "detail": sentence } });
    json!({ "code": code, "message": sentence, "data": data })
        .to_string()
        .into()
}

/// What every answer of ours carries in `_meta`: the rate values, and that it was given before.
fn meta(rate: Option<&RateState>, replayed: bool) -> Map<String, Value> {
    let mut meta = Map::new();
    if let Some(rate) = rate {
        meta.insert(META_KEY.to_owned(), rate.meta());
    }
    if replayed {
        meta.insert(REPLAYED_KEY.to_owned(), true.into());
    }
    meta
}

/// A result with ours in its `_meta`, everything else as it was.
fn with_meta<'a>(body: &'a Bytes, ours: &Map<String, Value>) -> std::borrow::Cow<'a, [u8]> {
    if ours.is_empty() {
        return std::borrow::Cow::Borrowed(body);
    }
    let values: Vec<(&String, String)> = ours
        .iter()
        .map(|(name, value)| (name, value.to_string()))
        .collect();
    let changes: Vec<Change<'_>> = values
        .iter()
        .map(|(name, value)| Change::Set(name, value.as_bytes()))
        .collect();
    let meta = member(body, "_meta")
        .filter(|meta| meta.first() == Some(&b'{'))
        .unwrap_or(b"{}");
    edit(body, &[Change::Set("_meta", &edit(meta, &changes))]).into()
}

/// The same for a page.
#[must_use]
pub fn page(raw_id: &[u8], page: &Bytes, rate: Option<&RateState>) -> Vec<u8> {
    emit::result(raw_id, &with_meta(page, &meta(rate, false)), &[])
}

fn tool_result(
    asked: &Asked,
    text: &str,
    document: &str,
    more: Vec<(&str, Value)>,
    mut meta: Map<String, Value>,
) -> String {
    let mut out = format!(
        "{{\"content\":[{{\"type\":\"text\",\"text\":{}}}]",
        emit::quote(text)
    );
    if asked.kind != Kind::StructuredTool {
        out.push_str(&format!(",\"structuredContent\":{document}"));
    }
    for (name, value) in more {
        if name == MARKER {
            meta.insert(name.to_owned(), value);
        } else {
            out.push_str(&format!(",{}:{value}", emit::quote(name)));
        }
    }
    if !meta.is_empty() {
        out.push_str(&format!(",\"_meta\":{}", Value::Object(meta)));
    }
    if asked.era == Era::Modern {
        out.push_str(",\"resultType\":\"complete\"");
    }
    out.push('}');
    out
}

fn error_line(raw_id: &[u8], code: i64, sentence: &str, data: &Value) -> Vec<u8> {
    let body = json!({ "code": code, "message": sentence, "data": data }).to_string();
    emit::error(raw_id, body.as_bytes(), &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: Kind, era: Era, outcome: Outcome) -> Option<Value> {
        let asked = Asked {
            raw_id: b"\"a\"".to_vec(),
            kind,
            era,
        };
        let answer = Answer {
            request_id: "a".into(),
            outcome,
            rate: None,
            replayed: false,
        };
        super::answer(&asked, &answer).map(|line| {
            assert_eq!(line.last(), Some(&b'\n'));
            serde_json::from_slice(&line).unwrap()
        })
    }

    fn refusal(code: Code) -> Outcome {
        Outcome::Refused(Box::new(Refusal::new(
            code,
            6,
            "the tool `x` is closed",
            "ask the person",
        )))
    }

    #[test]
    fn m29_a_refused_call_is_a_tool_result_with_the_problem_as_text_and_document() {
        let line = line(Kind::Tool, Era::Legacy, refusal(Code::Forbidden)).unwrap();
        assert_eq!(line["id"], "a");
        let result = &line["result"];
        assert_eq!(result["isError"], true);
        assert_eq!(result["structuredContent"]["code"], "forbidden");
        assert_eq!(result["_meta"][MARKER], "forbidden");
        assert!(
            result["content"][0]["text"]
                .as_str()
                .unwrap()
                .contains("the tool `x` is closed")
        );
        assert_eq!(result.get("resultType"), None);
        let modern = super::tests::line(Kind::Tool, Era::Modern, refusal(Code::Forbidden)).unwrap();
        assert_eq!(modern["result"]["resultType"], "complete");
    }

    #[test]
    fn m29_no_structured_content_of_ours_where_the_tool_declares_its_output() {
        let line = line(Kind::StructuredTool, Era::Legacy, refusal(Code::Forbidden)).unwrap();
        let result = &line["result"];
        assert_eq!(result["isError"], true);
        assert_eq!(result.get("structuredContent"), None);
        assert_eq!(result["_meta"][MARKER]["code"], "forbidden");
    }

    #[test]
    fn m28_m30_m52_errors_of_ours_are_marked_and_outside_the_reserved_range() {
        for (kind, code, expected) in [
            (Kind::Tool, Code::NotFound, -32_602),
            (Kind::TaskTool, Code::ModuleDisabled, -32_602),
            (Kind::TaskTool, Code::Forbidden, -31_000),
            (Kind::Method, Code::Forbidden, -31_403),
            (Kind::Method, Code::UpstreamFailed, -31_502),
        ] {
            let line = line(kind, Era::Legacy, refusal(code)).unwrap();
            assert_eq!(line["error"]["code"], expected);
            assert_eq!(line["error"]["data"][MARKER]["code"], code.text());
        }
    }

    #[test]
    fn m9_m52_what_the_server_said_is_passed_on_as_it_is() {
        let body = Bytes::from_static(
            br#"{"content":[{"type":"hologram","n":1e2}],"isError":true,"x":null}"#,
        );
        let asked = Asked {
            raw_id: b"7".to_vec(),
            kind: Kind::Tool,
            era: Era::Legacy,
        };
        let answer = |outcome| {
            super::answer(
                &asked,
                &Answer {
                    request_id: "7".into(),
                    outcome,
                    rate: None,
                    replayed: false,
                },
            )
        };
        let line = answer(Outcome::Result {
            body: body.clone(),
            is_error: true,
        })
        .unwrap();
        assert_eq!(
            line,
            [
                b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":",
                &body[..],
                b"}\n"
            ]
            .concat()
        );
        let error = Bytes::from_static(br#"{"code":-32042,"message":"m","data":null}"#);
        let line = answer(Outcome::ProtocolError {
            body: error.clone(),
        })
        .unwrap();
        assert_eq!(
            line,
            [
                b"{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":",
                &error[..],
                b"}\n"
            ]
            .concat()
        );
        assert_eq!(answer(Outcome::Cancelled), None);
    }
}
