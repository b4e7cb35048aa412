//! The executor: settings, secrets, stores and the command line around the gate.

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        reason = "a test that unwraps says where it failed"
    )
)]

pub mod cli;
pub mod commands;
pub mod doctor;
pub mod folder;
pub mod problem;
pub mod secrets;
pub mod settings;
pub mod store;
