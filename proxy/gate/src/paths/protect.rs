//! Step 7, protect: the executor's own files are written by no tool, and what holds its secrets, vault and store is read by none,
//! whatever the mode. Judges paths and commands; the agent's own policy is step 8's.

use serde_json::{Map, Value};

use super::declared::{Declared, Effect, pick, strings};
use super::place::{Place, Written, fold};
use super::port::{FileId, Files, Found, Style};
use super::resolve::{Resolved, resolve};
use super::spelling::{Unclear, readings};
use crate::json;
use crate::ports::{DecisionNote, Verdict};
use crate::refusal::{Code, Refusal};
use crate::shell::{self, Command};

/// A folder of ours (or a single file) with what may not even be read below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Whose it is, for the sentence: `the executor`, `the app's settings`.
    pub whose: &'static str,
    /// Its absolute path, links and all.
    pub root: String,
    /// What is closed for reads too.
    pub closed: Closed,
}

/// What of a holding is closed for reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// All of it.
    All,
    /// Names below the root, `/` between them. A last name that ends with `*` closes every name that begins so; what is closed is
    /// closed with all below it. `["secrets.enc*", "state.db*", "book/vault"]`
    Below(Vec<String>),
}

/// What an executor's folder closes for reads: secrets, vault, store, sockets, the clients' old configurations.
pub const EXECUTOR_CLOSED: [&str; 7] = [
    "secrets*",
    "state.db*",
    "buckets.db*",
    "index.db*",
    "book/vault",
    "run",
    "backups",
];

/// The gate of decisions that keep the executor's own files.
pub const PROTECT_GATE: &str = "evidence_protection";

/// Bytes of a path that some system still opens as it is written; a longer one means something only to who shortens it first.
const LONGEST_PATH: usize = 64 * 1024;

/// Entries looked through for a second name of a file before it counts as ours.
const MOST_NAMES: usize = 100_000;

/// What step 7 needs for one call.
#[derive(Clone, Copy)]
pub struct Protect<'a> {
    /// The disk.
    pub files: &'a dyn Files,
    /// What is protected.
    pub holdings: &'a [Holding],
    /// The absolute folders a relative path may be taken from: the agent's workspace, the server's working folder.
    pub bases: &'a [String],
    /// The tool's declared arguments; where there is none, every string is looked at.
    pub declared: &'a [Declared],
    /// What the tool may do at an undeclared string.
    pub effect: Effect,
}

/// A call that reaches into what is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trespass {
    /// The argument, as an exact JSON Pointer.
    pub pointer: String,
    /// What was written there; of a command, the word.
    pub written: String,
    /// What it reaches.
    pub reaches: Reaches,
}

/// What a protected path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reaches {
    /// Somebody's files, see [`Holding::whose`].
    Holding(&'static str),
    /// A running program's memory, environment or open files.
    Process,
    /// It cannot be told where it leads, which counts as protected; with the reason.
    Unknown(String),
}

impl Protect<'_> {
    /// Looks at checked arguments.
    ///
    /// # Errors
    /// The first argument that reaches what is protected.
    pub fn check(&self, arguments: &[u8]) -> Result<(), Box<Trespass>> {
        let eyes = Eyes::new(*self);
        if self.declared.is_empty() {
            for (pointer, text) in strings(arguments) {
                eyes.undeclared(&text)
                    .map_err(|(written, reaches)| trespass(&pointer, written, reaches))?;
            }
            return Ok(());
        }
        let command = Command::of(self.declared, arguments);
        let folders: Vec<Place> = self
            .each(arguments, Effect::Folder)
            .filter_map(|(_, text)| eyes.places(&text).into_iter().next())
            .collect();
        for declared in self.declared {
            if declared.effect == Effect::Command {
                continue;
            }
            for picked in pick(arguments, &declared.pointer) {
                for (_, text) in strings(picked.value) {
                    eyes.declared(&text, declared.effect)
                        .map_err(|reaches| trespass(&picked.pointer, text, reaches))?;
                }
            }
        }
        if let Some(command) = command {
            let mut eyes = eyes;
            if !folders.is_empty() {
                eyes.bases = folders;
            }
            shell::trespass(&eyes, &command)
                .map_err(|(word, reaches)| trespass(&command.pointer, word, reaches))?;
        }
        Ok(())
    }

    fn each<'b>(
        &'b self,
        arguments: &'b [u8],
        effect: Effect,
    ) -> impl Iterator<Item = (String, String)> + 'b {
        self.declared
            .iter()
            .filter(move |declared| declared.effect == effect)
            .flat_map(|declared| pick(arguments, &declared.pointer))
            .filter_map(|picked| Some((picked.pointer, json::decode(picked.value)?.into_owned())))
    }
}

