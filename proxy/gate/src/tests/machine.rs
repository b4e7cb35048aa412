//! A generated life of one executor against a small model: calls with and without keys and codes, approvals, crashes at any point,
//! revocations, clock jumps. What must hold after every step is written in [`Life::invariants`]. `COUNTERSIGN_LONG=1` runs 100,000 lives.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use countersign_permission::{Approval, Danger};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{World, block_on};
use crate::answer::{Answer, Outcome};
use crate::approval::{ApprovalState, Verdict};
use crate::facts::{Preview, PreviewRead};
use crate::paths::{Declared, Effect};
use crate::policy::Policy;
use crate::ports::{
    Clock, DecisionNote, Failure, Forwarded, Note, Purpose, Ran, Verdict as Denied,
};
use crate::request::{QUEUE, Request};
use crate::turn::{By, Turns, What};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    /// A write: which tool, which arguments, which key, whether with the newest code it was given.
    Call {
        tool: usize,
        n: u8,
        key: Option<u8>,
        code: bool,
        queue: bool,
        dry: bool,
    },
    /// The same, by a process that dies at this step of its ports.
    Crash {
        tool: usize,
        n: u8,
        key: Option<u8>,
        code: bool,
        at: &'static str,
    },
    /// The person decides about everything that waits.
    Decide(bool),
    /// Time goes by, in seconds.
    Later(i64),
    /// The agent's key is revoked, or holds again.
    Revoke(bool),
    /// What writes would change, changes.
    Change(u8),
    /// A write outside the policy, by a process that dies at this step where one is named.
    Outside(Option<&'static str>),
    /// A turn is opened: by the person, or by a prompt.
    Open(By),
    /// Where the agent may write from here on: everything in its workspace, or nothing.
    Narrow(bool),
    /// How the server answers from here on.
    Server(u8),
    /// What fails from here on.
    Fails(Option<&'static str>),
}

/// `put` is plain, `open_put` dangerous with a code, `own_dry` needs the person.
const TOOLS: [&str; 3] = ["put", "open_put", "own_dry"];

struct Life {
    world: World,
    codes: BTreeMap<(usize, u8), String>,
    answers: BTreeMap<String, String>,
    /// Two policies of the agent: its whole workspace, and nothing.
    policies: [Arc<Policy>; 2],
    /// The latest turn and its strikes, as they were before the last event.
    turns: u64,
    strikes: usize,
}

fn event() -> impl Strategy<Value = Event> {
    let key = || prop::option::weighted(0.6, 0..3_u8);
    let call = (
        0..3_usize,
        0..2_u8,
        key(),
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(tool, n, key, code, queue, dry)| Event::Call {
            tool,
            n,
            key,
            code,
            queue,
            dry,
        });
    let at = prop::sample::select(vec![
        "twin", "take", "note", "run", "record", "settle", "prompt", "hold", "mark",
    ]);
    let crash =
        (0..3_usize, 0..2_u8, key(), any::<bool>(), at).prop_map(|(tool, n, key, code, at)| {
            Event::Crash {
                tool,
                n,
                key,
                code,
                at,
            }
        });
    let seconds = prop::sample::select(vec![1, 599, 601, 901, 3600, 24 * 3600 + 1]);
    let fails = prop::sample::select(vec![
        None,
        None,
        Some("note"),
        Some("record"),
        Some("settle"),
    ]);
    prop_oneof![
        8 => call,
        3 => crash,
        2 => prop::bool::weighted(0.7).prop_map(Event::Decide),
        1 => seconds.prop_map(Event::Later),
        1 => prop::bool::weighted(0.3).prop_map(Event::Revoke),
        1 => (0..2_u8).prop_map(Event::Change),
        2 => prop::option::weighted(0.3, prop::sample::select(vec!["arrive", "strike", "note", "recorded"])).prop_map(Event::Outside),
        1 => prop::sample::select(vec![By::App, By::Command, By::Hook]).prop_map(Event::Open),
        1 => prop::bool::weighted(0.3).prop_map(Event::Narrow),
        1 => (0..5_u8).prop_map(Event::Server),
        1 => fails.prop_map(Event::Fails),
    ]
}

impl Life {
    fn new() -> Self {
        let mut world = World::new();
        world.parts.buckets.key.size = 1_000_000;
        let reads = || {
            let read = PreviewRead {
                tool: "look".into(),
                arguments: Default::default(),
                ..PreviewRead::default()
            };
            Some(Preview::Reads {
                reads: vec![read],
                new: None,
            })
        };
        for name in TOOLS {
            world.tool(name, |tool| {
                tool.open_arguments = true;
                tool.paths = vec![Declared {
                    pointer: "/path".to_string(),
                    effect: Effect::Write,
                }];
                tool.preview = reads();
                if name != "put" {
                    tool.danger = Danger::Always;
                }
                if name == "own_dry" {
                    tool.approval = Approval::Person;
                }
            });
        }
        // Held requests answer at once, so that lives are long in events and short in waiting.
        world.parts.executor.hold = jiff::SignedDuration::ZERO;
        let policies = ["[\"**/*\"]", "[]"].map(|allow| {
            let text = format!(r#"{{"version":1,"allow_writes":{allow}}}"#);
            Arc::new(Policy::parse(text.as_bytes()).unwrap())
        });
        world.agent(|agent| {
            agent.workspace = Some("/w".into());
            agent.write_policy = Some(Arc::clone(&policies[0]));
        });
        let life = Self {
            world,
            codes: BTreeMap::new(),
            answers: BTreeMap::new(),
            policies,
            turns: 0,
            strikes: 0,
        };
        life.values(0);
        life
    }

    fn values(&self, value: u8) {
        let body = json!({"content": [{"type": "text", "text": value}]})
            .to_string()
            .into();
        let ran = Ran::Result {
            body,
            is_error: false,
        };
        self.world
            .memory
            .values
            .lock()
            .unwrap()
            .insert("look".into(), ran);
    }

    fn happens(&mut self, event: &Event) {
        match event {
            Event::Call {
                tool,
                n,
                key,
                code,
                queue,
                dry,
            } => {
                let mut request = self.request(*tool, *n, *key, *code);
                if *queue {
                    request.via = QUEUE;
                }
                if *dry && *tool != 2 {
                    let arguments = json!({"n": n, "path": "a", "dry_run": true}).to_string();
                    request.arguments = crate::request::Arguments::Raw(arguments.into());
                }
                let sent = self.sent();
                let answer = self.world.send(request);
                assert!(
                    !*dry || *tool == 2 || self.sent() == sent,
                    "a dry run runs nothing"
                );
                self.answered(*tool, *n, *key, &answer);
            }
            Event::Crash {
                tool,
                n,
                key,
                code,
                at,
            } => {
                let request = self.request(*tool, *n, *key, *code);
                let call_id = request.call_id.to_string();
                *self.world.memory.dies_at.lock().unwrap() = Some(at);
                let died = catch_unwind(AssertUnwindSafe(|| self.world.send(request)));
                *self.world.memory.dies_at.lock().unwrap() = None;
                match died {
                    Ok(answer) => self.answered(*tool, *n, *key, &answer),
                    Err(_) => self.died(call_id),
                }
            }
            Event::Decide(yes) => {
                let verdict = if *yes {
                    Verdict::Approve
                } else {
                    Verdict::Decline
                };
                self.world.memory.decide(verdict, self.world.now()).unwrap();
            }
            Event::Later(seconds) => *self.world.later.lock().unwrap() += seconds,
            Event::Revoke(revoked) => {
                let at = revoked.then(|| self.world.now());
                self.world
                    .memory
                    .keys
                    .lock()
                    .unwrap()
                    .values_mut()
                    .for_each(|key| key.revoked_at = at);
            }
            Event::Outside(at) => {
                let request = self.world.request("put", r#"{"path":"../out"}"#);
                let call_id = request.call_id.to_string();
                let sent = self.sent();
                *self.world.memory.dies_at.lock().unwrap() = *at;
                *self.world.turns.dies_at.lock().unwrap() = *at;
                let died = catch_unwind(AssertUnwindSafe(|| self.world.send(request)));
                *self.world.memory.dies_at.lock().unwrap() = None;
                *self.world.turns.dies_at.lock().unwrap() = None;
                assert_eq!(self.sent(), sent, "nothing outside is sent");
                match died {
                    Ok(answer) => assert!(matches!(answer.outcome, Outcome::Refused(_))),
                    Err(_) => self.died(call_id),
                }
            }
            Event::Open(by) => {
                let now = self.world.now();
                let opened = block_on(self.world.turns.open("claude", *by, now)).unwrap();
                let latched = self.strikes >= 2;
                assert_eq!(opened.is_none(), latched && *by == By::Hook);
                if opened.is_some() {
                    self.strikes = 0;
                    self.turns += 1;
                }
            }
            Event::Narrow(narrow) => {
                let policy = self.policies[usize::from(*narrow)].clone();
                self.world.agent(|agent| agent.write_policy = Some(policy));
            }
            Event::Change(value) => self.values(*value),
            Event::Server(how) => *self.world.memory.answer.lock().unwrap() = server(*how),
            Event::Fails(what) => {
                *self.world.memory.book_fails.lock().unwrap() =
                    what.filter(|what| *what != "settle");
                *self.world.memory.fails_at.lock().unwrap() = what.filter(|what| *what == "settle");
            }
        }
    }

    fn request(&self, tool: usize, n: u8, key: Option<u8>, code: bool) -> Request {
        let mut arguments = json!({"n": n, "path": "a"});
        if let Some(key) = key {
            arguments["idempotency_key"] = format!("k{key}").into();
        }
        if let Some(code) = self.codes.get(&(tool, n)).filter(|_| code) {
            arguments["confirm_token"] = code.as_str().into();
        }
        self.world.request(TOOLS[tool], &arguments.to_string())
    }

    /// Every call the dead process had under way: the request's own, and those of its preview.
    fn died(&self, call_id: String) {
        let memory = &self.world.memory;
        let outcomes = memory.outcomes.lock().unwrap();
        let ended: BTreeSet<&str> = outcomes
            .iter()
            .map(|(outcome, _)| &*outcome.call_id)
            .collect();
        let ran = memory.ran.lock().unwrap();
        let open = ran
            .iter()
            .filter(|call_id| !ended.contains(call_id.as_str()));
        memory
            .dead
            .lock()
            .unwrap()
            .extend(open.cloned().chain([call_id]));
    }

    fn answered(&mut self, tool: usize, n: u8, key: Option<u8>, answer: &Answer) {
        match &answer.outcome {
            Outcome::Finished(finished) => {
                let document: Value = serde_json::from_str(&finished.document).unwrap();
                if let Some(code) = document["confirm_token"].as_str() {
                    self.codes.insert((tool, n), code.to_string());
                }
            }
            Outcome::Result { body, .. } | Outcome::ProtocolError { body } => {
                // Every answer under one key of one tool with one set of arguments is the same bytes.
                if let Some(key) = key {
                    let name = format!("{tool} {n} {key}");
                    let text = String::from_utf8(body.to_vec()).unwrap();
                    assert_eq!(
                        self.answers.entry(name).or_insert_with(|| text.clone()),
                        &text
                    );
                }
            }
            Outcome::Refused(refusal) => assert!(!refusal.next_actions.is_empty()),
            Outcome::Cancelled => {}
        }
    }

    fn sent(&self) -> usize {
        self.world.memory.sent.lock().unwrap().len()
    }

    /// Nothing is forwarded without its entry, once; at most one run a key, a code, an approval; one outcome a call at most, and none
    /// is missing but those of processes that died; nothing runs for a key that is revoked; an approval runs only after a yes. Strikes
    /// only grow but by a person, no turn has more than two, what the book and the store owe tell of each turn once, and no call of a
    /// turn that was ended is sent.
    fn invariants(&mut self) {
        self.turns_hold();
        let memory = &self.world.memory;
        let notes = memory.notes.lock().unwrap();
        let ran = memory.ran.lock().unwrap();
        let outcomes = memory.outcomes.lock().unwrap();
        let dead = memory.dead.lock().unwrap();
        let mut seen = BTreeSet::new();
        for note in notes.iter() {
            assert!(
                seen.insert(note.call.call_id.clone()),
                "one call entry a call"
            );
        }
        let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
        let early = notes.iter().filter_map(|note| note.outcome.as_ref());
        for outcome in early.chain(outcomes.iter().map(|(outcome, _)| outcome)) {
            *ends.entry(&outcome.call_id).or_default() += 1;
        }
        assert!(ends.values().all(|count| *count == 1), "one outcome a call");
        let unrecorded = memory.unrecorded.lock().unwrap();
        let (mut sent, mut spent, mut approved) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for call_id in ran.iter() {
            assert!(sent.insert(call_id), "sent once");
            let note = notes
                .iter()
                .find(|note| *note.call.call_id == **call_id)
                .expect("noted before it is sent");
            let ended = ends.contains_key(call_id.as_str());
            assert!(
                ended || dead.contains(call_id) || unrecorded.contains(call_id),
                "an outcome"
            );
            if note.call.purpose == Purpose::Preview {
                assert_eq!(note.call.tool, "look");
                continue;
            }
            let links = &note.call.links;
            let reached = !memory.not_sent.lock().unwrap().contains(call_id);
            if let Some(id) = links.confirmation.as_ref() {
                assert!(spent.insert(id.clone()), "one run a code");
            }
            if let Some(id) = links.approval.as_ref().filter(|_| reached) {
                assert!(approved.insert(id.clone()), "one run an approval");
            }
            match note.call.tool.as_str() {
                "open_put" => assert!(links.confirmation.is_some()),
                "own_dry" => assert!(links.approval.is_some()),
                _ => {}
            }
        }
        let mut keyed = BTreeSet::new();
        for (call_id, key) in memory.keyed.lock().unwrap().iter() {
            let reached =
                sent.contains(call_id) && !memory.not_sent.lock().unwrap().contains(call_id);
            assert!(!reached || keyed.insert(key.clone()), "one run a key, ever");
        }
        for queued in memory.approvals.lock().unwrap().iter() {
            let decided = !matches!(
                queued.row.state,
                ApprovalState::Waiting | ApprovalState::Expired | ApprovalState::Rejected
            );
            assert!(!approved.contains(&queued.row.id) || decided);
        }
    }
}

impl Life {
    fn turns_hold(&mut self) {
        let world = &self.world;
        let Some(turn) = block_on(world.turns.show("claude")).unwrap() else {
            assert_eq!(self.turns, 0);
            return;
        };
        if self.turns == 0 {
            self.turns = 1;
        }
        assert_eq!(turn.number, self.turns, "only a person opens another turn");
        assert!(turn.strikes.len() >= self.strikes && turn.strikes.len() <= 2);
        self.strikes = turn.strikes.len();
        let notes = world.memory.notes.lock().unwrap();
        let owed = block_on(world.turns.owed(jiff::Timestamp::MAX)).unwrap();
        let told = notes.iter().flat_map(|note| &note.turns).chain(&owed);
        let mut ended = BTreeMap::new();
        for fact in told {
            *ended.entry((fact.turn, fact.what)).or_insert(0) += 1;
        }
        for number in 1..=turn.number {
            // Written and not yet forgotten by the store: a crash in between.
            assert!(ended.contains_key(&(number, What::Opened)), "turn {number}");
            let closed = ended.contains_key(&(number, What::Closed));
            let failed = ended.contains_key(&(number, What::Failed));
            let over = number < turn.number;
            assert!(!(closed && failed) && (!over || closed || failed));
            assert!(over || failed == (self.strikes == 2));
        }
        let denied = |note: &Note| {
            let strike =
                |one: &DecisionNote| one.gate == "write_policy" && one.verdict == Denied::Deny;
            note.decisions.iter().any(strike)
        };
        let of = |number| {
            notes
                .iter()
                .filter(move |note| note.call.turn == Some(number))
        };
        for number in 1..=turn.number {
            let mut failed = false;
            for note in of(number) {
                assert!(
                    !failed || note.outcome.is_some(),
                    "nothing is sent after the end"
                );
                failed |= note.turns.iter().any(|fact| fact.what == What::Failed);
            }
            assert!(of(number).filter(|note| denied(note)).count() <= 2);
        }
    }
}

fn server(how: u8) -> Option<Ran> {
    let failed = |failure, forwarded| {
        Some(Ran::Failed {
            failure,
            forwarded,
            detail: String::new(),
        })
    };
    match how {
        0 => None,
        1 => Some(Ran::Result {
            body: Bytes::from_static(br#"{"content":[],"isError":true}"#),
            is_error: true,
        }),
        2 => failed(Failure::Timeout, Forwarded::Yes),
        3 => failed(Failure::Server, Forwarded::No),
        _ => failed(Failure::Cancelled, Forwarded::Yes),
    }
}

fn cases() -> u32 {
    // The test's own environment, not the gate's.
    #[allow(
        clippy::disallowed_methods,
        reason = "the test's own environment, not the gate's"
    )]
    let long = std::env::var_os("COUNTERSIGN_LONG").is_some();
    if long { 100_000 } else { 300 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_nothing_runs_twice_or_unseen(events in prop::collection::vec(event(), 1..25)) {
        let mut life = Life::new();
        for event in &events {
            life.happens(event);
            life.invariants();
        }
    }
}
