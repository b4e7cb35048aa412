//! Everything a call takes before it is forwarded, in one IMMEDIATE transaction that is on disk when it is done; and what is settled
//! with its end. Owns the order; the rules are the gate's.

use countersign_gate::idempotency::Twin;
use countersign_gate::ports::{End, Settle, Take, Taken, Uses};

use super::serving::Serving;
use super::{StateDb, StoreFault, confirmations, idempotency, state};

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
        let Some(claim) = &settle.key else {
            return Ok(());
        };
        let (end, sealed) = match &settle.end {
            End::Answered(stored) => {
                match serving
                    .seal
                    .seal(&idempotency::about(claim), &stored.encode())
                {
                    Ok(sealed) => (settle.end.clone(), Some(sealed)),
                    Err(error) => {
                        tracing::error!(%error, "an answer cannot be kept for its idempotency key");
                        (End::Unknown, None)
                    }
                }
            }
            end => (end.clone(), None),
        };
        self.change_unflushed(|transaction| {
            idempotency::settle(transaction, claim, by, &end, sealed.as_deref())
        })
    }
}
