//! What an act on the record that was cut short has left, beside the book and in the secret store: each in words, with what to do.
//! Takes nothing away.

use countersign_book::Vkey;

use crate::commands::Context;
use crate::secrets::Account;

/// One thing that was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// What it is.
    pub what: String,
    /// What to do.
    pub todo: &'static str,
}

const OPENED: &str = "nothing: the next process that opens the book for writing finishes it; starting an executor does, and so does the same command";
const NEXT_ERA: &str = "nothing: the next `countersign book new-era` removes it";

/// Files, in order: where, what it is, what to do.
const FILES: &[(&str, &str, &str)] = &[
    (
        "book/removal.pending",
        "an erasure or a pruning was begun and may be unfinished",
        OPENED,
    ),
    (
        "book/quarantine/pending",
        "bytes were set aside and are not on record yet",
        OPENED,
    ),
];

/// Looks for what was left. `keys` are the signing keys at hand with where they are kept, `in_force` is the book's key.
#[must_use]
pub fn leftovers(
    context: &Context,
    keys: &[(Account, Vkey)],
    in_force: Option<&Vkey>,
) -> Vec<Leftover> {
    let root = context.folder.root();
    let there = |name: &str| std::fs::symlink_metadata(root.join(name)).is_ok();
    let left = |what: String, todo| Leftover { what, todo };
    let mut found: Vec<Leftover> = FILES
        .iter()
        .filter(|(name, ..)| there(name))
        .map(|(name, what, todo)| left(format!("`{name}`: {what}"), todo))
        .collect();
    let run = std::fs::metadata(context.folder.run());
    if run.is_ok_and(|found| !found.is_dir()) {
        let what = "`run`: it is not a folder, so no executor can start";
        found.push(left(
            what.to_owned(),
            "move it away, then start the client again",
        ));
    }
    let era = there("era.json");
    if there("book.new") && !era {
        let what = "`book.new`: a part of a book that was never put in its place";
        found.push(left(what.to_owned(), NEXT_ERA));
    }
    for (account, vkey) in keys {
        if *account == Account::book_signing_next() {
            let (what, todo) = match Some(vkey) == in_force {
                true => (
                    "a change of the signing key was cut short after the book had taken the new key, which executors find where it is",
                    "run `countersign key rotate` again: it finishes that and makes no other key",
                ),
                false => (
                    "a signing key was made and never put in force",
                    "nothing: the next `countersign key rotate` replaces it",
                ),
            };
            found.push(left(format!("the secret `{account}`: {what}"), todo));
        } else if *account == Account::book_signing_era() && !era {
            let what = "the key of a book that was never put in its place";
            found.push(left(format!("the secret `{account}`: {what}"), NEXT_ERA));
        }
    }
    found
}
