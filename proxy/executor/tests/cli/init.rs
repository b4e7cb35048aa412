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
    let draft = r#"{"executor":{"id":"6d1c2c35-3f0f-4e0c-9d7e-0a1b2c3d4e5f","name":"Maria","development":false},"secrets":"file"}"#;
    std::fs::write(world.dir().join("init.json"), draft).unwrap();
    assert_eq!(world.json(INIT)["error"]["code"], "init_unfinished");
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
