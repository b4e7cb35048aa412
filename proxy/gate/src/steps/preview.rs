//! What a write would change, for step 11: by the server's own dry-run argument, by reads of the current values, or by the arguments
//! alone. Its calls pass the steps of the flow as the agent and are entries; one that fails or answers malformed ends the preview.

use std::sync::Arc;

use bytes::Bytes;
use countersign_permission::Kind;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::call::{
    Authenticated, Base, Call, Ended, How, Judged, Subject, Takes, Wanted, Who, Willing,
};
use super::ending::{broken, settle};
use super::{note, recipe, record, run};
use crate::bound::object;
use crate::catalog::Tool;
use crate::diff::diff;
use crate::facts::{Facts, Preview, PreviewRead};
use crate::json::{Change, at_pointer, canonical, check, decode, edit, member};
use crate::ports::{Ports, Purpose, Ran};
use crate::refusal::{Code, Refusal};
use crate::request::{Arguments, Request, Target};

/// The longest answer that is shown in a preview, in bytes; the fingerprint is over all of it.
const SHOWN: usize = 64 * 1024;

/// The longest texts that are compared, in bytes together.
const COMPARED: usize = 1024 * 1024;

/// What a call would change.
#[derive(Debug)]
pub(super) struct Previewed {
    /// Lower-hex SHA-256 over the current values; of the arguments where nothing was read.
    pub fingerprint: String,
    /// For the agent: without values it may not read, and then without the fingerprint.
    pub agent: Vec<u8>,
    /// For the person.
    pub person: Vec<u8>,
}

/// One current value.
struct Current<'a> {
    tool: String,
    /// What the recipe says of it; a dry run has none.
    read: Option<&'a PreviewRead>,
    body: Bytes,
    is_error: bool,
    reader: Reader,
}

/// Who may see a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Agent,
    PersonOnly,
}

/// The preview of a write that passed the steps before.
pub(super) async fn preview(
    facts: &Facts,
    ports: &Ports<'_>,
    base: &Base,
    subject: &Subject,
    tool: &Tool,
) -> Result<Previewed, Refusal> {
    let arguments = object(subject.forwarded().map(|sent| &**sent));
    match &tool.settings.preview {
        None => Ok(document(tool, arguments, "arguments_only", &[], None)),
        Some(Preview::Argument { pointer, value }) => {
            let value = value.to_string();
            let name = pointer.strip_prefix('/').unwrap_or(pointer);
            let name = name.replace("~1", "/").replace("~0", "~");
            let dry = edit(arguments, &[Change::Set(&name, value.as_bytes())]);
            let call = sub_call(ports, base, &subject.who, tool, (&tool.name, dry.into()))?;
            let call = super::judge(facts, ports, call).await;
            let current = go(facts, ports, tool, call, Kind::Write).await?;
            if current.is_error {
                return Err(failed(tool, "the server refused its dry run"));
            }
            Ok(document(tool, arguments, "dry_run", &[current], None))
        }
        Some(Preview::Reads { reads, new }) => {
            let mut values = Vec::with_capacity(reads.len());
            for read in reads.iter().filter(|read| recipe::applies(read, arguments)) {
                let mut value = current(facts, ports, (base, subject), tool, read).await?;
                value.read = Some(read);
                values.push(value);
            }
            if values.is_empty() {
                return Ok(document(tool, arguments, "arguments_only", &[], None));
            }
            let new = new.as_deref().and_then(|new| at_pointer(arguments, new));
            let new = new.map(|new| decode(new).map_or_else(|| text_of(new), Into::into));
            Ok(document(tool, arguments, "reads", &values, new.as_deref()))
        }
    }
}

