//! Verifies the signatures of many notes, several at a time. Refuses to know what the notes are about.

use crate::journal::chain::Signed;

/// Notes whose signatures are still to be verified, in the order they were read.
pub(crate) struct Signatures<T> {
    waiting: Vec<(Signed, T)>,
    threads: usize,
}

/// How many notes are collected before they are verified.
const CHUNK: usize = 1024;
/// Below this many, other threads cost more than they save.
const ALONE: usize = 16;

impl<T> Signatures<T> {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            waiting: Vec::new(),
            threads: threads.clamp(1, 16),
        }
    }

    pub(crate) fn push(&mut self, signed: Signed, place: T) {
        self.waiting.push((signed, place));
    }

    /// Forgets what waits and takes this one in its place.
    pub(crate) fn replace(&mut self, signed: Signed, place: T) {
        self.waiting.clear();
        self.push(signed, place);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= CHUNK
    }

    /// Verifies all that wait; answers the first that fails, with the reason.
    pub(crate) fn first_refused(&mut self) -> Option<(T, String)> {
        self.check()
            .into_iter()
            .find_map(|(place, refused)| Some((place, refused?)))
    }

    /// Verifies all that wait; answers their places in order, each with the reason it fails, if it does.
    fn check(&mut self) -> Vec<(T, Option<String>)> {
        let waiting = std::mem::take(&mut self.waiting);
        let notes: Vec<&Signed> = waiting.iter().map(|(signed, _)| signed).collect();
        let verify = |notes: &[&Signed]| -> Vec<Option<String>> {
            notes
                .iter()
                .map(|signed| {
                    signed
                        .note
                        .verify(&signed.keys)
                        .err()
                        .map(|error| error.to_string())
                })
                .collect()
        };
        let threads = if notes.len() < ALONE { 1 } else { self.threads };
        let results: Vec<Option<String>> = if threads == 1 {
            verify(&notes)
        } else {
            let part = notes.len().div_ceil(threads);
            std::thread::scope(|scope| {
                let running: Vec<_> = notes
                    .chunks(part)
                    .map(|part| (part, scope.spawn(|| verify(part))))
                    .collect();
                let failed = |part: &[&Signed]| {
                    vec![Some("its signature could not be checked".to_owned()); part.len()]
                };
                running
                    .into_iter()
                    .flat_map(|(part, thread)| thread.join().unwrap_or_else(|_| failed(part)))
                    .collect()
            })
        };
        waiting
            .into_iter()
            .map(|(_, place)| place)
            .zip(results)
            .collect()
    }
}
