//! How much work it is to hold one value to one schema, before it is done: branches and references multiply with every level of the
//! value. Counted once per pair of schema and value, so counting is cheap where holding would not end.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::inspect::Inspected;

type Schema = Map<String, Value>;

/// Most single checks one call may cost.
pub const MAX_WORK: u64 = 1_000_000;
/// Longest way down through schema and value together; keeps the stack small.
const MAX_WAY: usize = 1_024;
/// Schemas that unfold to no more than this need no counting.
const PLAIN_SIZE: u64 = 20_000;
/// And no deeper than this.
const PLAIN_HEIGHT: usize = 512;

/// Whether the work must be counted for each value: the schema contains itself, or unfolds to much more than its text.
pub fn must_be_counted(schema: &Inspected<'_>) -> bool {
    let mut memo = HashMap::new();
    unfold(schema, schema.root(), &mut memo, &mut Vec::new())
        .is_none_or(|(size, height)| size > PLAIN_SIZE || height > PLAIN_HEIGHT)
}

/// Whether holding `value` to the schema costs more than [`MAX_WORK`].
pub fn is_too_much(schema: &Inspected<'_>, value: &Value) -> bool {
    let mut memo = HashMap::new();
    count(schema, schema.root(), value, MAX_WAY, &mut memo) > MAX_WORK
}

/// Size and height of the unfolded schema; `None` where it contains itself.
fn unfold<'a>(
    whole: &Inspected<'a>,
    schema: &'a Schema,
    memo: &mut HashMap<*const Schema, (u64, usize)>,
    path: &mut Vec<*const Schema>,
) -> Option<(u64, usize)> {
    let key = std::ptr::from_ref(schema);
    if let Some(known) = memo.get(&key) {
        return Some(*known);
    }
    if path.contains(&key) || path.len() > PLAIN_HEIGHT {
        return None;
    }
    path.push(key);
    let (mut size, mut height) = (1_u64, 0);
    for child in whole.applied(schema) {
        let (more, deeper) = unfold(whole, child, memo, path)?;
        size = size.saturating_add(more);
        height = height.max(deeper + 1);
    }
    path.pop();
    memo.insert(key, (size, height));
    Some((size, height))
}

fn count<'a>(
    whole: &Inspected<'a>,
    schema: &'a Schema,
    value: &Value,
    way: usize,
    memo: &mut HashMap<(*const Schema, *const Value), u64>,
) -> u64 {
    let key = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
    if let Some(known) = memo.get(&key) {
        return *known;
    }
    if way == 0 {
        return u64::MAX;
    }
    let mut work = 1_u64;
    let mut add = |schema: &'a Schema, value: &Value| {
        if work <= MAX_WORK {
            work = work.saturating_add(count(whole, schema, value, way - 1, memo));
        }
    };
    whole
        .same_value(schema)
        .into_iter()
        .for_each(|child| add(child, value));
    let one = |keyword: &str| schema.get(keyword).and_then(Value::as_object);
    let at = |keyword: &str, place: usize| schema.get(keyword)?.as_array()?.get(place)?.as_object();
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let named = one("properties")
                    .and_then(|named| named.get(name))
                    .and_then(Value::as_object);
                let patterns = one("patternProperties")
                    .into_iter()
                    .flat_map(Map::values)
                    .filter_map(Value::as_object);
                let rest = ["additionalProperties", "unevaluatedProperties"]
                    .into_iter()
                    .filter_map(one);
                named
                    .into_iter()
                    .chain(patterns)
                    .chain(rest)
                    .for_each(|child| add(child, member));
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                let each = ["items", "additionalItems", "unevaluatedItems", "contains"]
                    .into_iter()
                    .filter_map(one);
                let placed = ["items", "prefixItems"]
                    .into_iter()
                    .filter_map(|keyword| at(keyword, place));
                each.chain(placed).for_each(|child| add(child, item));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    memo.insert(key, work);
    work
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::inspect::inspect;
    use super::*;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!({}), |inner, _| json!({"c": inner}))
    }

    fn check(schema: &Value, value: &Value, counted: bool, too_much: bool) {
        let inspected = inspect(schema).unwrap();
        assert_eq!(must_be_counted(&inspected), counted, "{schema}");
        assert_eq!(is_too_much(&inspected, value), too_much, "{schema}");
    }

    #[test]
    fn branches_that_multiply_with_depth() {
        let tree = json!({"properties": {"c": {"$ref": "#"}}});
        check(&tree, &nested(100), true, false);
        let branch = json!({"properties": {"c": {"$ref": "#"}}});
        let doubling = json!({"anyOf": [branch, branch]});
        check(&doubling, &nested(10), true, false);
        check(&doubling, &nested(60), true, true);
        let level = |n: usize| {
            let branch = json!({"properties": {"c": {"$ref": format!("#/$defs/l{}", n + 1)}}});
            (format!("l{n}"), json!({"anyOf": [branch, branch]}))
        };
        let mut defs: Map<String, Value> = (0..40).map(level).collect();
        defs.insert("l40".into(), json!({}));
        let folded = json!({"$ref": "#/$defs/l0", "$defs": defs});
        check(&folded, &nested(40), true, true);
        check(&folded, &nested(3), true, false);
        check(
            &json!({"properties": {"a": {"items": {"type": "string"}}}}),
            &json!({"a": ["x"]}),
            false,
            false,
        );
    }
}
