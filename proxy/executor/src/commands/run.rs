//! `run`: stands between one agent and one server. The relay itself is elsewhere.

use clap::Args;

use crate::problem::Problem;
use crate::settings::Name;

use super::{Context, Report};

/// Between whom.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The agent that calls
    #[arg(long, value_name = "NAME")]
    pub agent: Name,
    /// The server it calls
    #[arg(long, value_name = "NAME")]
    pub server: Name,
}

/// Relays until the client closes standard input. Standard output carries the protocol only.
pub fn run(_context: &Context, _args: &RunArgs) -> Result<Report, Problem> {
    Err(super::not_wired("run"))
}
