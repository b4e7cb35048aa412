//! The pin: the signed head this machine remembers outside of the book, so that a cut end and an old backup are found. Owns its
//! text form and the comparison. Refuses to know where it is kept.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::{BookError, Damage, RolledBack};
use crate::files::{self, Lines};
use crate::finding::{Finding, FindingKind};
use crate::journal::chain::{Chain, read_checkpoint};
use crate::journal::layout::Layout;
use crate::journal::segment::{CP, SegmentLine};
use crate::origin::Origin;
use crate::tree::Hash;

/// A head that was signed and on disk when it was remembered. It may lag behind the book; it never names what was not written.
///
/// ```text
/// countersign pin 1
/// <origin>
/// <size, decimal>
/// <root, base64>
/// <key id, 8 hexadecimal digits>
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The book's origin.
    pub origin: Origin,
    /// Entries, at least 1.
    pub size: u64,
    /// The root of their tree.
    pub root: Hash,
    /// The id of the key that signed the checkpoint.
    pub key: [u8; 4],
}

/// Why a text is not a pin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// A newer version wrote it.
    #[error("the pin is of a version this one does not know (`{0}`)")]
    Newer(String),
    /// Nothing this program wrote.
    #[error("the pin is not what countersign wrote")]
    Malformed,
}

/// What hears of each new signed head once it is on disk. Called by the thread that writes the book, so it must not wait.
#[derive(Clone, Default)]
pub struct HeadListener(Option<Arc<dyn Fn(Pin) + Send + Sync>>);

const HEAD: &str = "countersign pin ";
const VERSION: &str = "1";

impl Pin {
    /// Reads the text form, strictly.
    ///
    /// # Errors
    /// [`PinError`].
    pub fn parse(text: &str) -> Result<Self, PinError> {
        let mut lines = text.split('\n');
        match lines.next().and_then(|line| line.strip_prefix(HEAD)) {
            Some(VERSION) => {}
            Some(version)
                if (1..10).contains(&version.len())
                    && version.bytes().all(|b| b.is_ascii_digit()) =>
            {
                return Err(PinError::Newer(version.to_owned()));
            }
            _ => return Err(PinError::Malformed),
        }
        let pin = (|| {
            let origin = Origin::parse(lines.next()?).ok()?;
            let size = lines.next()?.parse().ok()?;
            let root = Hash(STANDARD.decode(lines.next()?).ok()?.try_into().ok()?);
            let key = data_encoding::HEXLOWER.decode(lines.next()?.as_bytes());
            let key = key.ok()?.try_into().ok()?;
            Some(Self {
                origin,
                size,
                root,
                key,
            })
        })();
        pin.filter(|pin| pin.size > 0 && pin.to_string() == text)
            .ok_or(PinError::Malformed)
    }

    /// Compares the head of a book that was read with what is remembered.
    ///
    /// # Errors
    /// [`BookError::RolledBack`]; [`BookError::Damaged`] where the checkpoint to compare with can't be read.
    pub(crate) fn check(&self, layout: &Layout, chain: &Chain) -> Result<(), BookError> {
        let back = |found| {
            Err(BookError::RolledBack {
                pinned: self.size,
                found,
            })
        };
        if self.origin != chain.origin {
            return back(RolledBack::OtherBook {
                origin: self.origin.to_string(),
            });
        }
        let size = chain.size();
        if size < self.size {
            return back(RolledBack::Shorter { size });
        }
        let root = if size == self.size {
            Some(chain.head.range.root())
        } else {
            match find(layout, self.size)? {
                Found::Pruned => return Ok(()),
                Found::Root(root) => Some(root),
                Found::NoCheckpoint => None,
            }
        };
        match root {
            Some(root) if root == self.root => Ok(()),
            _ => back(RolledBack::Rewritten),
        }
    }

