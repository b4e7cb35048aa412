//! The store as the gate uses it, by several connections and processes at once.

use std::sync::Arc;

use bytes::Bytes;
use countersign_gate::approval::{
    Approval, ApprovalState, By, DecideError, LIFE, Needs, SILENCE, Verdict,
};
use countersign_gate::bound::Bound;
use countersign_gate::confirmation::{Confirmation, ConfirmationState, Reason};
use countersign_gate::idempotency::{Stored, Twin};
use countersign_gate::ports::{End, Hold, KeyClaim, Mark, Prompt, Settle, Take, Taken, Waits};
use countersign_permission::Hash;
use jiff::{SignedDuration, Timestamp};

use super::{Seal, Serving, StateDb, Undecided};
use crate::folder::Folder;
use crate::recorder::liveness::Process;

pub(super) struct World {
    pub folder: Folder,
    pub state: StateDb,
    pub serving: Serving,
    pub process: Option<Process>,
    _temp: Option<tempfile::TempDir>,
}

impl World {
    pub fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::resolve(Some(&temp.path().join("dir"))).unwrap();
        folder.create().unwrap();
        StateDb::create(&folder).unwrap();
        Self {
            _temp: Some(temp),
            ..Self::at(folder)
        }
    }

    /// Another process of the same executor.
    pub fn other(&self) -> Self {
        Self::at(self.folder.clone())
    }

    fn at(folder: Folder) -> Self {
        let process = Process::enter(&folder.run()).unwrap();
        Self {
            state: StateDb::open(&folder).unwrap(),
            serving: Serving {
                process: process.name().to_owned(),
                run: folder.run(),
                seal: Seal::from_vault(&[7; 32]),
            },
            process: Some(process),
            folder,
            _temp: None,
        }
    }

    fn take(&self, call_id: &str, bound: &Bound) -> Taken {
        let take = Take {
            call_id,
            now: at(0),
            uses: None,
            key: Some(KeyClaim { bound, key: "k" }),
            confirmation: None,
            approval: None,
        };
        self.state.take(&take, &self.serving).unwrap()
    }

    fn settle(&self, call_id: &str, bound: &Bound, end: End) {
        let settle = Settle {
            call_id,
            now: at(0),
            key: Some(KeyClaim { bound, key: "k" }),
            approval: None,
            waits: Waits::Agent,
            end,
        };
        self.state.settle(&settle, &self.serving).unwrap();
    }

    fn twin(&self, bound: &Bound, now: Timestamp) -> Twin {
        let claim = KeyClaim { bound, key: "k" };
        self.state.twin(&claim, now, &self.serving).unwrap()
    }
}

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

pub(super) fn bound(arguments: &str) -> Bound {
    Bound {
        actor: "agent/a".into(),
        server: "s".into(),
        tool: "t".into(),
        arguments: Hash::of(arguments.as_bytes()),
    }
}

fn answer() -> Stored {
    Stored::Result {
        body: Bytes::from_static(b"{\"content\":\"a secret answer\"}"),
        is_error: false,
    }
}

#[test]
fn a_key_is_claimed_once_by_all_processes_and_answers_to_all() {
    let (one, bound) = (World::new(), bound("x"));
    let two = one.other();
    assert_eq!(one.twin(&bound, at(0)), Twin::None);
    assert_eq!(one.take("c1", &bound), Taken::All);
    assert_eq!(two.take("c2", &bound), Taken::Twin(Twin::Running));
    assert_eq!(
        two.take("c2", &self::bound("y")),
        Taken::Twin(Twin::OtherArguments)
    );
    two.settle("c2", &bound, End::NotSent);
    assert_eq!(
        two.twin(&bound, at(0)),
        Twin::Running,
        "nobody else's to settle"
    );
    one.settle("c1", &bound, End::Answered(answer()));
    assert_eq!(two.twin(&bound, at(1)), Twin::Finished(answer()));
    one.settle("c1", &bound, End::NotSent);
    assert_eq!(
        two.twin(&bound, at(1)),
        Twin::Finished(answer()),
        "settled once"
    );
}

#[test]
fn a_claim_whose_process_died_is_unknown_for_ever() {
    let (mut one, bound) = (World::new(), bound("x"));
    let two = one.other();
    assert_eq!(one.take("c1", &bound), Taken::All);
    drop(one.process.take());
    let unknown = Twin::Unknown {
        call_id: "c1".into(),
    };
    assert_eq!(two.twin(&bound, at(0)), unknown);
    assert_eq!(two.take("c2", &bound), Taken::Twin(unknown));
}

