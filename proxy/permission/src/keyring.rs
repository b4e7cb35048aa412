//! The list of passkeys: replayed from its first change, each change signed by a key trusted before it. Knows the state at any point of
//! it; what a trusted key may sign is not known here.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::document::{
    AnyDocument, Bytes, Credential, Document, ExecutorId, KeyringChange, KeyringRef, Op, Proof,
    RECOVERY_SECONDS, Signed, Time,
};
use crate::webauthn::{Assertion, verify_assertion};
use crate::{Hash, Reason, Refusal};

/// What is known of the keyring outside the executor's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The hash of the first change: the installation's fingerprint.
    pub fingerprint: Hash,
    /// The last state that was seen, so that an older list is noticed; nothing where only the fingerprint is known.
    pub last: Option<KeyringRef>,
}

/// One change as it is kept.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// The change and its proofs.
    pub signed: &'a Signed,
    /// When the book recorded it; without it the change's own word counts.
    pub recorded: Option<Timestamp>,
}

/// A replayed keyring. There is none without every change having been verified.
#[derive(Clone, Debug)]
pub struct Keyring {
    executor: ExecutorId,
    states: Vec<State>,
}

/// Where a key stands at some point of the list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing<'a> {
    /// It may sign.
    Trusted(&'a Credential),
    /// It was revoked.
    Revoked(&'a Credential),
    /// A recovery ended it.
    Ended(&'a Credential),
    /// Its recovery is asked for and not in effect yet.
    Waiting(&'a Credential),
    /// It was never there.
    Unknown,
}

/// A recovery that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovery {
    /// The passkey that comes in.
    pub credential: Credential,
    /// First moment it counts.
    pub from: Timestamp,
    /// The number of the change.
    pub seq: u64,
}

#[derive(Clone, Debug)]
struct State {
    head: Hash,
    /// The latest moment of this change and those before.
    at: Timestamp,
    keys: BTreeMap<Bytes, (Credential, Trust)>,
    recovery: Option<Hash>,
    pending: Option<Recovery>,
    recovered: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Yes,
    Revoked,
    Ended,
}

impl Keyring {
    /// Replays the whole list. Without a pin the answer is about consistency alone: anybody can make a list.
    ///
    /// # Errors
    /// The first reason of the first change that may not stand where it stands; [`Reason::Pin`] when the list is another one than the
    /// pin's, or older.
    pub fn replay(links: &[Link<'_>], pin: Option<&Pin>) -> Result<Self, Refusal> {
        let mut keyring: Option<Self> = None;
        for (place, link) in links.iter().enumerate() {
            let at = |refusal: Refusal| {
                let seq = place + 1;
                refusal
                    .reason
                    .because(format!("change {seq} of the keyring: {}", refusal.words))
            };
            let AnyDocument::KeyringChange(change) = &link.signed.document else {
                let kind = link.signed.document.kind();
                return Err(at(
                    Reason::Type.because(format!("`{kind}` is no change of it"))
                ));
            };
            if place == 0 && pin.is_some_and(|pin| pin.fingerprint != change.hash()) {
                return Err(Reason::Pin
                    .because("the keyring begins with another fingerprint than the pinned one"));
            }
            let next = follow(keyring.as_ref(), change, link).map_err(at)?;
            match &mut keyring {
                Some(keyring) => keyring.states.push(next),
                None => {
                    keyring = Some(Self {
                        executor: change.body().executor.clone(),
                        states: vec![next],
                    });
                }
            }
        }
        let keyring = keyring.ok_or_else(|| Reason::Chain.because("the keyring is empty"))?;
        if let Some(last) = pin.and_then(|pin| pin.last.as_ref())
            && keyring.state(last).is_none()
        {
            return Err(Reason::Pin.because(format!(
                "the keyring was seen with a change {} that is no longer in it",
                last.seq
            )));
        }
        Ok(keyring)
    }

    /// The installation's fingerprint: the hash of the first change.
    #[must_use]
    pub fn fingerprint(&self) -> Hash {
        self.states[0].head
    }

    /// The executor whose keyring it is.
    #[must_use]
    pub fn executor(&self) -> &ExecutorId {
        &self.executor
    }

    /// The last change, for a new document to name.
    #[must_use]
    pub fn head(&self) -> KeyringRef {
        KeyringRef {
            seq: self.states.len() as u64,
            head: self.last().head,
        }
    }

    /// Whether `named` is a state of this list.
    #[must_use]
    pub fn has(&self, named: &KeyringRef) -> bool {
        self.state(named).is_some()
    }

    /// Where a key stood after the change `named`, at the moment `at`.
    #[must_use]
    pub fn standing_at(&self, named: &KeyringRef, id: &Bytes, at: Timestamp) -> Standing<'_> {
        match self.state(named) {
            Some(state) => state.standing(id, at),
            None => Standing::Unknown,
        }
    }

    /// Where a key stands now, after the last change.
    #[must_use]
    pub fn standing(&self, id: &Bytes, now: Timestamp) -> Standing<'_> {
        self.last().standing(id, now)
    }

    /// The keys that may sign now, by their ids.
    #[must_use]
    pub fn trusted(&self, now: Timestamp) -> Vec<&Credential> {
        let state = self.last();
        match state.due(now) {
            Some(recovery) => vec![&recovery.credential],
            None => state
                .keys
                .values()
                .filter(|(_, trust)| *trust == Trust::Yes)
                .map(|(credential, _)| credential)
                .collect(),
        }
    }

    /// The recovery that was asked for and has not been cancelled or built upon.
    #[must_use]
    pub fn recovery(&self) -> Option<&Recovery> {
        self.last().pending.as_ref()
    }

    /// The numbers of the changes by which the keyring was recovered, as of `now`.
    #[must_use]
    pub fn recovered(&self, now: Timestamp) -> Vec<u64> {
        let state = self.last();
        let due = state.due(now).map(|recovery| recovery.seq);
        state.recovered.iter().copied().chain(due).collect()
    }

    /// Verifies the proofs of a change that is in this list.
    ///
    /// # Errors
    /// [`Reason::KeyringState`] when it is not; else as [`Keyring::replay`].
    pub(crate) fn verify_change(
        &self,
        change: &Document<KeyringChange>,
        signed: &Signed,
    ) -> Result<(), Refusal> {
        let place = change
            .body()
            .seq
            .checked_sub(1)
            .and_then(|place| usize::try_from(place).ok());
        let state = place.and_then(|place| self.states.get(place));
        let (Some(place), Some(state)) = (place, state.filter(|state| state.head == change.hash()))
        else {
            return Err(Reason::KeyringState.because("the change is not in the keyring"));
        };
        let before = Self {
            executor: self.executor.clone(),
            states: self.states[..place].to_vec(),
        };
        let link = Link {
            signed,
            recorded: Some(state.at),
        };
        let before = (place > 0).then_some(&before);
        follow(before, change, &link).map(|_| ())
    }

    fn state(&self, named: &KeyringRef) -> Option<&State> {
        let place = usize::try_from(named.seq.checked_sub(1)?).ok()?;
        self.states
            .get(place)
            .filter(|state| state.head == named.head)
    }

    fn last(&self) -> &State {
        // A keyring is made with its first state and only grows.
        &self.states[self.states.len() - 1]
    }
}

impl State {
    fn due(&self, at: Timestamp) -> Option<&Recovery> {
        self.pending.as_ref().filter(|recovery| at >= recovery.from)
    }

    fn standing(&self, id: &Bytes, at: Timestamp) -> Standing<'_> {
        let due = self.due(at);
        if let Some(recovery) = &self.pending
            && recovery.credential.credential_id == *id
        {
            return match due {
                Some(recovery) => Standing::Trusted(&recovery.credential),
                None => Standing::Waiting(&recovery.credential),
            };
        }
        match self.keys.get(id) {
            None => Standing::Unknown,
            Some((credential, Trust::Revoked)) => Standing::Revoked(credential),
            Some((credential, Trust::Ended)) => Standing::Ended(credential),
            Some((credential, Trust::Yes)) if due.is_some() => Standing::Ended(credential),
            Some((credential, Trust::Yes)) => Standing::Trusted(credential),
        }
    }

    /// The state once a recovery whose time has come is in effect.
    fn settled(&self, at: Timestamp) -> Self {
        let mut next = self.clone();
        if let Some(recovery) = self.due(at) {
            for (_, trust) in next
                .keys
                .values_mut()
                .filter(|(_, trust)| *trust == Trust::Yes)
            {
                *trust = Trust::Ended;
            }
            let id = recovery.credential.credential_id.clone();
            next.keys
                .insert(id, (recovery.credential.clone(), Trust::Yes));
            next.recovered.push(recovery.seq);
            next.pending = None;
        }
        next
    }

    fn knows(&self, id: &Bytes) -> bool {
        let pending = self.pending.as_ref();
        self.keys.contains_key(id)
            || pending.is_some_and(|recovery| recovery.credential.credential_id == *id)
    }
}

