//! What the relay between one client and one server must do, by number of the protocol checklist.

mod eras;
mod features;
mod frames;
mod gating;
mod properties;
