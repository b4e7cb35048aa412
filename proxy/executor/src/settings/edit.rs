//! Changing executor.json: under a lock between processes, touching only what the command names, checked before it replaces the old file.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::folder::{Folder, read_own, replace};
use crate::problem::Problem;

use super::load::{MAX_BYTES, SettingsError, check_bytes};
use super::{Settings, authors, strict};

const WAIT: Duration = Duration::from_secs(10);

/// Runs `change` on the document and writes it back if it changed and the result checks. Members keep their order; what `change`
/// doesn't touch stays. `by` is the command in words, for whoever records the change. Returns what `change` returned, the settings as they are now and the file's bytes.
pub fn edit<T>(
    folder: &Folder,
    by: &str,
    change: impl FnOnce(&mut Map<String, Value>) -> Result<T, Problem>,
) -> Result<(T, Settings, Vec<u8>), Problem> {
    folder.check()?;
    let _lock = folder.lock("settings.lock", WAIT)?;
    let path = folder.settings();
    let (old, _) = read_own(&path, MAX_BYTES).map_err(SettingsError::from)?;
    check_bytes(&path, &old)?;
    let mut document = strict::parse(&old).map_err(|(member, message)| SettingsError::Member {
        path: path.clone(),
        member,
        message,
    })?;
    let before = document.clone();
    let members = document.as_object_mut().ok_or_else(|| {
        Problem::new(
            "settings_invalid",
            "executor.json is not an object",
            "restore it from a copy",
        )
    })?;
    let value = change(members)?;
    if before == document {
        let settings = check_bytes(&path, &old)?;
        return Ok((value, settings, old));
    }
    let bytes = render(&document);
    let settings = check_bytes(&path, &bytes).map_err(refused)?;
    // Before the file is there: whoever sees it knows by whom.
    if let Err(error) = authors::announce(folder, &old, &bytes, by) {
        tracing::warn!(%error, "the record of this change may not say which command made it");
    }
    replace(&path, &bytes)?;
    Ok((value, settings, bytes))
}

/// A change that would make the file wrong: the file is as it was.
fn refused(error: SettingsError) -> Problem {
    let message = match error {
        SettingsError::Member {
            member, message, ..
        } if member.is_empty() => message,
        SettingsError::Member {
            member, message, ..
        } => format!("{member}: {message}"),
        other => other.to_string(),
    };
    Problem::new(
        "change_refused",
        message,
        "nothing was changed; give another value",
    )
}

/// The document as a person reads it: two spaces, one line feed at the end.
pub fn render(document: &Value) -> Vec<u8> {
    let mut bytes = format!("{document:#}").into_bytes();
    bytes.push(b'\n');
    bytes
}

/// The object member `name` of `map`, made empty where it is missing.
pub fn object<'a>(
    map: &'a mut Map<String, Value>,
    name: &str,
) -> Result<&'a mut Map<String, Value>, Problem> {
    map.entry(name)
        .or_insert_with(|| Value::Object(Map::new()))
        .as_object_mut()
        .ok_or_else(|| {
            Problem::new(
                "settings_invalid",
                format!("{name}: expected an object"),
                "correct the member",
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> (tempfile::TempDir, Folder) {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::resolve(Some(&temp.path().join("dir"))).unwrap();
        folder.create().unwrap();
        replace(
            &folder.settings(),
            include_bytes!("../../testdata/settings/full.json"),
        )
        .unwrap();
        (temp, folder)
    }

    #[test]
    fn only_what_is_touched_changes() {
        let (_temp, folder) = world();
        let text = |folder: &Folder| -> Value {
            serde_json::from_slice(&std::fs::read(folder.settings()).unwrap()).unwrap()
        };
        let before = text(&folder);
        let ((), settings, bytes) = edit(&folder, "test", |map| {
            map.insert("enabled".to_owned(), Value::Bool(false));
            Ok(())
        })
        .unwrap();
        assert!(!settings.enabled);
        assert_eq!(bytes, std::fs::read(folder.settings()).unwrap());
        let mut after = text(&folder);
        let order = |value: &Value| {
            value
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(order(&before), order(&after));
        after["enabled"] = Value::Bool(true);
        assert_eq!(before.to_string(), after.to_string());
    }

    #[test]
    fn a_change_that_breaks_the_file_is_not_written() {
        let (_temp, folder) = world();
        let before = std::fs::read(folder.settings()).unwrap();
        let error = edit(&folder, "test", |map| {
            map.insert("colour".to_owned(), Value::Null);
            Ok(())
        })
        .unwrap_err();
        assert_eq!(error.code, "change_refused");
        assert_eq!(before, std::fs::read(folder.settings()).unwrap());
    }

    #[test]
    fn edits_of_several_threads_are_all_there() {
        let (_temp, folder) = world();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let folder = &folder;
                scope.spawn(move || {
                    for n in 0..5 {
                        edit(folder, "test", |map| {
                            map["disabled_tools"]
                                .as_array_mut()
                                .unwrap()
                                .push(Value::from(format!("t{thread}-{n}")));
                            Ok(())
                        })
                        .unwrap();
                    }
                });
            }
        });
        let settings = crate::settings::load(&folder.settings()).unwrap().settings;
        assert_eq!(settings.disabled_tools.len(), 20);
    }
}
