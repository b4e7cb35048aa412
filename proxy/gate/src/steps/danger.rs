//! Step 11: whether a write needs a second step: a preview of the arguments, or a refusal of what this version cannot hold.

use countersign_permission::{Approval, Danger, Mode};
use data_encoding::HEXLOWER;
use serde_json::json;

use super::call::{Allowed, Call, Control, Ended, Fresh, How, Judged, Subject, Takes, Wanted};
use super::ending::cannot_hold;
use crate::answer::Finished;
use crate::bound::{Bound, object};
use crate::catalog::Tool;
use crate::facts::{AgentFacts, Facts};
use crate::json::{Change, edit};
use crate::ports::{Ended as CallEnd, Ports};
use crate::refusal::{Code, Refusal};

pub(super) async fn step(
    _: &Facts,
    _: &Ports<'_>,
    call: Call<Fresh>,
) -> Result<Call<Allowed>, Ended> {
    let Call {
        base,
        stage:
            Fresh {
                judged:
                    Judged {
                        subject,
                        control,
                        decisions,
                    },
                mode,
                bound,
            },
    } = call;
    let mut takes = Takes::default();
    if let (Wanted::Tool(tool), Some(bound)) = (&subject.target, bound) {
        let agent = subject.who.agent().map(|agent| &*agent.facts);
        if let Some(refusal) = held(tool, agent, mode, &control) {
            return Err(base.refused(refusal, subject, decisions));
        }
        if control.dry_run {
            let finished = preview(tool, &subject, &bound);
            let how = How::Finished {
                finished,
                subject: Box::new(subject),
                decisions,
                ended: CallEnd::Preview,
            };
            return Err(Ended { base, how });
        }
        takes.key = control.idempotency_key.map(|key| (bound, key));
    }
    Ok(Call {
        base,
        stage: Allowed {
            subject,
            decisions,
            takes,
        },
    })
}

/// Why this version cannot let the call on.
fn held(tool: &Tool, agent: Option<&AgentFacts>, mode: Mode, control: &Control) -> Option<Refusal> {
    let name = &*tool.name;
    let cannot = |rule: &str, why: &str| Some(cannot_hold(11, name, rule, why));
    if mode == Mode::Ask {
        return cannot("mode", "every write of this agent waits for the person");
    }
    if tool.settings.preview {
        return cannot("preview", "its preview asks the server");
    }
    if control.dry_run {
        return None;
    }
    if control.confirm_token.is_some() {
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
fn preview(tool: &Tool, subject: &Subject, bound: &Bound) -> Finished {
    let arguments = object(subject.sent.as_deref());
    let fingerprint = HEXLOWER.encode(bound.arguments.as_bytes());
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
