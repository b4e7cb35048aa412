//! One tool as the gate knows it, and the catalog of one server. Which agent sees it is not decided here.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use countersign_permission::{Danger, Hash, Kind};

use super::close::{Closing, Replay, Root, close};
use super::definition::hash_checked;
use super::inspect::{Unfit, short};
use super::{ControlFields, LazySchema, Schema, Validators};
use crate::facts::{OWN_TOOLS, ServerFacts, ToolSettings};
use crate::json;

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
    /// Read or write: as configured; a hint of the server may make a read a write, never the reverse.
    pub kind: Kind,
    /// The scope it needs.
    pub scope: Arc<str>,
    /// The closed schema: listed and enforced. The text is `schema.text()`.
    pub schema: Arc<Schema>,
    /// The same without control fields: what is sent fits it too. Needed only where a call has some.
    pub bare: LazySchema,
    /// Its control fields.
    pub control: ControlFields,
    /// When a call is dangerous, where its settings say that with a schema.
    pub danger: Option<Arc<Schema>>,
    /// Its settings.
    pub settings: ToolSettings,
    /// Set where the server's own schema left the root open by a word of its own and closing took that away (`doctor` names
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
    by_name: HashMap<Arc<str>, usize>,
}

impl Tool {
    /// Whether a call with these arguments is dangerous. What cannot be told is.
    #[must_use]
    pub fn is_dangerous(&self, arguments: &[u8]) -> bool {
        match &self.settings.danger {
            Danger::Never => false,
            Danger::Always => true,
            Danger::When(_) => self
                .danger
                .as_ref()
                .is_none_or(|schema| schema.may_fit(arguments)),
        }
    }
}

impl Catalog {
    /// Builds the catalog from all items of all pages, as received. Called again when the list or the settings change; compiled
    /// schemas are taken from `validators`. Two items of one name: one tool where their definitions are the same, else neither.
    #[must_use]
    pub fn build(server: &ServerFacts, items: &[Bytes], validators: &mut Validators) -> Self {
        let mut catalog = Self::default();
        let mut seen: HashMap<String, Seen> = HashMap::new();
        for (at, item) in items.iter().enumerate() {
            let name = match name_of(item) {
                Ok(name) => name,
                Err(unfit) => {
                    catalog.put_aside(format!("#{at}"), unfit);
                    continue;
                }
            };
            let definition = hash_checked(item);
            match seen.get_mut(&name) {
                None => {
                    seen.insert(
                        name.clone(),
                        Seen {
                            definition,
                            contradicted: false,
                        },
                    );
                }
                Some(first) => {
                    if first.definition != definition && !first.contradicted {
                        first.contradicted = true;
                        catalog.tools.retain(|tool| *tool.name != *name);
                        catalog.set_aside.retain(|aside| aside.tool != name);
                        catalog.put_aside(
                            name,
                            Unfit::at("/name", "two tools of this name, and they differ"),
                        );
                    }
                    continue;
                }
            }
            match tool(server, &name, item, definition, validators) {
                Ok(tool) => catalog.tools.push(Arc::new(tool)),
                Err(unfit) => catalog.put_aside(name, unfit),
            }
        }
        let named = catalog
            .tools
            .iter()
            .enumerate()
            .map(|(at, tool)| (Arc::clone(&tool.name), at));
        catalog.by_name = named.collect();
        catalog
    }

    /// The tool of exactly this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tools.get(*self.by_name.get(name)?)
    }

    fn put_aside(&mut self, tool: String, unfit: Unfit) {
        self.set_aside.push(SetAside {
            tool,
            pointer: unfit.pointer,
            reason: unfit.reason,
        });
    }
}

struct Seen {
    definition: Hash,
    contradicted: bool,
}

/// The decoded name of a raw item.
pub(super) fn name_of(item: &[u8]) -> Result<String, Unfit> {
    match json::check(item, json::MAX_DEPTH) {
        Ok(json::Kind::Object) => {}
        Ok(_) => return Err(Unfit::at("", "not an object")),
        Err(fault) => return Err(Unfit::at("", format!("not strict JSON: {fault}"))),
    }
    let name = json::member(item, "name").and_then(json::decode);
    name.map(std::borrow::Cow::into_owned)
        .ok_or_else(|| Unfit::at("/name", "no name"))
}

fn tool(
    server: &ServerFacts,
    name: &str,
    item: &Bytes,
    definition: Hash,
    validators: &mut Validators,
) -> Result<Tool, Unfit> {
    if OWN_TOOLS.contains(&name) {
        return Err(Unfit::at(
            "/name",
            format!("`{}` is the executor's own tool", short(name)),
        ));
    }
    let settings = server.tools.get(name).cloned().unwrap_or_default();
    let kind = settings.kind.stricter(hinted(item));
    let closing = Closing {
        kind,
        replay: if settings.replay {
            Replay::Yes
        } else {
            Replay::No
        },
        root: if settings.open_arguments {
            Root::AsDeclared
        } else {
            Root::Closed
        },
    };
    let inside = |unfit: Unfit| Unfit::at(format!("/inputSchema{}", unfit.pointer), unfit.reason);
    let closed = close(json::member(item, "inputSchema"), closing).map_err(inside)?;
    let schema = validators.get(closed.text.into()).map_err(inside)?;
    let danger = match &settings.danger {
        Danger::Never | Danger::Always => None,
        Danger::When(schema) => {
            let unfit = |unfit: Unfit| {
                let reason = format!("its `danger` is no schema: {}", unfit.reason);
                Unfit::at(unfit.pointer, reason)
            };
            Some(validators.get(schema.to_string().into()).map_err(unfit)?)
        }
    };
    let scope = settings.scope.clone().unwrap_or_else(|| {
        let right = if kind == Kind::Read { "read" } else { "write" };
        format!("{}:{right}", server.name)
    });
    Ok(Tool {
        server: Arc::clone(&server.name),
        name: name.into(),
        raw: item.clone(),
        definition,
        kind,
        scope: scope.into(),
        schema,
        bare: LazySchema::new(closed.bare.into()),
        control: closed.control,
        danger,
        settings,
        narrowed: closed.narrowed,
    })
}

/// What the server's own hints ask for: a write where it says that it destroys and does not say that it only reads.
fn hinted(item: &[u8]) -> Kind {
    let annotations = json::member(item, "annotations").unwrap_or_default();
    let says = |hint| json::member(annotations, hint) == Some(b"true");
    if says("destructiveHint") && !says("readOnlyHint") {
        Kind::Write
    } else {
        Kind::Read
    }
}
