//! Compiled schemas, cached by their text: drafts 4 to 2020-12, local references only, bounded, linear-time patterns. Holding
//! arguments to one; numbers that cannot be judged exactly are refused rather than passed.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use countersign_permission::Hash;
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Value, json};

use super::inspect::{Unfit, dialect, inspect, parse};
use super::work::{is_too_much, must_be_counted};
use crate::json as raw;

/// Most faults named in one refusal.
const MAX_FAULTS: usize = 20;

/// A compiled schema.
pub struct Schema {
    text: Bytes,
    validator: Validator,
    compares_numbers: bool,
    /// Kept where the work of each call must be counted first.
    counted: Option<Value>,
}

/// One place where arguments do not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// JSON Pointer into the arguments.
    pub pointer: String,
    /// What is wrong there; values are not repeated.
    pub message: String,
}

impl Mismatch {
    /// As a member of `errors`.
    #[must_use]
    pub fn document(&self) -> Value {
        json!({"pointer": self.pointer, "message": self.message})
    }
}

impl Schema {
    /// Compiles a schema's text.
    ///
    /// # Errors
    /// Where and why it cannot be held.
    pub fn compile(text: Bytes) -> Result<Self, Unfit> {
        let value = parse(&text)?;
        let draft = match &value {
            Value::Object(root) => dialect(root)?,
            _ => return Err(Unfit::at("", "the schema is not an object")),
        };
        let inspected = inspect(&value)?;
        let compares_numbers = inspected.compares_numbers;
        let counted = must_be_counted(&inspected).then(|| value.clone());
        if compares_numbers {
            exact_numbers(&text)?;
        }
        let validator = build(&value, draft)?;
        Ok(Self {
            text,
            validator,
            compares_numbers,
            counted,
        })
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// Where checked, strict JSON text does not fit; empty where it does.
    #[must_use]
    pub fn mismatches(&self, text: &[u8]) -> Vec<Mismatch> {
        match value_of(text) {
            Ok((value, exact)) if exact || !self.compares_numbers => self.judge(&value),
            Ok(_) => vec![Mismatch {
                pointer: inexact_pointer(text),
                message:
                    "this number has more digits than can be judged exactly against this schema"
                        .to_string(),
            }],
            Err(mismatch) => vec![mismatch],
        }
    }

    /// Whether checked, strict JSON text fits, or it cannot be told that it does not: for schemas that say when something is dangerous.
    #[must_use]
    pub fn may_fit(&self, text: &[u8]) -> bool {
        match value_of(text) {
            Ok((value, exact)) if exact || !self.compares_numbers => {
                self.is_too_much(&value) || self.validator.is_valid(&value)
            }
            Ok(_) | Err(_) => true,
        }
    }

    fn judge(&self, value: &Value) -> Vec<Mismatch> {
        if self.is_too_much(value) {
            let message = "nested or repeated too much to be held to this schema".to_string();
            return vec![Mismatch {
                pointer: String::new(),
                message,
            }];
        }
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        let errors = self.validator.iter_errors(value).take(MAX_FAULTS);
        errors
            .map(|error| Mismatch {
                pointer: error.instance_path().to_string(),
                message: error.masked().to_string().chars().take(400).collect(),
            })
            .collect()
    }
}

impl Schema {
    fn is_too_much(&self, value: &Value) -> bool {
        let Some(schema) = &self.counted else {
            return false;
        };
        inspect(schema).map_or(true, |inspected| is_too_much(&inspected, value))
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema")
            .field("bytes", &self.text.len())
            .finish_non_exhaustive()
    }
}

/// A schema compiled when it is first needed.
#[derive(Debug)]
pub struct LazySchema {
    text: Bytes,
    compiled: OnceLock<Result<Schema, Unfit>>,
}

impl LazySchema {
    /// Not compiled yet.
    #[must_use]
    pub fn new(text: Bytes) -> Self {
        Self {
            text,
            compiled: OnceLock::new(),
        }
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// As [`Schema::mismatches`]; what cannot be compiled fits nothing.
    #[must_use]
    pub fn mismatches(&self, text: &[u8]) -> Vec<Mismatch> {
        match self
            .compiled
            .get_or_init(|| Schema::compile(self.text.clone()))
        {
            Ok(schema) => schema.mismatches(text),
            Err(unfit) => vec![Mismatch {
                pointer: String::new(),
                message: unfit.reason.clone(),
            }],
        }
    }
}

/// Compiled schemas by the hash of their text. One per executor; survives settings generations.
#[derive(Debug, Default)]
pub struct Validators {
    by_text: HashMap<Hash, Arc<Schema>>,
}

impl Validators {
    /// The compiled schema of that text, compiled now if it is new.
    ///
    /// # Errors
    /// Where and why it cannot be held.
    pub fn get(&mut self, text: Bytes) -> Result<Arc<Schema>, Unfit> {
        let hash = Hash::of(&text);
        if let Some(schema) = self.by_text.get(&hash) {
            return Ok(Arc::clone(schema));
        }
        let schema = Arc::new(Schema::compile(text)?);
        self.by_text.insert(hash, Arc::clone(&schema));
        Ok(schema)
    }

