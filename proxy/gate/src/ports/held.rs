//! What a call takes before it runs and what is settled after, as plain data between the flow and the store. The rules are in
//! [`crate::idempotency`]; how rows are kept is the store's.

use jiff::Timestamp;

use super::{UseClaim, Uses};
use crate::approval::{Approval, ApprovalState};
use crate::bound::Bound;
use crate::confirmation::{Confirmation, Reason};
use crate::idempotency::{Stored, Twin};

/// A key of one caller for one tool: its scope is (actor, server, tool, key), the arguments are compared.
#[derive(Clone, Copy, Debug)]
pub struct KeyClaim<'a> {
    /// Whose, for what.
    pub bound: &'a Bound,
    /// The key, 1 to 255 visible ASCII characters.
    pub key: &'a str,
}

/// What a call needs before it may be forwarded.
#[derive(Clone, Debug)]
pub struct Take<'a> {
    /// The call; what is claimed carries it.
    pub call_id: &'a str,
    /// Now.
    pub now: Timestamp,
    /// One use of its tool, where that is limited.
    pub uses: Option<UseClaim<'a>>,
    /// Its idempotency key.
    pub key: Option<KeyClaim<'a>>,
    /// The id of the confirmation it redeems.
    pub confirmation: Option<&'a str>,
    /// The id of the approval it runs under: approved, then running, by exactly one call.
    pub approval: Option<&'a str>,
}

/// An approval to keep.
#[derive(Clone, Debug)]
pub struct Hold<'a> {
    /// What is kept in the clear.
    pub approval: &'a Approval,
    /// The arguments to run it with, JSON text; kept encrypted.
    pub arguments: &'a [u8],
    /// What the person is shown, JSON text; kept encrypted.
    pub preview: &'a [u8],
    /// Now.
    pub now: Timestamp,
}

/// What happens to an approval besides running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Its end (done, failed) was told to the agent: the same call is a new one from here on.
    Delivered,
    /// What it would change has changed: waiting or approved, it expires.
    Changed,
    /// The agent took it back: waiting or approved, it is rejected.
    Withdrawn,
}

/// A confirmation to keep.
#[derive(Clone, Debug)]
pub struct Prompt<'a> {
    /// What is kept.
    pub confirmation: &'a Confirmation,
    /// HMAC of its code under the pepper ([`crate::key::Pepper::code_mac`]).
    pub mac: &'a [u8; 32],
    /// The confirmation it takes the place of.
    pub replaces: Option<&'a str>,
    /// Now.
    pub now: Timestamp,
}

/// How a [`Take`] went. Looked at in the order key, confirmation, approval, uses; the first that fails is told and nothing is taken.
#[derive(Clone, Debug, PartialEq)]
pub enum Taken {
    /// Everything is taken.
    All,
    /// The key has a twin (never [`Twin::None`]).
    Twin(Twin),
    /// The confirmation cannot be spent (any more).
    Confirmation(Reason),
    /// The approval is not approved (any more); `None`: there is none.
    Approval(Option<ApprovalState>),
    /// No use is left (never [`Uses::Allowed`]).
    Uses(Uses),
}

/// The end of a call that took something.
#[derive(Clone, Debug)]
pub struct Settle<'a> {
    /// The call.
    pub call_id: &'a str,
    /// Now.
    pub now: Timestamp,
    /// Its key, if it had one.
    pub key: Option<KeyClaim<'a>>,
    /// The approval it ran under.
    pub approval: Option<&'a str>,
    /// Whether the agent waits for the answer, so that it is delivered with it.
    pub waits: Waits,
    /// How it ended.
    pub end: End,
}

/// Whether somebody waits for a call's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// The agent does.
    Agent,
    /// Nobody: it is fetched later.
    Nobody,
}

/// How a call that took something ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The server answered: kept for twins.
    Answered(Stored),
    /// It was or may have been sent, and there is no answer that could be kept.
    Unknown,
    /// It certainly was not sent: the key is free again, the approval as good as before.
    NotSent,
}
