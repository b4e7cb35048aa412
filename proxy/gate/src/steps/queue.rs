//! The approval queue, for step 11: a write is held for the person, a while in the agent's request, then in the store. The same call
//! finds its approval again, runs once it is given, and gets the answer of a run it did not wait for. Never approves anything.

use std::sync::Arc;

use countersign_permission::{Approval as Needed, Hash, Mode};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::call::{How, Subject};
use super::danger::{Gate, Next};
use super::ending::broken;
use crate::answer::Finished;
use crate::approval::{Approval, ApprovalState, LIFE, Needs};
use crate::bound::object;
use crate::ports::{Hold, Mark, StoreError};
use crate::refusal::{Code, Refusal};
use crate::request::QUEUE;

/// Why a write is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Mode `ask`.
    Ask,
    /// The agent's key requires it.
    RequiresApproval,
    /// The tool's dangerous calls require it.
    Tool,
}

impl Why {
    /// The gate and rule of the decision.
    pub fn rule(self) -> (&'static str, &'static str) {
        match self {
            Self::Ask => ("mode", "ask"),
            Self::RequiresApproval => ("danger", "requires_approval"),
            Self::Tool => ("danger", "approval"),
        }
    }
}

/// The approval a held call is about.
struct Asked {
    id: Arc<str>,
    expires_at: Timestamp,
    state: ApprovalState,
    replayed: bool,
}

