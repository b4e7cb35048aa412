//! One held call as a person reads it. Knows no preset: the verb is handed in by who knows that it is ours.

use super::{Line, Page, Part, Section, Source, arguments};
use crate::document::{ApprovalDocument, Document, LimitTerms, PermissionDocument};
use crate::{Reason, Refusal};

/// What is shown of one call.
#[derive(Clone, Copy, Debug)]
pub struct CallView<'a> {
    /// The approval to be signed.
    pub approval: &'a Document<ApprovalDocument>,
    /// The arguments' canonical text, numbers as received.
    pub arguments: &'a [u8],
    /// The permission the call is made under.
    pub permission: Option<&'a PermissionDocument>,
    /// What the tool does, in words of a preset of ours ("write a file"). Never from a server or from executor.json.
    pub verb: Option<&'static str>,
    /// Where in the arguments the thing is that it is done to, as the preset has it.
    pub object: Option<&'a str>,
    /// What the agent says about the call.
    pub agent_says: Option<&'a str>,
    /// The arguments of the call of this tool that was approved last.
    pub before: Option<&'a [u8]>,
}

/// The page of one call: verb and object, server and tool, every argument, limits, agent, expiry, difference from last time.
///
/// # Errors
/// [`Reason::Rule`] when the arguments are not those the approval is for, or cannot be read.
pub fn call_page(view: &CallView<'_>) -> Result<Page, Refusal> {
    let body = view.approval.body();
    if crate::Hash::of(view.arguments) != body.arguments.hash {
        return Err(Reason::Rule.because("the arguments are not those the approval is for"));
    }
    let unreadable = || Reason::Rule.because("the arguments can't be read");
    let leaves = arguments::leaves(view.arguments).ok_or_else(unreadable)?;
    let mut title = match view.verb {
        Some(verb) => Line::ours(capital(verb)),
        None => Line::ours("Call the tool ").quote(Source::Server, &body.tool.name),
    };
    let object = leaves
        .iter()
        .find(|(pointer, _)| view.object.is_some_and(|object| object == pointer));
    if let Some((_, value)) = object {
        title = value.after(title.and(": "));
    }
    let tool = Line::ours("Tool ")
        .quote(Source::Server, &body.tool.name)
        .and(" of server ")
        .quote(Source::Settings, body.server.name.as_str());
    let mut agent = vec![
        Line::ours("Agent ")
            .quote(Source::Settings, body.agent.name.as_str())
            .and(format!(", key {}", body.agent.key)),
    ];
    if let Some(says) = view.agent_says {
        agent.push(Line::ours("It says: ").quote(Source::Agent, says));
    }
    let sections = vec![
        section(Part::Tool, vec![tool]),
        section(
            Part::Arguments,
            arguments::lines(view.arguments).ok_or_else(unreadable)?,
        ),
        section(Part::Limits, limits(view)),
        section(Part::Agent, agent),
        section(
            Part::Expiry,
            vec![Line::ours(format!(
                "Runs once. Can be signed until {}, then it is asked for again",
                body.expires_at
            ))],
        ),
        section(Part::Difference, difference(view, &leaves)),
    ];
    Ok(Page::of(view.approval.hash(), title, sections))
}

pub(super) fn section(part: Part, lines: Vec<Line>) -> Section {
    Section { part, lines }
}

/// The words of how often a tool may be called.
pub(super) fn often(limits: LimitTerms) -> Vec<Line> {
    let calls = limits.max_calls.map(|most| {
        Line::ours(format!(
            "At most {most} calls in the permission's whole life"
        ))
    });
    let rate = limits.rate.map(|rate| {
        Line::ours(format!(
            "At most {} calls in any {} seconds",
            rate.max, rate.per_seconds
        ))
    });
    calls.into_iter().chain(rate).collect()
}

fn limits(view: &CallView<'_>) -> Vec<Line> {
    let body = view.approval.body();
    let server = view
        .permission
        .and_then(|permission| permission.server(body.server.name.as_str()));
    let tool =
        server.and_then(|server| server.tools.iter().find(|tool| tool.name == body.tool.name));
    match tool {
        Some(tool) => {
            let mut lines = often(tool.limits);
            lines.extend(
                tool.arguments
                    .iter()
                    .map(|limit| super::permission::limit(&limit.0)),
            );
            lines
        }
        None => Vec::new(),
    }
}

fn difference(view: &CallView<'_>, now: &[(String, arguments::Leaf)]) -> Vec<Line> {
    let Some(before) = view.before else {
        return vec![Line::ours("No call of this tool was approved before")];
    };
    let Some(before) = arguments::leaves(before) else {
        return vec![Line::ours(
            "The call approved last can't be read: it can't be compared",
        )];
    };
    let find = |list: &[(String, arguments::Leaf)], pointer: &str| {
        let found = list.iter().find(|(other, _)| other == pointer);
        found.map(|(_, value)| value.clone())
    };
    let mut lines = Vec::new();
    for (pointer, value) in now {
        match find(&before, pointer) {
            Some(old) if old == *value => {}
            Some(old) => {
                let line = Line::default().quote(Source::Agent, pointer).and(" was ");
                lines.push(value.after(old.after(line).and(", is ")));
            }
            None => {
                let line = Line::ours("New: ").quote(Source::Agent, pointer).and(": ");
                lines.push(value.after(line));
            }
        }
    }
    for (pointer, value) in &before {
        if find(now, pointer).is_none() {
            let line = Line::ours("Gone: ").quote(Source::Agent, pointer).and(": ");
            lines.push(value.after(line));
        }
    }
    if lines.is_empty() {
        lines.push(Line::ours(
            "The same arguments as in the call approved last",
        ));
    }
    lines
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
