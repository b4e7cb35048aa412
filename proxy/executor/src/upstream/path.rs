//! Finds a server's command as the person's terminal would, also when a desktop program started us with almost no `PATH`.
//! Only looks at files; the login shell is asked last and with a time limit.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// How long the login shell may take to tell its `PATH`.
const SHELL_PATIENCE: Duration = Duration::from_secs(3);
/// Printed around the login shell's `PATH`, which may be surrounded by greetings.
const MARK: &str = "__countersign_path__";

/// What the look-up needs to know of the environment; given, so that it can be tested.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The `PATH` the server would get.
    pub path: Option<OsString>,
    /// The person's home folder.
    pub home: Option<PathBuf>,
    /// The login shell to ask as the last resort; `None` asks nobody.
    pub shell: Option<PathBuf>,
    /// The folder relative commands are relative to.
    pub cwd: PathBuf,
}

impl Surroundings {
    /// Those of this process, with the `PATH` and folder the server's entry says.
    #[must_use]
    pub fn here(path: Option<OsString>, cwd: Option<&Path>) -> Self {
        let home = directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned());
        let shell = if cfg!(unix) {
            std::env::var_os("SHELL").map(PathBuf::from)
        } else {
            None
        };
        let cwd = cwd
            .map(Path::to_owned)
            .or_else(|| std::env::current_dir().ok())
            .unwrap_or_default();
        Self {
            path: path.or_else(|| std::env::var_os("PATH")),
            home,
            shell,
            cwd,
        }
    }
}

/// A command that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The program to start.
    pub program: PathBuf,
    /// The `PATH` to start it with: the given one, or one that also has the folder it was found in first,
    /// since `npx` and its like start their interpreter by name.
    pub path: Option<OsString>,
}

/// The command is nowhere. Its text names the command and the folders looked in; it is for the person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("command `{command}` not found; looked in {}; write its absolute path into the server's entry", list(.looked))]
pub struct NotFound {
    /// The command as configured.
    pub command: String,
    /// Every folder looked in, in order.
    pub looked: Vec<PathBuf>,
}

/// Finds `command`: the given `PATH` first, then the places version managers use, then the login shell's `PATH`.
///
/// # Errors
/// [`NotFound`] with every folder looked in.
pub async fn find(command: &str, around: &Surroundings) -> Result<Found, NotFound> {
    let missing = |looked| NotFound {
        command: command.to_owned(),
        looked,
    };
    if Path::new(command).components().count() > 1 {
        return which::which_in(command, None::<&OsStr>, &around.cwd)
            .map(|program| Found {
                program,
                path: around.path.clone(),
            })
            .map_err(|_| {
                missing(
                    Path::new(command)
                        .parent()
                        .map(Path::to_owned)
                        .into_iter()
                        .collect(),
                )
            });
    }
    let given: Vec<PathBuf> = around.path.iter().flat_map(std::env::split_paths).collect();
    if let Some(program) = look(command, &given, &around.cwd) {
        return Ok(Found {
            program,
            path: around.path.clone(),
        });
    }
    let common = common_places(around.home.as_deref());
    if let Some(program) = look(command, &common, &around.cwd) {
        return Ok(found_elsewhere(program, &given, &[]));
    }
    let shell = match &around.shell {
        Some(shell) => shell_path(shell).await,
        None => Vec::new(),
    };
    if let Some(program) = look(command, &shell, &around.cwd) {
        return Ok(found_elsewhere(program, &given, &shell));
    }
    Err(missing(
        given.into_iter().chain(common).chain(shell).collect(),
    ))
}

fn look(command: &str, folders: &[PathBuf], cwd: &Path) -> Option<PathBuf> {
    let path = std::env::join_paths(
        folders
            .iter()
            .filter(|folder| !folder.as_os_str().is_empty()),
    )
    .ok()?;
    if path.is_empty() {
        return None;
    }
    which::which_in(command, Some(path), cwd).ok()
}

