//! The specification's methods, both eras in one table per direction, and what the relay does with each. Decides nothing about content.

/// Something a server may ask of the client that is withheld unless its entry says `pass`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// `roots/list`: what a file server may touch.
    Roots,
    /// `sampling/createMessage`: the use of the person's model.
    Sampling,
    /// `elicitation/create`: questions to the person.
    Elicitation,
}

impl Feature {
    /// Every feature.
    pub const ALL: [Self; 3] = [Self::Roots, Self::Sampling, Self::Elicitation];

    /// Its name as a capability and in `pass`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Roots => "roots",
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
        }
    }

    /// The feature a method of either direction belongs to.
    #[must_use]
    pub fn of(method: &str) -> Option<Self> {
        match method {
            "roots/list" | "notifications/roots/list_changed" => Some(Self::Roots),
            "sampling/createMessage" => Some(Self::Sampling),
            "elicitation/create" | "notifications/elicitation/complete" => Some(Self::Elicitation),
            _ => None,
        }
    }
}

/// What is done with a client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handling {
    /// Opens the session (legacy) or describes the server (modern): capabilities are edited both ways.
    Opening,
    /// Filtered.
    List,
    /// Decided.
    Gated,
    /// Passed on.
    Pass,
    /// Passed on and never timed out.
    Listen,
}

/// Requests of clients (2024-11-05 to 2026-07-28).
const CLIENT_REQUESTS: &[(&str, Handling)] = &[
    ("initialize", Handling::Opening),
    ("server/discover", Handling::Opening),
    ("ping", Handling::Pass),
    ("tools/list", Handling::List),
    ("tools/call", Handling::Gated),
    ("resources/list", Handling::Pass),
    ("resources/templates/list", Handling::Pass),
    ("resources/read", Handling::Gated),
    ("resources/subscribe", Handling::Pass),
    ("resources/unsubscribe", Handling::Pass),
    ("prompts/list", Handling::Pass),
    ("prompts/get", Handling::Gated),
    ("completion/complete", Handling::Pass),
    ("logging/setLevel", Handling::Pass),
    ("tasks/get", Handling::Pass),
    ("tasks/result", Handling::Pass),
    ("tasks/list", Handling::Pass),
    ("tasks/cancel", Handling::Pass),
    ("tasks/update", Handling::Pass),
    ("subscriptions/listen", Handling::Listen),
];

const CLIENT_NOTIFICATIONS: &[&str] = &[
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/roots/list_changed",
    "notifications/tasks/status",
];

const SERVER_REQUESTS: &[&str] = &[
    "ping",
    "roots/list",
    "sampling/createMessage",
    "elicitation/create",
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
];

const SERVER_NOTIFICATIONS: &[&str] = &[
    "notifications/cancelled",
    "notifications/progress",
    "notifications/message",
    "notifications/resources/updated",
    "notifications/resources/list_changed",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/elicitation/complete",
    "notifications/tasks/status",
    "notifications/tasks",
    "notifications/subscriptions/acknowledged",
];

/// What one server's entry lets through beyond the tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passing {
    /// `pass`.
    pub features: Vec<Feature>,
    /// `methods`: requests and notifications outside the specification, both directions, by exact name.
    pub methods: Vec<String>,
}

impl Passing {
    /// What to do with a client's request; `None`: refuse it.
    #[must_use]
    pub fn client_request(&self, method: &str) -> Option<Handling> {
        let row = CLIENT_REQUESTS.iter().find(|(name, _)| *name == method);
        row.map(|(_, handling)| *handling)
            .or_else(|| self.names(method).then_some(Handling::Pass))
    }

    /// Whether a client's notification goes on.
    #[must_use]
    pub fn client_notification(&self, method: &str) -> bool {
        (CLIENT_NOTIFICATIONS.contains(&method) || self.names(method)) && !self.withholds(method)
    }

    /// Whether the specification or the entry knows a server's request. A withheld one is known, see [`Passing::withholds`].
    #[must_use]
    pub fn server_request(&self, method: &str) -> bool {
        SERVER_REQUESTS.contains(&method) || self.names(method)
    }

    /// Whether a server's notification goes on.
    #[must_use]
    pub fn server_notification(&self, method: &str) -> bool {
        (SERVER_NOTIFICATIONS.contains(&method) || self.names(method)) && !self.withholds(method)
    }

    /// Whether a method belongs to a feature the entry does not pass.
    #[must_use]
    pub fn withholds(&self, method: &str) -> bool {
        Feature::of(method).is_some_and(|feature| !self.features.contains(&feature))
    }

    /// The features that are withheld.
    pub fn withheld(&self) -> impl Iterator<Item = Feature> {
        Feature::ALL
            .into_iter()
            .filter(|feature| !self.features.contains(feature))
    }

    fn names(&self, method: &str) -> bool {
        self.methods.iter().any(|name| name == method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m51_only_what_is_listed_or_named_passes() {
        let strict = Passing::default();
        let open = Passing {
            features: vec![Feature::Roots],
            methods: vec!["skills/list".to_owned()],
        };
        assert_eq!(strict.client_request("tools/call"), Some(Handling::Gated));
        assert_eq!(strict.client_request("Tools/call"), None);
        assert_eq!(
            (
                strict.client_request("skills/list"),
                open.client_request("skills/list")
            ),
            (None, Some(Handling::Pass))
        );
        assert!(!strict.client_notification("notifications/roots/list_changed"));
        assert!(open.client_notification("notifications/roots/list_changed"));
        assert!(
            strict.server_request("roots/list")
                && strict.withholds("roots/list")
                && !open.withholds("roots/list")
        );
        assert!(!strict.server_notification("notifications/elicitation/complete"));
        assert!(!strict.server_notification("notifications/vendor"));
    }
}
