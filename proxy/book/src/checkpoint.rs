//! The checkpoint of a log (C2SP tlog-checkpoint): origin, size, root, nothing else. Refuses extension lines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::note::{Note, NoteError};
use crate::tree::Hash;

/// What a checkpoint note says.
///
/// ```text
/// <origin>
/// <size, decimal>
/// <root, base64>
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The log's origin.
    pub origin: String,
    /// The number of entries.
    pub size: u64,
    /// The root of their tree.
    pub root: Hash,
}

impl Checkpoint {
    /// Reads the body of a note.
    ///
    /// # Errors
    /// When it is not exactly the three lines.
    pub fn from_note(note: &Note) -> Result<Self, NoteError> {
        let text = note.text().strip_suffix('\n').unwrap_or(note.text());
        let mut lines = text.split('\n');
        let (Some(origin), Some(size), Some(root), None) =
            (lines.next(), lines.next(), lines.next(), lines.next())
        else {
            return Err(NoteError::NotACheckpoint("it has not exactly three lines"));
        };
        let size = match size.parse::<u64>() {
            Ok(n) if n.to_string() == size => n,
            _ => {
                return Err(NoteError::NotACheckpoint(
                    "the size is not a plain decimal number",
                ));
            }
        };
        let root = STANDARD
            .decode(root)
            .ok()
            .and_then(|root| root.try_into().ok())
            .ok_or(NoteError::NotACheckpoint(
                "the root is not 32 bytes in base64",
            ))?;
        if origin.is_empty() {
            return Err(NoteError::NotACheckpoint("it has no origin"));
        }
        Ok(Self {
            origin: origin.to_owned(),
            size,
            root: Hash(root),
        })
    }

    /// The text that is signed.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "{}\n{}\n{}\n",
            self.origin,
            self.size,
            STANDARD.encode(self.root.0)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b3_only_three_lines_are_a_checkpoint() {
        let root = STANDARD.encode([1; 32]);
        let read = |text: &str| {
            let note = format!("{text}\n— k {}\n", STANDARD.encode([0; 68]));
            Checkpoint::from_note(&Note::parse(note.as_bytes()).unwrap())
        };
        let good = read(&format!("o\n12\n{root}\n")).unwrap();
        assert_eq!((good.size, good.text()), (12, format!("o\n12\n{root}\n")));
        for bad in [
            format!("o\n12\n{root}\nextension\n"),
            format!("o\n012\n{root}\n"),
            format!("o\n+1\n{root}\n"),
            format!("o\n18446744073709551616\n{root}\n"),
            "o\n12\nAAAA\n".to_owned(),
            format!("\n12\n{root}\n"),
            "o\n12\n".to_owned(),
        ] {
            assert!(read(&bad).is_err(), "{bad}");
        }
    }
}
