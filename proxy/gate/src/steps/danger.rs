//! Step 11: whether a write needs a second step. A dry run ends with its preview; a dangerous call ends with a preview and a code, and
//! goes on with that code; what needs the person's approval is queued ([`super::queue`]).

use std::sync::Arc;

use countersign_permission::Mode;
use serde_json::{Map, json};

use super::call::{
    Allowed, Base, Call, Control, Ended, Fresh, How, Judged, Subject, Takes, Wanted,
};
use super::ending::{broken, cannot_hold, policy, stateless};
use super::preview::{Previewed, preview};
use super::queue::Why;
use crate::answer::Finished;
use crate::bound::{Bound, object};
use crate::catalog::Tool;
use crate::confirmation::{self, Confirmation, ConfirmationState, Reason, usable};
use crate::facts::Facts;
use crate::json::{Change, edit};
use crate::ports::{DecisionNote, Ended as CallEnd, Ports, Prompt, Verdict};
use crate::refusal::{Code, Refusal};

pub(super) async fn step(
    facts: &Facts,
    ports: &Ports<'_>,
    call: Call<Fresh>,
) -> Result<Call<Allowed>, Ended> {
    let Call {
        base,
        stage: Fresh {
            judged,
            mode,
            bound,
        },
    } = call;
    let Judged {
        mut subject,
        control,
        mut decisions,
    } = judged;
    let mut takes = Takes::default();
    if let (Wanted::Tool(tool), Some(bound)) = (subject.target.clone(), bound) {
        let gate = Gate {
            facts,
            ports,
            base: &base,
            tool: &tool,
            bound: &bound,
        };
        match gate.hold(&mut subject, &control, mode).await {
            Ok(Next::On(confirmation)) => takes.confirmation = confirmation,
            Ok(Next::Approved(id)) => {
                decisions.push(decision(&gate, &subject, mode, Verdict::Allow));
                takes.approval = Some(id);
            }
            Ok(Next::Ended(how)) => return Err(Ended { base, how }),
            Ok(Next::Pending(finished, replayed)) => {
                decisions.push(decision(&gate, &subject, mode, Verdict::Deny));
                let ended = (CallEnd::PendingApproval, replayed);
                return Err(answered(base, finished, subject, decisions, ended));
            }
            Ok(Next::Answer(finished, ended)) => {
                return Err(answered(base, finished, subject, decisions, (ended, false)));
            }
            Err(refusal) => return Err(base.refused(*refusal, subject, decisions)),
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

fn answered(
    base: Base,
    finished: Finished,
    subject: Subject,
    decisions: Vec<DecisionNote>,
    (ended, replayed): (CallEnd, bool),
) -> Ended {
    let how = How::Finished {
        finished,
        subject: Box::new(subject),
        decisions,
        ended,
        replayed,
    };
    Ended { base, how }
}

/// What holding a call, or letting an approved one on, is in the record.
fn decision(gate: &Gate<'_>, subject: &Subject, mode: Mode, verdict: Verdict) -> DecisionNote {
    let (by, rule) = gate
        .queued(subject, mode, true)
        .map_or(("danger", "approval"), Why::rule);
    DecisionNote {
        gate: by,
        rule: rule.to_string(),
        verdict,
        policy: policy(subject),
        aim: None,
        bounds: Map::new(),
    }
}

/// A code that is not good.
pub(super) fn not_good(step: u8, tool: &str, reason: Reason) -> Refusal {
    let why = match reason {
        Reason::Invalid => "no confirmation of this caller has that code",
        Reason::OtherArguments => "that code is for another call",
        Reason::Used => "that code was used",
        Reason::Rejected => "the person declined that confirmation",
        Reason::Expired => "that code has expired",
    };
    let next = "Make the call without `confirm_token` to see what it would change and to get a new code; to run it, repeat exactly that call with the code.";
    Refusal::new(
        Code::ConfirmTokenInvalid,
        step,
        format!("`{tool}` was not run: {why}"),
        next,
    )
    .with("reason", reason.text().into())
    .with("rule", reason.text().into())
    .with("tool", tool.into())
}

/// One write at this step.
pub(super) struct Gate<'a> {
    pub facts: &'a Facts,
    pub ports: &'a Ports<'a>,
    pub base: &'a Base,
    pub tool: &'a Tool,
    pub bound: &'a Bound,
}

/// What becomes of a write.
pub(super) enum Next {
    /// It goes on, redeeming a confirmation where it had a code.
    On(Option<Arc<str>>),
    /// It goes on under an approval.
    Approved(Arc<str>),
    /// It waits for the person; whether the same was answered before.
    Pending(Finished, bool),
    /// It ends with the answer of a run it did not wait for.
    Ended(How),
    /// It ends with this.
    Answer(Finished, CallEnd),
}

impl Gate<'_> {
    /// The order of flow.md 11.
    async fn hold(
        &self,
        subject: &mut Subject,
        control: &Control,
        mode: Mode,
    ) -> Result<Next, Box<Refusal>> {
        if control.dry_run || self.facts.executor.dry_run {
            let previewed = self.preview(subject).await?;
            return Ok(Next::Answer(self.shown(&previewed), CallEnd::Preview));
        }
        // As the agent wrote it, and as it would be sent.
        let rewritten = subject.rewritten.as_deref();
        let dangerous = self.tool.is_dangerous(object(subject.sent.as_deref()))
            || rewritten.is_some_and(|sent| self.tool.is_dangerous(sent));
        if self.tool.settings.require_copy {
            let why = "it needs a fresh copy of the book";
            let name = &self.tool.name;
            return Err(Box::new(cannot_hold(11, name, "require_copy", why)));
        }
        if self.queued(subject, mode, dangerous).is_some() {
            return self.hold_for_person(subject).await;
        }
        if let Some(person) = subject.who.person() {
            // A person's write is always held once, dangerous or not.
            let redeems = person.used.redeems.clone();
            return match redeems {
                Some(id) => {
                    let store = self.ports.store;
                    let found = store.held_confirmation(&id).await;
                    let found = found.map_err(|error| Box::new(broken(11, error.to_string())))?;
                    self.redeemed(subject, found).await
                }
                None => {
                    let previewed = self.preview(subject).await?;
                    self.prompt(subject, &previewed, None).await
                }
            };
        }
        match &control.confirm_token {
            Some(code) => self.redeem(subject, code).await,
            None if dangerous => {
                let previewed = self.preview(subject).await?;
                self.prompt(subject, &previewed, None).await
            }
            None => Ok(Next::On(None)),
        }
    }

    pub(super) async fn preview(&self, subject: &Subject) -> Result<Previewed, Box<Refusal>> {
        preview(self.facts, self.ports, self.base, subject, self.tool)
            .await
            .map_err(Box::new)
    }

    /// A code is redeemed: found, this call's, waiting, and for values that are still the same. It is spent in step 12.
    async fn redeem(&self, subject: &mut Subject, code: &str) -> Result<Next, Box<Refusal>> {
        let store = self.ports.store;
        let failed = |error: crate::ports::StoreError| Box::new(stateless(11, &error));
        let mac = self.ports.pepper.code_mac(code);
        let found = store.confirmation(&mac).await.map_err(failed)?;
        let strange = |found: &Confirmation| found.bound.actor != self.bound.actor;
        if found.as_ref().is_none_or(strange) {
            let now = self.ports.clock.now();
            store.wrong_code(self.bound, now).await.map_err(failed)?;
        }
        self.redeemed(subject, found).await
    }

    async fn redeemed(
        &self,
        subject: &mut Subject,
        found: Option<Confirmation>,
    ) -> Result<Next, Box<Refusal>> {
        let own = found
            .as_ref()
            .filter(|found| found.bound.actor == self.bound.actor);
        subject.links.confirmation = own.map(|found| Arc::clone(&found.id));
        let now = self.ports.clock.now();
        let confirmation = match usable(found, self.bound, now) {
            Ok(confirmation) => confirmation,
            Err(reason) => return Err(Box::new(not_good(11, &self.tool.name, reason))),
        };
        let previewed = self.preview(subject).await?;
        if previewed.fingerprint == confirmation.fingerprint {
            return Ok(Next::On(Some(confirmation.id)));
        }
        self.prompt(subject, &previewed, Some(confirmation.id))
            .await
    }

    /// A new confirmation: the preview and its code.
    async fn prompt(
        &self,
        subject: &mut Subject,
        previewed: &Previewed,
        replaces: Option<Arc<str>>,
    ) -> Result<Next, Box<Refusal>> {
        let (mut id, mut code) = ([0; 10], [0; 16]);
        let random = self.ports.random;
        random
            .fill(&mut id)
            .and_then(|()| random.fill(&mut code))
            .map_err(|error| Box::new(broken(11, error.to_string())))?;
        let now = self.ports.clock.now();
        let code = confirmation::code(code);
        let confirmation = Confirmation {
            id: crate::id::ulid(now, id).into(),
            bound: self.bound.clone(),
            fingerprint: previewed.fingerprint.clone(),
            state: ConfirmationState::Waiting,
            expires_at: now + confirmation::LIFE,
        };
        let prompt = Prompt {
            confirmation: &confirmation,
            mac: &self.ports.pepper.code_mac(&code),
            replaces: replaces.as_deref(),
            now,
        };
        self.ports
            .store
            .prompt(prompt)
            .await
            .map_err(|error| Box::new(broken(11, error.to_string())))?;
        subject.links.confirmation = Some(Arc::clone(&confirmation.id));
        let changed = replaces.is_some();
        subject.links.replaces = replaces;
        let code = subject.who.person().is_none().then_some(&*code);
        let finished = self.asked(&confirmation, code, previewed, changed.then_some("changed"));
        Ok(Next::Answer(finished, CallEnd::ConfirmationRequired))
    }

    fn asked(
        &self,
        confirmation: &Confirmation,
        code: Option<&str>,
        previewed: &Previewed,
        reason: Option<&str>,
    ) -> Finished {
        let tool = &*self.tool.name;
        let expires_at = confirmation.expires_at;
        let mut document = json!({
            "status": "confirmation_required", "server": &*self.tool.server, "tool": tool,
            "confirmation_id": &*confirmation.id,
            "expires_at": expires_at.to_string(), "expires_in_seconds": confirmation::LIFE.as_secs(),
        });
        let mut text = match code {
            Some(code) => {
                document["confirm_token"] = code.into();
                format!(
                    "`{tool}` was not run yet: it is dangerous. Look at the preview; to run it, make exactly the same call with `confirm_token` \"{code}\" before {expires_at}."
                )
            }
            None => format!(
                "`{tool}` was not run yet. Look at the preview, and confirm it before {expires_at}."
            ),
        };
        if let Some(reason) = reason {
            document["reason"] = reason.into();
            text.insert_str(0, "What it would change is no longer what you were shown. ");
        }
        finished(&text, &document, previewed)
    }

    fn shown(&self, previewed: &Previewed) -> Finished {
        let tool = &*self.tool.name;
        let document = json!({"status": "preview", "server": &*self.tool.server, "tool": tool});
        let text = format!(
            "Preview of `{tool}`: nothing was run. Make the same call without `dry_run` to run it."
        );
        finished(&text, &document, previewed)
    }
}

fn finished(text: &str, document: &serde_json::Value, previewed: &Previewed) -> Finished {
    let document = edit(
        document.to_string().as_bytes(),
        &[Change::Set("preview", &previewed.agent)],
    );
    let document = String::from_utf8_lossy(&document).into_owned();
    Finished {
        text: format!("{text}\n{}", String::from_utf8_lossy(&previewed.agent)),
        document,
        status: 202,
    }
}
