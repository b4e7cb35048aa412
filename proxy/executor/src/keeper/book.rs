//! What a running executor writes into the book besides calls: tool definitions as shown, settings found changed, counts of early
//! refusals. Owns the wording of these entries; refuses to know how they are written.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use countersign_book::{self as entries, Count, Draft};
use countersign_gate::Facts;
use countersign_gate::catalog::Catalog;
use countersign_gate::idempotency::Owner;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::folder::{Folder, read_own, replace};
use crate::recorder::liveness::{Process, is_alive};
use crate::recorder::{Chore, Chores, Moment, Recorder};
use crate::settings::authors;
use crate::store::{RefusalCount, SharedStore};

/// What this process has recorded of a server's tools, so that nothing is recorded twice in a row.
#[derive(Default)]
pub struct Recorded {
    shown: Option<entries::Hash>,
    odd: BTreeSet<(String, entries::Hash)>,
}

impl Recorded {
    /// Queues `catalog` entries for what is new: the list as shown, tools that differ from their pin, tools set aside.
    pub fn note(
        &mut self,
        recorder: &Recorder,
        agent: &str,
        server: &str,
        catalog: &Catalog,
        facts: &Facts,
    ) {
        let mut drafts = Vec::new();
        let entry = |change, hash, tool: Option<&str>, why: Option<String>| entries::Catalog {
            agent: Some(agent.to_owned()),
            change,
            hash,
            server: server.to_owned(),
            tool: tool.map(crate::commands::plain),
            tools: None,
            why,
        };
        if !catalog.tools.is_empty() {
            let mut list = Sha256::new();
            for tool in &catalog.tools {
                list.update(tool.definition.as_bytes());
            }
            let hash = entries::Hash(list.finalize().into());
            if self.shown != Some(hash) {
                self.shown = Some(hash);
                let tools = Some(Count(catalog.tools.len() as u64));
                drafts.push(Draft::new(entries::Catalog {
                    tools,
                    ..entry(entries::Change::Shown, hash, None, None)
                }));
            }
        }
        let pins = facts.first_seen.get(server);
        for tool in &catalog.tools {
            let pin = pins.and_then(|pins| pins.get(&*tool.name));
            let hash = entries::Hash(*tool.definition.as_bytes());
            if pin.is_some_and(|pin| *pin != tool.definition)
                && self.odd.insert((tool.name.to_string(), hash))
            {
                let why = "differs from the definition that was pinned".to_owned();
                drafts.push(Draft::new(entry(
                    entries::Change::Changed,
                    hash,
                    Some(&tool.name),
                    Some(why),
                )));
                tracing::warn!(
                    server,
                    tool = &*tool.name,
                    "the tool's definition has changed; it is closed until the person accepts it (`countersign server check {server} --accept`)"
                );
            }
        }
        for aside in &catalog.set_aside {
            let why = format!("{} (at `{}`)", aside.reason, aside.pointer);
            let hash = entries::Hash(Sha256::digest(format!("{}\0{why}", aside.tool)).into());
            if self.odd.insert((aside.tool.clone(), hash)) {
                drafts.push(Draft::new(entry(
                    entries::Change::SetAside,
                    hash,
                    Some(&aside.tool),
                    Some(crate::commands::plain(&why)),
                )));
                tracing::warn!(server, "{aside}");
            }
        }
        if !drafts.is_empty() {
            queue(recorder, drafts);
        }
    }
}

/// Queues entries nobody waits for; where the book does not take them, calls are refused anyway and say so.
fn queue(recorder: &Recorder, drafts: Vec<Draft>) {
    if let Err(stopped) = recorder.queue(drafts, 0) {
        tracing::error!(reason = %stopped, "an entry could not be queued");
    }
}

/// Queues a `settings` entry when executor.json is not the one that was recorded last.
pub fn note_settings(recorder: &Recorder, folder: &Folder) {
    if let Some(chore) = settings_changed(folder, Duration::from_millis(500)) {
        queue(recorder, chore.drafts);
        (chore.done)();
    }
}

