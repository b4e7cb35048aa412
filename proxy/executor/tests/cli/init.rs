//! An `init` that is cut short, at any moment, is finished by the same command.

use std::time::Duration;

use crate::World;

const INIT: &str = "init --development --secrets file --name Maria --json";

#[test]
fn a_killed_init_can_be_repeated() {
    let mut cut = 0;
    for millis in [
        0, 1, 2, 4, 6, 8, 10, 14, 18, 22, 28, 34, 40, 50, 60, 80, 100,
    ] {
        let world = World::new();
        let mut child = world.command(INIT).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        child.kill().unwrap();
        child.wait().unwrap();
        let whole = world.dir().join("executor.json").exists();
        cut += u32::from(!whole);
        let answer = world.json(INIT);
        match whole {
            true => assert_eq!(
                answer["error"]["code"], "already_initialised",
                "{millis} ms"
            ),
            false => assert_eq!(answer["development"], true, "{millis} ms: {answer}"),
        }
        let doctor = world.json("doctor --json");
        assert_eq!(doctor["wrong"], 0, "{millis} ms: {doctor:#}");
    }
    assert!(cut > 0, "at least one was cut short");
}

#[test]
fn an_unfinished_init_is_not_finished_with_other_options() {
    let world = World::new();
    std::fs::create_dir(world.dir()).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(world.dir(), std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let draft = r#"{"executor":{"id":"6d1c2c35-3f0f-4e0c-9d7e-0a1b2c3d4e5f","name":"Maria","development":false},"secrets":"file","keys":true}"#;
    std::fs::write(world.dir().join("init.json"), draft).unwrap();
    let refused = world.json(INIT);
    assert_eq!(refused["error"]["code"], "init_unfinished");
    let remedy = refused["error"]["remedy"].as_str().unwrap();
    assert!(
        remedy.contains("`countersign init --secrets file` (its name is `Maria`)"),
        "{remedy}"
    );
    let made = world.json("init --secrets file --json");
    assert_eq!(made["id"], "6d1c2c35-3f0f-4e0c-9d7e-0a1b2c3d4e5f", "{made}");
    assert!(!world.dir().join("init.json").exists());
}

#[test]
fn a_book_without_settings_is_left_alone() {
    let world = World::new();
    world.json(INIT);
    std::fs::remove_file(world.dir().join("executor.json")).unwrap();
    let book = std::fs::read(world.dir().join("book/BOOK")).unwrap();
    assert_eq!(world.json(INIT)["error"]["code"], "settings_missing");
    assert_eq!(std::fs::read(world.dir().join("book/BOOK")).unwrap(), book);
}

#[test]
fn an_init_that_found_no_secret_store_gives_way_to_other_options() {
    let world = World::new();
    let mut command = world.command("init --development --secrets file --json");
    command.env_remove("COUNTERSIGN_PASSPHRASE_FILE");
    let failed: serde_json::Value =
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!(failed["error"]["code"], "passphrase_missing");
    let made = world.json("init --secrets file --name Other --json");
    assert_eq!(
        (&made["name"], &made["development"]),
        (&"Other".into(), &false.into()),
        "{made}"
    );
    assert_eq!(world.json("doctor --json")["wrong"], 0);
}

#[cfg(target_os = "linux")]
#[test]
fn the_advice_after_a_missing_keychain_works() {
    let world = World::new();
    let failed = world
        .command("init --development --json")
        .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
        .output()
        .unwrap();
    let failed: serde_json::Value = serde_json::from_slice(&failed.stdout).unwrap();
    let remedy = failed["error"]["remedy"].as_str().unwrap();
    assert!(
        remedy.contains("countersign init --secrets file"),
        "{failed}"
    );
    let made = world.json("init --development --secrets file --json");
    assert_eq!(made["secrets"], "file", "{made}");
    assert_ne!(made["name"], "", "{made}");
}

#[cfg(unix)]
#[test]
fn a_passphrase_others_can_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let pw = world.root().join("pw");
    std::fs::set_permissions(&pw, std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = world.run(INIT);
    let warned = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success());
    assert!(
        warned.contains("other users can read the passphrase") && warned.contains("chmod 600"),
        "{warned}"
    );
    assert!(!warned.contains("correct horse"));
    let doctor = world.json("doctor --json").to_string();
    assert!(
        doctor.contains("other users can read the passphrase"),
        "{doctor}"
    );
}
