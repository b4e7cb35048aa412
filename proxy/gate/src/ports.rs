//! What the gate needs from outside, as traits, and the plain data that crosses them. Implemented by the executor; in memory
//! by tests. Ports are shared between threads, so implementations are `Send + Sync`; one may be made for a single call (an
//! [`Upstream`] that holds the call's envelope usually is).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use countersign_permission::{CallLimits, Hash};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::approval::Approval;
use crate::bound::Bound;
use crate::catalog::Tool;
use crate::confirmation::Confirmation;
use crate::idempotency::Twin;
use crate::key::{KeyMac, Pepper};
use crate::paths::{Files, Holding};
use crate::rate::{BucketId, BucketSize, Charged};
use crate::refusal::Code;
use crate::turn::{TurnFact, Turns};

/// A boxed future, as every port returns.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

mod held;
mod run;

pub use held::{End, Hold, KeyClaim, Mark, Prompt, Settle, Take, Taken, Waits};
pub use run::{Failure, Forwarded, Ran, Upstream};

/// Everything the flow reaches the world through.
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    /// Shared state: keys, buckets, uses.
    pub store: &'a dyn Store,
    /// The record.
    pub book: &'a dyn Book,
    /// The servers.
    pub upstream: &'a dyn Upstream,
    /// Names to tools.
    pub registry: &'a dyn Registry,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Random bytes.
    pub random: &'a dyn Random,
    /// The secret agents' keys are hashed under.
    pub pepper: &'a Pepper,
    /// The disk, for where paths lead.
    pub files: &'a dyn Files,
    /// What no tool may touch.
    pub holdings: &'a [Holding],
    /// Agents' turns.
    pub turns: &'a dyn Turns,
}

/// Random bytes, for ids and codes.
pub trait Random: Send + Sync {
    /// Fills `bytes` from a source nobody can guess.
    ///
    /// # Errors
    /// When there is none.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandom>;
}

/// The system gives no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandom;

/// The time, for entries, expiry, buckets and durations.
pub trait Clock: Send + Sync {
    /// Now. Durations are differences of two calls.
    fn now(&self) -> Timestamp;

    /// Waits a moment, until it is worth looking again how a held call stands, at most until `until`.
    fn pause(&self, until: Timestamp) -> Pending<'_, ()>;
}

/// Names to tools. Synchronous; a public caller's network is charged before it is asked (R26, R100).
pub trait Registry: Send + Sync {
    /// The tool of exactly this name as the caller names it: a tool of `server` where bound, else `server__tool`. Tools set aside
    /// and shadowed ones are not found. Disabled lists, hidden tools, audience and switches are the gate's to judge, not the registry's.
    fn resolve(&self, server: Option<&str>, name: &str) -> Option<Arc<Tool>>;

    /// Every tool [`Registry::resolve`] would find, in the order they are listed.
    fn tools(&self, server: Option<&str>) -> Vec<Arc<Tool>>;
}

/// State shared between processes. Everything that decides is one transaction.
pub trait Store: Send + Sync {
    /// The key record with this visible prefix (`csk_` and 8 characters).
    fn key<'a>(&'a self, prefix: &'a str) -> Pending<'a, Result<Option<KeyRecord>, StoreError>>;

    /// Takes `units` from a bucket if they are there (all or nothing; 0 always succeeds) and says how it stands after.
    /// An absent bucket is a full one. [`crate::bucket::take`] is the arithmetic.
    fn charge<'a>(&'a self, charge: Charge<'a>) -> Pending<'a, Result<Charged, StoreError>>;

    /// How a bucket stands, without taking.
    fn balance<'a>(&'a self, charge: Charge<'a>) -> Pending<'a, Result<Charged, StoreError>>;

