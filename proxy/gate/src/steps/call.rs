//! The state one request has at each stage. A stage is a type: what it holds was established by the step before it.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use countersign_permission::{InForce, Kind, Mode, Permission};
use jiff::Timestamp;

use super::cleared::Cleared;
use super::person::Person;
use crate::answer::{Answer, Finished, Outcome};
use crate::bound::Bound;
use crate::catalog::Tool;
use crate::facts::AgentFacts;
use crate::json::Fault;
use crate::ports::{DecisionNote, Ended as CallEnd, Links, Purpose, Ran as RunEnd};
use crate::rate::{BucketId, RateState};
use crate::refusal::Refusal;
use crate::request::{ReadMethod, Request};
use crate::turn::TurnFact;

/// One request at one stage.
#[derive(Debug)]
pub(super) struct Call<S> {
    pub base: Base,
    pub stage: S,
}

/// What every stage has.
#[derive(Debug)]
pub(super) struct Base {
    pub request: Request,
    pub arrived: Timestamp,
    pub rate: Option<RateState>,
    pub purpose: Purpose,
}

#[derive(Debug)]
pub(super) struct Arrived;
#[derive(Debug)]
pub(super) struct SwitchedOn;
#[derive(Debug)]
pub(super) struct UrlClean;

/// Who it is.
#[derive(Debug)]
pub(super) struct Authenticated {
    pub who: Who,
}

/// What is wanted, and that this caller may see it.
#[derive(Debug)]
pub(super) struct Visible {
    pub who: Who,
    pub target: Wanted,
}

/// Paid for.
#[derive(Debug)]
pub(super) struct Charged {
    pub subject: Subject,
    pub arguments: Looked,
}

/// Paid for, and a server's.
#[derive(Debug)]
pub(super) struct ForServer {
    pub subject: Subject,
    pub arguments: Looked,
}

/// A call with arguments that fit, and what was decided about it so far.
#[derive(Debug)]
pub(super) struct Judged {
    pub subject: Subject,
    pub control: Control,
    pub decisions: Vec<DecisionNote>,
}

/// The arguments fit.
#[derive(Debug)]
pub(super) struct Validated(pub Judged);

/// It reaches none of the executor's own files.
#[derive(Debug)]
pub(super) struct Protected(pub Judged);

/// It lies inside the write policy.
#[derive(Debug)]
pub(super) struct Bounded(pub Judged);

/// The agent's mode lets it on, or asks the person.
#[derive(Debug)]
pub(super) struct Willing {
    pub judged: Judged,
    pub mode: Mode,
}

/// No twin of it is known.
#[derive(Debug)]
pub(super) struct Fresh {
    pub judged: Judged,
    pub mode: Mode,
    /// What a write is bound to; none for a read.
    pub bound: Option<Arc<Bound>>,
}

/// Nothing holds the call, once what it takes is taken.
#[derive(Debug)]
pub(super) struct Allowed {
    pub subject: Subject,
    pub decisions: Vec<DecisionNote>,
    pub takes: Takes,
}

/// What a call takes when it is noted, and what is settled with its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Takes {
    pub key: Option<(Arc<Bound>, Arc<str>)>,
    pub confirmation: Option<Arc<str>>,
    pub approval: Option<Arc<str>>,
}

impl Takes {
    pub fn links(&self) -> Links {
        Links {
            confirmation: self.confirmation.clone(),
            approval: self.approval.clone(),
            ..Links::default()
        }
    }
}

/// In the book, cleared.
#[derive(Debug)]
pub(super) struct Noted {
    pub cleared: Cleared,
    pub takes: Takes,
}

/// Came back.
#[derive(Debug)]
pub(super) struct Ran {
    pub kind: Kind,
    pub takes: Takes,
    pub ran: RunEnd,
}

/// Its outcome is in the book.
#[derive(Debug)]
pub(super) struct Recorded {
    pub ran: RunEnd,
}

/// Ready to be rendered.
#[derive(Debug)]
pub(super) struct Shaped {
    pub outcome: Outcome,
}

/// The caller.
#[derive(Clone, Debug)]
pub(super) enum Who {
    Agent(Box<Agent>),
    Public { network: BucketId },
    Person(Box<Person>),
}

/// An authenticated agent with its rights for this request.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub facts: Arc<AgentFacts>,
    pub in_force: InForce,
    pub scopes: BTreeSet<String>,
    pub expires_at: Option<Timestamp>,
}

impl Agent {
    pub fn permission(&self) -> Option<&Arc<Permission>> {
        match &self.in_force {
            InForce::Granted(permission) => Some(permission),
            InForce::Nothing(_) => None,
        }
    }
}

impl Who {
    pub fn agent(&self) -> Option<&Agent> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Public { .. } | Self::Person(_) => None,
        }
    }

    pub fn person(&self) -> Option<&Person> {
        match self {
            Self::Person(person) => Some(person),
            Self::Agent(_) | Self::Public { .. } => None,
        }
    }
}

/// What is wanted.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Tool(Arc<Tool>),
    Method {
        method: ReadMethod,
        server: Arc<str>,
    },
    Whoami,
    Approval,
}

