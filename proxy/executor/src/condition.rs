//! The states a book can be in, each in words a person understands and in words for a model: one table. Knows how an error of the
//! book becomes a state; refuses to look at the book itself.

use countersign_book::BookError;
use countersign_gate::ports::Held;
use serde::Serialize;

/// The state of a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Condition {
    /// Whole up to its end, as far as opening looks.
    Ok,
    /// Something after the last signature.
    UnsignedTail,
    /// Another book was begun and is not in its place.
    EraUnfinished,
    /// Another key than the book's.
    WrongKey,
    /// No key.
    KeyMissing,
    /// Older, shorter or other than remembered.
    RolledBack,
    /// Whole segments are not there.
    Removed,
    /// Changed after signing.
    Damaged,
    /// Not there.
    Gone,
    /// There, and can't be read.
    Unreadable,
    /// Of a later version.
    Newer,
}

/// What is said of a state.
pub struct Words {
    /// Its name, as `book status` prints it.
    pub name: &'static str,
    /// What it means, for a person.
    pub means: &'static str,
    /// What was left alone.
    pub untouched: &'static str,
    /// What to do; empty where nothing is.
    pub todo: &'static str,
    /// The same in half a sentence, for the model whose call is refused.
    model: &'static str,
}

const NOTHING: &str =
    "nothing was changed, nothing was added, and no call is let through while it is so";

impl Condition {
    /// Why the book can't be opened or written, where that is a state and not a passing failure.
    #[must_use]
    pub fn of(error: &BookError) -> Option<Self> {
        Some(match error {
            BookError::Damaged(_) | BookError::AlreadySigned { .. } => Self::Damaged,
            BookError::RolledBack { .. } => Self::RolledBack,
            BookError::Removed { .. } => Self::Removed,
            BookError::WrongKey { .. } | BookError::WrongVaultKey => Self::WrongKey,
            BookError::NotABook { .. } | BookError::Gone { .. } => Self::Gone,
            BookError::Newer { .. } => Self::Newer,
            BookError::Io { .. } => Self::Unreadable,
            _ => return None,
        })
    }

    /// What is said of it.
    #[must_use]
    pub fn words(self) -> Words {
        let row = |name, means, untouched, todo, model| Words {
            name,
            means,
            untouched,
            todo,
            model,
        };
        match self {
            Self::Ok => row(
                "OK",
                "the book opens, its end is signed, and its parts follow each other; `countersign book verify` checks every entry",
                "",
                "",
                "the book is well",
            ),
            Self::UnsignedTail => row(
                "UNSIGNED_TAIL",
                "after the last signature lies something that nobody acknowledged: what a crash left, or what somebody put there",
                "the signed part is whole and is not touched; what follows it will never be signed",
                "nothing: the next process that opens the book sets these bytes aside in `quarantine` and records that",
                "the book has an unsigned end",
            ),
            Self::Damaged => row(
                "DAMAGED",
                "something in the book is not what was signed: a file was edited, or the disk lost or changed bytes",
                NOTHING,
                "`countersign book verify` names the first bad place; restore the book from its copy, or begin a new era with \
                 `countersign book new-era`",
                "the book is damaged",
            ),
            Self::RolledBack => row(
                "ROLLED_BACK",
                "the book is not the one this machine remembers: an old backup was put back, or somebody cut off or rewrote its end",
                NOTHING,
                "put the newer book back, or restore it from its copy; if the old one is meant, begin a new era with \
                 `countersign book new-era`",
                "the book is older than this machine remembers",
            ),
            Self::Removed => row(
                "REMOVED",
                "whole files of the book are missing, and the entries in them with it",
                NOTHING,
                "put the missing files back, or restore the book from its copy; or begin a new era with `countersign book new-era`",
                "files of the book are missing",
            ),
            Self::KeyMissing => row(
                "KEY_MISSING",
                "the secret store has no key for this book, so nothing can be signed",
                "no new key was made, and no call is let through while it is so",
                "restore the secrets from a copy; if the key is lost, begin a new era with `countersign book new-era`",
                "the book's key is missing",
            ),
            Self::EraUnfinished => row(
                "ERA_UNFINISHED",
                "`countersign book new-era` began another book and did not come to its end",
                "no book was deleted, and no executor starts while it is so",
                "run `countersign book new-era` again: it goes on where it stopped, or says why it can't",
                "a new book was begun and is not in its place",
            ),
            Self::WrongKey => row(
                "WRONG_KEY",
                "the key in the secret store is not this book's: the book or the secrets are another executor's or of another time",
                "no new key was made, nothing was added, and no call is let through while it is so",
                "put the book and the secrets back that belong together; or begin a new era with `countersign book new-era`",
                "the key at hand is not the book's",
            ),
            Self::Gone => row(
                "GONE",
                "the book is not there, or was taken away while it was open",
                "no new book was made, and no call is let through while it is so",
                "put the folder `book` back, or restore it from its copy",
                "the book is not there",
            ),
            Self::Unreadable => row(
                "UNREADABLE",
                "the system does not let the book be read or written",
                NOTHING,
                "look at the disk and at the rights of the folder `book`, then try again",
                "the book's files can't be read or written",
            ),
            Self::Newer => row(
                "NEWER",
                "a newer version of countersign wrote this book",
                NOTHING,
                "start the newer version; end the processes of this one first",
                "a newer version of the executor wrote the book",
            ),
        }
    }

    /// The exit code of `book status`: the verdicts' of verification.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::UnsignedTail => 13,
            Self::Damaged | Self::Removed | Self::Gone => 31,
            Self::RolledBack => 32,
            Self::WrongKey => 35,
            Self::KeyMissing | Self::Newer => 40,
            Self::Unreadable | Self::EraUnfinished => 2,
        }
    }

    /// What the gate tells the model whose call it refuses.
    #[must_use]
    pub fn held(self) -> Held {
        let words = self.words();
        Held {
            state: words.name,
            sentence: words.model,
            restart: self == Self::Newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_says_what_it_means_what_was_left_alone_and_what_to_do() {
        use Condition as C;
        let all = [
            C::UnsignedTail,
            C::EraUnfinished,
            C::WrongKey,
            C::KeyMissing,
            C::RolledBack,
            C::Removed,
            C::Damaged,
            C::Gone,
            C::Unreadable,
            C::Newer,
        ];
        for condition in all {
            let words = condition.words();
            for text in [words.means, words.untouched, words.todo, words.model] {
                assert!(text.len() > 10 && !text.ends_with('.'), "{condition:?}");
            }
            assert_ne!(condition.exit_code(), 0);
            let json = serde_json::to_string(&condition).unwrap();
            assert_eq!(json, format!("\"{}\"", words.name));
        }
        assert_eq!(C::Ok.exit_code(), 0);
    }
}
