//! What must be known of a schema before it is compiled: its dialect, that it stays local and small, what its root is made of.
//! Works on the parsed value; the text is edited elsewhere.

use std::collections::{HashMap, HashSet};

use jsonschema::Draft;
use serde_json::{Map, Value};

use crate::json;

/// Largest schema text, in bytes.
pub const MAX_BYTES: usize = 256 * 1024;
/// Deepest nesting of a schema's text.
pub const MAX_DEPTH: usize = 64;
/// Most sub-schemas.
pub const MAX_SCHEMAS: usize = 5_000;
/// Most schemas that one value may have to be held against in one place, branches and references followed.
const MAX_FANOUT: u64 = 10_000;
/// Longest chain of references and branches in one place.
const MAX_CHAIN: usize = 64;

/// A schema that cannot be held, where and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// JSON Pointer into the schema.
    pub pointer: String,
    /// Why.
    pub reason: String,
}

impl Unfit {
    pub(super) fn at(pointer: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            reason: reason.into(),
        }
    }
}

/// Where a keyword holds schemas.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    One,
    List,
    Map,
}

/// Keywords that hold schemas: how, and whether those apply to the same value as the schema they stand in.
const APPLICATORS: [(&str, Holds, bool); 23] = [
    ("allOf", Holds::List, true),
    ("anyOf", Holds::List, true),
    ("oneOf", Holds::List, true),
    ("not", Holds::One, true),
    ("if", Holds::One, true),
    ("then", Holds::One, true),
    ("else", Holds::One, true),
    ("dependentSchemas", Holds::Map, true),
    ("dependencies", Holds::Map, true),
    ("additionalItems", Holds::One, false),
    ("additionalProperties", Holds::One, false),
    ("contains", Holds::One, false),
    ("contentSchema", Holds::One, false),
    ("items", Holds::One, false),
    ("items", Holds::List, false),
    ("prefixItems", Holds::List, false),
    ("propertyNames", Holds::One, false),
    ("unevaluatedItems", Holds::One, false),
    ("unevaluatedProperties", Holds::One, false),
    ("$defs", Holds::Map, false),
    ("definitions", Holds::Map, false),
    ("patternProperties", Holds::Map, false),
    ("properties", Holds::Map, false),
];

const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Keywords that compare or divide numbers, or values that may hold them.
const NUMERIC: [&str; 7] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "divisibleBy",
    "uniqueItems",
];

/// A schema looked through.
pub struct Inspected<'a> {
    root: &'a Map<String, Value>,
    whole: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
    schemas: Vec<(String, &'a Map<String, Value>)>,
    /// Whether some keyword compares numbers, so that a number that cannot be judged exactly must be refused.
    pub compares_numbers: bool,
}

/// Parses a schema's text within the bounds.
pub fn parse(text: &[u8]) -> Result<Value, Unfit> {
    if text.len() > MAX_BYTES {
        return Err(Unfit::at(
            "",
            format!("the schema has {} bytes, more than {MAX_BYTES}", text.len()),
        ));
    }
    json::check(text, MAX_DEPTH)
        .map_err(|fault| Unfit::at("", format!("the schema is not usable JSON: {fault}")))?;
    serde_json::from_slice(text)
        .map_err(|error| Unfit::at("", format!("the schema cannot be read: {error}")))
}

/// The dialect `$schema` names; 2020-12 where there is none (MCP's default).
pub fn dialect(root: &Map<String, Value>) -> Result<Draft, Unfit> {
    const KNOWN: [(&str, Draft); 5] = [
        ("json-schema.org/draft-04/schema", Draft::Draft4),
        ("json-schema.org/draft-06/schema", Draft::Draft6),
        ("json-schema.org/draft-07/schema", Draft::Draft7),
        ("json-schema.org/draft/2019-09/schema", Draft::Draft201909),
        ("json-schema.org/draft/2020-12/schema", Draft::Draft202012),
    ];
    let Some(named) = root.get("$schema") else {
        return Ok(Draft::Draft202012);
    };
    let text = named.as_str().unwrap_or_default();
    let bare = text.trim_end_matches('#');
    let bare = bare
        .strip_prefix("http://")
        .or_else(|| bare.strip_prefix("https://"))
        .unwrap_or(bare);
    let known = KNOWN
        .iter()
        .find(|(name, _)| *name == bare)
        .map(|(_, draft)| *draft);
    known.ok_or_else(|| {
        Unfit::at(
            "/$schema",
            format!("dialect `{}` is not supported", short(text)),
        )
    })
}

