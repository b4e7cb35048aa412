//! The checks themselves, one function each. Each opens what it looks at on its own, so that one broken part hides no other.

use std::collections::BTreeMap;
use std::path::Path;

use countersign_book::{PayloadCheck, Verdict, VerifyOptions};
use jiff::Timestamp;

use crate::commands::Context;
use crate::commands::book::own_key;
use crate::commands::server_check::startable;
use crate::problem::Problem;
use crate::secrets::{Account, PassphraseSource};
use crate::settings::{Launch, SecretsKind, Server, Settings, is_off, load};
use crate::store::{BucketsDb, StateDb};

use super::Found;

pub(super) fn folder(context: &Context) -> Vec<Found> {
    let folder = &context.folder;
    if let Err(error) = folder.check() {
        let problem = if error.is_not_found() {
            crate::commands::not_initialised(folder)
        } else {
            error.into()
        };
        return vec![Found::fail(problem)];
    }
    let mut found = open_to_others(folder.root());
    let files = [
        folder.settings(),
        folder.state_db(),
        folder.buckets_db(),
        folder.secrets(),
        folder.book(),
        folder.run(),
        folder.logs(),
    ];
    found.extend(files.iter().flat_map(|path| open_to_others(path)));
    if found.is_empty() {
        found.push(Found::ok(format!(
            "`{}`, yours alone",
            folder.root().display()
        )));
    }
    found
}

pub(super) fn settings(context: &Context) -> Vec<Found> {
    match load(&context.folder.settings()) {
        Err(error) => vec![Found::fail(error)],
        Ok(loaded) => {
            let settings = loaded.settings;
            vec![Found::ok(format!(
                "{} servers, {} agents",
                settings.servers.len(),
                settings.agents.len()
            ))]
        }
    }
}

pub(super) fn switch(context: &Context) -> Vec<Found> {
    let marker = is_off(&context.folder.off_marker());
    let enabled = load(&context.folder.settings())
        .map(|loaded| loaded.settings.enabled)
        .unwrap_or(true);
    match marker || !enabled {
        true => vec![Found::warn(
            "off: no agent can call anything",
            "`countersign on` lets agents go on",
        )],
        false => vec![Found::ok("on")],
    }
}

pub(super) fn secrets(context: &Context, settings: &Settings) -> Vec<Found> {
    let mut exposed = match settings.secrets {
        SecretsKind::File => exposed_passphrase(context),
        SecretsKind::Keychain => Vec::new(),
    };
    exposed.extend(stored_secrets(context, settings));
    exposed
}

fn exposed_passphrase(context: &Context) -> Vec<Found> {
    let source = PassphraseSource::from_environment(context.interaction).ok();
    let path = source.as_ref().and_then(PassphraseSource::exposed);
    let found = path.map(|path| {
        Found::fail(Problem::new(
            "passphrase_exposed",
            format!(
                "other users can read the passphrase in `{}`",
                path.display()
            ),
            format!("chmod 600 '{}'", path.display()),
        ))
    });
    found.into_iter().collect()
}

fn stored_secrets(context: &Context, settings: &Settings) -> Vec<Found> {
    let store = match context.secrets(settings) {
        Err(problem) => return vec![Found::fail(problem)],
        Ok(store) => store,
    };
    let mut wanted = vec![
        Account::book_signing(),
        Account::book_vault(),
        Account::pepper(),
    ];
    wanted.extend(
        settings
            .agents
            .iter()
            .map(|agent| Account::agent(&agent.name)),
    );
    wanted.extend(
        settings
            .servers
            .iter()
            .flat_map(|server| server.secrets().map(|(_, place)| Account::server(place))),
    );
    let values = match store.get_all(&wanted) {
        Err(error) => return vec![Found::fail(error)],
        Ok(values) => values,
    };
    let missing = wanted
        .iter()
        .zip(&values)
        .filter(|(_, value)| value.is_none());
    let mut found: Vec<Found> = missing
        .map(|(account, _)| Found::fail(missing_secret(account)))
        .collect();
    if found.is_empty() {
        found.push(Found::ok(format!(
            "{} in the {}",
            wanted.len(),
            store.kind()
        )));
    }
    found
}

/// Which of two cases product.md names holds: are the executor's secrets out of reach of this user's other programs?
pub(super) fn separation(_context: &Context, settings: &Settings) -> Vec<Found> {
    if nobody_logs_in() {
        return vec![Found::ok(
            "the executor runs under a user of its own, whom nobody logs in as: promises 6 and 7 hold against programs, too",
        )];
    }
    let reach = match settings.secrets {
        SecretsKind::Keychain if cfg!(target_os = "linux") => {
            "any program of this user can read the keychain"
        }
        SecretsKind::Keychain => "a program of this user may ask the keychain",
        SecretsKind::File => {
            "any program of this user can read the passphrase's file or this program's memory"
        }
    };
    vec![Found::warn(
        format!(
            "this executor runs as the same user as its agents: {reach}, so promises 6 and 7 hold against agents that only have their \
             tools, not against programs they may start"
        ),
        "to hold them against programs too, run the executor under a user of its own",
    )]
}

