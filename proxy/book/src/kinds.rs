//! The closed schema: one type per kind of entry this version writes, and the table that names them (a new kind is one
//! row here, one section in `FORMAT.md`, one vector). Refuses to know how lines are stored.
//!
//! Members are optional where not every process knows them; an absent member is left out, never `null`.

use serde::{Deserialize, Serialize};

use crate::commitment::{Commitment, Field};
use crate::entry::{CallId, Count};
use crate::lifecycle::{EraOpen, Erase, KeyRotate, Prune};
use crate::origin::Origin;
use crate::tree::Hash;
use crate::turns::{Approval, Bounds, TurnClose, TurnFailed, TurnOpen};

/// Emits the body enum, its kind names and its strict parser from one table, so that they can't differ.
macro_rules! kinds {
    ($($name:literal => $variant:ident),+ $(,)?) => {
        /// The body of an entry: its kind and the members of that kind.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(tag = "k")]
        #[allow(clippy::large_enum_variant, reason = "most entries are calls, the largest kind")]
        pub enum Body {
            $(#[doc = concat!("Kind `", $name, "`.")] #[serde(rename = $name)] $variant($variant),)+
        }

        impl Body {
            /// The name of the kind, the entry's member `k`.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)+ }
            }

            /// Whether this version has a type for the kind.
            pub(crate) fn is_kind(name: &str) -> bool {
                [$($name),+].contains(&name)
            }

            /// The body of a stored line of version 1, or nothing when kind or members are not understood.
            pub(crate) fn parse(kind: &str, line: &str) -> Option<Self> {
                let mut members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
                for common in ["i", "k", "prev", "ts", "v"] {
                    members.remove(common);
                }
                let members = serde_json::Value::Object(members);
                match kind {
                    $($name => serde_json::from_value(members).ok().map(Self::$variant),)+
                    _ => None,
                }
            }
        }

        $(impl From<$variant> for Body {
            fn from(body: $variant) -> Self {
                Self::$variant(body)
            }
        })+
    };
}

kinds! {
    "book.open" => BookOpen,
    "book.recovered" => BookRecovered,
    "book.closed" => BookClosed,
    "settings" => Settings,
    "catalog" => Catalog,
    "permission" => Permission,
    "turn.open" => TurnOpen,
    "turn.close" => TurnClose,
    "turn.failed" => TurnFailed,
    "approval" => Approval,
    "call" => Call,
    "decision" => Decision,
    "outcome" => Outcome,
    "refusals" => Refusals,
    "gap" => Gap,
    "clock" => Clock,
    "beat" => Beat,
    "key.rotate" => KeyRotate,
    "era.open" => EraOpen,
    "erase" => Erase,
    "prune" => Prune,
}

impl Body {
    /// The call the entry belongs to, if it belongs to one.
    #[must_use]
    pub fn call(&self) -> Option<&CallId> {
        match self {
            Self::Call(call) => Some(&call.call),
            Self::Decision(decision) => Some(&decision.call),
            Self::Outcome(outcome) => Some(&outcome.call),
            _ => None,
        }
    }
}

/// `book.open`: entry 0, and each time a process wants its opening on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BookOpen {
    /// Whether the executor may use an unsigned development permission. Decided in entry 0, for the book's life.
    pub development: bool,
    /// The executor's name as its person gave it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// The book's origin.
    pub origin: Origin,
    /// The process that opened it.
    pub process: String,
    /// Program and version, for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub program: Option<String>,
    /// The verifier key in force.
    pub vkey: String,
}

/// `book.recovered`: what was found on opening and set aside. Nothing of it was signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BookRecovered {
    /// Bytes set aside.
    pub bytes: Count,
    /// Name of the file in `quarantine/`, when bytes were set aside.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub file: Option<String>,
    /// Whole lines among them.
    pub lines: Count,
    /// Payloads that did not reach the disk: entries whose batch was never acknowledged.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub missing: Vec<Target>,
    /// The process that recovered.
    pub process: String,
    /// SHA-256 of the bytes set aside.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sha256: Option<Hash>,
    /// The largest checkpoint among the bytes set aside that this book's key had signed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signed: Option<Head>,
}

/// A payload of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The field.
    pub f: Field,
    /// The entry's index.
    pub i: Count,
}

/// Size and root of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The root hash.
    pub root: Hash,
    /// The number of entries.
    pub size: Count,
}

/// `book.closed`: a process ended in order, or the book was ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BookClosed {
    /// The process.
    pub process: String,
    /// Why.
    pub reason: String,
}

/// `settings`: executor.json as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Who changed it: a command, the app, or `unknown` when it was found changed.
    pub by: String,
    /// SHA-256 of the file's bytes.
    pub hash: Hash,
}

/// What happened to the definitions of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// As shown to the agent.
    Shown,
    /// A definition differs from the pinned one.
    Changed,
    /// A tool is not offered, with the reason in `why`.
    SetAside,
}