fn found_elsewhere(program: PathBuf, given: &[PathBuf], more: &[PathBuf]) -> Found {
    let mut folders: Vec<&Path> = program.parent().into_iter().collect();
    for folder in given.iter().chain(more) {
        if !folders.contains(&folder.as_path()) {
            folders.push(folder);
        }
    }
    let path = std::env::join_paths(&folders).ok();
    Found { program, path }
}

/// One place where a tool puts programs: below the home folder, with at most one `*` for a version, or absolute.
const UNIX_PLACES: &[&str] = &[
    "~/.local/bin",
    "~/.nvm/versions/node/*/bin",
    "~/.volta/bin",
    "~/.local/share/fnm/aliases/default/bin",
    "~/.fnm/aliases/default/bin",
    "~/Library/Application Support/fnm/aliases/default/bin",
    "~/.local/share/fnm/node-versions/*/installation/bin",
    "~/.fnm/node-versions/*/installation/bin",
    "~/Library/Application Support/fnm/node-versions/*/installation/bin",
    "~/.local/share/mise/shims",
    "~/.asdf/shims",
    "/opt/homebrew/bin",
    "/usr/local/bin",
    "/home/linuxbrew/.linuxbrew/bin",
    "/opt/local/bin",
    "~/.cargo/bin",
    "~/.bun/bin",
    "~/.deno/bin",
    "/snap/bin",
    "/usr/bin",
    "/bin",
];

const WINDOWS_PLACES: &[&str] = &[
    "~/AppData/Roaming/npm",
    "C:/Program Files/nodejs",
    "~/AppData/Local/Volta/bin",
    "~/AppData/Roaming/nvm/*",
    "~/AppData/Roaming/fnm/node-versions/*/installation",
    "~/AppData/Roaming/fnm/aliases/default",
    "~/AppData/Local/mise/shims",
    "~/scoop/shims",
    "~/.local/bin",
    "~/.cargo/bin",
    "~/.bun/bin",
    "~/.deno/bin",
];

fn common_places(home: Option<&Path>) -> Vec<PathBuf> {
    let places = if cfg!(windows) {
        WINDOWS_PLACES
    } else {
        UNIX_PLACES
    };
    places
        .iter()
        .flat_map(|place| expand(place, home))
        .collect()
}

fn expand(place: &str, home: Option<&Path>) -> Vec<PathBuf> {
    let full = match (place.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        (Some(_), None) => return Vec::new(),
        (None, _) => PathBuf::from(place),
    };
    let parts: Vec<&OsStr> = full.iter().collect();
    let Some(star) = parts.iter().position(|part| *part == "*") else {
        return vec![full];
    };
    let before: PathBuf = parts.iter().take(star).collect();
    let after: PathBuf = parts.iter().skip(star + 1).collect();
    let Ok(entries) = std::fs::read_dir(&before) else {
        return Vec::new();
    };
    let mut versions: Vec<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    versions.sort_by_key(|version| std::cmp::Reverse(numbers(version)));
    versions
        .into_iter()
        .map(|version| before.join(version).join(&after))
        .collect()
}

