//! Which command lines only read, by a table of programs with the options each may have: an option that is not listed makes a
//! command unsafe. Knows no path.

use super::words::has_control;

/// Which list a command is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// What may run under a write policy.
    Bounded,
    /// What counts as a mere look at protected files: also `find`, `git` and `env` where they only read.
    Reading,
}

/// A program.
struct Row {
    name: &'static str,
    /// One-letter options that only change what is shown. Digits always are.
    short: &'static str,
    /// Long options, without dashes and value.
    long: &'static [&'static str],
    /// The most operands; the last of more is written by some programs.
    operands: Operands,
}

enum Operands {
    Any,
    AtMost(usize),
    StartingWith(char),
}

const NONE: &[&str] = &[];

const TABLE: &[Row] = &[
    row(
        "ls",
        "aAbBcCdfFgGhHiIklLmnNopqQrRsStTuUvwxXZ1",
        &[
            "all",
            "almost-all",
            "color",
            "human-readable",
            "recursive",
            "reverse",
            "size",
            "sort",
            "time",
            "directory",
            "inode",
            "classify",
        ],
    ),
    row(
        "cat",
        "AbeEnstTuv",
        &[
            "number",
            "show-all",
            "show-ends",
            "show-tabs",
            "squeeze-blank",
            "number-nonblank",
        ],
    ),
    row("pwd", "LP", NONE),
    row("echo", "neE", NONE),
    row(
        "grep",
        "abcEFGHhiIlLnoPqrRsvVwxzABCme",
        &[
            "color",
            "colour",
            "count",
            "ignore-case",
            "invert-match",
            "line-number",
            "files-with-matches",
            "files-without-match",
            "recursive",
            "include",
            "exclude",
            "exclude-dir",
            "context",
            "after-context",
            "before-context",
            "extended-regexp",
            "fixed-strings",
            "perl-regexp",
            "word-regexp",
            "only-matching",
            "quiet",
            "max-count",
            "regexp",
            "no-filename",
            "with-filename",
        ],
    ),
    row(
        "rg",
        "abcFiIlLnNopPqsSuUvwxABCegmtTjMH",
        &[
            "files",
            "type",
            "type-not",
            "glob",
            "iglob",
            "hidden",
            "no-ignore",
            "ignore-case",
            "smart-case",
            "line-number",
            "count",
            "files-with-matches",
            "json",
            "max-count",
            "context",
            "after-context",
            "before-context",
            "fixed-strings",
            "word-regexp",
            "only-matching",
            "color",
            "heading",
            "no-heading",
            "sort",
            "stats",
            "multiline",
            "max-depth",
        ],
    ),
    row("ripgrep", "", NONE),
    row("head", "cnqvz", &["lines", "bytes", "quiet", "verbose"]),
    row("tail", "cnqvz", &["lines", "bytes", "quiet", "verbose"]),
    row(
        "wc",
        "clmwL",
        &["lines", "words", "bytes", "chars", "max-line-length"],
    ),
    row("which", "a", NONE),
    row("whoami", "", NONE),
    Row {
        name: "date",
        short: "uRI",
        long: &["utc", "universal", "iso-8601", "rfc-3339", "rfc-email"],
        operands: Operands::StartingWith('+'),
    },
    row("true", "", NONE),
    row(
        "tree",
        "adfiLlpsuDhgINCnrtv",
        &["noreport", "dirsfirst", "gitignore", "prune", "du", "sort"],
    ),
    row(
        "stat",
        "Lfct",
        &["format", "printf", "terse", "dereference", "file-system"],
    ),
    row(
        "file",
        "bihLrs0",
        &[
            "brief",
            "mime",
            "mime-type",
            "mime-encoding",
            "dereference",
            "no-dereference",
        ],
    ),
    row("dirname", "z", &["zero"]),
    row("basename", "asz", &["multiple", "suffix", "zero"]),
    row(
        "realpath",
        "emLPqsz",
        &[
            "canonicalize-existing",
            "canonicalize-missing",
            "relative-to",
            "relative-base",
            "strip",
            "zero",
        ],
    ),
    row(
        "sort",
        "bdfghiMnRrVcCmsuzkt",
        &[
            "numeric-sort",
            "reverse",
            "unique",
            "key",
            "field-separator",
            "ignore-case",
            "human-numeric-sort",
            "version-sort",
            "check",
            "stable",
            "zero-terminated",
        ],
    ),
    Row {
        name: "uniq",
        short: "cdDfisuwz",
        long: &[
            "count",
            "repeated",
            "unique",
            "ignore-case",
            "skip-fields",
            "skip-chars",
            "check-chars",
        ],
        operands: Operands::AtMost(1),
    },
    row(
        "diff",
        "abBcdeEiInNpqrstTuUwWxXyZ",
        &[
            "brief",
            "unified",
            "context",
            "recursive",
            "side-by-side",
            "color",
            "ignore-case",
            "ignore-all-space",
            "ignore-blank-lines",
            "ignore-space-change",
            "new-file",
            "report-identical-files",
            "exclude",
            "width",
            "text",
        ],
    ),
];

