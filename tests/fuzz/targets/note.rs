//! Signed notes, checkpoints and keys of a book somebody else kept: parsed or refused, printed as they were read.
#![no_main]

use countersign_book::{Note, Origin, Vkey, escape};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(note) = Note::parse(data) {
        assert!(note.text().ends_with('\n'));
        assert!(
            data.starts_with(note.text().as_bytes()),
            "the text is what was signed"
        );
        assert!(note.verify(&[]).is_err(), "nobody signed it");
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(key) = Vkey::parse(text) {
        assert_eq!(key.to_string(), text, "one spelling");
    }
    let _ = Origin::parse(text);
    let shown = escape(text).to_string();
    assert!(
        shown.chars().all(|letter| !letter.is_control()),
        "nothing reaches a terminal unescaped"
    );
});
