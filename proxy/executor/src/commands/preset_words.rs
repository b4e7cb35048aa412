//! What a person is told of a server's preset: where it and the server differ, and why tools are judged as they are. Judges nothing itself.

use serde_json::{Value, json};

use crate::settings::{Difference, Launch, Listed, Misfit, Server, fit, preset, suggest};

use super::plain;
use super::server_check::ListedTool;

/// What `server check` says of the preset: text and members.
pub struct Said {
    /// Lines, each with its end.
    pub text: String,
    /// The report's `preset` member.
    pub json: Value,
}

/// Of a started server's tools.
pub fn said(server: &Server, tools: &[ListedTool]) -> Said {
    let Some(known) = server.preset else {
        return unnamed(server);
    };
    let name = server.entry.preset.as_deref().unwrap_or_default();
    let listed: Listed = tools
        .iter()
        .map(|tool| (tool.name.clone(), tool.schema.clone()))
        .collect();
    let misfits = fit(known, &listed);
    let judged: Vec<(&str, &str)> = tools
        .iter()
        .filter_map(|tool| Some((tool.name.as_str(), known.judgement(&tool.name)?)))
        .collect();
    let mut text = differences(name, &misfits);
    if !judged.is_empty() {
        text.push_str("why they are judged so:\n");
    }
    for (tool, why) in &judged {
        text.push_str(&format!("  {}: {}\n", plain(tool), plain(why)));
    }
    let judgements: serde_json::Map<String, Value> = judged
        .iter()
        .map(|(tool, why)| ((*tool).to_owned(), Value::from(*why)))
        .collect();
    Said {
        text,
        json: json!({"name": name, "title": known.title, "differences": misfits, "judgements": judgements}),
    }
}

/// Where preset and server differ, in lines; what only another version or other options have is one line.
pub fn differences(name: &str, misfits: &[Misfit]) -> String {
    let (matter, gone): (Vec<&Misfit>, Vec<&Misfit>) =
        misfits.iter().partition(|misfit| misfit.what.matters());
    let mut text = match matter.is_empty() {
        true => format!("the preset `{name}` knows every tool it has\n"),
        false => format!("the preset `{name}` and the server differ:\n"),
    };
    for misfit in matter {
        text.push_str(&format!("  {}\n", misfit.words()));
    }
    if !gone.is_empty() {
        let names: Vec<String> = gone.iter().map(|misfit| plain(&misfit.tool)).collect();
        text.push_str(&format!(
            "not listed by this server (another version, or other options): {}\n",
            names.join(", ")
        ));
    }
    text
}

/// The names in differences that matter, of one kind.
pub fn names(misfits: &[Misfit], what: Difference) -> Vec<String> {
    let of_kind = misfits.iter().filter(|misfit| misfit.what == what);
    of_kind
        .map(|misfit| format!("`{}`", plain(&misfit.tool)))
        .collect()
}

/// The preset that knows a server whose entry names none.
fn suggested(server: &Server) -> Option<&'static str> {
    match &server.launch {
        Launch::Child { command, args, .. } if server.preset.is_none() => suggest(command, args),
        _ => None,
    }
}

/// The sentence that offers a preset.
pub fn offer(server: &str, name: &str) -> String {
    let title = preset(name).map_or("", |preset| preset.title.as_str());
    format!(
        "this looks like the server the preset `{name}` knows ({title}): `countersign server set {server} --preset {name}` takes over which tools only read, which arguments are paths, and how writes are previewed\n"
    )
}

fn unnamed(server: &Server) -> Said {
    let suggested = suggested(server);
    Said {
        text: suggested.map_or_else(String::new, |name| offer(server.name.as_str(), name)),
        json: json!({"name": Value::Null, "suggested": suggested}),
    }
}
