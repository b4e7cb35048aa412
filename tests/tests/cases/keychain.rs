//! KEY: machines without a keychain say so; with one, secrets are in it and nowhere else.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use countersign_tests::binary::countersign;
use countersign_tests::world::World;

/// Runs a shell script on a session bus of its own, with or without the desktop's secret service to be started on it.
fn on_a_bus(world: &World, service: Service, script: &str) -> (bool, String) {
    let mut command = Command::new("dbus-run-session");
    if service == Service::Absent {
        let config = world.path("bus.conf");
        std::fs::write(
            &config,
            r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>"#,
        )
        .expect("written");
        command.arg(format!("--config-file={}", config.display()));
    }
    let output = command
        .args(["--", "sh", "-euc", script])
        .env_clear()
        .env("HOME", world.root())
        .env("XDG_RUNTIME_DIR", runtime(world))
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("COUNTERSIGN_DIR", world.dir())
        .env("CS", countersign())
        .stdin(Stdio::null())
        .output()
        .expect("dbus-run-session starts");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output.status.success(), said)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Service {
    Present,
    Absent,
}

fn runtime(world: &World) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let folder = world.path("runtime");
    std::fs::create_dir_all(&folder).expect("created");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))
        .expect("made private");
    folder
}

/// A remedy is: what is missing, and the way without it.
fn tells_the_remedy(said: &str) {
    assert!(said.contains("--secrets file"), "no remedy in {said}");
    assert!(
        said.to_lowercase().contains("keychain") || said.to_lowercase().contains("secret service"),
        "{said}"
    );
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn key_148_without_a_session_bus_the_remedy_is_told() {
    let world = World::bare();
    let mut command = world.command(&["init", "--development", "--secrets", "keychain"]);
    command
        .env_remove("COUNTERSIGN_PASSPHRASE_FILE")
        .env(
            "DBUS_SESSION_BUS_ADDRESS",
            format!("unix:path={}", world.text_path("no-bus")),
        )
        .stdin(Stdio::null());
    let output = command.output().expect("the binary starts");
    assert!(!output.status.success());
    tells_the_remedy(&format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ));
    assert!(
        !world.dir().join("secrets.enc").exists(),
        "never a silent fallback"
    );
}

#[test]
fn key_149_a_bus_without_a_secret_service_is_told_apart() {
    let world = World::bare();
    let (went, said) = on_a_bus(
        &world,
        Service::Absent,
        "\"$CS\" init --development --secrets keychain",
    );
    assert!(!went, "{said}");
    tells_the_remedy(&said);
    assert!(
        !world.dir().join("secrets.enc").exists(),
        "never a silent fallback"
    );
}

#[test]
fn key_148_a_passphrase_nobody_gives_is_asked_for_and_not_guessed() {
    let world = World::bare();
    let mut command = world.command(&["init", "--development", "--secrets", "file"]);
    let output = command
        .env_remove("COUNTERSIGN_PASSPHRASE_FILE")
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    assert!(!output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("COUNTERSIGN_PASSPHRASE_FILE"), "{said}");
}

#[test]
fn key_a_wrong_passphrase_opens_nothing() {
    let world = World::new();
    world.must(&["server", "add", "s", "--", "true"]);
    let wrong = world.path("wrong");
    std::fs::write(&wrong, "something else\n").expect("written");
    let mut command = world.command(&["agent", "add", "a"]);
    let output = command
        .env("COUNTERSIGN_PASSPHRASE_FILE", &wrong)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    assert!(!output.status.success(), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("something else"));
}

#[test]
fn key_with_the_desktops_keychain_secrets_are_there_and_nowhere_else() {
    let world = World::bare();
    let hostile = countersign_tests::hostile::Hostile::new(&world, "s", &serde_json::json!({}));
    let quoted: Vec<String> = hostile
        .command
        .iter()
        .map(|part| format!("'{part}'"))
        .collect();
    let requests = world.path("requests");
    let mut file = std::fs::File::create(&requests).expect("created");
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"environment","arguments":{}}}"#,
    ] {
        writeln!(file, "{line}").expect("written");
    }
    // The bus is found from the runtime folder alone in the last step, as when a client starts us.
    let script = format!(
        r#"
printf 'login-password' | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1
"$CS" init --development --secrets keychain
"$CS" server add s --secret TOKEN -- {server}
printf 'sk-very-secret-7261\n' | "$CS" secret set s/TOKEN
"$CS" agent add a >entry
"$CS" secret list
( cat requests; sleep 0.2; i=0; while ! grep -q '"id":2' answers 2>/dev/null && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done ) | "$CS" run --agent a --server s >answers
"$CS" book verify
"#,
        server = quoted.join(" ")
    );
    let script = format!("cd '{}'\n{script}", world.root().display());
    let (went, said) = on_a_bus(&world, Service::Present, &script);
    assert!(went, "{said}");
    let answers = std::fs::read_to_string(world.path("answers")).expect("answers");
    assert!(
        answers.contains("sk-very-secret-7261"),
        "the child has the secret in its environment: {answers} {said}"
    );
    assert!(
        !said.contains("sk-very-secret-7261"),
        "no secret on the screen: {said}"
    );
    assert!(
        !world.in_clear("sk-very-secret-7261"),
        "no secret in the executor's folder"
    );
    assert!(!world.dir().join("secrets.enc").exists());
    let entry = std::fs::read_to_string(world.path("entry")).expect("the client's entry");
    assert!(!entry.contains("sk-very-secret"), "{entry}");
}
