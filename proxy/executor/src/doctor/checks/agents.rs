//! The agents' keys and what they are granted.

use jiff::Timestamp;

use crate::commands::Context;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::store::StateDb;

use super::super::Found;

pub(in crate::doctor) fn agents(context: &Context, settings: &Settings) -> Vec<Found> {
    let state = match StateDb::open(&context.folder) {
        Err(_) => {
            return vec![Found::warn(
                "not looked at, since state.db can't be used",
                "",
            )];
        }
        Ok(state) => state,
    };
    let now = Timestamp::now();
    let mut found = Vec::new();
    for agent in &settings.agents {
        let again = format!(
            "`countersign agent revoke {0}`, then `countersign agent add {0}`",
            agent.name
        );
        let trouble = match state.key(&agent.entry.key) {
            Err(fault) => Some(fault.to_string()),
            Ok(None) => Some("has a key that state.db does not know".to_owned()),
            Ok(Some(record)) if record.agent != agent.name.as_str() => {
                Some("has another agent's key".to_owned())
            }
            Ok(Some(record)) if record.revoked_at.is_some() => Some("has a revoked key".to_owned()),
            Ok(Some(record))
                if record
                    .expires_at
                    .or(agent.expires_at)
                    .is_some_and(|end| end <= now) =>
            {
                Some("has an expired key".to_owned())
            }
            Ok(Some(_)) => None,
        };
        if let Some(trouble) = trouble {
            found.push(Found::fail(Problem::new(
                "agent_key",
                format!("agent `{}` {trouble}", agent.name),
                again,
            )));
        }
        for server in agent
            .entry
            .servers
            .iter()
            .flatten()
            .filter(|server| settings.server(server).is_none())
        {
            found.push(Found::warn(
                format!(
                    "agent `{}` may use `{}`, which is no server",
                    agent.name,
                    crate::commands::plain(server)
                ),
                "add the server, or take it out of executor.json",
            ));
        }
    }
    if found.is_empty() {
        found.push(match settings.agents.len() {
            0 => Found::warn("there is none", "`countersign agent add NAME`"),
            many => Found::ok(format!("{many}, their keys are good")),
        });
    }
    found
}

pub(in crate::doctor) fn permission(_context: &Context, settings: &Settings) -> Vec<Found> {
    match settings.executor.development {
        true => vec![Found::warn(
            "(development): an unsigned permission counts, everything that is not closed is granted",
            "for real work, make an executor without --development",
        )],
        false => vec![Found::warn(
            "none is signed, so nothing is granted",
            "this version can't sign one yet; --development at `init` does without",
        )],
    }
}
