//! The loop: everything that can wake the relay is one of its branches. Owns the streams, knows no message.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};

use super::gatekeeper::Gatekeeper;
use super::link::Command;
use super::session::{Done, Session};
use super::{Client, Left, RelaySettings, Running, Starter};
use crate::downstream::stdio::{Input, Output};
use crate::frame::lines::{Line, LineReader};
use crate::upstream::child::{Child, Patience};
use crate::upstream::diagnostics::{Diagnostics, flush_stderr};

/// After the client's end of input: how long answers under way are still waited for.
const LAST_ANSWERS: Duration = Duration::from_millis(400);
/// How long the gate may take to write down what was under way.
const LAST_RECORDS: Duration = Duration::from_millis(500);
/// How long a peer may leave a full queue untouched.
const STALLED: Duration = Duration::from_secs(30);
/// How long a timer sleeps when nothing is due.
const FAR: Duration = Duration::from_secs(3_600);

/// The server's streams while it is up.
struct Connection {
    reader: LineReader<Input>,
    stdin: Option<Output>,
    process: Option<Child>,
}

/// Relays between one client and one server until the client leaves or `stop` says so. The server is started at once.
/// When this returns, the server and everything it started are gone.
///
/// # Errors
/// No random bytes can be had. Everything else is an answer to the client or a line in the log.
pub async fn run(
    settings: RelaySettings,
    client: Client,
    starter: Arc<dyn Starter>,
    gatekeeper: Arc<dyn Gatekeeper>,
    diagnostics: Diagnostics,
    stop: impl Future<Output = ()>,
) -> io::Result<Left> {
    let changes = gatekeeper.changes();
    let limit = settings.frame_bytes;
    let (mut session, commands) = Session::new(settings, gatekeeper, starter, diagnostics)?;
    if let Err(detail) = session.wake() {
        session.log(&detail);
    }
    let mut relay = Relay {
        session,
        commands,
        changes,
        reader: LineReader::new(client.input, limit),
        output: Some(client.output),
        connection: None,
        leaving: None,
    };
    let left = relay.serve(stop).await;
    relay.end(left).await;
    Ok(left)
}

struct Relay {
    session: Session,
    commands: mpsc::UnboundedReceiver<Command>,
    changes: tokio::sync::watch::Receiver<u64>,
    reader: LineReader<Input>,
    output: Option<Output>,
    connection: Option<Connection>,
    leaving: Option<Instant>,
}

/// What woke the loop and has to be handled with everything borrowed back.
enum Woken {
    Nothing,
    ServerEnded(String),
    Done(Done),
    Announce,
    Stop,
}

impl Relay {
    async fn serve(&mut self, stop: impl Future<Output = ()>) -> Left {
        tokio::pin!(stop);
        let timer = sleep_until((Instant::now() + FAR).into());
        tokio::pin!(timer);
        let mut watching = true;
        loop {
            self.write_what_can_be_written().await;
            if self.session.process.take_replace() {
                self.server_ended("it did not open the session and is replaced")
                    .await;
            }
            let stalled = self.end_the_stalled().await;
            if let Some(until) = self.leaving
                && (self.output.is_none()
                    || !self.session.owes_answers()
                    || Instant::now() >= until)
            {
                return Left::ByClient;
            }
            let due = self
                .session
                .next_deadline()
                .into_iter()
                .chain(self.leaving)
                .chain(stalled)
                .min();
            let due = due.unwrap_or_else(|| timer.deadline().into_std() + FAR);
            if due < timer.deadline().into_std() || timer.is_elapsed() {
                timer.as_mut().reset(due.min(Instant::now() + FAR).into());
            }
            let session = &mut self.session;
            let client_open = self.leaving.is_none()
                && !session.to_client.is_full()
                && !session.to_server.is_full();
            let server_open = self.connection.is_some() && !session.to_client.is_full();
            let to_client = self.output.is_some() && !session.to_client.is_empty();
            let to_server = !session.to_server.is_empty()
                && self.connection.as_ref().is_some_and(|c| c.stdin.is_some());
            let (server_in, server_out) = match &mut self.connection {
                Some(connection) => (Some(&mut connection.reader), connection.stdin.as_mut()),
                None => (None, None),
            };
            let woken = tokio::select! {
                written = drain(&mut session.to_client, self.output.as_mut()), if to_client => {
                    if written.is_err() {
                        self.output = None;
                        self.leaving = Some(Instant::now());
                    }
                    Woken::Nothing
                }
                written = drain(&mut session.to_server, server_out), if to_server => match written {
                    Ok(()) => Woken::Nothing,
                    Err(error) => Woken::ServerEnded(format!("it no longer takes input: {error}")),
                },
                Some(command) = self.commands.recv() => {
                    session.command(command);
                    Woken::Nothing
                }
                Some(done) = session.tasks.join_next(), if !session.tasks.is_empty() => match done {
                    Ok(done) => Woken::Done(done),
                    Err(error) => {
                        session.log(&format!("a task ended badly: {error}"));
                        Woken::Nothing
                    }
                },
                line = next_line(server_in), if server_open => match line {
                    Ok(Some(line)) => {
                        session.server_line(line);
                        Woken::Nothing
                    }
                    Ok(None) => Woken::ServerEnded("it ended".to_owned()),
                    Err(error) => Woken::ServerEnded(format!("its output cannot be read: {error}")),
                },
                line = self.reader.next(), if client_open => {
                    match line {
                        Ok(Some(line @ Line::Partial(_))) => {
                            session.client_line(line);
                            self.leaving = Some(Instant::now() + LAST_ANSWERS);
                        }
                        Ok(Some(line)) => session.client_line(line),
                        Ok(None) | Err(_) => self.leaving = Some(Instant::now() + LAST_ANSWERS),
                    }
                    Woken::Nothing
                }
                () = timer.as_mut() => {
                    session.expire(Instant::now());
                    Woken::Nothing
                }
                changed = self.changes.changed(), if watching => {
                    watching = changed.is_ok();
                    if watching { Woken::Announce } else { Woken::Nothing }
                }
                () = stop.as_mut() => Woken::Stop,
            };
            match woken {
                Woken::Nothing => {}
                Woken::ServerEnded(detail) => self.server_ended(&detail).await,
                Woken::Done(done) => self.done(done),
                Woken::Announce => self.session.announce(),
                Woken::Stop => return Left::BySignal,
            }
        }
    }

