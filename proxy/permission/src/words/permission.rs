//! A permission as a person reads it: what is granted, server by server and tool by tool, and what is different from before.

use serde_json::Value;

use super::call::{often, section};
use super::{Difference, Direction, Line, Page, Part, Source, differences};
use crate::document::{
    Audience, Cost, Document, OtherMembers, Payloads, PermissionDocument, PolicyTerms, ServerTerms,
    Setting, ToolTerms,
};
use crate::{Approval, ArgumentLimit, Danger, Hash, Kind, Mode, Test, Validation};

/// The kept texts of signed identities and definitions, by their hash. Where one is not kept its hash is shown.
pub trait Texts {
    /// The text whose SHA-256 is `hash`.
    fn text(&self, hash: Hash) -> Option<String>;
}

impl Texts for () {
    fn text(&self, _: Hash) -> Option<String> {
        None
    }
}

impl Texts for std::collections::BTreeMap<Hash, String> {
    fn text(&self, hash: Hash) -> Option<String> {
        self.get(&hash).cloned()
    }
}

/// The page of a permission. `before` is the permission of the agent that stood until now.
#[must_use]
pub fn permission_page(
    document: &Document<PermissionDocument>,
    before: Option<&PermissionDocument>,
    texts: &dyn Texts,
) -> Page {
    let body = document.body();
    let tools: usize = body.servers.iter().map(|server| server.tools.len()).sum();
    let title = Line::ours("Let the agent ")
        .quote(Source::Settings, body.agent.name.as_str())
        .and(format!(
            " use {} of {} until {}",
            counted(tools, "tool"),
            counted(body.servers.len(), "server"),
            body.expires_at
        ));
    let grants = body
        .servers
        .iter()
        .flat_map(|server| self::server(server, texts))
        .collect();
    let mut agent = vec![
        Line::ours("Agent ")
            .quote(Source::Settings, body.agent.name.as_str())
            .and(format!(", key {}", body.agent.key)),
    ];
    if let Some(purpose) = &body.purpose {
        agent.push(Line::ours("For: ").quote(Source::Person, purpose));
    }
    let mut expiry = vec![Line::ours(format!(
        "Holds from {} until {}",
        body.not_before, body.expires_at
    ))];
    if let Some(end) = body.key_expires_at {
        expiry.push(Line::ours(format!("The agent's key ends at {end}")));
    }
    let difference = match before {
        Some(before) => differences(before, body)
            .iter()
            .map(Difference::line)
            .collect(),
        None => vec![Line::ours("This is the first permission of this agent")],
    };
    let sections = vec![
        section(Part::Grants, grants),
        section(Part::Limits, rules(body)),
        section(Part::Agent, agent),
        section(Part::Expiry, expiry),
        section(Part::Difference, difference),
    ];
    Page::of(document.hash(), title, sections)
}

/// A limit on an argument in words.
pub(super) fn limit(limit: &ArgumentLimit) -> Line {
    let at = |words: &str| {
        Line::ours("The argument ")
            .quote(Source::Settings, &limit.pointer)
            .and(words)
    };
    let count = |words: &str, n: u64| at(words).literal(n.to_string());
    match &limit.test {
        Test::Equals(value) => json(at(" is exactly "), value),
        Test::In(values) => json(at(" is one of "), &Value::Array(values.clone())),
        Test::Prefix(text) => at(" begins with ").quote(Source::Settings, text),
        Test::Max(most) => at(" is at most ").literal(most.to_string()),
        Test::Min(least) => at(" is at least ").literal(least.to_string()),
        Test::MaxLength(most) => count(" has at most so many characters: ", *most),
        Test::MaxItems(most) => count(" has at most so many items: ", *most),
        Test::Absent => at(" is not there"),
    }
}

