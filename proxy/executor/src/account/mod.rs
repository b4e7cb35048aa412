//! What an agent did, told by the book alone: its calls, turns, what was decided about it, and `write_denials`. Reads the signed journal
//! from its first entry to its last; refuses to know executor.json and the store, which can say anything.

mod tell;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use countersign_book::{
    Body, BookError, Call, Count, Decided, Decision, DecisionVerdict, Entry, Feed,
};
use countersign_gate::policy::GATE;
use countersign_gate::turn::{BookFact, Event, What, WriteDenials};
use jiff::Timestamp;
use serde_json::Map;

use crate::derived::filter;
use crate::recorder::turns;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The agent.
    pub agent: String,
    /// Agents that work for it; what they were denied is counted with it.
    pub children: Vec<String>,
    /// Only this turn of the agent's.
    pub turn: Option<u64>,
    /// Only entries from this time on, milliseconds since 1970.
    pub since: Option<i64>,
    /// Only entries before this time.
    pub until: Option<i64>,
}

/// What the book says.
#[derive(Clone, Debug)]
pub struct Account {
    /// What was asked for.
    pub asked: Asked,
    /// Entries of the book that were read, whosever.
    pub read: u64,
    /// Why the rest could not be read. Nothing is counted then; what was read is listed.
    pub unavailable: Option<String>,
    /// Calls by (server, tool).
    pub calls: BTreeMap<(String, String), Calls>,
    /// Refusals from before a call is recorded, by code.
    pub refusals: BTreeMap<String, u64>,
    /// What was decided about held calls, by verdict.
    pub approvals: BTreeMap<&'static str, u64>,
    /// Turns, in the order they began.
    pub turns: Vec<TurnLine>,
    /// Denials that were strikes, the children's included.
    pub denials: WriteDenials,
}

/// Calls of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// How many.
    pub count: u64,
    /// Their outcomes.
    pub outcomes: BTreeMap<&'static str, u64>,
}

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnLine {
    /// The agent.
    pub agent: String,
    /// Its number.
    pub turn: u64,
    /// How it began.
    pub opened: Option<Mark>,
    /// How it ended, and whether by a second strike.
    pub ended: Option<(What, Mark)>,
}

/// One end of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When, RFC 3339.
    pub at: String,
    /// Why.
    pub reason: String,
    /// The command or program of a person.
    pub by: Option<String>,
    /// The entry.
    pub entry: u64,
}

/// A call whose later entries are still to come.
struct Open {
    agent: String,
    turn: Option<u64>,
    /// Where it is counted, if it is.
    of: Option<(String, String)>,
}

struct Fold {
    account: Account,
    open: HashMap<String, Open>,
    facts: Vec<BookFact>,
    /// Entries of denials that lie in the time and the turn asked for.
    wanted: Vec<u64>,
    /// The agent's turn as the book has it so far: where its children's calls belong.
    current: Option<u64>,
}

/// Reads the whole book in `dir`.
#[must_use]
pub fn account(dir: &Path, asked: Asked) -> Account {
    let mut fold = Fold::new(asked);
    let read = Feed::begin(dir).and_then(|mut feed| {
        while feed.entries(|entry| {
            fold.take(&entry);
            Ok::<_, BookError>(())
        })? {}
        Ok(())
    });
    fold.end(read)
}

impl Fold {
    fn new(asked: Asked) -> Self {
        Self {
            account: Account {
                asked,
                read: 0,
                unavailable: None,
                calls: BTreeMap::new(),
                refusals: BTreeMap::new(),
                approvals: BTreeMap::new(),
                turns: Vec::new(),
                denials: WriteDenials::Known(Vec::new()),
            },
            open: HashMap::new(),
            facts: Vec::new(),
            wanted: Vec::new(),
            current: None,
        }
    }

    fn end(self, read: Result<(), BookError>) -> Account {
        let Self {
            mut account,
            facts,
            wanted,
            ..
        } = self;
        let asked = &account.asked;
        let agents: Vec<&str> = std::iter::once(&asked.agent)
            .chain(&asked.children)
            .map(String::as_str)
            .collect();
        let error = read.err().map(|error| error.to_string());
        let facts = facts.into_iter().map(Ok).chain(error.clone().map(Err));
        let mut denials = WriteDenials::fold(&agents, facts);
        let (WriteDenials::Known(list) | WriteDenials::Unavailable { denials: list, .. }) =
            &mut denials;
        list.retain(|denial| wanted.binary_search(&denial.index).is_ok());
        account.denials = denials;
        account.unavailable = error;
        account
    }

