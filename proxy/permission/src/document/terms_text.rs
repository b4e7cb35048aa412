//! How a setting, a limit and a cost are spelled in a document. Knows nothing of what they mean.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Cost, LimitTerm, Setting};
use crate::ArgumentLimit;

impl Serialize for Setting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Secret(place) => serializer.collect_map([("secret", place)]),
        }
    }
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::Text(text)),
            Value::Object(map) if map.len() == 1 => match map.get("secret") {
                Some(Value::String(place)) => Ok(Self::Secret(place.clone())),
                _ => Err(D::Error::custom(SETTING)),
            },
            _ => Err(D::Error::custom(SETTING)),
        }
    }
}

const SETTING: &str = "expected text or {\"secret\": \"<server>/<KEY>\"}";

impl Serialize for LimitTerm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.document().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LimitTerm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = Map::<String, Value>::deserialize(deserializer)?;
        let known = |name: &str| matches!(name, "pointer" | "op" | "value");
        if let Some(other) = members.keys().find(|name| !known(name)) {
            return Err(D::Error::unknown_field(other, &["pointer", "op", "value"]));
        }
        let (Some(Value::String(pointer)), Some(Value::String(op))) =
            (members.get("pointer"), members.get("op"))
        else {
            return Err(D::Error::custom("a limit has a `pointer` and an `op`"));
        };
        ArgumentLimit::read(pointer, op, members.get("value"))
            .map(Self)
            .map_err(D::Error::custom)
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Units(units) => serializer.serialize_u32(*units),
            Self::Per(pointer) => serializer.collect_map([("per", pointer)]),
        }
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong =
            || D::Error::custom("expected a whole number from 1 on, or {\"per\": \"/pointer\"}");
        match Value::deserialize(deserializer)? {
            Value::Number(units) => {
                let units = units.as_u64().and_then(|units| u32::try_from(units).ok());
                let units = units.filter(|units| *units > 0);
                units.map(Self::Units).ok_or_else(wrong)
            }
            Value::Object(map) if map.len() == 1 => match map.get("per") {
                Some(Value::String(pointer)) => Ok(Self::Per(pointer.clone())),
                _ => Err(wrong()),
            },
            _ => Err(wrong()),
        }
    }
}
