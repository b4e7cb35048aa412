//! Where the product's binary is: built once per test run, from this workspace, in the profile the tests were built in.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests lie in a workspace")
}

/// A file of `tests/`.
pub fn tests_file(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// The `countersign` binary: `COUNTERSIGN_BIN`, else the one of this build, brought up to date first.
pub fn countersign() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(given) = std::env::var_os("COUNTERSIGN_BIN") {
            let given = PathBuf::from(given);
            assert!(
                given.is_file(),
                "COUNTERSIGN_BIN names no file: {}",
                given.display()
            );
            return given;
        }
        build()
    })
}

fn build() -> PathBuf {
    // target/<profile>/deps/e2e-<hash>
    let test = std::env::current_exe().expect("the test knows its own path");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("a test lies in target/<profile>/deps");
    let target = profile.parent().expect("a profile lies in a target folder");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "build",
            "--quiet",
            "--package",
            "countersign",
            "--bin",
            "countersign",
        ])
        .arg("--manifest-path")
        .arg(root().join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "the binary `countersign` does not build");
    profile.join(format!("countersign{}", std::env::consts::EXE_SUFFIX))
}
