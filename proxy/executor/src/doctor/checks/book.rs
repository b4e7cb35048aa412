//! The book: the state opening would find it in, what is remembered of it, and, where that takes a moment only, every entry.

use std::path::Path;

use countersign_book::{PayloadCheck, Verdict, VerifyOptions};

use crate::commands::Context;
use crate::commands::book::own::own;
use crate::condition::Condition;
use crate::examine::examine;
use crate::problem::Problem;
use crate::settings::Settings;

use super::super::Found;

/// Bytes of a journal that are verified whole.
const A_MOMENT: u64 = 64 << 20;

/// The state of the book, as `book status` says it; a book that is well is verified, with the executor's own key where it can be had.
pub(in crate::doctor) fn book(context: &Context) -> Vec<Found> {
    let settings = context.settings().ok();
    let found = examine(context, settings.as_ref());
    let left = found.leftovers.into_iter();
    let left = left.map(|left| Found::warn(left.what, left.todo));
    if found.findings.is_empty() {
        let first = verified(context, settings.as_ref());
        return std::iter::once(first).chain(left).collect();
    }
    let told = found.findings.into_iter().map(|finding| {
        let words = finding.condition.words();
        match finding.condition {
            Condition::UnsignedTail => Found::warn(
                format!("{}: {}: {}", words.name, words.means, finding.what),
                words.todo,
            ),
            _ => Found::fail(Problem::new(
                "book",
                format!("{}: {}: {}", words.name, words.means, finding.what),
                words.todo,
            )),
        }
    });
    told.chain(left).collect()
}

/// What is remembered of the book outside of it.
pub(in crate::doctor) fn pin(context: &Context, settings: &Settings) -> Vec<Found> {
    let own = match own(context, settings) {
        Err(_) => {
            let what = "not looked at, since the secret store can't be asked";
            return vec![Found::warn(what, "")];
        }
        Ok(own) => own,
    };
    if let Some(pin) = own.remembered.pin() {
        return vec![Found::ok(format!("{} entries are remembered", pin.size))];
    }
    vec![Found::warn(
        own.remembered.warning().unwrap_or_default(),
        "compare the book with its copy, if there is one; the next start of the executor remembers how long it is from then on",
    )]
}

fn verified(context: &Context, settings: Option<&Settings>) -> Found {
    let dir = context.folder.book();
    let wrong = |what: String| {
        let remedy = "`countersign book verify` says where; restore it from the copy";
        Found::fail(Problem::new("book", what, remedy))
    };
    if bytes_in(&dir.join("journal")) > A_MOMENT {
        return Found::ok(
            "it opens, and its parts follow each other; it is large, so `countersign book verify` checks its entries",
        );
    }
    let own = settings.and_then(|settings| own(context, settings).ok());
    let reader = match countersign_book::Reader::open(&dir) {
        Ok(reader) => reader,
        Err(error) => return wrong(error.to_string()),
    };
    let signer = own.as_ref().and_then(|own| own.signers.first());
    let options = VerifyOptions {
        pinned: signer.map(|signer| signer.vkey(&reader.book().origin)),
        payloads: PayloadCheck::Present,
        vault: None,
        pin: own.as_ref().and_then(|own| own.remembered.pin().cloned()),
        threads: 1,
    };
    match countersign_book::verify(&dir, &options) {
        Err(error) => wrong(error.to_string()),
        Ok(report) => match report.verdict() {
            Verdict::Ok => Found::ok(format!("{} entries, whole and signed", report.size)),
            Verdict::UnsignedTail => Found::warn(
                format!(
                    "{} entries are whole and signed; the last lines are not yet",
                    report.size
                ),
                "a process that is writing is the usual reason; otherwise the next one that opens the book sets them aside",
            ),
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
