//! Step 12: one use is counted, the call is in the book (on disk, for a write), and only then can it be sent. The one place that makes
//! a [`Cleared`].

use countersign_permission::Kind;

use super::call::{Allowed, Call, Ended, Noted, Wanted};
use super::cleared::{Cleared, What};
use super::ending::{broken, call_note, unrecorded};
use super::validate::{claim, outside_uses};
use crate::facts::Facts;
use crate::ports::{Durability, Note, Ports, Uses};

pub(super) async fn step(
    _: &Facts,
    ports: &Ports<'_>,
    call: Call<Allowed>,
) -> Result<Call<Noted>, Ended> {
    let Call {
        base,
        stage: Allowed { subject, decisions },
    } = call;
    let counted = match claim(&base, &subject) {
        Some(claim) => ports.store.count_use(claim).await,
        None => Ok(Uses::Allowed),
    };
    match counted {
        Ok(Uses::Allowed) => {}
        Ok(used) => {
            return Err(base.refused(
                outside_uses(12, subject.target.name(), used),
                subject,
                decisions,
            ));
        }
        Err(error) => return Err(base.refused(broken(12, error.to_string()), subject, decisions)),
    }
    let (server, what) = match &subject.target {
        Wanted::Tool(tool) => (tool.server.clone(), What::Tool(tool.name.clone())),
        Wanted::Method { method, server } => (server.clone(), What::Method(*method)),
        Wanted::Whoami => return Err(base.plain(broken(12, "an own tool came to be forwarded"))),
    };
    let durability = if subject.kind == Kind::Read {
        Durability::Batched
    } else {
        Durability::Strict
    };
    let note = Note {
        call: call_note(&base, &subject),
        decisions,
        outcome: None,
        durability,
    };
    if let Err(error) = ports.book.note(note).await {
        return Err(base.plain(unrecorded(12, &error)));
    }
    let ids = (
        base.request.call_id.clone(),
        base.request.request_id.clone(),
    );
    let cleared = Cleared::new(ids, server, what, subject.kind, subject.sent);
    Ok(Call {
        base,
        stage: Noted { cleared },
    })
}