/// Verifies the whole book where that takes no longer than a moment, with the executor's own key where it can be had.
pub(super) fn book(context: &Context) -> Vec<Found> {
    const A_MOMENT: u64 = 64 << 20;
    let dir = context.folder.book();
    let wrong = |what: String| {
        let remedy = "`countersign book verify` says where; restore it from the copy";
        vec![Found::fail(Problem::new("book", what, remedy))]
    };
    let reader = match countersign_book::Reader::open(&dir) {
        Ok(reader) => reader,
        Err(error @ countersign_book::BookError::NotABook { .. }) => {
            let remedy = "restore the folder `book` from a copy; without it the executor lets no call through";
            return vec![Found::fail(Problem::new("book", error.to_string(), remedy))];
        }
        Err(error) => return wrong(error.to_string()),
    };
    if bytes_in(&dir.join("journal")) > A_MOMENT {
        return vec![Found::ok(
            "it opens; it is large, so `countersign book verify` checks its entries",
        )];
    }
    let pinned = own_key(context).map(|signer| signer.vkey(&reader.book().origin));
    let options = VerifyOptions {
        pinned,
        payloads: PayloadCheck::Present,
        vault: None,
        threads: 1,
    };
    match countersign_book::verify(&dir, &options) {
        Err(error) => wrong(error.to_string()),
        Ok(report) => match report.verdict() {
            Verdict::Ok => vec![Found::ok(format!(
                "{} entries, whole and signed",
                report.size
            ))],
            Verdict::UnsignedTail => vec![Found::warn(
                format!(
                    "{} entries are whole and signed; the last lines are not yet",
                    report.size
                ),
                "a process that is writing is the usual reason; otherwise the next one that opens the book sets them aside",
            )],
            _ => wrong(report.sentence()),
        },
    }
}

fn bytes_in(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files
        .filter_map(|file| Some(file.metadata().ok()?.len()))
        .sum()
}

pub(super) fn state(context: &Context) -> Vec<Found> {
    match StateDb::open(&context.folder).and_then(|state| state.check()) {
        Err(fault) => vec![Found::fail(fault)],
        Ok(()) => vec![Found::ok("whole")],
    }
}

pub(super) fn buckets(context: &Context) -> Vec<Found> {
    match BucketsDb::open(&context.folder) {
        Err(fault) => vec![Found::fail(fault)],
        Ok(_) => vec![Found::ok("whole")],
    }
}

pub(super) fn servers(_context: &Context, settings: &Settings) -> Vec<Found> {
    let mut found: Vec<Found> = settings
        .servers
        .iter()
        .filter(|server| server.entry.enabled.0)
        .filter_map(|server| startable(server).err())
        .map(Found::fail)
        .collect();
    for server in settings
        .servers
        .iter()
        .filter(|server| matches!(server.launch, Launch::Http { .. }))
    {
        let note = "is reached over HTTP, which this version can't do yet";
        found.push(Found::warn(
            format!("server `{}` {note}", server.name),
            "use a server that is started as a program",
        ));
    }
    if found.is_empty() {
        found.push(match settings.servers.len() {
            0 => Found::warn(
                "there is none",
                "`countersign server add NAME -- COMMAND ARGS…`",
            ),
            1 => Found::ok("1, its program is found"),
            many => Found::ok(format!("{many}, their programs are found")),
        });
    }
    found
}

/// Two tools of one public name (`server__tool`): the first in executor.json keeps it.
pub(super) fn names(context: &Context, settings: &Settings) -> Vec<Found> {
    let seen = StateDb::open(&context.folder)
        .and_then(|state| state.pins())
        .unwrap_or_default();
    let tools = |server: &Server| -> Vec<String> {
        let pinned = seen
            .get(server.name.as_str())
            .into_iter()
            .flat_map(|tools| tools.keys().cloned());
        server
            .known_tools()
            .into_iter()
            .map(str::to_owned)
            .chain(pinned)
            .collect()
    };
    let mut owners: BTreeMap<String, (&str, String)> = BTreeMap::new();
    let mut found = Vec::new();
    for server in &settings.servers {
        for tool in tools(server) {
            let public = format!("{}__{tool}", server.name);
            let (owner, first) = owners
                .entry(public.clone())
                .or_insert_with(|| (server.name.as_str(), tool.clone()));
            if *owner != server.name.as_str() {
                found.push(Found::warn(
                    format!("`{}` of server `{}` and `{first}` of `{owner}` are both `{}`; the first keeps the name", crate::commands::plain(&tool), server.name, crate::commands::plain(&public)),
                    "rename one of the servers",
                ));
            }
        }
    }
    if found.is_empty() {
        found.push(Found::ok("no two tools share a public name"));
    }
    found
}

