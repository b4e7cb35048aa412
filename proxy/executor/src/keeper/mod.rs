//! The gatekeeper of one agent at one server: joins settings, secrets, stores, book and the gate's flow behind the relay's seam.
//! Owns when each of them is looked at; has no rule of its own.

mod book;
mod holdings;
mod opened;
pub mod owed;
mod pulse;
mod queue;
mod shelf;
pub mod upkeep;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use countersign_gate::answer::Outcome;
use countersign_gate::catalog::{self, Page};
use countersign_gate::key::KeyText;
use countersign_gate::ports::{Clock, Pending, Ports, Upstream};
use countersign_gate::{Answer, Arguments, Audience, Code, Refusal, Request, Target, serve};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::folder::Folder;
use crate::ids;
use crate::problem::Problem;
use crate::relay::gatekeeper::{
    CallUpstream, Extent, GatedCall, GatedList, Gatekeeper, Listed, Reach,
};
use crate::settings::{Name, Pages, State, Watch, may_use};

pub use holdings::{APP, holdings};
pub use opened::{Opened, sources};
use pulse::Pulsing;
use shelf::{Judged, Shelf};

/// How often an idle executor looks whether its settings changed.
const LOOK: Duration = Duration::from_millis(500);

/// How often a held call looks whether the person has decided.
const GLANCE: Duration = Duration::from_millis(300);

/// The gatekeeper of one agent at one server.
pub struct Keeper {
    agent: Name,
    server: Arc<str>,
    watch: Watch,
    opened: watch::Receiver<Option<Result<Arc<Opened>, Arc<Problem>>>>,
    shelf: Mutex<Shelf>,
    changes: watch::Sender<u64>,
}

/// What becomes of writes that may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// They run.
    Run,
    /// They end with their preview (`--dry-run`).
    Previewed,
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn pause(&self, until: Timestamp) -> Pending<'_, ()> {
        let left = until.duration_since(Timestamp::now());
        let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
        Box::pin(tokio::time::sleep(left.min(GLANCE)))
    }
}

