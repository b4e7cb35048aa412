//! What a running executor holds open: secrets taken once, the stores, this process's place among the living, the book's thread.
//! Refuses to run anything; opening fails with words for the person.

use std::sync::Arc;
use std::time::Duration;

use countersign_book::{
    BookError, HeadListener, Payloads, Pin, Signer, Sources, VaultKey, Writer, WriterOptions,
};
use countersign_gate::key::Pepper;
use countersign_gate::paths::Holding;
use jiff::Timestamp;

use crate::derived::Derived;
use crate::disk;
use crate::files::Disk;
use crate::folder::Folder;
use crate::pin::{self, Pinner};
use crate::problem::Problem;
use crate::recorder::Recorder;
use crate::recorder::decisions::Decisions;
use crate::recorder::liveness::{Process, is_alive};
use crate::recorder::port::BookPort;
use crate::secrets::{self, Interaction, PASSPHRASE_FILE, RunSecrets, Secret, fetch};
use crate::settings::{self, Name, Settings, State};
use crate::signing;
use crate::store::{Seal, Serving, SharedStore};

use super::upkeep::Upkeep;
use super::{book, holdings};

/// Bytes of the longest payload kept in the vault.
const KEEP_LIMIT: u64 = 1 << 20;

/// How long the end of the process may take to remember how long the book was. What is not written then lags.
const LAST_PIN: Duration = Duration::from_millis(400);
/// How long a pruning that is under way may take when we end.
const LAST_UPKEEP: Duration = Duration::from_millis(300);
/// How long the last update of what is derived from the book may take when we end.
const LAST_UPDATE: Duration = Duration::from_millis(300);

/// Everything that must be open before a call can be judged.
pub struct Opened {
    folder: Folder,
    store: Arc<SharedStore>,
    port: BookPort,
    recorder: Recorder,
    pinner: Pinner,
    derived: Derived,
    upkeep: Upkeep,
    pepper: Pepper,
    disk: Disk,
    holdings: Vec<Holding>,
    key: Option<Secret>,
    values: Vec<(String, Secret)>,
    _process: Arc<Process>,
}

