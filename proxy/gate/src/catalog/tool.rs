//! One tool as the gate knows it, and the catalog of one server. Which agent sees it is not decided here.

use std::sync::Arc;

use bytes::Bytes;
use countersign_permission::{Hash, Kind};

use super::{ControlFields, Schema, Validators};
use crate::facts::{ServerFacts, ToolSettings};

/// A tool that can be listed and held to its schema.
#[derive(Debug)]
pub struct Tool {
    /// Its server.
    pub server: Arc<str>,
    /// Its name as the server gives it, decoded; matched exactly, never normalised.
    pub name: Arc<str>,
    /// The item of `tools/list` as received.
    pub raw: Bytes,
    /// SHA-256 of its definition ([`super::definition_hash`]).
    pub definition: Hash,
    /// Read or write: as configured, made stricter (never laxer) by a duplicate in the same list.
    pub kind: Kind,
    /// The scope it needs.
    pub scope: Arc<str>,
    /// The closed schema: listed and enforced. The text is `schema.text()`.
    pub schema: Arc<Schema>,
    /// Its control fields.
    pub control: ControlFields,
    /// Its settings.
    pub settings: ToolSettings,
    /// Set where the server's own schema left the root open to any or typed members and closing took that away (`doctor` names
    /// `open_arguments` as the remedy).
    pub narrowed: bool,
}

/// A tool that is not served, and why. Its server's other tools stay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tool `{tool}` is set aside: {reason} (at `{pointer}`)")]
pub struct SetAside {
    /// Its name, or its position (`#3`) where it has none.
    pub tool: String,
    /// Where in the item, as a JSON Pointer.
    pub pointer: String,
    /// Why.
    pub reason: String,
}

/// The tools of one server.
#[derive(Debug, Default)]
pub struct Catalog {
    /// In the order of the list.
    pub tools: Vec<Arc<Tool>>,
    /// What is not served.
    pub set_aside: Vec<SetAside>,
}

impl Catalog {
    /// Builds the catalog from all items of all pages, as received. Called again when the list or the settings change; compiled
    /// schemas are taken from `validators`.
    #[must_use]
    pub fn build(_server: &ServerFacts, _items: &[Bytes], _validators: &mut Validators) -> Self {
        Self::default()
    }

    /// The tool of exactly this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tools.iter().find(|tool| &*tool.name == name)
    }
}
