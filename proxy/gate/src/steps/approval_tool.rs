//! `countersign_approval`: how an agent's own held call stands, its result once there is one, and taking it back. Approves nothing.

use serde_json::{Value, json};

use super::call::{Agent, How};
use super::ending::stateless;
use crate::answer::Finished;
use crate::approval::{Approval, ApprovalState};
use crate::facts::APPROVAL;
use crate::ports::{Mark, Ports};
use crate::refusal::{Code, Refusal};

/// `countersign_approval` as a `tools/list` item.
pub(super) const APPROVAL_ITEM: &str = r#"{"name":"countersign_approval","title":"How does my held call stand?","description":"For a call that answered pending_approval: says whether the person has decided, and gives the call's result once it ran. With withdraw: true it takes the request back. It cannot approve.","inputSchema":{"type":"object","properties":{"approval_id":{"type":"string","minLength":1,"maxLength":64},"withdraw":{"type":"boolean"}},"required":["approval_id"],"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#;

/// Answers, or refuses.
pub(super) async fn answer(
    ports: &Ports<'_>,
    agent: &Agent,
    arguments: Option<&[u8]>,
) -> Result<How, Refusal> {
    let (id, withdraw) = read(arguments).ok_or_else(|| {
        wrong(
            "",
            "expected `approval_id`, a text, and optionally `withdraw`, true or false",
        )
    })?;
    let now = ports.clock.now();
    let failed = |error: crate::ports::StoreError| stateless(5, &error);
    let actor = format!("agent/{}", agent.facts.name);
    let found = ports.store.approval(&id, now).await.map_err(failed)?;
    let mut row = found
        .filter(|row| *row.bound.actor == *actor)
        .ok_or_else(|| wrong("/approval_id", "no approval of this agent has that id"))?;
    let open = matches!(row.state, ApprovalState::Waiting | ApprovalState::Approved);
    if withdraw && open {
        ports
            .store
            .mark(&row.id, Mark::Withdrawn, now)
            .await
            .map_err(failed)?;
        // As it stands now: it may have begun to run a moment before.
        row = ports
            .store
            .approval(&id, now)
            .await
            .map_err(failed)?
            .unwrap_or(row);
    }
    if let (ApprovalState::Done, Some(answer), false) = (row.state, &row.answer, withdraw) {
        ports
            .store
            .mark(&row.id, Mark::Delivered, now)
            .await
            .map_err(failed)?;
        let outcome = answer.clone().outcome();
        return Ok(How::Replayed { outcome });
    }
    Ok(How::Own {
        finished: described(&row),
    })
}

fn described(row: &Approval) -> Finished {
    let next = match row.state {
        ApprovalState::Waiting => {
            "The person has not decided. Go on with other work and ask again later."
        }
        ApprovalState::Approved => {
            "The person approved it. Make exactly the same call again to run it."
        }
        ApprovalState::Running => "It is running. Ask again later.",
        ApprovalState::Done => "It ran; its answer is no longer kept. Read the current state.",
        ApprovalState::Failed => {
            "It was sent and how it ended is unknown. Read the current state before anything else."
        }
        ApprovalState::Rejected => {
            "It was declined or taken back. Do not ask for it again without talking to the person."
        }
        ApprovalState::Expired => "It expired. Make the call again to ask once more.",
    };
    let document = json!({
        "approval_id": &*row.id, "state": row.state.text(), "server": &*row.bound.server, "tool": &*row.bound.tool,
        "expires_at": row.expires_at.to_string(), "next_actions": [next],
    });
    Finished {
        text: format!("`{}` is {}. {next}", row.bound.tool, row.state.text()),
        document: document.to_string(),
        status: 200,
    }
}

fn read(arguments: Option<&[u8]>) -> Option<(String, bool)> {
    let value: Value = serde_json::from_slice(arguments?).ok()?;
    let members = value.as_object()?;
    let known = |name: &String| name == "approval_id" || name == "withdraw";
    if !members.keys().all(known) {
        return None;
    }
    let withdraw = match members.get("withdraw") {
        None => false,
        Some(value) => value.as_bool()?,
    };
    Some((members.get("approval_id")?.as_str()?.to_string(), withdraw))
}

fn wrong(pointer: &str, message: &str) -> Refusal {
    let sentence = format!("the arguments of `{APPROVAL}` are not valid: {message}");
    let next = "Use the `approval_id` of a `pending_approval` answer.";
    Refusal::new(Code::ValidationFailed, 5, sentence, next)
        .with("errors", json!([{"pointer": pointer, "message": message}]))
}
