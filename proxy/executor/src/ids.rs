//! Ids this process makes: call ids (ULID). The gate owns their form; the system's random source is the only one used.

use std::io;

use countersign_gate::ports::{NoRandom, Random};
use jiff::Timestamp;

/// The system's random source.
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandom> {
        getrandom::fill(bytes).map_err(|_| NoRandom)
    }
}

/// A new ULID.
///
/// # Errors
/// When the system gives no random bytes.
pub fn ulid(now: Timestamp) -> io::Result<String> {
    let mut random = [0_u8; 10];
    SystemRandom.fill(&mut random).map_err(io::Error::other)?;
    Ok(countersign_gate::id::ulid(now, random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ulids_are_the_books_call_ids_and_differ() {
        let at = |millis| ulid(Timestamp::from_millisecond(millis).unwrap()).unwrap();
        assert_ne!(at(5), at(5));
        assert!(countersign_book::CallId::parse(&at(1_800_000_000_000)).is_ok());
    }
}