    /// A peer that takes nothing while its queue is full would keep us from hearing that the other one left. It is given up after
    /// [`STALLED`]. Answers when that has to be looked at again.
    async fn end_the_stalled(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let client = self.session.to_client.stalled_since(now);
        let server = self.session.to_server.stalled_since(now);
        let over = |since: Option<Instant>| since.is_some_and(|since| now >= since + STALLED);
        if over(client) && self.output.take().is_some() {
            self.session
                .log("the client does not read what it is sent; it counts as gone");
            self.leaving = Some(now);
        }
        if over(server) {
            self.server_ended("it does not read what it is sent").await;
        }
        client
            .into_iter()
            .chain(server)
            .map(|since| since + STALLED)
            .filter(|due| *due > now)
            .min()
    }

    /// One attempt on both queues before waiting: most messages go out in the round they came in.
    async fn write_what_can_be_written(&mut self) {
        let mut lost = None;
        std::future::poll_fn(|context| {
            if let Some(output) = &mut self.output
                && !self.session.to_client.is_empty()
                && let Poll::Ready(Err(_)) = self.session.to_client.poll_drain(output, context)
            {
                self.output = None;
                self.leaving = Some(Instant::now());
            }
            if let Some(Connection {
                stdin: Some(stdin), ..
            }) = &mut self.connection
                && !self.session.to_server.is_empty()
                && let Poll::Ready(Err(error)) = self.session.to_server.poll_drain(stdin, context)
            {
                lost = Some(format!("it no longer takes input: {error}"));
            }
            Poll::Ready(())
        })
        .await;
        if let Some(detail) = lost {
            self.server_ended(&detail).await;
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Answered(id, line) => self.session.decided(&id, line),
            Done::Started(started) => match *started {
                Ok(Running {
                    stdin,
                    stdout,
                    process,
                }) => {
                    self.session.process.up();
                    let reader = LineReader::new(stdout, self.session.settings.frame_bytes);
                    self.connection = Some(Connection {
                        reader,
                        stdin: Some(stdin),
                        process,
                    });
                }
                Err(error) => self.session.start_failed(&error),
            },
            Done::SeenOff => {}
        }
    }

    /// The server is of no use any more. What it still had to say is heard first.
    async fn server_ended(&mut self, detail: &str) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        connection.stdin = None;
        let last = async {
            while let Ok(Some(line)) = connection.reader.next().await {
                self.session.server_line(line);
            }
        };
        let _ = timeout(Duration::from_millis(50), last).await;
        self.session.ended(detail);
        if let Some(process) = connection.process {
            let diagnostics = self.session.diagnostics.clone();
            self.session.tasks.spawn(async move {
                let ended = process.end(Patience::LEAVING).await;
                let status = ended.status.map_or_else(
                    || "without a status".to_owned(),
                    |status| status.to_string(),
                );
                diagnostics.say(&format!("ended: {status}; its last words are above"));
                Done::SeenOff
            });
        }
    }

    async fn end(&mut self, left: Left) {
        self.session.client_gone();
        let patience = if left == Left::ByClient {
            Patience::LEAVING
        } else {
            Patience::SIGNALLED
        };
        let connection = self.connection.take();
        let process = async {
            let Some(mut connection) = connection else {
                return;
            };
            connection.stdin = None;
            match connection.process.take() {
                Some(process) => _ = process.end(patience).await,
                None => drop(connection),
            }
        };
        let session = &mut self.session;
        let records = async {
            self.commands.close();
            let recording = async {
                while let Some(done) = session.tasks.join_next().await {
                    match done {
                        Ok(Done::Answered(id, line)) => session.decided(&id, line),
                        Ok(Done::Started(started)) => {
                            if let Ok(Running {
                                process: Some(process),
                                ..
                            }) = *started
                            {
                                process.end(patience).await;
                            }
                        }
                        _ => {}
                    }
                }
            };
            let _ = timeout(LAST_RECORDS, recording).await;
            if let Some(output) = &mut self.output {
                let _ = timeout(Duration::from_millis(100), session.to_client.drain(output)).await;
            }
        };
        tokio::join!(process, records);
        flush_stderr(Duration::from_millis(100));
    }
}

async fn drain(outbox: &mut super::outbox::Outbox, stream: Option<&mut Output>) -> io::Result<()> {
    match stream {
        Some(stream) => outbox.drain(stream).await,
        None => std::future::pending().await,
    }
}

async fn next_line(reader: Option<&mut LineReader<Input>>) -> io::Result<Option<Line<'_>>> {
    match reader {
        Some(reader) => reader.next().await,
        None => std::future::pending().await,
    }
}
