//! One message: what is judged good is good for every other reader, means the same after re-emission, and is one line.
#![no_main]

use countersign::frame::emit::again;
use countersign::frame::{Judged, Message, judge};
use countersign_gate::json::{Change, canonical, check, edit, one_line};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const DEPTH: usize = 64;

fuzz_target!(|line: &[u8]| {
    let judged = match judge(line, DEPTH) {
        Ok(judged) => judged,
        Err(rejected) => {
            if let Some(id) = rejected.id {
                assert!(
                    serde_json::from_slice::<Value>(&id).is_ok(),
                    "an id to answer with is JSON"
                );
            }
            return;
        }
    };
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        // Legal in JSON and kept digit by digit; only this oracle cannot hold it.
        Err(error) if error.to_string().contains("number out of range") => return,
        Err(error) => panic!("stricter than serde_json: {error}"),
    };
    let Judged::One(frame) = judged else {
        assert!(value.is_array());
        return;
    };
    // Every reader finds the same method, whichever of two members it would take: there are no two.
    if let Message::Request { method, .. } | Message::Notification { method, .. } = &frame.message {
        assert_eq!(value["method"], Value::String(method.to_string()));
    }
    let mut emitted = again(&frame);
    assert_eq!(emitted.pop(), Some(b'\n'), "a line with its end");
    assert!(
        !emitted.contains(&b'\n') && !emitted.contains(&b'\r'),
        "one line"
    );
    let Ok(Judged::One(second)) = judge(&emitted, DEPTH) else {
        panic!("what is emitted is judged good")
    };
    assert_eq!(second.message, frame.message);
    let emitted: Value = serde_json::from_slice(&emitted).expect("JSON");
    let mut without_nulls = value.clone();
    // An error without an id and one with a null id are the same message.
    if let (Some(members), None) = (without_nulls.as_object_mut(), emitted.get("id")) {
        members.remove("id");
    }
    let mut emitted = emitted;
    if let (Some(members), None) = (emitted.as_object_mut(), without_nulls.get("id")) {
        members.remove("id");
    }
    assert_eq!(emitted, without_nulls, "nothing is added, lost or changed");

    let same = canonical(line);
    assert_eq!(canonical(&same), same, "the canonical form is its own");
    assert_eq!(serde_json::from_slice::<Value>(&same).expect("JSON"), value);
    let changed = edit(
        line,
        &[Change::Set("params", b"{\"x\":1}"), Change::Remove("id")],
    );
    let changed = one_line(&changed);
    check(&changed, DEPTH + 1).expect("an edited object is strict JSON");
    let changed: Value = serde_json::from_slice(&changed).expect("JSON");
    assert_eq!(changed["params"]["x"], 1);
    assert!(changed.get("id").is_none());
});
