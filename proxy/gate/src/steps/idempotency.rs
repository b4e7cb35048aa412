//! Step 10: a write with a key is looked up among its twins: a finished one's answer is given again, a running or unknown one ends
//! this call, other arguments under the key do too. The key itself is claimed in step 12, with everything else the call takes.

use std::sync::Arc;

use countersign_permission::Kind;

use super::call::{Call, Ended, Fresh, How, Judged, Subject, Wanted, Willing};
use super::ending::stateless;
use crate::bound::{Bound, arguments_hash};
use crate::facts::Facts;
use crate::idempotency::Twin;
use crate::ports::{KeyClaim, Ports};
use crate::refusal::{Code, Refusal};

pub(super) async fn step(
    _: &Facts,
    ports: &Ports<'_>,
    call: Call<Willing>,
) -> Result<Call<Fresh>, Ended> {
    let Call {
        base,
        stage: Willing { judged, mode },
    } = call;
    let bound = bound(&judged.subject).map(Arc::new);
    // A dry run neither claims nor consults its key (R49).
    if let (Some(bound), Some(key), false) = (
        &bound,
        &judged.control.idempotency_key,
        judged.control.dry_run,
    ) {
        let claim = KeyClaim { bound, key };
        match ports.store.twin(claim, base.arrived).await {
            Ok(twin) => match end(10, judged.subject.target.name(), twin) {
                None => {}
                Some(How::Plain { refusal }) => {
                    let Judged {
                        subject, decisions, ..
                    } = judged;
                    return Err(base.refused(refusal, subject, decisions));
                }
                Some(how) => return Err(Ended { base, how }),
            },
            Err(error) => {
                let refusal = stateless(10, &error);
                return Err(base.refused(refusal, judged.subject, judged.decisions));
            }
        }
    }
    Ok(Call {
        base,
        stage: Fresh {
            judged,
            mode,
            bound,
        },
    })
}

/// What a write's key, code and approval are bound to.
fn bound(subject: &Subject) -> Option<Bound> {
    let (Wanted::Tool(tool), Kind::Write) = (&subject.target, subject.kind) else {
        return None;
    };
    Some(Bound {
        actor: subject.actor(),
        server: Arc::clone(&tool.server),
        tool: Arc::clone(&tool.name),
        arguments: arguments_hash(subject.sent.as_deref()),
    })
}

/// How a call ends by its twin, if it does: with the twin's answer, or plainly refused (an entry is the caller's to add).
pub(super) fn end(step: u8, tool: &str, twin: Twin) -> Option<How> {
    let refusal = |code, sentence: String, next: &str| {
        let refusal = Refusal::new(code, step, sentence, next).with("tool", tool.into());
        Some(How::Plain { refusal })
    };
    match twin {
        Twin::None => None,
        Twin::Finished(stored) => Some(How::Replayed {
            outcome: stored.outcome(),
        }),
        Twin::Running => refusal(
            Code::IdempotencyInProgress,
            format!("`{tool}` with this idempotency key is still running"),
            "Wait, then make the same call with the same key: it gives the answer once there is one.",
        ),
        Twin::OtherArguments => refusal(
            Code::IdempotencyKeyReused,
            format!("this idempotency key was used for a call of `{tool}` with other arguments"),
            "Use a new key for a new call, or repeat the first call exactly.",
        ),
        Twin::Expired => refusal(
            Code::IdempotencyExpired,
            format!(
                "`{tool}` ran under this idempotency key before, and its answer is no longer kept"
            ),
            "Do not repeat the change blindly: read the current state, and use a new key if it must be made again.",
        ),
        Twin::Unknown { call_id } => {
            let sentence = format!(
                "`{tool}` was sent under this idempotency key, and how it ended is unknown"
            );
            let next = "Read the current state to see whether it took effect; only if it did not, make the call again with a new key.";
            let mut refusal = Refusal::new(Code::OutcomeUnknown, step, sentence, next)
                .with("tool", tool.into())
                .with("call_id", call_id.into());
            refusal.next_actions.push(
                "If the state does not tell, ask the person: the call's entries are in the record."
                    .to_string(),
            );
            Some(How::Plain { refusal })
        }
    }
}