impl Trespass {
    /// The answer: `protected_path`, step 7. Never says where a link leads.
    #[must_use]
    pub fn refusal(&self, tool: &str) -> Refusal {
        let shown = super::shown(&self.written);
        let (why, next) = match &self.reaches {
            Reaches::Holding(whose) => (
                format!("`{shown}` belongs to {whose}, which no tool may touch"),
                "Leave that path alone and work on other files. If you want to know what was recorded, ask the person to look in the app.",
            ),
            Reaches::Process => (
                format!(
                    "`{shown}` shows the inside of a running program, which no tool may look at"
                ),
                "Leave that path alone. If you need a setting or a value, ask the person for it.",
            ),
            Reaches::Unknown(reason) => (
                format!(
                    "it cannot be told where `{shown}` leads ({reason}), so it counts as protected"
                ),
                "Write the path plainly, as an absolute path without links and without `~`, and call again.",
            ),
        };
        let sentence = format!("`{tool}` was not run: {why}.");
        Refusal::new(Code::ProtectedPath, 7, sentence, next)
            .with("tool", tool.into())
            .with("rule", "evidence_protection".into())
            .with("pointer", self.pointer.clone().into())
            .with("path", Value::from(shown))
    }

    /// The `decision` entry. Not a strike, and never in `write_denials`.
    #[must_use]
    pub fn note(&self) -> DecisionNote {
        let rule = match &self.reaches {
            Reaches::Holding(_) => "protected_path",
            Reaches::Process => "process_files",
            Reaches::Unknown(_) => "path_not_inspectable",
        };
        DecisionNote {
            gate: PROTECT_GATE,
            rule: rule.to_string(),
            verdict: Verdict::Deny,
            policy: None,
            aim: Some(super::shown(&self.written)),
            bounds: Map::new(),
        }
    }
}

fn trespass(pointer: &str, written: String, reaches: Reaches) -> Box<Trespass> {
    Box::new(Trespass {
        pointer: pointer.to_string(),
        written,
        reaches,
    })
}

/// Sees where paths lead, for one call.
pub(crate) struct Eyes<'a> {
    protect: Protect<'a>,
    pub bases: Vec<Place>,
    holdings: Vec<Held<'a>>,
}

/// A holding and where it really is.
struct Held<'a> {
    holding: &'a Holding,
    /// By text, and followed through its links; one of them where they are the same.
    places: Vec<Place>,
    id: Option<FileId>,
    /// It cannot be told where it is: then nothing can be shown to lie outside.
    lost: bool,
}

/// How a path stands to a holding.
enum Stands<'a> {
    /// At or below it: the names from its root.
    Inside(Vec<String>, &'a Held<'a>),
    /// Above it.
    Above(&'a Held<'a>),
}

impl<'a> Eyes<'a> {
    pub fn new(protect: Protect<'a>) -> Self {
        let style = protect.files.style();
        let bases = protect.bases.iter();
        let holdings = protect.holdings.iter();
        Self {
            protect,
            bases: bases.filter_map(|base| Place::parse(base, style)).collect(),
            holdings: holdings
                .map(|holding| Held::find(holding, protect.files))
                .collect(),
        }
    }