/// Whether the dialect has `unevaluatedProperties`, and keywords beside `$ref` count.
pub fn is_modern(draft: Draft) -> bool {
    matches!(draft, Draft::Draft201909 | Draft::Draft202012)
}

/// Looks a schema through: references are local and lead somewhere, nothing is too large, too branched or circular.
pub fn inspect(whole: &Value) -> Result<Inspected<'_>, Unfit> {
    let root = whole
        .as_object()
        .ok_or_else(|| Unfit::at("", "the schema is not an object"))?;
    let mut found = Inspected {
        root,
        whole,
        anchors: HashMap::new(),
        schemas: Vec::new(),
        compares_numbers: false,
    };
    found.walk(String::new(), whole)?;
    let mut weights = HashMap::new();
    for at in 0..found.schemas.len() {
        let (pointer, schema) = &found.schemas[at];
        found.weigh(schema, pointer, &mut weights, &mut Vec::new())?;
    }
    Ok(found)
}

impl<'a> Inspected<'a> {
    fn walk(&mut self, pointer: String, schema: &'a Value) -> Result<(), Unfit> {
        let Value::Object(members) = schema else {
            return Ok(());
        };
        if self.schemas.len() >= MAX_SCHEMAS {
            return Err(Unfit::at(
                pointer,
                format!("more than {MAX_SCHEMAS} sub-schemas"),
            ));
        }
        self.local_only(&pointer, members)?;
        for name in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(anchor)) = members.get(name) {
                self.anchors.insert(anchor, schema);
            }
        }
        self.compares_numbers |= compares_numbers(members);
        self.schemas.push((pointer.clone(), members));
        for (keyword, holds, _) in APPLICATORS {
            let Some(value) = members.get(keyword) else {
                continue;
            };
            for (step, child) in children(value, holds) {
                self.walk(format!("{pointer}/{keyword}{step}"), child)?;
            }
        }
        Ok(())
    }

    fn local_only(&mut self, pointer: &str, members: &'a Map<String, Value>) -> Result<(), Unfit> {
        for keyword in REFERENCES {
            let Some(target) = members.get(keyword) else {
                continue;
            };
            let Some(target) = target.as_str() else {
                return Err(Unfit::at(
                    format!("{pointer}/{keyword}"),
                    "a reference that is no text",
                ));
            };
            if !target.starts_with('#') {
                let reason = format!(
                    "`{}` leaves the schema: only local references are followed",
                    short(target)
                );
                return Err(Unfit::at(format!("{pointer}/{keyword}"), reason));
            }
        }
        let id = ["$id", "id"]
            .iter()
            .find(|name| members.get(**name).is_some_and(Value::is_string));
        match id {
            Some(name) if !pointer.is_empty() => Err(Unfit::at(
                format!("{pointer}/{name}"),
                "a schema inside the schema has an address of its own",
            )),
            _ => Ok(()),
        }
    }

    /// How many schemas a value at this schema is held against, references and branches followed in place.
    fn weigh(
        &self,
        schema: &'a Map<String, Value>,
        pointer: &str,
        weights: &mut HashMap<*const Map<String, Value>, u64>,
        chain: &mut Vec<*const Map<String, Value>>,
    ) -> Result<u64, Unfit> {
        let key: *const Map<String, Value> = schema;
        if let Some(weight) = weights.get(&key) {
            return Ok(*weight);
        }
        if chain.contains(&key) || chain.len() >= MAX_CHAIN {
            return Err(Unfit::at(
                pointer,
                "references that lead back to themselves, or on and on",
            ));
        }
        chain.push(key);
        let mut weight = 1_u64;
        for child in self.in_place(schema, pointer)? {
            weight = weight.saturating_add(self.weigh(child, pointer, weights, chain)?);
        }
        chain.pop();
        if weight > MAX_FANOUT {
            return Err(Unfit::at(
                pointer,
                format!("branches multiply to more than {MAX_FANOUT} schemas"),
            ));
        }
        weights.insert(key, weight);
        Ok(weight)
    }

    /// The schemas that apply to the same value as `schema`.
    fn in_place(
        &self,
        schema: &'a Map<String, Value>,
        pointer: &str,
    ) -> Result<Vec<&'a Map<String, Value>>, Unfit> {
        let mut found = Vec::new();
        for (keyword, holds, same_value) in APPLICATORS {
            if let (true, Some(value)) = (same_value, schema.get(keyword)) {
                found.extend(children(value, holds).filter_map(|(_, child)| child.as_object()));
            }
        }
        for keyword in REFERENCES {
            if let Some(Value::String(target)) = schema.get(keyword) {
                let missing = || {
                    Unfit::at(
                        format!("{pointer}/{keyword}"),
                        format!("`{}` leads nowhere", short(target)),
                    )
                };
                found.extend(self.resolve(target).ok_or_else(missing)?.as_object());
            }
        }
        Ok(found)
    }

    fn resolve(&self, target: &str) -> Option<&'a Value> {
        let fragment = percent_decoded(target.strip_prefix('#')?)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.whole.pointer(&fragment);
        }
        self.anchors.get(fragment.as_str()).copied()
    }

    /// The root schema.
    pub fn root(&self) -> &'a Map<String, Value> {
        self.root
    }

    /// The schemas that apply to the same value as `schema`, branches and references alike.
    pub fn same_value(&self, schema: &'a Map<String, Value>) -> Vec<&'a Map<String, Value>> {
        self.in_place(schema, "").unwrap_or_default()
    }

    /// The schemas that `schema` applies, to its value or to parts of it; definitions only where they are referred to.
    pub fn applied(&self, schema: &'a Map<String, Value>) -> Vec<&'a Map<String, Value>> {
        let mut found = self.same_value(schema);
        for (keyword, holds, same_value) in APPLICATORS {
            if same_value || keyword == "$defs" || keyword == "definitions" {
                continue;
            }
            let parts = schema
                .get(keyword)
                .into_iter()
                .flat_map(|value| children(value, holds));
            found.extend(parts.filter_map(|(_, child)| child.as_object()));
        }
        found
    }

    /// Every schema that applies to the root value, the root first, `not` aside (it declares nothing).
    pub fn at_root(&self) -> Vec<&'a Map<String, Value>> {
        let mut seen = HashSet::new();
        let mut open = vec![self.root];
        let mut found = Vec::new();
        while let Some(schema) = open.pop() {
            if !seen.insert(std::ptr::from_ref(schema)) {
                continue;
            }
            found.push(schema);
            let negated = schema
                .get("not")
                .and_then(Value::as_object)
                .map(std::ptr::from_ref);
            let here = self.in_place(schema, "").unwrap_or_default();
            open.extend(
                here.into_iter()
                    .filter(|child| Some(std::ptr::from_ref(*child)) != negated),
            );
        }
        found
    }
}

