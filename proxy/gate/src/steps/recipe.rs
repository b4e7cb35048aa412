//! What a preview's recipe takes: from the call, the arguments of its reads; from their answers, what counts as the current value and what
//! text is compared. Works on checked raw JSON, so digits stay as they came. Sends nothing.

use serde_json::{Map, Value};

use crate::facts::PreviewRead;
use crate::json::{
    Change, MAX_DEPTH, at_pointer, canonical, check, decode, edit, elements, member,
};
use crate::paths::pick;

/// The arguments of a read: the recipe's, with the call's own values in their places.
pub(super) fn filled(recipe: &Map<String, Value>, arguments: &[u8]) -> Vec<u8> {
    let mut out = vec![b'{'];
    for (name, value) in recipe {
        if let Some(value) = fill(value, arguments) {
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend(Value::from(name.as_str()).to_string().as_bytes());
            out.push(b':');
            out.extend(value);
        }
    }
    out.push(b'}');
    out
}

/// Whether the read is done for this call.
pub(super) fn applies(read: &PreviewRead, arguments: &[u8]) -> bool {
    let when = read.when.as_deref();
    when.is_none_or(|when| at_pointer(arguments, when).is_some_and(|value| value != b"null"))
}

/// A result in the form its fingerprint is made of: canonical, without `_meta` and without what the recipe ignores.
pub(super) fn value(body: &[u8], ignore: &[String]) -> Vec<u8> {
    let body = edit(body, &[Change::Remove("_meta")]);
    if ignore.is_empty() {
        return canonical(&body);
    }
    let mut changed = Vec::new();
    let structured =
        member(&body, "structuredContent").map(|structured| without_all(structured, ignore));
    if let Some(structured) = &structured {
        changed.push(Change::Set("structuredContent", structured));
    }
    let blocks: Vec<_> = elements(member(&body, "content").unwrap_or_default())
        .map(|block| match document(block) {
            Some(text) => {
                let kept = canonical(&without_all(text.as_bytes(), ignore));
                let text = Value::from(String::from_utf8_lossy(&kept)).to_string();
                edit(block, &[Change::Set("text", text.as_bytes())])
            }
            None => block.to_vec(),
        })
        .collect();
    let content = [&b"["[..], &blocks.join(&b","[..]), b"]"].concat();
    changed.push(Change::Set("content", &content));
    canonical(&edit(&body, &changed))
}

/// The text of a result that is compared: of its text blocks, or where the recipe says so a text inside the JSON document they hold.
/// `None` where that document has no such text.
pub(super) fn text(body: &[u8], at: Option<&str>) -> Option<String> {
    let mut blocks = elements(member(body, "content").unwrap_or_default());
    match at {
        None => Some(blocks.filter_map(text_block).collect::<Vec<_>>().join("\n")),
        Some(pointer) => blocks.find_map(|block| {
            let document = document(block)?;
            decode(at_pointer(document.as_bytes(), pointer)?).map(Into::into)
        }),
    }
}

fn fill(value: &Value, arguments: &[u8]) -> Option<Vec<u8>> {
    match value {
        Value::Object(members) => match (members.len(), members.get("from")) {
            (1, Some(Value::String(pointer))) if pointer.split('/').any(|step| step == "*") => {
                let picked = pick(arguments, pointer);
                let values: Vec<&[u8]> = picked.iter().map(|picked| picked.value).collect();
                Some([&b"["[..], &values.join(&b","[..]), b"]"].concat())
            }
            (1, Some(Value::String(pointer))) => at_pointer(arguments, pointer).map(<[u8]>::to_vec),
            _ => Some(filled(members, arguments)),
        },
        Value::Array(items) => {
            let items: Vec<_> = items
                .iter()
                .filter_map(|item| fill(item, arguments))
                .collect();
            Some([&b"["[..], &items.join(&b","[..]), b"]"].concat())
        }
        plain => Some(plain.to_string().into_bytes()),
    }
}

fn text_block(block: &[u8]) -> Option<String> {
    member(block, "text").and_then(decode).map(Into::into)
}

/// The JSON object or list in a text block.
fn document(block: &[u8]) -> Option<String> {
    let text = text_block(block)?;
    let trimmed = text.trim_ascii();
    let is_document =
        trimmed.starts_with(['{', '[']) && check(trimmed.as_bytes(), MAX_DEPTH).is_ok();
    is_document.then(|| trimmed.to_string())
}

fn without_all(value: &[u8], pointers: &[String]) -> Vec<u8> {
    pointers.iter().fold(value.to_vec(), |value, pointer| {
        let steps: Vec<&str> = pointer.split('/').skip(1).collect();
        without(&value, &steps)
    })
}

