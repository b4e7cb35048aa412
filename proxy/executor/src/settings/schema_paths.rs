//! Reading an input schema for what it says of arguments: whether it takes one, and which are named like a path. Validates nothing.

use std::collections::BTreeSet;

use serde_json::Value;

/// How deep a schema is read; references count.
const DEPTH: usize = 24;

/// Words that make an argument's name one of a path, wherever they stand in it.
const PATH_WORDS: &[&str] = &[
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filenames",
    "filepath",
    "filepaths",
    "dir",
    "dirs",
    "directory",
    "directories",
    "folder",
    "folders",
    "cwd",
    "attachment",
    "attachments",
];

/// Words that do so only as the whole name.
const PATH_NAMES: &[&str] = &["root", "source", "destination", "src", "dest"];

/// Whether the schema says that arguments may have a value at `pointer` (RFC 6901; `*` is every element of a list).
pub(super) fn admits(schema: &Value, pointer: &str) -> bool {
    let steps: Vec<String> = pointer
        .split('/')
        .skip(1)
        .map(|step| step.replace("~1", "/").replace("~0", "~"))
        .collect();
    reaches(schema, schema, &steps, DEPTH)
}

/// Pointers to all texts, and elements of lists of texts, that are named like a path. Texts of a fixed list of words are none.
pub(super) fn path_like(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(schema, schema, ("", ""), DEPTH, &mut found);
    found
}

fn reaches(root: &Value, node: &Value, steps: &[String], depth: usize) -> bool {
    if depth == 0 {
        return false;
    }
    let Some((step, rest)) = steps.split_first() else {
        return true;
    };
    let inside = |child: &Value| reaches(root, child, rest, depth - 1);
    let property = node["properties"].get(step.as_str());
    let element = (step == "*" || step.parse::<usize>().is_ok())
        .then(|| node.get("items"))
        .flatten();
    let extra = node
        .get("additionalProperties")
        .filter(|extra| extra.is_object());
    [property, element, extra].into_iter().flatten().any(inside)
        || branches(root, node).any(|branch| reaches(root, branch, steps, depth - 1))
}

fn collect(
    root: &Value,
    node: &Value,
    (pointer, name): (&str, &str),
    depth: usize,
    found: &mut BTreeSet<String>,
) {
    if depth == 0 {
        return;
    }
    if is_text(node) && named_like_path(name) {
        found.insert(pointer.to_owned());
    }
    for (child, schema) in node["properties"].as_object().into_iter().flatten() {
        let escaped = child.replace('~', "~0").replace('/', "~1");
        let at = format!("{pointer}/{escaped}");
        collect(root, schema, (&at, child), depth - 1, found);
    }
    if let Some(items) = node.get("items") {
        collect(
            root,
            items,
            (&format!("{pointer}/*"), name),
            depth - 1,
            found,
        );
    }
    for branch in branches(root, node) {
        collect(root, branch, (pointer, name), depth - 1, found);
    }
}

/// The schemas that speak of the same value: alternatives, and what a local reference leads to.
fn branches<'a>(root: &'a Value, node: &'a Value) -> impl Iterator<Item = &'a Value> {
    let target = node["$ref"]
        .as_str()
        .and_then(|target| root.pointer(target.strip_prefix('#')?));
    let all = ["anyOf", "oneOf", "allOf"].into_iter();
    all.flat_map(|name| node[name].as_array().into_iter().flatten())
        .chain(target)
}

fn is_text(node: &Value) -> bool {
    let text = match &node["type"] {
        Value::String(one) => one == "string",
        Value::Array(some) => some.iter().any(|one| one == "string"),
        _ => false,
    };
    text && node.get("enum").is_none() && node.get("const").is_none()
}

fn named_like_path(name: &str) -> bool {
    let mut spaced = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() || !letter.is_alphanumeric() {
            spaced.push(' ');
        }
        if letter.is_alphanumeric() {
            spaced.push(letter.to_ascii_lowercase());
        }
    }
    let mut words = spaced.split(' ');
    let is_id = matches!(words.clone().next_back(), Some("id" | "ids"));
    PATH_NAMES.contains(&name) || (!is_id && words.any(|word| PATH_WORDS.contains(&word)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_schema_takes() {
        let schema = json!({
            "properties": {
                "a": {"type": "string"},
                "list": {"type": "array", "items": {"$ref": "#/$defs/row"}},
                "map": {"additionalProperties": {"properties": {"x": {}}}},
                "a/b~c": {}
            },
            "anyOf": [{"properties": {"b": {}}}],
            "$defs": {"row": {"properties": {"name": {}, "self": {"$ref": "#/$defs/row"}}}}
        });
        for (pointer, expected) in [
            ("", true),
            ("/a", true),
            ("/b", true),
            ("/c", false),
            ("/list", true),
            ("/list/*", true),
            ("/list/*/name", true),
            ("/list/0/self/self/name", true),
            ("/list/name", false),
            ("/map/any/x", true),
            ("/map/any/y", false),
            ("/a~1b~0c", true),
        ] {
            assert_eq!(admits(&schema, pointer), expected, "{pointer}");
        }
        let endless = json!({"$ref": "#"});
        assert!(!admits(&endless, "/a") && path_like(&endless).is_empty());
    }

    #[test]
    fn what_is_named_like_a_path() {
        for (name, expected) in [
            ("path", true),
            ("repo_path", true),
            ("savePath", true),
            ("filename", true),
            ("backupFile", true),
            ("db-file", true),
            ("cwd", true),
            ("profile", false),
            ("pathology", false),
            ("destination", true),
            ("data_source_id", false),
            ("attachmentId", false),
            ("folder_ids", false),
            ("resource", false),
            ("message", false),
        ] {
            let schema = json!({"properties": {name: {"type": "string"}}});
            let wanted = format!("/{name}");
            assert_eq!(path_like(&schema).contains(&wanted), expected, "{name}");
        }
        let text = json!({"type": "string"});
        let schema = json!({"properties": {
            "paths": {"type": "array", "items": text},
            "files": {"type": "array", "items": {"properties": {"path": text, "content": text}}},
            "file": {"anyOf": [text, {"type": "null"}]},
            "folder": {"type": ["string", "null"]},
            "source": {"type": "string", "enum": ["a", "b"]},
            "directory": {"type": "integer"}
        }});
        let found: Vec<String> = path_like(&schema).into_iter().collect();
        assert_eq!(found, ["/file", "/files/*/path", "/folder", "/paths/*"]);
    }
}
