//! `run`: stands between one agent and one server. Joins standard input and output, the gatekeeper, the server's process and the
//! relay; has no rule of its own. Standard output carries the protocol only.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::downstream::stdio;
use crate::keeper::{Keeper, Writes};
use crate::launch::ServerStarter;
use crate::log;
use crate::platform::{Guardian, GuardianProgram};
use crate::problem::Problem;
use crate::relay::{self, Client, RelaySettings};
use crate::settings::{Launch, Name, Server, Settings, may_use};
use crate::upstream::diagnostics::Diagnostics;

use super::{Context, Report, not_initialised, unknown};

/// The hidden subcommand under which this program is the guardian of its children.
pub const GUARD: &str = "guard";

/// How long the book's thread may take to write what is queued when we end.
const LAST_WRITES: Duration = Duration::from_millis(800);

/// JSON-RPC error code of an executor that cannot serve: outside the range the protocol reserves.
const CANNOT_SERVE: i64 = -31_001;

/// Between whom.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The agent that calls
    #[arg(long, value_name = "NAME")]
    pub agent: Name,
    /// The server it calls
    #[arg(long, value_name = "NAME")]
    pub server: Name,
    /// Preview every write instead of running it
    #[arg(long)]
    pub dry_run: bool,
}

/// Relays until the client closes standard input or a signal ends us.
///
/// # Errors
/// When the executor, the agent or the server cannot be used; the client's first request is answered with the same words.
pub fn run(context: &Context, args: &RunArgs) -> Result<Report, Problem> {
    log::start(&context.folder);
    match prepare(context, args).and_then(|prepared| serve(context, args, &prepared)) {
        Ok(()) => Ok(Report::new(String::new(), json!({}))),
        Err(problem) => {
            answer_once(&problem);
            Err(problem)
        }
    }
}

fn prepare(context: &Context, args: &RunArgs) -> Result<RelaySettings, Problem> {
    context
        .folder
        .check()
        .map_err(|error| match error.is_not_found() {
            true => not_initialised(&context.folder),
            false => error.into(),
        })?;
    let settings = context.settings()?;
    let server = settings.server(args.server.as_str()).ok_or_else(|| {
        unknown(
            "server",
            &args.server,
            &settings
                .servers
                .iter()
                .map(|server| server.name.as_str())
                .collect::<Vec<_>>(),
        )
    })?;
    let agent = settings.agent(args.agent.as_str()).ok_or_else(|| {
        unknown(
            "agent",
            &args.agent,
            &settings
                .agents
                .iter()
                .map(|agent| agent.name.as_str())
                .collect::<Vec<_>>(),
        )
    })?;
    if !may_use(agent, server.name.as_str()) {
        return Err(Problem::new(
            "server_not_open",
            format!(
                "agent `{}` may not use server `{}`",
                agent.name, server.name
            ),
            format!(
                "the person can add it anew: `countersign agent add NAME --servers {}`",
                server.name
            ),
        ));
    }
    if let Launch::Http { .. } = server.launch {
        return Err(Problem::new(
            "server_http",
            format!(
                "server `{}` is reached by HTTP, which this version cannot do",
                server.name
            ),
            "use a server that is started with a command",
        ));
    }
    relay_settings(&settings, server)
}

fn relay_settings(settings: &Settings, server: &Server) -> Result<RelaySettings, Problem> {
    let limits = &settings.limits;
    Ok(RelaySettings {
        frame_bytes: usize::try_from(limits.frame_bytes).unwrap_or(usize::MAX),
        depth: usize::try_from(limits.depth)
            .unwrap_or(usize::MAX)
            .min(countersign_gate::json::MAX_DEPTH),
        start: Duration::from_secs(limits.start_seconds.into()),
        call: Duration::from_secs(limits.call_seconds.into()),
        passing: crate::launch::passing(server),
        ..RelaySettings::new(server.name.as_str())
    })
}

fn serve(context: &Context, args: &RunArgs, settings: &RelaySettings) -> Result<(), Problem> {
    let broken = |what: &str, error: std::io::Error| {
        Problem::new(
            "run_failed",
            format!("{what}: {error}"),
            "start the client again",
        )
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| broken("no runtime", error))?;
    let writes = if args.dry_run {
        Writes::Previewed
    } else {
        Writes::Run
    };
    let keeper = Keeper::start(&context.folder, &args.agent, &args.server, writes)
        .map_err(|error| broken("no thread", error))?;
    let diagnostics = Diagnostics::new(args.server.as_str(), Some(&context.folder.logs()));
    let served = runtime.block_on(async {
        let guardian = GuardianProgram::this(GUARD)
            .and_then(Guardian::start)
            .map_err(|error| broken("no guardian process", error))?;
        let mut stdio =
            stdio::open().map_err(|error| broken("standard input and output", error))?;
        let client = Client {
            input: std::mem::replace(&mut stdio.input, Box::new(tokio::io::empty())),
            output: std::mem::replace(&mut stdio.output, Box::new(tokio::io::sink())),
        };
        let starter = Arc::new(ServerStarter::new(
            Arc::clone(&keeper),
            &args.server,
            Some(guardian),
            diagnostics.clone(),
        ));
        let stop = stop().map_err(|error| broken("no signals", error))?;
        let look = Arc::clone(&keeper);
        let looking = tokio::spawn(async move { look.look().await });
        let left = relay::run(
            settings.clone(),
            client,
            starter,
            Arc::clone(&keeper) as Arc<_>,
            diagnostics,
            stop,
        )
        .await;
        looking.abort();
        left.map_err(|error| broken("the relay", error))
    });
    keeper.close(LAST_WRITES);
    runtime.shutdown_background();
    served.map(|_| ())
}

/// Ends when the system asks us to.
#[cfg(unix)]
fn stop() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut int, mut hup) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    );
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
            _ = hup.recv() => {}
        }
    })
}

/// Ends when the system asks us to.
#[cfg(not(unix))]
fn stop() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async {
        // Without a handler for Ctrl-C the system ends us itself.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

/// A client shows its person little more than "connection closed" when a server just ends: its first request is answered with why.
fn answer_once(problem: &Problem) {
    let mut line = String::new();
    let limit = 1 << 20;
    let read = std::io::Read::take(std::io::stdin().lock(), limit);
    if std::io::BufReader::new(read).read_line(&mut line).is_err() {
        return;
    }
    let Ok(request) = serde_json::from_str::<Value>(&line) else {
        return;
    };
    let Some(id) = request
        .get("id")
        .filter(|id| id.is_string() || id.is_i64() || id.is_u64())
    else {
        return;
    };
    let message = format!("countersign: {}; {}", problem.message, problem.remedy);
    let data = json!({"localhost.countersign/refusal": {"code": problem.code}});
    let answer = json!({"jsonrpc": "2.0", "id": id, "error": {"code": CANNOT_SERVE, "message": message, "data": data}});
    // Where nobody reads, nothing can be said; the exit code and standard error still tell.
    let _ = writeln!(std::io::stdout(), "{answer}");
}
