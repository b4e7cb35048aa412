//! The permission: what grants an agent anything at all, as signed documents (`FORMAT.md`) and as plain data, the keyring that signs, the
//! offline verifier, and the pure functions that say what is in force and what a person reads. Knows no file, no socket and no clock.

mod code;
mod development;
pub mod document;
#[cfg(test)]
mod fixture;
pub mod force;
mod hash;
mod identity;
mod in_force;
pub mod keyring;
mod limits;
mod permission;
mod refusal;
#[cfg(any(test, feature = "soft-authenticator"))]
pub mod soft;
pub mod strict;
mod terms;
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "vectors are files")]
mod tests;
pub mod verify;
pub mod webauthn;
pub mod words;

pub use code::Code;
pub use development::{ServerView, SettingsView, ToolView, development};
pub use hash::{Hash, HashTextError};
pub use identity::{PackageIdentity, ProgramIdentity, ServerIdentity};
pub use in_force::{Development, InForce, NotInForce, in_force};
pub use limits::{ArgumentLimit, LimitError, LimitFault, Test, check_arguments};
pub use permission::{Authority, Permission, Pin, ServerGrant, ToolGrant, Tools};
pub use refusal::{REASONS, Reason, Refusal};
pub use terms::{Approval, CallLimits, Danger, Kind, Mode, Rate, Validation};
