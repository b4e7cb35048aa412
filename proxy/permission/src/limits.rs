//! A permission's limits on arguments: read strictly, judged over the parsed arguments. Unknown op, wrong type, missing
//! pointer: refuse. No regular expressions; a prefix of a declared path is judged elsewhere, on the resolved path.

use serde_json::{Value, json};

/// One limit: what stands at `pointer` must satisfy `test`.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentLimit {
    /// JSON Pointer (RFC 6901) into the arguments.
    pub pointer: String,
    /// What must hold there.
    pub test: Test,
}

/// What must hold at a pointer.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Exactly this value.
    Equals(Value),
    /// One of these values.
    In(Vec<Value>),
    /// A text that begins so.
    Prefix(String),
    /// A number not above.
    Max(i64),
    /// A number not below.
    Min(i64),
    /// A text of at most so many Unicode scalar values.
    MaxLength(u64),
    /// A list of at most so many items.
    MaxItems(u64),
    /// Nothing there at all.
    Absent,
}

/// A limit that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Not a JSON Pointer.
    #[error(
        "`{0}` is not a JSON Pointer: it is empty or begins with `/`, and `~` is followed by 0 or 1"
    )]
    Pointer(String),
    /// An operation that does not exist.
    #[error("`{0}` is not one of equals, in, prefix, max, min, max_length, max_items, absent")]
    Op(String),
    /// A value the operation cannot use.
    #[error("`{op}` needs {need}")]
    Value {
        /// The operation.
        op: &'static str,
        /// What it needs.
        need: &'static str,
    },
}

/// A call outside a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitFault {
    /// Where.
    pub pointer: String,
    /// The limit, in the words of executor.json: `prefix "/home/"`.
    pub limit: String,
}

impl ArgumentLimit {
    /// Reads one limit as executor.json and a permission spell it: `op` and, for all but `absent`, `value`.
    ///
    /// # Errors
    /// When the pointer, the operation or its value is not as described at [`Test`]. Numbers are integers within ±(2^53−1).
    pub fn read(pointer: &str, op: &str, value: Option<&Value>) -> Result<Self, LimitError> {
        if !is_pointer(pointer) {
            return Err(LimitError::Pointer(pointer.to_string()));
        }
        Ok(Self {
            pointer: pointer.to_string(),
            test: Test::read(op, value)?,
        })
    }

    /// The limit as a document member.
    #[must_use]
    pub fn document(&self) -> Value {
        match self.test.value() {
            Some(value) => json!({"pointer": self.pointer, "op": self.test.op(), "value": value}),
            None => json!({"pointer": self.pointer, "op": self.test.op()}),
        }
    }

    fn allows(&self, arguments: &Value) -> bool {
        let found = arguments.pointer(&self.pointer);
        match (&self.test, found) {
            (Test::Absent, None) => true,
            (Test::Absent, Some(_)) | (_, None) => false,
            (test, Some(found)) => test.holds(found),
        }
    }
}

/// Judges `arguments` by every limit, in order.
///
/// # Errors
/// The first limit they are outside of.
pub fn check_arguments(limits: &[ArgumentLimit], arguments: &Value) -> Result<(), LimitFault> {
    let broken = limits.iter().find(|limit| !limit.allows(arguments));
    match broken {
        None => Ok(()),
        Some(limit) => Err(LimitFault {
            pointer: limit.pointer.clone(),
            limit: limit.test.words(),
        }),
    }
}

impl Test {
    fn read(op: &str, value: Option<&Value>) -> Result<Self, LimitError> {
        let need = |op, need| LimitError::Value { op, need };
        let whole = |op, value: Option<&Value>| {
            value
                .and_then(safe_integer)
                .ok_or(need(op, "an integer within ±(2^53−1)"))
        };
        let count = |op, value: Option<&Value>| {
            value
                .and_then(safe_integer)
                .and_then(|n| u64::try_from(n).ok())
                .ok_or(need(op, "a non-negative integer"))
        };
        match op {
            "equals" => value
                .cloned()
                .map(Self::Equals)
                .ok_or(need("equals", "a value")),
            "in" => value
                .and_then(Value::as_array)
                .cloned()
                .map(Self::In)
                .ok_or(need("in", "a list of values")),
            "prefix" => value
                .and_then(Value::as_str)
                .map(|text| Self::Prefix(text.into()))
                .ok_or(need("prefix", "a text")),
            "max" => whole("max", value).map(Self::Max),
            "min" => whole("min", value).map(Self::Min),
            "max_length" => count("max_length", value).map(Self::MaxLength),
            "max_items" => count("max_items", value).map(Self::MaxItems),
            "absent" if value.is_none() => Ok(Self::Absent),
            "absent" => Err(need("absent", "no value")),
            other => Err(LimitError::Op(other.to_string())),
        }
    }

    pub(crate) fn op(&self) -> &'static str {
        match self {
            Self::Equals(_) => "equals",
            Self::In(_) => "in",
            Self::Prefix(_) => "prefix",
            Self::Max(_) => "max",
            Self::Min(_) => "min",
            Self::MaxLength(_) => "max_length",
            Self::MaxItems(_) => "max_items",
            Self::Absent => "absent",
        }
    }

    pub(crate) fn value(&self) -> Option<Value> {
        match self {
            Self::Equals(value) => Some(value.clone()),
            Self::In(values) => Some(Value::Array(values.clone())),
            Self::Prefix(text) => Some(json!(text)),
            Self::Max(n) | Self::Min(n) => Some(json!(n)),
            Self::MaxLength(n) | Self::MaxItems(n) => Some(json!(n)),
            Self::Absent => None,
        }
    }

    pub(crate) fn words(&self) -> String {
        match self.value() {
            Some(value) => format!("{} {value}", self.op()),
            None => self.op().to_string(),
        }
    }

    fn holds(&self, found: &Value) -> bool {
        match self {
            Self::Equals(value) => same(value, found),
            Self::In(values) => values.iter().any(|value| same(value, found)),
            Self::Prefix(text) => found
                .as_str()
                .is_some_and(|found| found.starts_with(text.as_str())),
            Self::Max(most) => at_most(found, *most),
            Self::Min(least) => at_least(found, *least),
            Self::MaxLength(most) => found
                .as_str()
                .is_some_and(|text| text.chars().count() as u64 <= *most),
            Self::MaxItems(most) => found
                .as_array()
                .is_some_and(|items| items.len() as u64 <= *most),
            Self::Absent => false,
        }
    }
}

