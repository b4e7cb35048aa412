//! `try`: the product shown on real parts in a temporary folder. The story is `demo`'s.

use clap::Args;
use serde_json::json;

use crate::demo::story;
use crate::problem::Problem;

use super::{Context, Output, Report};

/// How the tour goes.
#[derive(Debug, Args)]
pub struct TryArgs {}

/// Runs the tour. `--dir` does not count: the tour makes a folder of its own. Exit 0 when every scene ended as promised.
///
/// # Errors
/// When a part of the stage breaks: no temporary folder, no process.
pub fn run(context: &Context, _args: &TryArgs) -> Result<Report, Problem> {
    let broken = |error: std::io::Error| {
        Problem::new(
            "try_broken",
            format!("the tour could not go on: {error}"),
            "the folder it made stays for you to look at",
        )
    };
    let program = std::env::current_exe().map_err(broken)?;
    let told = match context.output {
        Output::Text => story::play(&program, &mut std::io::stdout()),
        Output::Json => story::play(&program, &mut std::io::sink()),
    }
    .map_err(broken)?;
    let mut report = Report::new(String::new(), json!(told));
    report.exit = u8::from(!told.ok);
    Ok(report)
}
