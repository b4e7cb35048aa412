//! The two-strike rule as a pure automaton: one agent's turn, what a call or a person does to it, and what is to be recorded of that.
//! Whoever keeps the state calls these functions inside of one transaction.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

/// Strikes that end a turn. No setting changes it.
pub const LIMIT: usize = 2;

/// An open turn of one agent; latched once it has [`LIMIT`] strikes.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Counts up per agent from 1, never used twice.
    pub number: u64,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// Its latest call that was noticed; kept only where idle turns end.
    pub last_at: Timestamp,
    /// Its strikes, oldest first, at most [`LIMIT`].
    pub strikes: Vec<Strike>,
}

/// One counted denial.
#[derive(Clone, Debug, PartialEq)]
pub struct Strike {
    /// The denied call.
    pub call_id: String,
    /// When.
    pub at: Timestamp,
    /// What is recorded of the denial ([`crate::policy::Denial::facts`]), with its sentence under `why`.
    pub facts: Map<String, Value>,
}

/// What happened to a turn, to be recorded as `turn.open`, `turn.close` or `turn.failed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnFact {
    /// The agent.
    pub agent: String,
    /// The turn's number.
    pub turn: u64,
    /// What.
    pub what: What,
    /// Why: `first_call`, `idle`, `person_app`, `person_command`, `person_hook`, `write_policy_denied`.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// It began.
    Opened,
    /// It ended without a second strike.
    Closed,
    /// Its second strike latched it.
    Failed,
}

/// What a strike does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The agent may go on.
    First,
    /// The turn is over.
    Second,
    /// It was over before: nothing is counted.
    Latched,
}

/// The way a person opened a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// *Let it go on* in the app.
    App,
    /// `countersign turn open`.
    Command,
    /// A prompt hook of the client: opens a turn with each human prompt, never a latched one.
    Hook,
}

/// A turn after something happened, and what is to be recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// The turn that is open now.
    pub turn: Turn,
    /// What to record, in order.
    pub facts: Vec<TurnFact>,
    /// Whether the turn has to be stored again.
    pub changed: bool,
}

impl Turn {
    /// Whether two strikes have ended it.
    #[must_use]
    pub fn is_latched(&self) -> bool {
        self.strikes.len() >= LIMIT
    }
}

impl What {
    /// The kind of entry.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Opened => "turn.open",
            Self::Closed => "turn.close",
            Self::Failed => "turn.failed",
        }
    }

    /// From the kind of entry.
    #[must_use]
    pub fn from_kind(kind: &str) -> Option<Self> {
        [Self::Opened, Self::Closed, Self::Failed]
            .into_iter()
            .find(|what| what.kind() == kind)
    }
}

impl By {
    fn reason(self) -> &'static str {
        match self {
            Self::App => "person_app",
            Self::Command => "person_command",
            Self::Hook => "person_hook",
        }
    }
}

/// A call arrived: opens the first turn, and ends one that was idle for `idle_minutes` (0: never) if it has no strike.
#[must_use]
pub fn arrive(agent: &str, turn: Option<Turn>, idle_minutes: u32, now: Timestamp) -> Moved {
    let Some(mut turn) = turn else {
        return opened(agent, 1, "first_call", now, Vec::new());
    };
    if idle_minutes == 0 {
        return still(turn);
    }
    let idle = now.duration_since(turn.last_at);
    let limit = SignedDuration::from_mins(i64::from(idle_minutes));
    if turn.strikes.is_empty() && idle >= limit {
        let closed = fact(agent, turn.number, What::Closed, "idle", now);
        return opened(agent, turn.number + 1, "first_call", now, vec![closed]);
    }
    // A tenth of the limit is exact enough, and spares a flush per call. A clock that went back counts from the later time.
    let changed = idle * 10 >= limit;
    if changed {
        turn.last_at = now;
    }
    Moved {
        turn,
        facts: Vec::new(),
        changed,
    }
}

/// A denial is counted, once per call.
#[must_use]
pub fn strike(
    agent: &str,
    turn: Option<Turn>,
    call_id: &str,
    facts: &Map<String, Value>,
    now: Timestamp,
) -> (Moved, Counted) {
    let mut moved = match turn {
        Some(turn) => still(turn),
        None => opened(agent, 1, "first_call", now, Vec::new()),
    };
    if let Some(at) = moved
        .turn
        .strikes
        .iter()
        .position(|strike| strike.call_id == call_id)
    {
        let counted = if at + 1 < LIMIT {
            Counted::First
        } else {
            Counted::Second
        };
        return (moved, counted);
    }
    if moved.turn.is_latched() {
        return (moved, Counted::Latched);
    }
    moved.turn.strikes.push(Strike {
        call_id: call_id.to_string(),
        at: now,
        facts: facts.clone(),
    });
    moved.changed = true;
    if !moved.turn.is_latched() {
        return (moved, Counted::First);
    }
    let number = moved.turn.number;
    moved.facts.push(fact(
        agent,
        number,
        What::Failed,
        crate::policy::STRIKE,
        now,
    ));
    (moved, Counted::Second)
}

/// A person opens a new turn. `None`: a hook, and the turn is latched; it stays so.
#[must_use]
pub fn open(agent: &str, turn: Option<&Turn>, by: By, now: Timestamp) -> Option<Moved> {
    let Some(turn) = turn else {
        return Some(opened(agent, 1, by.reason(), now, Vec::new()));
    };
    let ended = match (turn.is_latched(), by) {
        (true, By::Hook) => return None,
        // Its end is on record as `turn.failed`.
        (true, By::App | By::Command) => Vec::new(),
        (false, _) => vec![fact(agent, turn.number, What::Closed, by.reason(), now)],
    };
    Some(opened(agent, turn.number + 1, by.reason(), now, ended))
}

fn opened(
    agent: &str,
    number: u64,
    reason: &str,
    now: Timestamp,
    mut facts: Vec<TurnFact>,
) -> Moved {
    facts.push(fact(agent, number, What::Opened, reason, now));
    Moved {
        turn: Turn {
            number,
            opened_at: now,
            last_at: now,
            strikes: Vec::new(),
        },
        facts,
        changed: true,
    }
}

fn still(turn: Turn) -> Moved {
    Moved {
        turn,
        facts: Vec::new(),
        changed: false,
    }
}

fn fact(agent: &str, turn: u64, what: What, reason: &str, at: Timestamp) -> TurnFact {
    TurnFact {
        agent: agent.to_string(),
        turn,
        what,
        reason: reason.to_string(),
        at,
    }
}
