//! What looks like a secret where none belongs: one table of patterns. Says where, never what.

/// How a pattern is held against a text.
enum Pattern {
    /// Part of the name of a variable or option, in capitals, `-` as `_`.
    Name(&'static str),
    /// How a value of a known issuer begins.
    Start(&'static str),
}

const PATTERNS: &[Pattern] = &[
    Pattern::Name("TOKEN"),
    Pattern::Name("SECRET"),
    Pattern::Name("PASSW"),
    Pattern::Name("PASSPHRASE"),
    Pattern::Name("API_KEY"),
    Pattern::Name("APIKEY"),
    Pattern::Name("ACCESS_KEY"),
    Pattern::Name("PRIVATE_KEY"),
    Pattern::Name("CREDENTIAL"),
    Pattern::Name("AUTHORIZATION"),
    Pattern::Start("ghp_"),
    Pattern::Start("gho_"),
    Pattern::Start("ghs_"),
    Pattern::Start("github_pat_"),
    Pattern::Start("glpat-"),
    Pattern::Start("sk-"),
    Pattern::Start("sk_live_"),
    Pattern::Start("rk_live_"),
    Pattern::Start("xoxb-"),
    Pattern::Start("xoxp-"),
    Pattern::Start("AKIA"),
    Pattern::Start("AIza"),
    Pattern::Start("ntn_"),
    Pattern::Start("npm_"),
    Pattern::Start("hf_"),
    Pattern::Start("secret_"),
    Pattern::Start("Bearer "),
    Pattern::Start("Basic "),
    Pattern::Start("eyJ"),
    Pattern::Start("-----BEGIN"),
];

/// Why a value is more likely a secret than a setting, by its name (which may be empty) or by itself.
pub fn suspicion(name: &str, value: &str) -> Option<&'static str> {
    let name = name.to_ascii_uppercase().replace('-', "_");
    if value.is_empty() {
        return None;
    }
    if has_password(value) {
        return Some("holds a password in an address");
    }
    PATTERNS.iter().find_map(|pattern| match pattern {
        Pattern::Name(part) => name.contains(part).then_some("is named like a secret"),
        Pattern::Start(start) => value.starts_with(start).then_some("looks like a secret"),
    })
}

/// A warning for each word of a command line, or address, that holds what looks like a secret.
pub fn words_with_secrets<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut option = "";
    for (place, word) in words.enumerate() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if !name.contains("://") => (name, value),
            _ if word.starts_with('-') => ("", ""),
            _ => (option, word),
        };
        if let Some(why) = suspicion(name, value).or_else(|| suspicion("", word)) {
            warnings.push(format!(
                "warning: word {} of the command or address {why}: it stands in executor.json and in the list of processes, where others can \
                 read it. Better: --secret KEY, if the server takes it from a variable or header",
                place + 1
            ));
        }
        // The value of `--token VALUE` is the next word.
        option = match word.starts_with('-') && !word.contains('=') {
            true => word,
            false => "",
        };
    }
    warnings
}

/// Whether an address names a user with a password: `scheme://user:password@host`.
fn has_password(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((user, _)) = authority.rsplit_once('@') else {
        return false;
    };
    user.split_once(':')
        .is_some_and(|(_, password)| !password.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_judged_by_name_and_by_value() {
        for (line, places) in [
            ("npx -y server /home/x", &[][..]),
            ("x --token=sk-abc", &[2]),
            ("x --token=abc", &[2]),
            ("x --api-key abc", &[3]),
            ("x --api-key", &[]),
            ("x --token --verbose", &[]),
            ("x https://user:pw@host/path", &[2]),
            ("x https://user@host/a:b@c", &[]),
            ("x https://host/?a=b", &[]),
            ("x --db=postgres://u:p@h/d", &[2]),
            ("x ghp_abc AKIAabc", &[2, 3]),
            ("x --token=", &[]),
            ("x --level=info a=b", &[]),
        ] {
            let got = words_with_secrets(line.split(' '));
            assert_eq!(got.len(), places.len(), "{line}: {got:?}");
            for (warning, place) in got.iter().zip(places) {
                assert!(
                    warning.starts_with(&format!("warning: word {place} ")),
                    "{line}: {warning}"
                );
                assert!(!warning.contains("abc"), "{warning}");
            }
        }
    }
}
