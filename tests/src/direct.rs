//! A server without the gate: the other half of every comparison.

use std::process::Command;

use crate::client::Client;

/// Starts a server directly.
pub fn start(command: &[String], environment: &[(&str, &str)]) -> Client {
    let (program, arguments) = command.split_first().expect("a command has a program");
    let mut process = Command::new(program);
    process.args(arguments);
    for (name, value) in environment {
        process.env(name, value);
    }
    Client::start(&mut process)
}

/// Starts a server directly and shakes hands.
pub fn connect(command: &[String], environment: &[(&str, &str)]) -> Client {
    let mut client = start(command, environment);
    client.initialize();
    client
}