#[test]
fn a_call_that_was_not_sent_frees_its_key_and_an_unknown_one_does_not() {
    let (one, bound) = (World::new(), bound("x"));
    assert_eq!(one.take("c1", &bound), Taken::All);
    one.settle("c1", &bound, End::NotSent);
    assert_eq!(one.take("c2", &bound), Taken::All);
    one.settle("c2", &bound, End::Unknown);
    assert_eq!(
        one.twin(&bound, at(0)),
        Twin::Unknown {
            call_id: "c2".into()
        }
    );
}

#[test]
fn answers_lie_encrypted_and_go_after_a_day_while_the_key_stays() {
    let (one, bound) = (World::new(), bound("x"));
    assert_eq!(one.take("c1", &bound), Taken::All);
    one.settle("c1", &bound, End::Answered(answer()));
    for name in ["state.db", "state.db-wal"] {
        let bytes = std::fs::read(one.folder.root().join(name)).unwrap_or_default();
        assert!(!bytes.windows(8).any(|part| part == b"a secret"), "{name}");
    }
    let kept = at(24 * 3600);
    assert_eq!(
        one.twin(&bound, kept - SignedDuration::from_secs(1)),
        Twin::Finished(answer())
    );
    assert_eq!(one.twin(&bound, kept), Twin::Expired);
    let other = Bound {
        tool: "u".into(),
        ..bound.clone()
    };
    let settle = Settle {
        call_id: "c9",
        now: kept,
        key: Some(KeyClaim {
            bound: &other,
            key: "k",
        }),
        approval: None,
        waits: Waits::Agent,
        end: End::Unknown,
    };
    one.state.settle(&settle, &one.serving).unwrap();
    assert_eq!(
        one.twin(&bound, at(0)),
        Twin::Expired,
        "the answer itself is gone"
    );
}

#[test]
fn an_answer_that_cannot_be_opened_is_gone_not_given() {
    let (one, bound) = (World::new(), bound("x"));
    assert_eq!(one.take("c1", &bound), Taken::All);
    one.settle("c1", &bound, End::Answered(answer()));
    let mut two = one.other();
    two.serving.seal = Seal::from_vault(&[8; 32]);
    assert_eq!(two.twin(&bound, at(0)), Twin::Expired);
}

