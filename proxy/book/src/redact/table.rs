//! What looks like a secret: names of members and the shapes of values, as tables. A new one is one row here.

/// Ends of names that hold secrets, lower case, without anything but letters and digits.
const ENDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "secretkey",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "authorization",
    "credential",
    "credentials",
    "token",
    "cookie",
    "sessionid",
    "connectionstring",
];

/// Whole names that hold secrets.
const WHOLE: &[&str] = &[
    "pass", "pwd", "auth", "bearer", "jwt", "pin", "otp", "cvv", "dsn",
];

/// Ends of names that only look so: cursors and counters.
const HARMLESS: &[&str] = &[
    "pagetoken",
    "nexttoken",
    "continuationtoken",
    "synctoken",
    "progresstoken",
    "cursortoken",
    "stoptoken",
    "endtoken",
];

/// Parts of names by which they are found, lower case. Each of [`ENDS`] and [`WHOLE`] holds one of them.
pub(super) const STEMS: &[&str] = &[
    "pass",
    "pwd",
    "secret",
    "apikey",
    "api_key",
    "api-key",
    "accesskey",
    "access_key",
    "access-key",
    "privatekey",
    "private_key",
    "private-key",
    "signingkey",
    "signing_key",
    "signing-key",
    "encryptionkey",
    "encryption_key",
    "encryption-key",
    "authorization",
    "credential",
    "token",
    "cookie",
    "sessionid",
    "session_id",
    "session-id",
    "connectionstring",
    "connection_string",
    "connection-string",
    "\"auth\"",
    "bearer",
    "\"jwt\"",
    "\"pin\"",
    "\"otp\"",
    "\"cvv\"",
    "\"dsn\"",
];

/// Which bytes a value of a shape has after its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Letters, digits, `_` and `-`.
    Word,
    /// Capital letters and digits.
    Capitals,
}

/// A value that is known by its prefix.
pub(super) struct Shape {
    pub detector: &'static str,
    pub prefix: &'static str,
    pub rest: Rest,
    /// Bytes after the prefix, at least.
    pub least: usize,
}

const fn shape(detector: &'static str, prefix: &'static str, rest: Rest, least: usize) -> Shape {
    Shape {
        detector,
        prefix,
        rest,
        least,
    }
}

pub(super) const SHAPES: &[Shape] = &[
    shape("aws_key", "AKIA", Rest::Capitals, 16),
    shape("aws_key", "ASIA", Rest::Capitals, 16),
    shape("countersign_key", "csk_", Rest::Word, 16),
    shape("digitalocean_token", "dop_v1_", Rest::Word, 32),
    shape("github_token", "ghp_", Rest::Word, 30),
    shape("github_token", "gho_", Rest::Word, 30),
    shape("github_token", "ghu_", Rest::Word, 30),
    shape("github_token", "ghs_", Rest::Word, 30),
    shape("github_token", "ghr_", Rest::Word, 30),
    shape("github_token", "github_pat_", Rest::Word, 30),
    shape("gitlab_token", "glpat-", Rest::Word, 16),
    shape("google_key", "AIza", Rest::Word, 30),
    shape("google_token", "ya29.", Rest::Word, 20),
    shape("huggingface_token", "hf_", Rest::Word, 30),
    shape("npm_token", "npm_", Rest::Word, 30),
    shape("openai_key", "sk-", Rest::Word, 20),
    shape("pypi_token", "pypi-", Rest::Word, 40),
    shape("shopify_token", "shpat_", Rest::Word, 30),
    shape("slack_token", "xoxb-", Rest::Word, 10),
    shape("slack_token", "xoxp-", Rest::Word, 10),
    shape("slack_token", "xoxa-", Rest::Word, 10),
    shape("slack_token", "xapp-", Rest::Word, 10),
    shape("stripe_key", "sk_live_", Rest::Word, 10),
    shape("stripe_key", "rk_live_", Rest::Word, 10),
];

/// Whether a member of that name holds a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    const LONGEST: usize = 128;
    if name.len() > LONGEST {
        return false;
    }
    let name: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let ends = |table: &[&str]| table.iter().any(|end| name.ends_with(end));
    !ends(HARMLESS) && (ends(ENDS) || WHOLE.contains(&name.as_str()))
}

impl Rest {
    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Self::Word => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Capitals => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_their_end() {
        for name in [
            "password",
            "db_password",
            "Api-Key",
            "X-API-Key",
            "client_secret",
            "accessToken",
            "GITHUB_TOKEN",
            "Authorization",
            "pwd",
            "credentials",
            "AWS_SECRET_ACCESS_KEY",
            "connectionString",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "",
            "path",
            "max_tokens",
            "progressToken",
            "next_page_token",
            "passenger",
            "compass",
            "key",
            "keys",
            "secretary",
            "tokenizer",
            "spin",
            "author",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn every_name_is_found_by_a_stem() {
        let found = |name: &str| {
            let quoted = format!("\"{name}\"");
            STEMS.iter().any(|stem| quoted.contains(stem))
        };
        for name in ENDS.iter().chain(WHOLE) {
            assert!(found(name), "{name}");
        }
    }
}
