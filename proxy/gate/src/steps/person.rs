//! Who a session's person is for one call, in the place of steps 1 to 3, and what their session lets them see. Their rights are
//! everything executor.json has on; writes only through the servers it lists for them.

use std::sync::Arc;

use countersign_permission::Kind;

use super::call::{Arrived, Authenticated, Call, Ended, Who};
use crate::catalog::Tool;
use crate::facts::{DisabledList, Facts};
use crate::rate::BucketId;
use crate::refusal::{Code, Refusal};
use crate::session::{Allow, SessionRef, Sessions, SignedIn, Use};

/// A person signed in, for one call.
#[derive(Clone, Debug)]
pub(super) struct Person {
    pub id: Arc<str>,
    pub session: Arc<str>,
    pub used: Use,
}

impl Person {
    /// The bucket all their sessions share.
    pub fn bucket(&self) -> BucketId {
        BucketId::Person(self.id.to_string())
    }
}

/// The session is looked at, for this call.
pub(super) async fn enter(
    call: Call<Arrived>,
    (sessions, session): (&dyn Sessions, &SessionRef),
    used: Use,
) -> Result<Call<Authenticated>, Ended> {
    let refusal = match sessions.look(session, call.base.arrived).await {
        Ok(SignedIn::ForAnother) if used.allow == Allow::All => Refusal::new(
            Code::Forbidden,
            3,
            "a session that acts for somebody else only reads",
            "Sign in as yourself to change anything.",
        )
        .with("reason", "acts_for_another".into()),
        Ok(SignedIn::AsThemselves | SignedIn::ForAnother) => {
            let person = Person {
                id: Arc::clone(&session.person),
                session: Arc::clone(&session.session),
                used,
            };
            let who = Who::Person(Box::new(person));
            return Ok(call.at(Authenticated { who }));
        }
        Err(why) => Refusal::new(
            Code::Unauthorized,
            3,
            "this session does not hold",
            "Sign in again.",
        )
        .with("reason", why.text().into()),
    };
    Err(call.base.counted(refusal, None))
}

/// Whether the session's use lets a write through, in the order: allowed at all, then the server.
pub(super) fn may_write(facts: &Facts, person: &Person, tool: &Tool) -> Result<(), Refusal> {
    if tool.kind != Kind::Write {
        return Ok(());
    }
    if person.used.allow == Allow::Read {
        let sentence = format!(
            "`{}` may change something, and only reads are allowed here",
            tool.name
        );
        let next = "Use a tool that reads, or allow changes for this call.";
        return Err(
            Refusal::new(Code::Forbidden, 4, sentence, next).with("tool", (*tool.name).into())
        );
    }
    if writes_are_open(facts, &tool.server) {
        return Ok(());
    }
    let sentence = format!(
        "changes through the server `{}` are off for people",
        tool.server
    );
    let next =
        "Add the server to `person_write_servers` in executor.json to change things through it.";
    Err(Refusal::new(Code::ModuleWriteDisabled, 4, sentence, next)
        .with("server", (*tool.server).into()))
}

/// Whether people may write through a server. A list that cannot be read is empty.
pub(crate) fn writes_are_open(facts: &Facts, server: &str) -> bool {
    match &facts.person_write_servers {
        DisabledList::Names(names) => names.contains(server),
        DisabledList::Unreadable => false,
    }
}
