//! Members of a policy's document, read strictly: each fault names its member. Knows no rule's meaning.

use serde_json::Value;

use super::document::{DEFAULT_PREFIXES, MOST_COMMANDS, MOST_RULES, PolicyFault, Shell};
use super::rule::Rule;
use crate::shell::has_control;

/// The name of a policy that has none.
const DEFAULT_ID: &str = "bounded-write";

pub(super) fn read_id(metadata: Option<&Value>) -> Result<String, PolicyFault> {
    let Some(metadata) = metadata else {
        return Ok(DEFAULT_ID.to_string());
    };
    let members = metadata.as_object().ok_or_else(|| {
        fault(
            "metadata",
            format!("expected an object, not {}", kind(metadata)),
        )
    })?;
    match members.get("id") {
        None => Ok(DEFAULT_ID.to_string()),
        Some(Value::String(id))
            if (1..=128).contains(&id.chars().count()) && !id.chars().any(char::is_control) =>
        {
            Ok(id.clone())
        }
        Some(_) => Err(fault(
            "metadata.id",
            "expected a text of 1 to 128 characters".to_string(),
        )),
    }
}

pub(super) fn read_rules(member: &str, value: &Value) -> Result<Vec<Rule>, PolicyFault> {
    read_rules_up_to(member, value, MOST_RULES)
}

pub(super) fn read_rules_up_to(
    member: &str,
    value: &Value,
    most: usize,
) -> Result<Vec<Rule>, PolicyFault> {
    let list = value.as_array().ok_or_else(|| {
        fault(
            member,
            format!("expected a list of rules, not {}", kind(value)),
        )
    })?;
    if list.len() > most {
        return Err(fault(
            member,
            format!("{} rules; at most {most}", list.len()),
        ));
    }
    let read = list.iter().enumerate().map(|(at, rule)| {
        let path = format!("{member}[{at}]");
        let Some(text) = rule.as_str() else {
            return Err(fault(&path, format!("expected a text, not {}", kind(rule))));
        };
        Rule::parse(text)
            .map_err(|why| fault(&path, format!("`{}` {why}", crate::paths::shown(text))))
    });
    read.collect()
}

pub(super) fn read_shell(value: Option<&Value>) -> Result<Shell, PolicyFault> {
    let members = match value {
        None => return Ok(Shell::Disabled),
        Some(Value::String(word)) if word == "disabled" => return Ok(Shell::Disabled),
        Some(Value::Object(members)) => members,
        Some(_) => {
            let expected = "expected `disabled` or an object with `verify`";
            return Err(fault("shell", expected.to_string()));
        }
    };
    if let Some(unknown) = members
        .keys()
        .find(|name| !["verify", "verify_prefixes"].contains(&name.as_str()))
    {
        return Err(fault(
            &format!("shell.{unknown}"),
            "no such member; there are `verify` and `verify_prefixes`".to_string(),
        ));
    }
    let prefixes = members
        .get("verify_prefixes")
        .map(read_prefixes)
        .transpose()?;
    let accepted: Vec<String> = match &prefixes {
        Some(prefixes) => prefixes.clone(),
        None => DEFAULT_PREFIXES.map(String::from).to_vec(),
    };
    let Some(verify) = members.get("verify") else {
        return Err(fault("shell.verify", "is missing".to_string()));
    };
    let commands = read_texts("shell.verify", verify)?;
    for (at, command) in commands.iter().enumerate() {
        let wrong = |why: String| {
            Err(fault(
                &format!("shell.verify[{at}]"),
                format!("`{}` {why}", crate::paths::shown(command)),
            ))
        };
        if has_control(command) {
            return wrong("holds a sign that makes a shell run more than one program".to_string());
        }
        let words: Vec<&str> = command.split_whitespace().collect();
        if words.iter().any(|word| {
            word.split('/')
                .any(|part| part.trim_matches(['"', '\'']) == "..")
        }) {
            return wrong("holds `..`".to_string());
        }
        let fits = |prefix: &String| {
            let prefix: Vec<&str> = prefix.split_whitespace().collect();
            words.starts_with(&prefix)
        };
        if !accepted.iter().any(fits) {
            return wrong(format!(
                "begins with none of the accepted prefixes `{}`",
                accepted.join("`, `")
            ));
        }
    }
    Ok(Shell::Verify { commands, prefixes })
}

fn read_prefixes(value: &Value) -> Result<Vec<String>, PolicyFault> {
    let prefixes = read_texts("shell.verify_prefixes", value)?;
    if prefixes.is_empty() {
        return Err(fault(
            "shell.verify_prefixes",
            "is empty; leave it out for the default prefixes".to_string(),
        ));
    }
    for (at, prefix) in prefixes.iter().enumerate() {
        if !(1..=2).contains(&prefix.split_whitespace().count()) || has_control(prefix) {
            return Err(fault(
                &format!("shell.verify_prefixes[{at}]"),
                "expected one or two plain words".to_string(),
            ));
        }
    }
    Ok(prefixes)
}

fn read_texts(path: &str, value: &Value) -> Result<Vec<String>, PolicyFault> {
    let list = value
        .as_array()
        .ok_or_else(|| fault(path, format!("expected a list, not {}", kind(value))))?;
    if list.len() > MOST_COMMANDS {
        return Err(fault(
            path,
            format!("{} of them; at most {MOST_COMMANDS}", list.len()),
        ));
    }
    let read = list.iter().enumerate().map(|(at, text)| {
        let trimmed = text.as_str().map(str::trim).filter(|text| !text.is_empty());
        trimmed.map(String::from).ok_or_else(|| {
            fault(
                &format!("{path}[{at}]"),
                "expected a text that is not empty".to_string(),
            )
        })
    });
    read.collect()
}

pub(super) fn fault(path: &str, reason: String) -> PolicyFault {
    PolicyFault {
        path: path.to_string(),
        reason,
    }
}

pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a yes or no",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
