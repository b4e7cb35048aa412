//! The book's checklist, B1 to B60: each number is proven by tests that carry it in their names, or stands here with the reason why
//! nothing can prove it yet. The table and the tests may not contradict each other.

use std::collections::{BTreeMap, BTreeSet};

use countersign_tests::binary::root;

/// What is not proven, and why. A row goes when its test comes.
const NOT_YET: &[(u32, &str)] = &[
    (
        20,
        "there is no mode in which calls pass while the book takes no entries",
    ),
    (
        32,
        "a rotation can be held until copies acknowledged it once there are copies",
    ),
    (41, "the witness is not there yet"),
    (42, "cosignatures are taken once there are copies"),
    (43, "the witness is not there yet"),
    (44, "the witness is not there yet"),
    (45, "alarms of a copy come with copies"),
    (46, "the folder copy is not there yet"),
    (47, "the lag of a copy is shown once there are copies"),
    (48, "compare is not there yet"),
    (49, "compare is not there yet"),
    (50, "compare is not there yet"),
    (51, "compare is not there yet"),
    (52, "compare is not there yet"),
    (53, "compare is not there yet"),
    (57, "exports of other vocabularies are not there yet"),
    (58, "time stamps by others are not there yet"),
    (
        59,
        "speed is told by `bash tests/run bench`; no test asserts a time",
    ),
];

/// Rows another statement replaced: what the tests of that number prove instead.
const REPLACED: &[(u32, &str)] = &[(
    18,
    "a second writer is not refused: several share the book, one batch at a time",
)];

#[test]
fn every_number_of_the_books_checklist_has_its_tests_or_a_reason() {
    let named = named();
    let missing: BTreeSet<u32> = NOT_YET.iter().map(|(number, _)| *number).collect();
    assert_eq!(missing.len(), NOT_YET.len(), "a number stands twice");
    for number in 1..=60 {
        let tests = named.get(&number).map_or(0, BTreeSet::len);
        assert_eq!(
            tests == 0,
            missing.contains(&number),
            "B{number} has {tests} tests: {:?}",
            named.get(&number)
        );
    }
    for (number, _) in REPLACED {
        assert!(named.contains_key(number), "B{number}");
    }
    for (_, reason) in NOT_YET.iter().chain(REPLACED) {
        assert!(reason.len() > 20 && !reason.ends_with('.'), "{reason}");
    }
}

/// The names of all tests by the numbers of the checklist in them.
fn named() -> BTreeMap<u32, BTreeSet<String>> {
    let mut named: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    let mut open = vec![root().join("proxy"), root().join("tests")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("text");
            let mut is_test = false;
            for line in text.lines().map(str::trim_start) {
                if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                    is_test = true;
                } else if let Some(name) = function(line)
                    && std::mem::take(&mut is_test)
                {
                    for number in name.split('_').filter_map(number) {
                        named.entry(number).or_default().insert(name.to_owned());
                    }
                }
            }
        }
    }
    named
}

/// The name of the function a line begins.
fn function(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line);
    rest.strip_prefix("fn ")?.split('(').next()
}

fn number(word: &str) -> Option<u32> {
    let digits = word.strip_prefix('b')?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    (plain && !digits.starts_with('0')).then(|| digits.parse().ok())?
}