/// The chores of a running process: counts of early refusals, minute by minute, settings found changed, approvals that are over,
/// turns of processes that ended.
pub fn chores(folder: &Folder, store: &Arc<SharedStore>, process: &Arc<Process>) -> Chores {
    let (folder, store, process) = (folder.clone(), Arc::clone(store), process.name().to_owned());
    Box::new(move |moment| {
        let mut chores = Vec::new();
        chores.extend(settings_changed(&folder, Duration::ZERO));
        let now = Timestamp::now();
        chores.extend(super::owed::chore(&folder, &store, now));
        // The last minute is over for a process that ends.
        let until = if moment == Moment::Ending {
            now.as_millisecond() + 60_000
        } else {
            now.as_millisecond()
        };
        let owner = |process: &str| match is_alive(&folder.run(), process) {
            true => Owner::Alive,
            false => Owner::Gone,
        };
        if let Err(error) = store.state.sweep_approvals(now, &owner) {
            tracing::warn!(%error, "approvals that are over cannot be swept");
        }
        match store
            .buckets
            .claim_refusals(&process, until, |name| !is_alive(&folder.run(), name))
        {
            Ok(counts) if counts.is_empty() => {}
            Ok(counts) => {
                let store = Arc::clone(&store);
                let drafts = refusals(&counts);
                chores.push(Chore {
                    drafts,
                    done: Box::new(move || {
                        if let Err(error) = store.buckets.settle(&counts) {
                            tracing::warn!(%error, "recorded refusals may be recorded again");
                        }
                    }),
                });
            }
            Err(error) => tracing::warn!(%error, "the counts of refusals cannot be read"),
        }
        chores
    })
}

/// One `refusals` entry for each agent and minute.
fn refusals(counts: &[RefusalCount]) -> Vec<Draft> {
    let mut grouped: BTreeMap<(Option<&str>, i64), Vec<entries::RefusalCount>> = BTreeMap::new();
    for count in counts {
        let row = entries::RefusalCount {
            code: count.code.clone(),
            n: Count(count.count),
        };
        grouped
            .entry((count.agent.as_deref(), count.minute))
            .or_default()
            .push(row);
    }
    let draft = |((agent, minute), counts): ((Option<&str>, i64), Vec<entries::RefusalCount>)| {
        let minute = Timestamp::from_second(minute.saturating_mul(60)).unwrap_or_default();
        Draft::new(entries::Refusals {
            agent: agent.map(str::to_owned),
            counts,
            minute: minute.strftime("%Y-%m-%dT%H:%MZ").to_string(),
        })
    };
    grouped.into_iter().map(draft).collect()
}

/// A `settings` entry when executor.json is not the one that was recorded last. What was recorded last is remembered in
/// `run/settings.sha256`; where that is lost the entry is written once more, which says nothing wrong.
fn settings_changed(folder: &Folder, wait: Duration) -> Option<Chore> {
    let remembered = folder.run().join("settings.sha256");
    let is_new = || {
        let (bytes, _) = read_own(&folder.settings(), 8 << 20).ok()?;
        let text = authors::digest(&bytes);
        let last = read_own(&remembered, 256).ok();
        let last = last.and_then(|(bytes, _)| String::from_utf8(bytes).ok());
        (last.as_ref() != Some(&text)).then_some((bytes, text, last))
    };
    is_new()?;
    // One process of several records it; the others wait for that or, where it takes long, look again with the next chores.
    let lock = folder.lock("settings.record.lock", wait).ok()?;
    let (bytes, text, last) = is_new()?;
    let draft = Draft::new(entries::Settings {
        by: authors::authors(folder, last.as_deref(), &text),
        hash: entries::Hash(Sha256::digest(bytes).into()),
    });
    Some(Chore {
        drafts: vec![draft],
        done: Box::new(move || {
            if let Err(error) = replace(&remembered, text.as_bytes()) {
                tracing::warn!(%error, "the settings may be recorded again");
            }
            drop(lock);
        }),
    })
}
