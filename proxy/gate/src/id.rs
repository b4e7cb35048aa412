//! Ids of calls, confirmations and approvals: ULIDs. The random bytes are handed in.

use jiff::Timestamp;

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A ULID (<https://github.com/ulid/spec>): 48 bits of milliseconds and 80 random bits, 26 characters of Crockford's base32.
#[must_use]
pub fn ulid(now: Timestamp, random: [u8; 10]) -> String {
    let millis = u128::try_from(now.as_millisecond()).unwrap_or(0) & ((1 << 48) - 1);
    let low = random
        .iter()
        .fold(0_u128, |bits, &byte| bits << 8 | u128::from(byte));
    let bits = millis << 80 | low;
    (0..26)
        .rev()
        .map(|place| char::from(CROCKFORD[(bits >> (place * 5) & 31) as usize]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ulids_sort_by_time_and_differ_by_their_random_bytes() {
        let at = |millis, random| ulid(Timestamp::from_millisecond(millis).unwrap(), random);
        assert!(
            at(1_469_918_176_385, [0; 10]).starts_with("01ARYZ6S41"),
            "the specification's own example"
        );
        assert!(at(1_000, [255; 10]) < at(2_000, [0; 10]));
        assert_ne!(at(5, [1; 10]), at(5, [2; 10]));
        assert_eq!(at(5, [1; 10]).len(), 26);
    }
}
