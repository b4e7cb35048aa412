//! One executor in memory: two servers, one agent, every port a list that can be looked at.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use countersign_permission::{
    Development, Kind, Mode, Permission, ServerView, SettingsView, ToolView, development,
};
use jiff::{SignedDuration, Timestamp};

use crate::answer::{Answer, Outcome};
use crate::approval::{self, Approval, ApprovalState, By, DecideError, Pulse, Verdict as Decision};
use crate::bound::Bound;
use crate::bucket::{Level, take};
use crate::catalog::{Catalog, Tool, Validators};
use crate::confirmation::{Confirmation, ConfirmationState, TRIES, stands};
use crate::facts::{
    AgentFacts, DisabledList, ExecutorFacts, Facts, FirstSeen, HOLD, Parts, ServerFacts,
    ToolSettings,
};
use crate::idempotency::{KeyRow, KeyState, Owner, Twin, twin};
use crate::key::{KeyText, Pepper};
use crate::paths::Holding;
use crate::paths::memory::Disk;
use crate::ports::{
    Book, BookError, Charge, Clock, CountedRefusal, Durability, End, Forwarded, Hold, KeyClaim,
    KeyRecord, Mark, NoRandom, Note, OutcomeNote, Pending, Ports, Prompt, Purpose, Ran, Random,
    Registry, Settle, Store, StoreError, Take, Taken, Upstream, UseClaim, Uses, Waits,
};
use crate::rate::{Buckets, Charged};
use crate::request::{Arguments, Audience, Request, Target};
use crate::serve::Listing;
use crate::steps::{Cleared, What};
use crate::turn::memory::MemoryTurns;
use crate::turn::{StrikeClaim, Turns};

pub struct World {
    pub parts: Parts,
    pub catalogs: BTreeMap<String, Catalog>,
    pub memory: Memory,
    pub key: KeyText,
    /// Seconds since [`NOW`].
    pub later: Mutex<i64>,
    pepper: Pepper,
    pub disk: Disk,
    /// What both servers list.
    pub tools: &'static str,
    pub holdings: Vec<Holding>,
    pub turns: MemoryTurns,
}

