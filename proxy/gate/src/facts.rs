//! One settings generation as the flow sees it: an immutable, checked snapshot. Made from executor.json by the executor, which
//! keeps the file; nothing here is read again during a request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use countersign_permission::{
    Approval, ArgumentLimit, CallLimits, Danger, Development, Hash, Kind, Mode, Permission,
    Validation,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use crate::paths::Declared;
use crate::policy::Policy;
use crate::price::{Cost, MAX_FORMULA_PRICE};
use crate::rate::{BucketSize, Buckets};
use crate::request::Audience;

/// The executor's own tool: describes the calling key. No scope; every authenticated key may call it.
pub const WHOAMI: &str = "countersign_whoami";

/// The executor's own tool: how a held call of the calling key stands.
pub const APPROVAL: &str = "countersign_approval";

/// The executor's own tool: the calling key's turn.
pub const TURN: &str = "countersign_turn";

/// Names no server's tool may have.
pub const OWN_TOOLS: [&str; 3] = [WHOAMI, APPROVAL, TURN];

/// One settings generation.
#[derive(Clone, Debug)]
pub struct Facts(Arc<Parts>);

/// What [`Facts`] are made of.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Counts up with every change of the settings.
    pub generation: u64,
    /// The executor.
    pub executor: ExecutorFacts,
    /// `false`: every call answers `503 api_disabled`.
    pub enabled: bool,
    /// `true`: every call answers `503 maintenance`.
    pub maintenance: bool,
    /// In the order of executor.json.
    pub servers: Vec<ServerFacts>,
    /// By name.
    pub agents: BTreeMap<String, Arc<AgentFacts>>,
    /// Tool names (the server's own, or `server__tool`) that do not exist.
    pub disabled_tools: DisabledList,
    /// Servers whose tools do not exist.
    pub disabled_servers: DisabledList,
    /// Servers through which a person's own session may write. [`DisabledList::Unreadable`]: none.
    pub person_write_servers: DisabledList,
    /// Bucket sizes.
    pub buckets: Buckets,
    /// The definition the executor saw first of each tool, by server and tool: what the development permission pins. The executor
    /// keeps them and adds a tool here when it vets a list; a tool that is not here answers `definition_changed` (not vetted yet).
    pub first_seen: Arc<FirstSeen>,
}

/// First-seen definition hashes, by server, then tool.
pub type FirstSeen = BTreeMap<String, BTreeMap<String, Hash>>;

/// The executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorFacts {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whether it was made with `--development`.
    pub development: Development,
    /// Whether it was started with `--dry-run`: every write ends with its preview.
    pub dry_run: bool,
    /// How long an agent's request is held for the person before it is answered `pending_approval`.
    pub hold: SignedDuration,
}

/// Default of [`ExecutorFacts::hold`].
pub const HOLD: SignedDuration = SignedDuration::from_secs(45);

/// A list that switches things off, or that it could not be read (then nothing exists).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisabledList {
    /// As written.
    Names(BTreeSet<String>),
    /// Malformed: fail closed.
    Unreadable,
}

impl DisabledList {
    /// Whether `name` is switched off.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Names(names) => names.contains(name),
            Self::Unreadable => true,
        }
    }
}

/// One server of executor.json.
#[derive(Clone, Debug)]
pub struct ServerFacts {
    /// Its name.
    pub name: Arc<str>,
    /// Its switch.
    pub enabled: bool,
    /// The absolute folder it runs in: where it takes relative paths from. `None` where that is not known.
    pub cwd: Option<String>,
    /// Settings by tool name, exactly as the server names it.
    pub tools: BTreeMap<String, ToolSettings>,
}

/// The effective settings of one tool (presets applied). [`ToolSettings::default`] is what a tool without settings has: a write.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSettings {
    /// Not exactly `read` is a write.
    pub kind: Kind,
    /// Does not exist for agents.
    pub hidden: bool,
    /// The scope it needs; `None` = `<server>:read` or `<server>:write`.
    pub scope: Option<String>,
    /// When a call needs a second step.
    pub danger: Danger,
    /// Who must say yes to a dangerous call.
    pub approval: Approval,
    /// The arguments that are paths or commands, and what the tool does there. None: every text may be a path.
    pub paths: Vec<Declared>,
    /// How a call is previewed; `None`: by its arguments alone.
    pub preview: Option<Preview>,
    /// How often.
    pub limits: CallLimits,
    /// With which arguments.
    pub arguments: Vec<ArgumentLimit>,
    /// Longest list directly in the arguments.
    pub max_items: Option<u64>,
    /// Largest arguments in bytes.
    pub max_bytes: u64,
    /// Its price, where it is not the formula's.
    pub cost: Option<Cost>,
    /// Whether an answer may be replayed for the same `idempotency_key`.
    pub replay: bool,
    /// How strictly arguments are held to the schema.
    pub validation: Validation,
    /// Leaves the root of the schema as the server declared it.
    pub open_arguments: bool,
    /// Needs a fresh copy of the book (this version cannot hold that and refuses the tool's calls).
    pub require_copy: bool,
    /// Whom it is for.
    pub audience: Audience,
    /// Public tools: the argument (a member of the root) that names the caller's own bucket.
    pub client_token: Option<String>,
}

/// How a call is previewed.
#[derive(Clone, Debug, PartialEq)]
pub enum Preview {
    /// By the tool itself, with its own dry-run argument.
    Argument {
        /// Where in the arguments: the name of a member of the root, as a JSON Pointer.
        pointer: String,
        /// The value that means a dry run.
        value: Value,
    },
    /// By reads of the same server, whose answers are the current values.
    Reads {
        /// The reads, in order.
        reads: Vec<PreviewRead>,
        /// Where in the arguments the new text is that the first read's is compared with.
        new: Option<String>,
    },
}