pub(super) fn agents(context: &Context, settings: &Settings) -> Vec<Found> {
    let state = match StateDb::open(&context.folder) {
        Err(_) => {
            return vec![Found::warn(
                "not looked at, since state.db can't be used",
                "",
            )];
        }
        Ok(state) => state,
    };
    let now = Timestamp::now();
    let mut found = Vec::new();
    for agent in &settings.agents {
        let again = format!(
            "`countersign agent revoke {0}`, then `countersign agent add {0}`",
            agent.name
        );
        let trouble = match state.key(&agent.entry.key) {
            Err(fault) => Some(fault.to_string()),
            Ok(None) => Some("has a key that state.db does not know".to_owned()),
            Ok(Some(record)) if record.agent != agent.name.as_str() => {
                Some("has another agent's key".to_owned())
            }
            Ok(Some(record)) if record.revoked_at.is_some() => Some("has a revoked key".to_owned()),
            Ok(Some(record))
                if record
                    .expires_at
                    .or(agent.expires_at)
                    .is_some_and(|end| end <= now) =>
            {
                Some("has an expired key".to_owned())
            }
            Ok(Some(_)) => None,
        };
        if let Some(trouble) = trouble {
            found.push(Found::fail(Problem::new(
                "agent_key",
                format!("agent `{}` {trouble}", agent.name),
                again,
            )));
        }
        for server in agent
            .entry
            .servers
            .iter()
            .flatten()
            .filter(|server| settings.server(server).is_none())
        {
            found.push(Found::warn(
                format!(
                    "agent `{}` may use `{}`, which is no server",
                    agent.name,
                    crate::commands::plain(server)
                ),
                "add the server, or take it out of executor.json",
            ));
        }
    }
    if found.is_empty() {
        found.push(match settings.agents.len() {
            0 => Found::warn("there is none", "`countersign agent add NAME`"),
            many => Found::ok(format!("{many}, their keys are good")),
        });
    }
    found
}

pub(super) fn permission(_context: &Context, settings: &Settings) -> Vec<Found> {
    match settings.executor.development {
        true => vec![Found::warn(
            "(development): an unsigned permission counts, everything that is not closed is granted",
            "for real work, make an executor without --development",
        )],
        false => vec![Found::warn(
            "none is signed, so nothing is granted",
            "this version can't sign one yet; --development at `init` does without",
        )],
    }
}

pub(super) fn clock(context: &Context) -> Vec<Found> {
    let newest = [
        context.folder.settings(),
        context.folder.state_db(),
        context.folder.book(),
    ]
    .iter()
    .filter_map(|path| std::fs::metadata(path).ok()?.modified().ok())
    .max();
    let ahead = newest.and_then(|time| time.duration_since(std::time::SystemTime::now()).ok());
    let year = Timestamp::now().strftime("%Y").to_string();
    match ahead {
        _ if year.as_str() < "2026" => vec![Found::fail(Problem::new(
            "clock",
            format!("the clock says {year}"),
            "set the clock",
        ))],
        Some(ahead) if ahead.as_secs() > 120 => {
            vec![Found::warn(
                "the clock is behind files of this executor by more than two minutes",
                "set the clock",
            )]
        }
        _ => vec![Found::ok("not behind the executor's own files")],
    }
}

/// SQLite's WAL and our locks need a disk of this machine; a synchronised folder replaces files under our hands.
pub(super) fn disk(context: &Context) -> Vec<Found> {
    const SYNCED: &[&str] = &[
        "dropbox",
        "onedrive",
        "google drive",
        "googledrive",
        "icloud",
        "mobile documents",
        "nextcloud",
        "syncthing",
    ];
    let root = context.folder.root();
    let lower = root.to_string_lossy().to_lowercase();
    if let Some(name) = SYNCED.iter().find(|name| lower.contains(**name)) {
        return vec![Found::warn(
            format!(
                "`{}` seems to lie in a folder that is synchronised ({name})",
                root.display()
            ),
            "move it to a plain folder of this machine; for a second place there are copies",
        )];
    }
    match network_mount(root) {
        Some(kind) => vec![Found::fail(Problem::new(
            "disk",
            format!(
                "`{}` lies on a network disk ({kind}), where locks between processes can't be relied on",
                root.display()
            ),
            "move it to a disk of this machine",
        ))],
        None => vec![free_space(root)],
    }
}

