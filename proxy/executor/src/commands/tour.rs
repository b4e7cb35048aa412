//! `try`: the guided tour in a temporary folder.

use clap::Args;

use crate::problem::Problem;

use super::{Context, Report};

/// How the tour goes.
#[derive(Debug, Args)]
pub struct TryArgs {}

/// Runs the tour. `--dir` does not count: the tour makes a folder of its own.
pub fn run(_context: &Context, _args: &TryArgs) -> Result<Report, Problem> {
    Err(super::not_wired("try"))
}
