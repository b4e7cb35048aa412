//! executor.json: its types, its checked form, how it is loaded, watched and edited. Knows nothing of calls.
//!
//! Two stages: [`SettingsFile`] is what is written, [`Settings`] what was checked; only the second reaches the rest of the program.

mod agent;
pub mod authors;
mod check_tool;
mod checked;
mod classes;
mod edit;
mod effective;
mod facts;
mod file;
mod fit;
mod load;
mod named;
mod policy;
mod preset;
mod schema;
mod schema_paths;
mod server;
mod strict;
mod tool;
mod watch;

pub use agent::{AgentEntry, Mode, Shell, WritePolicyEntry};
pub use check_tool::is_scope;
pub use checked::{Agent, Launch, Server, Settings, is_secret_key};
pub use classes::{CLASSES, Class};
pub use edit::{edit, object, render};
pub use effective::effective_document;
pub use facts::{NoFacts, Open, closed, facts, may_use, tool_settings};
pub use file::{
    ApprovalEntry, BookEntry, BucketEntry, BucketsEntry, CopyEntry, ExecutorEntry, Grade,
    LimitsEntry, Payloads, SecretsKind, SettingsFile,
};
pub use fit::{Difference, Listed, Misfit, by_name, fit};
pub use load::{Loaded, SettingsError, check_bytes, load};
pub use named::{Name, Named};
pub use policy::write_policy;
pub use preset::{PRESETS, Preset, preset, suggest};
pub use schema::schema;
pub use server::{Identity, OtherMembers, Pages, Pass, ProblemEntry, ServerEntry, Setting, Switch};
pub use tool::{
    Approval, ArgumentEntry, Audience, Cost, Danger, Effect, Kind, Op, PathEntry, PreviewArgument,
    PreviewDiff, PreviewEntry, PreviewRead, RateEntry, ToolEntry, ToolLimitsEntry, Validation,
};
pub use watch::{Snapshot, State, Watch, is_off};
