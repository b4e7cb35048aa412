//! `demo-server`: a small real MCP server, notes in a folder, for the tour and for tests.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::demo::server;
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
///
/// # Errors
/// When the folder cannot be made or standard input and output break.
pub fn run(_context: &Context, args: &DemoServerArgs) -> Result<Report, Problem> {
    server::serve(&args.folder).map_err(|error| {
        Problem::new(
            "demo_server",
            format!("the demo server ended: {error}"),
            "check the folder and start it again",
        )
    })?;
    Ok(Report::new(String::new(), json!({})))
}
