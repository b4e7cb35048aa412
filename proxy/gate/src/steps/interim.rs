//! Stands for steps 7 to 11 until they are built, and fails closed: a preview of the arguments, or a refusal of every write that one of
//! those steps would have to hold. Nothing is ignored.

use countersign_permission::{Approval, Danger, Kind, Mode};
use data_encoding::HEXLOWER;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::call::{Allowed, Call, Control, Ended, How, Subject, Validated, Wanted};
use crate::answer::Finished;
use crate::catalog::Tool;
use crate::facts::{AgentFacts, Facts};
use crate::json::{Change, canonical, edit};
use crate::ports::{Ended as CallEnd, Ports};
use crate::refusal::{Code, Refusal};

pub(super) async fn step(
    _: &Facts,
    _: &Ports<'_>,
    call: Call<Validated>,
) -> Result<Call<Allowed>, Ended> {
    let Call {
        base,
        stage:
            Validated {
                subject,
                control,
                decisions,
            },
    } = call;
    let (Wanted::Tool(tool), Kind::Write) = (&subject.target, subject.kind) else {
        return Ok(Call {
            base,
            stage: Allowed { subject, decisions },
        });
    };
    let agent = subject.who.agent().map(|agent| &*agent.facts);
    if let Some(refusal) = held(tool, agent, &control) {
        return Err(base.refused(refusal, subject, decisions));
    }
    if control.dry_run {
        let finished = preview(tool, &subject);
        let how = How::Finished {
            finished,
            subject: Box::new(subject),
            decisions,
            ended: CallEnd::Preview,
        };
        return Err(Ended { base, how });
    }
    Ok(Call {
        base,
        stage: Allowed { subject, decisions },
    })
}

/// Why this version cannot let the call on, in the order of the steps it stands for.
fn held(tool: &Tool, agent: Option<&AgentFacts>, control: &Control) -> Option<Refusal> {
    let name = &*tool.name;
    let ask = "Ask the person to make this change themselves, or to change the setting.";
    let cannot = |rule: &str, why: &str| {
        let sentence = format!(
            "`{name}` was not run: {why}, and this version cannot hold a call for that yet"
        );
        Some(
            Refusal::new(Code::PermissionDenied, 11, sentence, ask)
                .with("rule", rule.into())
                .with("tool", name.into()),
        )
    };
    if agent.is_some_and(|agent| agent.has_write_policy) {
        return cannot(
            "write_policy",
            "this agent's writes are bounded by a write policy",
        );
    }
    match agent.map_or(Mode::Auto, |agent| agent.mode) {
        Mode::Auto => {}
        Mode::Ask => return cannot("mode", "every write of this agent waits for the person"),
        Mode::ReadOnly => return cannot("mode", "this agent only reads"),
    }
    if control.idempotency_key {
        let sentence =
            format!("`{name}` was not run: this version does not keep answers to replay");
        let next =
            "Make the call without `idempotency_key`, and look at its outcome before repeating it.";
        let errors = json!([{"pointer": format!("/{}", tool.control.idempotency_key.unwrap_or_default()), "message": "not supported yet"}]);
        return Some(
            Refusal::new(Code::ValidationFailed, 11, sentence, next).with("errors", errors),
        );
    }
    if tool.settings.preview {
        return cannot("preview", "its preview asks the server");
    }
    if control.dry_run {
        return None;
    }
    if control.confirm_token {
        let sentence = format!("`{name}` was not run: no confirmation has that code");
        let next = "Make the call with `dry_run: true` to see what it would do.";
        return Some(
            Refusal::new(Code::ConfirmTokenInvalid, 11, sentence, next)
                .with("reason", "invalid".into()),
        );
    }
    if agent.is_some_and(|agent| agent.requires_approval) {
        return cannot(
            "requires_approval",
            "every write of this agent needs an approval",
        );
    }
    if tool.settings.danger != Danger::Never {
        return cannot("danger", "it is dangerous and needs a confirmation");
    }
    if tool.settings.approval != Approval::None {
        return cannot("approval", "it needs the person's approval");
    }
    if tool.settings.require_copy {
        return cannot("require_copy", "it needs a fresh copy of the book");
    }
    None
}

/// The arguments alone, labelled as the weaker kind.
fn preview(tool: &Tool, subject: &Subject) -> Finished {
    let arguments = subject.sent.as_deref().unwrap_or(b"{}");
    let fingerprint = HEXLOWER.encode(&Sha256::digest(canonical(arguments)));
    let document = json!({
        "status": "preview", "preview": "arguments_only", "server": &*tool.server, "tool": &*tool.name, "fingerprint": fingerprint,
        "note": "Nothing was run. This shows only the arguments as they would be sent, not what they would change.",
    });
    let document = edit(
        document.to_string().as_bytes(),
        &[Change::Set("arguments", arguments)],
    );
    Finished {
        text: format!(
            "Preview of `{}`: nothing was run. Only the arguments are shown, not what they would change. Make the same call without `dry_run` to run it.",
            tool.name
        ),
        document: String::from_utf8_lossy(&document).into_owned(),
        status: 202,
    }
}
