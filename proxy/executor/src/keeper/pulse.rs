//! The heartbeat of an approved call: progress of the server becomes a time in the store, so that silence can be told from work. Owns how
//! often; refuses to know what silence means.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use countersign_gate::Cleared;
use countersign_gate::ports::{Pending, Purpose, Ran, Upstream};
use countersign_permission::Kind;
use jiff::Timestamp;

use crate::relay::gatekeeper::{Beat, Heard};
use crate::store::SharedStore;

/// How long after a beat the next one is written. Far below the silence that counts as an end.
const APART: Duration = Duration::from_secs(10);

/// An upstream whose approved calls keep their approval alive.
pub(super) struct Pulsing<U> {
    upstream: U,
    store: Arc<SharedStore>,
}

impl<U: Heard> Pulsing<U> {
    pub(super) fn new(upstream: U, store: &Arc<SharedStore>) -> Self {
        Self {
            upstream,
            store: Arc::clone(store),
        }
    }
}

impl<U: Heard> Upstream for Pulsing<U> {
    fn run(&self, cleared: Cleared) -> Pending<'_, Ran> {
        let beats = cleared.kind() == Kind::Write && cleared.purpose() == Purpose::Call;
        let beat = beats.then(|| beat(cleared.call_id(), &self.store));
        self.upstream.run_heard(cleared, beat)
    }
}

impl<U: Heard + ?Sized> Heard for Arc<U> {
    fn run_heard(&self, cleared: Cleared, beat: Option<Beat>) -> Pending<'_, Ran> {
        (**self).run_heard(cleared, beat)
    }
}

/// Writes at most every [`APART`], on a thread that may wait; a call that runs under no approval writes nothing.
fn beat(call: &Arc<str>, store: &Arc<SharedStore>) -> Beat {
    let (call, store) = (Arc::clone(call), Arc::clone(store));
    let last: Mutex<Option<Instant>> = Mutex::new(None);
    Beat::new(move || {
        let now = Instant::now();
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| now.duration_since(last) < APART) {
            return;
        }
        *last = Some(now);
        let (call, store) = (Arc::clone(&call), Arc::clone(&store));
        tokio::task::spawn_blocking(move || {
            if let Err(error) = store.state.heartbeat_of(&call, Timestamp::now()) {
                tracing::warn!(%error, "the progress of an approved call could not be noted");
            }
        });
    })
}
