//! What a running executor holds open: secrets taken once, the stores, this process's place among the living, the book's thread.
//! Refuses to run anything; opening fails with words for the person.

use std::sync::Arc;
use std::time::Duration;

use countersign_book::{Payloads, Signer, Sources, VaultKey, Writer, WriterOptions};
use countersign_gate::key::Pepper;
use jiff::Timestamp;

use crate::folder::Folder;
use crate::problem::Problem;
use crate::recorder::Recorder;
use crate::recorder::liveness::{Process, is_alive};
use crate::recorder::port::BookPort;
use crate::secrets::{self, Interaction, RunSecrets, Secret, fetch};
use crate::settings::{self, Name, Settings, State};
use crate::store::{Seal, Serving, SharedStore};

use super::book;

/// Bytes of the longest payload kept in the vault.
const KEEP_LIMIT: u64 = 1 << 20;

/// Everything that must be open before a call can be judged.
pub struct Opened {
    folder: Folder,
    store: Arc<SharedStore>,
    port: BookPort,
    recorder: Recorder,
    pepper: Pepper,
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
        let settings = match state {
            State::Ready(settings) | State::Off(settings) => settings,
            State::Broken(problem) => return Err((**problem).clone()),
        };
        let entry = settings
            .server(server.as_str())
            .ok_or_else(|| gone(server))?;
        let store = secrets::open(
            folder,
            &settings.executor,
            settings.secrets,
            Interaction::None,
        )?;
        let RunSecrets {
            signing,
            vault,
            pepper,
            agent: key,
            values,
        } = fetch(store.as_ref(), agent, entry)?;
        let store = SharedStore::open(folder)?;
        let process = Arc::new(Process::enter(&folder.run()).map_err(|error| no_place(&error))?);
        let store = Arc::new(store.serving(Serving {
            process: process.name().to_owned(),
            run: folder.run(),
            seal: Seal::from_vault(&vault),
        }));
        let recorder = start_recorder(
            folder,
            settings,
            &store,
            &process,
            Signer::from_seed(*signing),
            VaultKey::from_bytes(*vault),
        )?;
        Ok(Self {
            folder: folder.clone(),
            store,
            port: BookPort::new(recorder.clone(), process.name()),
            recorder,
            pepper: Pepper::new(*pepper),
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
        self.recorder.close(patience);
    }
}

fn start_recorder(
    folder: &Folder,
    settings: &Settings,
    store: &Arc<SharedStore>,
    process: &Arc<Process>,
    signer: Signer,
    vault: VaultKey,
) -> Result<Recorder, Problem> {
    let options = WriterOptions {
        payloads: match settings.book.payloads {
            settings::Payloads::Keep => Payloads::Keep { limit: KEEP_LIMIT },
            settings::Payloads::Digest => Payloads::Digest,
        },
        ..WriterOptions::new(process.name())
    };
    let dir = folder.book();
    let run = folder.run();
    let open = move || {
        Writer::open(&dir, signer, vault, sources(), options).map_err(|error| error.to_string())
    };
    let chores = book::chores(folder, store, process);
    Recorder::start(open, move |name| is_alive(&run, name), chores).map_err(|error| {
        Problem::new(
            "no_thread",
            format!("the system gives no thread for the book: {error}"),
            "close other programs and start the client again",
        )
    })
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

fn no_place(error: &std::io::Error) -> Problem {
    Problem::new(
        "run_folder",
        format!("this process cannot enter itself into the folder `run`: {error}"),
        "`countersign doctor` checks the folder",
    )
}
