//! SPN (Linux): commands are found where people have them, and are named by absolute path where we write them.

use std::os::unix::fs::PermissionsExt;

use countersign_tests::client::text;
use countersign_tests::hostile::{Hostile, python};
use countersign_tests::world::World;
use serde_json::{Value, json};

const POOR: &str = "/usr/bin:/bin";

/// A program only found in `layout` below HOME is started although PATH is poor.
fn found_in(report: u32, layout: &str) {
    let world = World::bare().with(countersign_tests::world::Secrets::File, &[("PATH", POOR)]);
    world.must(&["init", "--development", "--secrets", "file"]);
    let folder = world.path(layout);
    std::fs::create_dir_all(&folder).expect("created");
    let hostile = Hostile::new(&world, "s", &json!({}));
    let program = folder.join("cs-test-npx");
    let script = format!(
        "#!/bin/sh\nexec '{}' '{}' \"$@\"\n",
        python(),
        hostile.command[1]
    );
    std::fs::write(&program, script).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))
        .expect("made executable");
    world.server("s", &["cs-test-npx".into(), hostile.command[2].clone()]);
    world.agent("a");
    let mut client = world.connect();
    let environment: Value =
        serde_json::from_str(&text(&client.call("environment", &json!({})))).expect("JSON");
    let path = environment["PATH"].as_str().expect("a PATH");
    assert!(
        path.contains(layout.split('/').next().expect("a folder")),
        "report {report}: the child's PATH is {path}"
    );
    assert!(path.contains("/usr/bin"), "report {report}: {path}");
}

#[test]
fn spn_141_nvm() {
    found_in(141, ".nvm/versions/node/v22.1.0/bin");
}

#[test]
fn spn_141_volta() {
    found_in(141, ".volta/bin");
}

#[test]
fn spn_141_fnm() {
    found_in(
        141,
        ".local/share/fnm/node-versions/v22.1.0/installation/bin",
    );
}

#[test]
fn spn_141_mise() {
    found_in(141, ".local/share/mise/shims");
}

#[test]
fn spn_139_local_bin() {
    found_in(139, ".local/bin");
}

#[test]
fn spn_139_m23_works_with_the_environment_clients_give() {
    let (world, _) = Hostile::world(&json!({}));
    let mut command = world.command(&["run", "--agent", "a", "--server", "s"]);
    command
        .env("PATH", POOR)
        .env("USER", "x")
        .env("LOGNAME", "x")
        .env("SHELL", "/bin/sh")
        .env("TERM", "dumb");
    let mut client = countersign_tests::client::Client::start(&mut command);
    client.initialize();
    assert_eq!(text(&client.call("slow", &json!({"text": "on"}))), "on");
}

#[test]
fn spn_147_the_entry_for_the_clients_config_has_absolute_paths() {
    let world = World::new();
    let hostile = Hostile::new(&world, "s", &json!({}));
    world.server("s", &hostile.command);
    let printed = world.must(&["agent", "add", "a"]);
    let binary = countersign_tests::binary::countersign()
        .canonicalize()
        .expect("the binary");
    let known = [
        binary.display().to_string(),
        countersign_tests::binary::countersign()
            .display()
            .to_string(),
    ];
    assert!(
        known.iter().any(|path| printed.contains(path)),
        "no absolute path in {printed}"
    );
    assert!(
        printed.contains("\"run\"") && printed.contains("\"a\""),
        "{printed}"
    );
    assert!(
        printed.contains(&world.text_path("dir")),
        "the folder is not the default one, so it is named: {printed}"
    );
    assert!(
        !printed.contains("csk_") || !printed.contains("\"env\""),
        "no key in a client's config: {printed}"
    );
}

#[test]
fn spn_environment_of_a_child_is_what_its_settings_say() {
    let world = World::new();
    let hostile = Hostile::new(&world, "s", &json!({}));
    world.server_with("s", &["--env", "LEVEL=in fo=1"], &hostile.command);
    world.agent("a");
    let mut command = world.command(&["run", "--agent", "a", "--server", "s"]);
    command
        .env("AWS_SECRET_ACCESS_KEY", "of-the-client")
        .env("COUNTERSIGN_TEST_LEAK", "1");
    let mut client = countersign_tests::client::Client::start(&mut command);
    client.initialize();
    let environment: Value =
        serde_json::from_str(&text(&client.call("environment", &json!({})))).expect("JSON");
    assert_eq!(environment["LEVEL"], "in fo=1");
    for ours in [
        "COUNTERSIGN_PASSPHRASE_FILE",
        "COUNTERSIGN_DIR",
        "COUNTERSIGN_TEST_LEAK",
        "AWS_SECRET_ACCESS_KEY",
    ] {
        assert!(
            environment.get(ours).is_none(),
            "ours stays with us: {environment}"
        );
    }
}