const fn row(name: &'static str, short: &'static str, long: &'static [&'static str]) -> Row {
    Row {
        name,
        short,
        long,
        operands: Operands::Any,
    }
}

/// Whether the line runs one program that only reads.
#[must_use]
pub fn is_safe(line: &str, list: List) -> bool {
    if has_control(line) {
        return false;
    }
    let Some(words) = unquoted(line) else {
        return false;
    };
    if words
        .iter()
        .any(|word| word.split('/').any(|part| part == ".."))
    {
        return false;
    }
    words_are_safe(&words, list)
}

fn words_are_safe(words: &[String], list: List) -> bool {
    let Some((name, rest)) = words.split_first() else {
        return false;
    };
    match (list, name.as_str()) {
        (List::Reading, "find") => !rest.iter().any(|word| is_mutating_predicate(word)),
        (List::Reading, "git") => is_git_read(rest),
        (List::Reading, "env") => {
            rest.is_empty() || (!is_option(&rest[0]) && words_are_safe(rest, list))
        }
        _ => TABLE
            .iter()
            .find(|row| row.name == name)
            .is_some_and(|row| row.allows(rest)),
    }
}

/// Whether a word of `find` makes it change or run something.
pub(super) fn is_mutating_predicate(word: &str) -> bool {
    [
        "-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls",
    ]
    .contains(&word)
}

impl Row {
    fn allows(&self, words: &[String]) -> bool {
        let mut operands = 0;
        let mut options = true;
        for word in words {
            if options && word == "--" {
                options = false;
            } else if options && is_option(word) {
                if !self.has(word) {
                    return false;
                }
            } else {
                operands += 1;
                let fits = match self.operands {
                    Operands::Any => true,
                    Operands::AtMost(most) => operands <= most,
                    Operands::StartingWith(first) => word.starts_with(first),
                };
                // A wildcard in front may become an option: a file can be called `-o`.
                if !fits || (options && word.starts_with(['*', '?', '['])) {
                    return false;
                }
            }
        }
        true
    }

    fn has(&self, option: &str) -> bool {
        match option.strip_prefix("--") {
            Some(long) => self
                .long
                .contains(&long.split('=').next().unwrap_or_default()),
            None => option[1..]
                .chars()
                .all(|c| c.is_ascii_digit() || ",.".contains(c) || self.short.contains(c)),
        }
    }
}

fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-')
}

fn is_git_read(words: &[String]) -> bool {
    const READS: [&str; 12] = [
        "status",
        "log",
        "diff",
        "show",
        "ls-files",
        "ls-tree",
        "rev-parse",
        "rev-list",
        "blame",
        "shortlog",
        "describe",
        "cat-file",
    ];
    const WRITES: [&str; 6] = [
        "--output",
        "-O",
        "--open-files-in-pager",
        "--ext-diff",
        "--textconv",
        "--filters",
    ];
    let Some((verb, rest)) = words.split_first() else {
        return false;
    };
    READS.contains(&verb.as_str())
        && !rest
            .iter()
            .any(|word| WRITES.iter().any(|option| word.starts_with(option)))
}

/// The words of a line without control signs, quotes taken off; `None` where the shell would put something in.
fn unquoted(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for c in line.trim().chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '$' | '\\') => return None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '{' | '}' | '(' | ')' | '!' | '#') => return None,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}