#[derive(Default)]
pub struct Memory {
    pub keys: Mutex<HashMap<String, KeyRecord>>,
    pub levels: Mutex<HashMap<String, Level>>,
    pub refusals: Mutex<Vec<(Option<String>, &'static str)>>,
    pub uses: Mutex<u64>,
    /// Call ids made.
    pub made: Mutex<u64>,
    pub approvals: Mutex<Vec<Queued>>,
    /// Two writes of the agent are denied at the next pause.
    pub strikes_in_pause: Mutex<bool>,
    /// What the person decides while a call is held, and at which pause.
    pub decides: Mutex<Option<(u32, Decision)>>,
    pub confirmations: Mutex<Vec<Kept>>,
    /// A confirmation another process spends between look-up and take.
    pub spent_meanwhile: Mutex<Option<String>>,
    pub claims: Mutex<HashMap<String, KeyRow>>,
    /// Calls whose process is gone.
    pub dead: Mutex<HashSet<String>>,
    pub notes: Mutex<Vec<Note>>,
    pub outcomes: Mutex<Vec<(OutcomeNote, Durability)>>,
    pub sent: Mutex<Vec<(String, Option<String>)>>,
    /// The calls that reached the upstream side, in order.
    pub ran: Mutex<Vec<String>>,
    /// Those of them that certainly were not sent.
    pub not_sent: Mutex<HashSet<String>>,
    /// Those whose outcome the book refused.
    pub unrecorded: Mutex<HashSet<String>>,
    /// The calls that claimed a key.
    pub keyed: Mutex<Vec<(String, String)>>,
    /// The step at which the process dies, before it is done.
    pub dies_at: Mutex<Option<&'static str>>,
    /// What previews sent.
    pub looked: Mutex<Vec<(String, Option<String>)>>,
    /// What previews are answered with, by tool.
    pub values: Mutex<HashMap<String, Ran>>,
    pub asked: Mutex<usize>,
    /// What happened, in order: `key`, `charge`, `resolve`, `uses`, `twin`, `take`, `note`, `run`, `record`, `settle`.
    pub trail: Mutex<Vec<&'static str>>,
    pub answer: Mutex<Option<Ran>>,
    pub book_fails: Mutex<Option<&'static str>>,
    pub store_fails: Mutex<bool>,
    /// The step of the store that fails.
    pub fails_at: Mutex<Option<&'static str>>,
    /// A row another process claims between look-up and take.
    pub quicker: Mutex<Option<(String, KeyRow)>>,
}

/// An approval in the store.
pub struct Queued {
    pub row: Approval,
    pub arguments: String,
    pub preview: String,
    pub heartbeat: Timestamp,
    pub delivered: bool,
}

/// A confirmation in the store.
pub struct Kept {
    pub row: Confirmation,
    pub mac: [u8; 32],
    pub tries: u32,
}

pub const NOW: &str = "2026-11-30T12:00:00Z";
pub const TOOLS: &str = r##"[
 {"name":"look","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"number"},"list":{"type":"array"}}}},
 {"name":"put","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"rows":{"type":"array"},"more":{"type":"array"},"deep":{"type":"object"},"n":{"type":"integer"}}}},
 {"name":"open_put","inputSchema":{"type":"object"}},
 {"name":"own_dry","inputSchema":{"type":"object","properties":{"dry_run":{"type":"string"}}}},
 {"name":"strange","inputSchema":{"type":"string"}}
]"##;

impl World {
    pub fn new() -> Self {
        let key = KeyText::make([1; 8], [2; 32]);
        let pepper = Pepper::new([3; 32]);
        let prefix = key.prefix().unwrap().to_string();
        let record = KeyRecord {
            agent: "claude".into(),
            mac: key.mac(&pepper),
            scopes: None,
            expires_at: None,
            revoked_at: None,
        };
        let memory = Memory::default();
        memory.keys.lock().unwrap().insert(prefix.clone(), record);
        let read = ToolSettings {
            kind: Kind::Read,
            ..ToolSettings::default()
        };
        let tools = BTreeMap::from([("look".to_string(), read)]);
        let servers = ["files", "mail"]
            .map(|name| ServerFacts {
                name: name.into(),
                enabled: true,
                cwd: Some("/srv".to_string()),
                tools: tools.clone(),
            })
            .to_vec();
        let agent = AgentFacts {
            name: "claude".into(),
            key_prefix: prefix,
            scopes: None,
            expires_at: None,
            mode: Mode::Auto,
            requires_approval: false,
            workspace: None,
            write_policy: None,
            turn_idle_minutes: 0,
            permission: None,
        };
        let parts = Parts {
            generation: 1,
            executor: ExecutorFacts {
                id: "id".into(),
                name: "test".into(),
                development: Development::Yes,
                dry_run: false,
                hold: HOLD,
            },
            enabled: true,
            maintenance: false,
            servers,
            agents: BTreeMap::from([("claude".to_string(), Arc::new(agent))]),
            disabled_tools: DisabledList::Names(Default::default()),
            disabled_servers: DisabledList::Names(Default::default()),
            person_write_servers: DisabledList::Names(Default::default()),
            buckets: Buckets::default(),
            first_seen: Arc::default(),
        };
        let mut world = Self {
            parts,
            catalogs: BTreeMap::new(),
            memory,
            key,
            later: Mutex::default(),
            pepper,
            disk: Disk::new().home("/home/maria").folder("/srv").folder("/w"),
            tools: TOOLS,
            holdings: Vec::new(),
            turns: MemoryTurns::default(),
        };
        world.rebuild();
        world
    }

    /// With other settings for one tool of `files`.
    pub fn with_tool(tool: &str, change: impl FnOnce(&mut ToolSettings)) -> Self {
        let mut world = Self::new();
        world.tool(tool, change);
        world
    }

    pub fn tool(&mut self, tool: &str, change: impl FnOnce(&mut ToolSettings)) {
        change(
            self.parts.servers[0]
                .tools
                .entry(tool.to_string())
                .or_default(),
        );
        self.rebuild();
    }

    pub fn agent(&mut self, change: impl FnOnce(&mut AgentFacts)) {
        let agent = self.parts.agents.get_mut("claude").unwrap();
        change(Arc::make_mut(agent));
    }

    /// Catalogs, pins and the development permission anew from the settings.
    pub fn rebuild(&mut self) {
        let items: Vec<Box<serde_json::value::RawValue>> =
            serde_json::from_str(self.tools).unwrap();
        let items: Vec<_> = items
            .iter()
            .map(|item| Bytes::copy_from_slice(item.get().as_bytes()))
            .collect();
        let mut first_seen = FirstSeen::new();
        for server in &self.parts.servers {
            let catalog = Catalog::build(server, &items, &mut Validators::default());
            let pins = catalog
                .tools
                .iter()
                .map(|tool| (tool.name.to_string(), tool.definition))
                .collect();
            first_seen.insert(server.name.to_string(), pins);
            self.catalogs.insert(server.name.to_string(), catalog);
        }
        self.parts.first_seen = Arc::new(first_seen);
        let permission = Arc::new(self.development());
        self.agent(|agent| agent.permission = Some(permission));
    }

    fn development(&self) -> Permission {
        let servers = self.parts.servers.iter().map(|server| ServerView {
            name: &server.name,
            tools: server
                .tools
                .iter()
                .map(|(name, set)| ToolView {
                    name,
                    kind: set.kind,
                    scope: set.scope.as_deref(),
                    limits: set.limits,
                    arguments: &set.arguments,
                })
                .collect(),
        });
        let agent = &self.parts.agents["claude"];
        development(&SettingsView {
            executor: "id",
            agent: "claude",
            key: &agent.key_prefix,
            mode: agent.mode,
            servers: servers.collect(),
        })
        .unwrap()
    }

    pub fn request(&self, tool: &str, arguments: &str) -> Request {
        let arguments = match arguments {
            "" => Arguments::Missing,
            "null" => Arguments::Null,
            text => Arguments::Raw(Bytes::copy_from_slice(text.as_bytes())),
        };
        Request {
            request_id: "r1".into(),
            call_id: self.next_id().into(),
            audience: Audience::Agent,
            credential: Some(self.key.clone()),
            url: None,
            network: None,
            via: "stdio",
            server: Some("files".into()),
            target: Target::Tool(tool.to_string()),
            arguments,
            idempotency_header: None,
            client: None,
        }
    }

    fn next_id(&self) -> String {
        let mut made = self.memory.made.lock().unwrap();
        *made += 1;
        format!("c{made}")
    }

    pub fn public(&self, tool: &str, arguments: &str) -> Request {
        Request {
            audience: Audience::Public,
            credential: None,
            network: Some("192.0.2.1".parse().unwrap()),
            ..self.request(tool, arguments)
        }
    }

    pub fn send(&self, request: Request) -> Answer {
        let facts = Facts::new(self.parts.clone()).unwrap();
        block_on(crate::serve::call(&facts, self.ports(), request))
    }

    pub fn list(&self, request: Request) -> Listing {
        let facts = Facts::new(self.parts.clone()).unwrap();
        block_on(crate::serve::list(&facts, self.ports(), request))
    }

    /// A call; the code it was refused with, or `ok`, `error`, `finished`, `cancelled`.
    pub fn call(&self, tool: &str, arguments: &str) -> &'static str {
        code(&self.send(self.request(tool, arguments)))
    }

    pub fn trail(&self) -> String {
        std::mem::take(&mut *self.memory.trail.lock().unwrap()).join(" ")
    }

    /// Units gone from a bucket.
    pub fn spent(&self, class: &str, size: u64) -> u64 {
        let levels = self.memory.levels.lock().unwrap();
        levels
            .iter()
            .filter(|(name, _)| name.starts_with(class))
            .map(|(_, level)| size - u64::try_from(level.grains / 60_000).unwrap())
            .sum()
    }

    pub fn ports(&self) -> Ports<'_> {
        Ports {
            store: &self.memory,
            book: &self.memory,
            upstream: &self.memory,
            registry: self,
            clock: self,
            random: &self.memory,
            pepper: &self.pepper,
            files: &self.disk,
            holdings: &self.holdings,
            turns: &self.turns,
        }
    }
}

