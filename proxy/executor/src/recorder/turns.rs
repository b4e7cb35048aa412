//! What happens to an agent's turns, and what a write policy looked at, as entries. Owns their wording and how much of a text that
//! others chose an entry has room for; refuses to know when they are written.

use countersign_book::{Bounds, Count, Draft, TurnClose, TurnFailed, TurnOpen, hide_secrets};
use countersign_gate::turn::{TurnFact, What};
use jiff::Timestamp;
use serde_json::{Map, Value};

/// Bytes of JSON that `bounds` may have, and what a text is cut to until it has no more.
const ROOM: usize = 10 * 1024;
const CUTS: [usize; 4] = [1024, 512, 192, 64];

/// The entry of a fact.
#[must_use]
pub fn draft(fact: &TurnFact) -> Draft {
    let (agent, at, reason) = (fact.agent.clone(), moment(fact.at), fact.reason.clone());
    let turn = Count(fact.turn);
    let by = by(&fact.reason).map(str::to_owned);
    match fact.what {
        What::Opened => Draft::new(TurnOpen {
            agent,
            at,
            by,
            reason,
            turn,
        }),
        What::Closed => Draft::new(TurnClose {
            agent,
            at,
            by,
            reason,
            turn,
        }),
        What::Failed => Draft::new(TurnFailed {
            agent,
            at,
            reason,
            turn,
        }),
    }
}

/// What a decision records of a write: members of [`countersign_gate::policy::FACTS`], but for the hash and the class of the rule, which
/// are the decision's `policy` and `rule`. Nothing where there is no such member. Secrets are hidden.
#[must_use]
pub fn bounds(facts: &Map<String, Value>) -> Option<Bounds> {
    CUTS.into_iter()
        .find_map(|cut| {
            let bounds = cut_to(facts, cut);
            let length = serde_json::to_vec(&bounds).map_or(usize::MAX, |bytes| bytes.len());
            (length <= ROOM).then_some(bounds)
        })
        .filter(|bounds| *bounds != Bounds::default())
}

/// The same members, as `write_denials` takes them from an entry.
#[must_use]
pub fn facts(bounds: &Bounds) -> Map<String, Value> {
    match serde_json::to_value(bounds) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// A time as entries spell it.
#[must_use]
pub fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// The command or program of a person's act.
fn by(reason: &str) -> Option<&'static str> {
    match reason {
        "person_app" => Some("countersign app"),
        "person_command" => Some("countersign turn open"),
        "person_hook" => Some("a prompt hook"),
        _ => None,
    }
}

fn cut_to(facts: &Map<String, Value>, most: usize) -> Bounds {
    let text = |name: &str| Some(cut(facts.get(name)?.as_str()?, most));
    let others = facts.get("other_paths").and_then(Value::as_array);
    Bounds {
        matched_rule: text("matched_rule"),
        normalized_path: text("normalized_path"),
        other_paths: others
            .into_iter()
            .flatten()
            .filter_map(|path| Some(cut(path.as_str()?, most)))
            .collect(),
        policy_id: text("policy_id"),
        policy_version: facts
            .get("policy_version")
            .and_then(Value::as_u64)
            .map(Count),
        requested_command: text("requested_command"),
        requested_path: text("requested_path"),
        symlink_component: text("symlink_component"),
        token: text("token"),
        tool: text("tool"),
        uninspectable_component: text("uninspectable_component"),
    }
}

fn cut(text: &str, most: usize) -> String {
    let hidden = hide_secrets(text);
    match hidden.char_indices().nth(most) {
        None => hidden,
        Some((at, _)) => format!("{}…", &hidden[..at]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at() -> Timestamp {
        "2026-11-30T17:00:00.5Z".parse().unwrap()
    }

    fn check(what: What, reason: &str, want: &str) {
        let fact = TurnFact {
            agent: "a".to_owned(),
            turn: 3,
            what,
            reason: reason.to_owned(),
            at: at(),
        };
        let shown = format!("{:?}", draft(&fact));
        assert!(shown.contains(want), "{shown}");
        assert!(shown.contains("2026-11-30T17:00:00.500Z") && shown.contains("Count(3)"));
    }

    #[test]
    fn a_fact_becomes_the_entry_of_its_kind_and_a_persons_act_says_by_what() {
        check(What::Opened, "first_call", "TurnOpen");
        check(What::Opened, "first_call", "by: None");
        check(What::Opened, "person_command", "countersign turn open");
        check(What::Closed, "person_app", "countersign app");
        check(What::Closed, "idle", "by: None");
        check(What::Failed, "write_policy_denied", "TurnFailed");
    }

    #[test]
    fn p44_only_what_is_known_of_a_denial_is_recorded_and_it_always_has_room() {
        let hostile = "\\\"\u{1f600}".repeat(600);
        let mut all = Map::new();
        for name in countersign_gate::policy::FACTS {
            all.insert(name.to_owned(), hostile.clone().into());
        }
        all.insert("other_paths".to_owned(), vec![hostile; 8].into());
        all.insert("policy_version".to_owned(), 1.into());
        all.insert("next_actions".to_owned(), json!(["no"]));
        let bounds = bounds(&all).unwrap();
        assert!(serde_json::to_vec(&bounds).unwrap().len() <= ROOM);
        let back = facts(&bounds);
        let mut known: Vec<&str> = countersign_gate::policy::FACTS.to_vec();
        known.retain(|name| !["policy_hash", "rule"].contains(name));
        known.sort_unstable();
        let mut names: Vec<&String> = back.keys().collect();
        names.sort_unstable();
        assert_eq!(names, known);
        assert_eq!(super::bounds(&Map::new()), None);
    }

    #[test]
    fn b35_a_secret_in_a_refused_command_does_not_reach_the_record() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let facts = json!({"requested_command": format!("curl -H 'Authorization: token {token}' /etc/x"), "token": "/etc/x"});
        let bounds = bounds(facts.as_object().unwrap()).unwrap();
        let command = bounds.requested_command.unwrap();
        assert!(
            !command.contains(&token) && command.contains("hidden"),
            "{command}"
        );
        assert_eq!(bounds.token.as_deref(), Some("/etc/x"));
    }
}
