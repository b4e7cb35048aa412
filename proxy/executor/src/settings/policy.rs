//! A write policy as it is written, checked by the gate's own rules, with the path of what is wrong. Knows no path of a disk.

use countersign_gate::paths::{Place, Style};
use countersign_gate::policy::Policy;
use serde_json::Value;

use super::WritePolicyEntry;

/// The checked policy of one agent, whose relative paths begin at `workspace`.
///
/// # Errors
/// The member below the agent's own (`write_policy.allow_writes[3]`) and what is wrong with it: a policy the gate does not read, a rule
/// that could never match, no absolute workspace.
pub fn write_policy(
    entry: &WritePolicyEntry,
    workspace: Option<&str>,
) -> Result<Policy, (String, String)> {
    let absolute = workspace.is_some_and(|path| {
        [Style::Unix, Style::Windows]
            .into_iter()
            .any(|style| Place::parse(path, style).is_some())
    });
    if !absolute {
        return Err((
            "workspace".to_owned(),
            "a write policy needs the absolute path of the folder its rules are relative to"
                .to_owned(),
        ));
    }
    let written: Value = serde_json::to_value(entry)
        .map_err(|error| ("write_policy".to_owned(), error.to_string()))?;
    Policy::from_value(&written).map_err(|fault| {
        let member = match fault.path.as_str() {
            "policy" => "write_policy".to_owned(),
            inside => format!("write_policy.{inside}"),
        };
        (member, fault.reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(document: &str, workspace: Option<&str>) -> Result<Policy, String> {
        let entry: WritePolicyEntry = serde_json::from_str(document).unwrap();
        write_policy(&entry, workspace).map_err(|(path, words)| format!("{path}: {words}"))
    }

    #[test]
    fn p33_what_is_wrong_is_named_by_its_path() {
        let work = Some("/home/maria/work");
        for (document, workspace, want) in [
            (
                r#"{"version":1,"allow_writes":[]}"#,
                None,
                "workspace: a write policy needs",
            ),
            (
                r#"{"version":1,"allow_writes":[]}"#,
                Some("work"),
                "workspace: a write policy needs",
            ),
            (
                r#"{"version":1,"allow_writes":["a","src/*"]}"#,
                work,
                "write_policy.allow_writes[1]: `src/*` is no form of rule",
            ),
            (
                r#"{"version":1,"allow_writes":[],"deny_writes":["**/a/b"]}"#,
                work,
                "write_policy.deny_writes[0]: `**/a/b` could never match",
            ),
            (
                r#"{"version":1,"allow_writes":[],"shell":{"verify":["mix test"]}}"#,
                work,
                "write_policy.shell.verify[0]: `mix test` begins with none",
            ),
            (
                r#"{"version":1,"allow_writes":[],"metadata":{"id":1}}"#,
                work,
                "write_policy.metadata.id: expected a text",
            ),
        ] {
            let error = check(document, workspace).unwrap_err();
            assert!(error.starts_with(want), "{error}");
        }
        let policy = check(
            r#"{"version":1,"metadata":{"id":"notes"},"allow_writes":["notes/**"]}"#,
            Some("C:\\work"),
        );
        assert_eq!(policy.unwrap().id(), "notes");
    }
}
