//! Whether a preset fits the tools a server really lists: by name, and by the arguments it speaks of. Judges no call and changes nothing.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::check_tool::taken;
use super::preset::Preset;
use super::schema_paths::{admits, path_like};
use super::tool::{Danger, Kind, ToolEntry};

/// The names a server gives with the tools' input schemas; a schema that can't be used is `None`.
pub type Listed = BTreeMap<String, Option<Value>>;

/// One place where a preset and a server differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Misfit {
    /// The tool, as server or preset names it.
    pub tool: String,
    /// How they differ.
    pub what: Difference,
    /// The argument, where it is one (RFC 6901; `*` is every element of a list).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
}

/// How a preset and a server differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// The server has a tool the preset doesn't know.
    UnknownTool,
    /// The preset reads the current values with a tool that doesn't only read, or is not there.
    UnknownRead,
    /// The preset speaks of an argument the tool doesn't take.
    UnknownArgument,
    /// An argument is named like a path, and the preset doesn't declare it.
    UndeclaredPath,
    /// The preset knows a tool the server doesn't list: another version of it, or other options.
    NotListed,
}

impl Difference {
    /// Whether somebody should look at it. A tool that is not listed can't be called.
    pub fn matters(self) -> bool {
        self != Difference::NotListed
    }
}

impl Misfit {
    /// In words.
    pub fn words(&self) -> String {
        let tool = crate::commands::plain(&self.tool);
        let pointer = crate::commands::plain(self.pointer.as_deref().unwrap_or_default());
        match self.what {
            Difference::UnknownTool => {
                format!("`{tool}` is not known to the preset: it counts as a write")
            }
            Difference::UnknownRead => format!(
                "the preset previews `{tool}` with a tool that is not there or doesn't only read"
            ),
            Difference::UnknownArgument => {
                format!("the preset speaks of `{pointer}` of `{tool}`, which the tool doesn't take")
            }
            Difference::UndeclaredPath => format!(
                "`{pointer}` of `{tool}` is named like a path, and the preset doesn't say what the tool does there"
            ),
            Difference::NotListed => {
                format!("`{tool}` is known to the preset and not listed by the server")
            }
        }
    }
}

/// Where they differ, by tool names alone. `listed` are the names the server gives.
pub fn by_name<'a>(preset: &Preset, listed: impl Iterator<Item = &'a str>) -> Vec<Misfit> {
    let listed: Vec<&str> = listed.collect();
    let unknown = listed.iter().filter(|tool| preset.tool(tool).is_none());
    let gone = preset
        .tools()
        .into_iter()
        .filter(|tool| !listed.contains(tool));
    let mut found: Vec<Misfit> = unknown
        .map(|tool| misfit(tool, Difference::UnknownTool, None))
        .chain(gone.map(|tool| misfit(tool, Difference::NotListed, None)))
        .collect();
    found.sort();
    found
}

/// Where they differ.
pub fn fit(preset: &Preset, listed: &Listed) -> Vec<Misfit> {
    let mut found = by_name(preset, listed.keys().map(String::as_str));
    for (tool, schema) in listed {
        let (Some(schema), Some(entry)) = (schema, preset.tool(tool)) else {
            continue;
        };
        for pointer in spoken_of(entry) {
            if !admits(schema, &pointer) {
                found.push(misfit(tool, Difference::UnknownArgument, Some(pointer)));
            }
        }
        for pointer in path_like(schema) {
            let declared = entry.paths.iter().flatten();
            if !declared.clone().any(|path| path.pointer == pointer)
                && !preset.leaves_out(tool, &pointer)
            {
                found.push(misfit(tool, Difference::UndeclaredPath, Some(pointer)));
            }
        }
        found.extend(reads(preset, listed, tool, entry));
    }
    found.sort();
    found.dedup();
    found
}

/// Every pointer into the call's arguments that the entry speaks of.
fn spoken_of(entry: &ToolEntry) -> Vec<String> {
    let mut pointers: Vec<String> = Vec::new();
    pointers.extend(
        entry
            .paths
            .iter()
            .flatten()
            .map(|path| path.pointer.clone()),
    );
    pointers.extend(
        entry
            .arguments
            .iter()
            .flatten()
            .map(|limit| limit.pointer.clone()),
    );
    if let Some(Danger::When(schema)) = &entry.danger {
        named(&Value::Object(schema.clone()), &mut pointers);
    }
    if let Some(preview) = &entry.preview {
        pointers.extend(
            preview
                .argument
                .iter()
                .map(|argument| argument.pointer.clone()),
        );
        pointers.extend(preview.diff.iter().map(|diff| diff.new.clone()));
        for read in &preview.reads {
            pointers.extend(read.when.clone());
            pointers.extend(taken(&read.arguments).into_iter().map(str::to_owned));
        }
    }
    pointers
}