/// One read, as the agent; where only the agent's scopes keep it from reading that, for the person's eyes.
async fn current(
    facts: &Facts,
    ports: &Ports<'_>,
    (base, subject): (&Base, &Subject),
    tool: &Tool,
    read: &PreviewRead,
) -> Result<Current<'static>, Refusal> {
    let arguments = object(subject.forwarded().map(|sent| &**sent));
    let filled: Bytes = recipe::filled(&read.arguments, arguments).into();
    let what = |filled: &Bytes| (read.tool.as_str(), filled.clone());
    let call = sub_call(ports, base, &subject.who, tool, what(&filled))?;
    match super::judge(facts, ports, call).await {
        Err(Ended {
            how: How::Counted { refusal, .. },
            ..
        }) if refusal.code == Code::Forbidden => {
            let lent = lent(ports, &subject.who, tool, &read.tool)
                .ok_or_else(|| failed(tool, "the agent may not read the current values"))?;
            let call = sub_call(ports, base, &lent, tool, what(&filled))?;
            let call = super::judge(facts, ports, call).await;
            let current = go(facts, ports, tool, call, Kind::Read).await?;
            Ok(Current {
                reader: Reader::PersonOnly,
                ..current
            })
        }
        judged => go(facts, ports, tool, judged, Kind::Read).await,
    }
}

/// The agent with the one scope more that the person's recipe reads with. What the permission does not grant stays closed.
fn lent(ports: &Ports<'_>, who: &Who, tool: &Tool, read: &str) -> Option<Who> {
    let Who::Agent(agent) = who else { return None };
    let read = ports.registry.resolve(Some(&tool.server), read)?;
    let mut agent = agent.clone();
    agent.scopes.insert(read.scope.to_string());
    Some(Who::Agent(agent))
}

fn sub_call(
    ports: &Ports<'_>,
    base: &Base,
    who: &Who,
    tool: &Tool,
    (name, arguments): (&str, Bytes),
) -> Result<Call<Authenticated>, Refusal> {
    let now = ports.clock.now();
    let mut random = [0; 10];
    ports
        .random
        .fill(&mut random)
        .map_err(|error| broken(11, error.to_string()))?;
    let request = Request {
        request_id: Arc::clone(&base.request.request_id),
        call_id: crate::id::ulid(now, random).into(),
        audience: base.request.audience,
        credential: None,
        url: None,
        network: base.request.network,
        via: base.request.via,
        server: Some(Arc::clone(&tool.server)),
        target: Target::Tool(name.to_string()),
        arguments: Arguments::Raw(arguments),
        idempotency_header: None,
        client: base.request.client.clone(),
    };
    let base = Base {
        request,
        arrived: now,
        rate: None,
        purpose: Purpose::Preview,
    };
    let who = who.clone();
    Ok(Call {
        base,
        stage: Authenticated { who },
    })
}

/// The steps after the judging ones for a call of a preview: noted, run, recorded. Anything but an answer of the server ends it.
async fn go(
    facts: &Facts,
    ports: &Ports<'_>,
    tool: &Tool,
    judged: Result<Call<Willing>, Ended>,
    kind: Kind,
) -> Result<Current<'static>, Refusal> {
    let call = match judged {
        Ok(call) => call,
        Err(ended) => return Err(ended_early(ports, tool, ended).await),
    };
    let Call {
        base,
        stage:
            Willing {
                judged: Judged {
                    subject, decisions, ..
                },
                ..
            },
    } = call;
    let name = subject.target.name().to_string();
    if subject.kind != kind || !matches!(subject.target, Wanted::Tool(_)) {
        return Err(failed(
            tool,
            &format!("`{name}` is no tool that only reads"),
        ));
    }
    let allowed = Call {
        base,
        stage: super::call::Allowed {
            subject,
            decisions,
            takes: Takes::default(),
        },
    };
    let recorded = async {
        let call = note::step(facts, ports, allowed).await?;
        let call = run::step(facts, ports, call).await?;
        record::step(facts, ports, call).await
    };
    let call = match recorded.await {
        Ok(call) => call,
        Err(ended) => return Err(ended_early(ports, tool, ended).await),
    };
    match call.stage.ran {
        Ran::Result { body, is_error } if is_answer(&body) => Ok(Current {
            tool: name,
            read: None,
            body,
            is_error,
            reader: Reader::Agent,
        }),
        Ran::Result { .. } => Err(failed(tool, "the server answered malformed")),
        Ran::ProtocolError { .. } => Err(failed(tool, "the server answered with an error")),
        Ran::Failed { detail, .. } => {
            Err(failed(tool, "the server gave no answer").because(detail))
        }
    }
}

