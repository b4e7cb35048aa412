//! The server that misbehaves on request (`fixtures/hostile.py`): its specification and what it noted about itself.

use serde_json::{Value, json};

use crate::binary::tests_file;
use crate::world::World;

/// One hostile server of one world: the command, and the files it writes.
pub struct Hostile {
    /// Command line to add it with.
    pub command: Vec<String>,
    calls: std::path::PathBuf,
    received: std::path::PathBuf,
    started: std::path::PathBuf,
}

impl Hostile {
    /// Writes a specification (the head of `hostile.py` lists its members) into the world's folder.
    pub fn new(world: &World, name: &str, specification: &Value) -> Self {
        let file = |kind: &str| world.path(&format!("{name}.{kind}"));
        let mut specification = specification.clone();
        let (calls, received, started) = (file("calls"), file("received"), file("started"));
        specification["calls"] = json!(calls);
        specification["received"] = json!(received);
        specification["started"] = json!(started);
        let path = file("spec.json");
        std::fs::write(&path, specification.to_string()).expect("written");
        Self {
            command: vec![
                python(),
                tests_file("fixtures/hostile.py").display().to_string(),
                path.display().to_string(),
            ],
            calls,
            received,
            started,
        }
    }

    /// A world whose server `s` is this one, with agent `a`.
    pub fn world(specification: &Value) -> (World, Self) {
        let world = World::new();
        let hostile = Self::new(&world, "s", specification);
        world.server("s", &hostile.command);
        world.agent("a");
        (world, hostile)
    }

    /// Every tool and method that ran, in order.
    pub fn calls(&self) -> Vec<Value> {
        lines(&self.calls)
            .iter()
            .map(|line| serde_json::from_str(line).expect("a call is noted as JSON"))
            .collect()
    }

    /// Names of the tools that ran.
    pub fn ran(&self) -> Vec<String> {
        self.calls()
            .iter()
            .filter_map(|call| call["tool"].as_str().map(str::to_owned))
            .collect()
    }

    /// Every line that reached it, as it came.
    pub fn received(&self) -> Vec<String> {
        lines(&self.received)
    }

    /// Process ids of its starts.
    pub fn starts(&self) -> Vec<u32> {
        lines(&self.started)
            .iter()
            .map(|line| line.parse().expect("a process id"))
            .collect()
    }
}

/// The system's Python 3 by its full path.
pub fn python() -> String {
    for folder in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
        let candidate = folder.join("python3");
        if candidate.is_file() {
            return candidate.display().to_string();
        }
    }
    panic!("no python3 in PATH");
}

/// Lines of a file, none when it does not exist.
pub fn lines(path: &std::path::Path) -> Vec<String> {
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}
