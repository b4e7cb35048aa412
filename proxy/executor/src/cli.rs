//! The command line: every command with its arguments, parsed. What a command does is in `commands`, one file each.
//!
//! With `--json` every command but `run` prints exactly one JSON object on standard output: its result, or
//! `{"error": {"code", "message", "remedy"}}`. Exit codes: 0 done, 1 not done or something is wrong, 2 the command line is wrong.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::commands::{self, Context, Output};
use crate::folder::Folder;
use crate::problem::Problem;
use crate::secrets::Interaction;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "countersign",
    version,
    about = "Your AI agent acts. You countersign.",
    propagate_version = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// Arguments every command has.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Arguments every command has.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The executor's folder [default: the platform's data folder + /countersign]
    #[arg(long, global = true, env = "COUNTERSIGN_DIR", value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    pub json: bool,
}

/// Every command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make an executor: its folder, its keys, its book
    Init(commands::init::InitArgs),
    /// The servers whose tools agents may use
    #[command(subcommand)]
    Server(commands::server::ServerCommand),
    /// What holds for single tools
    #[command(subcommand)]
    Tool(commands::tool::ToolCommand),
    /// The agents and their keys
    #[command(subcommand)]
    Agent(commands::agent::AgentCommand),
    /// What agents ask you for
    #[command(subcommand)]
    Approvals(commands::approvals::ApprovalsCommand),
    /// How an agent's work stands between two acts of yours
    #[command(subcommand)]
    Turn(commands::turn::TurnCommand),
    /// The values servers are started with
    #[command(subcommand)]
    Secret(commands::secret::SecretCommand),
    /// What is open to an agent, and why the rest is not
    Tools(commands::tools::ToolsArgs),
    /// Stand between one agent and one server, on standard input and output
    Run(commands::run::RunArgs),
    /// The record of what happened
    #[command(subcommand)]
    Book(commands::book::BookCommand),
    /// The key the book is signed with
    #[command(subcommand)]
    Key(commands::key::KeyCommand),
    /// Everything that is wrong, each with its remedy
    Doctor,
    /// Stop every agent at once
    Off,
    /// Let agents go on
    On,
    /// See it work, in a temporary folder
    Try(commands::tour::TryArgs),
    /// A small real MCP server: notes in a folder
    DemoServer(commands::demo_server::DemoServerArgs),
    /// The settings
    #[command(subcommand)]
    Config(commands::config::ConfigCommand),
}

/// Parses `args` and runs the command: the whole program.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let json = args
        .iter()
        .take_while(|arg| *arg != "--")
        .any(|arg| arg == "--json");
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, json),
    };
    let output = if cli.global.json {
        Output::Json
    } else {
        Output::Text
    };
    let folder = match Folder::resolve(cli.global.dir.as_deref()) {
        Ok(folder) => folder,
        Err(error) => return fail(&error.into(), output),
    };
    let interaction = if cli.global.json {
        Interaction::None
    } else {
        Interaction::Allowed
    };
    let context = Context {
        folder,
        output,
        interaction,
    };
    match run(&context, cli.command) {
        Ok(report) => report.print(output),
        Err(problem) => fail(&problem, output),
    }
}

fn run(context: &Context, command: Command) -> Result<commands::Report, Problem> {
    match command {
        Command::Init(args) => commands::init::run(context, &args),
        Command::Server(command) => commands::server::run(context, command),
        Command::Tool(command) => commands::tool::run(context, command),
        Command::Agent(command) => commands::agent::run(context, command),
        Command::Approvals(command) => commands::approvals::run(context, command),
        Command::Turn(command) => commands::turn::run(context, command),
        Command::Secret(command) => commands::secret::run(context, command),
        Command::Tools(args) => commands::tools::run(context, &args),
        Command::Run(args) => commands::run::run(context, &args),
        Command::Book(command) => commands::book::run(context, command),
        Command::Key(command) => commands::key::run(context, &command),
        Command::Doctor => commands::doctor::run(context),
        Command::Off => commands::switch::off(context),
        Command::On => commands::switch::on(context),
        Command::Try(args) => commands::tour::run(context, &args),
        Command::DemoServer(args) => commands::demo_server::run(context, &args),
        Command::Config(command) => commands::config::run(context, &command),
    }
}

