//! The order of the flow, as one table that also is the typed chain. The order is read nowhere else.

use crate::answer::{Answer, Outcome};
use crate::facts::Facts;
use crate::ports::Ports;
use crate::request::Request;
use crate::serve::Listing;
use crate::session::{SessionRef, Sessions, Use};

mod approval_tool;
mod authenticate;
mod call;
mod charge;
mod cleared;
mod danger;
mod ending;
mod idempotency;
mod mode;
mod note;
mod own;
mod person;
mod preview;
mod protect;
mod queue;
mod recipe;
mod record;
mod rights;
mod run;
mod shape;
mod switched_on;
mod url;
mod validate;
mod visible;
mod write_policy;

use call::{
    Allowed, Arrived, Authenticated, Bounded, Call, Charged, Ended, ForServer, Fresh, Noted,
    Protected, Ran, Recorded, Shaped, SwitchedOn, UrlClean, Validated, Visible, Willing,
};
pub use cleared::{Cleared, What};
pub(crate) use person::writes_are_open;
pub(crate) use rights::{Rights, closes_by_pin};

/// One row of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number in flow.md.
    pub number: u8,
    /// Its key, also the `gate` of the decisions it makes.
    pub key: &'static str,
    /// What it does.
    pub title: &'static str,
}

/// Emits the table, and the chain in the table's order: a step takes what the row before it gives, so a missing or misplaced row
/// does not compile.
macro_rules! steps {
    (
        enter: $($number:literal $key:literal $title:literal $module:ident: $from:ident => $to:ident;)*
        judge: $($number2:literal $key2:literal $title2:literal $module2:ident: $from2:ident => $to2:ident;)*
        proceed: $($number3:literal $key3:literal $title3:literal $module3:ident: $from3:ident => $to3:ident;)*
    ) => {
        /// The order of the flow.
        pub const STEPS: &[Step] = &[
            $(Step { number: $number, key: $key, title: $title },)*
            $(Step { number: $number2, key: $key2, title: $title2 },)*
            $(Step { number: $number3, key: $key3, title: $title3 },)*
        ];

        /// The steps every request passes, lists included.
        async fn enter(facts: &Facts, ports: &Ports<'_>, call: Call<Arrived>) -> Result<Call<Authenticated>, Ended> {
            $(let call: Call<$to> = $module::step(facts, ports, { let call: Call<$from> = call; call }).await?;)*
            Ok(call)
        }

        /// The steps of a call that the reads of a preview pass too.
        async fn judge(facts: &Facts, ports: &Ports<'_>, call: Call<Authenticated>) -> Result<Call<Willing>, Ended> {
            $(let call: Call<$to2> = $module2::step(facts, ports, { let call: Call<$from2> = call; call }).await?;)*
            Ok(call)
        }

        /// The steps of a call after those.
        async fn proceed(facts: &Facts, ports: &Ports<'_>, call: Call<Willing>) -> Result<Call<Shaped>, Ended> {
            $(let call: Call<$to3> = $module3::step(facts, ports, { let call: Call<$from3> = call; call }).await?;)*
            Ok(call)
        }
    };
}

steps! {
    enter:
    1  "switch"       "switched on?"                                 switched_on:  Arrived       => SwitchedOn;
    2  "url"          "credential in URL"                            url:          SwitchedOn    => UrlClean;
    3  "authenticate" "key to agent, effective scopes"               authenticate: UrlClean      => Authenticated;
    judge:
    4  "visible"      "tool exists, server on, scope, definition"    visible:      Authenticated => Visible;
    5  "charge"       "rate limit, cost weighted"                    charge:       Visible       => Charged;
    5  "own"          "the executor's own tools answer here"         own:          Charged       => ForServer;
    6  "validate"     "size, strict JSON, closed schema, limits"     validate:     ForServer     => Validated;
    7  "evidence_protection" "the executor's own files"                     protect:      Validated     => Protected;
    8  "write_policy" "bounded writes, two strikes"                  write_policy: Protected     => Bounded;
    9  "mode"         "auto, ask or read only"                       mode:         Bounded       => Willing;
    proceed:
    10 "idempotency"  "a twin's answer, or the first of its key"     idempotency:  Willing       => Fresh;
    11 "danger"       "preview, confirmation, approval"              danger:       Fresh         => Allowed;
    12 "note"         "what it takes is taken, the call is in the book"     note:         Allowed       => Noted;
    13 "run"          "forward to the server"                        run:          Noted         => Ran;
    14 "record"       "the outcome is in the book"                   record:       Ran           => Recorded;
    15 "shape"        "what the transport renders"                   shape:        Recorded      => Shaped;
}

/// One call through the whole order.
pub(crate) async fn run(facts: &Facts, ports: Ports<'_>, request: Request) -> Answer {
    let call = Call::arrive(request, ports.clock.now());
    match through(facts, &ports, call).await {
        Ok(call) => call.into_answer(),
        Err(ended) => ending::settle(&ports, ended).await,
    }
}

/// One call of a person, from their session on.
pub(crate) async fn run_as(
    facts: &Facts,
    ports: Ports<'_>,
    session: (&dyn Sessions, &SessionRef),
    (used, request): (Use, Request),
) -> Answer {
    let call = Call::arrive(request, ports.clock.now());
    let through = async {
        let call = person::enter(call, session, used).await?;
        let call = judge(facts, &ports, call).await?;
        proceed(facts, &ports, call).await
    };
    match through.await {
        Ok(call) => call.into_answer(),
        Err(ended) => ending::settle(&ports, ended).await,
    }
}

async fn through(
    facts: &Facts,
    ports: &Ports<'_>,
    call: Call<Arrived>,
) -> Result<Call<Shaped>, Ended> {
    let call = enter(facts, ports, call).await?;
    let call = judge(facts, ports, call).await?;
    proceed(facts, ports, call).await
}

/// A list: the entering steps, a charge of 1, the tools step 4 lets through.
pub(crate) async fn discover(facts: &Facts, ports: Ports<'_>, request: Request) -> Listing {
    let call = Call::arrive(request, ports.clock.now());
    let entered = enter(facts, &ports, call).await;
    listed(facts, &ports, entered).await
}

/// The same for a person.
pub(crate) async fn discover_as(
    facts: &Facts,
    ports: Ports<'_>,
    session: (&dyn Sessions, &SessionRef),
    (used, request): (Use, Request),
) -> Listing {
    let call = Call::arrive(request, ports.clock.now());
    let entered = person::enter(call, session, used).await;
    listed(facts, &ports, entered).await
}

async fn listed(
    facts: &Facts,
    ports: &Ports<'_>,
    entered: Result<Call<Authenticated>, Ended>,
) -> Listing {
    let listed = match entered {
        Ok(call) => visible::list(facts, ports, call).await,
        Err(ended) => Err(ended),
    };
    match listed {
        Ok((open, rate)) => Listing {
            open: Ok(open),
            rate,
        },
        Err(ended) => {
            let answer = ending::settle(ports, ended).await;
            let refusal = match answer.outcome {
                Outcome::Refused(refusal) => refusal,
                _ => Box::new(ending::broken(0, "a list ended without a list")),
            };
            Listing {
                open: Err(refusal),
                rate: answer.rate,
            }
        }
    }
}
