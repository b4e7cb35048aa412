//! `countersign try`: the product's first minute, with nothing set up.

use countersign_tests::process::{alive, descendants};
use countersign_tests::world::World;

#[test]
fn try_runs_shows_everything_and_leaves_its_folder() {
    let world = World::bare();
    let temporary = world.path("tmp");
    std::fs::create_dir(&temporary).expect("created");
    let mut command = world.command(&["try"]);
    command
        .env_remove("COUNTERSIGN_DIR")
        .env_remove("COUNTERSIGN_PASSPHRASE_FILE")
        .env("TMPDIR", &temporary);
    let output = command
        .stdin(std::process::Stdio::null())
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for word in [
        "(development)",
        "unknown",
        "validation_failed",
        "rate_limited",
        "verif",
    ] {
        assert!(said.contains(word), "`{word}` is not shown: {said}");
    }
    let left: Vec<_> = temporary
        .read_dir()
        .expect("a folder")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert!(!left.is_empty(), "the folder is left behind: {said}");
    assert!(
        left.iter()
            .any(|path| said.contains(&path.display().to_string())),
        "and it is said where: {said}"
    );
    assert!(!said.contains("panicked"));
    assert!(
        descendants(std::process::id())
            .iter()
            .all(|id| !demo(*id) || !alive(*id)),
        "no demo server stays"
    );
}

fn demo(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| String::from_utf8_lossy(&line).contains("demo-server"))
}
