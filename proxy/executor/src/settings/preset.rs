//! What is known of well-known servers: one file each in `presets/`. A preset counts only where a server entry names it.

use std::sync::OnceLock;

use serde::Deserialize;

use super::named::Named;
use super::tool::ToolEntry;

/// Every preset: its name and its file.
pub const PRESETS: &[(&str, &str)] = &[
    ("everything", include_str!("../../presets/everything.json")),
    ("fetch", include_str!("../../presets/fetch.json")),
    ("filesystem", include_str!("../../presets/filesystem.json")),
    ("git", include_str!("../../presets/git.json")),
    ("github", include_str!("../../presets/github.json")),
    ("gmail", include_str!("../../presets/gmail.json")),
    ("memory", include_str!("../../presets/memory.json")),
    ("notion", include_str!("../../presets/notion.json")),
    ("playwright", include_str!("../../presets/playwright.json")),
    ("postgres", include_str!("../../presets/postgres.json")),
    ("slack", include_str!("../../presets/slack.json")),
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
    /// Why a tool is judged as it is, by tool, for the person.
    #[serde(default)]
    judgements: Named<String>,
    /// Arguments named like a path and not declared as one on purpose, with the reason: by tool (`*`: any), then by pointer.
    #[serde(default)]
    undeclared: Named<Named<String>>,
}

impl Preset {
    /// What is known of `tool`.
    pub fn tool(&self, tool: &str) -> Option<&ToolEntry> {
        self.tools.get(tool)
    }

    /// Why `tool` is judged as it is, where that needs a word.
    pub fn judgement(&self, tool: &str) -> Option<&str> {
        self.judgements.get(tool).map(String::as_str)
    }

