//! One rule over paths relative to the workspace: its grammar, what it matches, and which rules lie inside it. Knows no disk.

use crate::paths::fold;

/// A checked rule.
///
/// ```text
/// a/b          exactly that path             **/NAME      a leaf (allow) or any name (deny) of that name
/// a/b/**       that folder and all below     **/PREFIX*   the same, of names that begin so
/// **/*         everything                    **/DIR/**    a name of that kind, and all below it
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    text: String,
    pattern: Pattern,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Exact(Vec<String>),
    Below(Vec<String>),
    Everything,
    Named(String),
    Starts(String),
    Within(String),
}

/// Why a text is no rule: the end of a sentence that begins with the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleFault(pub &'static str);

impl Rule {
    /// Reads a rule: trimmed, doubled `/` made one, leading `./` taken off.
    ///
    /// # Errors
    /// When the text is outside the grammar, or could never match a path.
    pub fn parse(written: &str) -> Result<Self, RuleFault> {
        let text = normalised(written);
        let pattern = pattern(&text)?;
        Ok(Self { text, pattern })
    }

    /// The rule as it is written after normalisation.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it allows the path. Letters count with their case.
    #[must_use]
    pub fn allows(&self, path: &[String]) -> bool {
        let leaf = path.last();
        match &self.pattern {
            Pattern::Exact(names) => path == names,
            Pattern::Below(names) => path.starts_with(names),
            Pattern::Everything => leaf.is_some(),
            Pattern::Named(name) => leaf == Some(name),
            Pattern::Starts(start) => leaf.is_some_and(|leaf| leaf.starts_with(start.as_str())),
            Pattern::Within(name) => path.contains(name),
        }
    }

    /// Whether it denies the path: as written, or where both are the same without the case of letters.
    #[must_use]
    pub fn denies(&self, path: &[String]) -> bool {
        let folded: Vec<String> = path.iter().map(|name| fold(name)).collect();
        let same = |name: &String, at: usize| name == &path[at] || fold(name) == folded[at];
        let begins = |names: &[String]| {
            names.len() <= path.len() && names.iter().enumerate().all(|(at, name)| same(name, at))
        };
        let any = |test: &dyn Fn(usize) -> bool| (0..path.len()).any(test);
        match &self.pattern {
            Pattern::Exact(names) => names.len() == path.len() && begins(names),
            Pattern::Below(names) => begins(names),
            Pattern::Everything => !path.is_empty(),
            Pattern::Named(name) | Pattern::Within(name) => any(&|at| same(name, at)),
            Pattern::Starts(start) => {
                let start_folded = fold(start);
                any(&|at| {
                    path[at].starts_with(start.as_str()) || folded[at].starts_with(&start_folded)
                })
            }
        }
    }

    /// Whether every path that `inner` allows is allowed by this rule: over what they match, not over their text.
    #[must_use]
    pub fn contains(&self, inner: &Self) -> bool {
        use Pattern::{Below, Everything, Exact, Named, Starts, Within};
        match (&self.pattern, &inner.pattern) {
            (Everything, _) => true,
            (_, Exact(names)) => self.allows(names),
            (Below(outer), Below(names)) => names.starts_with(outer),
            (Within(outer), Below(names)) => names.contains(outer),
            (Within(outer), Within(name) | Named(name)) | (Named(outer), Named(name)) => {
                outer == name
            }
            (Starts(outer), Named(name) | Starts(name)) => name.starts_with(outer.as_str()),
            (
                Exact(_) | Below(_) | Named(_) | Starts(_) | Within(_),
                Below(_) | Everything | Named(_) | Starts(_) | Within(_),
            ) => false,
        }
    }
}

fn normalised(written: &str) -> String {
    let mut text = String::new();
    for c in written.trim().chars() {
        if c != '/' || !text.ends_with('/') {
            text.push(c);
        }
    }
    let mut rest = text.as_str();
    while let Some(after) = rest.strip_prefix("./") {
        rest = after;
    }
    rest.to_string()
}

fn pattern(text: &str) -> Result<Pattern, RuleFault> {
    let fault = |why| Err(RuleFault(why));
    if text.is_empty() {
        return fault("is empty");
    }
    if text.chars().any(char::is_control) {
        return fault("holds a control character");
    }
    if text.contains('\\') {
        return fault("holds a backslash, so it could never match: names are parted by `/`");
    }
    if text.starts_with('/')
        || (text.as_bytes().get(1) == Some(&b':') && text.as_bytes()[0].is_ascii_alphabetic())
    {
        return fault("is absolute; rules are relative to the workspace");
    }
    if text.starts_with('~') {
        return fault(
            "begins with `~`, so it could never match: rules are relative to the workspace",
        );
    }
    if text.ends_with('/') {
        return fault("ends with `/`; write `/**` after a folder's name for all below it");
    }
    let names: Vec<&str> = text.split('/').collect();
    if names.contains(&"..") {
        return fault("holds `..`");
    }
    if names.contains(&".") {
        return fault("holds `.`, so it could never match");
    }
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let plain = |names: &[&str]| names.iter().all(|name| !name.contains('*'));
    match names.as_slice() {
        ["**", "*"] => Ok(Pattern::Everything),
        ["**", "**"] => fault("is no form of rule; write `**/*` for everything"),
        ["**", name] if plain(&[name]) => Ok(Pattern::Named((*name).to_string())),
        ["**", name] => match name.strip_suffix('*') {
            Some(start) if !start.is_empty() && plain(&[start]) => {
                Ok(Pattern::Starts(start.to_string()))
            }
            _ => fault("holds a `*` inside a name; it may only end one, as in `**/PREFIX*`"),
        },
        ["**", name, "**"] if plain(&[name]) => Ok(Pattern::Within((*name).to_string())),
        ["**", _, _, ..] => {
            fault("could never match: after `**/` one name is taken, or one name and `/**`")
        }
        [folder @ .., "**"] if !folder.is_empty() && plain(folder) => {
            Ok(Pattern::Below(owned(folder)))
        }
        names if plain(names) => Ok(Pattern::Exact(owned(names))),
        _ => fault(
            "is no form of rule: use `a/b`, `a/b/**`, `**/*`, `**/NAME`, `**/PREFIX*` or `**/NAME/**`",
        ),
    }
}