impl Keeper {
    /// Begins to open secrets, stores and book on a thread of its own and returns at once; what is gated waits for it.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        folder: &Folder,
        agent: &Name,
        server: &Name,
        writes: Writes,
    ) -> std::io::Result<Arc<Self>> {
        let watch = Watch::new(folder);
        let (send, opened) = watch::channel(None);
        let settings = watch.now();
        let (folder, name, at) = (folder.clone(), agent.clone(), server.clone());
        std::thread::Builder::new()
            .name("open".to_owned())
            .spawn(move || {
                let result = Opened::open(&folder, &name, &at, &settings.state);
                if let Err(problem) = &result {
                    tracing::error!(
                        code = problem.code,
                        "{problem}; what to do: {}",
                        problem.remedy
                    );
                }
                send.send_replace(Some(result.map(Arc::new).map_err(Arc::new)));
            })?;
        let server: Arc<str> = server.as_str().into();
        Ok(Arc::new(Self {
            agent: agent.clone(),
            shelf: Mutex::new(Shelf::new(Arc::clone(&server), writes)),
            server,
            watch,
            opened,
            changes: watch::channel(0).0,
        }))
    }

    /// Secrets, stores and book, once they are open.
    ///
    /// # Errors
    /// Why they are not; the same words for everybody who asks.
    pub async fn opened(&self) -> Result<Arc<Opened>, Arc<Problem>> {
        let mut receiver = self.opened.clone();
        match receiver.wait_for(Option::is_some).await {
            Ok(state) => state.clone().unwrap_or_else(|| Err(Arc::new(gone()))),
            Err(_) => Err(Arc::new(gone())),
        }
    }

    /// The settings being watched.
    pub fn settings(&self) -> &Watch {
        &self.watch
    }

    /// Looks for changed settings for ever, so that a client hears of them while it is silent.
    pub async fn look(&self) {
        let mut generation = self.watch.now().generation;
        let mut interval = tokio::time::interval(LOOK);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let now = self.watch.now().generation;
            if now != generation {
                generation = now;
                self.changes.send_replace(now);
            }
        }
    }

    /// Writes what is queued and ends the book's thread.
    pub fn close(&self, patience: Duration) {
        if let Some(Ok(opened)) = &*self.opened.borrow() {
            opened.close(patience);
        }
    }

    fn judged(&self, opened: &Opened) -> Arc<Judged> {
        let snapshot = self.watch.now();
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.judged(&snapshot, opened, self.agent.as_str())
    }

    fn request(
        &self,
        opened: &Opened,
        request_id: Arc<str>,
        target: Target,
    ) -> std::io::Result<Request> {
        Ok(Request {
            request_id,
            call_id: ids::ulid(Timestamp::now())?.into(),
            audience: Audience::Agent,
            credential: opened.key().map(|text| KeyText::presented(text.to_owned())),
            url: None,
            network: None,
            via: "stdio",
            server: Some(Arc::clone(&self.server)),
            target,
            arguments: Arguments::Missing,
            idempotency_header: None,
            client: None,
        })
    }

    async fn answer(&self, call: GatedCall, upstream: &Arc<CallUpstream>) -> Answer {
        let request_id = Arc::clone(&call.request_id);
        let opened = match self.opened().await {
            Ok(opened) => opened,
            Err(problem) => return refused(request_id, cannot_open(&problem)),
        };
        if let State::Broken(problem) = &self.watch.now().state {
            return refused(request_id, broken(problem));
        }
        let judged = self.judged(&opened);
        let request = match self.request(&opened, Arc::clone(&request_id), call.target) {
            Ok(request) => Request {
                arguments: call.arguments,
                client: call.client,
                ..request
            },
            Err(error) => return refused(request_id, no_random(&error)),
        };
        let pulsing = Pulsing::new(Arc::clone(upstream), &opened.shared_store());
        serve::call(&judged.facts, ports(&opened, &judged, &pulsing), request).await
    }

    async fn listed(&self, list: GatedList) -> Listed {
        let opened = match self.opened().await {
            Ok(opened) => opened,
            Err(problem) => {
                return Listed {
                    pages: Err(Box::new(cannot_open(&problem))),
                    rate: None,
                };
            }
        };
        let judged = self.judged(&opened);
        let request = match self.request(&opened, list.request_id, Target::Discovery) {
            Ok(request) => Request {
                client: list.client,
                ..request
            },
            Err(error) => {
                return Listed {
                    pages: Err(Box::new(no_random(&error))),
                    rate: None,
                };
            }
        };
        let listing = serve::list(&judged.facts, ports(&opened, &judged, &Nowhere), request).await;
        let pages = listing.open.and_then(|open| {
            let own: &[&str] = match list.extent {
                Extent::Whole => &open.own,
                Extent::Piece => &[],
            };
            let joined = match (judged.pages, list.extent) {
                (Pages::One, Extent::Whole) => {
                    vec![catalog::join(&list.pages).map_err(|error| bad_page(&error))?]
                }
                _ => list.pages,
            };
            let last = joined.len().saturating_sub(1);
            let shown = joined.iter().enumerate().map(|(at, result)| {
                let append = if at == last { own } else { &[] };
                catalog::page(
                    Page {
                        result,
                        server: &self.server,
                        append,
                    },
                    &open,
                )
                .map(Bytes::from)
                .map_err(|error| bad_page(&error))
            });
            shown.collect()
        });
        Listed {
            pages,
            rate: listing.rate,
        }
    }
}

impl Gatekeeper for Keeper {
    fn learn(&self, pages: &[Bytes]) {
        self.shelf
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .learn(pages);
    }

