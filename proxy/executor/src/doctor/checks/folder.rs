//! The executor's folder, its settings and its switch.

use std::path::Path;

use crate::commands::Context;
use crate::settings::{is_off, load};

use super::super::Found;

pub(in crate::doctor) fn folder(context: &Context) -> Vec<Found> {
    let folder = &context.folder;
    if let Err(error) = folder.check() {
        let problem = if error.is_not_found() {
            crate::commands::not_initialised(folder)
        } else {
            error.into()
        };
        return vec![Found::fail(problem)];
    }
    let mut found = open_to_others(folder.root());
    let files = [
        folder.settings(),
        folder.state_db(),
        folder.buckets_db(),
        folder.secrets(),
        folder.book(),
        folder.run(),
        folder.logs(),
    ];
    found.extend(files.iter().flat_map(|path| open_to_others(path)));
    if found.is_empty() {
        found.push(Found::ok(format!(
            "`{}`, yours alone",
            folder.root().display()
        )));
    }
    found
}

pub(in crate::doctor) fn settings(context: &Context) -> Vec<Found> {
    match load(&context.folder.settings()) {
        Err(error) => vec![Found::fail(error)],
        Ok(loaded) => {
            let settings = loaded.settings;
            vec![Found::ok(format!(
                "{} servers, {} agents",
                settings.servers.len(),
                settings.agents.len()
            ))]
        }
    }
}

pub(in crate::doctor) fn switch(context: &Context) -> Vec<Found> {
    let marker = is_off(&context.folder.off_marker());
    let enabled = load(&context.folder.settings())
        .map(|loaded| loaded.settings.enabled)
        .unwrap_or(true);
    match marker || !enabled {
        true => vec![Found::warn(
            "off: no agent can call anything",
            "`countersign on` lets agents go on",
        )],
        false => vec![Found::ok("on")],
    }
}

#[cfg(unix)]
fn open_to_others(path: &Path) -> Vec<Found> {
    use std::os::unix::fs::MetadataExt;
    let Ok(meta) = std::fs::symlink_metadata(path) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if meta.file_type().is_symlink() {
        found.push(Found::fail(crate::folder::FolderError::Unsafe {
            path: path.to_owned(),
            what: "is a symbolic link".to_owned(),
            remedy: "put the thing itself there; a link could point anywhere".to_owned(),
        }));
    } else if meta.mode() & 0o077 != 0 {
        found.push(Found::warn(
            format!(
                "`{}` is open to other users (mode {:o})",
                path.display(),
                meta.mode() & 0o777
            ),
            format!("chmod go-rwx '{}'", path.display()),
        ));
    }
    found
}

#[cfg(not(unix))]
fn open_to_others(_path: &Path) -> Vec<Found> {
    Vec::new()
}