fn children(value: &Value, holds: Holds) -> Box<dyn Iterator<Item = (String, &Value)> + '_> {
    match (holds, value) {
        (Holds::One, Value::Object(_)) => Box::new(std::iter::once((String::new(), value))),
        (Holds::List, Value::Array(items)) => Box::new(
            items
                .iter()
                .enumerate()
                .map(|(at, item)| (format!("/{at}"), item)),
        ),
        (Holds::Map, Value::Object(members)) => Box::new(
            members
                .iter()
                .map(|(name, item)| (format!("/{}", escaped(name)), item)),
        ),
        _ => Box::new(std::iter::empty()),
    }
}

fn compares_numbers(schema: &Map<String, Value>) -> bool {
    let constants = schema.get("const").into_iter().chain(
        schema
            .get("enum")
            .and_then(Value::as_array)
            .into_iter()
            .flatten(),
    );
    NUMERIC.iter().any(|keyword| schema.contains_key(*keyword))
        || constants.into_iter().any(has_number)
}

fn has_number(value: &Value) -> bool {
    match value {
        Value::Number(_) => true,
        Value::Array(items) => items.iter().any(has_number),
        Value::Object(members) => members.values().any(has_number),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// One step of a JSON Pointer (RFC 6901).
pub fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The start of a text, for messages.
pub fn short(text: &str) -> String {
    text.chars().take(120).collect()
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let hex = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}
