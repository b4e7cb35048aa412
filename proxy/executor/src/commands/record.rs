//! Telling the book that executor.json changed. The commands call it after each change; the book's own words are not known here.

use crate::folder::Folder;
use crate::problem::Problem;
use crate::settings::Settings;

/// One change of executor.json.
#[derive(Debug, Clone, Copy)]
pub struct SettingsChange<'a> {
    /// The settings as they are now.
    pub settings: &'a Settings,
    /// The file's bytes as they are now; the entry holds their SHA-256.
    pub bytes: &'a [u8],
    /// Which command changed it: `server add`, `off`, ….
    pub by: &'static str,
}

/// Called after executor.json was replaced. A command succeeds without the entry: a proxy that finds the file changed records it, too.
pub fn record_settings_change(
    _folder: &Folder,
    _change: SettingsChange<'_>,
) -> Result<(), Problem> {
    Ok(())
}