impl Wanted {
    /// As the server names it.
    pub fn name(&self) -> &str {
        match self {
            Self::Tool(tool) => &tool.name,
            Self::Method { method, .. } => method.name(),
            Self::Whoami => crate::facts::WHOAMI,
            Self::Approval => crate::facts::APPROVAL,
        }
    }
}

/// What the arguments look like before anything is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// Missing or null.
    None,
    /// A strict object.
    Object,
    /// Strict, but no object.
    Other,
    /// Not strict JSON.
    Broken(Fault),
    /// Over the limit; not looked at.
    TooLarge,
}

/// What an entry is written about.
#[derive(Debug)]
pub(super) struct Subject {
    pub who: Who,
    pub target: Wanted,
    pub kind: Kind,
    pub rows: u64,
    pub received: Option<Bytes>,
    /// The arguments without control fields: what keys, codes and approvals are bound to; the same bytes as received where nothing was
    /// taken out.
    pub sent: Option<Bytes>,
    /// What is sent instead where step 8 wrote paths out as it judged them.
    pub rewritten: Option<Bytes>,
    /// The agent's turn, from step 8 on.
    pub turn: Option<u64>,
    /// What happened to that turn, for the record.
    pub moved: Vec<TurnFact>,
    /// What its outcome is tied to, should it end here.
    pub links: Links,
}

/// The control fields of a write, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Control {
    pub dry_run: bool,
    pub confirm_token: Option<String>,
    pub idempotency_key: Option<Arc<str>>,
}

/// The end of a request before its last step.
#[derive(Debug)]
pub(super) struct Ended {
    pub base: Base,
    pub how: How,
}

#[derive(Debug)]
pub(super) enum How {
    /// Refused where no entry is owed: counted.
    Counted {
        refusal: Refusal,
        agent: Option<String>,
    },
    /// Refused, an entry is owed.
    Refused {
        refusal: Refusal,
        subject: Box<Subject>,
        decisions: Vec<DecisionNote>,
        denial: Denied,
    },
    /// Refused because an entry could not be written, or after one was.
    Plain { refusal: Refusal },
    /// Answered, an entry is owed.
    Finished {
        finished: Finished,
        subject: Box<Subject>,
        decisions: Vec<DecisionNote>,
        ended: CallEnd,
        /// Whether it is what the same call was answered before.
        replayed: bool,
    },
    /// Answered about the caller itself; nothing is owed.
    Own { finished: Finished },
    /// A stored answer again; nothing is owed.
    Replayed { outcome: Outcome },
}

/// The decision that a refusal is recorded by.
#[derive(Debug)]
pub(super) enum Denied {
    /// As the refusal says it.
    Plain,
    /// This one.
    As(Box<DecisionNote>),
    /// None: nothing was decided about a call that is malformed.
    Malformed,
}

impl Call<Arrived> {
    pub fn arrive(request: Request, arrived: Timestamp) -> Self {
        Self {
            base: Base {
                request,
                arrived,
                rate: None,
                purpose: Purpose::Call,
            },
            stage: Arrived,
        }
    }
}

impl<S> Call<S> {
    pub fn at<N>(self, stage: N) -> Call<N> {
        Call {
            base: self.base,
            stage,
        }
    }
}

impl Call<Shaped> {
    pub fn into_answer(self) -> Answer {
        Answer {
            request_id: self.base.request.request_id,
            outcome: self.stage.outcome,
            rate: self.base.rate,
            replayed: false,
        }
    }
}

impl Subject {
    /// The arguments that are sent.
    pub fn forwarded(&self) -> Option<&Bytes> {
        self.rewritten.as_ref().or(self.sent.as_ref())
    }

    /// The caller as [`Bound::actor`] names them.
    pub fn actor(&self) -> Arc<str> {
        match &self.who {
            Who::Agent(agent) => format!("agent/{}", agent.facts.name).into(),
            Who::Public { network } => format!("public/{}", network.owner()).into(),
            Who::Person(person) => format!("person/{}", person.id).into(),
        }
    }
}

impl Base {
    /// Refused before step 6.
    pub fn counted(self, refusal: Refusal, who: Option<&Who>) -> Ended {
        let agent = who
            .and_then(Who::agent)
            .map(|agent| agent.facts.name.clone());
        Ended {
            base: self,
            how: How::Counted { refusal, agent },
        }
    }

    /// Refused at step 6 or later.
    pub fn refused(
        self,
        refusal: Refusal,
        subject: Subject,
        decisions: Vec<DecisionNote>,
    ) -> Ended {
        self.denied(refusal, subject, decisions, Denied::Plain)
    }

    /// The same with the decision it is recorded by.
    pub fn denied(
        self,
        refusal: Refusal,
        subject: Subject,
        decisions: Vec<DecisionNote>,
        denial: Denied,
    ) -> Ended {
        Ended {
            base: self,
            how: How::Refused {
                refusal,
                subject: Box::new(subject),
                decisions,
                denial,
            },
        }
    }

    /// Refused with nothing to write.
    pub fn plain(self, refusal: Refusal) -> Ended {
        Ended {
            base: self,
            how: How::Plain { refusal },
        }
    }
}