    pub fn files(&self) -> &'a dyn Files {
        self.protect.files
    }

    /// Where a text may lead, as far as it can be told.
    pub fn places(&self, text: &str) -> Vec<Place> {
        let all = readings(text, &self.bases, self.files()).all;
        all.iter()
            .filter_map(|written| Some(resolve(written, self.files()).ok()?.place))
            .collect()
    }

    fn declared(&self, text: &str, effect: Effect) -> Result<(), Reaches> {
        let read = readings(text, &self.bases, self.files());
        match read.unclear {
            None | Some(Unclear::Empty) => {}
            Some(unclear) => return Err(Reaches::Unknown(unclear.to_string())),
        }
        let effect = match effect {
            Effect::Folder => Effect::Create,
            effect => effect,
        };
        read.all
            .iter()
            .try_for_each(|written| self.look(written, effect))
    }

    fn undeclared(&self, text: &str) -> Result<(), (String, Reaches)> {
        let effect = match self.protect.effect {
            // Any string may stand in such a call, `/` too: what lies above a holding is no reason to refuse it.
            Effect::Write => Effect::Create,
            effect => effect,
        };
        let read = readings(text, &self.bases, self.files());
        if let Some(unclear @ Unclear::Device) = read.unclear {
            return Err((text.to_string(), Reaches::Unknown(unclear.to_string())));
        }
        read.all
            .iter()
            .try_for_each(|written| self.look(written, effect))
            .map_err(|reaches| (text.to_string(), reaches))
    }

    /// One reading, as the system follows it and as programs that normalise first do.
    fn look(&self, written: &Written, effect: Effect) -> Result<(), Reaches> {
        let long = written.length() > LONGEST_PATH;
        if !long {
            self.follow(written, effect)?;
        }
        if long || written.climbs() {
            self.follow(&written.lexical().written(), effect)?;
        }
        Ok(())
    }

    fn follow(&self, written: &Written, effect: Effect) -> Result<(), Reaches> {
        let resolved = match resolve(written, self.files()) {
            Ok(resolved) => resolved,
            Err(error) => return Err(self.unreadable(written, error.reason())),
        };
        if self.files().style() == Style::Unix
            && (is_process(&resolved.place) || resolved.through.iter().any(is_process))
        {
            return Err(Reaches::Process);
        }
        if let Some(held) = self.holdings.iter().find(|held| held.lost) {
            let reason = format!(
                "where {} keeps its files cannot be told",
                held.holding.whose
            );
            return Err(Reaches::Unknown(reason));
        }
        for stands in self.stands(&resolved) {
            match (stands, effect) {
                (Stands::Inside(names, held), Effect::Read) if !held.closes(&names) => {}
                (Stands::Inside(_, held), _) | (Stands::Above(held), Effect::Write) => {
                    return Err(Reaches::Holding(held.holding.whose));
                }
                (Stands::Above(_), _) => {}
            }
        }
        self.second_name(&resolved, effect)
    }

    /// A path that cannot be followed: of the process files by name, else unknown.
    fn unreadable(&self, written: &Written, reason: String) -> Reaches {
        if self.files().style() == Style::Unix && is_process(&written.lexical()) {
            return Reaches::Process;
        }
        Reaches::Unknown(reason)
    }

    fn stands(&self, resolved: &Resolved) -> impl Iterator<Item = Stands<'_>> {
        let place = resolved.place.clone();
        let ids = resolved.ids.clone();
        self.holdings
            .iter()
            .filter_map(move |held| held.stands(&place, &ids))
    }

    /// Another name (hard link) of a file of ours.
    fn second_name(&self, resolved: &Resolved, effect: Effect) -> Result<(), Reaches> {
        let Some(look) = &resolved.look else {
            return Ok(());
        };
        let (Found::File, Some(id), 2..) = (&look.found, look.id, look.names) else {
            return Ok(());
        };
        for held in &self.holdings {
            for root in &held.places {
                let below = self.files().below(&root.text(), MOST_NAMES);
                let same = below
                    .entries
                    .iter()
                    .find(|(_, look)| look.id == Some(id))
                    .map(|(names, _)| names);
                let hit = same.is_some_and(|names| effect != Effect::Read || held.closes(names));
                if hit || !below.whole {
                    return Err(Reaches::Holding(held.holding.whose));
                }
            }
        }
        Ok(())
    }

    /// What a word of a command reaches, read or written; for [`crate::shell`].
    pub fn word(&self, word: &str, effect: Effect) -> Result<(), Reaches> {
        let read = readings(word, &self.bases, self.files());
        read.all
            .iter()
            .try_for_each(|written| self.look(written, effect))
    }

    /// Whose holding lies at, below or above the path.
    pub fn contains_holding(&self, word: &str) -> Option<&'static str> {
        let read = readings(word, &self.bases, self.files());
        read.all
            .iter()
            .find_map(|written| match resolve(written, self.files()) {
                Ok(resolved) => self.stands(&resolved).next().map(|stands| match stands {
                    Stands::Inside(_, held) | Stands::Above(held) => held.holding.whose,
                }),
                Err(_) => self.holdings.first().map(|held| held.holding.whose),
            })
    }

    /// The holdings' places with their owner, for words with wildcards and for mentions.
    pub fn holding_places(&self) -> impl Iterator<Item = (&Place, &'static str)> {
        self.holdings
            .iter()
            .flat_map(|held| held.places.iter().map(|place| (place, held.holding.whose)))
    }
}

