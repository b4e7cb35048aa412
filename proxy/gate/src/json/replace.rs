//! Putting other values at exact places of checked text. What is not named keeps its bytes.

use super::walk::at_pointer;

/// The checked text with the raw value at each pointer replaced; a pointer that leads nowhere changes nothing. The pointers are exact (no
/// `*`), and none leads into the value of another.
#[must_use]
pub fn replace(text: &[u8], values: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut places: Vec<(usize, usize, &[u8])> = values
        .iter()
        .filter_map(|(pointer, value)| {
            let found = at_pointer(text.trim_ascii(), pointer)?;
            // A slice of `text`: its distance from the start is its place.
            let start = (found.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
            Some((start, start + found.len(), value.as_slice()))
        })
        .collect();
    places.sort_unstable_by_key(|(start, ..)| *start);
    let mut out =
        Vec::with_capacity(text.len() + values.iter().map(|(_, v)| v.len()).sum::<usize>());
    let mut from = 0;
    for (start, end, value) in places {
        if start < from {
            continue;
        }
        out.extend_from_slice(&text[from..start]);
        out.extend_from_slice(value);
        from = end;
    }
    out.extend_from_slice(&text[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, values: &[(&str, &str)], want: &str) {
        let values: Vec<_> = values
            .iter()
            .map(|(pointer, value)| (*pointer, value.as_bytes().to_vec()))
            .collect();
        let out = String::from_utf8(replace(text.as_bytes(), &values)).unwrap();
        assert_eq!(out, want);
    }

    #[test]
    fn values_change_in_place_and_the_rest_keeps_its_bytes() {
        let text = r#" {"a" : "x", "n": 9007199254740993,"l":[ "y" , {"b~/":"z"} ] } "#;
        check(text, &[], text);
        check(text, &[("/gone", "1"), ("/l/7", "1")], text);
        check(
            text,
            &[
                ("/l/1/b~0~1", "\"Z\""),
                ("/a", "\"/abs\""),
                ("/l/0", "\"\""),
            ],
            r#" {"a" : "/abs", "n": 9007199254740993,"l":[ "" , {"b~/":"Z"} ] } "#,
        );
        // The same place twice is replaced once.
        check(r#"{"a":1}"#, &[("/a", "2"), ("/a", "3")], r#"{"a":2}"#);
    }
}