/// A full disk stops every call, since none is let through without its entry.
fn free_space(root: &Path) -> Found {
    match free_bytes(root) {
        Some(free) => space(root, free),
        None => Found::ok("a disk of this machine"),
    }
}

fn space(root: &Path, free: u64) -> Found {
    const NONE: u64 = 5_000_000;
    const LITTLE: u64 = 100_000_000;
    let megabytes = free / 1_000_000;
    let remedy = "make room on it, or move the folder to a larger disk and name it with --dir";
    match free {
        ..NONE => Found::fail(Problem::new(
            "disk_full",
            format!(
                "the disk of `{}` is full ({megabytes} MB free): no entry can be written, so no call is let through",
                root.display()
            ),
            remedy,
        )),
        NONE..LITTLE => Found::warn(
            format!(
                "the disk of `{}` is nearly full ({megabytes} MB free): when it is full, no call is let through",
                root.display()
            ),
            remedy,
        ),
        LITTLE.. => Found::ok(format!("a disk of this machine, {megabytes} MB free")),
    }
}

#[cfg(unix)]
fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_path: &Path) -> Option<u64> {
    None
}

/// The kind of the network file system `path` lies on, where the system tells (`/proc/self/mounts`).
fn network_mount(path: &Path) -> Option<String> {
    const NETWORK: &[&str] = &[
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "fuse.sshfs",
        "afs",
        "ceph",
        "glusterfs",
        "davfs",
        "fuse.rclone",
    ];
    let real = path.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let row = |line: &str| {
        let mut words = line.split(' ').skip(1).map(str::to_owned);
        Some((words.next()?.replace("\\040", " "), words.next()?))
    };
    let (_, kind) = mounts
        .lines()
        .filter_map(row)
        .filter(|(point, _)| real.starts_with(point))
        .max_by_key(|(point, _)| point.len())?;
    NETWORK.contains(&kind.as_str()).then_some(kind)
}

/// Whether this user is one that nobody logs in as: a service's own, by its shell in `/etc/passwd`.
fn nobody_logs_in() -> bool {
    #[cfg(unix)]
    {
        let me = rustix::process::geteuid().as_raw().to_string();
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let row = users
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|row| row.get(2) == Some(&me.as_str()));
        let shell = row.and_then(|row| row.get(6).copied()).unwrap_or_default();
        shell.ends_with("/nologin") || shell.ends_with("/false")
    }
    #[cfg(not(unix))]
    false
}

fn missing_secret(account: &Account) -> Problem {
    let remedy = match account.as_str().split_once('/') {
        Some(("server", place)) => format!("`countersign secret set {place}`"),
        Some(("agent", name)) => {
            format!("`countersign agent revoke {name}`, then `countersign agent add {name}`")
        }
        _ => {
            "restore the secrets from a copy; without this one the executor can't go on".to_owned()
        }
    };
    Problem::new(
        "secret_missing",
        format!("the secret `{account}` is missing"),
        remedy,
    )
}

#[cfg(unix)]
fn open_to_others(path: &Path) -> Vec<Found> {
    use std::os::unix::fs::MetadataExt;
    let Ok(meta) = std::fs::symlink_metadata(path) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if meta.file_type().is_symlink() {
        found.push(Found::fail(crate::folder::FolderError::Unsafe {
            path: path.to_owned(),
            what: "is a symbolic link".to_owned(),
            remedy: "put the thing itself there; a link could point anywhere".to_owned(),
        }));
    } else if meta.mode() & 0o077 != 0 {
        found.push(Found::warn(
            format!(
                "`{}` is open to other users (mode {:o})",
                path.display(),
                meta.mode() & 0o777
            ),
            format!("chmod go-rwx '{}'", path.display()),
        ));
    }
    found
}

#[cfg(not(unix))]
fn open_to_others(_path: &Path) -> Vec<Found> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn a_disk_runs_full_by_steps() {
        for (free, level, words) in [
            (0, Level::Fail, "is full (0 MB free)"),
            (4_999_999, Level::Fail, "is full (4 MB free)"),
            (5_000_000, Level::Warn, "nearly full (5 MB free)"),
            (99_999_999, Level::Warn, "nearly full (99 MB free)"),
            (100_000_000, Level::Ok, "100 MB free"),
        ] {
            let found = space(Path::new("/x"), free);
            assert_eq!(found.level, level, "{free}");
            assert!(found.what.contains(words), "{}", found.what);
        }
        #[cfg(unix)]
        assert!(free_bytes(&std::env::temp_dir()).is_some());
    }
}