/// What an answer came to.
pub fn code(answer: &Answer) -> &'static str {
    match &answer.outcome {
        Outcome::Result {
            is_error: false, ..
        } => "ok",
        Outcome::Result { is_error: true, .. } | Outcome::ProtocolError { .. } => "error",
        Outcome::Finished(_) => "finished",
        Outcome::Refused(refusal) => {
            assert!(!refusal.next_actions.is_empty());
            refusal.code.text()
        }
        Outcome::Cancelled => "cancelled",
    }
}

pub fn block_on<T>(future: impl Future<Output = T> + Send) -> T {
    let mut future = Box::pin(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("ports in memory never wait"),
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> Pending<'a, T> {
    Box::pin(std::future::ready(value))
}

impl Memory {
    fn step(&self, name: &'static str) {
        self.trail.lock().unwrap().push(name);
        let dies = *self.dies_at.lock().unwrap() == Some(name);
        // Quietly: a death is no failure of the test.
        if dies {
            std::panic::resume_unwind(Box::new(name));
        }
    }

    fn works(&self, name: &'static str) -> Result<(), StoreError> {
        self.step(name);
        if *self.fails_at.lock().unwrap() == Some(name) {
            return Err(StoreError {
                why: "the store is made to fail",
                detail: format!("{name} failed"),
            });
        }
        self.store_state()
    }

    fn store_state(&self) -> Result<(), StoreError> {
        if *self.store_fails.lock().unwrap() {
            Err(StoreError {
                why: "no space is left on the disk",
                detail: "disk full at /secret".into(),
            })
        } else {
            Ok(())
        }
    }

    fn used(&self, claim: &UseClaim<'_>, add: u64) -> Result<Uses, StoreError> {
        self.store_state()?;
        let mut uses = self.uses.lock().unwrap();
        if claim.limits.max_calls.is_some_and(|most| *uses >= most) {
            return Ok(Uses::MaxCalls);
        }
        if claim
            .limits
            .rate
            .is_some_and(|rate| *uses >= u64::from(rate.max))
        {
            return Ok(Uses::Rate {
                free_at: NOW.parse().unwrap(),
            });
        }
        *uses += add;
        Ok(Uses::Allowed)
    }
}

impl Memory {
    fn find_twin(&self, claim: &KeyClaim<'_>, now: Timestamp) -> Twin {
        let mut row = self.claims.lock().unwrap().get(&name_of(claim)).cloned();
        if let Some(row) = &mut row
            && let KeyState::Running { owner } = &mut row.state
            && self.dead.lock().unwrap().contains(&row.call_id)
        {
            *owner = Owner::Gone;
        }
        twin(row.as_ref(), &claim.bound.arguments, now)
    }

    fn taken(&self, take: &Take<'_>) -> Result<Taken, StoreError> {
        self.claims
            .lock()
            .unwrap()
            .extend(self.quicker.lock().unwrap().take());
        if let Some(id) = self.spent_meanwhile.lock().unwrap().take() {
            self.end_confirmation(&id, ConfirmationState::Used);
        }
        if let Some(claim) = &take.key {
            let twin = self.find_twin(claim, take.now);
            if twin != Twin::None {
                return Ok(Taken::Twin(twin));
            }
        }
        if let Some(id) = take.confirmation {
            let kept = self.confirmations.lock().unwrap();
            let row = &kept.iter().find(|kept| &*kept.row.id == id).unwrap().row;
            if let Err(reason) = stands(row.state, row.expires_at, take.now) {
                return Ok(Taken::Confirmation(reason));
            }
        }
        if let Some(id) = take.approval {
            let state = self.approval_now(id, take.now).map(|row| row.state);
            if state != Some(ApprovalState::Approved) {
                return Ok(Taken::Approval(state));
            }
        }
        if let Some(claim) = &take.uses {
            let uses = self.used(claim, 1)?;
            if uses != Uses::Allowed {
                return Ok(Taken::Uses(uses));
            }
        }
        if let Some(claim) = &take.key {
            let row = KeyRow {
                arguments: claim.bound.arguments,
                call_id: take.call_id.to_string(),
                state: KeyState::Running {
                    owner: Owner::Alive,
                },
            };
            self.claims.lock().unwrap().insert(name_of(claim), row);
            let keyed = (take.call_id.to_string(), name_of(claim));
            self.keyed.lock().unwrap().push(keyed);
        }
        if let Some(id) = take.confirmation {
            self.end_confirmation(id, ConfirmationState::Used);
        }
        self.on_approval(take.approval.unwrap_or_default(), |queued| {
            queued.row.state = ApprovalState::Running;
            queued.row.call_id = Some(take.call_id.to_string());
            queued.heartbeat = take.now;
        });
        Ok(Taken::All)
    }

    pub fn end_confirmation(&self, id: &str, state: ConfirmationState) {
        for kept in self.confirmations.lock().unwrap().iter_mut() {
            if &*kept.row.id == id {
                kept.row.state = state;
            }
        }
    }

    fn on_approval(&self, id: &str, change: impl FnMut(&mut Queued)) {
        let mut approvals = self.approvals.lock().unwrap();
        approvals
            .iter_mut()
            .find(|queued| &*queued.row.id == id)
            .into_iter()
            .for_each(change);
    }

    fn seen(&self, queued: &Queued, now: Timestamp) -> Approval {
        let mut row = queued.row.clone();
        let gone = row
            .call_id
            .as_ref()
            .is_some_and(|call| self.dead.lock().unwrap().contains(call));
        let owner = if gone { Owner::Gone } else { Owner::Alive };
        let heartbeat = queued.heartbeat;
        row.state = approval::stands(
            row.state,
            row.expires_at,
            Some(Pulse { heartbeat, owner }),
            now,
        );
        row
    }

    pub fn approval_now(&self, id: &str, now: Timestamp) -> Option<Approval> {
        let approvals = self.approvals.lock().unwrap();
        let found = approvals.iter().find(|queued| &*queued.row.id == id)?;
        Some(self.seen(found, now))
    }

    fn find_approval(&self, bound: &Bound, now: Timestamp) -> Option<Approval> {
        let approvals = self.approvals.lock().unwrap();
        let mine = approvals
            .iter()
            .rev()
            .filter(|queued| queued.row.bound == *bound);
        mine.map(|queued| (self.seen(queued, now), queued.delivered))
            .find(|(row, delivered)| match row.state {
                ApprovalState::Waiting | ApprovalState::Approved | ApprovalState::Running => true,
                ApprovalState::Done | ApprovalState::Failed => !delivered,
                ApprovalState::Rejected => now < row.expires_at,
                ApprovalState::Expired => false,
            })
            .map(|(row, _)| row)
    }

    /// The person decides about everything that waits.
    pub fn decide(&self, verdict: Decision, now: Timestamp) -> Result<(), DecideError> {
        for queued in self.approvals.lock().unwrap().iter_mut() {
            let state = self.seen(queued, now).state;
            if state == ApprovalState::Waiting {
                queued.row.state = approval::decide(state, queued.row.needs, verdict, &By::Person)?;
            }
        }
        Ok(())
    }

    fn settled(&self, settle: &Settle<'_>) {
        self.on_approval(settle.approval.unwrap_or_default(), |queued| {
            let row = &mut queued.row;
            if row.state != ApprovalState::Running || row.call_id.as_deref() != Some(settle.call_id)
            {
                return;
            }
            row.state = match &settle.end {
                End::Answered(answer) => {
                    row.answer = Some(answer.clone());
                    ApprovalState::Done
                }
                End::Unknown => ApprovalState::Failed,
                End::NotSent => ApprovalState::Approved,
            };
            queued.delivered = row.state == ApprovalState::Done && settle.waits == Waits::Agent;
        });
        let Some(claim) = &settle.key else { return };
        let (mut claims, name) = (self.claims.lock().unwrap(), name_of(claim));
        let Some(row) = claims.get_mut(&name).filter(|row| {
            row.call_id == settle.call_id && matches!(row.state, KeyState::Running { .. })
        }) else {
            return;
        };
        match &settle.end {
            End::Answered(answer) => {
                row.state = KeyState::Done {
                    at: settle.now,
                    answer: Some(answer.clone()),
                }
            }
            End::Unknown => row.state = KeyState::Unknown,
            End::NotSent => {
                claims.remove(&name);
            }
        }
    }
}

fn name_of(claim: &KeyClaim<'_>) -> String {
    let bound = claim.bound;
    format!(
        "{} {} {} {}",
        bound.actor, bound.server, bound.tool, claim.key
    )
}

impl Store for Memory {
    fn key<'a>(&'a self, prefix: &'a str) -> Pending<'a, Result<Option<KeyRecord>, StoreError>> {
        self.step("key");
        ready(
            self.store_state()
                .map(|()| self.keys.lock().unwrap().get(prefix).cloned()),
        )
    }

    fn charge<'a>(&'a self, charge: Charge<'a>) -> Pending<'a, Result<Charged, StoreError>> {
        self.step("charge");
        let mut levels = self.levels.lock().unwrap();
        let name = format!("{}:{}", charge.bucket.class(), charge.bucket.owner());
        let (charged, level) = take(
            levels.get(&name).copied(),
            charge.size,
            charge.units,
            charge.now.as_millisecond(),
        );
        levels.insert(name, level);
        ready(self.store_state().map(|()| charged))
    }

    fn balance<'a>(&'a self, charge: Charge<'a>) -> Pending<'a, Result<Charged, StoreError>> {
        let name = format!("{}:{}", charge.bucket.class(), charge.bucket.owner());
        ready(Ok(take(
            self.levels.lock().unwrap().get(&name).copied(),
            charge.size,
            0,
            charge.now.as_millisecond(),
        )
        .0))
    }

    fn count_refusal<'a>(
        &'a self,
        refusal: CountedRefusal<'a>,
    ) -> Pending<'a, Result<(), StoreError>> {
        self.refusals
            .lock()
            .unwrap()
            .push((refusal.agent.map(String::from), refusal.code.text()));
        ready(Ok(()))
    }

    fn uses_left<'a>(&'a self, claim: UseClaim<'a>) -> Pending<'a, Result<Uses, StoreError>> {
        self.step("uses");
        ready(self.used(&claim, 0))
    }

    fn twin<'a>(
        &'a self,
        claim: KeyClaim<'a>,
        now: Timestamp,
    ) -> Pending<'a, Result<Twin, StoreError>> {
        ready(self.works("twin").map(|()| self.find_twin(&claim, now)))
    }

    fn confirmation<'a>(
        &'a self,
        mac: &'a [u8; 32],
    ) -> Pending<'a, Result<Option<Confirmation>, StoreError>> {
        let kept = self.confirmations.lock().unwrap();
        let found = kept.iter().find(|kept| kept.mac == *mac);
        let found = found.map(|kept| kept.row.clone());
        ready(self.works("confirmation").map(|()| found))
    }

    fn held_confirmation<'a>(
        &'a self,
        id: &'a str,
    ) -> Pending<'a, Result<Option<Confirmation>, StoreError>> {
        let kept = self.confirmations.lock().unwrap();
        let found = kept.iter().find(|kept| &*kept.row.id == id);
        let found = found.map(|kept| kept.row.clone());
        ready(self.works("confirmation").map(|()| found))
    }

    fn prompt<'a>(&'a self, prompt: Prompt<'a>) -> Pending<'a, Result<(), StoreError>> {
        if let Some(id) = prompt.replaces {
            self.end_confirmation(id, ConfirmationState::Expired);
        }
        self.confirmations.lock().unwrap().push(Kept {
            row: prompt.confirmation.clone(),
            mac: *prompt.mac,
            tries: 0,
        });
        ready(self.works("prompt"))
    }

    fn wrong_code<'a>(
        &'a self,
        bound: &'a Bound,
        now: Timestamp,
    ) -> Pending<'a, Result<(), StoreError>> {
        let mut kept = self.confirmations.lock().unwrap();
        let waiting = kept.iter_mut().rev().find(|kept| {
            kept.row.bound == *bound && stands(kept.row.state, kept.row.expires_at, now).is_ok()
        });
        if let Some(kept) = waiting {
            kept.tries += 1;
            if kept.tries >= TRIES {
                kept.row.state = ConfirmationState::Expired;
            }
        }
        ready(self.works("wrong_code"))
    }

    fn approval_for<'a>(
        &'a self,
        bound: &'a Bound,
        now: Timestamp,
    ) -> Pending<'a, Result<Option<Approval>, StoreError>> {
        ready(
            self.works("approval_for")
                .map(|()| self.find_approval(bound, now)),
        )
    }

    fn approval<'a>(
        &'a self,
        id: &'a str,
        now: Timestamp,
    ) -> Pending<'a, Result<Option<Approval>, StoreError>> {
        ready(self.works("approval").map(|()| self.approval_now(id, now)))
    }

    fn hold<'a>(&'a self, hold: Hold<'a>) -> Pending<'a, Result<Approval, StoreError>> {
        if let Err(error) = self.works("hold") {
            return ready(Err(error));
        }
        let bound = &hold.approval.bound;
        if let Some(found) = self.find_approval(bound, hold.now) {
            return ready(Ok(found));
        }
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        self.approvals.lock().unwrap().push(Queued {
            row: hold.approval.clone(),
            arguments: text(hold.arguments),
            preview: text(hold.preview),
            heartbeat: hold.now,
            delivered: false,
        });
        ready(Ok(hold.approval.clone()))
    }

    fn mark<'a>(
        &'a self,
        id: &'a str,
        mark: Mark,
        now: Timestamp,
    ) -> Pending<'a, Result<(), StoreError>> {
        let state = self.approval_now(id, now).map(|row| row.state);
        let open = matches!(
            state,
            Some(ApprovalState::Waiting | ApprovalState::Approved)
        );
        self.on_approval(id, |queued| match mark {
            Mark::Delivered => queued.delivered = true,
            Mark::Changed if open => queued.row.state = ApprovalState::Expired,
            Mark::Withdrawn if open => queued.row.state = ApprovalState::Rejected,
            Mark::Changed | Mark::Withdrawn => {}
        });
        ready(self.works("mark"))
    }

    fn take<'a>(&'a self, take: Take<'a>) -> Pending<'a, Result<Taken, StoreError>> {
        ready(self.works("take").and_then(|()| self.taken(&take)))
    }

    fn settle<'a>(&'a self, settle: Settle<'a>) -> Pending<'a, Result<(), StoreError>> {
        ready(self.works("settle").map(|()| self.settled(&settle)))
    }
}

