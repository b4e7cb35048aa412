//! Checks what executor.json says of one tool. Knows no server and no agent.

use serde_json::{Map, Value};

use super::checked::{Fault, fault};
use super::tool::{Cost, PathEntry, PreviewEntry, ToolEntry};

/// Checks one tool's members; also used for presets.
pub(super) fn check_tool(tool: &ToolEntry) -> Result<(), Fault> {
    if tool.max_items == Some(0) {
        return Err(fault("max_items", "expected a whole number from 1 on"));
    }
    if tool.max_bytes == Some(0) {
        return Err(fault("max_bytes", "expected a whole number from 1 on"));
    }
    if tool.scope.as_deref().is_some_and(|scope| !is_scope(scope)) {
        return Err(fault(
            "scope",
            "a scope is 1 to 64 of a-z, 0-9, `:`, `_`, `-` and `.`",
        ));
    }
    if let Some(Cost::Per(pointer)) = &tool.cost {
        check_pointer("cost.per", pointer)?;
    }
    for PathEntry { pointer, .. } in tool.paths.iter().flatten() {
        check_pointer("paths", pointer)?;
    }
    for limit in tool.arguments.iter().flatten() {
        countersign_permission::ArgumentLimit::read(
            &limit.pointer,
            limit.op.word(),
            limit.value.as_ref(),
        )
        .map_err(|error| ("arguments".to_owned(), error.to_string()))?;
    }
    if let Some(limits) = &tool.limits
        && limits
            .rate
            .is_some_and(|rate| rate.per_seconds == 0 || rate.max == 0)
    {
        return Err(fault("limits.rate", "`per_seconds` and `max` count from 1"));
    }
    if let Some(PreviewEntry {
        argument,
        reads,
        diff,
    }) = &tool.preview
    {
        if let Some(argument) = argument {
            check_pointer("preview.argument", &argument.pointer)?;
        }
        if let Some(diff) = diff {
            check_pointer("preview.diff.new", &diff.new)?;
        }
        for read in reads {
            let own = read.when.iter().chain(&read.ignore).chain(&read.text);
            for pointer in own {
                check_pointer("preview.reads", pointer)?;
            }
            for pointer in taken(&read.arguments) {
                check_pointer("preview.reads.arguments", pointer)?;
            }
        }
        if argument.is_none() && reads.is_empty() {
            return Err(fault("preview", "expected `argument` or `reads`"));
        }
    }
    Ok(())
}

/// The pointers into the call's arguments that a recipe's read takes values from.
pub(super) fn taken(arguments: &Map<String, Value>) -> Vec<&str> {
    arguments.values().flat_map(taken_by).collect()
}

fn taken_by(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(members) => match (members.len(), members.get("from")) {
            (1, Some(Value::String(pointer))) => vec![pointer],
            _ => taken(members),
        },
        Value::Array(items) => items.iter().flat_map(taken_by).collect(),
        _ => Vec::new(),
    }
}

fn check_pointer(member: &str, pointer: &str) -> Result<(), Fault> {
    let escapes = pointer
        .split('~')
        .skip(1)
        .all(|rest| rest.starts_with(['0', '1']));
    if (pointer.is_empty() || pointer.starts_with('/')) && escapes {
        return Ok(());
    }
    Err((
        member.to_owned(),
        format!(
            "`{}` is not a JSON pointer (RFC 6901)",
            crate::commands::plain(pointer)
        ),
    ))
}

/// Whether `text` can be a scope.
pub fn is_scope(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b":_-.".contains(&b))
}