/// The state after `change`.
fn follow(
    before: Option<&Keyring>,
    change: &Document<KeyringChange>,
    link: &Link<'_>,
) -> Result<State, Refusal> {
    let body = change.body();
    let said = body.at.timestamp();
    let moment = link.recorded.map_or(said, |recorded| recorded.max(said));
    let Some(keyring) = before else {
        return first(change, link, moment);
    };
    let last = keyring.last();
    if body.executor != keyring.executor {
        return Err(Reason::Executor.because("the change is another executor's"));
    }
    if body.seq != keyring.states.len() as u64 + 1 || body.prev != Some(last.head) {
        return Err(Reason::Chain.because("it does not follow the change before it"));
    }
    let moment = moment.max(last.at);
    let mut state = last.settled(moment);
    state.head = change.hash();
    state.at = moment;
    match (body.op, &body.credential, &body.credential_id) {
        (Op::Add, Some(new), _) => add(&mut state, change, link.signed, new)?,
        (Op::Revoke, _, Some(id)) => revoke(&mut state, change, link.signed, id)?,
        (Op::Recover, Some(new), _) => recover(&mut state, change, link.signed, new)?,
        _ => return Err(Reason::Shape.because("a member is missing")),
    }
    if body.recovery.is_some() {
        state.recovery = body.recovery;
    }
    Ok(state)
}

