//! The permission: what grants an agent anything at all, in plain data, and the one pure function that says what is in force.
//! Knows no file, no socket and no clock; a signed document replaces the development one without the flow noticing.

mod code;
mod development;
pub mod document;
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
