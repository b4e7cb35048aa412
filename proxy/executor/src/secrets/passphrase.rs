//! Where the passphrase of `secrets.enc` comes from: a file, a descriptor or a prompt; never a command line or the environment itself.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{Interaction, SecretsError};

/// A passphrase: wiped when dropped, never shown.
pub struct Passphrase(Zeroizing<Vec<u8>>);

/// Where a passphrase comes from.
#[derive(Debug, PartialEq, Eq)]
pub enum PassphraseSource {
    /// A file's first line.
    File(PathBuf),
    /// An open descriptor's first line.
    Descriptor(u32),
    /// A person.
    Prompt,
}

/// The variable that names the file with the passphrase.
pub const PASSPHRASE_FILE: &str = "COUNTERSIGN_PASSPHRASE_FILE";

const LONGEST: u64 = 4096;

impl PassphraseSource {
    /// Chooses by `COUNTERSIGN_PASSPHRASE_FILE`, `COUNTERSIGN_PASSPHRASE_FD`, then a prompt where one may be shown.
    pub fn from_environment(interaction: Interaction) -> Result<PassphraseSource, SecretsError> {
        // A prompt uses the terminal itself, so it works while standard input is a pipe.
        let terminal = std::io::stdin().is_terminal() || std::io::stderr().is_terminal();
        PassphraseSource::choose(
            env::var_os(PASSPHRASE_FILE),
            env::var_os("COUNTERSIGN_PASSPHRASE_FD"),
            if terminal {
                interaction
            } else {
                Interaction::None
            },
        )
    }

    fn choose(
        file: Option<OsString>,
        fd: Option<OsString>,
        interaction: Interaction,
    ) -> Result<Self, SecretsError> {
        match (file, fd) {
            (Some(file), None) => Ok(PassphraseSource::File(file.into())),
            (None, Some(fd)) => match fd.to_str().and_then(|fd| fd.parse().ok()) {
                Some(fd) => Ok(PassphraseSource::Descriptor(fd)),
                None => Err(SecretsError::NoPassphrase(
                    "COUNTERSIGN_PASSPHRASE_FD is not a descriptor's number".to_owned(),
                )),
            },
            (Some(_), Some(_)) => Err(SecretsError::NoPassphrase(
                "COUNTERSIGN_PASSPHRASE_FILE and COUNTERSIGN_PASSPHRASE_FD are both set".to_owned(),
            )),
            (None, None) if interaction == Interaction::Allowed => Ok(PassphraseSource::Prompt),
            (None, None) => Err(SecretsError::NoPassphrase(
                "nobody is here to be asked, and nothing in the environment names one".to_owned(),
            )),
        }
    }

    /// Reads the passphrase.
    pub fn read(&self) -> Result<Passphrase, SecretsError> {
        match self {
            PassphraseSource::File(path) => {
                let what = format!("`{}`", path.display());
                let file = File::open(path)
                    .map_err(|error| SecretsError::NoPassphrase(format!("{what}: {error}")))?;
                if open_to_others(&file) {
                    // Where nobody reads, nothing can be said; `doctor` fails it too.
                    let _ = writeln!(
                        std::io::stderr(),
                        "warning: other users can read the passphrase in {what}: `chmod 600 {}`",
                        path.display()
                    );
                }
                first_line(file, &what)
            }
            PassphraseSource::Descriptor(fd) => {
                let what = format!("descriptor {fd}");
                let file = File::open(format!("/dev/fd/{fd}"))
                    .map_err(|error| SecretsError::NoPassphrase(format!("{what}: {error}")))?;
                first_line(file, &what)
            }
            PassphraseSource::Prompt => prompt("passphrase of this executor: "),
        }
    }

    /// The passphrase's file, where it is one that other users of this machine can read or change.
    pub fn exposed(&self) -> Option<&Path> {
        match self {
            PassphraseSource::File(path) => File::open(path)
                .is_ok_and(|file| open_to_others(&file))
                .then_some(path),
            _ => None,
        }
    }

