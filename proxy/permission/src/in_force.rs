//! What is in force: one pure function over the candidate permission, the time and the development switch, with its reason.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{Authority, Permission};

/// The answer to "what may this agent do now".
#[derive(Clone, Debug)]
pub enum InForce {
    /// This permission, and nothing else.
    Granted(Arc<Permission>),
    /// Nothing, and why.
    Nothing(NotInForce),
}

/// Why nothing is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInForce {
    /// No permission was signed for this agent.
    #[error("no permission is signed for this agent yet")]
    NoneSigned,
    /// A development permission outside `--development`.
    #[error("an unsigned permission holds only in an executor made with `--development`")]
    NotDevelopment,
    /// Its first moment is still to come.
    #[error("the signed permission is not valid yet")]
    NotYet,
    /// Its time is over.
    #[error("the signed permission has expired")]
    Expired,
}

/// Whether the executor was made with `--development`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Development {
    /// It was: an unsigned permission holds.
    Yes,
    /// It was not: only a signed one does.
    No,
}

/// The permission in force for one agent at `now`. `development` is what the executor was made with.
#[must_use]
pub fn in_force(
    candidate: Option<&Arc<Permission>>,
    development: Development,
    now: Timestamp,
) -> InForce {
    let Some(permission) = candidate else {
        return InForce::Nothing(NotInForce::NoneSigned);
    };
    if permission.authority == Authority::Development && development == Development::No {
        return InForce::Nothing(NotInForce::NotDevelopment);
    }
    if permission.not_before.is_some_and(|first| now < first) {
        return InForce::Nothing(NotInForce::NotYet);
    }
    if permission.expires_at.is_some_and(|end| now >= end) {
        return InForce::Nothing(NotInForce::Expired);
    }
    InForce::Granted(Arc::clone(permission))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, SettingsView, development};

    fn check(
        times: (Option<&str>, Option<&str>),
        authority: Authority,
        made: Development,
        want: Option<NotInForce>,
    ) {
        let view = SettingsView {
            executor: "id",
            agent: "a",
            key: "csk_ab12cd34",
            mode: Mode::Auto,
            servers: vec![],
        };
        let mut permission = development(&view).unwrap();
        permission.authority = authority;
        permission.not_before = times.0.map(|text| text.parse().unwrap());
        permission.expires_at = times.1.map(|text| text.parse().unwrap());
        let now = "2026-11-30T12:00:00Z".parse().unwrap();
        let got = match in_force(Some(&Arc::new(permission)), made, now) {
            InForce::Granted(_) => None,
            InForce::Nothing(why) => Some(why),
        };
        assert_eq!(got, want, "{times:?} {authority:?} {made:?}");
    }

    #[test]
    fn reasons() {
        use Authority::{Development as Unsigned, Signed};
        let (before, now, after) = (
            "2026-11-30T11:59:59Z",
            "2026-11-30T12:00:00Z",
            "2026-11-30T12:00:01Z",
        );
        check((None, None), Unsigned, Development::Yes, None);
        check(
            (None, None),
            Unsigned,
            Development::No,
            Some(NotInForce::NotDevelopment),
        );
        check((Some(now), Some(after)), Signed, Development::No, None);
        check(
            (Some(after), None),
            Signed,
            Development::No,
            Some(NotInForce::NotYet),
        );
        check(
            (Some(before), Some(now)),
            Signed,
            Development::No,
            Some(NotInForce::Expired),
        );
        let none = in_force(None, Development::Yes, now.parse().unwrap());
        assert!(matches!(none, InForce::Nothing(NotInForce::NoneSigned)));
    }
}