    /// Counts one refusal that writes no entry of its own. May be batched; a failure is not the agent's business.
    fn count_refusal<'a>(
        &'a self,
        refusal: CountedRefusal<'a>,
    ) -> Pending<'a, Result<(), StoreError>>;

    /// Whether [`Store::take`] would find a use left now. Changes nothing.
    fn uses_left<'a>(&'a self, claim: UseClaim<'a>) -> Pending<'a, Result<Uses, StoreError>>;

    /// What is under a key. Changes nothing. [`crate::idempotency::twin`] is the rule.
    fn twin<'a>(
        &'a self,
        claim: KeyClaim<'a>,
        now: Timestamp,
    ) -> Pending<'a, Result<Twin, StoreError>>;

    /// The confirmation whose code has this HMAC, however it stands.
    fn confirmation<'a>(
        &'a self,
        mac: &'a [u8; 32],
    ) -> Pending<'a, Result<Option<Confirmation>, StoreError>>;

    /// The confirmation of that id, however it stands: a session's is redeemed by it.
    fn held_confirmation<'a>(
        &'a self,
        id: &'a str,
    ) -> Pending<'a, Result<Option<Confirmation>, StoreError>>;

    /// Keeps a new confirmation; the one it takes the place of expires, both in one transaction.
    fn prompt<'a>(&'a self, prompt: Prompt<'a>) -> Pending<'a, Result<(), StoreError>>;

    /// Counts a code that is nobody's against the newest waiting confirmation of this call, if there is one; the wrong code number
    /// [`crate::confirmation::TRIES`] ends it.
    fn wrong_code<'a>(
        &'a self,
        bound: &'a Bound,
        now: Timestamp,
    ) -> Pending<'a, Result<(), StoreError>>;

    /// The newest approval of exactly this call that still means something for it: waiting, approved or running; done or failed and
    /// not delivered; declined and not yet over. Its state is as [`crate::approval::stands`] says.
    fn approval_for<'a>(
        &'a self,
        bound: &'a Bound,
        now: Timestamp,
    ) -> Pending<'a, Result<Option<Approval>, StoreError>>;

    /// The approval of that id, however it stands.
    fn approval<'a>(
        &'a self,
        id: &'a str,
        now: Timestamp,
    ) -> Pending<'a, Result<Option<Approval>, StoreError>>;

    /// Keeps a new approval, its arguments encrypted, or gives the one that [`Store::approval_for`] would: one transaction.
    fn hold<'a>(&'a self, hold: Hold<'a>) -> Pending<'a, Result<Approval, StoreError>>;

    /// Marks an approval; a mark that no longer fits how it stands changes nothing.
    fn mark<'a>(
        &'a self,
        id: &'a str,
        mark: Mark,
        now: Timestamp,
    ) -> Pending<'a, Result<(), StoreError>>;

    /// Takes everything a call needs before it is forwarded, or nothing of it: one transaction, on disk when it returns. A crash after
    /// it costs what was taken, never grants anything.
    fn take<'a>(&'a self, take: Take<'a>) -> Pending<'a, Result<Taken, StoreError>>;

    /// Settles what a call took, once its outcome is recorded (or it is certain that it was never sent). Only what this very call
    /// still holds is changed. Need not be on disk when it returns: an unsettled claim is an unknown outcome, never a second run.
    /// Answers are kept encrypted.
    fn settle<'a>(&'a self, settle: Settle<'a>) -> Pending<'a, Result<(), StoreError>>;
}

/// The store could not answer. The detail is for the log and the person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store failed: {detail}")]
pub struct StoreError {
    /// The reason in words anybody may read, as a sentence part.
    pub why: &'static str,
    /// What went wrong.
    pub detail: String,
}

/// What is kept of an agent's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// The agent's name in executor.json.
    pub agent: String,
    /// HMAC-SHA256 of the whole text under the pepper.
    pub mac: KeyMac,
    /// Scopes the key was made with; `None` = whatever executor.json gives the agent.
    pub scopes: Option<Vec<String>>,
    /// First moment it no longer holds.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A charge on one bucket.
#[derive(Clone, Debug)]
pub struct Charge<'a> {
    /// Which.
    pub bucket: &'a BucketId,
    /// Its configured size.
    pub size: BucketSize,
    /// What is taken.
    pub units: u32,
    /// Now.
    pub now: Timestamp,
}

/// A refusal before step 6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedRefusal<'a> {
    /// Whose, where known.
    pub agent: Option<&'a str>,
    /// Which.
    pub code: Code,
    /// When; counted by minute.
    pub at: Timestamp,
}

/// One use of a tool under a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseClaim<'a> {
    /// The document the uses are counted under. For the development permission its text changes with the settings, so count those
    /// by executor and agent, not by this hash ([`UseClaim::development`]).
    pub permission: &'a Hash,
    /// Whether the permission is the development one.
    pub development: bool,
    /// The agent.
    pub agent: &'a str,
    /// The server.
    pub server: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// The call that uses it.
    pub call_id: &'a str,
    /// The limits to hold.
    pub limits: CallLimits,
    /// Now.
    pub now: Timestamp,
}

/// Whether a use is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uses {
    /// It is (and, from [`Store::take`], is counted).
    Allowed,
    /// `max_calls` are used up.
    MaxCalls,
    /// The window is full until then.
    Rate {
        /// When one is free again.
        free_at: Timestamp,
    },
}

/// The record, in the gate's words.
pub trait Book: Send + Sync {
    /// Appends a call and its decisions in one batch, the call first. Returns when the durability asked for is reached.
    fn note(&self, note: Note) -> Pending<'_, Result<(), BookError>>;

    /// Appends an outcome. `Batched` returns once it is queued, `Strict` once it is on disk.
    fn record(
        &self,
        outcome: OutcomeNote,
        durability: Durability,
    ) -> Pending<'_, Result<(), BookError>>;
}

/// The book could not take the entry. The detail is for the log and the person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the book cannot be written: {detail}")]
pub struct BookError {
    /// The reason in words anybody may read, as a sentence part.
    pub why: &'static str,
    /// What went wrong.
    pub detail: String,
    /// The state that keeps the book from being written, where it is one that lasts.
    pub held: Option<Held>,
}