fn first(
    change: &Document<KeyringChange>,
    link: &Link<'_>,
    at: Timestamp,
) -> Result<State, Refusal> {
    let body = change.body();
    let (1, Some(new)) = (body.seq, &body.credential) else {
        return Err(Reason::Chain.because("a keyring begins with change 1"));
    };
    no_possession(link.signed)?;
    by(change.hash(), link.signed.proof.as_ref(), new)?;
    Ok(State {
        head: change.hash(),
        at,
        keys: BTreeMap::from([(new.credential_id.clone(), (new.clone(), Trust::Yes))]),
        recovery: body.recovery,
        pending: None,
        recovered: Vec::new(),
    })
}

fn add(
    state: &mut State,
    change: &Document<KeyringChange>,
    signed: &Signed,
    new: &Credential,
) -> Result<(), Refusal> {
    if state.knows(&new.credential_id) {
        return Err(Reason::Chain.because("the passkey is or was in the keyring already"));
    }
    by_trusted(state, change, signed)?;
    by(change.hash(), signed.possession.as_ref(), new)?;
    let id = new.credential_id.clone();
    state.keys.insert(id, (new.clone(), Trust::Yes));
    Ok(())
}

fn revoke(
    state: &mut State,
    change: &Document<KeyringChange>,
    signed: &Signed,
    id: &Bytes,
) -> Result<(), Refusal> {
    no_possession(signed)?;
    let signer = by_trusted(state, change, signed)?;
    let another_remains = state
        .keys
        .iter()
        .any(|(other, (_, trust))| *trust == Trust::Yes && other != id);
    if signer == *id && another_remains {
        return Err(Reason::Proof.because("a passkey is revoked by another one while there is one"));
    }
    let waiting = state.pending.as_ref();
    if waiting.is_some_and(|recovery| recovery.credential.credential_id == *id) {
        if let Some(recovery) = state.pending.take() {
            let id = recovery.credential.credential_id.clone();
            state.keys.insert(id, (recovery.credential, Trust::Revoked));
        }
        return Ok(());
    }
    match state.keys.get_mut(id) {
        Some((_, trust @ Trust::Yes)) => {
            *trust = Trust::Revoked;
            Ok(())
        }
        _ => Err(Reason::Chain.because("the passkey to be revoked is not in the keyring")),
    }
}

