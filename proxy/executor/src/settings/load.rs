//! executor.json from disk to its checked form. An error names the file and the member. Watches nothing.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::folder::{FolderError, Stamp, read_own};
use crate::problem::Problem;

use super::checked::Settings;
use super::file::SettingsFile;
use super::strict;

/// The largest executor.json, in bytes.
pub const MAX_BYTES: u64 = 8 << 20;

/// Settings with the state of the file they came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The checked settings.
    pub settings: Settings,
    /// The file's bytes, for its hash.
    pub bytes: Vec<u8>,
    /// The state of the file.
    pub stamp: Stamp,
}

/// Why executor.json can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It can't be read, or isn't safely ours.
    #[error(transparent)]
    File(#[from] FolderError),
    /// A newer program wrote it.
    #[error("{}: version: a newer version of countersign wrote this file (version {version})", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// A member is wrong.
    #[error("{}: {}{message}", path.display(), prefix(member))]
    Member {
        /// The file.
        path: PathBuf,
        /// The member's path, empty for the whole.
        member: String,
        /// What is wrong with it.
        message: String,
    },
}

/// Reads and checks executor.json at `path`.
pub fn load(path: &Path) -> Result<Loaded, SettingsError> {
    let (bytes, stamp) = read_own(path, MAX_BYTES)?;
    let settings = check_bytes(path, &bytes)?;
    Ok(Loaded {
        settings,
        bytes,
        stamp,
    })
}

/// Checks the bytes of an executor.json; `path` is only for the error's words.
pub fn check_bytes(path: &Path, bytes: &[u8]) -> Result<Settings, SettingsError> {
    let wrong = |(member, message): (String, String)| SettingsError::Member {
        path: path.to_owned(),
        member,
        message,
    };
    let value = strict::parse(bytes).map_err(wrong)?;
    if !value.is_object() {
        return Err(wrong((
            String::new(),
            "invalid type: expected an object".to_owned(),
        )));
    }
    if let Some(version) = value.get("version").and_then(Value::as_u64)
        && version > u64::from(SettingsFile::VERSION)
    {
        return Err(SettingsError::Newer {
            path: path.to_owned(),
            version,
        });
    }
    let file: SettingsFile = serde_path_to_error::deserialize(&value)
        .map_err(|error| wrong((strict::path_text(error.path()), member_words(error.inner()))))?;
    let written =
        serde_json::to_value(&file).map_err(|error| wrong((String::new(), error.to_string())))?;
    if let Some(member) = list_for_object(&value, &written, String::new()) {
        return Err(wrong((member, "expected an object, not a list".to_owned())));
    }
    let settings = Settings::check(file).map_err(wrong)?;
    super::effective::check_prices(&settings).map_err(wrong)?;
    Ok(settings)
}

impl From<SettingsError> for Problem {
    fn from(error: SettingsError) -> Problem {
        let text = error.to_string();
        match error {
            SettingsError::File(file) if file.is_not_found() => Problem::new(
                "not_initialised",
                text,
                "make an executor with `countersign init`, or name its folder with --dir",
            ),
            SettingsError::File(file) => file.into(),
            SettingsError::Newer { .. } => Problem::new(
                "restart_required",
                text,
                "use the newer version of countersign, and restart what runs the older one",
            ),
            SettingsError::Member { .. } => Problem::new(
                "settings_invalid",
                text,
                "correct the member; nothing is open until the file is right",
            ),
        }
    }
}

/// The parser's words, in ours: what executor.json holds are members.
fn member_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.split_once(" field ") {
        Some((first @ ("unknown" | "missing" | "duplicate"), rest)) => {
            format!("{first} member {rest}")
        }
        _ => text,
    }
}

/// The parser takes a list for an object whose members are in its order; a person never means that. The path of the first one.
fn list_for_object(read: &Value, written: &Value, path: String) -> Option<String> {
    match (read, written) {
        (Value::Array(_), Value::Object(_)) => Some(path),
        (Value::Array(read), Value::Array(written)) => read
            .iter()
            .zip(written)
            .enumerate()
            .find_map(|(at, (read, written))| {
                list_for_object(read, written, format!("{path}[{at}]"))
            }),
        (Value::Object(read), Value::Object(written)) => read.iter().find_map(|(name, read)| {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            list_for_object(read, written.get(name)?, path)
        }),
        _ => None,
    }
}