/// A call of the preview that was refused: what it owes is written, and the preview fails by it.
async fn ended_early(ports: &Ports<'_>, tool: &Tool, ended: Ended) -> Refusal {
    let code = match &ended.how {
        How::Counted { refusal, .. } | How::Refused { refusal, .. } | How::Plain { refusal } => {
            refusal.code.text()
        }
        How::Finished { .. } | How::Own { .. } | How::Replayed { .. } => "not run",
    };
    let why = format!("a read of it was refused: {code}");
    settle(ports, ended).await;
    failed(tool, &why).with("cause", code.into())
}

fn failed(tool: &Tool, why: &str) -> Refusal {
    let sentence = format!(
        "`{}` was not run: what it would change cannot be shown, {why}",
        tool.name
    );
    let next =
        "Look at the current state with the tools that read, correct the call, or ask the person.";
    Refusal::new(Code::PreviewFailed, 11, sentence, next).with("tool", (*tool.name).into())
}

/// A tool's result: strict JSON, an object with a list of content.
fn is_answer(body: &[u8]) -> bool {
    check(body, crate::json::MAX_DEPTH).is_ok()
        && member(body, "content").is_some_and(|content| content.first() == Some(&b'['))
}

fn document(
    tool: &Tool,
    arguments: &[u8],
    kind: &str,
    values: &[Current<'_>],
    new: Option<&str>,
) -> Previewed {
    let digest: [u8; 32] = if values.is_empty() {
        Sha256::digest(canonical(arguments)).into()
    } else {
        let mut digest = Sha256::new();
        for value in values {
            let ignore = value.read.map_or(&[][..], |read| &read.ignore);
            digest.update(recipe::value(&value.body, ignore));
            digest.update(b"\n");
        }
        digest.finalize().into()
    };
    let fingerprint = HEXLOWER.encode(&digest);
    let difference = new.zip(values.first()).map(|(new, first)| {
        let at = first.read.and_then(|read| read.text.as_deref());
        let old = match first.is_error {
            true => Some(String::new()),
            false => recipe::text(&first.body, at),
        };
        let compared = match old {
            None => Err("the current text was not found"),
            Some(old) if old.len() + new.len() > COMPARED => Err("too long to be compared"),
            Some(old) => Ok(diff(&old, new)),
        };
        (first.reader, compared)
    });
    let show = |reader: Reader| {
        let sees = |of: Reader| of == Reader::Agent || reader == Reader::PersonOnly;
        let note = match kind {
            "arguments_only" => {
                "Nothing was run. This shows only the arguments as they would be sent, not what they would change."
            }
            "dry_run" => "Nothing was changed. This is the server's own dry run.",
            _ => "Nothing was changed. These are the current values.",
        };
        let mut head = json!({
            "kind": kind, "server": &*tool.server, "tool": &*tool.name, "note": note,
        });
        if values.iter().all(|value| sees(value.reader)) {
            head["fingerprint"] = fingerprint.as_str().into();
        }
        if let Some((_, difference)) = difference.as_ref().filter(|(of, _)| sees(*of)) {
            head["diff"] = match difference {
                Ok(difference) => Value::from(difference.as_str()),
                Err(why) => json!({"left_out": why}),
            };
        }
        let shown: Vec<Vec<u8>> = values
            .iter()
            .map(|value| {
                let head = json!({"tool": value.tool});
                if !sees(value.reader) {
                    return json!({"tool": value.tool, "left_out": "for the person only"})
                        .to_string()
                        .into_bytes();
                }
                if value.body.len() > SHOWN {
                    return json!({"tool": value.tool, "left_out": "too long to be shown"})
                        .to_string()
                        .into_bytes();
                }
                edit(
                    head.to_string().as_bytes(),
                    &[Change::Set("result", &value.body)],
                )
            })
            .collect();
        let current = [&b"["[..], &shown.join(&b","[..]), b"]"].concat();
        let mut changes = vec![Change::Set("arguments", arguments)];
        if !values.is_empty() {
            changes.push(Change::Set("current", &current));
        }
        edit(head.to_string().as_bytes(), &changes)
    };
    Previewed {
        agent: show(Reader::Agent),
        person: show(Reader::PersonOnly),
        fingerprint,
    }
}

fn text_of(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).into_owned()
}