impl Random for Memory {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandom> {
        if *self.fails_at.lock().unwrap() == Some("random") {
            return Err(NoRandom);
        }
        let mut made = self.made.lock().unwrap();
        *made += 1;
        bytes.fill(0);
        bytes[..8].copy_from_slice(&made.to_be_bytes());
        Ok(())
    }
}

impl Book for Memory {
    fn note(&self, note: Note) -> Pending<'_, Result<(), BookError>> {
        self.step("note");
        if *self.book_fails.lock().unwrap() == Some("note") {
            return ready(Err(BookError {
                why: "no space is left on the disk",
                detail: "disk full at /secret".into(),
                held: None,
            }));
        }
        self.notes.lock().unwrap().push(note);
        ready(Ok(()))
    }

    fn record(
        &self,
        outcome: OutcomeNote,
        durability: Durability,
    ) -> Pending<'_, Result<(), BookError>> {
        self.step("record");
        if *self.book_fails.lock().unwrap() == Some("record") {
            self.unrecorded
                .lock()
                .unwrap()
                .insert(outcome.call_id.to_string());
            return ready(Err(BookError {
                why: "no space is left on the disk",
                detail: "disk full at /secret".into(),
                held: None,
            }));
        }
        self.outcomes.lock().unwrap().push((outcome, durability));
        ready(Ok(()))
    }
}