    /// Whether `pointer` of `tool` is left undeclared on purpose.
    pub fn leaves_out(&self, tool: &str, pointer: &str) -> bool {
        [tool, "*"]
            .iter()
            .filter_map(|name| self.undeclared.get(name))
            .any(|pointers| pointers.get(pointer).is_some())
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
    let words: Vec<&str> = std::iter::once(command)
        .chain(args.iter().map(String::as_str))
        .collect();
    let mut starts: Vec<String> = words
        .iter()
        .map(|word| package(&word.replace('\\', "/")).to_owned())
        .collect();
    // `python -m mcp_server_git`: a module is named with `_` where its package has `-`.
    let modules = words.windows(2).filter(|pair| pair[0] == "-m");
    starts.extend(modules.map(|pair| pair[1].replace('_', "-")));
    PRESETS.iter().map(|(name, _)| *name).find(|name| {
        preset(name)
            .is_some_and(|preset| preset.packages.iter().any(|known| starts.contains(known)))
    })
}

/// The package in a word of a command line (with `/` in its paths): without version, folder or `.exe`; of a file of an installed
/// package, that package.
fn package(word: &str) -> &str {
    let folder = "node_modules/";
    let installed = word
        .rfind(folder)
        .filter(|at| *at == 0 || word[..*at].ends_with('/'))
        .map(|at| &word[at + folder.len()..])
        .filter(|inside| !inside.starts_with(".bin"));
    if let Some(inside) = installed {
        let parts = if inside.starts_with('@') { 2 } else { 1 };
        let end = inside.match_indices('/').nth(parts - 1);
        return &inside[..end.map_or(inside.len(), |(at, _)| at)];
    }
    if let Some(scoped) = word.strip_prefix('@') {
        return scoped.find('@').map_or(word, |at| &word[..=at]);
    }
    let name = word.rsplit('/').next().unwrap_or(word);
    let name = name
        .strip_suffix(".exe")
        .or_else(|| name.strip_suffix(".cmd"))
        .unwrap_or(name);
    name.split(['@', '=', '>', '<', '~', '['])
        .next()
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::check_tool::check_tool;
    use crate::settings::tool::{Effect, Kind, Op, Validation};

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
            let mut once = parsed.tools();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), parsed.tools().len(), "{name}: no tool twice");
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
                    entry.kind == Some(Kind::Write)
                        || (entry.danger.is_none() && entry.approval.is_none()),
                    "{name}/{tool}: a read is never dangerous"
                );
                assert_eq!(entry.hidden, None, "{name}/{tool}: hiding is the person's");
                assert!(
                    entry.verb.as_ref().is_some_and(|verb| !verb.is_empty()),
                    "{name}/{tool}: what it does, in words"
                );
                assert!(
                    entry.scope.is_none() && entry.cost.is_none() && entry.audience.is_none(),
                    "{name}/{tool}"
                );
            }
            let known = |tool: &str| parsed.tool(tool).is_some();
            for (tool, why) in parsed.judgements.iter() {
                assert!(known(tool) && !why.is_empty(), "{name}/{tool}: judged");
            }
            for (tool, pointers) in parsed.undeclared.iter() {
                assert!(known(tool) || tool == "*", "{name}/{tool}: undeclared");
                assert!(!pointers.is_empty(), "{name}/{tool}: undeclared");
            }
        }
    }

    #[test]
    fn every_file_is_in_the_table() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/presets");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "json")
            })
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        files.sort();
        assert_eq!(names(), files);
    }

    /// Steps 7 and 8 judge by these: a tool that only reads writes nowhere, unless the argument it would write to is closed.
    #[test]
    fn what_only_reads_writes_nowhere() {
        let mut closed = 0;
        for (name, _) in PRESETS {
            for (tool, entry) in preset(name).unwrap().tools.iter() {
                for path in entry.paths.iter().flatten() {
                    if entry.kind == Some(Kind::Write) || path.effect == Effect::Read {
                        continue;
                    }
                    let limits = entry.arguments.iter().flatten();
                    let absent = limits
                        .filter(|limit| limit.op == Op::Absent)
                        .any(|limit| limit.pointer == path.pointer);
                    assert!(absent, "{name}/{tool}: `{}`", path.pointer);
                    closed += 1;
                }
            }
        }
        assert_eq!(closed, 5, "the browser's reads with a `filename`");
    }

    #[test]
    fn what_the_tools_do_to_paths() {
        use Effect::{Create, Read, Write};
        type Paths<'a> = &'a [(&'a str, Effect)];
        let cases: [(&str, &str, Paths<'_>); 13] = [
            ("filesystem", "write_file", &[("/path", Write)]),
            ("filesystem", "edit_file", &[("/path", Write)]),
            ("filesystem", "create_directory", &[("/path", Create)]),
            (
                "filesystem",
                "move_file",
                &[("/source", Write), ("/destination", Write)],
            ),
            ("filesystem", "read_multiple_files", &[("/paths/*", Read)]),
            (
                "git",
                "git_add",
                &[("/repo_path", Write), ("/files/*", Read)],
            ),
            ("git", "git_commit", &[("/repo_path", Write)]),
            ("git", "git_diff", &[("/repo_path", Write)]),
            ("git", "git_status", &[("/repo_path", Read)]),
            ("playwright", "browser_file_upload", &[("/paths/*", Read)]),
            ("playwright", "browser_pdf_save", &[("/filename", Write)]),
            ("gmail", "send_email", &[("/attachments/*", Read)]),
            // Its file is not all it writes: bounded writes refuse it whole.
            ("playwright", "browser_evaluate", &[]),
        ];
        for (name, tool, expected) in cases {
            let entry = preset(name).unwrap().tool(tool).unwrap();
            let paths = entry.paths.iter().flatten();
            let paths: Vec<_> = paths
                .map(|path| (path.pointer.as_str(), path.effect))
                .collect();
            assert_eq!(paths, expected, "{name}/{tool}");
        }
    }

    #[test]
    fn servers_are_recognised_by_package() {
        let cases: [(&str, &[&str], Option<&str>); 22] = [
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
                Some("everything"),
            ),
            ("npx", &["@playwright/mcp@latest"], Some("playwright")),
            (
                "npx",
                &["-y", "@notionhq/notion-mcp-server"],
                Some("notion"),
            ),
            (
                "npx",
                &["-y", "@modelcontextprotocol/server-slack"],
                Some("slack"),
            ),
            (
                "npx",
                &[
                    "-y",
                    "@modelcontextprotocol/server-postgres",
                    "postgresql://h/db",
                ],
                Some("postgres"),
            ),
            (
                "npx",
                &["@gongrzhe/server-gmail-autoauth-mcp"],
                Some("gmail"),
            ),
            (
                "node",
                &["/x/node_modules/@modelcontextprotocol/server-memory/dist/index.js"],
                Some("memory"),
            ),
            (
                "C:\\x\\node_modules\\@playwright\\mcp\\cli.js",
                &[],
                Some("playwright"),
            ),
            (
                "node",
                &["node_modules/@notionhq/notion-mcp-server/bin/cli.mjs"],
                Some("notion"),
            ),
            (
                "node",
                &["/my_node_modules/@notionhq/notion-mcp-server/cli.mjs"],
                None,
            ),
            ("python3", &["-m", "mcp_server_fetch"], Some("fetch")),
            ("python3", &["mcp_server_fetch"], None),
            (
                "node",
                &["/x/node_modules/evil/dist/mcp-server-git.js"],
                None,
            ),
            ("node", &["/mcp-server-git/index.js"], None),
            ("uvx", &["mcp-server-sqlite[x]==1"], Some("sqlite")),
        ];
        for (command, args, expected) in cases {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            assert_eq!(suggest(command, &args), expected, "{command} {args:?}");
        }
    }
}