fn json(line: Line, value: &Value) -> Line {
    match value {
        Value::String(text) => line.quote(Source::Settings, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => line.literal(value.to_string()),
        Value::Array(_) | Value::Object(_) => line.quote(Source::Settings, &value.to_string()),
    }
}

fn counted(n: usize, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

fn server(server: &ServerTerms, texts: &dyn Texts) -> Vec<Line> {
    let name = server.name.as_str();
    let mut lines = vec![
        Line::ours("Server ")
            .quote(Source::Settings, name)
            .and(format!(", {}", counted(server.tools.len(), "tool"))),
    ];
    lines.push(match texts.text(server.identity) {
        Some(text) => Line::ours("  It is ").quote(Source::Settings, &text),
        None => Line::ours(format!("  It is {}", server.identity)),
    });
    if let Some(cwd) = &server.cwd {
        lines.push(Line::ours("  Works in ").quote(Source::Settings, cwd));
    }
    for (what, settings) in [("environment", &server.env), ("header", &server.headers)] {
        for (name, value) in settings {
            let line = Line::ours(format!("  Is given the {what} ")).quote(Source::Settings, name);
            lines.push(match value {
                Setting::Text(text) => line.and(" with ").quote(Source::Settings, text),
                Setting::Secret(place) => {
                    line.and(" with the secret ").quote(Source::Settings, place)
                }
            });
        }
    }
    for pass in &server.pass {
        lines.push(Line::ours(format!(
            "  May ask the agent's program: {}",
            pass.word()
        )));
    }
    for method in &server.methods {
        lines.push(Line::ours("  The method passes: ").quote(Source::Settings, method));
    }
    if server.other_members == OtherMembers::Deny {
        lines.push(Line::ours(
            "  Unknown members of its tools' definitions are left out",
        ));
    }
    if server.context {
        lines.push(Line::ours("  Is told which agent calls"));
    }
    for tool in &server.tools {
        lines.extend(self::tool(name, tool, texts));
    }
    lines
}

fn tool(server: &str, tool: &ToolTerms, texts: &dyn Texts) -> Vec<Line> {
    let does = match tool.kind {
        Kind::Read => "reads",
        Kind::Write => "may change something",
    };
    let mut lines = vec![
        Line::ours("  Tool ")
            .quote(Source::Server, &tool.name)
            .and(format!(": {does}")),
    ];
    let mut say = |line: Line| lines.push(Line::ours("    ").joined(line));
    say(match texts.text(tool.definition) {
        Some(text) => Line::ours("As it describes itself: ").quote(Source::Server, &text),
        None => Line::ours(format!("As defined by {}", tool.definition)),
    });
    let who = match tool.approval {
        Approval::None => "the agent repeats the call with a code",
        Approval::Person => "you say yes in the app",
        Approval::Passkey => "you sign with your passkey",
    };
    match &tool.danger {
        Danger::Never if tool.kind == Kind::Write && tool.approval == Approval::None => {
            say(Line::ours("Runs without asking"));
        }
        Danger::Never => {}
        Danger::Always => say(Line::ours(format!("Before every call {who}"))),
        Danger::When(schema) => {
            let line = Line::ours(format!("Before a call {who}, when its arguments match "));
            say(json(line, schema));
        }
    }
    if tool.danger == Danger::Never && tool.approval != Approval::None {
        say(Line::ours(format!(
            "Where a call counts as dangerous, {who}; none does"
        )));
    }
    often(tool.limits).into_iter().for_each(&mut say);
    tool.arguments
        .iter()
        .map(|one| limit(&one.0))
        .for_each(&mut say);
    if tool.scope.is_some() {
        say(Line::ours("Needs the scope ").quote(Source::Settings, &tool.scope_on(server)));
    }
    for path in tool.paths.iter().flatten() {
        say(Line::ours("The argument ")
            .quote(Source::Settings, &path.pointer)
            .and(format!(" is a path ({})", path.effect.word())));
    }
    if tool.paths.as_ref().is_some_and(Vec::is_empty) {
        say(Line::ours("None of its arguments is a path"));
    }
    if let Some(preview) = &tool.preview {
        let text = serde_json::json!(preview).to_string();
        say(Line::ours("A call is previewed by ").quote(Source::Settings, &text));
    }
    if tool.validation == Validation::Warn {
        say(Line::ours(
            "Arguments that do not fit its schema are let through and noted",
        ));
    }
    if tool.open_arguments {
        say(Line::ours("Arguments beyond its schema are let through"));
    }
    if let Some(most) = tool.max_items {
        say(Line::ours(format!("Takes lists of at most {most} items")));
    }
    if let Some(most) = tool.max_bytes {
        say(Line::ours(format!(
            "Takes arguments of at most {most} bytes"
        )));
    }
    match &tool.cost {
        Some(Cost::Units(units)) => say(Line::ours(format!("A call costs {units} units"))),
        Some(Cost::Per(pointer)) => {
            say(Line::ours("A call costs one unit for each item of ")
                .quote(Source::Settings, pointer));
        }
        None => {}
    }
    if !tool.replay {
        say(Line::ours("A repeated call runs again"));
    }
    if tool.require_copy {
        say(Line::ours("Waits until a copy of the book has its entry"));
    }
    if tool.audience == Audience::Public {
        say(Line::ours("Anybody may call it, without a key"));
    }
    if let Some(pointer) = &tool.client_token {
        say(Line::ours("Public callers are told apart by ").quote(Source::Settings, pointer));
    }
    lines
}

/// What holds for the agent as a whole.
fn rules(body: &PermissionDocument) -> Vec<Line> {
    let mut lines = vec![Line::ours(match body.mode {
        Mode::Auto => "Calls run as each tool says",
        Mode::Ask => "Every write waits for you",
        Mode::ReadOnly => "No write runs",
    })];
    for scope in body.scopes.iter().flatten() {
        lines.push(Line::ours("It has the scope ").quote(Source::Settings, scope));
    }
    if body.scopes.as_ref().is_some_and(Vec::is_empty) {
        lines.push(Line::ours("It has no scope: no tool is open"));
    }
    if let Some(workspace) = &body.workspace {
        lines.push(Line::ours("It works in ").quote(Source::Settings, workspace));
    }
    lines.extend(body.write_policy.iter().flat_map(policy));
    if body.turn_idle_minutes > 0 {
        lines.push(Line::ours(format!(
            "A turn without a strike ends after {} idle minutes",
            body.turn_idle_minutes
        )));
    }
    let book = &body.book;
    lines.push(Line::ours("Recorded in the book ").quote(Source::Settings, &book.origin));
    if !book.reads {
        lines.push(Line::ours("Reads are not recorded"));
    }
    if book.payloads == Payloads::Digest {
        lines.push(Line::ours(
            "Arguments and results are not kept, only their commitments",
        ));
    }
    if let Some(days) = book.retain {
        lines.push(Line::ours(format!(
            "Entries may be removed after {days} days"
        )));
    }
    if book.allow_network_folder {
        lines.push(Line::ours("The book may lie in a network folder"));
    }
    lines
}

fn policy(policy: &PolicyTerms) -> Vec<Line> {
    let allow = policy
        .allow_writes
        .iter()
        .map(|rule| Line::ours("It may write ").quote(Source::Settings, rule));
    let deny = policy
        .deny_writes
        .iter()
        .map(|rule| Line::ours("It may not write ").quote(Source::Settings, rule));
    let mut lines = vec![Line::ours(format!(
        "Its writes are bounded by a policy of version {}, and the second denial ends its turn",
        policy.version
    ))];
    lines.extend(allow.chain(deny));
    lines.push(match &policy.shell {
        Value::String(word) if word == "disabled" => {
            Line::ours("Of shell commands only those run that change nothing")
        }
        shell => {
            Line::ours("These shell commands run too: ").quote(Source::Settings, &shell.to_string())
        }
    });
    if let Some(metadata) = &policy.metadata {
        let text = serde_json::json!(metadata).to_string();
        lines.push(Line::ours("The policy says of itself: ").quote(Source::Settings, &text));
    }
    lines
}

impl Line {
    fn joined(mut self, other: Self) -> Self {
        self.spans.extend(other.spans);
        self
    }
}

impl Difference {
    /// The difference as a line.
    #[must_use]
    pub fn line(&self) -> Line {
        let sign = match self.direction {
            Direction::Less => "Less: ",
            Direction::More => "More: ",
            Direction::Other => "Other: ",
        };
        let line = Line::ours(sign).quote(Source::Settings, &self.member);
        let value = |line: Line, value: &Option<String>| match value {
            Some(text) => line.quote(Source::Settings, text),
            None => line.and("nothing"),
        };
        value(
            value(line.and(" was "), &self.before).and(", becomes "),
            &self.after,
        )
    }
}
