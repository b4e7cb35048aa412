//! The executor: settings, secrets, stores, the relay, the book's writer and the command line around the gate.

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        reason = "a test that unwraps says where it failed"
    )
)]

pub mod cli;
pub mod commands;
pub mod condition;
pub mod demo;
pub mod derived;
pub mod disk;
pub mod doctor;
pub mod downstream;
pub mod examine;
pub mod files;
pub mod folder;
pub mod frame;
pub mod ids;
pub mod keeper;
pub mod launch;
pub mod leftovers;
pub mod log;
pub mod pin;
pub mod platform;
pub mod problem;
pub mod recorder;
pub mod relay;
pub mod secrets;
pub mod settings;
pub mod signing;
pub mod store;
pub mod upstream;
