//! What a view asks for: the conditions of a list and the times a person types. Knows no database and no file.

use countersign_book::{Body, DecisionVerdict, Effect, Entry};
use jiff::Timestamp;

/// Conditions an entry must meet, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The agent; for decisions and outcomes their call's.
    pub agent: Option<String>,
    /// The server, likewise.
    pub server: Option<String>,
    /// The tool, likewise.
    pub tool: Option<String>,
    /// An outcome's status; of a call its first outcome's.
    pub outcome: Option<String>,
    /// `allow` or `deny`; of a call its decision's.
    pub decision: Option<String>,
    /// The kind.
    pub kind: Option<String>,
    /// Milliseconds since 1970: not before.
    pub since: Option<i64>,
    /// Milliseconds since 1970: before.
    pub until: Option<i64>,
}

impl Filter {
    /// Whether everything passes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the entry itself contradicts the filter: then what led to it is wrong. What only other entries tell is not judged.
    #[must_use]
    pub fn is_contradicted_by(&self, entry: &Entry) -> bool {
        let other = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_deref().is_some_and(|wanted| is != Some(wanted))
        };
        let time = entry
            .time
            .parse::<Timestamp>()
            .ok()
            .map(Timestamp::as_millisecond);
        let outside = self
            .since
            .is_some_and(|since| time.is_none_or(|time| time < since))
            || self
                .until
                .is_some_and(|until| time.is_none_or(|time| time >= until));
        let members = match &entry.body {
            Some(Body::Call(call)) => {
                other(&self.agent, call.agent.as_deref())
                    || other(&self.server, Some(&call.server))
                    || other(&self.tool, Some(&call.tool))
            }
            Some(Body::Outcome(outcome)) => other(&self.outcome, Some(status(outcome.status))),
            Some(Body::Decision(decision)) => {
                let word = match decision.decision {
                    DecisionVerdict::Allow => "allow",
                    DecisionVerdict::Deny => "deny",
                };
                other(&self.decision, Some(word))
            }
            _ => false,
        };
        outside || members || other(&self.kind, Some(&entry.kind))
    }
}

/// An outcome's status as the book spells it.
#[must_use]
pub fn status(status: countersign_book::Status) -> &'static str {
    use countersign_book::Status;
    match status {
        Status::Ok => "ok",
        Status::Error => "error",
        Status::Unknown => "unknown",
        Status::Preview => "preview",
        Status::ConfirmationRequired => "confirmation_required",
        Status::PendingApproval => "pending_approval",
        Status::Refused => "refused",
    }
}

/// A call's effect as the book spells it.
#[must_use]
pub fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "read",
        Effect::Write => "write",
    }
}

/// Reads a time as a person types it: RFC 3339, a date (its first moment, UTC), or how long ago (`90s`, `30m`, `2h`, `3d`, `1w`).
/// Milliseconds since 1970.
#[must_use]
pub fn moment(text: &str, now: Timestamp) -> Option<i64> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time.as_millisecond());
    }
    if text.len() == "2026-11-30".len()
        && let Ok(time) = format!("{text}T00:00:00Z").parse::<Timestamp>()
    {
        return Some(time.as_millisecond());
    }
    let unit = text.chars().last()?;
    let number = text.strip_suffix(unit)?;
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    let ago: i64 = number.parse::<i64>().ok()?.checked_mul(seconds * 1000)?;
    now.as_millisecond().checked_sub(ago)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_type_them() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let check = |text: &str, expected: &str| {
            let expected: Timestamp = expected.parse().unwrap();
            assert_eq!(moment(text, now), Some(expected.as_millisecond()), "{text}");
        };
        check("2026-11-30T17:00:00.123Z", "2026-11-30T17:00:00.123Z");
        check("2026-11-30T17:00:00+02:00", "2026-11-30T15:00:00Z");
        check("2026-11-29", "2026-11-29T00:00:00Z");
        check("90s", "2026-11-30T11:58:30Z");
        check("30m", "2026-11-30T11:30:00Z");
        check("2h", "2026-11-30T10:00:00Z");
        check("3d", "2026-11-27T12:00:00Z");
        check("1w", "2026-11-23T12:00:00Z");
        for text in [
            "",
            "h",
            "2",
            "-2h",
            "+2h",
            "2 h",
            "2y",
            "yesterday",
            "2026-11-30T17:00",
            "99999999999999999999d",
            "9223372036854775807w",
            "é",
        ] {
            assert_eq!(moment(text, now), None, "{text}");
        }
    }
}
