//! One line of a journal as an entry: read or refused, and what is shown of it never reaches a terminal unescaped.
#![no_main]

use countersign_book::{CallId, Entry, escape};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(id) = CallId::parse(text) {
        assert_eq!(id.as_str(), text, "one spelling");
    }
    let Ok(entry) = Entry::parse(text) else {
        return;
    };
    // A member that is not understood is not looked into: there a lone surrogate, which this parser refuses, may stand.
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(text) {
        assert!(value.is_object());
    }
    let shown = escape(&format!("{:?}", entry.body)).to_string();
    assert!(shown.chars().all(|letter| !letter.is_control()));
});
