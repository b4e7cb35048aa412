//! Checks what executor.json says of one tool. Knows no server and no agent.

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
        if argument.is_none() && reads.is_empty() {
            return Err(fault("preview", "expected `argument` or `reads`"));
        }
    }
    Ok(())
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
