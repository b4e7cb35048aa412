//! Ids this process makes: call ids (ULID) and request ids. Owns their form; the system's random source is the only one used.

use std::io;

use jiff::Timestamp;

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A ULID (<https://github.com/ulid/spec>): 48 bits of milliseconds and 80 random bits, 26 characters of Crockford's base32.
///
/// # Errors
/// When the system gives no random bytes.
pub fn ulid(now: Timestamp) -> io::Result<String> {
    let mut random = [0_u8; 10];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let millis = u128::try_from(now.as_millisecond()).unwrap_or(0) & ((1 << 48) - 1);
    let low = random
        .iter()
        .fold(0_u128, |bits, &byte| bits << 8 | u128::from(byte));
    let bits = millis << 80 | low;
    Ok((0..26)
        .rev()
        .map(|place| char::from(CROCKFORD[(bits >> (place * 5) & 31) as usize]))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ulids_sort_by_time_and_differ_within_it() {
        let at = |millis| ulid(Timestamp::from_millisecond(millis).unwrap()).unwrap();
        assert!(
            at(1_469_918_176_385).starts_with("01ARYZ6S41"),
            "the specification's own example"
        );
        assert!(at(1_000) < at(2_000));
        assert_ne!(at(5), at(5));
        assert!(countersign_book::CallId::parse(&at(1_800_000_000_000)).is_ok());
    }
}
