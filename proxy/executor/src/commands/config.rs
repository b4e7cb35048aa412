//! `config schema|show`: the settings as a schema, as written, or as they hold.

use clap::{Args, Subcommand};

use crate::folder::read_own;
use crate::problem::Problem;
use crate::settings::{self, SettingsError};

use super::{Context, Report};

/// What of the settings.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// The JSON Schema of executor.json
    Schema,
    /// executor.json
    Show(ShowArgs),
}

/// How the settings are shown.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// With presets and defaults filled in: what holds, and what is signed
    #[arg(long)]
    pub effective: bool,
}

/// Runs the command.
pub fn run(context: &Context, command: &ConfigCommand) -> Result<Report, Problem> {
    let document = match command {
        ConfigCommand::Schema => settings::schema(),
        ConfigCommand::Show(ShowArgs { effective: true }) => {
            settings::effective_document(&context.settings()?)
        }
        ConfigCommand::Show(ShowArgs { effective: false }) => {
            context.settings()?;
            let (bytes, _) =
                read_own(&context.folder.settings(), 8 << 20).map_err(SettingsError::from)?;
            serde_json::from_slice(&bytes).map_err(|error| {
                Problem::new("settings_invalid", error.to_string(), "correct the file")
            })?
        }
    };
    Ok(Report::new(format!("{document:#}\n"), document))
}