fn recover(
    state: &mut State,
    change: &Document<KeyringChange>,
    signed: &Signed,
    new: &Credential,
) -> Result<(), Refusal> {
    no_possession(signed)?;
    if state.pending.is_some() {
        return Err(Reason::Chain.because("a recovery is under way already"));
    }
    if state.knows(&new.credential_id) {
        return Err(Reason::Chain.because("the passkey is or was in the keyring already"));
    }
    by(change.hash(), signed.proof.as_ref(), new)?;
    let code = change
        .body()
        .code
        .as_ref()
        .map(crate::document::RecoveryCode::hash);
    if code.is_none() || code != state.recovery {
        return Err(Reason::Proof.because("the recovery code is not the one that counts"));
    }
    let day = jiff::SignedDuration::from_secs(RECOVERY_SECONDS);
    let from = state
        .at
        .checked_add(day)
        .map_err(|_| Reason::Times.because("the recovery lies beyond all time"))?;
    state.recovery = None;
    state.pending = Some(Recovery {
        credential: new.clone(),
        from,
        seq: change.body().seq,
    });
    Ok(())
}

/// The id of the trusted key that signed.
fn by_trusted(
    state: &State,
    change: &Document<KeyringChange>,
    signed: &Signed,
) -> Result<Bytes, Refusal> {
    let proof = signed.proof.as_ref();
    let proof = proof.ok_or_else(|| Reason::Proof.because("no trusted passkey signed it"))?;
    let credential = trusted(state.standing(&proof.credential_id, state.at))?;
    verify_assertion(change.hash(), proof, credential)?;
    Ok(proof.credential_id.clone())
}

/// The key when it may sign.
pub(crate) fn trusted(standing: Standing<'_>) -> Result<&Credential, Refusal> {
    match standing {
        Standing::Trusted(credential) => Ok(credential),
        Standing::Revoked(credential) => {
            Err(Reason::RevokedKey
                .because(format!("the passkey `{}` was revoked", credential.label)))
        }
        Standing::Ended(credential) => Err(Reason::RevokedKey.because(format!(
            "the passkey `{}` was ended by a recovery of the keyring",
            credential.label
        ))),
        Standing::Waiting(credential) => Err(Reason::UnknownKey.because(format!(
            "the passkey `{}` does not count until its recovery is in effect",
            credential.label
        ))),
        Standing::Unknown => {
            Err(Reason::UnknownKey
                .because("the signature is of a passkey that is not in the keyring"))
        }
    }
}

fn by(hash: Hash, proof: Option<&Proof>, new: &Credential) -> Result<Assertion, Refusal> {
    let proof = proof.ok_or_else(|| Reason::Proof.because("the new passkey did not sign it"))?;
    if proof.credential_id != new.credential_id {
        return Err(Reason::UnknownKey.because("the signature is not the new passkey's"));
    }
    verify_assertion(hash, proof, new)
}

fn no_possession(signed: &Signed) -> Result<(), Refusal> {
    match signed.possession {
        Some(_) => Err(Reason::Proof.because("`possession` belongs to an added passkey only")),
        None => Ok(()),
    }
}

impl From<Time> for Timestamp {
    fn from(time: Time) -> Self {
        time.timestamp()
    }
}