impl Gate<'_> {
    /// Whether the person must approve it, and why.
    pub(super) fn queued(&self, subject: &Subject, mode: Mode, dangerous: bool) -> Option<Why> {
        let agent = subject.who.agent();
        if mode == Mode::Ask {
            return Some(Why::Ask);
        }
        if agent.is_some_and(|agent| agent.facts.requires_approval) {
            return Some(Why::RequiresApproval);
        }
        (dangerous && self.tool.settings.approval != Needed::None).then_some(Why::Tool)
    }

    /// Holds the call until the person decided, or the agent has waited long enough.
    pub(super) async fn hold_for_person(
        &self,
        subject: &mut Subject,
    ) -> Result<Next, Box<Refusal>> {
        if subject.who.agent().is_none() {
            return Err(Box::new(self.denied(
                "approval",
                "a public caller's call cannot be held for the person",
                "Ask the person who runs this executor.",
            )));
        }
        // Nobody waits for the answer of a run from the queue.
        let hold = match self.base.request.via {
            QUEUE => SignedDuration::ZERO,
            _ => self.facts.executor.hold,
        };
        let until = self.base.arrived + hold;
        let (mut asked, mut reason): (Option<Asked>, _) = (None, None);
        loop {
            let now = self.ports.clock.now();
            let found = self.ports.store.approval_for(self.bound, now).await;
            match (found.map_err(|error| failed(&error))?, &asked) {
                (Some(row), _) => {
                    subject.links.approval = Some(Arc::clone(&row.id));
                    if let Some(next) = self.decided(subject, &row).await? {
                        return Ok(next);
                    }
                    if row.state == ApprovalState::Approved {
                        // What it would change is not what was approved: it is asked about anew.
                        (asked, reason) = (None, Some("changed"));
                        continue;
                    }
                    let replayed = asked.is_none_or(|asked| asked.replayed);
                    asked = Some(Asked {
                        replayed,
                        ..Asked::of(&row)
                    });
                }
                (None, None) => {
                    let row = self.ask(subject).await?;
                    subject.links.approval = Some(Arc::clone(&row.id));
                    asked = Some(row);
                }
                (None, Some(_)) => {
                    return Err(Box::new(self.denied(
                        "approval_expired",
                        "the person did not decide in time",
                        "Make the call again to ask once more.",
                    )));
                }
            }
            if let Some(asked) = asked.as_ref().filter(|_| now >= until) {
                let finished = self.pending(asked, reason);
                return Ok(Next::Pending(finished, asked.replayed));
            }
            self.ports.clock.pause(until).await;
        }
    }

    /// What a decided approval means for the call; nothing while it waits or runs, nor where it no longer fits.
    async fn decided(
        &self,
        subject: &Subject,
        row: &Approval,
    ) -> Result<Option<Next>, Box<Refusal>> {
        match row.state {
            ApprovalState::Waiting | ApprovalState::Running => Ok(None),
            ApprovalState::Approved => {
                let previewed = self.preview(subject).await?;
                let same = previewed.fingerprint == row.fingerprint
                    && self.tool.definition == row.definition;
                if same {
                    return Ok(Some(Next::Approved(Arc::clone(&row.id))));
                }
                self.mark(&row.id, Mark::Changed).await?;
                Ok(None)
            }
            ApprovalState::Done => {
                self.mark(&row.id, Mark::Delivered).await?;
                match row.answer.clone() {
                    Some(answer) => Ok(Some(Next::Ended(How::Replayed {
                        outcome: answer.outcome(),
                    }))),
                    None => Err(Box::new(self.lost(row, "its answer is no longer kept"))),
                }
            }
            ApprovalState::Failed => {
                self.mark(&row.id, Mark::Delivered).await?;
                let why = "it was approved and sent, and how it ended is unknown";
                Err(Box::new(self.lost(row, why)))
            }
            ApprovalState::Rejected => Err(Box::new(self.denied(
                "approval_declined",
                "it was declined",
                "Do not ask for it again: do something else, or talk to the person.",
            ))),
            ApprovalState::Expired => Err(Box::new(self.denied(
                "approval_expired",
                "the person did not decide in time",
                "Make the call again to ask once more.",
            ))),
        }
    }

    async fn ask(&self, subject: &Subject) -> Result<Asked, Box<Refusal>> {
        let previewed = self.preview(subject).await?;
        let mut random = [0; 10];
        self.ports
            .random
            .fill(&mut random)
            .map_err(|error| Box::new(broken(11, error.to_string())))?;
        let now = self.ports.clock.now();
        let approval = Approval {
            id: crate::id::ulid(now, random).into(),
            bound: self.bound.clone(),
            definition: Hash::from_bytes(*self.tool.definition.as_bytes()),
            fingerprint: previewed.fingerprint,
            needs: match self.tool.settings.approval {
                Needed::Passkey => Needs::Passkey,
                Needed::Person | Needed::None => Needs::Person,
            },
            state: ApprovalState::Waiting,
            expires_at: now + LIFE,
            call_id: None,
            answer: None,
        };
        let hold = Hold {
            approval: &approval,
            arguments: object(subject.sent.as_deref()),
            preview: &previewed.person,
            now,
        };
        let held = self.ports.store.hold(hold).await;
        let held = held.map_err(|error| failed(&error))?;
        Ok(Asked {
            replayed: held.id != approval.id,
            ..Asked::of(&held)
        })
    }

    async fn mark(&self, id: &str, mark: Mark) -> Result<(), Box<Refusal>> {
        let now = self.ports.clock.now();
        let marked = self.ports.store.mark(id, mark, now).await;
        marked.map_err(|error| failed(&error))
    }

    fn pending(&self, asked: &Asked, reason: Option<&str>) -> Finished {
        let tool = &*self.tool.name;
        let mut document = json!({
            "status": "pending_approval", "server": &*self.tool.server, "tool": tool, "approval_id": &*asked.id,
            "state": asked.state.text(), "expires_at": asked.expires_at.to_string(),
        });
        let mut text = match asked.state {
            ApprovalState::Running => format!("`{tool}` was approved and is running."),
            _ => format!("`{tool}` was not run yet: it waits for the person's approval."),
        };
        if let Some(reason) = reason {
            document["reason"] = reason.into();
            text.push_str(" What it would change is no longer what was approved, so the person is asked again.");
        }
        text.push_str(&format!(
            " Other calls go on. To get its result make exactly the same call again later, or ask `countersign_approval` with `approval_id` \"{}\".",
            asked.id
        ));
        Finished {
            text,
            document: document.to_string(),
            status: 202,
        }
    }

    fn denied(&self, rule: &str, why: &str, next: &str) -> Refusal {
        let sentence = format!("`{}` was not run: {why}", self.tool.name);
        Refusal::new(Code::PermissionDenied, 11, sentence, next)
            .with("rule", rule.into())
            .with("tool", (*self.tool.name).into())
    }

    fn lost(&self, row: &Approval, why: &str) -> Refusal {
        let sentence = format!("`{}`: {why}", self.tool.name);
        let next = "Do not repeat the change blindly: read the current state first, then decide.";
        Refusal::new(Code::OutcomeUnknown, 11, sentence, next)
            .with("tool", (*self.tool.name).into())
            .with("approval_id", (*row.id).into())
            .with("call_id", row.call_id.clone().into())
    }
}

/// Another call was quicker to run it.
pub(super) fn taken_by_another(tool: &str, state: Option<ApprovalState>) -> Refusal {
    let state = state.map_or("gone", ApprovalState::text);
    let sentence = format!("`{tool}` was not run by this call: its approval is {state}");
    let next = "Make exactly the same call again: it gives the result once there is one.";
    Refusal::new(Code::PermissionDenied, 12, sentence, next)
        .with("rule", "approval".into())
        .with("tool", tool.into())
}

impl Asked {
    fn of(row: &Approval) -> Self {
        Self {
            id: Arc::clone(&row.id),
            expires_at: row.expires_at,
            state: row.state,
            replayed: true,
        }
    }
}

fn failed(error: &StoreError) -> Box<Refusal> {
    Box::new(broken(11, error.to_string()))
}
