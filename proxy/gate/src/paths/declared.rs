//! Which arguments of a tool are paths or commands, and what the tool does there. Knows no rule about them.

use crate::json;

/// What a tool does at a declared argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Reads the file or folder.
    Read,
    /// Makes a file or folder of this name and leaves what lies below an existing one alone.
    Create,
    /// Writes, moves or removes it, with everything below it.
    Write,
    /// Runs it: one shell command line, or program and arguments as list. Several such arguments are one command, in order.
    Command,
    /// The folder a command runs in.
    Folder,
}

/// One declared argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Where in the arguments (RFC 6901; `*` is every element of a list or every member of an object).
    pub pointer: String,
    /// What the tool does there.
    pub effect: Effect,
}

/// One value found at a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picked<'a> {
    /// The exact pointer.
    pub pointer: String,
    /// The raw value.
    pub value: &'a [u8],
}

/// The values at a pointer of checked arguments.
#[must_use]
pub fn pick<'a>(arguments: &'a [u8], pointer: &str) -> Vec<Picked<'a>> {
    let mut found = vec![Picked {
        pointer: String::new(),
        value: arguments.trim_ascii(),
    }];
    for step in pointer.split('/').skip(1) {
        found = found
            .into_iter()
            .flat_map(|at| into_step(&at, step))
            .collect();
    }
    found
}

/// Every string in a checked value, member names included, with its pointer.
#[must_use]
pub fn strings(value: &[u8]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(value.trim_ascii(), String::new(), &mut found);
    found
}

fn into_step<'a>(at: &Picked<'a>, step: &str) -> Vec<Picked<'a>> {
    let child = |name: &str, value: &'a [u8]| Picked {
        pointer: format!("{}/{}", at.pointer, escaped(name)),
        value,
    };
    match (at.value.first(), step) {
        (Some(b'[' | b'{'), "*") => children(at.value)
            .into_iter()
            .map(|(name, value)| child(&name, value))
            .collect(),
        (Some(b'{'), step) => {
            let name = step.replace("~1", "/").replace("~0", "~");
            let value = json::member(at.value, &name);
            value.map(|value| child(&name, value)).into_iter().collect()
        }
        (Some(b'['), step) => {
            let value = step
                .parse()
                .ok()
                .and_then(|at_index| json::elements(at.value).nth(at_index));
            value.map(|value| child(step, value)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn children(value: &[u8]) -> Vec<(String, &[u8])> {
    if value.starts_with(b"[") {
        let indexed = json::elements(value).enumerate();
        indexed
            .map(|(index, element)| (index.to_string(), element))
            .collect()
    } else {
        let members = json::members(value);
        members
            .map(|member| (member.name.into_owned(), member.value))
            .collect()
    }
}

fn collect(value: &[u8], pointer: String, found: &mut Vec<(String, String)>) {
    match value.first() {
        Some(b'"') => {
            if let Some(text) = json::decode(value) {
                found.push((pointer, text.into_owned()));
            }
        }
        Some(b'{' | b'[') => {
            for (name, child) in children(value) {
                let at = format!("{pointer}/{}", escaped(&name));
                if value.starts_with(b"{") {
                    found.push((at.clone(), name));
                }
                collect(child, at, found);
            }
        }
        _ => {}
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
