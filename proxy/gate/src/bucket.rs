//! The arithmetic of one token bucket, exact in whole numbers. Knows no clock and no database.

use crate::rate::{BucketSize, Charged};

/// What a bucket holds at a moment. One unit is 60000 grains, so that `per_minute` units a minute are `per_minute` grains a millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Grains held at `at`.
    pub grains: i64,
    /// When that was true: milliseconds since 1970.
    pub at: i64,
}

const UNIT: i64 = 60_000;

/// How far a clock may seem to go back because another process looked at it a little later. Further back, the clock was set.
const SKEW: i64 = 5_000;

/// Takes `units` from a bucket that held `level` (`None`: full) if they are there: all or nothing.
///
/// A clock that goes back a little adds nothing and waits; one that was set back starts anew from its new time, so that the bucket
/// fills again. One that jumps forward fills it, never beyond its size.
pub fn take(level: Option<Level>, size: BucketSize, units: u32, now: i64) -> (Charged, Level) {
    let full = i64::from(size.size) * UNIT;
    let per_ms = i64::from(size.per_minute);
    let (held, at) = match level {
        None => (full, now),
        Some(Level { grains, at }) => {
            let passed = now.saturating_sub(at);
            let held = grains
                .saturating_add(passed.max(0).saturating_mul(per_ms))
                .clamp(0, full);
            (
                held,
                if (-SKEW..0).contains(&passed) {
                    at
                } else {
                    now
                },
            )
        }
    };
    let price = i64::from(units) * UNIT;
    let taken = price <= held;
    let left = if taken { held - price } else { held };
    let seconds = |grains: i64| match u64::try_from(grains) {
        Ok(0) | Err(_) => 0,
        Ok(_) if per_ms == 0 => u64::from(u32::MAX),
        Ok(grains) => grains.div_ceil(u64::from(size.per_minute) * 1000),
    };
    let charged = Charged {
        taken,
        remaining: u32::try_from(left / UNIT).unwrap_or(u32::MAX),
        reset_seconds: seconds(full - left),
        retry_seconds: if taken {
            0
        } else {
            seconds(price - left).max(1)
        },
    };
    (charged, Level { grains: left, at })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(
        level: Option<(i64, i64)>,
        (size, per_minute): (u32, u32),
        units: u32,
        now: i64,
        expected: (bool, u32, u64, u64),
    ) {
        let level = level.map(|(units, at)| Level {
            grains: units * UNIT,
            at,
        });
        let (charged, _) = take(level, BucketSize { size, per_minute }, units, now);
        let got = (
            charged.taken,
            charged.remaining,
            charged.reset_seconds,
            charged.retry_seconds,
        );
        assert_eq!(
            got, expected,
            "{level:?} {size}/{per_minute} -{units} at {now}"
        );
    }

    #[test]
    fn r60_single_charges() {
        check(None, (120, 120), 20, 0, (true, 100, 10, 0));
        check(Some((10, 0)), (120, 120), 20, 0, (false, 10, 55, 5));
        check(Some((10, 0)), (120, 120), 20, 5000, (true, 0, 60, 0));
        check(Some((0, 0)), (120, 120), 0, 0, (true, 0, 60, 0));
        check(Some((0, 0)), (30, 30), 31, i64::MAX, (false, 30, 0, 2));
        check(Some((200, 0)), (120, 120), 1, 0, (true, 119, 1, 0));
        // A clock set back an hour: nothing is added, and it fills again from there.
        check(Some((0, 3_600_000)), (60, 60), 1, 0, (false, 0, 60, 1));
    }

    #[test]
    fn a_clock_set_back_refuses_only_for_a_while() {
        let size = BucketSize {
            size: 2,
            per_minute: 60,
        };
        let (_, level) = take(
            Some(Level {
                grains: 0,
                at: 10_000_000,
            }),
            size,
            1,
            0,
        );
        let (charged, _) = take(Some(level), size, 1, 1000);
        assert!(charged.taken);
        // A small step back is another process's earlier look: the time in between counts once.
        let (_, level) = take(
            Some(Level {
                grains: 0,
                at: 1000,
            }),
            size,
            1,
            600,
        );
        let (charged, _) = take(Some(level), size, 1, 1600);
        assert!(!charged.taken);
    }

    proptest! {
        /// Against a bucket that is filled millisecond by millisecond.
        #[test]
        fn agrees_with_the_slow_model(
            size in 1u32..50, per_minute in 1u32..200,
            steps in proptest::collection::vec((0i64..400, 0u32..60), 1..60),
        ) {
            let bucket = BucketSize { size, per_minute };
            let full = i64::from(size) * UNIT;
            let (mut model, mut level, mut now) = (full, None, 0);
            for (pass, units) in steps {
                for _ in 0..pass {
                    model = (model + i64::from(per_minute)).min(full);
                }
                now += pass;
                let enough = model >= i64::from(units) * UNIT;
                if enough {
                    model -= i64::from(units) * UNIT;
                }
                let (charged, next) = take(level, bucket, units, now);
                prop_assert_eq!(charged.taken, enough);
                prop_assert_eq!(next, Level { grains: model, at: now });
                prop_assert_eq!(i64::from(charged.remaining), model / UNIT);
                if !enough && units <= size {
                    let later = now + i64::try_from(charged.retry_seconds).unwrap() * 1000;
                    prop_assert!(take(Some(next), bucket, units, later).0.taken, "what retry says holds");
                }
                level = Some(next);
            }
        }

        /// Whatever the clock does, a bucket never holds more than its size and never less than nothing.
        #[test]
        fn stays_within_its_size(
            size in 1u32..50, per_minute in 0u32..200,
            steps in proptest::collection::vec((any::<i64>(), 0u32..60), 1..60),
        ) {
            let bucket = BucketSize { size, per_minute };
            let mut level = None;
            for (now, units) in steps {
                let (_, next) = take(level, bucket, units, now);
                prop_assert!((0..=i64::from(size) * UNIT).contains(&next.grains));
                level = Some(next);
            }
        }
    }
}
