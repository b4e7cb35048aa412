//! Which command changed executor.json: each notes it in `run/settings.by` before it replaces the file, so that whichever process
//! records the change can say so. A hint, as open to this user's programs as executor.json itself. Refuses to record anything.
//!
//! ```text
//! <SHA-256 of the file before> <SHA-256 after> <the command>\n      oldest first
//! ```

use std::fs;

use sha2::{Digest, Sha256};

use crate::folder::{Folder, FolderError, read_own, replace};

/// The file in `run/`.
const FILE: &str = "settings.by";
/// Changes that are kept: more than are made while no executor runs, mostly.
const MOST: usize = 32;
/// Commands that are named in one answer; of more, the last.
const NAMED: usize = 8;
/// Characters of a command's words.
const WORDS: usize = 120;
/// Bytes of the file that are read.
const BYTES: u64 = 32 << 10;

/// Whom nobody knows.
const UNKNOWN: &str = "unknown";

/// SHA-256 of the file's bytes, in hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

/// Notes that `by` is about to make `after` of `before`. Called under the settings' lock.
///
/// # Errors
/// When the file can't be replaced.
pub fn announce(folder: &Folder, before: &[u8], after: &[u8], by: &str) -> Result<(), FolderError> {
    let mut lines = lines(folder);
    let words: String = crate::commands::plain(by).chars().take(WORDS).collect();
    lines.push(format!("{} {} {words}", digest(before), digest(after)));
    let first = lines.len().saturating_sub(MOST);
    let text = lines[first..].join("\n") + "\n";
    replace(&folder.run().join(FILE), text.as_bytes())
}

/// Who made the file with the digest `to` of the one recorded last, whose digest is `from` where there is one: the commands in
/// their order, with `unknown` in front where they do not explain all of it.
#[must_use]
pub fn authors(folder: &Folder, from: Option<&str>, to: &str) -> String {
    let (mut named, mut at) = (Vec::new(), to.to_owned());
    for line in lines(folder).iter().rev() {
        let mut parts = line.splitn(3, ' ');
        let (Some(before), Some(after), Some(words)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        if after != at {
            continue;
        }
        named.push(words.to_owned());
        at = before.to_owned();
        if from.is_none_or(|from| from == at) {
            break;
        }
    }
    let explained = !named.is_empty() && from.is_none_or(|from| from == at);
    let more = named.len() > NAMED;
    named.truncate(NAMED);
    if !explained || more {
        named.push(if explained { "…" } else { UNKNOWN }.to_owned());
    }
    named.reverse();
    named.join("; ")
}

/// The lines that are there; none where the file can't be read.
fn lines(folder: &Folder) -> Vec<String> {
    let path = folder.run().join(FILE);
    match read_own(&path, BYTES) {
        Ok((bytes, _)) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let lines = text.lines().map(crate::commands::plain);
            lines.filter(|line| !line.is_empty()).collect()
        }
        Err(_) => {
            // Whatever lies there is no list of ours: a new one takes its place.
            let _ = fs::remove_file(&path);
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_named_as_far_as_they_explain_the_file() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::resolve(Some(&temp.path().join("dir"))).unwrap();
        folder.create().unwrap();
        let check = |from: Option<&[u8]>, to: &[u8], expected: &str| {
            let from = from.map(digest);
            assert_eq!(authors(&folder, from.as_deref(), &digest(to)), expected);
        };
        check(None, b"1", "unknown");
        announce(&folder, b"0", b"1", "init").unwrap();
        announce(&folder, b"1", b"2", "server add files").unwrap();
        announce(&folder, b"2", b"3", "agent add bar").unwrap();
        check(None, b"1", "init");
        check(None, b"3", "agent add bar");
        check(Some(b"1"), b"3", "server add files; agent add bar");
        check(Some(b"2"), b"3", "agent add bar");
        // Somebody's editor in between, before, after.
        announce(&folder, b"3 by hand", b"4", "off").unwrap();
        check(Some(b"3"), b"4", "unknown; off");
        check(Some(b"2"), b"2 by hand", "unknown");
        // A change that was announced and never made explains nothing.
        announce(&folder, b"4", b"5", "never made").unwrap();
        check(Some(b"3 by hand"), b"4", "off");
        // There and back again.
        announce(&folder, b"4", b"4 off", "off").unwrap();
        announce(&folder, b"4 off", b"4", "on").unwrap();
        announce(&folder, b"4", b"6", "tool set files x").unwrap();
        check(Some(b"4"), b"6", "tool set files x");
    }

    #[test]
    fn the_list_is_bounded_and_nonsense_is_no_list() {
        let temp = tempfile::tempdir().unwrap();
        let folder = Folder::resolve(Some(&temp.path().join("dir"))).unwrap();
        folder.create().unwrap();
        for n in 0..100_u8 {
            let by = format!("command {n}\n{}", "x".repeat(1000));
            announce(&folder, &[n], &[n + 1], &by).unwrap();
        }
        assert_eq!(lines(&folder).len(), MOST);
        let many = authors(&folder, Some(&digest(&[80])), &digest(&[100]));
        assert!(
            many.starts_with("…; command 92") && many.len() < 1100,
            "{many}"
        );
        let lost = authors(&folder, Some(&digest(&[10])), &digest(&[100]));
        assert!(lost.starts_with("unknown; "), "{lost}");
        fs::write(folder.run().join(FILE), [0xff; 40_000]).unwrap();
        assert_eq!(authors(&folder, None, &digest(&[100])), "unknown");
        announce(&folder, &[1], &[2], "off").unwrap();
        assert_eq!(authors(&folder, None, &digest(&[2])), "off");
    }
}
