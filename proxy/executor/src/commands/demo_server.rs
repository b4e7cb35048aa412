//! `demo-server`: a small real MCP server, notes in a folder, for the tour and for tests.

use std::path::PathBuf;

use clap::Args;

use crate::problem::Problem;

use super::{Context, Report};

/// Where the notes are.
#[derive(Debug, Args)]
pub struct DemoServerArgs {
    /// The folder that holds the notes
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

/// Serves until standard input closes. Standard output carries the protocol only.
pub fn run(_context: &Context, _args: &DemoServerArgs) -> Result<Report, Problem> {
    Err(super::not_wired("demo-server"))
}
