//! The book: an append-only, signed, tamper-evident record in the form of a C2SP transparency log (layout in `FORMAT.md`).
//! Knows files, hashes, signatures and the schema of entries. Refuses to know time, randomness, sockets, processes,
//! the environment and the gate: whatever it needs of them is handed in.
//!
//! - [`create`] a book, open a [`Writer`] on it, [`Writer::commit`] batches of [`Draft`]s, [`Writer::settle`] dead calls.
//! - [`verify`] reads everything and names the first bad place.
//! - [`Tlog`] keeps the derived C2SP tiled log up to date, [`Prover`] proves entries, [`TlogProof`] is such a proof as text.
//! - [`Reader`] lists and shows entries; [`escape`] makes their text safe for a terminal.

mod canonical;
mod checkpoint;
mod commitment;
mod create;
mod entry;
mod era;
mod error;
mod facts;
mod feed;
mod files;
mod finding;
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "vectors are files")]
mod golden;
mod journal;
mod key;
mod kinds;
mod lifecycle;
mod look;
mod note;
mod origin;
mod payload;
mod pin;
mod proof;
mod reader;
mod redact;
mod retain;
mod signatures;
mod text;
mod tlog;
mod tree;
mod turns;
mod vault;
mod verify;
mod verify_parts;
mod witnessed;

pub use checkpoint::Checkpoint;
pub use commitment::{At, Commitment, Field, Keep, Salt, SecretAt, View, commit_bytes};
pub use create::{NewBook, create};
pub use entry::{CallId, Count, Draft, Entry, EntryError, MAX_LINE, Payload};
pub use era::{Era, create_era, last_checkpoint};
pub use error::{BookError, Damage, RolledBack};
pub use feed::{Feed, Said};
pub use finding::{Finding, FindingKind, Verdict};
pub use journal::{
    BookFile, Committed, Entropy, Erased, KeyRange, OpenCall, Payloads, Prepared, Preparer, Pruned,
    Recorded, Recovery, SignedHead, Sources, Writer, WriterOptions,
};
pub use key::{FetchSigner, Signer, Signers, VaultKey};
pub use kinds::{
    Actor, Beat, Body, BookClosed, BookOpen, BookRecovered, Call, Catalog, Change, Clock, Decision,
    Effect, Gap, Head, Outcome, Permission, RefusalCount, Refusals, Settings, Status, Target,
    Verdict as DecisionVerdict,
};
pub use lifecycle::{EraOpen, Erase, KeyRotate, Prune};
pub use look::{Look, LookOptions, head, look};
pub use note::{Note, NoteError, Vkey};
pub use origin::{Origin, OriginError};
pub use payload::{Kept, KeptState, Promise};
pub use pin::{HeadListener, Pin, PinError};
pub use proof::{ProofBuilder, ProofError, verify_consistency, verify_inclusion};
pub use reader::{Listing, Order, Reader, Shown};
pub use redact::hide_secrets;
pub use text::escape;
pub use tlog::{
    Disagreement, Level, Located, Prover, TilePath, Tlog, TlogFinding, TlogProof, TlogProofError,
    TlogReport,
};
pub use tree::{CompactRange, Hash, leaf_hash};
pub use turns::{Approval, Bounds, Decided, TurnClose, TurnFailed, TurnOpen};
pub use verify::{PayloadCheck, Reference, Report, VerifyOptions, verify};
