//! `write_denials`: what was refused in an agent's turns and how each ended, folded from the book's own facts and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::state::What;
use crate::policy::{FACTS, GATE, STRIKE};

/// One fact of the book, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct BookFact {
    /// The entry's index.
    pub index: u64,
    /// The agent.
    pub agent: String,
    /// The number of its turn: of a turn's own entry always, of a decision where its call names one.
    pub turn: Option<u64>,
    /// What.
    pub event: Event,
}

/// What the fold looks at.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// `turn.open`, `turn.close`, `turn.failed` with its reason.
    Turn {
        /// Which.
        what: What,
        /// Why; for a failed turn, `write_policy_denied` makes its newest denial fatal.
        reason: String,
    },
    /// A `decision` entry.
    Decision {
        /// The call.
        call: String,
        /// The gate.
        gate: String,
        /// Whether it denied.
        denied: bool,
        /// Its rule.
        rule: String,
        /// What it aimed at.
        aim: Option<String>,
        /// What was recorded of the denial ([`FACTS`]); other members are ignored.
        facts: Map<String, Value>,
    },
}

/// How a denial ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The turn went on and ended in order.
    Recovered,
    /// It ended the turn.
    Fatal,
    /// The turn has not ended, or died without a word.
    Unresolved,
}

/// One counted denial.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteDenial {
    /// The entry's index.
    pub index: u64,
    /// The agent it was made to.
    pub agent: String,
    /// The turn's number, where the call names one.
    pub turn: Option<u64>,
    /// The call.
    pub call: String,
    /// What the call aimed at.
    pub aim: Option<String>,
    /// What was recorded.
    pub facts: Map<String, Value>,
    /// How it ended.
    pub disposition: Disposition,
}

/// All denials of one agent, its child keys included, or that they cannot be told.
#[derive(Clone, Debug, PartialEq)]
pub enum WriteDenials {
    /// Every one, in the book's order.
    Known(Vec<WriteDenial>),
    /// The record cannot be read: those that could, and no count.
    Unavailable {
        /// Why.
        error: String,
        /// What was read.
        denials: Vec<WriteDenial>,
    },
}

impl WriteDenials {
    /// Folds the facts of the named agents (an agent and its children); those of others are passed over. The first error makes the
    /// whole unavailable.
    pub fn fold<E: std::fmt::Display>(
        agents: &[&str],
        facts: impl IntoIterator<Item = Result<BookFact, E>>,
    ) -> Self {
        let mut fold = Fold::default();
        for fact in facts {
            let fact = match fact {
                Ok(fact) => fact,
                Err(error) => {
                    return Self::Unavailable {
                        error: error.to_string(),
                        denials: fold.denials,
                    };
                }
            };
            if agents.contains(&fact.agent.as_str()) {
                fold.take(fact);
            }
        }
        Self::Known(fold.denials)
    }

    /// Several as one: unavailable if any is, all that was read listed.
    #[must_use]
    pub fn together(parts: Vec<Self>) -> Self {
        let mut all = Vec::new();
        let mut errors = Vec::new();
        for part in parts {
            match part {
                Self::Known(denials) => all.extend(denials),
                Self::Unavailable { error, denials } => {
                    all.extend(denials);
                    errors.push(error);
                }
            }
        }
        if errors.is_empty() {
            Self::Known(all)
        } else {
            let error = format!("{} unavailable: {}", errors.len(), errors.join("; "));
            Self::Unavailable {
                error,
                denials: all,
            }
        }
    }

    /// As it stands in reports and exports: `{count, denials}`, or `{status, error, denials}` without a count.
    #[must_use]
    pub fn document(&self) -> Value {
        match self {
            Self::Known(denials) => json!({"count": denials.len(), "denials": listed(denials)}),
            Self::Unavailable { error, denials } => {
                json!({"status": "unavailable", "error": error, "denials": listed(denials)})
            }
        }
    }
}

impl Disposition {
    /// Its name in reports.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Recovered => "recovered",
            Self::Fatal => "fatal",
            Self::Unresolved => "unresolved",
        }
    }
}

