//! A refusal is data: code, step, a sentence for the model, what to do next. One table of codes; rendering belongs to transports,
//! the problem document (RFC 9457) to all of them.

use serde_json::{Map, Value, json};

use crate::rate::RateState;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident $status:literal $text:literal $title:literal;)*) => {
        /// Why a call did not run, or gave no answer. The table of flow.md 15.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// HTTP status.
            #[must_use]
            pub fn status(self) -> u16 { match self { $(Self::$variant => $status,)* } }

            /// Its name in documents and entries.
            #[must_use]
            pub fn text(self) -> &'static str { match self { $(Self::$variant => $text,)* } }

            /// Its title in a problem document.
            #[must_use]
            pub fn title(self) -> &'static str { match self { $(Self::$variant => $title,)* } }
        }
    };
}

codes! {
    /// A key in the URL.
    CredentialInUrl 400 "credential_in_url" "Credential in the URL";
    /// No key, or none that holds.
    Unauthorized 401 "unauthorized" "Not authenticated";
    /// The scope is not effective.
    Forbidden 403 "forbidden" "Not permitted";
    /// A rule of the settings holds the call.
    PermissionDenied 403 "permission_denied" "Denied";
    /// The person's session may not write through this server.
    ModuleWriteDisabled 403 "module_write_disabled" "Writes are off for this server";
    /// The tool is not the one that was permitted.
    DefinitionChanged 403 "definition_changed" "The tool has changed";
    /// Outside the bounded writes.
    WritePolicyDenied 403 "write_policy_denied" "Outside the write policy";
    /// No shell here.
    ShellDisabled 403 "shell_disabled" "Shell commands are off";
    /// The executor's own files.
    ProtectedPath 403 "protected_path" "Protected path";
    /// Outside a limit of the permission.
    OutsidePermission 403 "outside_permission" "Outside the permission";
    /// No such tool.
    NotFound 404 "not_found" "No such tool";
    /// Its server is switched off.
    ModuleDisabled 404 "module_disabled" "The server is switched off";
    /// A twin is running.
    IdempotencyInProgress 409 "idempotency_in_progress" "The same call is running";
    /// The stored answer is gone.
    IdempotencyExpired 409 "idempotency_expired" "The stored answer has expired";
    /// Nobody knows how the twin ended.
    OutcomeUnknown 409 "outcome_unknown" "The outcome is unknown";
    /// The code is not good.
    ConfirmTokenInvalid 409 "confirm_token_invalid" "The confirmation code is not valid";
    /// The turn was ended.
    TurnTerminated 409 "turn_terminated" "The turn was ended";
    /// Too many bytes.
    TooLarge 413 "too_large" "The arguments are too large";
    /// The arguments do not fit.
    ValidationFailed 422 "validation_failed" "The arguments are not valid";
    /// The key was used for other arguments.
    IdempotencyKeyReused 422 "idempotency_key_reused" "The idempotency key was used for another call";
    /// Too many calls.
    RateLimited 429 "rate_limited" "Too many calls";
    /// Ours.
    InternalError 500 "internal_error" "Internal error";
    /// The server's.
    UpstreamFailed 502 "upstream_failed" "The server failed";
    /// The preview could not be made.
    PreviewFailed 502 "preview_failed" "The preview failed";
    /// Switched off.
    ApiDisabled 503 "api_disabled" "Switched off";
    /// For a while.
    Maintenance 503 "maintenance" "In maintenance";
    /// The book cannot be written.
    RecordUnavailable 503 "record_unavailable" "The record cannot be written";
    /// The program on disk is another one.
    RestartRequired 503 "restart_required" "A restart is needed";
    /// No answer in time.
    UpstreamTimeout 504 "upstream_timeout" "The server did not answer in time";
}

/// Why a call did not run.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The code.
    pub code: Code,
    /// The step that refused, its number in flow.md.
    pub step: u8,
    /// For the model: what is wrong, in one or two sentences, naming the tool.
    pub sentence: String,
    /// What can be done, at least one.
    pub next_actions: Vec<String>,
    /// The code's own members; for `validation_failed` `errors: [{pointer, message}]`.
    pub context: Box<Map<String, Value>>,
    /// For the log and the person only: never in the document.
    pub detail: Option<String>,
}

/// The member of `_meta` and of an error's `data` that tells our errors from a server's.
pub const MARKER: &str = "localhost.countersign/refusal";

/// JSON-RPC error code for a refused task-augmented call: outside the reserved −32768…−32000.
pub const TASK_REFUSED: i64 = -31_000;

impl Refusal {
    /// A refusal; `next` is what can be done.
    #[must_use]
    pub fn new(code: Code, step: u8, sentence: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            code,
            step,
            sentence: sentence.into(),
            next_actions: vec![next.into()],
            context: Box::default(),
            detail: None,
        }
    }

    /// The same with one more member of context.
    #[must_use]
    pub fn with(mut self, member: &str, value: Value) -> Self {
        self.context.insert(member.to_string(), value);
        self
    }

    /// The same with a detail for the log and the person.
    #[must_use]
    pub fn because(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The problem document (RFC 9457: type, title, status, detail; plus code, request_id, context, next_actions).
    #[must_use]
    pub fn document(&self, request_id: &str) -> Value {
        json!({
            "type": format!("https://countersign.localhost/problems/{}", self.code.text()),
            "title": self.code.title(),
            "status": self.code.status(),
            "detail": self.sentence,
            "code": self.code.text(),
            "request_id": request_id,
            "context": self.context,
            "next_actions": self.next_actions,
        })
    }

    /// What an MCP transport shows, encoded once: the sentence with its next actions, and the document.
    #[must_use]
    pub fn shown(&self, request_id: &str) -> Shown {
        let document = self.document(request_id).to_string();
        let text = format!(
            "{}: {} What to do: {}",
            self.code.text(),
            self.sentence,
            self.next_actions.join(" ")
        );
        Shown { text, document }
    }

    /// HTTP headers of this answer, the rate values included where the limiter was reached.
    #[must_use]
    pub fn headers(&self, rate: Option<&RateState>) -> Vec<(&'static str, String)> {
        crate::answer::headers(rate)
    }
}

/// A refusal as text and document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// For a person or a model reading `content`.
    pub text: String,
    /// The problem document, JSON text: `structuredContent`, and the body of a REST answer.
    pub document: String,
}
