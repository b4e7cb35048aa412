//! The rules of confirmations: what a code is good for, how often a wrong one is borne, how long it lives. Pure; the rows are the
//! store's, time and randomness are handed in.

use std::sync::Arc;

use data_encoding::BASE32_NOPAD;
use jiff::{SignedDuration, Timestamp};

use crate::bound::Bound;

/// How long a confirmation waits.
pub const LIFE: SignedDuration = SignedDuration::from_mins(10);

/// The wrong code that ends a confirmation.
pub const TRIES: u32 = 5;

/// A dangerous call that was previewed and waits for its second step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// Its id (ULID); no secret.
    pub id: Arc<str>,
    /// Whose, for what.
    pub bound: Bound,
    /// Hash of the values that were shown.
    pub fingerprint: String,
    /// How it stands in the store.
    pub state: ConfirmationState,
    /// First moment it is no longer good.
    pub expires_at: Timestamp,
}

/// How a confirmation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfirmationState {
    /// Not redeemed.
    Waiting,
    /// Redeemed, once and for all.
    Used,
    /// Declined by the person.
    Rejected,
    /// Over: too late, too many wrong codes, or replaced by a newer one.
    Expired,
}

/// Why a code is not good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nobody's, or somebody else's: one answer for both.
    Invalid,
    /// It is for other arguments, or another tool.
    OtherArguments,
    /// It was redeemed.
    Used,
    /// It was declined.
    Rejected,
    /// Its time is over.
    Expired,
}

impl Reason {
    /// As it stands in the refusal.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::OtherArguments => "other_arguments",
            Self::Used => "used",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
        }
    }
}

/// A code's text: `cc_` and 26 characters of base32 for 128 random bits.
#[must_use]
pub fn code(random: [u8; 16]) -> String {
    format!("cc_{}", BASE32_NOPAD.encode(&random).to_ascii_lowercase())
}

/// Whether a found row is good for this call now. The order is: whose, for what, how it stands.
///
/// # Errors
/// Why it is not.
pub fn usable(
    row: Option<Confirmation>,
    bound: &Bound,
    now: Timestamp,
) -> Result<Confirmation, Reason> {
    let row = row
        .filter(|row| row.bound.actor == bound.actor)
        .ok_or(Reason::Invalid)?;
    if row.bound != *bound {
        return Err(Reason::OtherArguments);
    }
    match stands(row.state, row.expires_at, now) {
        Ok(()) => Ok(row),
        Err(reason) => Err(reason),
    }
}

/// Whether a row can be spent now; what the store asks inside its transaction.
///
/// # Errors
/// Why not.
pub fn stands(
    state: ConfirmationState,
    expires_at: Timestamp,
    now: Timestamp,
) -> Result<(), Reason> {
    match state {
        ConfirmationState::Used => Err(Reason::Used),
        ConfirmationState::Rejected => Err(Reason::Rejected),
        ConfirmationState::Expired => Err(Reason::Expired),
        ConfirmationState::Waiting if now >= expires_at => Err(Reason::Expired),
        ConfirmationState::Waiting => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::arguments_hash;

    #[test]
    fn r90_why_a_code_is_not_good_in_order() {
        let bound = |actor: &str, arguments: &[u8]| Bound {
            actor: actor.into(),
            server: "s".into(),
            tool: "t".into(),
            arguments: arguments_hash(Some(arguments)),
        };
        let (mine, expires_at) = (bound("a", b"{}"), Timestamp::UNIX_EPOCH + LIFE);
        let row = |state| Confirmation {
            id: "c".into(),
            bound: mine.clone(),
            fingerprint: "f".into(),
            state,
            expires_at,
        };
        let (waiting, now) = (ConfirmationState::Waiting, Timestamp::UNIX_EPOCH);
        let check = |row: Option<Confirmation>, bound: &Bound, now, want: Result<(), Reason>| {
            assert_eq!(usable(row, bound, now).map(|_| ()), want);
        };
        check(None, &mine, now, Err(Reason::Invalid));
        check(
            Some(row(ConfirmationState::Used)),
            &bound("b", b"{}"),
            now,
            Err(Reason::Invalid),
        );
        check(
            Some(row(ConfirmationState::Used)),
            &bound("a", b"[]"),
            now,
            Err(Reason::OtherArguments),
        );
        check(
            Some(row(ConfirmationState::Used)),
            &mine,
            now,
            Err(Reason::Used),
        );
        check(
            Some(row(ConfirmationState::Rejected)),
            &mine,
            now,
            Err(Reason::Rejected),
        );
        check(
            Some(row(ConfirmationState::Expired)),
            &mine,
            now,
            Err(Reason::Expired),
        );
        check(Some(row(waiting)), &mine, expires_at, Err(Reason::Expired));
        check(
            Some(row(waiting)),
            &mine,
            expires_at - SignedDuration::from_nanos(1),
            Ok(()),
        );
    }

    #[test]
    fn a_code_has_128_bits() {
        assert_eq!(code([0; 16]), format!("cc_{}", "a".repeat(26)));
        assert_ne!(code([255; 16]), code([254; 16]));
        assert_eq!(code([255; 16]).len(), 29);
    }
}
