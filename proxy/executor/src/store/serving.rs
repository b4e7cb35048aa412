//! Who uses the store: the process that claims, how it knows the living, and the key that what it keeps is sealed with.

use std::path::PathBuf;

use countersign_gate::idempotency::Owner;

use crate::recorder::liveness::is_alive;

use super::seal::Seal;

/// A process that runs calls.
#[derive(Debug)]
pub struct Serving {
    /// Its name, as `call` entries carry it.
    pub process: String,
    /// The folder of living processes.
    pub run: PathBuf,
    /// Seals answers and held arguments.
    pub seal: Seal,
}

impl Serving {
    /// Whether the process of that name lives.
    pub(super) fn owner(&self, process: &str) -> Owner {
        if process == self.process || is_alive(&self.run, process) {
            Owner::Alive
        } else {
            Owner::Gone
        }
    }
}