/// `catalog`: tool definitions as shown, changed or set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// The agent they were shown to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<String>,
    /// What happened.
    pub change: Change,
    /// SHA-256 of the definition, or of the list of definitions as shown.
    pub hash: Hash,
    /// The server.
    pub server: String,
    /// The one tool that changed or was set aside.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<String>,
    /// The number of tools shown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tools: Option<Count>,
    /// The reason, for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

/// `permission`: the permission in force for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Permission {
    /// The agent.
    pub agent: String,
    /// Whether it is the unsigned one of `--development`.
    pub development: bool,
    /// SHA-256 of the document's canonical form.
    pub hash: Hash,
    /// SHA-256 of its proof (signature envelope) in `signed/`; none for a development permission.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub proof: Option<Hash>,
}

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// An agent with a key.
    Agent,
    /// The person, in their own session.
    Person,
    /// A public caller without a key.
    Public,
}

/// Whether a tool reads or writes, as the executor judged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A read.
    Read,
    /// A write.
    Write,
}

/// `call`: a call that reached validation. Durable before it is forwarded, if it is a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Who acts.
    pub actor: Actor,
    /// The agent's name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<String>,
    /// The approval this call runs under.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approval: Option<String>,
    /// Commitment to the arguments as received, without control fields. Filled in by the writer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub args: Option<Commitment>,
    /// The id that ties the call's entries together.
    pub call: CallId,
    /// The client as it named itself, with its version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client: Option<String>,
    /// The confirmation this call redeems.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub confirmation: Option<String>,
    /// SHA-256 of the tool's definition as shown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub def: Option<Hash>,
    /// Read or write.
    pub effect: Effect,
    /// The public prefix of the key.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub key: Option<String>,
    /// SHA-256 of the permission in force.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub permission: Option<Hash>,
    /// The process that carries the call: only when it is gone may the call be settled as unknown.
    pub process: String,
    /// Why the executor itself makes it (`preview`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub purpose: Option<String>,
    /// The request's id, as text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request: Option<String>,
    /// The longest list among the arguments.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows: Option<Count>,
    /// Commitment to what was sent, where it differs from `args`. Filled in by the writer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sent: Option<Commitment>,
    /// The server.
    pub server: String,
    /// The person's session.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
    /// The tool, as the server names it.
    pub tool: String,
    /// The number of the agent's turn.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn: Option<Count>,
    /// The transport it came by.
    pub via: String,
}

/// Allow or deny.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The gate let it pass.
    Allow,
    /// The gate refused it.
    Deny,
}

/// `decision`: what a gate decided about a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// What the call aimed at (a path, a pointer), for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub aim: Option<String>,
    /// What a write policy looked at.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bounds: Option<Bounds>,
    /// The call.
    pub call: CallId,
    /// Allow or deny.
    pub decision: Verdict,
    /// The gate.
    pub gate: String,
    /// SHA-256 of the policy or permission it applied.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy: Option<Hash>,
    /// The rule that matched.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rule: Option<String>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The server answered.
    Ok,
    /// The server answered with an error.
    Error,
    /// It was forwarded, or may have been, and no answer is known.
    Unknown,
    /// A preview was answered, nothing ran.
    Preview,
    /// A confirmation code was answered, nothing ran.
    ConfirmationRequired,
    /// The call waits for the person.
    PendingApproval,
    /// Refused; `code` says why.
    Refused,
}

/// `outcome`: how a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The approval it waits for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approval: Option<String>,
    /// The call.
    pub call: CallId,
    /// The code of a refusal or an error.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// The confirmation made, spent or refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub confirmation: Option<String>,
    /// Milliseconds from receipt to answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ms: Option<Count>,
    /// The confirmation this one takes the place of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replaces: Option<String>,
    /// Commitment to the result as received. Filled in by the writer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub result: Option<Commitment>,
    /// The process that settled the call of a process that is gone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub settled: Option<String>,
    /// How it ended.
    pub status: Status,
    /// One sentence more, for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
}

impl Outcome {
    /// The outcome of `call`, without anything more.
    #[must_use]
    pub fn new(call: CallId, status: Status) -> Self {
        Self {
            approval: None,
            call,
            code: None,
            confirmation: None,
            ms: None,
            replaces: None,
            result: None,
            settled: None,
            status,
            why: None,
        }
    }
}

/// One code and how often it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusalCount {
    /// The refusal's code.
    pub code: String,
    /// How often.
    pub n: Count,
}

/// `refusals`: what was refused before validation, per agent and minute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusals {
    /// The agent; none where the caller was not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<String>,
    /// Counts by code.
    pub counts: Vec<RefusalCount>,
    /// The minute's start, RFC 3339.
    pub minute: String,
}

/// `gap`: a time or an index the book has no word about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// How many entries or events it stands for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<Count>,
    /// Start, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from: Option<String>,
    /// The process that wrote it.
    pub process: String,
    /// Why.
    pub reason: String,
    /// End, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<String>,
}

/// `clock`: the clock stood behind the last entry. Order is by index, not by time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// The time of the entry before, RFC 3339.
    pub last: String,
    /// The process that noticed.
    pub process: String,
}

/// `beat`: nothing happened and the recorder was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beat {
    /// The process.
    pub process: String,
}
