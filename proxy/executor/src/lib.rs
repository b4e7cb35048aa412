//! The executor: settings, secrets, stores, the book's writer and the command line around the gate.

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        reason = "a test that unwraps says where it failed"
    )
)]

pub mod cli;
pub mod commands;
pub mod demo;
pub mod doctor;
pub mod folder;
pub mod ids;
pub mod problem;
pub mod recorder;
pub mod secrets;
pub mod settings;
pub mod store;