    /// Forgets schemas no tool holds any more.
    pub fn prune(&mut self) {
        self.by_text
            .retain(|_, schema| Arc::strong_count(schema) > 1);
    }
}

/// Compiles under one dialect.
pub(super) fn build(value: &Value, draft: Draft) -> Result<Validator, Unfit> {
    jsonschema::options()
        .with_draft(draft)
        .with_pattern_options(PatternOptions::regex())
        // `format` is a hint: our idea of an e-mail address is not the server's.
        .should_validate_formats(false)
        .build(value)
        .map_err(|error| {
            let pointer = error.instance_path().to_string();
            Unfit::at(
                pointer,
                error
                    .masked()
                    .to_string()
                    .chars()
                    .take(400)
                    .collect::<String>(),
            )
        })
}

/// A value to judge by, and whether every number in it is exact. Where one is not, a stand-in of the same type stands for it: good
/// for schemas that only ask for the type.
pub fn value_of(text: &[u8]) -> Result<(Value, bool), Mismatch> {
    let inexact: Vec<_> = raw::numbers(text)
        .into_iter()
        .filter(|span| !raw::is_exact(&text[span.clone()]))
        .collect();
    let unread = |error: serde_json::Error| Mismatch {
        pointer: String::new(),
        message: error.to_string(),
    };
    if inexact.is_empty() {
        return serde_json::from_slice(text)
            .map(|value| (value, true))
            .map_err(unread);
    }
    let mut stand_in = Vec::with_capacity(text.len());
    let mut from = 0;
    for span in inexact {
        stand_in.extend_from_slice(&text[from..span.start]);
        let number = &text[span.clone()];
        let plain = number
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b'-');
        let same_type: &[u8] = match (plain, raw::is_whole(number)) {
            (true, _) => b"1",
            (false, true) => b"1.0",
            (false, false) => b"0.5",
        };
        stand_in.extend_from_slice(same_type);
        from = span.end;
    }
    stand_in.extend_from_slice(&text[from..]);
    serde_json::from_slice(&stand_in)
        .map(|value| (value, false))
        .map_err(unread)
}

fn exact_numbers(schema: &[u8]) -> Result<(), Unfit> {
    let bad = raw::numbers(schema)
        .into_iter()
        .find(|span| !raw::is_exact(&schema[span.clone()]));
    match bad {
        None => Ok(()),
        Some(_) => Err(Unfit::at(
            inexact_pointer(schema),
            "a number with more digits than can be judged exactly",
        )),
    }
}

/// Where the first number stands that cannot be judged exactly.
fn inexact_pointer(text: &[u8]) -> String {
    for member in raw::members(text) {
        if has_inexact(member.value) {
            return format!(
                "/{}{}",
                super::inspect::escaped(&member.name),
                inexact_pointer(member.value)
            );
        }
    }
    for (at, element) in raw::elements(text).enumerate() {
        if has_inexact(element) {
            return format!("/{at}{}", inexact_pointer(element));
        }
    }
    String::new()
}

fn has_inexact(text: &[u8]) -> bool {
    raw::numbers(text)
        .into_iter()
        .any(|span| !raw::is_exact(&text[span]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &str, cases: &[(&str, Result<(), &str>)]) {
        let schema = Schema::compile(Bytes::copy_from_slice(schema.as_bytes())).unwrap();
        for (text, want) in cases {
            let got = schema.mismatches(text.as_bytes());
            assert_eq!(
                got.first()
                    .map_or(Ok(()), |first| Err(first.pointer.as_str())),
                *want,
                "{text} {got:?}"
            );
        }
    }

    fn unfit(schema: &str, pointer: &str, word: &str) {
        let error = Schema::compile(Bytes::copy_from_slice(schema.as_bytes())).unwrap_err();
        assert_eq!(error.pointer, pointer, "{error:?}");
        assert!(error.reason.contains(word), "{error:?}");
    }

    #[test]
    fn numbers_are_judged_exactly_or_refused() {
        let bounded = r#"{"properties":{"n":{"type":"number","maximum":9007199254740992}}}"#;
        check(
            bounded,
            &[
                (r#"{"n":9007199254740992}"#, Ok(())),
                (r#"{"n":9007199254740993}"#, Err("/n")),
                (r#"{"n":9007199254740992.0000000001}"#, Err("/n")),
                (r#"{"n":1e400}"#, Err("/n")),
                (r#"{"n":-1e400}"#, Err("/n")),
                (r#"{"n":123456789012345678901234567890}"#, Err("/n")),
                (
                    r#"{"n":0.1,"m":[{"k":1.00000000000000000001}]}"#,
                    Err("/m/0/k"),
                ),
            ],
        );
        check(
            r#"{"properties":{"n":{"type":"integer"}}}"#,
            &[
                (r#"{"n":123456789012345678901234567890}"#, Ok(())),
                (r#"{"n":9007199254740993}"#, Ok(())),
                (r#"{"n":1e400}"#, Ok(())),
                (r#"{"n":1.00000000000000000001}"#, Err("/n")),
                (r#"{"n":"1"}"#, Err("/n")),
            ],
        );
        check(
            r#"{"properties":{"n":{"multipleOf":0.1}}}"#,
            &[(r#"{"n":0.3}"#, Ok(())), (r#"{"n":0.35}"#, Err("/n"))],
        );
        check(
            r#"{"properties":{"n":{"const":9007199254740993}}}"#,
            &[
                (r#"{"n":9007199254740993}"#, Ok(())),
                (r#"{"n":9007199254740992}"#, Err("/n")),
                (r#"{"n":9007199254740993.0}"#, Err("/n")),
            ],
        );
    }

    #[test]
    fn what_cannot_be_held_is_named() {
        unfit(
            r#"{"properties":{"a":{"$ref":"https://example.com/x"}}}"#,
            "/properties/a/$ref",
            "local",
        );
        unfit(
            r##"{"properties":{"a":{"$ref":"#/$defs/none"}}}"##,
            "/properties/a/$ref",
            "nowhere",
        );
        unfit(
            r##"{"properties":{"a":{"allOf":[{"$ref":"#/properties/a"}]}}}"##,
            "/properties/a",
            "themselves",
        );
        unfit(
            r#"{"$schema":"http://json-schema.org/draft-03/schema#"}"#,
            "/$schema",
            "not supported",
        );
        unfit(
            r#"{"properties":{"a":{"pattern":"(a)\\1"}}}"#,
            "/properties/a/pattern",
            "",
        );
        unfit(r#"{"properties":{"a":{"minimum":1e400}}}"#, "", "range");
        unfit(
            r#"{"properties":{"a":{"type":"strin"}}}"#,
            "/properties/a/type",
            "",
        );
        let deep = format!(
            "{}{}",
            r#"{"items":"#.repeat(70),
            "{}".to_string() + &"}".repeat(70)
        );
        unfit(&deep, "", "deep");
        let wide: String = (0..6000).map(|n| format!("\"p{n}\":{{}},")).collect();
        unfit(
            &format!("{{\"properties\":{{{wide}\"x\":{{}}}}}}"),
            "/properties/p4999",
            "5000",
        );
        let doubling: String =
            (0..24).map(|n| format!("\"d{n}\":{{\"anyOf\":[{{\"$ref\":\"#/$defs/d{}\"}},{{\"$ref\":\"#/$defs/d{}\"}}]}},", n + 1, n + 1)).collect();
        let doubling = format!("{{\"$defs\":{{{doubling}\"d24\":{{}}}}}}");
        let error = Schema::compile(Bytes::from(doubling)).unwrap_err();
        assert!(error.reason.contains("multiply"), "{error:?}");
    }

    #[test]
    fn arguments_that_would_never_be_judged_are_refused() {
        let branch = r##"{"properties":{"c":{"$ref":"#"}}}"##;
        let schema = format!("{{\"anyOf\":[{branch},{branch}]}}");
        let deep = format!("{}{{}}{}", r#"{"c":"#.repeat(100), "}".repeat(100));
        check(&schema, &[(r#"{"c":{"c":{}}}"#, Ok(())), (&deep, Err(""))]);
    }

    #[test]
    fn formats_are_hints_in_every_dialect() {
        for draft in ["draft-07/schema#", "draft/2020-12/schema"] {
            let schema = format!(
                r#"{{"$schema":"http://json-schema.org/{draft}","properties":{{"a":{{"format":"email"}}}}}}"#
            );
            check(&schema, &[(r#"{"a":"nobody"}"#, Ok(()))]);
        }
    }

    #[test]
    fn recursion_through_values_is_fine() {
        check(
            r##"{"$defs":{"t":{"type":"object","properties":{"c":{"type":"array","items":{"$ref":"#/$defs/t"}}},"required":["n"]}},"$ref":"#/$defs/t"}"##,
            &[
                (r#"{"n":1,"c":[{"n":2,"c":[]}]}"#, Ok(())),
                (r#"{"n":1,"c":[{"c":[]}]}"#, Err("/c/0")),
            ],
        );
    }
}
