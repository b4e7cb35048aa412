//! What a server listed last and what the settings make of it: the catalog, the pins of first-seen definitions, the facts of the
//! flow. Rebuilt when either side changed; decides nothing.

use std::sync::Arc;

use bytes::Bytes;
use countersign_gate::Facts;
use countersign_gate::catalog::{self, Catalog, Tool, Validators};
use countersign_gate::facts::FirstSeen;
use countersign_gate::ports::Registry;
use jiff::Timestamp;

use crate::settings::{Pages, Snapshot, closed};
use crate::store::Pin;

use super::book;
use super::{Opened, Writes};

/// The list as learned, and the last judgement built from it.
pub struct Shelf {
    server: Arc<str>,
    writes: Writes,
    items: Vec<Bytes>,
    version: u64,
    validators: Validators,
    judged: Option<Arc<Judged>>,
    recorded: book::Recorded,
}

/// Facts and catalog of one settings generation and one learned list.
pub struct Judged {
    generation: u64,
    version: u64,
    server: Arc<str>,
    catalog: Catalog,
    /// What the flow judges by.
    pub facts: Facts,
    /// How pages are handed to the client.
    pub pages: Pages,
}

impl Shelf {
    /// An empty shelf: no tool is known.
    pub fn new(server: Arc<str>, writes: Writes) -> Self {
        Self {
            server,
            writes,
            items: Vec::new(),
            version: 0,
            validators: Validators::default(),
            judged: None,
            recorded: book::Recorded::default(),
        }
    }

    /// Takes the pages of the whole list as received. A page that cannot be read contributes no tool.
    pub fn learn(&mut self, pages: &[Bytes]) {
        let mut items = Vec::new();
        for page in pages {
            match catalog::items(page) {
                Ok(found) => items.extend(found),
                Err(error) => {
                    tracing::warn!(server = &*self.server, %error, "a page of the server's tools cannot be read; none of it is shown")
                }
            }
        }
        self.items = items;
        self.version += 1;
    }

    /// The judgement of now.
    pub fn judged(&mut self, snapshot: &Snapshot, opened: &Opened, agent: &str) -> Arc<Judged> {
        if let Some(judged) = &self.judged
            && judged.generation == snapshot.generation
            && judged.version == self.version
        {
            return Arc::clone(judged);
        }
        let judged = Arc::new(self.build(snapshot, opened, agent));
        self.judged = Some(Arc::clone(&judged));
        judged
    }

    fn build(&mut self, snapshot: &Snapshot, opened: &Opened, agent: &str) -> Judged {
        // Before anything is judged by them: what happens under these settings stands after them in the book.
        if self
            .judged
            .as_ref()
            .is_none_or(|judged| judged.generation != snapshot.generation)
        {
            book::note_settings(opened.recorder(), opened.folder());
        }
        let facts = match self.writes {
            Writes::Run => facts(snapshot, opened),
            Writes::Previewed => facts(snapshot, opened).dry(),
        };
        let catalog = facts
            .server(&self.server)
            .map(|server| Catalog::build(server, &self.items, &mut self.validators))
            .unwrap_or_default();
        let facts = self.pinned(facts, &catalog, opened);
        self.recorded
            .note(opened.recorder(), agent, &self.server, &catalog, &facts);
        let pages = snapshot
            .state
            .settings()
            .and_then(|settings| {
                settings
                    .servers
                    .iter()
                    .find(|server| server.name.as_str() == &*self.server)
            })
            .map(|server| server.entry.pages)
            .unwrap_or_default();
        Judged {
            generation: snapshot.generation,
            version: self.version,
            server: Arc::clone(&self.server),
            catalog,
            facts,
            pages,
        }
    }

    /// Facts whose pins include every tool seen for the first time now. A pin that cannot be stored is not made: its tool stays closed.
    fn pinned(&self, facts: Facts, catalog: &Catalog, opened: &Opened) -> Facts {
        let known = facts.first_seen.get(&*self.server);
        let new: Vec<Pin> = catalog
            .tools
            .iter()
            .filter(|tool| !known.is_some_and(|known| known.contains_key(&*tool.name)))
            .map(|tool| Pin {
                tool: tool.name.to_string(),
                definition: tool.definition,
                text: String::from_utf8_lossy(&tool.raw).into_owned(),
            })
            .collect();
        if new.is_empty() {
            return facts;
        }
        let state = &opened.store().state;
        match state
            .pin_first_seen(&self.server, &new, Timestamp::now())
            .and_then(|_| state.pins())
        {
            Ok(pins) => facts.with_first_seen(Arc::new(pins)),
            Err(error) => {
                tracing::error!(server = &*self.server, %error, "new tools cannot be pinned; they stay closed");
                facts
            }
        }
    }
}

fn facts(snapshot: &Snapshot, opened: &Opened) -> Facts {
    let first_seen: Arc<FirstSeen> = match opened.store().state.pins() {
        Ok(pins) => Arc::new(pins),
        Err(error) => {
            tracing::error!(%error, "the pinned definitions cannot be read; every tool stays closed");
            Arc::default()
        }
    };
    snapshot.facts(first_seen).unwrap_or_else(|error| {
        tracing::error!(%error, "the settings cannot be used; everything is closed");
        closed(snapshot.generation).unwrap_or_else(|error| unreachable_closed(&error))
    })
}

/// Closed facts are made of defaults that the gate's own tests hold valid.
fn unreachable_closed(error: &countersign_gate::facts::FactsError) -> Facts {
    panic!("closed facts are not valid: {error}")
}

impl Registry for Judged {
    fn resolve(&self, server: Option<&str>, name: &str) -> Option<Arc<Tool>> {
        (server == Some(&*self.server))
            .then(|| self.catalog.find(name).cloned())
            .flatten()
    }

    fn tools(&self, server: Option<&str>) -> Vec<Arc<Tool>> {
        if server == Some(&*self.server) {
            self.catalog.tools.clone()
        } else {
            Vec::new()
        }
    }
}