/// The members of the root that a schema of a `danger` names.
fn named(schema: &Value, into: &mut Vec<String>) {
    let required = schema["required"].as_array().into_iter().flatten();
    into.extend(required.filter_map(Value::as_str).map(escaped));
    let properties = schema["properties"].as_object().into_iter().flatten();
    into.extend(properties.map(|(name, _)| escaped(name)));
    for all in ["anyOf", "allOf", "oneOf"] {
        for one in schema[all].as_array().into_iter().flatten() {
            named(one, into);
        }
    }
}

fn escaped(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// The reads of a preview: each by a listed tool that only reads, with arguments it takes.
fn reads(preset: &Preset, listed: &Listed, tool: &str, entry: &ToolEntry) -> Vec<Misfit> {
    let mut found = Vec::new();
    for read in entry.preview.iter().flat_map(|preview| &preview.reads) {
        let only_reads = preset
            .tool(&read.tool)
            .is_some_and(|known| known.kind == Some(Kind::Read));
        match (only_reads, listed.get(&read.tool)) {
            (true, Some(Some(schema))) => {
                let names = read.arguments.iter().map(|(name, _)| escaped(name));
                found.extend(
                    names
                        .filter(|pointer| !admits(schema, pointer))
                        .map(|pointer| {
                            misfit(&read.tool, Difference::UnknownArgument, Some(pointer))
                        }),
                );
            }
            (true, Some(None)) => {}
            _ => found.push(misfit(tool, Difference::UnknownRead, None)),
        }
    }
    found
}

fn misfit(tool: &str, what: Difference, pointer: Option<String>) -> Misfit {
    Misfit {
        tool: tool.to_owned(),
        what,
        pointer,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::preset;

    /// The tools of the memory and the filesystem server, made small.
    fn listed(change: impl FnOnce(&mut Listed)) -> Listed {
        let path = json!({"type": "object", "properties": {"path": {"type": "string"}}});
        let mut tools: Listed = preset("filesystem")
            .unwrap()
            .tools()
            .into_iter()
            .map(|tool| (tool.to_owned(), Some(path.clone())))
            .collect();
        let mut set = |tool: &str, schema: Value| tools.insert(tool.to_owned(), Some(schema));
        let text = json!({"type": "string"});
        set(
            "read_multiple_files",
            json!({"properties": {"paths": {"type": "array", "items": text}}}),
        );
        set(
            "write_file",
            json!({"properties": {"path": text, "content": text}}),
        );
        set(
            "edit_file",
            json!({"properties": {"path": text, "dryRun": {"type": "boolean"}}}),
        );
        set(
            "move_file",
            json!({"properties": {"source": text, "destination": text}}),
        );
        set("list_allowed_directories", json!({"type": "object"}));
        change(&mut tools);
        tools
    }

    #[test]
    fn every_difference_is_found_and_named() {
        let check = |change: &dyn Fn(&mut Listed),
                     expected: &[(&str, Difference, Option<&str>)]| {
            let found = fit(
                preset("filesystem").unwrap(),
                &listed(|tools| change(tools)),
            );
            let found: Vec<_> = found
                .iter()
                .map(|one| (one.tool.as_str(), one.what, one.pointer.as_deref()))
                .collect();
            assert_eq!(found, expected);
        };
        use Difference::{NotListed, UndeclaredPath, UnknownArgument, UnknownRead, UnknownTool};
        check(&|_| (), &[]);
        check(
            &|tools| drop(tools.insert("delete_file".into(), None)),
            &[("delete_file", UnknownTool, None)],
        );
        check(
            &|tools| drop(tools.remove("search_files")),
            &[("search_files", NotListed, None)],
        );
        check(
            &|tools| drop(tools.remove("read_text_file")),
            &[
                ("read_text_file", NotListed, None),
                ("write_file", UnknownRead, None),
            ],
        );
        check(
            &|tools| {
                let schema =
                    json!({"properties": {"path": {"type": "string"}, "text": {"type": "string"}}});
                tools.insert("write_file".into(), Some(schema));
            },
            &[("write_file", UnknownArgument, Some("/content"))],
        );
        check(
            &|tools| {
                let schema = json!({"properties": {"path": {"type": "string"}, "backupFile": {"type": "string"}}});
                tools.insert("list_directory".into(), Some(schema));
            },
            &[("list_directory", UndeclaredPath, Some("/backupFile"))],
        );
        check(
            &|tools| {
                drop(tools.insert(
                    "get_file_info".into(),
                    Some(json!({"properties": {"file": {"type": "string"}}})),
                ))
            },
            &[
                ("get_file_info", UnknownArgument, Some("/path")),
                ("get_file_info", UndeclaredPath, Some("/file")),
            ],
        );
        // A schema that can't be used says nothing of arguments.
        check(&|tools| drop(tools.insert("write_file".into(), None)), &[]);
    }

    #[test]
    fn words_name_tool_and_argument() {
        let one = misfit("t\u{1b}", Difference::UndeclaredPath, Some("/p".to_owned()));
        assert!(one.words().contains("`/p`") && !one.words().contains('\u{1b}'));
        assert!(!Difference::NotListed.matters() && Difference::UnknownTool.matters());
    }
}
