//! `book proof`: that one entry is in the signed tree, as a text that others can check offline. Writes only the files it is asked for.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use countersign_book::{BookError, Entry, Prover, Reader, TlogProof, escape};
use serde_json::{Value, json};

use crate::commands::{Context, Report, spelled};
use crate::folder::private_options;
use crate::problem::Problem;

use super::unreadable;

/// Which entry is proven.
#[derive(Debug, Args)]
pub struct ProofArgs {
    /// The entry's number, from 0
    #[arg(value_name = "N")]
    pub index: u64,
    /// Write the proof to FILE and the entry's line beside it, instead of showing them
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

pub(super) fn run(context: &Context, args: &ProofArgs) -> Result<Report, Problem> {
    let dir = context.folder.book();
    let failed = |error: BookError| unreadable(context, &dir, &error);
    let shown = Reader::open(&dir).and_then(|reader| reader.show(args.index));
    let shown = shown
        .map_err(failed)?
        .ok_or_else(|| unknown_entry(args.index))?;
    let (proof, vkey) = prove(&dir, &shown.entry).map_err(failed)?;
    let size = checked(&proof, &shown.entry, &vkey).map_err(failed)?;
    let words = format!(
        "entry {} is in the signed tree of {size} entries: proof of {} hashes, checked",
        proof.index,
        proof.hashes.len()
    );
    let mut data = json!({
        "index": proof.index, "size": size, "leaf": shown.entry.leaf.to_string(), "vkey": vkey.to_string(),
        "hashes": proof.hashes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "line": shown.entry.line, "proof": proof.to_text(),
    });
    let text = match &args.out {
        Some(out) => {
            let line = beside(out)?;
            write_new(out, proof.to_text().as_bytes())?;
            write_new(&line, shown.entry.line.as_bytes())?;
            data["files"] = json!({"proof": out, "line": line});
            format!(
                "{words}\nproof in `{}`, the entry's line in `{}`, without a line feed as it is hashed\nthe key to check it with: {vkey}\n",
                out.display(),
                line.display()
            )
        }
        None => {
            let neutral: String = proof
                .to_text()
                .lines()
                .map(|line| format!("{}\n", escape(line)))
                .collect();
            format!(
                "{neutral}\n{words}\nthe entry\n  {}\nthe key to check it with\n  {vkey}\n",
                spelled(&shown.entry.line)
            )
        }
    };
    Ok(Report::new(text, data))
}

/// A verified proof of the entry against the book's head.
pub(super) fn prove(
    dir: &Path,
    entry: &Entry,
) -> Result<(TlogProof, countersign_book::Vkey), BookError> {
    let mut prover = Prover::open(dir)?;
    let vkey = prover.key().clone();
    Ok((prover.prove(entry.index, entry.leaf)?, vkey))
}

/// The proof as a stranger checks it: the signature, the line, the path. The size of the tree.
pub(super) fn checked(
    proof: &TlogProof,
    entry: &Entry,
    vkey: &countersign_book::Vkey,
) -> Result<u64, BookError> {
    proof
        .verify(std::slice::from_ref(vkey), entry.line.as_bytes())
        .map(|checkpoint| checkpoint.size)
        .map_err(|error| {
            BookError::NotFound(format!("entry {} is not proven: {error}", entry.index))
        })
}

/// What `book show` says of the proof.
pub(super) fn summary(dir: &Path, entry: &Entry) -> Result<(String, Value), BookError> {
    let (proof, vkey) = prove(dir, entry)?;
    let size = checked(&proof, entry, &vkey)?;
    let words = format!(
        "checked: in the signed tree of {size} entries, proof of {} hashes",
        proof.hashes.len()
    );
    Ok((words, json!({"size": size, "hashes": proof.hashes.len()})))
}

pub(super) fn unknown_entry(index: u64) -> Problem {
    Problem::new(
        "entry_unknown",
        format!("the book has no signed entry {index}"),
        "`countersign book list` shows the latest",
    )
}

/// Where the entry's line goes: the same name ending in `.json`.
fn beside(out: &Path) -> Result<PathBuf, Problem> {
    let line = out.with_extension("json");
    if line == out || out.file_name().is_none() {
        return Err(Problem::new(
            "proof_file",
            format!(
                "`{}` can't be the proof's file: the entry's line goes to the same name ending in `.json`",
                out.display()
            ),
            "give a name like `12.tlog-proof`; nothing was written",
        ));
    }
    for path in [out, &line] {
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
    }
    Ok(line)
}

fn exists(path: &Path) -> Problem {
    Problem::new(
        "proof_file",
        format!("`{}` exists already and was left as it is", path.display()),
        "give another name, or move the file away",
    )
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Problem> {
    let written = private_options()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(path),
        _ => Problem::new(
            "proof_file",
            format!("can't write `{}`: {error}", path.display()),
            "look at the folder's rights and the space on the disk",
        ),
    })
}