impl Upstream for Memory {
    fn run(&self, cleared: Cleared) -> Pending<'_, Ran> {
        self.step("run");
        let arguments = cleared
            .arguments()
            .map(|text| String::from_utf8(text.to_vec()).unwrap());
        self.ran.lock().unwrap().push(cleared.call_id().to_string());
        if cleared.purpose() == Purpose::Preview {
            let What::Tool(tool) = cleared.what() else {
                panic!("a preview calls tools");
            };
            self.looked
                .lock()
                .unwrap()
                .push((tool.to_string(), arguments));
            return ready(self.values.lock().unwrap()[&**tool].clone());
        }
        self.sent
            .lock()
            .unwrap()
            .push((format!("{:?}", cleared.what()), arguments));
        let result = Ran::Result {
            body: Bytes::from_static(br#"{"content":[ ]}"#),
            is_error: false,
        };
        let ran = self.answer.lock().unwrap().clone().unwrap_or(result);
        if let Ran::Failed {
            forwarded: Forwarded::No,
            ..
        } = ran
        {
            self.not_sent
                .lock()
                .unwrap()
                .insert(cleared.call_id().to_string());
        }
        ready(ran)
    }
}

impl Registry for World {
    fn resolve(&self, server: Option<&str>, name: &str) -> Option<Arc<Tool>> {
        self.memory.step("resolve");
        *self.memory.asked.lock().unwrap() += 1;
        let (server, name) = match server {
            Some(server) => (server, name),
            None => name.split_once("__")?,
        };
        self.catalogs.get(server)?.find(name).cloned()
    }

