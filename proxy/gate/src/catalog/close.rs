//! Closing a schema: the raw text the server sent, edited in place so that unknown root members are refused and a write tool's control
//! fields are there. Every other member keeps its order and its bytes. The text made here is what is listed and what is enforced.

use countersign_permission::Kind;
use jsonschema::Draft;
use serde_json::{Map, Value};

use super::inspect::{Inspected, Unfit, dialect, inspect, is_modern, parse};
use super::schema::build;
use crate::json::{self, Change};

/// The names the three control fields have for one tool: their own, or prefixed `countersign_` where the tool's schema has a property
/// of that name. `None`: the tool takes no such field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlFields {
    /// `dry_run`: boolean.
    pub dry_run: Option<&'static str>,
    /// `confirm_token`: text of 1 to 128 characters.
    pub confirm_token: Option<&'static str>,
    /// `idempotency_key`: 1 to 255 visible ASCII characters.
    pub idempotency_key: Option<&'static str>,
}

impl ControlFields {
    /// The names in use.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [self.dry_run, self.confirm_token, self.idempotency_key]
            .into_iter()
            .flatten()
    }
}

/// The plain names, for tools that take none of them.
pub const PLAIN_NAMES: [&str; 3] = ["dry_run", "confirm_token", "idempotency_key"];

/// Plain name, prefixed name, schema.
const FIELDS: [(&str, &str, &str); 3] = [
    (
        "dry_run",
        "countersign_dry_run",
        r#"{"type":"boolean","description":"true: show what this call would do and run nothing."}"#,
    ),
    (
        "confirm_token",
        "countersign_confirm_token",
        r#"{"type":"string","minLength":1,"maxLength":128,"description":"The code of a preview, to run exactly what was previewed."}"#,
    ),
    (
        "idempotency_key",
        "countersign_idempotency_key",
        r#"{"type":"string","minLength":1,"maxLength":255,"pattern":"^[!-~]+$","description":"A key of your choice: the same call under the same key runs once."}"#,
    ),
];

/// How to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    /// A write tool gets control fields.
    pub kind: Kind,
    /// Whether one of them is `idempotency_key`.
    pub replay: Replay,
    /// Whether the root is closed at all.
    pub root: Root,
}

/// Whether a tool's answers may be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// They may.
    Yes,
    /// They may not: no `idempotency_key`.
    No,
}

/// What happens to the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// Unknown members are refused.
    Closed,
    /// As the server declared it (`open_arguments`).
    AsDeclared,
}

/// A closed schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Its text.
    pub text: Vec<u8>,
    /// The same without control fields; what is sent must fit it.
    pub bare: Vec<u8>,
    /// Its control fields.
    pub control: ControlFields,
    /// Whether the server had left the root open by a word of its own.
    pub narrowed: bool,
}

/// Closes a raw `inputSchema` (`None`: the member is missing; like `null` and `{}` an object without members).
///
/// # Errors
/// Where and why it cannot be closed.
pub fn close(schema: Option<&[u8]>, closing: Closing) -> Result<Closed, Unfit> {
    let text = match schema {
        None | Some(b"null") => &b"{}"[..],
        Some(text) => text,
    };
    let value = parse(text)?;
    let root = value
        .as_object()
        .ok_or_else(|| Unfit::at("", "the root is not an object schema"))?;
    let (draft, named) = effective_dialect(&value, root)?;
    let inspected = inspect(&value)?;
    let mut changes: Vec<Change<'_>> = named
        .map(|uri| Change::Prepend("$schema", uri))
        .into_iter()
        .collect();
    changes.extend(object_type(root)?);
    if root.contains_key("$ref") && !is_modern(draft) {
        return Err(Unfit::at(
            "/$ref",
            "a reference at the root, in a dialect where nothing beside it counts",
        ));
    }
    if closing.root == Root::Closed {
        changes.extend(closed_root(root, &inspected, draft)?);
    }
    let control = control_fields(&inspected, closing)?;
    let properties = json::member(text, "properties").unwrap_or(b"{}");
    if json::check(properties, json::MAX_DEPTH) != Ok(json::Kind::Object) {
        return Err(Unfit::at("/properties", "not an object"));
    }
    let bare = json::edit(text, &with(&changes, Change::Set("properties", properties)));
    let added: Vec<_> = fields(control)
        .map(|(name, schema)| Change::Set(name, schema.as_bytes()))
        .collect();
    let properties = json::edit(properties, &added);
    let text = json::edit(
        text,
        &with(&changes, Change::Set("properties", &properties)),
    );
    let narrowed = closing.root == Root::Closed
        && root
            .get("additionalProperties")
            .is_some_and(|declared| *declared != Value::Bool(false));
    Ok(Closed {
        text: json::one_line(&text).into_owned(),
        bare: json::one_line(&bare).into_owned(),
        control,
        narrowed,
    })
}

fn with<'a>(changes: &[Change<'a>], one: Change<'a>) -> Vec<Change<'a>> {
    changes
        .iter()
        .copied()
        .chain(std::iter::once(one))
        .collect()
}

