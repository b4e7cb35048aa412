//! Signed terms and executor.json's terms, member by member: the stricter of both where one is, else what was signed. Every difference
//! is named. Knows no time and no signature.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;

use super::{Effective, Force, Terms, granted, server};
use crate::document::{
    BookTerms, Document, Payloads, PermissionDocument, PolicyTerms, ServerTerms,
};

/// One member in which executor.json differs from what was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The member: `servers.files.tools.write_file.danger`.
    pub member: String,
    /// What was signed, as JSON text; nothing where it was not there.
    pub signed: Option<String>,
    /// What executor.json says now.
    pub now: Option<String>,
    /// What came of it.
    pub way: Way,
}

/// What came of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It takes something away and counts already.
    Narrowed,
    /// It would give something, or something else: it does not count until it is signed. "Changed since you signed".
    Ignored,
}

/// The differences found so far, at one place of the settings.
pub(crate) struct Changes<'a> {
    pub(crate) all: &'a mut Vec<Change>,
    pub(crate) at: String,
}

impl Changes<'_> {
    /// The changes of a part of this one.
    pub(crate) fn inside(&mut self, name: &str) -> Changes<'_> {
        Changes {
            at: format!("{}{name}.", self.at),
            all: self.all,
        }
    }

    /// The value in force: `now` where it is stricter, else what was signed.
    pub(crate) fn stricter<T: Clone + PartialEq + Serialize>(
        &mut self,
        member: &str,
        signed: &T,
        now: &T,
        is_stricter: impl FnOnce(&T, &T) -> bool,
    ) -> T {
        if signed == now {
            return signed.clone();
        }
        let way = if is_stricter(now, signed) {
            Way::Narrowed
        } else {
            Way::Ignored
        };
        self.note(member, Some(text(signed)), Some(text(now)), way);
        match way {
            Way::Narrowed => now.clone(),
            Way::Ignored => signed.clone(),
        }
    }

    /// What was signed, whatever executor.json says.
    pub(crate) fn signed<T: Clone + PartialEq + Serialize>(
        &mut self,
        member: &str,
        signed: &T,
        now: &T,
    ) -> T {
        self.stricter(member, signed, now, |_, _| false)
    }

    /// The items that are in both.
    pub(crate) fn both<T: Clone + PartialEq + Serialize>(
        &mut self,
        member: &str,
        signed: &[T],
        now: &[T],
    ) -> Vec<T> {
        for gone in signed.iter().filter(|item| !now.contains(item)) {
            self.note(member, Some(text(gone)), None, Way::Narrowed);
        }
        for new in now.iter().filter(|item| !signed.contains(item)) {
            self.note(member, None, Some(text(new)), Way::Ignored);
        }
        signed
            .iter()
            .filter(|item| now.contains(item))
            .cloned()
            .collect()
    }

    /// The items of both, each of which takes something away.
    pub(crate) fn all_of<T: Clone + PartialEq + Serialize>(
        &mut self,
        member: &str,
        signed: &[T],
        now: &[T],
    ) -> Vec<T> {
        for gone in signed.iter().filter(|item| !now.contains(item)) {
            self.note(member, Some(text(gone)), None, Way::Ignored);
        }
        let added: Vec<T> = now
            .iter()
            .filter(|item| !signed.contains(item))
            .cloned()
            .collect();
        for new in &added {
            self.note(member, None, Some(text(new)), Way::Narrowed);
        }
        signed.iter().cloned().chain(added).collect()
    }

    pub(crate) fn note(
        &mut self,
        member: &str,
        signed: Option<String>,
        now: Option<String>,
        way: Way,
    ) {
        self.all.push(Change {
            member: format!("{}{member}", self.at),
            signed,
            now,
            way,
        });
    }
}