    /// Reads a passphrase to be set: a person types it twice.
    pub fn read_new(&self) -> Result<Passphrase, SecretsError> {
        if *self != PassphraseSource::Prompt {
            return self.read();
        }
        let first = prompt("new passphrase of this executor: ")?;
        let second = prompt("the same again: ")?;
        if first.bytes() == second.bytes() {
            return Ok(first);
        }
        Err(SecretsError::NoPassphrase(
            "the two were different".to_owned(),
        ))
    }
}

impl Passphrase {
    /// Takes the bytes; an empty passphrase is none.
    pub fn new(bytes: Vec<u8>) -> Result<Passphrase, SecretsError> {
        let bytes = Zeroizing::new(bytes);
        if bytes.is_empty() {
            return Err(SecretsError::NoPassphrase("it is empty".to_owned()));
        }
        Ok(Passphrase(bytes))
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(..)")
    }
}

fn first_line(source: impl Read, what: &str) -> Result<Passphrase, SecretsError> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST as usize));
    source
        .take(LONGEST)
        .read_to_end(&mut bytes)
        .map_err(|error| SecretsError::NoPassphrase(format!("{what}: {error}")))?;
    let line = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Err(SecretsError::NoPassphrase(format!(
            "{what} holds none in its first line"
        )));
    }
    Passphrase::new(line.to_vec())
}

#[cfg(unix)]
fn open_to_others(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    // A pipe handed over as /dev/fd/N is nobody else's, whatever its mode says.
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn open_to_others(_file: &File) -> bool {
    false
}

fn prompt(text: &str) -> Result<Passphrase, SecretsError> {
    let typed = rpassword::prompt_password(text)
        .map_err(|error| SecretsError::NoPassphrase(error.to_string()))?;
    Passphrase::new(typed.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_chosen_and_never_guessed() {
        let os = |text: &str| Some(OsString::from(text));
        let cases = [
            (
                os("/p"),
                None,
                Interaction::None,
                Ok(PassphraseSource::File("/p".into())),
            ),
            (
                None,
                os("3"),
                Interaction::None,
                Ok(PassphraseSource::Descriptor(3)),
            ),
            (
                None,
                os("x"),
                Interaction::Allowed,
                Err("not a descriptor's number"),
            ),
            (os("/p"), os("3"), Interaction::Allowed, Err("both set")),
            (
                None,
                None,
                Interaction::Allowed,
                Ok(PassphraseSource::Prompt),
            ),
            (
                None,
                None,
                Interaction::None,
                Err("nobody is here to be asked"),
            ),
        ];
        for (file, fd, interaction, expected) in cases {
            match (PassphraseSource::choose(file, fd, interaction), expected) {
                (Ok(got), Ok(want)) => assert_eq!(got, want),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
                (got, want) => panic!("{got:?}, expected {want:?}"),
            }
        }
    }

    #[test]
    fn the_first_line_counts() {
        let cases: [(&[u8], Option<&[u8]>); 6] = [
            (b"pw\n", Some(b"pw")),
            (b"pw", Some(b"pw")),
            (b"p w \r\nx\n", Some(b"p w ")),
            (b"", None),
            (b"\n", None),
            (b"\nx", None),
        ];
        for (bytes, expected) in cases {
            let got = first_line(bytes, "test");
            assert_eq!(
                got.ok().map(|p| p.bytes().to_vec()),
                expected.map(<[u8]>::to_vec)
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_others_can_read_is_told_from_one_s_own() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, exposed) in [
            (0o600, false),
            (0o400, false),
            (0o640, true),
            (0o604, true),
            (0o620, true),
        ] {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let source = PassphraseSource::File(file.path().to_owned());
            assert_eq!(source.exposed().is_some(), exposed, "{mode:o}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_descriptor_is_read() {
        use std::os::fd::AsRawFd;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"from fd\n").unwrap();
        let source = PassphraseSource::Descriptor(u32::try_from(file.as_raw_fd()).unwrap());
        // A regular file reopened through /dev/fd starts at its first byte.
        assert_eq!(source.read().unwrap().bytes(), b"from fd");
    }
}