    fn take(&mut self, entry: &Entry) {
        self.account.read = entry.index + 1;
        let Some(body) = &entry.body else { return };
        match body {
            Body::Call(call) => self.call(entry, call),
            Body::Decision(decision) => self.decision(entry, decision),
            Body::Outcome(outcome) => {
                if let Some(open) = self.open.remove(outcome.call.as_str())
                    && let Some(of) = open.of
                {
                    let calls = self.account.calls.entry(of).or_default();
                    *calls
                        .outcomes
                        .entry(filter::status(outcome.status))
                        .or_default() += 1;
                }
            }
            Body::TurnOpen(open) => {
                let by = (open.at.as_str(), open.by.clone());
                self.turn(
                    (&open.agent, open.turn),
                    What::Opened,
                    (&open.reason, by),
                    entry,
                );
            }
            Body::TurnClose(close) => {
                let by = (close.at.as_str(), close.by.clone());
                self.turn(
                    (&close.agent, close.turn),
                    What::Closed,
                    (&close.reason, by),
                    entry,
                );
            }
            Body::TurnFailed(failed) => {
                let by = (failed.at.as_str(), None);
                self.turn(
                    (&failed.agent, failed.turn),
                    What::Failed,
                    (&failed.reason, by),
                    entry,
                );
            }
            Body::Refusals(refusals) if self.is_whole(refusals.agent.as_deref(), entry) => {
                for count in &refusals.counts {
                    *self.account.refusals.entry(count.code.clone()).or_default() += count.n.0;
                }
            }
            Body::Approval(approval) if self.is_whole(approval.agent.as_deref(), entry) => {
                let verdict = match approval.verdict {
                    Decided::Approve => "approved",
                    Decided::Decline => "declined",
                    Decided::Withdraw => "withdrawn",
                };
                *self.account.approvals.entry(verdict).or_default() += 1;
            }
            _ => {}
        }
    }

    fn call(&mut self, entry: &Entry, call: &Call) {
        let Some(agent) = call.agent.clone().filter(|agent| self.is_one(agent)) else {
            return;
        };
        let turn = call.turn.map(|turn| turn.0);
        let counted = agent == self.account.asked.agent && self.is_in(entry, turn);
        let of = counted.then(|| (call.server.clone(), call.tool.clone()));
        if let Some(of) = &of {
            self.account.calls.entry(of.clone()).or_default().count += 1;
        }
        let open = Open { agent, turn, of };
        self.open.insert(call.call.as_str().to_owned(), open);
    }

    fn decision(&mut self, entry: &Entry, decision: &Decision) {
        let Some(open) = self.open.get(decision.call.as_str()) else {
            return;
        };
        if decision.gate != GATE || decision.decision != DecisionVerdict::Deny {
            return;
        }
        let mut facts = decision.bounds.as_ref().map_or_else(Map::new, turns::facts);
        let policy = decision.policy.map(|hash| hash.to_string().into());
        facts.extend(policy.map(|hash| ("policy_hash".to_owned(), hash)));
        let (agent, turn) = (open.agent.clone(), open.turn);
        let within = match agent == self.account.asked.agent {
            true => turn,
            false => self.current,
        };
        if self.is_in(entry, within) {
            self.wanted.push(entry.index);
        }
        self.facts.push(BookFact {
            index: entry.index,
            agent,
            turn,
            event: Event::Decision {
                call: decision.call.to_string(),
                gate: decision.gate.clone(),
                denied: true,
                rule: decision.rule.clone().unwrap_or_default(),
                aim: decision.aim.clone(),
                facts,
            },
        });
    }

    fn turn(
        &mut self,
        (agent, number): (&str, Count),
        what: What,
        (reason, (at, by)): (&str, (&str, Option<String>)),
        entry: &Entry,
    ) {
        if !self.is_one(agent) {
            return;
        }
        let number = number.0;
        self.facts.push(BookFact {
            index: entry.index,
            agent: agent.to_owned(),
            turn: Some(number),
            event: Event::Turn {
                what,
                reason: reason.to_owned(),
            },
        });
        if agent != self.account.asked.agent {
            return;
        }
        if what == What::Opened {
            self.current = self.current.max(Some(number));
        }
        if !self.is_in(entry, Some(number)) {
            return;
        }
        let turns = &mut self.account.turns;
        let found = turns.iter().position(|line| line.turn == number);
        let at_line = found.unwrap_or_else(|| {
            turns.push(TurnLine {
                agent: agent.to_owned(),
                turn: number,
                opened: None,
                ended: None,
            });
            turns.len() - 1
        });
        let mark = Mark {
            at: at.to_owned(),
            reason: reason.to_owned(),
            by,
            entry: entry.index,
        };
        // The first of a kind counts.
        let line = &mut turns[at_line];
        match what {
            What::Opened => {
                line.opened.get_or_insert(mark);
            }
            What::Closed | What::Failed => {
                line.ended.get_or_insert((what, mark));
            }
        }
    }

    /// Whether the report is about that agent or one that works for it.
    fn is_one(&self, agent: &str) -> bool {
        let asked = &self.account.asked;
        asked.agent == agent || asked.children.iter().any(|child| child == agent)
    }

    /// Whether an entry that belongs to no turn is of what was asked for.
    fn is_whole(&self, agent: Option<&str>, entry: &Entry) -> bool {
        agent == Some(&self.account.asked.agent)
            && self.account.asked.turn.is_none()
            && self.is_in(entry, None)
    }

    /// Whether an entry lies in the time and, where one was asked for, the turn.
    fn is_in(&self, entry: &Entry, turn: Option<u64>) -> bool {
        let asked = &self.account.asked;
        if asked.turn.is_some() && asked.turn != turn {
            return false;
        }
        if asked.since.is_none() && asked.until.is_none() {
            return true;
        }
        let at = entry
            .time
            .parse::<Timestamp>()
            .map(Timestamp::as_millisecond);
        at.is_ok_and(|at| {
            asked.since.is_none_or(|since| since <= at)
                && asked.until.is_none_or(|until| at < until)
        })
    }
}