/// Shows a problem: JSON on standard output, text on standard error. Exit code 2 where the
/// command line is wrong, else 1.
fn fail(problem: &Problem, output: Output) -> ExitCode {
    // Where nobody reads, nothing can be said; the exit code still tells.
    let _ = match output {
        Output::Json => writeln!(
            std::io::stdout(),
            "{}",
            commands::spelled(&problem.to_json().to_string())
        ),
        Output::Text => write!(std::io::stderr(), "{}", problem.to_text()),
    };
    if problem.code == "usage" {
        ExitCode::from(2)
    } else {
        ExitCode::FAILURE
    }
}

/// What clap has to say: help and version on standard output, mistakes as a problem. Exit code 2 for a mistake.
fn usage(error: &clap::Error, json: bool) -> ExitCode {
    let code = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    if json && error.use_stderr() {
        let text = error.to_string();
        let lines = text
            .lines()
            .take_while(|line| !line.is_empty())
            .map(str::trim);
        let first = lines.collect::<Vec<_>>().join(" ");
        let problem = Problem::new(
            "usage",
            first.trim_start_matches("error: "),
            "see `countersign help`",
        );
        let _ = writeln!(
            std::io::stdout(),
            "{}",
            commands::spelled(&problem.to_json().to_string())
        );
        return code;
    }
    let _ = error.print();
    code
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn issue_commands_parse() {
        let lines = [
            "init --name n --secrets file --development --allow-network-folder --dir d --json",
            "server add files --env A=b --env C=d=e --secret TOKEN --cwd / -- npx -y pkg --flag",
            "server add search --url https://mcp.example.com/mcp --secret Authorization",
            "server list",
            "server remove files",
            "server check files",
            "server set files --pass roots,sampling,elicitation --methods a/b c/d --pages one --preset filesystem",
            "tool set files write_file --kind write --danger never --hidden --max-items 5 --cost 2",
            "tool set files write_file --shown --rate 10/3600 --max-calls 5",
            "agent add bar --servers a,b --scopes s,t",
            "agent list",
            "agent revoke bar",
            "agent report --agent bar --since 2h --until 2026-11-30 --child c --child d --json",
            "turn show --agent bar",
            "turn open --agent bar --json",
            "turn report --agent bar --turn 3 --child c",
            "secret set files/TOKEN",
            "secret list",
            "secret remove files/TOKEN",
            "tools --agent bar",
            "tools",
            "run --agent bar --server files",
            "book status",
            "book verify",
            "book verify /x",
            "book list",
            "book list --agent a --server s --tool t --outcome ok --decision deny --kind call --since 2h --until 2026-11-30 --limit 5",
            "book list --before 100 --reindex",
            "book show 3",
            "book show 3 --payload --secrets --yes",
            "book erase 3 --field args --field result --reason r --yes",
            "book erase 3 --secrets",
            "book prune --before 2026-11-30 --yes",
            "book new-era --reason stolen --yes",
            "key show",
            "key rotate --reason r --yes",
            "book show 01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "book proof 3 --out 3.tlog-proof",
            "book tlog --check",
            "doctor",
            "off",
            "on",
            "try",
            "demo-server /tmp/notes",
            "config schema",
            "config show --effective",
        ];
        for line in lines {
            let args = std::iter::once("countersign").chain(line.split(' '));
            if let Err(error) = Cli::try_parse_from(args) {
                panic!("{line}: {error}");
            }
        }
        for line in [
            "agent add",
            "book show",
            "tool set files t --hidden --shown",
            "turn open",
            "turn report --agent bar --turn -1",
            "init --secrets plain",
            "nope",
        ] {
            let args = std::iter::once("countersign").chain(line.split(' '));
            assert_eq!(
                Cli::try_parse_from(args).unwrap_err().exit_code(),
                2,
                "{line}"
            );
        }
    }
}
