//! Whether a number's text can be judged exactly by arithmetic on 64-bit integers and doubles, and where the numbers of a text are.

use super::scan::plain_run;
use super::walk::skip;

/// Whether the double (or 64-bit integer) nearest to this number is the number itself or the only short decimal that means it, so
/// that comparing two such numbers as doubles compares the numbers. False for integers beyond 64 bits that are no short decimal,
/// for decimals longer than a double can tell apart, and for what a double cannot hold at all (1e400).
#[must_use]
pub fn is_exact(number: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(number) else {
        return false;
    };
    if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
        return true;
    }
    let Ok(double) = text.parse::<f64>() else {
        return false;
    };
    double.is_finite()
        && decimal(text)
            .is_some_and(|given| decimal(&format!("{double:e}")).as_ref() == Some(&given))
}

/// Whether the number is mathematically an integer, whatever its spelling.
#[must_use]
pub fn is_whole(number: &[u8]) -> bool {
    std::str::from_utf8(number)
        .ok()
        .and_then(decimal)
        .is_some_and(|decimal| decimal.exponent >= 0)
}

/// The spans of all numbers in checked text, outside strings.
#[must_use]
pub fn numbers(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at += 1;
                loop {
                    at += plain_run(text.get(at..).unwrap_or_default());
                    match text.get(at) {
                        Some(b'\\') => at += 2,
                        _ => break,
                    }
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let end = skip(text, at).unwrap_or(text.len());
                found.push(at..end);
                at = end;
            }
            _ => at += 1,
        }
    }
    found
}

/// Sign, digits without zeros at either end, and the power of ten they are multiplied by.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

fn decimal(text: &str) -> Option<Decimal> {
    let (negative, text) = text
        .strip_prefix('-')
        .map_or((false, text), |rest| (true, rest));
    let (mantissa, power) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let ended = all.trim_end_matches('0');
    let digits = ended.trim_start_matches('0').to_string();
    if digits.is_empty() {
        return Some(Decimal {
            negative: false,
            digits,
            exponent: 0,
        });
    }
    let dropped = i64::try_from(all.len() - ended.len()).ok()?;
    let exponent = power
        .checked_sub(i64::try_from(fraction.len()).ok()?)?
        .checked_add(dropped)?;
    Some(Decimal {
        negative,
        digits,
        exponent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_or_not() {
        let exact = [
            "0",
            "-0",
            "0.0",
            "1",
            "-1",
            "1.50",
            "1e3",
            "0.1",
            "0.30000000000000004",
            "9007199254740993",
            "18446744073709551615",
            "-9223372036854775808",
            "1e300",
            "1000000000000000000000000000000",
            "5e-324",
            "0e999",
        ];
        let not = [
            "18446744073709551617",
            "123456789012345678901234567890",
            "1e400",
            "-1e400",
            "1.00000000000000000001",
            "1e-400",
            "0.1000000000000000000001",
            "9007199254740993.0",
            "-9223372036854775809",
        ];
        exact
            .iter()
            .for_each(|text| assert!(is_exact(text.as_bytes()), "{text}"));
        not.iter()
            .for_each(|text| assert!(!is_exact(text.as_bytes()), "{text}"));
    }

    #[test]
    fn whole_or_not() {
        let whole = [
            "0",
            "10",
            "1.0",
            "1e400",
            "12.50e1",
            "123456789012345678901234567890",
            "0e-9",
        ];
        let not = ["0.1", "1e-1", "12.55e1", "1.00000000000000000001"];
        whole
            .iter()
            .for_each(|text| assert!(is_whole(text.as_bytes()), "{text}"));
        not.iter()
            .for_each(|text| assert!(!is_whole(text.as_bytes()), "{text}"));
    }

    #[test]
    fn where_numbers_are() {
        let text = br#"{"1":-2.5,"a\"3":[4,"5"],"b":1e9}"#;
        let found: Vec<_> = numbers(text)
            .into_iter()
            .map(|span| String::from_utf8_lossy(&text[span]).into_owned())
            .collect();
        assert_eq!(found, ["-2.5", "4", "1e9"]);
    }
}
