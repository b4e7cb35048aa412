//! Step 12: what the call takes (a use, its key) is taken in one transaction, the call is in the book (on disk, for a write), and only
//! then can it be sent. The one place that makes a [`Cleared`].

use countersign_permission::Kind;

use super::call::{Allowed, Base, Call, Denied, Ended, How, Noted, Subject, Takes, Wanted};
use super::cleared::{Cleared, What};
use super::ending::{broken, call_note, stateless, unrecorded, write_down};
use super::record::settlement;
use super::validate::{claim, outside_uses};
use super::{danger, idempotency, queue, write_policy};
use crate::facts::Facts;
use crate::ports::{
    CallNote, Durability, End, KeyClaim, Note, Ports, Purpose, StoreError, Take, Taken,
};

pub(super) async fn step(
    _: &Facts,
    ports: &Ports<'_>,
    call: Call<Allowed>,
) -> Result<Call<Noted>, Ended> {
    let Call {
        base,
        stage: Allowed {
            subject,
            decisions,
            takes,
        },
    } = call;
    let (server, what) = match &subject.target {
        Wanted::Tool(tool) => (tool.server.clone(), What::Tool(tool.name.clone())),
        Wanted::Method { method, server } => (server.clone(), What::Method(*method)),
        Wanted::Whoami | Wanted::Approval => {
            return Err(base.plain(broken(12, "an own tool came to be forwarded")));
        }
    };
    // A turn may have ended while its call was previewed or held.
    if subject.kind == Kind::Write {
        match write_policy::ended_meanwhile(ports, &subject).await {
            Ok(None) => {}
            Ok(Some((refusal, decision))) => {
                let denial = Denied::As(Box::new(decision));
                return Err(base.denied(refusal, subject, decisions, denial));
            }
            Err(error) => {
                let refusal = write_policy::uncounted(12, &error);
                return Err(base.refused(refusal, subject, decisions));
            }
        }
    }
    match take(ports, &base, &subject, &takes).await {
        Ok(Taken::All) => {}
        Ok(Taken::Uses(used)) => {
            let refusal = outside_uses(12, subject.target.name(), used);
            return Err(base.refused(refusal, subject, decisions));
        }
        Ok(Taken::Confirmation(reason)) => {
            let mut subject = subject;
            subject.links = takes.links();
            let refusal = danger::not_good(12, subject.target.name(), reason);
            return Err(base.refused(refusal, subject, decisions));
        }
        Ok(Taken::Approval(state)) => {
            let mut subject = subject;
            subject.links = takes.links();
            let refusal = queue::taken_by_another(subject.target.name(), state);
            return Err(base.refused(refusal, subject, decisions));
        }
        Ok(Taken::Twin(twin)) => {
            return Err(match idempotency::end(12, subject.target.name(), twin) {
                Some(How::Plain { refusal }) => base.refused(refusal, subject, decisions),
                Some(how) => Ended { base, how },
                None => base.refused(broken(12, "a key without a twin"), subject, decisions),
            });
        }
        Err(error) => return Err(base.refused(stateless(12, &error), subject, decisions)),
    }
    let durability = if subject.kind == Kind::Read {
        Durability::Batched
    } else {
        Durability::Strict
    };
    let note = Note {
        call: CallNote {
            links: takes.links(),
            ..call_note(&base, &subject)
        },
        turns: subject.moved.clone(),
        decisions,
        outcome: None,
        durability,
    };
    if let Err(error) = write_down(ports, note).await {
        let mut refusal = unrecorded(12, &error);
        if let Some(settle) = settlement(&base, &takes, End::NotSent, ports.clock.now())
            && let Err(also) = ports.store.settle(settle).await
        {
            refusal = refusal.because(format!("{error}; {also}"));
        }
        return Err(base.plain(refusal));
    }
    let ids = (
        base.request.call_id.clone(),
        base.request.request_id.clone(),
    );
    let cleared = Cleared::new(
        ids,
        server,
        what,
        (subject.kind, base.purpose),
        subject.forwarded().cloned(),
    );
    Ok(Call {
        base,
        stage: Noted { cleared, takes },
    })
}

async fn take(
    ports: &Ports<'_>,
    base: &Base,
    subject: &Subject,
    takes: &Takes,
) -> Result<Taken, StoreError> {
    let take = Take {
        call_id: &base.request.call_id,
        now: ports.clock.now(),
        uses: claim(base, subject).filter(|_| base.purpose == Purpose::Call),
        confirmation: takes.confirmation.as_deref(),
        approval: takes.approval.as_deref(),
        key: takes
            .key
            .as_ref()
            .map(|(bound, key)| KeyClaim { bound, key }),
    };
    let nothing = take.uses.is_none()
        && take.key.is_none()
        && take.confirmation.is_none()
        && take.approval.is_none();
    if nothing {
        return Ok(Taken::All);
    }
    ports.store.take(take).await
}