impl Opened {
    /// Opens secrets, stores and book for `agent` at `server`. Blocks; meant for a thread of its own.
    ///
    /// # Errors
    /// What could not be opened, with its remedy.
    pub fn open(
        folder: &Folder,
        agent: &Name,
        server: &Name,
        state: &State,
    ) -> Result<Self, Problem> {
        // Whatever is there: only the command that writes it can tell.
        if !matches!(
            std::fs::symlink_metadata(folder.root().join("era.json")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound
        ) {
            return Err(era_unfinished());
        }
        let settings = match state {
            State::Ready(settings) | State::Off(settings) => settings,
            State::Broken(problem) => return Err((**problem).clone()),
        };
        let entry = settings
            .server(server.as_str())
            .ok_or_else(|| gone(server))?;
        if !settings.book.allow_network_folder {
            disk::refuse(&folder.book())?;
        }
        let store = secrets::open(
            folder,
            &settings.executor,
            settings.secrets,
            Interaction::None,
        )?;
        // Before the book is opened: it only grows.
        let known = pin::read(store.as_ref())?;
        if let Some(warning) = known.warning() {
            tracing::warn!("{warning}; from now on it is remembered");
        }
        let RunSecrets {
            signing,
            vault,
            pepper,
            agent: key,
            values,
        } = fetch(store.as_ref(), agent, entry)?;
        let pin = known.pin().cloned();
        let pinner = Pinner::start(folder, store, known).map_err(|error| no_thread(&error))?;
        let store = SharedStore::open(folder)?;
        let process = Arc::new(Process::enter(&folder.run()).map_err(|error| no_place(&error))?);
        let store = Arc::new(store.serving(Serving {
            process: process.name().to_owned(),
            run: folder.run(),
            seal: Seal::from_vault(&vault),
        }));
        let held = signing.len();
        let keys = (signing, VaultKey::from_bytes(*vault));
        let open = opening(
            folder,
            settings,
            &process,
            keys,
            (pin.clone(), pinner.listener()),
        );
        let run = folder.run();
        let recorder = Recorder::start(
            process.name(),
            open.clone(),
            move |name| is_alive(&run, name),
            book::chores(folder, &store, &process),
        )
        .map_err(|error| no_thread(&error))?;
        let written = recorder.written();
        let derived =
            Derived::start(folder, pin, Arc::clone(&written)).map_err(|error| no_thread(&error))?;
        let upkeep = Upkeep::start(folder, Box::new(open), held, written);
        let upkeep = upkeep.map_err(|error| no_thread(&error))?;
        let port = BookPort::new(recorder.clone(), process.name())
            .with_decisions(Decisions::new(folder, &store));
        Ok(Self {
            folder: folder.clone(),
            store,
            port,
            recorder,
            pinner,
            derived,
            upkeep,
            pepper: Pepper::new(*pepper),
            disk: Disk::of_this_user(),
            holdings: holdings(folder, std::env::var_os(PASSPHRASE_FILE)),
            key,
            values,
            _process: process,
        })
    }

    /// The executor's folder.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The gate's store.
    pub fn store(&self) -> &SharedStore {
        &self.store
    }

    /// The same, for what outlives a call.
    pub(super) fn shared_store(&self) -> Arc<SharedStore> {
        Arc::clone(&self.store)
    }

    /// The gate's record.
    pub fn book(&self) -> &BookPort {
        &self.port
    }

    /// The queue to the book.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The secret agents' keys are hashed under.
    pub fn pepper(&self) -> &Pepper {
        &self.pepper
    }

    /// This machine's disk, for where paths lead.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// What no tool may touch.
    pub fn holdings(&self) -> &[Holding] {
        &self.holdings
    }

    /// The text of the agent's key, where the secret store has one.
    pub fn key(&self) -> Option<&str> {
        self.key.as_ref().and_then(Secret::text)
    }

    /// The server's secret values: (variable, value).
    pub fn values(&self) -> &[(String, Secret)] {
        &self.values
    }

    /// Writes what is queued and ends the book's thread.
    pub fn close(&self, patience: Duration) {
        self.upkeep.close(LAST_UPKEEP);
        self.recorder.close(patience);
        self.pinner.close(LAST_PIN);
        self.derived.close(LAST_UPDATE);
    }
}

/// How the book is opened for writing, each time anew.
fn opening(
    folder: &Folder,
    settings: &Settings,
    process: &Process,
    (signing, vault): (Vec<Signer>, VaultKey),
    (pin, heads): (Option<Pin>, HeadListener),
) -> impl Fn() -> Result<Writer, BookError> + Clone + Send + 'static {
    let options = WriterOptions {
        payloads: match settings.book.payloads {
            settings::Payloads::Keep => Payloads::Keep { limit: KEEP_LIMIT },
            settings::Payloads::Digest => Payloads::Digest,
        },
        pin,
        heads,
        ..WriterOptions::new(process.name())
    };
    let (folder, settings) = (folder.clone(), settings.clone());
    move || {
        let signers = signing::signers(&folder, &settings, signing.clone());
        let options = options.clone();
        Writer::open(&folder.book(), signers, vault.clone(), sources(), options)
    }
}

fn no_thread(error: &std::io::Error) -> Problem {
    Problem::new(
        "no_thread",
        format!("the system gives no thread for the book: {error}"),
        "close other programs and start the client again",
    )
}

/// Time and randomness of this system, for the book.
#[must_use]
pub fn sources() -> Sources {
    Sources {
        clock: Box::new(Timestamp::now),
        entropy: Box::new(|bytes| getrandom::fill(bytes).map_err(std::io::Error::other)),
    }
}

fn gone(server: &Name) -> Problem {
    Problem::new(
        "server_unknown",
        format!("server `{server}` is no longer in executor.json"),
        "add it again, and start the client again",
    )
}

fn era_unfinished() -> Problem {
    Problem::new(
        "era_unfinished",
        "a new book was begun and is not in its place yet",
        "run `countersign book new-era` again: it goes on where it stopped",
    )
}

fn no_place(error: &std::io::Error) -> Problem {
    Problem::new(
        "run_folder",
        format!("this process cannot enter itself into the folder `run`: {error}"),
        "`countersign doctor` checks the folder",
    )
}