pub(crate) fn is_pointer(text: &str) -> bool {
    let escapes_complete = text
        .split('~')
        .skip(1)
        .all(|after| after.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && escapes_complete
}

const SAFE: i64 = (1 << 53) - 1;

fn safe_integer(value: &Value) -> Option<i64> {
    value.as_i64().filter(|n| (-SAFE..=SAFE).contains(n))
}

fn at_most(found: &Value, most: i64) -> bool {
    match (found.as_i64(), found.as_u64(), found.as_f64()) {
        (Some(n), _, _) => n <= most,
        (None, Some(_), _) => false,
        // `most` is within ±2^53, so it is a double exactly.
        (None, None, Some(n)) => n <= most as f64,
        (None, None, None) => false,
    }
}

fn at_least(found: &Value, least: i64) -> bool {
    match (found.as_i64(), found.as_u64(), found.as_f64()) {
        (Some(n), _, _) => n >= least,
        (None, Some(_), _) => true,
        (None, None, Some(n)) => n >= least as f64,
        (None, None, None) => false,
    }
}

/// Equality as JSON Schema has it: 1 and 1.0 are the same number, order of members does not matter.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a == b,
            (None, None) => a == b,
            (Some(whole), None) => equals_double(whole, b.as_f64()),
            (None, Some(whole)) => equals_double(whole, a.as_f64()),
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

fn equals_double(whole: i64, double: Option<f64>) -> bool {
    // Beyond 2^53 a double stands for several integers: not equal.
    double.is_some_and(|double| (-SAFE..=SAFE).contains(&whole) && whole as f64 == double)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(op: &str, value: &Value, found: &Value, want: bool) {
        let value = if op == "absent" { None } else { Some(value) };
        let limit = ArgumentLimit::read("/a", op, value).unwrap();
        let got = check_arguments(&[limit], &json!({"a": found})).is_ok();
        assert_eq!(got, want, "{op} {value:?} {found}");
    }

    #[test]
    fn each_operation() {
        check("equals", &json!(1), &json!(1.0), true);
        check("equals", &json!(1), &json!("1"), false);
        check(
            "equals",
            &json!({"a": 1, "b": [2]}),
            &json!({"b": [2.0], "a": 1}),
            true,
        );
        check(
            "equals",
            &json!(9_007_199_254_740_993_i64),
            &json!(9_007_199_254_740_992_f64),
            false,
        );
        check("in", &json!(["x", null]), &json!(null), true);
        check("in", &json!([]), &json!("x"), false);
        check("prefix", &json!("/home/"), &json!("/home/maria"), true);
        check("prefix", &json!("/home/"), &json!("/HOME/maria"), false);
        check("prefix", &json!("/home/"), &json!(["/home/"]), false);
        check("max", &json!(5), &json!(5), true);
        check("max", &json!(5), &json!(5.5), false);
        check("max", &json!(5), &json!(u64::MAX), false);
        check("max", &json!(5), &json!("4"), false);
        check("min", &json!(-1), &json!(-1), true);
        check("min", &json!(0), &json!(u64::MAX), true);
        check("min", &json!(0), &json!(-0.5), false);
        check("max_length", &json!(2), &json!("äö"), true);
        check("max_length", &json!(2), &json!("abc"), false);
        check("max_length", &json!(2), &json!([]), false);
        check("max_items", &json!(1), &json!([1]), true);
        check("max_items", &json!(1), &json!([1, 2]), false);
        check("absent", &json!(null), &json!(null), false);
    }

    #[test]
    fn a_missing_pointer_is_outside_every_limit_but_absent() {
        let there =
            |op, value: Option<Value>| ArgumentLimit::read("/x/0", op, value.as_ref()).unwrap();
        let arguments = json!({"x": []});
        assert!(check_arguments(&[there("absent", None)], &arguments).is_ok());
        for (op, value) in [
            ("equals", json!(null)),
            ("max", json!(1)),
            ("prefix", json!("")),
            ("max_items", json!(9)),
        ] {
            let fault = check_arguments(&[there(op, Some(value.clone()))], &arguments).unwrap_err();
            assert_eq!(
                fault,
                LimitFault {
                    pointer: "/x/0".into(),
                    limit: format!("{op} {value}")
                }
            );
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let bad = [
            ("a", "equals", Some(json!(1))),
            ("/a~2", "equals", Some(json!(1))),
            ("/a~", "equals", Some(json!(1))),
            ("/a", "regex", Some(json!("x"))),
            ("/a", "equals", None),
            ("/a", "in", Some(json!("x"))),
            ("/a", "max", Some(json!(1.5))),
            ("/a", "max", Some(json!(9_007_199_254_740_992_i64))),
            ("/a", "max_length", Some(json!(-1))),
            ("/a", "absent", Some(json!(true))),
        ];
        for (pointer, op, value) in bad {
            assert!(
                ArgumentLimit::read(pointer, op, value.as_ref()).is_err(),
                "{pointer} {op} {value:?}"
            );
        }
    }
}