/// The value without the member the steps lead to; `*` is every element of a list.
fn without(value: &[u8], steps: &[&str]) -> Vec<u8> {
    let Some((step, rest)) = steps.split_first() else {
        return value.to_vec();
    };
    match value.first() {
        Some(b'{') => {
            let name = step.replace("~1", "/").replace("~0", "~");
            let Some(child) = member(value, &name) else {
                return value.to_vec();
            };
            if rest.is_empty() {
                return edit(value, &[Change::Remove(&name)]);
            }
            edit(value, &[Change::Set(&name, &without(child, rest))])
        }
        Some(b'[') => {
            let wanted = |at: usize| *step == "*" || step.parse() == Ok(at);
            let items: Vec<Vec<u8>> = elements(value)
                .enumerate()
                .map(|(at, item)| match wanted(at) {
                    true => without(item, rest),
                    false => item.to_vec(),
                })
                .collect();
            [&b"["[..], &items.join(&b","[..]), b"]"].concat()
        }
        _ => value.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ignoring(body: &Value, ignore: &[&str]) -> String {
        let ignore: Vec<String> = ignore.iter().map(|one| (*one).to_string()).collect();
        String::from_utf8(value(body.to_string().as_bytes(), &ignore)).unwrap()
    }

    fn result(document: &str) -> Value {
        json!({"content": [{"type": "text", "text": document}]})
    }

    #[test]
    fn the_calls_values_take_their_places() {
        let call = br#"{"path":"/a","list":[{"name":"x"},{"name":"y"},{}],"n":9007199254740993}"#;
        let cases = [
            (json!({"path": {"from": "/path"}}), r#"{"path":"/a"}"#),
            (json!({"n": {"from": "/n"}}), r#"{"n":9007199254740993}"#),
            (json!({"gone": {"from": "/gone"}}), "{}"),
            (
                json!({"names": {"from": "/list/*/name"}}),
                r#"{"names":["x","y"]}"#,
            ),
            (json!({"names": {"from": "/gone/*"}}), r#"{"names":[]}"#),
            (
                json!({"deep": {"of": [{"from": "/path"}, 1]}}),
                r#"{"deep":{"of":["/a",1]}}"#,
            ),
        ];
        for (recipe, want) in cases {
            let Value::Object(members) = &recipe else {
                panic!("an object")
            };
            let filled = String::from_utf8(filled(members, call)).unwrap();
            assert_eq!(filled, want, "{recipe}");
        }
    }

    #[test]
    fn a_read_may_belong_to_some_calls_only() {
        let read = PreviewRead {
            when: Some("/sha".to_string()),
            ..PreviewRead::default()
        };
        assert!(applies(&read, br#"{"sha":"x"}"#));
        assert!(!applies(&read, br#"{"sha":null}"#));
        assert!(!applies(&read, b"{}"));
        assert!(applies(&PreviewRead::default(), b"{}"));
    }

    #[test]
    fn what_is_ignored_is_no_part_of_the_value() {
        let one = result(r#"{"a":1.50,"request_id":"r1","of":[{"url":"u1","b":2}]}"#);
        let two = result(r#"{"of":[{"b":2,"url":"u2"}],"a":1.50,"request_id":"r2"}"#);
        let ignore = ["/request_id", "/of/*/url"];
        assert_eq!(ignoring(&one, &ignore), ignoring(&two, &ignore));
        assert_ne!(ignoring(&one, &ignore[..1]), ignoring(&two, &ignore[..1]));
        assert_ne!(ignoring(&one, &[]), ignoring(&two, &[]));
        let digits = |n: &str| ignoring(&result(&format!(r#"{{"n":{n},"x":1}}"#)), &["/x"]);
        assert_ne!(digits("9007199254740993"), digits("9007199254740992"));
        // What is no document is kept as it is; so is what the pointer does not lead to.
        for text in ["plain /x", r#"{"x":1,"x":2}"#, "[1,2]", r#"{"y":{"x":1}}"#] {
            let kept = ignoring(&result(text), &["/x"]);
            let text: Value = serde_json::from_str(&kept).unwrap();
            assert_ne!(text["content"][0]["text"], "{}", "{kept}");
        }
        let both = json!({"content": [], "structuredContent": {"x": 1, "y": 2}, "_meta": {"z": 1}});
        assert_eq!(
            ignoring(&both, &["/x"]),
            r#"{"content":[],"structuredContent":{"y":2}}"#
        );
    }

    #[test]
    fn the_compared_text_may_lie_inside_a_document() {
        let body = result(r#"{"content":"a\nb","n":1}"#).to_string();
        let at = |pointer: Option<&str>| text(body.as_bytes(), pointer);
        assert_eq!(at(Some("/content")).as_deref(), Some("a\nb"));
        assert_eq!(at(Some("/n")), None);
        assert_eq!(at(Some("/gone")), None);
        assert_eq!(at(None).as_deref(), Some(r#"{"content":"a\nb","n":1}"#));
    }
}