/// One read of a preview.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PreviewRead {
    /// The read tool, as the server names it.
    pub tool: String,
    /// Its arguments; `{"from": "/pointer"}` stands for the call's own value there, and for nothing where the call has none. With `*` in
    /// the pointer it stands for the list of all values there.
    pub arguments: Map<String, Value>,
    /// The read belongs to calls that have a value at this pointer, and to no others. Where no read is left, the arguments are shown.
    pub when: Option<String>,
    /// Members of the JSON document in its answer (`*`: every element of a list) that change without meaning: no part of the fingerprint.
    pub ignore: Vec<String>,
    /// Where in the JSON document in its answer the text is that is compared; the whole text of the answer where absent.
    pub text: Option<String>,
}

/// Default of [`ToolSettings::max_bytes`].
pub const MAX_BYTES: u64 = 2_000_000;

impl Default for ToolSettings {
    fn default() -> Self {
        Self {
            kind: Kind::Write,
            hidden: false,
            scope: None,
            danger: Danger::Never,
            approval: Approval::None,
            paths: Vec::new(),
            preview: None,
            limits: CallLimits::default(),
            arguments: Vec::new(),
            max_items: None,
            max_bytes: MAX_BYTES,
            cost: None,
            replay: true,
            validation: Validation::Strict,
            open_arguments: false,
            require_copy: false,
            audience: Audience::Agent,
            client_token: None,
        }
    }
}

/// One agent of executor.json.
#[derive(Clone, Debug)]
pub struct AgentFacts {
    /// Its name.
    pub name: String,
    /// The visible prefix of its key.
    pub key_prefix: String,
    /// The scopes executor.json leaves open to it; `None` = all.
    pub scopes: Option<BTreeSet<String>>,
    /// First moment its key no longer holds.
    pub expires_at: Option<Timestamp>,
    /// How its writes are treated.
    pub mode: Mode,
    /// Whether every write of it is queued.
    pub requires_approval: bool,
    /// The absolute folder it works in, where executor.json names one.
    pub workspace: Option<String>,
    /// Where it may write below its workspace; `None`: its writes are not bounded.
    pub write_policy: Option<Arc<Policy>>,
    /// After how many idle minutes a turn without a strike ends; 0 never.
    pub turn_idle_minutes: u32,
    /// The candidate permission; judged by [`countersign_permission::in_force`] at each request.
    pub permission: Option<Arc<Permission>>,
}

/// Settings that cannot be used. Each names its member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactsError {
    /// A bucket that could never pay for some call.
    #[error(
        "buckets.{bucket}.size is {size}, but `{tool}` can cost {price}: a call that can never be paid for"
    )]
    BucketTooSmall {
        /// Which class.
        bucket: &'static str,
        /// Its size.
        size: u32,
        /// The largest price.
        price: u32,
        /// The tool that has it, or `any write tool`.
        tool: String,
    },
    /// A bucket that never fills.
    #[error("buckets.{bucket}.per_minute is 0: once empty it stays empty")]
    BucketNeverFills {
        /// Which class.
        bucket: &'static str,
    },
    /// Two servers of one name.
    #[error("two servers are named `{name}`")]
    DuplicateServer {
        /// The name.
        name: String,
    },
}

impl Facts {
    /// Checks the parts.
    ///
    /// # Errors
    /// When a bucket is smaller than the largest possible price or never fills, or two servers share a name.
    pub fn new(parts: Parts) -> Result<Self, FactsError> {
        let mut names = BTreeSet::new();
        if let Some(server) = parts
            .servers
            .iter()
            .find(|server| !names.insert(Arc::clone(&server.name)))
        {
            return Err(FactsError::DuplicateServer {
                name: server.name.to_string(),
            });
        }
        parts.check_buckets()?;
        Ok(Self(Arc::new(parts)))
    }

    /// The same settings with more first-seen definitions.
    #[must_use]
    pub fn with_first_seen(&self, first_seen: Arc<FirstSeen>) -> Self {
        Self(Arc::new(Parts {
            first_seen,
            ..Parts::clone(&self.0)
        }))
    }

    /// The same settings of an executor that previews every write.
    #[must_use]
    pub fn dry(&self) -> Self {
        let mut parts = Parts::clone(&self.0);
        parts.executor.dry_run = true;
        Self(Arc::new(parts))
    }

    /// The server of that name.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&ServerFacts> {
        self.servers.iter().find(|server| &*server.name == name)
    }
}

impl std::ops::Deref for Facts {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Parts {
    fn check_buckets(&self) -> Result<(), FactsError> {
        let mut dearest = (MAX_FORMULA_PRICE, "any write tool".to_string());
        let mut dearest_public = (1, "any public tool".to_string());
        for server in &self.servers {
            for (tool, settings) in &server.tools {
                let most = crate::price::largest(settings);
                let slot = match settings.audience {
                    Audience::Agent => &mut dearest,
                    Audience::Public => &mut dearest_public,
                };
                if most > slot.0 {
                    *slot = (most, format!("{}/{tool}", server.name));
                }
            }
        }
        let table: [(&'static str, BucketSize, &(u32, String)); 4] = [
            ("key", self.buckets.key, &dearest),
            ("person", self.buckets.person, &dearest),
            ("network", self.buckets.network, &dearest_public),
            ("token", self.buckets.token, &dearest_public),
        ];
        for (bucket, BucketSize { size, per_minute }, (price, tool)) in table {
            if size < *price {
                return Err(FactsError::BucketTooSmall {
                    bucket,
                    size,
                    price: *price,
                    tool: tool.clone(),
                });
            }
            if per_minute == 0 {
                return Err(FactsError::BucketNeverFills { bucket });
            }
        }
        Ok(())
    }
}
