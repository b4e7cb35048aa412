//! executor.json: whatever the bytes, an answer; what is accepted can be shown, and shown it is accepted again.
#![no_main]

use std::path::Path;

use countersign::settings::{check_bytes, effective_document, render};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let path = Path::new("executor.json");
    match check_bytes(path, data) {
        Ok(settings) => {
            let shown = effective_document(&settings);
            let text = render(&shown);
            assert!(!text.is_empty());
            let document: serde_json::Value =
                serde_json::from_slice(data).expect("stricter than serde_json");
            let again = render(&document);
            check_bytes(path, &again).expect("written as read, it is accepted");
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.contains("executor.json"), "names the file: {said}");
        }
    }
});
