//! `book verify|list|show`: reading the record. The record's own rules are the book's.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::problem::Problem;

use super::{Context, Report};

/// What of the book.
#[derive(Debug, Subcommand)]
pub enum BookCommand {
    /// Check every entry and signature; names the first bad place
    Verify(VerifyArgs),
    /// List entries
    List(ListArgs),
    /// Show one entry
    Show(ShowArgs),
}

/// Which book is verified.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The book's folder [default: this executor's]
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
}

/// Which entries are listed.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The first entry
    #[arg(long, value_name = "N")]
    pub from: Option<u64>,
    /// At most so many, the latest where --from is absent
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u64,
}

/// Which entry is shown.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The entry's number, from 0
    #[arg(value_name = "N")]
    pub index: u64,
    /// Also show the arguments and results that are kept encrypted
    #[arg(long)]
    pub payload: bool,
}

/// Runs the command.
pub fn run(_context: &Context, _command: BookCommand) -> Result<Report, Problem> {
    Err(super::not_wired("book"))
}