fn prefix(member: &str) -> String {
    if member.is_empty() {
        String::new()
    } else {
        format!("{member}: ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const SMALL: &str = r#"{"version":1,"executor":{"id":"6d1c2c35-3f0f-4e0c-9d7e-0a1b2c3d4e5f"},"secrets":"file"}"#;

    fn with(members: &str) -> String {
        format!("{},{members}}}", &SMALL[..SMALL.len() - 1])
    }

    fn check(text: &str, expected: Result<(), &str>) {
        let got = check_bytes(Path::new("executor.json"), text.as_bytes());
        match (got, expected) {
            (Ok(_), Ok(())) => {}
            (Err(error), Err(words)) => {
                let error = error.to_string();
                assert!(
                    error.contains(words),
                    "{text}\n  gives: {error}\n  expected: {words}"
                );
            }
            (got, expected) => panic!(
                "{text}: {:?}, expected {expected:?}",
                got.map(|_| ()).map_err(|e| e.to_string())
            ),
        }
    }

    #[test]
    fn the_example_of_the_design_loads() {
        check(include_str!("../../testdata/settings/full.json"), Ok(()));
        check(SMALL, Ok(()));
    }

    #[test]
    fn wrong_members_are_named_by_path() {
        let tool = |members: &str| {
            with(&format!(
                r#""servers":{{"s":{{"command":"x","tools":{{"t":{{{members}}}}}}}}}"#
            ))
        };
        let server = |members: &str| with(&format!(r#""servers":{{"s":{{{members}}}}}"#));
        let agent = |members: &str| {
            with(&format!(
                r#""agents":{{"a":{{"key":"csk_ab12cd34",{members}}}}}"#
            ))
        };
        let cases = [
            (
                with(r#""colour":1"#),
                "executor.json: colour: unknown member `colour`",
            ),
            (with(r#""enabled":"yes""#), "executor.json: enabled: "),
            (
                with(r#""enabled":true,"enabled":false"#),
                "member `enabled` appears twice",
            ),
            (
                SMALL.replace("1,", "2,"),
                "version: a newer version of countersign wrote this file (version 2)",
            ),
            (
                SMALL.replace("1,", "0,"),
                "version: this program reads version 1, not 0",
            ),
            (
                SMALL.replace("6d1c", "xxxx"),
                "executor.id: expected a UUID",
            ),
            (
                SMALL.replace("\"file\"", "\"plain\""),
                "secrets: unknown variant `plain`",
            ),
            (
                with(r#""servers":{"S":{"command":"x"}}"#),
                "servers.S: `S` is not a name",
            ),
            (
                server(r#""args":[]"#),
                "servers.s: expected `command` or `url`",
            ),
            (
                server(r#""command":"x","url":"https://y""#),
                "exclude each other",
            ),
            (
                server(r#""url":"ftp://y""#),
                "servers.s.url: expected an address",
            ),
            (
                server(r#""url":"https://me:pw@y""#),
                "servers.s.url: an address can't hold a user",
            ),
            (
                server(r#""url":"https://y","env":{"A":"b"}"#),
                "servers.s: `args`, `cwd` and `env`",
            ),
            (
                server(r#""command":"x","env":{"A":{"secret":"other/A"}}"#),
                "`A`: a secret of this server is named `s/KEY`",
            ),
            (
                server(r#""command":"x","env":{"A":{"secrets":"s/A"}}"#),
                "servers.s.env.A: expected text or",
            ),
            (
                server(r#""command":"x","env":{"A":{"secret":"s/A","b":1}}"#),
                "servers.s.env.A: expected text or",
            ),
            (
                server(r#""command":"x","preset":"nope""#),
                "servers.s.preset: no preset is called `nope`",
            ),
            (
                server(r#""command":"x","pass":["root"]"#),
                "servers.s.pass[0]: unknown variant `root`",
            ),
            (
                tool(r#""kind":"reed""#),
                "servers.s.tools.t.kind: unknown variant `reed`",
            ),
            (
                tool(r#""colour":1"#),
                "servers.s.tools.t.colour: unknown member `colour`",
            ),
            (
                tool(r#""danger":"sometimes""#),
                "servers.s.tools.t.danger: expected `never`, `always`",
            ),
            (
                tool(r#""cost":0"#),
                "servers.s.tools.t.cost: expected a whole number",
            ),
            (
                tool(r#""cost":{"per":"queries"}"#),
                "servers.s.tools.t.cost.per: `queries` is not a JSON pointer",
            ),
            (
                tool(r#""max_items":0"#),
                "servers.s.tools.t.max_items: expected a whole number",
            ),
            (
                tool(r#""arguments":[{"pointer":"/a","op":"matches","value":"x"}]"#),
                "servers.s.tools.t.arguments[0].op: unknown variant",
            ),
            (
                tool(r#""arguments":[{"pointer":"/a","op":"max","value":"x"}]"#),
                "servers.s.tools.t.arguments: `max` needs",
            ),
            (
                tool(r#""preview":{}"#),
                "servers.s.tools.t.preview: expected `argument` or `reads`",
            ),
            (
                tool(r#""preview":{"reads":[{"tool":"r","ignore":["id"]}]}"#),
                "servers.s.tools.t.preview.reads: `id` is not a JSON pointer",
            ),
            (
                tool(r#""preview":{"reads":[{"tool":"r","arguments":{"a":[{"from":"b"}]}}]}"#),
                "servers.s.tools.t.preview.reads.arguments: `b` is not a JSON pointer",
            ),
            (
                tool(r#""preview":{"reads":[{"tool":"r","if":"/a"}]}"#),
                "servers.s.tools.t.preview.reads[0].if: unknown member",
            ),
            (
                agent(r#""expires_at":"tomorrow""#),
                "agents.a.expires_at: `tomorrow` is not a time",
            ),
            (
                agent(r#""scopes":["A b"]"#),
                "agents.a.scopes: `A b` is not a scope",
            ),
            (
                agent(r#""write_policy":{"version":2,"allow_writes":[]}"#),
                "agents.a.write_policy.version: this program reads version 1",
            ),
            (
                agent(r#""write_policy":{"version":1,"allow_writes":[],"shell":"on"}"#),
                "agents.a.write_policy.shell: expected `disabled`",
            ),
            (
                with(r#""agents":{"a":{"key":"csk_ab12cd34"},"b":{"key":"csk_ab12cd34"}}"#),
                "agents.b.key: agent `a` has this key",
            ),
            (
                with(r#""agents":{"a":{"key":"csk_ab12cd34_zzzzzzzz"}}"#),
                "agents.a.key: expected `csk_` and 8 characters",
            ),
            (
                with(r#""buckets":{"key":{"size":19,"per_minute":60}}"#),
                "buckets.key.size: it is 19",
            ),
            (tool(r#""cost":500"#), "`s/t` can cost 500"),
            (
                with(r#""buckets":{"key":[120,60]}"#),
                "buckets.key: expected an object, not a list",
            ),
            (
                with(r#""copies":[["/a"]]"#),
                "copies[0]: expected an object, not a list",
            ),
            (
                with(r#""buckets":{"key":{"size":0,"per_minute":60}}"#),
                "buckets.key: `size` and `per_minute`",
            ),
            (
                with(r#""limits":{"depth":1}"#),
                "limits.depth: expected a whole number from 16",
            ),
            (
                with(r#""copies":[{"folder":"/a","witness":"https://w"}]"#),
                "copies[0]: expected either",
            ),
            ("[]".to_owned(), "invalid type"),
            ("{\"version\":1".to_owned(), "EOF while parsing"),
            (String::new(), "EOF while parsing"),
        ];
        for (text, words) in cases {
            check(&text, Err(words));
        }
    }

    #[test]
    fn secrets_that_lie_in_a_wrong_member_are_not_echoed() {
        let text = with(r#""agents":{"a":{"key":"csk_ab12cd34_0123456789secret"}}"#);
        let error = check_bytes(Path::new("executor.json"), text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(!error.contains("0123456789secret"), "{error}");
    }

    proptest::proptest! {
        /// Whatever stands in the file, there is an answer; and what loads is closed or open by its own words, never by a panic.
        #[test]
        fn any_change_of_a_good_file_gets_an_answer(
            at in 0usize..3000, cut in 0usize..40, put in "[\\PC\\x00-\\x1f]{0,12}",
        ) {
            let mut text: Vec<char> = include_str!("../../testdata/settings/full.json").chars().collect();
            let at = at.min(text.len());
            let end = (at + cut).min(text.len());
            text.splice(at..end, put.chars());
            let text: String = text.into_iter().collect();
            if let Err(error) = check_bytes(Path::new("executor.json"), text.as_bytes()) {
                proptest::prop_assert!(error.to_string().starts_with("executor.json: "));
            }
        }
    }
}