    /// What is wrong with a verified book by what is remembered of it. Of a book that could not be read to its end (`end` says why)
    /// nothing can be said.
    pub(crate) fn compare(
        &self,
        layout: &Layout,
        chain: &Chain,
        end: Option<&Finding>,
    ) -> Result<Option<Finding>, BookError> {
        if end.is_some_and(Finding::is_break) {
            return Ok(None);
        }
        let found = match self.check(layout, chain) {
            Ok(()) => return Ok(None),
            Err(BookError::RolledBack { found, .. }) => found,
            Err(error) => return Err(error),
        };
        let kind = match &found {
            RolledBack::Shorter { .. } => FindingKind::Truncated,
            RolledBack::Rewritten => FindingKind::Rewritten,
            RolledBack::OtherBook { .. } => FindingKind::Replaced,
        };
        Ok(Some(Finding {
            kind,
            file: layout.journal(),
            line: 0,
            index: chain.size(),
            what: format!("this machine remembers {} entries, and {found}", self.size),
        }))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = STANDARD.encode(self.root.0);
        let key = data_encoding::HEXLOWER.encode(&self.key);
        write!(
            f,
            "{HEAD}{VERSION}\n{}\n{}\n{root}\n{key}\n",
            self.origin, self.size
        )
    }
}

impl HeadListener {
    /// Calls `hear` with each new head.
    pub fn new(hear: impl Fn(Pin) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hear)))
    }

    /// Tells it a head.
    pub fn tell(&self, pin: Pin) {
        if let Some(hear) = &self.0 {
            hear(pin);
        }
    }
}

impl fmt::Debug for HeadListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "HeadListener(..)"
        } else {
            "HeadListener(nobody)"
        })
    }
}

enum Found {
    Root(Hash),
    NoCheckpoint,
    /// The segment that held it went on record.
    Pruned,
}

/// The root the journal states for `size` entries: from the first line of the segment that begins there, or from the checkpoint
/// lines of the one segment that can hold it.
fn find(layout: &Layout, size: u64) -> Result<Found, BookError> {
    let segments = layout.segments()?;
    let after = segments.partition_point(|first| *first < size);
    let begins = segments.get(after) == Some(&size);
    let first = match (begins, after.checked_sub(1)) {
        (true, _) => size,
        (false, Some(at)) => segments[at],
        (false, None) => return Ok(Found::Pruned),
    };
    let path = layout.segment(first);
    let io = || BookError::io("read", &path);
    let damaged = |line, what: String| {
        BookError::Damaged(Damage {
            file: path.clone(),
            line,
            index: size,
            what,
        })
    };
    let mut lines = Lines::at(&files::open_read(&path)?, 0, 0).map_err(io())?;
    let mut next = first;
    while let Some(line) = lines.next().map_err(io())? {
        if line.number == 1 && begins {
            let stated = SegmentLine::parse(lines.bytes()).and_then(|line| line.tip());
            return match stated {
                Ok(tip) => Ok(Found::Root(tip.range.root())),
                Err(flaw) => Err(damaged(1, flaw.what)),
            };
        }
        if lines.bytes().starts_with(b"{") {
            next += 1;
        } else if let Some(encoded) = lines.bytes().strip_prefix(CP)
            && next == size
        {
            let (_, checkpoint) =
                read_checkpoint(encoded).map_err(|what| damaged(line.number, what))?;
            return Ok(match checkpoint.size == size {
                true => Found::Root(checkpoint.root),
                false => Found::NoCheckpoint,
            });
        }
        if next > size {
            break;
        }
    }
    Ok(Found::NoCheckpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin() -> Pin {
        Pin {
            origin: Origin::from_id([3; 16]),
            size: 42,
            root: Hash([7; 32]),
            key: [1, 2, 3, 0xff],
        }
    }

    #[test]
    fn the_text_form_is_read_back_and_nothing_else_is() {
        let text = pin().to_string();
        assert_eq!(Pin::parse(&text), Ok(pin()));
        for (from, to) in [
            ("42", "0"),
            ("42", "042"),
            ("42", "+42"),
            ("010203ff", "010203FF"),
            ("010203ff", "0102"),
            ("010203ff\n", "010203ff"),
            ("010203ff\n", "010203ff\n\n"),
            ("countersign pin 1", "countersign pin"),
            ("countersign pin 1", "countersign pin x"),
        ] {
            let other = text.replacen(from, to, 1);
            assert_ne!(other, text);
            assert_eq!(Pin::parse(&other), Err(PinError::Malformed), "{other}");
        }
        let newer = text.replacen("pin 1", "pin 2", 1);
        assert_eq!(Pin::parse(&newer), Err(PinError::Newer("2".into())));
    }
}
