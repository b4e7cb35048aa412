//! Names in a book's folder and the text file `BOOK`. Refuses to know what segments hold.

use std::path::{Path, PathBuf};

use crate::entry::is_time;
use crate::error::BookError;
use crate::files;
use crate::note::Vkey;
use crate::origin::Origin;

const BOOK_HEAD: &str = "countersign book ";
const BOOK_VERSION: &str = "1";

/// The text file `BOOK`: which book this is.
///
/// ```text
/// countersign book 1
/// origin: countersign.localhost/book/…
/// vkey: countersign.localhost/book/…+1a2b3c4d+A…
/// created: 2026-11-30T17:00:00.000Z
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookFile {
    /// The origin.
    pub origin: Origin,
    /// The verifier key of the first checkpoint.
    pub vkey: Vkey,
    /// When it was made, RFC 3339.
    pub created: String,
}

/// The paths of a book.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub dir: PathBuf,
}

impl Layout {
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
        }
    }

    /// The book in `dir`, or in its subfolder `book/`.
    pub(crate) fn find(dir: &Path) -> Self {
        let inner = Self::new(&dir.join("book"));
        let there = |path: &Path| files::exists(path).unwrap_or(false);
        if !there(&dir.join("BOOK")) && there(&inner.book()) {
            inner
        } else {
            Self::new(dir)
        }
    }

    pub(crate) fn book(&self) -> PathBuf {
        self.dir.join("BOOK")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.dir.join("LOCK")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.dir.join("journal")
    }

    pub(crate) fn segment(&self, first: u64) -> PathBuf {
        self.journal().join(format!("{first:020}.jsonl"))
    }

    pub(crate) fn vault(&self) -> PathBuf {
        self.dir.join("vault")
    }

    pub(crate) fn vault_segment(&self, number: u64) -> PathBuf {
        self.vault().join(format!("{number:020}.seg"))
    }

    /// The numbers of the vault's segments there are, ascending.
    pub(crate) fn vault_segments(&self) -> Result<Vec<u64>, BookError> {
        numbers(&self.vault(), ".seg")
    }

    pub(crate) fn tlog(&self) -> PathBuf {
        self.dir.join("tlog")
    }

    pub(crate) fn quarantine(&self) -> PathBuf {
        self.dir.join("quarantine")
    }

    /// The first indexes of the segments there are, ascending. Other names are not looked at.
    pub(crate) fn segments(&self) -> Result<Vec<u64>, BookError> {
        numbers(&self.journal(), ".jsonl")
    }
}

/// The numbers that files in a folder are named by: 20 digits and a suffix.
fn numbers(folder: &Path, suffix: &str) -> Result<Vec<u64>, BookError> {
    let number = |name: &String| {
        let digits = name.strip_suffix(suffix)?;
        let digits =
            (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then_some(digits)?;
        digits.parse::<u64>().ok()
    };
    Ok(files::list(folder)?.iter().filter_map(number).collect())
}

impl BookFile {
    /// Reads `BOOK` in the folder `dir`.
    ///
    /// # Errors
    /// [`BookError::NotABook`], [`BookError::Newer`], [`BookError::Io`].
    pub fn read(dir: &Path) -> Result<Self, BookError> {
        let path = Layout::new(dir).book();
        if !files::exists(&path)? {
            return Err(BookError::NotABook {
                path: dir.to_owned(),
                why: "it has no file `BOOK`".into(),
            });
        }
        let wrong = |why: &str| BookError::NotABook {
            path: path.clone(),
            why: why.into(),
        };
        let text = String::from_utf8(files::read_small(&path, 4096)?)
            .map_err(|_| wrong("it is not text"))?;
        let mut lines = text.split('\n');
        match lines.next().and_then(|line| line.strip_prefix(BOOK_HEAD)) {
            Some(BOOK_VERSION) => {}
            Some(version)
                if (1..10).contains(&version.len())
                    && version.bytes().all(|b| b.is_ascii_digit()) =>
            {
                return Err(BookError::Newer {
                    path,
                    found: version.to_owned(),
                });
            }
            _ => return Err(wrong("its first line is not `countersign book 1`")),
        }
        let mut member = |name: &str| {
            lines
                .next()
                .and_then(|line| line.strip_prefix(name))
                .map(str::to_owned)
        };
        let origin = member("origin: ").ok_or_else(|| wrong("its line `origin:` is missing"))?;
        let vkey = member("vkey: ").ok_or_else(|| wrong("its line `vkey:` is missing"))?;
        let created = member("created: ").ok_or_else(|| wrong("its line `created:` is missing"))?;
        if !is_time(&created) {
            return Err(wrong(
                "its line `created:` has no time in UTC with milliseconds",
            ));
        }
        let book = Self {
            origin: Origin::parse(&origin).map_err(|error| wrong(&error.to_string()))?,
            vkey: Vkey::parse(&vkey).map_err(|error| wrong(&error.to_string()))?,
            created,
        };
        // One way to write it only.
        if book.vkey.name() != book.origin.as_str() || book.to_text() != text {
            return Err(wrong(
                "it is not four lines that end, or its key is of another origin",
            ));
        }
        Ok(book)
    }

    pub(crate) fn to_text(&self) -> String {
        format!(
            "{BOOK_HEAD}{BOOK_VERSION}\norigin: {}\nvkey: {}\ncreated: {}\n",
            self.origin, self.vkey, self.created
        )
    }
}