    fn closed(&self, reach: Reach) -> Option<Refusal> {
        let snapshot = self.watch.now();
        let settings = match &snapshot.state {
            State::Ready(settings) => settings,
            State::Off(_) => {
                let next = "Stop here; tell the person that `countersign on` switches it on again.";
                let sentence = "the person switched the executor off";
                return Some(closed(Code::ApiDisabled, sentence, next));
            }
            State::Broken(problem) => return Some(broken(problem)),
        };
        let next = "Tell the person; nothing can be done from here.";
        let Some(agent) = settings.agent(self.agent.as_str()) else {
            return Some(closed(
                Code::Unauthorized,
                "this agent's key is not valid",
                next,
            ));
        };
        let server = settings
            .server(&self.server)
            .filter(|server| server.entry.enabled.0 && may_use(agent, &self.server));
        if server.is_none() {
            return Some(closed(
                Code::ModuleDisabled,
                "this server is not open to this agent",
                next,
            ));
        }
        if reach == Reach::Opening {
            return None;
        }
        if !settings.executor.development {
            let sentence = "no permission is signed yet, so nothing is open";
            return Some(closed(
                Code::Forbidden,
                sentence,
                "Tell the person that a permission must be signed first.",
            ));
        }
        let scope = format!("{}:read", self.server);
        let held = agent
            .entry
            .scopes
            .as_ref()
            .is_none_or(|scopes| scopes.contains(&scope));
        (!held).then(|| {
            closed(
                Code::Forbidden,
                "this needs a scope that the key does not have",
                next,
            )
            .with("scope", scope.into())
        })
    }

    fn call(
        self: Arc<Self>,
        call: GatedCall,
        upstream: Arc<CallUpstream>,
    ) -> Pending<'static, Answer> {
        Box::pin(async move {
            let answer = self.answer(call, &upstream).await;
            if let Some(id) = queue::awaited(&answer) {
                tokio::spawn(queue::watch(self, upstream.apart(), id));
            }
            answer
        })
    }

    fn list(self: Arc<Self>, list: GatedList) -> Pending<'static, Listed> {
        Box::pin(async move { self.listed(list).await })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// The upstream of a list: a list runs nothing.
struct Nowhere;

impl Upstream for Nowhere {
    fn run(
        &self,
        _cleared: countersign_gate::Cleared,
    ) -> Pending<'_, countersign_gate::ports::Ran> {
        Box::pin(async {
            countersign_gate::ports::Ran::Failed {
                failure: countersign_gate::ports::Failure::Server,
                forwarded: countersign_gate::ports::Forwarded::No,
                detail: "a list has no server to run at".to_owned(),
            }
        })
    }
}

fn ports<'a>(opened: &'a Opened, judged: &'a Judged, upstream: &'a dyn Upstream) -> Ports<'a> {
    Ports {
        store: opened.store(),
        book: opened.book(),
        upstream,
        registry: judged,
        clock: &SystemClock,
        random: &ids::SystemRandom,
        pepper: opened.pepper(),
        files: opened.disk(),
        holdings: opened.holdings(),
        turns: &opened.store().state,
    }
}

fn refused(request_id: Arc<str>, refusal: Refusal) -> Answer {
    Answer {
        request_id,
        outcome: Outcome::Refused(Box::new(refusal)),
        rate: None,
        replayed: false,
    }
}

/// The settings cannot be used. Said as it is: nobody switched anything off.
fn broken(problem: &Problem) -> Refusal {
    let sentence = "the executor's settings cannot be used, so nothing is open";
    let next =
        "Tell the person to run `countersign doctor`, which says what is wrong with executor.json.";
    closed(Code::ApiDisabled, sentence, next).because(problem.to_string())
}

fn closed(code: Code, sentence: &str, next: &str) -> Refusal {
    Refusal::new(code, 1, sentence, next)
}

fn cannot_open(problem: &Problem) -> Refusal {
    let sentence = "the executor cannot open its keys, its state or its book, so nothing was run";
    Refusal::new(
        Code::RecordUnavailable,
        3,
        sentence,
        "tell the person to run `countersign doctor`; calling again does not help before that",
    )
    .because(problem.to_string())
}

fn no_random(error: &std::io::Error) -> Refusal {
    let sentence = "the executor has no random bytes for a call id, so nothing was run";
    Refusal::new(
        Code::InternalError,
        3,
        sentence,
        "tell the person; calling again may help",
    )
    .because(error.to_string())
}

fn bad_page(error: &catalog::PageError) -> Box<Refusal> {
    let sentence = "the server's list of tools cannot be read, so no tool is shown";
    Box::new(
        Refusal::new(
            Code::UpstreamFailed,
            4,
            sentence,
            "tell the person to run `countersign server check`",
        )
        .because(error.to_string()),
    )
}

fn gone() -> Problem {
    Problem::new(
        "open_failed",
        "the thread that opens the executor ended",
        "start the client again; `countersign doctor` says what is wrong",
    )
}
