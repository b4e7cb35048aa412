//! Runs an approved call nobody waits for any more: the process that asked for the approval looks how it stands and, once the person
//! said yes, sends the same call through the whole flow again. Whether it may run is the flow's to say, not decided here.

use std::sync::Arc;
use std::time::Duration;

use countersign_gate::approval::ApprovalState;
use countersign_gate::ports::Store;
use countersign_gate::request::QUEUE;
use countersign_gate::{Answer, Arguments, Outcome, Request, Target, serve};
use jiff::Timestamp;
use serde_json::Value;

use crate::ids;

use super::pulse::Pulsing;
use super::{Keeper, ports};
use crate::relay::gatekeeper::OwnUpstream;

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(1);

/// The approval a call waits for, if that is what it was answered.
pub(super) fn awaited(answer: &Answer) -> Option<String> {
    let Outcome::Finished(finished) = &answer.outcome else {
        return None;
    };
    let document: Value = serde_json::from_str(&finished.document).ok()?;
    (document["status"] == "pending_approval" && !answer.replayed)
        .then(|| document["approval_id"].as_str().map(str::to_owned))?
}

/// Waits for the person's decision about one approval, and runs it if it is a yes. Ends with the approval.
pub(super) async fn watch(keeper: Arc<Keeper>, upstream: OwnUpstream, id: String) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Ok(opened) = keeper.opened().await else {
            return;
        };
        let found = match opened.store().approval(&id, Timestamp::now()).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "an approval cannot be looked at");
                continue;
            }
        };
        match found {
            Some(row) if row.state == ApprovalState::Waiting => {}
            Some(row) if row.state == ApprovalState::Approved => {
                let arguments = match opened.store().held_arguments(&id) {
                    Ok(Some(arguments)) => arguments,
                    Ok(None) => return,
                    Err(error) => {
                        tracing::warn!(%error, "an approved call cannot be opened; its agent can repeat it");
                        return;
                    }
                };
                let judged = keeper.judged(&opened);
                let Ok(request_id) = ids::ulid(Timestamp::now()) else {
                    continue;
                };
                let target = Target::Tool(row.bound.tool.to_string());
                let Ok(request) = keeper.request(&opened, request_id.into(), target) else {
                    continue;
                };
                let request = Request {
                    via: QUEUE,
                    arguments: Arguments::Raw(arguments.into()),
                    ..request
                };
                let pulsing = Pulsing::new(upstream, &opened.shared_store());
                let ports = ports(&opened, &judged, &pulsing);
                let answer = serve::call(&judged.facts, ports, request).await;
                // Not sent (the server was down, a read of the preview failed): it stays approved, and its agent can repeat it.
                if let Outcome::Refused(refusal) = &answer.outcome {
                    tracing::warn!(code = refusal.code.text(), "an approved call was refused");
                }
                return;
            }
            Some(_) | None => return,
        }
    }
}