/// `v20.11.1` as `[20, 11, 1]`, so that v20 comes after v9.
fn numbers(version: &str) -> Vec<u64> {
    version
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

async fn shell_path(shell: &Path) -> Vec<PathBuf> {
    let mut command = tokio::process::Command::new(shell);
    command
        .args([
            "-l",
            "-i",
            "-c",
            &format!("printf '{MARK}%s{MARK}' \"$PATH\""),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let Ok(Ok(output)) = tokio::time::timeout(SHELL_PATIENCE, command.output()).await else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&output.stdout);
    text.split(MARK)
        .nth(1)
        .map(|path| std::env::split_paths(path).collect())
        .unwrap_or_default()
}

fn list(folders: &[PathBuf]) -> String {
    if folders.is_empty() {
        return "no folder at all".to_owned();
    }
    folders
        .iter()
        .map(|folder| format!("`{}`", folder.display()))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn program(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    async fn check(layout: &str, expected_first: &str) {
        let home = tempfile::tempdir().unwrap();
        program(&home.path().join(layout).join("cs-test-npx"));
        let around = Surroundings {
            path: Some("/usr/bin:/bin".into()),
            home: Some(home.path().to_owned()),
            shell: None,
            cwd: home.path().to_owned(),
        };
        let found = find("cs-test-npx", &around).await.unwrap();
        assert_eq!(
            found.program,
            home.path().join(expected_first).join("cs-test-npx"),
            "{layout}"
        );
        let path = found.path.unwrap();
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        assert_eq!(folders[0], home.path().join(expected_first));
        assert!(folders.ends_with(&["/usr/bin".into(), "/bin".into()]));
    }

    #[tokio::test]
    async fn spn_139_141_147_finds_version_managers_layouts() {
        for layout in [
            ".nvm/versions/node/v20.1.0/bin",
            ".volta/bin",
            ".local/share/fnm/aliases/default/bin",
            ".local/share/fnm/node-versions/v22.0.0/installation/bin",
            ".local/share/mise/shims",
            ".asdf/shims",
            ".local/bin",
        ] {
            check(layout, layout).await;
        }
    }

    #[tokio::test]
    async fn the_newest_version_is_first() {
        let home = tempfile::tempdir().unwrap();
        for version in ["v9.9.9", "v20.1.0", "v20.11.0"] {
            program(
                &home
                    .path()
                    .join(".nvm/versions/node")
                    .join(version)
                    .join("bin/cs-test-npx"),
            );
        }
        let around = Surroundings {
            home: Some(home.path().to_owned()),
            ..Surroundings::default()
        };
        let found = find("cs-test-npx", &around).await.unwrap();
        assert!(found.program.to_string_lossy().contains("v20.11.0"));
    }

    #[tokio::test]
    async fn the_given_path_wins_and_stays_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        program(&home.path().join("given/cs-test-npx"));
        program(&home.path().join(".volta/bin/cs-test-npx"));
        let path: OsString = home.path().join("given").into();
        let around = Surroundings {
            path: Some(path.clone()),
            home: Some(home.path().to_owned()),
            ..Surroundings::default()
        };
        let found = find("cs-test-npx", &around).await.unwrap();
        assert_eq!(
            found,
            Found {
                program: home.path().join("given/cs-test-npx"),
                path: Some(path)
            }
        );
    }

    #[tokio::test]
    async fn the_login_shell_is_the_last_resort_and_greetings_do_not_matter() {
        let home = tempfile::tempdir().unwrap();
        program(&home.path().join("odd/cs-test-npx"));
        let shell = home.path().join("shell");
        let odd = home.path().join("odd");
        std::fs::write(
            &shell,
            format!("#!/bin/sh\necho welcome\nPATH={}:/bin\nwhile [ $# -gt 1 ]; do shift; done\neval \"$1\"\n", odd.display()),
        )
        .unwrap();
        std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
        let around = Surroundings {
            path: Some("/nowhere".into()),
            shell: Some(shell),
            ..Surroundings::default()
        };
        let found = find("cs-test-npx", &around).await.unwrap();
        assert_eq!(found.program, odd.join("cs-test-npx"));
    }

    #[tokio::test]
    async fn spn_21_what_is_nowhere_is_named_with_the_places() {
        let around = Surroundings {
            path: Some("/only-here".into()),
            ..Surroundings::default()
        };
        let error = find("cs-no-such-command", &around)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("command `cs-no-such-command` not found; looked in `/only-here`, "),
            "{error}"
        );
        let error = find("./absent/cs-no-such", &around)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("`./absent/cs-no-such`"), "{error}");
    }
}
