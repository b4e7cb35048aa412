//! What a new permission says otherwise than the one before, member by member. Knows no words for a screen but its three directions.

use serde::Serialize;

use crate::document::{PermissionDocument, ServerTerms};
use crate::force::meet::{self, Changes, text};
use crate::force::{Terms, Way, server};

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The member: `servers.files.tools.write_file.danger`.
    pub member: String,
    /// What it was, as JSON text; nothing where it was not there.
    pub before: Option<String>,
    /// What it becomes.
    pub after: Option<String>,
    /// Whether that is less or more.
    pub direction: Direction,
}

/// Whether the new permission grants less or more at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// It grants more.
    More,
    /// Neither, or nobody can say.
    Other,
    /// It grants less.
    Less,
}

/// All differences, those that grant more first. What cannot be compared is never called less.
#[must_use]
pub fn differences(before: &PermissionDocument, after: &PermissionDocument) -> Vec<Difference> {
    let forth = one_way(before, after);
    let back = one_way(after, before);
    let mut all: Vec<Difference> = forth
        .into_iter()
        .map(|change| {
            let wider = back.iter().any(|other| {
                let same = (&other.member, &other.signed, &other.now)
                    == (&change.member, &change.now, &change.signed);
                same && other.way == Way::Narrowed
            });
            let direction = match (change.way, wider) {
                (Way::Narrowed, false) => Direction::Less,
                (Way::Ignored, true) => Direction::More,
                (Way::Narrowed, true) | (Way::Ignored, false) => Direction::Other,
            };
            Difference {
                member: change.member,
                before: change.signed,
                after: change.now,
                direction,
            }
        })
        .collect();
    all.sort_by(|a, b| (a.direction, &a.member).cmp(&(b.direction, &b.member)));
    all
}

fn one_way(a: &PermissionDocument, b: &PermissionDocument) -> Vec<crate::force::Change> {
    let mut found = Vec::new();
    let mut changes = Changes {
        all: &mut found,
        at: String::new(),
    };
    let later = |now: &crate::document::Time, then: &crate::document::Time| now < then;
    changes.stricter("expires_at", &a.expires_at, &b.expires_at, later);
    changes.stricter("not_before", &a.not_before, &b.not_before, |now, then| {
        later(then, now)
    });
    changes.signed("agent", &a.agent, &b.agent);
    changes.signed("purpose", &a.purpose, &b.purpose);
    changes.signed("executor", &a.executor, &b.executor);
    changes.signed("book.origin", &a.book.origin, &b.book.origin);
    let (old, new) = (Terms::from(a), Terms::from(b));
    meet::agent(&mut changes, a.agent.name.as_str(), &old, &new);
    for server in &a.servers {
        let name = server.name.as_str();
        let mut inside = changes.inside(&format!("servers.{name}"));
        match b.server(name) {
            Some(new) => servers(&mut inside, server, new),
            None => changes.note(
                &format!("servers.{name}"),
                Some(text(server)),
                None,
                Way::Narrowed,
            ),
        }
    }
    for server in b
        .servers
        .iter()
        .filter(|server| a.server(server.name.as_str()).is_none())
    {
        let member = format!("servers.{}", server.name);
        changes.note(&member, None, Some(text(server)), Way::Ignored);
    }
    found
}

fn servers(changes: &mut Changes<'_>, a: &ServerTerms, b: &ServerTerms) {
    changes.signed("identity", &a.identity, &b.identity);
    server::start(changes, a, b);
    server::passing(changes, a, b);
    for tool in &a.tools {
        let member = format!("tools.{}", tool.name);
        match b.tools.iter().find(|other| other.name == tool.name) {
            Some(new) => {
                let mut inside = changes.inside(&member);
                inside.signed("definition", &tool.definition, &new.definition);
                server::met(&mut inside, a.name.as_str(), tool, new);
            }
            None => changes.note(&member, Some(text(tool)), None, Way::Narrowed),
        }
    }
    for tool in &b.tools {
        if a.tools.iter().all(|other| other.name != tool.name) {
            changes.note(
                &format!("tools.{}", tool.name),
                None,
                Some(text(tool)),
                Way::Ignored,
            );
        }
    }
}