#[test]
fn twenty_claim_one_key_and_one_gets_it() {
    let world = World::new();
    let bound = Arc::new(bound("x"));
    let got: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..20)
            .map(|at| {
                let (other, bound) = (world.other(), Arc::clone(&bound));
                scope
                    .spawn(move || usize::from(other.take(&format!("c{at}"), &bound) == Taken::All))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(got, 1);
}

#[test]
fn a_file_of_version_1_is_made_one_of_this_version() {
    let world = World::new();
    let path = world.folder.state_db();
    drop(world.state);
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch("DROP TABLE idempotency; DROP TABLE confirmations; DROP TABLE approvals; DROP TABLE turns; DROP TABLE turn_facts; DROP TABLE approval_facts; PRAGMA user_version = 1;")
        .unwrap();
    drop(old);
    let again = World::at(world.folder.clone());
    assert_eq!(again.take("c1", &bound("x")), Taken::All);
}

fn prompted(world: &World, id: &str, bound: &Bound, replaces: Option<&str>) -> [u8; 32] {
    let mac = *Hash::of(id.as_bytes()).as_bytes();
    let confirmation = Confirmation {
        id: id.into(),
        bound: bound.clone(),
        fingerprint: "f".into(),
        state: ConfirmationState::Waiting,
        expires_at: at(600),
    };
    let prompt = Prompt {
        confirmation: &confirmation,
        mac: &mac,
        replaces,
        now: at(0),
    };
    world.state.prompt(&prompt).unwrap();
    assert_eq!(
        world.state.held_confirmation(id).unwrap(),
        Some(confirmation.clone())
    );
    assert_eq!(world.state.confirmation(&mac).unwrap(), Some(confirmation));
    mac
}

fn spend(world: &World, id: &str, now: Timestamp) -> Taken {
    let take = Take {
        call_id: "c",
        now,
        uses: None,
        key: None,
        confirmation: Some(id),
        approval: None,
    };
    world.state.take(&take, &world.serving).unwrap()
}

#[test]
fn r92_twenty_redeem_one_code_and_one_runs() {
    let (world, bound) = (World::new(), bound("x"));
    prompted(&world, "a", &bound, None);
    let spent: Vec<Taken> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..20)
            .map(|_| {
                let other = world.other();
                scope.spawn(move || spend(&other, "a", at(1)))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let all = spent.iter().filter(|taken| **taken == Taken::All).count();
    let used = spent
        .iter()
        .filter(|taken| **taken == Taken::Confirmation(Reason::Used))
        .count();
    assert_eq!((all, used), (1, 19));
}

#[test]
fn r90_what_is_over_is_not_spent_and_nothing_else_of_the_take_holds() {
    let (world, bound) = (World::new(), bound("x"));
    let old = prompted(&world, "a", &bound, None);
    let new = prompted(&world, "b", &bound, Some("a"));
    assert_eq!(
        spend(&world, "a", at(1)),
        Taken::Confirmation(Reason::Expired)
    );
    assert_eq!(
        spend(&world, "b", at(600)),
        Taken::Confirmation(Reason::Expired)
    );
    assert_eq!(
        spend(&world, "z", at(1)),
        Taken::Confirmation(Reason::Invalid)
    );
    let take = Take {
        call_id: "c1",
        now: at(1),
        uses: None,
        key: Some(KeyClaim {
            bound: &bound,
            key: "k",
        }),
        confirmation: Some("a"),
        approval: None,
    };
    let taken = world.state.take(&take, &world.serving).unwrap();
    assert_eq!(taken, Taken::Confirmation(Reason::Expired));
    assert_eq!(
        world.twin(&bound, at(1)),
        Twin::None,
        "the key was not claimed either"
    );
    for _ in 0..4 {
        world.state.wrong_code(&bound, at(1)).unwrap();
    }
    let state = |mac| world.state.confirmation(mac).unwrap().unwrap().state;
    assert_eq!(state(&new), ConfirmationState::Waiting);
    world.state.wrong_code(&bound, at(1)).unwrap();
    assert_eq!(state(&new), ConfirmationState::Expired);
    assert_eq!(state(&old), ConfirmationState::Expired);
}

fn held(world: &World, id: &str, bound: &Bound, needs: Needs) -> Approval {
    let approval = Approval {
        id: id.into(),
        bound: bound.clone(),
        definition: Hash::of(b"d"),
        fingerprint: "f".into(),
        needs,
        state: ApprovalState::Waiting,
        expires_at: at(0) + LIFE,
        call_id: None,
        answer: None,
    };
    let hold = Hold {
        approval: &approval,
        arguments: br#"{"text":"a secret argument"}"#,
        preview: br#"{"kind":"reads"}"#,
        now: at(0),
    };
    world.state.hold(&hold, &world.serving).unwrap()
}

fn run(world: &World, id: &str, call_id: &str, now: Timestamp) -> Taken {
    let take = Take {
        call_id,
        now,
        uses: None,
        key: None,
        confirmation: None,
        approval: Some(id),
    };
    world.state.take(&take, &world.serving).unwrap()
}

fn end(world: &World, id: &str, call_id: &str, waits: Waits, end: End) {
    let settle = Settle {
        call_id,
        now: at(9),
        key: None,
        approval: Some(id),
        waits,
        end,
    };
    world.state.settle(&settle, &world.serving).unwrap();
}

fn approve(world: &World, id: &str, now: Timestamp) -> Result<ApprovalState, Undecided> {
    world
        .state
        .decide(id, Verdict::Approve, (&By::Person, "test"), now)
}

fn stands(world: &World, id: &str, now: Timestamp) -> ApprovalState {
    let found = world.state.approval(id, now, &world.serving).unwrap();
    found.unwrap().state
}

#[test]
fn apr_twenty_run_one_approval_and_one_does() {
    let (world, bound) = (World::new(), bound("x"));
    assert_eq!(held(&world, "a", &bound, Needs::Person).id, "a".into());
    assert_eq!(
        held(&world.other(), "b", &bound, Needs::Person).id,
        "a".into(),
        "asked once by all processes"
    );
    assert_eq!(
        run(&world, "a", "c", at(1)),
        Taken::Approval(Some(ApprovalState::Waiting))
    );
    approve(&world, "a", at(1)).unwrap();
    let ran: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..20)
            .map(|n| {
                let other = world.other();
                scope.spawn(move || {
                    let taken = run(&other, "a", &format!("c{n}"), at(2));
                    // The process lives on, so that what it runs is not interrupted.
                    std::mem::forget(other);
                    usize::from(taken == Taken::All)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(ran, 1);
    assert_eq!(stands(&world, "a", at(3)), ApprovalState::Running);
}

#[test]
fn apr_a_run_ends_with_its_answer_for_whoever_asks_again() {
    let (world, bound) = (World::new(), bound("x"));
    held(&world, "a", &bound, Needs::Person);
    approve(&world, "a", at(1)).unwrap();
    assert_eq!(run(&world, "a", "c1", at(2)), Taken::All);
    end(&world, "a", "c2", Waits::Agent, End::Unknown);
    assert_eq!(
        stands(&world, "a", at(3)),
        ApprovalState::Running,
        "nobody else's to settle"
    );
    end(&world, "a", "c1", Waits::Agent, End::NotSent);
    assert_eq!(stands(&world, "a", at(3)), ApprovalState::Approved);
    assert_eq!(run(&world, "a", "c3", at(4)), Taken::All);
    end(&world, "a", "c3", Waits::Nobody, End::Answered(answer()));
    let meaning = |world: &World| {
        world
            .state
            .approval_for(&bound, at(5), &world.serving)
            .unwrap()
    };
    let found = meaning(&world.other()).unwrap();
    assert_eq!(
        (found.state, found.answer),
        (ApprovalState::Done, Some(answer()))
    );
    world.state.mark("a", Mark::Delivered, at(5)).unwrap();
    assert_eq!(meaning(&world), None, "the same call is a new one");
}

#[test]
fn apr_time_silence_and_death_end_it_and_the_sweep_writes_that_down() {
    let (mut world, bound) = (World::new(), bound("x"));
    let watcher = world.other();
    let alive = |process: &str| watcher.serving.owner(process);
    held(&world, "a", &bound, Needs::Person);
    let over = at(0) + LIFE;
    assert_eq!(stands(&world, "a", over), ApprovalState::Expired);
    assert!(matches!(
        approve(&world, "a", over),
        Err(Undecided::Rule(DecideError::NotWaiting(
            ApprovalState::Expired
        )))
    ));
    approve(&world, "a", at(1)).unwrap();
    assert_eq!(run(&world, "a", "c1", at(2)), Taken::All);
    let silent = at(2) + SILENCE + SignedDuration::from_secs(1);
    assert_eq!(stands(&world, "a", silent), ApprovalState::Failed);
    world.state.heartbeat_of("another", at(800)).unwrap();
    assert_eq!(stands(&world, "a", silent), ApprovalState::Failed);
    world.state.heartbeat_of("c1", at(600)).unwrap();
    assert_eq!(
        stands(&world, "a", silent),
        ApprovalState::Running,
        "edge 16"
    );
    assert_eq!(watcher.state.sweep_approvals(silent, &alive).unwrap(), 0);
    drop(world.process.take());
    assert_eq!(watcher.state.sweep_approvals(at(601), &alive).unwrap(), 1);
    end(&world, "a", "c1", Waits::Agent, End::Answered(answer()));
    assert_eq!(
        stands(&watcher, "a", at(602)),
        ApprovalState::Failed,
        "swept is swept"
    );
}

#[test]
fn apr_what_is_held_lies_encrypted_and_a_passkeys_yes_is_not_taken() {
    let (world, bound) = (World::new(), bound("x"));
    held(&world, "a", &bound, Needs::Passkey);
    for name in ["state.db", "state.db-wal"] {
        let bytes = std::fs::read(world.folder.root().join(name)).unwrap_or_default();
        assert!(!bytes.windows(8).any(|part| part == b"a secret"), "{name}");
    }
    let opened = world
        .state
        .open_approval("a", &world.serving.seal)
        .unwrap()
        .unwrap();
    assert!(opened.arguments.starts_with(br#"{"text":"a secret"#));
    assert!(
        world
            .state
            .open_approval("a", &Seal::from_vault(&[8; 32]))
            .is_err()
    );
    assert!(matches!(
        approve(&world, "a", at(1)),
        Err(Undecided::Rule(DecideError::NeedsPasskey))
    ));
    assert!(matches!(
        approve(&world, "z", at(1)),
        Err(Undecided::Unknown(_))
    ));
    let alive = |process: &str| world.serving.owner(process);
    let listed = world.state.approvals(at(1), 10, &alive).unwrap();
    assert_eq!(listed.len(), 1);
    world
        .state
        .decide("a", Verdict::Decline, (&By::Person, "test"), at(1))
        .unwrap();
    world.state.mark("a", Mark::Withdrawn, at(1)).unwrap();
    assert_eq!(stands(&world, "a", at(1)), ApprovalState::Rejected);
}