/// A state in which the book takes no entries until a person has acted, in words for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its name, as the status command prints it.
    pub state: &'static str,
    /// What it means, as part of a sentence.
    pub sentence: &'static str,
    /// Whether a newer program must be started.
    pub restart: bool,
}

/// When an append counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is queued in order; on disk within the batch interval. Reads.
    Batched,
    /// When it is on disk. Writes.
    Strict,
}

/// A call and what was decided about it; with an outcome too where the call ends without a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The call.
    pub call: CallNote,
    /// What happened to the agent's turn, in order: what opened or closed one stands before the call, what failed one after its decisions.
    pub turns: Vec<TurnFact>,
    /// Decisions, in order.
    pub decisions: Vec<DecisionNote>,
    /// The outcome of a call that is refused or finished early, in the same batch, last.
    pub outcome: Option<OutcomeNote>,
    /// When the append counts as done.
    pub durability: Durability,
}

/// The `call` entry. The process that is recorded with it is the executor's to add.
#[derive(Clone, Debug, PartialEq)]
pub struct CallNote {
    /// Its id.
    pub call_id: Arc<str>,
    /// The request it is for.
    pub request_id: Arc<str>,
    /// When it arrived.
    pub at: Timestamp,
    /// The agent, or `None` for a person and a public caller.
    pub agent: Option<String>,
    /// The person, in their own session.
    pub person: Option<PersonNote>,
    /// The visible prefix of the key.
    pub key_prefix: Option<String>,
    /// The way it came.
    pub via: &'static str,
    /// What the client says it is.
    pub client: Option<crate::request::ClientFacts>,
    /// The server.
    pub server: String,
    /// The tool as the server names it, or the method.
    pub tool: String,
    /// Read or write, as judged.
    pub kind: countersign_permission::Kind,
    /// The tool's definition; `None` for a method.
    pub definition: Option<Hash>,
    /// The permission it was judged under; `None` for a public caller.
    pub permission: Option<Hash>,
    /// Whether the agent asks for it, or a preview does.
    pub purpose: Purpose,
    /// The confirmation it redeems, the approval it runs under.
    pub links: Links,
    /// The longest list directly in the arguments, unclamped.
    pub rows: u64,
    /// The agent's turn, from step 8 on.
    pub turn: Option<u64>,
    /// The arguments as received, without the control fields of a call that was valid; `None` where there were none (missing),
    /// `null` as its text.
    pub received: Option<Bytes>,
    /// What is (or would be) sent, where it differs from what was received.
    pub sent: Option<Bytes>,
}

/// A `decision` entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionNote {
    /// Which gate decided: the step's key in [`crate::steps::STEPS`], e.g. `validate`, `mode`, `danger`.
    pub gate: &'static str,
    /// The rule that decided, e.g. `max_items`, `argument_limit`, `schema`.
    pub rule: String,
    /// What was decided.
    pub verdict: Verdict,
    /// The policy it was decided by (permission document, write policy).
    pub policy: Option<Hash>,
    /// What it was about: a JSON Pointer, a limit in words, a path as the call named it.
    pub aim: Option<String>,
    /// What a write policy looked at: members of [`crate::policy::FACTS`]; empty where none did.
    pub bounds: Map<String, Value>,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Goes on.
    Allow,
    /// Does not.
    Deny,
}

/// The `outcome` entry.
#[derive(Clone, Debug, PartialEq)]
pub struct OutcomeNote {
    /// The call it ends.
    pub call_id: Arc<str>,
    /// When.
    pub at: Timestamp,
    /// How it ended.
    pub ended: Ended,
    /// The refusal's or failure's code, where there is one.
    pub code: Option<Code>,
    /// The result as received, for its commitment; `None` where there is none.
    pub result: Option<Bytes>,
    /// From arrival to here.
    pub duration: Duration,
    /// The confirmation made, spent or refused; the one it takes the place of; the approval it waits for or ran under.
    pub links: Links,
}

/// A person's session in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonNote {
    /// The person's id.
    pub person: Arc<str>,
    /// The session's id.
    pub session: Arc<str>,
    /// What asks on behalf of it.
    pub via: Arc<str>,
}

/// Why a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The agent asks for it.
    Call,
    /// The preview of another call does.
    Preview,
}

/// What an entry of a call is tied to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// An approval.
    pub approval: Option<Arc<str>>,
    /// A confirmation.
    pub confirmation: Option<Arc<str>>,
    /// The confirmation that [`Links::confirmation`] takes the place of.
    pub replaces: Option<Arc<str>>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// The server answered.
    Ok,
    /// The server answered with an error.
    Error,
    /// Forwarded, and nobody knows.
    Unknown,
    /// A preview; nothing ran.
    Preview,
    /// A confirmation code; nothing ran.
    ConfirmationRequired,
    /// It waits for the person; nothing ran.
    PendingApproval,
    /// Refused; nothing ran.
    Refused,
}
