//! An agent's rights at one moment: the key's scopes, the permission in force and executor.json, intersected. Computed here and
//! nowhere else: by step 3 for each request, and by the report of what is open.

use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_permission::{Pin, in_force};
use jiff::Timestamp;

use super::call::Agent;
use super::visible::{granted, pinned};
use crate::availability::Closed;
use crate::catalog::Tool;
use crate::facts::{AgentFacts, Facts};

/// The agent with its rights at `now`. Whether its key holds is not judged here.
pub(super) fn agent(
    facts: &Facts,
    agent: &Arc<AgentFacts>,
    key_scopes: Option<&[String]>,
    now: Timestamp,
) -> Agent {
    let in_force = in_force(agent.permission.as_ref(), facts.executor.development, now);
    let mut agent = Agent {
        facts: Arc::clone(agent),
        in_force,
        scopes: BTreeSet::new(),
        expires_at: agent.expires_at,
    };
    let open = |scope: &&String| {
        agent
            .facts
            .scopes
            .as_ref()
            .is_none_or(|set| set.contains(*scope))
            && key_scopes.is_none_or(|list| list.contains(*scope))
    };
    // A permission is for the agent it names.
    let mine = agent
        .permission()
        .filter(|permission| permission.agent == agent.facts.name);
    agent.scopes = mine
        .map(|permission| &permission.scopes)
        .into_iter()
        .flatten()
        .filter(open)
        .cloned()
        .collect();
    agent
}

/// The same, for the report of what is open.
pub(crate) struct Rights(Agent);

impl Rights {
    pub fn of(
        facts: &Facts,
        agent_facts: &Arc<AgentFacts>,
        key_scopes: Option<&[String]>,
        now: Timestamp,
    ) -> Self {
        Self(agent(facts, agent_facts, key_scopes, now))
    }

    /// Why these rights close a tool, if they do.
    pub fn closes(&self, facts: &Facts, tool: &Tool) -> Option<Closed> {
        let pin = match granted(&self.0, tool) {
            Ok(pin) => pin,
            Err(refusal) => {
                return Some(Closed::NoPermission {
                    detail: refusal.sentence,
                });
            }
        };
        let refusal = pinned(facts, pin, tool).err()?;
        Some(Closed::DefinitionChanged {
            detail: refusal.sentence,
        })
    }
}

/// Why a tool is closed to somebody who has every right.
pub(crate) fn closes_by_pin(facts: &Facts, tool: &Tool) -> Option<Closed> {
    let refusal = pinned(facts, Pin::FirstSeen, tool).err()?;
    Some(Closed::DefinitionChanged {
        detail: refusal.sentence,
    })
}
