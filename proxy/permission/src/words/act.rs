//! An act as a person reads it.

use super::call::section;
use super::{Line, Page, Part, Source};
use crate::document::{Act, ActDocument, Document};

/// The page of an act.
#[must_use]
pub fn act_page(document: &Document<ActDocument>) -> Page {
    let body = document.body();
    let until = Line::ours(format!("Done once, until {}", body.expires_at));
    let sections = vec![section(Part::Expiry, vec![until])];
    Page::of(document.hash(), title(&body.act), sections)
}

fn title(act: &Act) -> Line {
    match act {
        Act::TurnOpen { agent } => {
            Line::ours("Open a new turn for the agent ").quote(Source::Settings, agent.as_str())
        }
        Act::BookErase { call } => {
            Line::ours("Erase what was kept of the call ").quote(Source::Settings, call)
        }
        Act::BookPrune { before } => {
            Line::ours(format!("Remove the book's entries before number {before}"))
        }
        Act::BookNewEra { size, root } => Line::ours(format!(
            "Begin the book anew behind {size} entries with root {root}"
        )),
        Act::KeyRotate { from, to } => Line::ours(format!("Replace the key {from} by {to}")),
        Act::CopyRemove { copy } => {
            Line::ours("No longer keep the copy ").quote(Source::Settings, copy)
        }
        Act::SecretUse {
            secret,
            server,
            identity,
        } => Line::ours("Hand the secret ")
            .quote(Source::Settings, secret)
            .and(" to the server ")
            .quote(Source::Settings, server.as_str())
            .and(format!(", which is now {identity}")),
        Act::ClockReset { last, now } => Line::ours(format!(
            "The clock is right: it is {now}, although the book's last entry is of {last}"
        )),
        Act::PersonWrites { servers } if servers.is_empty() => {
            Line::ours("Let your own session write through no server")
        }
        Act::PersonWrites { servers } => {
            let start = Line::ours("Let your own session write through");
            servers.iter().fold(start, |line, name| {
                line.and(" ").quote(Source::Settings, name.as_str())
            })
        }
    }
}
