//! What is known of well-known servers: one file each in `presets/`. A preset counts only where a server entry names it.

use std::sync::OnceLock;

use serde::Deserialize;

use super::named::Named;
use super::tool::ToolEntry;

/// Every preset: its name and its file.
pub const PRESETS: &[(&str, &str)] = &[
    ("fetch", include_str!("../../presets/fetch.json")),
    ("filesystem", include_str!("../../presets/filesystem.json")),
    ("git", include_str!("../../presets/git.json")),
    ("github", include_str!("../../presets/github.json")),
    ("memory", include_str!("../../presets/memory.json")),
    ("sqlite", include_str!("../../presets/sqlite.json")),
    ("time", include_str!("../../presets/time.json")),
];

/// What is known of one server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// What the server is, in words.
    pub title: String,
    /// Packages and programs it is started as, without version.
    pub packages: Vec<String>,
    tools: Named<ToolEntry>,
}

impl Preset {
    /// What is known of `tool`.
    pub fn tool(&self, tool: &str) -> Option<&ToolEntry> {
        self.tools.get(tool)
    }

    /// The tools something is known of.
    pub fn tools(&self) -> Vec<&str> {
        self.tools.iter().map(|(name, _)| name).collect()
    }
}

/// The preset called `name`; its file is parsed when it is first asked for. A file that doesn't parse is no preset (a test holds them all
/// to parse).
pub fn preset(name: &str) -> Option<&'static Preset> {
    static LOADED: [OnceLock<Option<Preset>>; PRESETS.len()] =
        [const { OnceLock::new() }; PRESETS.len()];
    let at = PRESETS.iter().position(|(known, _)| *known == name)?;
    LOADED[at]
        .get_or_init(|| serde_json::from_str(PRESETS[at].1).ok())
        .as_ref()
}

/// The names of all presets.
pub(super) fn names() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, _)| *name).collect()
}

/// The preset whose package or program `command` and `args` start, as a suggestion.
pub fn suggest(command: &str, args: &[String]) -> Option<&'static str> {
    let words = std::iter::once(command).chain(args.iter().map(String::as_str));
    let starts: Vec<&str> = words.map(package).collect();
    PRESETS.iter().map(|(name, _)| *name).find(|name| {
        preset(name).is_some_and(|preset| {
            preset
                .packages
                .iter()
                .any(|known| starts.contains(&known.as_str()))
        })
    })
}

/// The package in a word of a command line: without version, folder or `.exe`.
fn package(word: &str) -> &str {
    if let Some(scoped) = word.strip_prefix('@') {
        return scoped.find('@').map_or(word, |at| &word[..=at]);
    }
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let name = name
        .strip_suffix(".exe")
        .or_else(|| name.strip_suffix(".cmd"))
        .unwrap_or(name);
    name.split(['@', '=', '>', '<', '~']).next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::check_tool::check_tool;
    use crate::settings::tool::{Approval, Danger, Validation};

    #[test]
    fn presets_parse_and_are_only_stricter() {
        for (name, text) in PRESETS {
            let parsed: Preset =
                serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(
                !parsed.packages.is_empty() && !parsed.tools().is_empty(),
                "{name}"
            );
            assert_eq!(preset(name), Some(&parsed));
            for (tool, entry) in parsed.tools.iter() {
                check_tool(entry).unwrap_or_else(|fault| panic!("{name}/{tool}: {fault:?}"));
                assert!(
                    entry.kind.is_some(),
                    "{name}/{tool}: a preset says what the tool is"
                );
                assert!(
                    !matches!(entry.validation, Some(Validation::Warn)),
                    "{name}/{tool}: never relaxed"
                );
                assert_ne!(
                    entry.open_arguments,
                    Some(true),
                    "{name}/{tool}: never relaxed"
                );
                assert!(
                    matches!(entry.danger, None | Some(Danger::Never)),
                    "{name}/{tool}: danger is the person's to set"
                );
                assert!(
                    matches!(entry.approval, None | Some(Approval::None)),
                    "{name}/{tool}"
                );
                assert!(
                    entry.scope.is_none() && entry.cost.is_none() && entry.audience.is_none(),
                    "{name}/{tool}"
                );
            }
        }
    }

    #[test]
    fn servers_are_recognised_by_package() {
        let cases: [(&str, &[&str], Option<&str>); 8] = [
            (
                "npx",
                &[
                    "-y",
                    "@modelcontextprotocol/server-filesystem@2026.8.31",
                    "/tmp",
                ],
                Some("filesystem"),
            ),
            (
                "npx",
                &["-y", "@modelcontextprotocol/server-filesystem"],
                Some("filesystem"),
            ),
            (
                "/x/node_modules/.bin/mcp-server-filesystem",
                &["/tmp"],
                Some("filesystem"),
            ),
            (
                "uvx",
                &["mcp-server-git==2026.8.31", "--repository", "."],
                Some("git"),
            ),
            ("C:\\Tools\\mcp-server-time.exe", &[], Some("time")),
            ("npx", &["@evil/server-filesystem"], None),
            ("node", &["index.js"], None),
            (
                "npx",
                &["-y", "@modelcontextprotocol/server-everything"],
                None,
            ),
        ];
        for (command, args, expected) in cases {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            assert_eq!(suggest(command, &args), expected, "{command} {args:?}");
        }
    }
}