/// A limit above: none is the widest.
pub(crate) fn lower<T: PartialOrd>(now: &Option<T>, signed: &Option<T>) -> bool {
    match (now, signed) {
        (Some(now), Some(signed)) => now < signed,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

/// The scopes of all tools.
pub(crate) fn labels(servers: &[ServerTerms]) -> BTreeSet<String> {
    let of = |server: &ServerTerms| {
        let name = server.name.to_string();
        let labels: Vec<String> = server
            .tools
            .iter()
            .map(|tool| tool.scope_on(&name))
            .collect();
        labels
    };
    servers.iter().flat_map(of).collect()
}

pub(super) fn meet(document: &Document<PermissionDocument>, effective: &Effective) -> Force {
    let signed = Terms::from(document.body());
    let mut found = Vec::new();
    let mut changes = Changes {
        all: &mut found,
        at: String::new(),
    };
    let name = document.body().agent.name.as_str();
    let mut terms = agent(&mut changes, name, &signed, &effective.terms);
    let (servers, out) = server::servers(&mut changes, &signed.servers, effective);
    terms.servers = servers;
    Force {
        permission: Arc::new(granted(document, &terms)),
        terms,
        requires_approval: effective.requires_approval,
        out,
        changed: found,
    }
}

/// The terms in force but for the servers, which are left out.
pub(crate) fn agent(changes: &mut Changes<'_>, name: &str, signed: &Terms, now: &Terms) -> Terms {
    let mut agent = changes.inside(&format!("agents.{name}"));
    let mode = agent.stricter("mode", &signed.mode, &now.mode, |now, signed| now > signed);
    let key_expires_at = agent.stricter(
        "expires_at",
        &signed.key_expires_at,
        &now.key_expires_at,
        lower,
    );
    let workspace = agent.signed("workspace", &signed.workspace, &now.workspace);
    let scopes = scopes(&mut agent, signed, now);
    let write_policies = policies(&mut agent, &signed.write_policies, &now.write_policies);
    let turn_idle_minutes = agent.stricter(
        "turn_idle_minutes",
        &signed.turn_idle_minutes,
        &now.turn_idle_minutes,
        // 0 is never: the strictest.
        |now, signed| *signed != 0 && (*now == 0 || now > signed),
    );
    let book = book(&mut changes.inside("book"), &signed.book, &now.book);
    Terms {
        mode,
        key_expires_at,
        scopes: Some(scopes),
        workspace,
        write_policies,
        turn_idle_minutes,
        book,
        servers: Vec::new(),
    }
}

/// The scopes in force, and those that went.
fn scopes(agent: &mut Changes<'_>, signed: &Terms, now: &Terms) -> Vec<String> {
    let all: Vec<String> = match &signed.scopes {
        Some(scopes) => scopes.clone(),
        None => labels(&signed.servers).into_iter().collect(),
    };
    match (&now.scopes, &signed.scopes) {
        (Some(now), _) => agent.both("scopes", &all, now),
        (None, None) => all,
        (None, Some(_)) => {
            agent.note("scopes", Some(text(&all)), None, Way::Ignored);
            all
        }
    }
}

/// Every policy that has to allow a write.
fn policies(
    agent: &mut Changes<'_>,
    signed: &[PolicyTerms],
    now: &[PolicyTerms],
) -> Vec<PolicyTerms> {
    let wider = |now: &PolicyTerms| signed.iter().any(|signed| is_wider(now, signed));
    let mut in_force = signed.to_vec();
    for policy in now.iter().filter(|policy| !signed.contains(policy)) {
        let way = if wider(policy) {
            Way::Ignored
        } else {
            in_force.push(policy.clone());
            Way::Narrowed
        };
        agent.note(
            "write_policy",
            signed.first().map(text),
            Some(text(policy)),
            way,
        );
    }
    if let (Some(policy), []) = (signed.first(), now) {
        agent.note("write_policy", Some(text(policy)), None, Way::Ignored);
    }
    in_force
}

/// Whether a policy allows by its text all that the other does, so that it adds nothing to it.
fn is_wider(now: &PolicyTerms, signed: &PolicyTerms) -> bool {
    let within = |a: &[String], b: &[String]| a.iter().all(|rule| b.contains(rule));
    now.version == signed.version
        && now.shell == signed.shell
        && within(&signed.allow_writes, &now.allow_writes)
        && within(&now.deny_writes, &signed.deny_writes)
}

/// What the book keeps: more evidence is stricter.
fn book(changes: &mut Changes<'_>, signed: &BookTerms, now: &BookTerms) -> BookTerms {
    BookTerms {
        // Which book it is was compared with the executor's own.
        origin: signed.origin.clone(),
        reads: changes.stricter("reads", &signed.reads, &now.reads, |now, _| *now),
        payloads: changes.stricter("payloads", &signed.payloads, &now.payloads, |now, _| {
            *now == Payloads::Keep
        }),
        retain: changes.stricter("retain", &signed.retain, &now.retain, |now, signed| {
            lower(signed, now)
        }),
        allow_network_folder: changes.stricter(
            "allow_network_folder",
            &signed.allow_network_folder,
            &now.allow_network_folder,
            |now, _| !*now,
        ),
    }
}

/// A value as the JSON text a person can compare.
pub(crate) fn text<T: Serialize>(value: &T) -> String {
    json!(value).to_string()
}
