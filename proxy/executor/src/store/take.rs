//! Everything a call takes before it is forwarded, in one IMMEDIATE transaction that is on disk when it is done; and what is settled
//! with its end. Owns the order; the rules are the gate's.

use countersign_gate::idempotency::Twin;
use countersign_gate::ports::{End, Settle, Take, Taken, Uses};

use super::serving::Serving;
use super::{StateDb, StoreFault, approvals, confirmations, idempotency, state};

impl StateDb {
    /// Takes all of it or nothing.
    pub(super) fn take(&self, take: &Take<'_>, serving: &Serving) -> Result<Taken, StoreFault> {
        self.change_or_not(|transaction| {
            if let Some(claim) = &take.key {
                let twin = idempotency::look(transaction, claim, take.now, serving)?;
                if twin != Twin::None {
                    return Ok(Err(Taken::Twin(twin)));
                }
                idempotency::claim(transaction, claim, (take.call_id, take.now), serving)?;
            }
            if let Some(id) = take.confirmation
                && let Err(reason) = confirmations::spend(transaction, id, take.now)?
            {
                return Ok(Err(Taken::Confirmation(reason)));
            }
            if let Some(id) = take.approval
                && let Err(state) =
                    approvals::run(transaction, id, (take.call_id, take.now), serving)?
            {
                return Ok(Err(Taken::Approval(state)));
            }
            if let Some(claim) = &take.uses {
                let uses = state::count(transaction, claim)?;
                if uses != Uses::Allowed {
                    return Ok(Err(Taken::Uses(uses)));
                }
            }
            Ok(Ok(Taken::All))
        })
    }

    /// Settles what the call still holds. Not flushed: lost with the machine's power it leaves an unknown outcome, no second run.
    pub(super) fn settle(&self, settle: &Settle<'_>, serving: &Serving) -> Result<(), StoreFault> {
        let by = (settle.call_id, settle.now);
        let for_key = settle
            .key
            .as_ref()
            .map(|claim| kept(&settle.end, &idempotency::about(claim), serving));
        let for_approval = settle
            .approval
            .map(|id| kept(&settle.end, &approvals::about("answer", id), serving));
        self.change_unflushed(|transaction| {
            if let (Some(claim), Some((end, sealed))) = (&settle.key, &for_key) {
                idempotency::settle(transaction, claim, by, end, sealed.as_deref())?;
            }
            if let (Some(id), Some((end, sealed))) = (settle.approval, &for_approval) {
                let how = (end, settle.waits);
                approvals::settle(transaction, id, settle.call_id, how, sealed.as_deref())?;
            }
            Ok(())
        })
    }
}

/// An end with its answer sealed; one that cannot be sealed is as good as unknown.
fn kept(end: &End, about: &str, serving: &Serving) -> (End, Option<Vec<u8>>) {
    let End::Answered(stored) = end else {
        return (end.clone(), None);
    };
    match serving.seal.seal(about, &stored.encode()) {
        Ok(sealed) => (end.clone(), Some(sealed)),
        Err(error) => {
            tracing::error!(%error, "an answer cannot be kept");
            (End::Unknown, None)
        }
    }
}