/// The dialect, and the one to name where none is named and the schema is an older one by its form.
fn effective_dialect(
    value: &Value,
    root: &Map<String, Value>,
) -> Result<(Draft, Option<&'static [u8]>), Unfit> {
    const OLDER: [(Draft, &[u8]); 2] = [
        (
            Draft::Draft7,
            b"\"http://json-schema.org/draft-07/schema#\"",
        ),
        (
            Draft::Draft4,
            b"\"http://json-schema.org/draft-04/schema#\"",
        ),
    ];
    let draft = dialect(root)?;
    if root.contains_key("$schema") {
        return Ok((draft, None));
    }
    // Compiled only where the form is an older one's: that is rare.
    let fits = |older: Draft| {
        is_older_form(value, older) && build(value, draft).is_err() && build(value, older).is_ok()
    };
    let older = OLDER.iter().find(|(older, _)| fits(*older));
    Ok(older.map_or((draft, None), |(older, uri)| (*older, Some(*uri))))
}

/// Whether the schema has the form that only the older dialect allows, and no keyword that dialect would silently pass over.
fn is_older_form(value: &Value, draft: Draft) -> bool {
    const SINCE_2019: [&str; 7] = [
        "unevaluatedProperties",
        "unevaluatedItems",
        "dependentRequired",
        "dependentSchemas",
        "prefixItems",
        "minContains",
        "$dynamicRef",
    ];
    const SINCE_06: [&str; 5] = ["const", "contains", "propertyNames", "if", "examples"];
    let text = value.to_string();
    let uses = |keyword: &&str| text.contains(&format!("\"{keyword}\":"));
    match draft {
        Draft::Draft4 => {
            let older = ["exclusiveMinimum", "exclusiveMaximum"].iter().any(|word| {
                text.contains(&format!("\"{word}\":true"))
                    || text.contains(&format!("\"{word}\":false"))
            });
            older && !SINCE_2019.iter().any(uses) && !SINCE_06.iter().any(uses)
        }
        _ => text.contains("\"items\":[") && !SINCE_2019.iter().any(uses),
    }
}

fn object_type(root: &Map<String, Value>) -> Result<Option<Change<'static>>, Unfit> {
    let set = Change::Set("type", b"\"object\"");
    match root.get("type") {
        Some(Value::String(name)) if name == "object" => Ok(None),
        // Clients of the protocol read nothing but the plain word here.
        Some(Value::Array(names)) if names.iter().any(|name| name == "object") => Ok(Some(set)),
        Some(_) => Err(Unfit::at("/type", "the root is not an object schema")),
        None => match ["anyOf", "oneOf", "allOf"]
            .iter()
            .find(|word| root.contains_key(**word))
        {
            Some(word) => Err(Unfit::at(
                format!("/{word}"),
                "the root is not an object schema: it has no `type`",
            )),
            None => Ok(Some(set)),
        },
    }
}

fn closed_root(
    root: &Map<String, Value>,
    inspected: &Inspected<'_>,
    draft: Draft,
) -> Result<Vec<Change<'static>>, Unfit> {
    let closed = Some(&Value::Bool(false));
    let schemas = inspected.at_root();
    if schemas.len() == 1 {
        return Ok(vec![Change::Set("additionalProperties", b"false")]);
    }
    if root.get("additionalProperties") == closed {
        return Ok(Vec::new());
    }
    if !is_modern(draft) {
        return Err(Unfit::at(
            "",
            "a root with branches, which this dialect has no way to close",
        ));
    }
    for schema in schemas.iter().skip(1) {
        for word in ["additionalProperties", "unevaluatedProperties"] {
            if schema
                .get(word)
                .is_some_and(|declared| Some(declared) != closed)
            {
                return Err(Unfit::at(
                    "",
                    format!("a branch of the root leaves it open with `{word}`"),
                ));
            }
        }
    }
    // `additionalProperties: true` would count every member as known.
    Ok(vec![
        Change::Remove("additionalProperties"),
        Change::Set("unevaluatedProperties", b"false"),
    ])
}

fn control_fields(inspected: &Inspected<'_>, closing: Closing) -> Result<ControlFields, Unfit> {
    if closing.kind == Kind::Read {
        return Ok(ControlFields::default());
    }
    let schemas = inspected.at_root();
    let taken = |name: &str| {
        let declared = |schema: &&Map<String, Value>| {
            schema
                .get("properties")
                .and_then(Value::as_object)
                .is_some_and(|members| members.contains_key(name))
        };
        schemas.iter().any(declared)
    };
    let free = |(plain, prefixed, _): (&'static str, &'static str, &str)| match (
        taken(plain),
        taken(prefixed),
    ) {
        (false, _) => Ok(Some(plain)),
        (true, false) => Ok(Some(prefixed)),
        (true, true) => Err(Unfit::at(
            format!("/properties/{prefixed}"),
            "the name is ours",
        )),
    };
    Ok(ControlFields {
        dry_run: free(FIELDS[0])?,
        confirm_token: free(FIELDS[1])?,
        idempotency_key: if closing.replay == Replay::Yes {
            free(FIELDS[2])?
        } else {
            None
        },
    })
}

fn fields(control: ControlFields) -> impl Iterator<Item = (&'static str, &'static str)> {
    let schema = |name: &str| {
        FIELDS
            .iter()
            .find(|field| field.0 == name || field.1 == name)
            .map(|field| field.2)
    };
    control
        .names()
        .filter_map(move |name| schema(name).map(|schema| (name, schema)))
}
