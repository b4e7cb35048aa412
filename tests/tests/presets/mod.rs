//! The presets before the servers they speak of: the lists they know, every tool called under them, and their recipes.

mod browser;
mod lists;
mod protected;
mod recipes;
mod recorded;
pub(crate) mod tools;

use countersign_tests::client::Client;
use countersign_tests::world::World;
use serde_json::{Value, json};

/// A world with server `s` under a preset and agent `a`.
pub(crate) fn under(world: &World, preset: &str, environment: &[(&str, &str)], command: &[String]) {
    let mut options = vec!["--preset".to_owned(), preset.to_owned()];
    for (name, value) in environment {
        options.extend(["--env".to_owned(), format!("{name}={value}")]);
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    world.server_with("s", &options, command);
    world.agent("a");
    world.unlimited();
}

/// The document of an answer of the gate, for a tool without an output schema: a preview, a prompt, a refusal.
pub(crate) fn document(answer: &Value) -> &Value {
    &answer["result"]["structuredContent"]
}

/// What the gate showed instead of running a call. Read from its text, which every tool's answer has.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The code of a prompt; `None` for a dry run.
    pub(crate) code: Option<String>,
    /// Whether the prompt says that what was shown before is no longer so.
    pub(crate) changed: bool,
    /// The preview.
    pub(crate) preview: Value,
}

/// A prompt or a dry run; `None` for any other answer.
pub(crate) fn shown(answer: &Value) -> Option<Shown> {
    let text = answer["result"]["content"][0]["text"].as_str()?;
    let (sentence, preview) = text.split_once('\n')?;
    let asks = sentence.contains("was not run yet: it is dangerous");
    if !asks && !sentence.starts_with("Preview of ") {
        return None;
    }
    let code = sentence
        .split_once("`confirm_token` \"")
        .and_then(|(_, rest)| rest.split('"').next());
    assert_eq!(asks, code.is_some(), "{sentence}");
    Some(Shown {
        code: code.map(str::to_owned),
        changed: sentence.starts_with("What it would change is no longer what you were shown"),
        preview: serde_json::from_str(preview).expect("a preview is JSON"),
    })
}

/// The same, where nothing else may come.
pub(crate) fn must_show(answer: &Value) -> Shown {
    shown(answer).unwrap_or_else(|| panic!("nothing is shown: {answer}"))
}

impl Shown {
    /// The call again with the prompt's code.
    pub(crate) fn confirmed(&self, arguments: &Value) -> Value {
        with(
            arguments,
            "confirm_token",
            &json!(self.code.as_ref().expect("a code")),
        )
    }

    /// How the preview was made.
    pub(crate) fn kind(&self) -> &str {
        self.preview["kind"].as_str().expect("a kind")
    }

    /// The text of the current value at `at`.
    pub(crate) fn current(&self, at: usize) -> &str {
        let value = &self.preview["current"][at]["result"]["content"][0]["text"];
        value
            .as_str()
            .unwrap_or_else(|| panic!("no value {at} in {}", self.preview))
    }
}

/// The arguments with one more member.
pub(crate) fn with(arguments: &Value, name: &str, value: &Value) -> Value {
    let mut arguments = arguments.clone();
    arguments[name] = value.clone();
    arguments
}

/// Calls a tool; where it is asked to confirm, it does.
pub(crate) fn go(client: &mut Client, tool: &str, arguments: &Value) -> Value {
    let answer = client.call(tool, arguments);
    match shown(&answer) {
        Some(prompt) => client.call(tool, &prompt.confirmed(arguments)),
        None => answer,
    }
}
