//! `off` and `on`: the switch that stops every agent at once. Off works as long as the folder is there, whatever else is broken.

use std::fs;
use std::io::ErrorKind;

use serde_json::{Value, json};

use crate::folder::{FolderError, private_options, sync_dir};
use crate::problem::Problem;
use crate::settings::edit;

use super::{Context, Report, not_initialised};

/// Stops every agent: the marker first (it alone is enough), then `enabled` in executor.json.
pub fn off(context: &Context) -> Result<Report, Problem> {
    let folder = &context.folder;
    let marker = folder.off_marker();
    if let Err(source) = private_options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&marker)
    {
        // Anything at all at that place counts as off.
        if fs::symlink_metadata(&marker).is_err() {
            return Err(match source.kind() {
                ErrorKind::NotFound => not_initialised(folder),
                _ => FolderError::Io {
                    action: "create",
                    path: marker,
                    source,
                }
                .into(),
            });
        }
    }
    // The marker counts as soon as it is seen; the flush only makes it survive a loss of power.
    let _ = sync_dir(folder.root());
    let note = match set_enabled(context, false, "off") {
        Ok(()) => String::new(),
        Err(problem) => format!(
            "note: executor.json could not be changed ({}), but the marker `off` beside it is enough\n",
            problem.message
        ),
    };
    let text = format!(
        "off: no agent can call anything. Calls that already reached a server go on.\n{note}next: `countersign on` lets them go on\n"
    );
    Ok(Report::new(
        text,
        json!({"enabled": false, "settings_changed": note.is_empty()}),
    ))
}

/// Lets agents go on.
pub fn on(context: &Context) -> Result<Report, Problem> {
    context.settings()?;
    set_enabled(context, true, "on")?;
    let marker = context.folder.off_marker();
    match fs::remove_file(&marker) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            return Err(FolderError::Io {
                action: "remove",
                path: marker,
                source,
            }
            .into());
        }
        _ => {}
    }
    let _ = sync_dir(context.folder.root());
    Ok(Report::new(
        "on: agents can call what is open to them\nnext: `countersign tools` shows what that is\n",
        json!({"enabled": true}),
    ))
}

fn set_enabled(context: &Context, enabled: bool, by: &str) -> Result<(), Problem> {
    edit(&context.folder, by, |map| {
        map.insert("enabled".to_owned(), Value::Bool(enabled));
        Ok(())
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing::world;
    use crate::settings::{State, Watch};

    #[test]
    fn off_stops_and_on_lets_go_on() {
        let (_temp, context) = world();
        let watch = Watch::new(&context.folder);
        assert!(matches!(watch.now().state, State::Ready(_)));
        assert_eq!(off(&context).unwrap().json["settings_changed"], true);
        assert!(matches!(watch.now().state, State::Off(_)));
        assert!(off(&context).unwrap().exit == 0, "twice is fine");
        on(&context).unwrap();
        assert!(matches!(watch.now().state, State::Ready(_)));
    }

    #[test]
    fn off_needs_nothing_but_the_folder() {
        let (_temp, context) = world();
        fs::write(context.folder.settings(), "broken").unwrap();
        let report = off(&context).unwrap();
        assert_eq!(report.json["settings_changed"], false);
        assert!(report.text.contains("is enough"));
        assert!(context.folder.off_marker().exists());
        assert_eq!(on(&context).unwrap_err().code, "settings_invalid");
        assert!(
            context.folder.off_marker().exists(),
            "on refuses and everything stays off"
        );
        fs::remove_dir_all(context.folder.root()).unwrap();
        assert_eq!(off(&context).unwrap_err().code, "not_initialised");
    }
}
