//! The pinned peers of `tests/peers`: where `tests/run` put them, and the command line of each. Installs nothing itself.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Folder the peers were installed in: `COUNTERSIGN_PEERS`, else the person's cache.
///
/// # Panics
/// When they are not there, with the command that installs them.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let base = std::env::var_os("COUNTERSIGN_PEERS")
            .map(PathBuf::from)
            .unwrap_or_else(|| {
                std::env::var_os("XDG_CACHE_HOME")
                    .map(PathBuf::from)
                    .or_else(|| {
                        std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"))
                    })
                    .unwrap_or_default()
                    .join("countersign-peers")
            });
        let current = base.join("current");
        assert!(
            current.join("installed").is_file(),
            "the pinned peers are not in {}: run `bash tests/run install`",
            base.display()
        );
        current
    })
}

/// Node 22 of the lock file.
pub fn node() -> String {
    text(folder().join("node_modules/.bin/node"))
}

/// A file below `node_modules`.
pub fn node_module(relative: &str) -> String {
    text(folder().join("node_modules").join(relative))
}

/// A program of the Python environment with mcp 2.x.
pub fn python_current(program: &str) -> String {
    text(folder().join("python-current/bin").join(program))
}

/// A program of the Python environment with mcp 1.x.
pub fn python_previous(program: &str) -> String {
    text(folder().join("python-previous/bin").join(program))
}

/// A program of the Python environment with other people's verifiers.
pub fn python_strangers(program: &str) -> String {
    text(folder().join("python-strangers/bin").join(program))
}

/// npm server-everything on stdio.
pub fn everything() -> Vec<String> {
    npm("server-everything", &["stdio"])
}

/// npm server-filesystem over one folder.
pub fn filesystem(root: &str) -> Vec<String> {
    npm("server-filesystem", &[root])
}

/// npm server-memory; its file comes by MEMORY_FILE_PATH.
pub fn memory() -> Vec<String> {
    npm("server-memory", &[])
}

/// npm server-github, which lists without a network.
pub fn github() -> Vec<String> {
    npm("server-github", &[])
}

/// npm server-everything, asked by a client with every capability it has tools for.
pub const EVERY_CAPABILITY: &str = r#"{"roots": {"listChanged": true}, "sampling": {}, "elicitation": {"form": {}, "url": {}},
    "tasks": {"list": {}, "cancel": {}, "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}}}"#;

/// npm server-postgres, whose database nobody needs until it is asked.
pub fn postgres() -> Vec<String> {
    npm("server-postgres", &["postgresql://127.0.0.1:1/none"])
}

/// npm server-slack; it starts with any SLACK_BOT_TOKEN and SLACK_TEAM_ID.
pub fn slack() -> Vec<String> {
    npm("server-slack", &[])
}

/// npm @playwright/mcp with every capability that adds tools; the browser is started by the first call, not before.
pub fn playwright() -> Vec<String> {
    vec![
        node(),
        node_module("@playwright/mcp/cli.js"),
        "--headless".into(),
        "--isolated".into(),
        "--caps".into(),
        "vision,pdf,devtools".into(),
    ]
}

/// npm @notionhq/notion-mcp-server; it starts with any NOTION_TOKEN.
pub fn notion() -> Vec<String> {
    vec![
        node(),
        node_module("@notionhq/notion-mcp-server/bin/cli.mjs"),
    ]
}

/// PyPI mcp-server-fetch.
pub fn fetch() -> Vec<String> {
    vec![python_current("mcp-server-fetch")]
}

/// PyPI mcp-server-time.
pub fn time() -> Vec<String> {
    vec![
        python_current("mcp-server-time"),
        "--local-timezone".into(),
        "UTC".into(),
    ]
}

/// PyPI mcp-server-git over one repository.
pub fn git(repository: &str) -> Vec<String> {
    vec![
        python_current("mcp-server-git"),
        "--repository".into(),
        repository.into(),
    ]
}

/// PyPI mcp-server-sqlite over one file.
pub fn sqlite(file: &str) -> Vec<String> {
    vec![
        python_previous("mcp-server-sqlite"),
        "--db-path".into(),
        file.into(),
    ]
}

fn npm(name: &str, arguments: &[&str]) -> Vec<String> {
    let mut command = vec![
        node(),
        node_module(&format!("@modelcontextprotocol/{name}/dist/index.js")),
    ];
    command.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    command
}

fn text(path: PathBuf) -> String {
    assert!(
        path.exists(),
        "a pinned peer is missing: {}",
        path.display()
    );
    path.into_os_string()
        .into_string()
        .expect("a cache path is text")
}