/// The automaton: a turn's denials wait until the turn says how it ended. An entry of a turn may stand later in the book than what came
/// after it, so a denial belongs to the turn its call names; one that names none to the turn it stands in.
#[derive(Default)]
struct Fold {
    denials: Vec<WriteDenial>,
    /// Indexes of the denials that wait, by agent.
    pending: BTreeMap<String, Vec<usize>>,
    /// Entries of turns seen: a second one says nothing new.
    seen: BTreeSet<(String, What, u64)>,
}

impl Fold {
    fn take(&mut self, fact: BookFact) {
        let pending = self.pending.entry(fact.agent.clone()).or_default();
        match fact.event {
            Event::Turn { what, reason } => {
                if let Some(number) = fact.turn
                    && !self.seen.insert((fact.agent, what, number))
                {
                    return;
                }
                let denials = &mut self.denials;
                let is_of = |at: &usize| {
                    let of = denials[*at].turn;
                    of.is_none() || fact.turn.is_none() || of == fact.turn
                };
                let (mut of, others): (Vec<usize>, Vec<usize>) = pending.drain(..).partition(is_of);
                *pending = others;
                if what == What::Opened {
                    // Opened again without an end: the turn before died without a word, its denials stay unresolved. What names
                    // this very turn waits on for its end.
                    pending.extend(of.into_iter().filter(|at| denials[*at].turn.is_some()));
                    pending.sort_unstable();
                    return;
                }
                let newest = (what == What::Failed && reason == STRIKE).then(|| of.pop());
                for at in of {
                    denials[at].disposition = Disposition::Recovered;
                }
                if let Some(at) = newest.flatten() {
                    denials[at].disposition = Disposition::Fatal;
                }
            }
            Event::Decision {
                call,
                gate,
                denied,
                rule,
                aim,
                facts,
            } => {
                if !denied || gate != GATE || rule == NO_STRIKE {
                    return;
                }
                let mut kept: Map<String, Value> = facts
                    .into_iter()
                    .filter(|(name, value)| FACTS.contains(&name.as_str()) && !value.is_null())
                    .collect();
                kept.entry("rule").or_insert_with(|| rule.into());
                pending.push(self.denials.len());
                self.denials.push(WriteDenial {
                    index: fact.index,
                    agent: fact.agent,
                    turn: fact.turn,
                    call,
                    aim,
                    facts: kept,
                    disposition: Disposition::Unresolved,
                });
            }
        }
    }
}

/// The rule whose denials are of another kind.
const NO_STRIKE: &str = "shell_disabled";

fn listed(denials: &[WriteDenial]) -> Vec<Value> {
    const SHOWN: [&str; 9] = [
        "tool",
        "symlink_component",
        "uninspectable_component",
        "matched_rule",
        "policy_id",
        "policy_hash",
        "policy_version",
        "token",
        "other_paths",
    ];
    let list = denials.iter().map(|denial| {
        let mut members = Map::new();
        let fact = |name: &str| denial.facts.get(name).cloned();
        // The aim is what the call named, not where looking at it stopped.
        let aim = ["requested_path", "requested_command"]
            .into_iter()
            .find_map(fact)
            .or_else(|| denial.aim.clone().map(Value::from))
            .or_else(|| fact("normalized_path"));
        members.extend(aim.map(|aim| ("normalized_path".to_string(), aim)));
        for name in SHOWN {
            members.extend(fact(name).map(|value| (name.to_string(), value)));
        }
        if let (None, Some(rule)) = (members.get("matched_rule"), fact("rule")) {
            members.insert("matched_rule".to_string(), rule);
        }
        members.insert("agent".to_string(), denial.agent.clone().into());
        members.extend(denial.turn.map(|turn| ("turn".to_string(), turn.into())));
        members.insert("call_id".to_string(), denial.call.clone().into());
        members.insert("seq".to_string(), denial.index.into());
        members.insert("disposition".to_string(), denial.disposition.text().into());
        Value::Object(members)
    });
    list.collect()
}
