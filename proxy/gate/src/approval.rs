//! The rules of approvals: a write held for the person, from waiting to its end. Pure; the rows are the store's, the time is handed in.

use std::sync::Arc;

use countersign_permission::Hash;
use jiff::{SignedDuration, Timestamp};

use crate::bound::Bound;
use crate::idempotency::{Owner, Stored};

/// How long an approval may be given and used.
pub const LIFE: SignedDuration = SignedDuration::from_hours(24);

/// How long a running one may be silent before it counts as interrupted.
pub const SILENCE: SignedDuration = SignedDuration::from_mins(15);

/// A write that is held for the person.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// Its id (ULID); no secret.
    pub id: Arc<str>,
    /// Whose, for what.
    pub bound: Bound,
    /// The tool's definition when it was asked for.
    pub definition: Hash,
    /// Hash of the values the person is shown.
    pub fingerprint: String,
    /// Whose yes it needs.
    pub needs: Needs,
    /// How it stands; as [`stands`] says, not as it was written.
    pub state: ApprovalState,
    /// First moment it can no longer be given, nor used.
    pub expires_at: Timestamp,
    /// The call that ran it, or runs it.
    pub call_id: Option<String>,
    /// What the server answered, once done.
    pub answer: Option<Stored>,
}

/// Whose yes an approval needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The person's.
    Person,
    /// The person's, signed with a passkey.
    Passkey,
}

/// How an approval stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalState {
    /// The person has not decided.
    Waiting,
    /// The person said yes; it has not run.
    Approved,
    /// It runs.
    Running,
    /// It ran, and the server answered.
    Done,
    /// It ran or may have run, and nobody knows how it ended.
    Failed,
    /// The person said no, or the agent took it back.
    Rejected,
    /// Its time is over, or what it would change has changed.
    Expired,
}

/// What a running approval was last heard of.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    /// When it last made progress.
    pub heartbeat: Timestamp,
    /// Whether the process that runs it lives.
    pub owner: Owner,
}

/// What the person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Approve,
    /// No.
    Decline,
}

/// How a decision is known to be the person's.
#[derive(Debug)]
pub enum By {
    /// They sit at this machine.
    Person,
    /// They signed it.
    Passkey(Signed),
}

/// A decision signed with a passkey. Only what verifies the signature can make one; nothing does yet, so an approval that
/// [`Needs::Passkey`] can be declined and not given.
#[derive(Debug)]
pub struct Signed(());

/// Why a decision does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// It was decided, or is over.
    #[error("it is no longer waiting: it is {}", .0.text())]
    NotWaiting(ApprovalState),
    /// A yes to it must be signed.
    #[error("it must be signed with a passkey")]
    NeedsPasskey,
}

impl ApprovalState {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Approved,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Rejected,
        Self::Expired,
    ];

    /// As it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Approved => "approved",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
        }
    }
}

/// How an approval stands now. `pulse` is known where it was written as running.
#[must_use]
pub fn stands(
    written: ApprovalState,
    expires_at: Timestamp,
    pulse: Option<Pulse>,
    now: Timestamp,
) -> ApprovalState {
    match (written, pulse) {
        (ApprovalState::Waiting | ApprovalState::Approved, _) if now >= expires_at => {
            ApprovalState::Expired
        }
        (ApprovalState::Running, Some(pulse))
            if pulse.owner == Owner::Alive && now.duration_since(pulse.heartbeat) <= SILENCE =>
        {
            ApprovalState::Running
        }
        (ApprovalState::Running, _) => ApprovalState::Failed,
        (written, _) => written,
    }
}

/// What a decision makes of an approval that stands so.
///
/// # Errors
/// When it is not waiting, or the yes is not signed though it must be.
pub fn decide(
    state: ApprovalState,
    needs: Needs,
    verdict: Verdict,
    by: &By,
) -> Result<ApprovalState, DecideError> {
    if state != ApprovalState::Waiting {
        return Err(DecideError::NotWaiting(state));
    }
    match (verdict, needs, by) {
        (Verdict::Decline, _, _) => Ok(ApprovalState::Rejected),
        (Verdict::Approve, Needs::Passkey, By::Person) => Err(DecideError::NeedsPasskey),
        (Verdict::Approve, Needs::Person, _) | (Verdict::Approve, _, By::Passkey(_)) => {
            Ok(ApprovalState::Approved)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r59_time_and_silence_end_an_approval() {
        let start = Timestamp::UNIX_EPOCH;
        let end = start + LIFE;
        let beat = |owner| {
            Some(Pulse {
                heartbeat: start,
                owner,
            })
        };
        let quiet = start + SILENCE;
        let moment = SignedDuration::from_nanos(1);
        use ApprovalState::{Approved, Done, Expired, Failed, Rejected, Running, Waiting};
        let cases = [
            (Waiting, None, end - moment, Waiting),
            (Waiting, None, end, Expired),
            (Approved, None, end, Expired),
            (Running, beat(Owner::Alive), quiet, Running),
            (Running, beat(Owner::Alive), quiet + moment, Failed),
            (Running, beat(Owner::Gone), start, Failed),
            (Running, None, start, Failed),
            (Done, None, end, Done),
            (Failed, None, end, Failed),
            (Rejected, None, end, Rejected),
        ];
        for (written, pulse, now, want) in cases {
            assert_eq!(stands(written, end, pulse, now), want, "{written:?} {now}");
        }
    }

    #[test]
    fn only_a_waiting_one_is_decided_and_a_passkeys_yes_must_be_signed() {
        for state in ApprovalState::ALL {
            for needs in [Needs::Person, Needs::Passkey] {
                let waits = state == ApprovalState::Waiting;
                let no = decide(state, needs, Verdict::Decline, &By::Person);
                assert_eq!(no.is_ok(), waits);
                let yes = decide(state, needs, Verdict::Approve, &By::Person);
                assert_eq!(yes.is_ok(), waits && needs == Needs::Person);
                let signed = decide(state, needs, Verdict::Approve, &By::Passkey(Signed(())));
                assert_eq!(signed.is_ok(), waits);
            }
        }
    }
}