impl<'a> Held<'a> {
    fn find(holding: &'a Holding, files: &dyn Files) -> Self {
        let Some(place) = Place::parse(&holding.root, files.style()) else {
            return Self {
                holding,
                places: Vec::new(),
                id: None,
                lost: true,
            };
        };
        match resolve(&place.written(), files) {
            Ok(resolved) => {
                let id = resolved.look.and_then(|look| look.id);
                let mut places = vec![place];
                if !places.contains(&resolved.place) {
                    places.push(resolved.place);
                }
                Self {
                    holding,
                    places,
                    id,
                    lost: false,
                }
            }
            Err(_) => Self {
                holding,
                places: vec![place],
                id: None,
                lost: true,
            },
        }
    }

    fn stands(&self, place: &Place, ids: &[Option<FileId>]) -> Option<Stands<'_>> {
        if let Some(id) = self.id
            && let Some(at) = ids.iter().position(|other| *other == Some(id))
        {
            return Some(Stands::Inside(place.names[at..].to_vec(), self));
        }
        for root in &self.places {
            // Names are compared exactly where identities tell folders apart, else without case.
            let inside = match self.id {
                Some(_) => place.after(root),
                None => place.after_folded(root),
            };
            if let Some(names) = inside {
                return Some(Stands::Inside(names.to_vec(), self));
            }
            if root.after_folded(place).is_some() {
                return Some(Stands::Above(self));
            }
        }
        None
    }

    fn closes(&self, names: &[String]) -> bool {
        let Closed::Below(closed) = &self.holding.closed else {
            return true;
        };
        closed.iter().any(|rule| {
            let rule: Vec<&str> = rule.split('/').collect();
            rule.len() <= names.len()
                && rule.iter().zip(names).all(|(rule, name)| {
                    let name = fold(name);
                    match rule.strip_suffix('*') {
                        Some(start) => name.starts_with(start),
                        None => name == *rule,
                    }
                })
        })
    }
}

/// `/proc/<any>/environ` and its like, and the devices that are memory or open files.
fn is_process(place: &Place) -> bool {
    const INSIDE: [&str; 12] = [
        "environ",
        "mem",
        "fd",
        "fdinfo",
        "maps",
        "smaps",
        "map_files",
        "pagemap",
        "root",
        "cwd",
        "auxv",
        "stack",
    ];
    let names: Vec<&str> = place.names.iter().map(String::as_str).collect();
    match names.as_slice() {
        ["proc", "kcore" | "kmem", ..] | ["dev", "mem" | "kmem" | "fd" | "port", ..] => true,
        ["proc", _, rest @ ..] => rest.iter().any(|name| INSIDE.contains(name)),
        _ => false,
    }
}
