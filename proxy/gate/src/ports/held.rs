//! What a call takes before it runs and what is settled after, as plain data between the flow and the store. The rules are in
//! [`crate::idempotency`]; how rows are kept is the store's.

use jiff::Timestamp;

use super::{UseClaim, Uses};
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

/// How a [`Take`] went. Looked at in the order key, confirmation, uses; the first that fails is told and nothing is taken.
#[derive(Clone, Debug, PartialEq)]
pub enum Taken {
    /// Everything is taken.
    All,
    /// The key has a twin (never [`Twin::None`]).
    Twin(Twin),
    /// The confirmation cannot be spent (any more).
    Confirmation(Reason),
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
    /// How it ended.
    pub end: End,
}

/// How a call that took something ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The server answered: kept for twins.
    Answered(Stored),
    /// It was or may have been sent, and there is no answer that could be kept.
    Unknown,
    /// It certainly was not sent: the key is free again.
    NotSent,
}