    fn tools(&self, server: Option<&str>) -> Vec<Arc<Tool>> {
        let catalogs = self
            .catalogs
            .iter()
            .filter(|(name, _)| server.is_none_or(|server| server == *name));
        catalogs
            .flat_map(|(_, catalog)| catalog.tools.clone())
            .collect()
    }
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        let start: Timestamp = NOW.parse().unwrap();
        start + SignedDuration::from_secs(*self.later.lock().unwrap())
    }

    /// A second goes by; the person may decide in it.
    fn pause(&self, _: Timestamp) -> Pending<'_, ()> {
        *self.later.lock().unwrap() += 1;
        if std::mem::take(&mut *self.memory.strikes_in_pause.lock().unwrap()) {
            for call_id in ["p1", "p2"] {
                let claim = StrikeClaim {
                    agent: "claude",
                    call_id,
                    facts: &Default::default(),
                    now: self.now(),
                };
                block_on(self.turns.strike(claim)).unwrap();
            }
        }
        let mut decides = self.memory.decides.lock().unwrap();
        match decides.as_mut() {
            Some((0, decision)) => {
                self.memory.decide(*decision, self.now()).unwrap();
                *decides = None;
            }
            Some((pauses, _)) => *pauses -= 1,
            None => {}
        }
        ready(())
    }
}
