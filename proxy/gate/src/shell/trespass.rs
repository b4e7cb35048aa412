//! Whether a command reaches what step 7 protects, by its words. A tripwire: see the module.

use super::safe::{List, is_mutating_predicate, is_safe};
use super::words::{Command, Role, Text, Word};
use crate::paths::{Effect, Eyes, Place, Reaches, fold};

/// Programs that change what they are pointed at.
const CHANGES: [&str; 12] = [
    "rm", "rmdir", "mv", "cp", "dd", "shred", "truncate", "unlink", "srm", "tee", "ln", "install",
];

/// Programs that take away what is below what they are pointed at.
const TAKES_AWAY: [&str; 6] = ["rm", "rmdir", "mv", "shred", "unlink", "srm"];

/// The first word that reaches what is protected.
pub(crate) fn trespass(eyes: &Eyes<'_>, command: &Command) -> Result<(), (String, Reaches)> {
    let safe = command
        .line()
        .is_some_and(|line| is_safe(&line, List::Reading));
    let commands = command.words();
    let mut all = commands.iter().flatten();
    let changes = all.any(|word| CHANGES.contains(&program(trimmed(&word.text))));
    let only_looks = safe && !changes;
    for words in &commands {
        for word in words {
            look(eyes, word, only_looks)?;
        }
        above(eyes, words)?;
        find(eyes, words)?;
        git_clean(eyes, words)?;
    }
    if !only_looks {
        let text = match &command.text {
            Text::Line(line) => line.clone(),
            Text::List(list) => list.join(" "),
        };
        if let Some((mention, whose)) = mentioned(eyes, &text) {
            return Err((mention, Reaches::Holding(whose)));
        }
    }
    Ok(())
}

/// One word: what it names itself, after `=`, glued to an option, or by a wildcard.
fn look(eyes: &Eyes<'_>, word: &Word, only_looks: bool) -> Result<(), (String, Reaches)> {
    let effect = if only_looks && word.role != Role::Output {
        Effect::Read
    } else {
        Effect::Create
    };
    for candidate in candidates(&word.text) {
        eyes.word(&candidate, effect)
            .map_err(|reaches| (word.text.clone(), reaches))?;
        if let Some(whose) = by_wildcard(eyes, &candidate) {
            return Err((word.text.clone(), Reaches::Holding(whose)));
        }
    }
    Ok(())
}

/// `rm -rf ~`: what lies above a holding takes it along.
fn above(eyes: &Eyes<'_>, words: &[Word]) -> Result<(), (String, Reaches)> {
    let Some(at) = words
        .iter()
        .position(|word| TAKES_AWAY.contains(&program(trimmed(&word.text))))
    else {
        return Ok(());
    };
    let moves = program(trimmed(&words[at].text)) == "mv";
    let mut operands: Vec<&Word> = words[at + 1..]
        .iter()
        .filter(|word| !word.text.starts_with('-'))
        .collect();
    if moves {
        operands.pop();
    }
    for word in operands {
        if let Some(whose) = eyes.contains_holding(trimmed(&word.text)) {
            return Err((word.text.clone(), Reaches::Holding(whose)));
        }
    }
    Ok(())
}

/// `find` that changes or runs something below a root that holds us.
fn find(eyes: &Eyes<'_>, words: &[Word]) -> Result<(), (String, Reaches)> {
    let Some(at) = words
        .iter()
        .position(|word| program(trimmed(&word.text)) == "find")
    else {
        return Ok(());
    };
    let rest = &words[at + 1..];
    if !rest
        .iter()
        .any(|word| is_mutating_predicate(trimmed(&word.text)))
    {
        return Ok(());
    }
    let mut roots: Vec<&str> = rest
        .iter()
        .map(|word| trimmed(&word.text))
        .skip_while(|word| ["-H", "-L", "-P"].contains(word))
        .take_while(|word| !word.starts_with(['-', '!', '(']))
        .collect();
    if roots.is_empty() {
        roots.push(".");
    }
    for root in roots {
        if let Some(whose) = eyes.contains_holding(root) {
            return Err((root.to_string(), Reaches::Holding(whose)));
        }
    }
    Ok(())
}

/// `git clean` that takes ignored files along, where the repository holds us.
fn git_clean(eyes: &Eyes<'_>, words: &[Word]) -> Result<(), (String, Reaches)> {
    let Some(at) = words
        .iter()
        .position(|word| program(trimmed(&word.text)) == "git")
    else {
        return Ok(());
    };
    let mut places = vec!["."];
    let mut rest = words[at + 1..].iter().map(|word| trimmed(&word.text));
    let verb = loop {
        match rest.next() {
            Some(option @ ("-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace")) => {
                let value = rest.next().unwrap_or_default();
                if ["-C", "--work-tree"].contains(&option) {
                    places.push(value);
                }
            }
            Some(option) if option.starts_with('-') => {
                places.extend(option.strip_prefix("--work-tree="));
            }
            verb => break verb,
        }
    };
    if verb != Some("clean") {
        return Ok(());
    }
    let options: Vec<&str> = rest.collect();
    let short = |letter: char| {
        options
            .iter()
            .any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letter))
    };
    let dry = short('n')
        || options
            .iter()
            .any(|word| "--dry-run".starts_with(word) && word.starts_with("--d"));
    if dry || !(short('x') || short('X')) {
        return Ok(());
    }
    for place in places {
        if let Some(whose) = eyes.contains_holding(place) {
            return Err(("clean".to_string(), Reaches::Holding(whose)));
        }
    }
    Ok(())
}

/// A name of ours anywhere in the text, in a script too: the last name where it begins with a dot, else the last two.
fn mentioned(eyes: &Eyes<'_>, text: &str) -> Option<(String, &'static str)> {
    let text = fold(text);
    eyes.holding_places().find_map(|(place, whose)| {
        let name = mention(place)?;
        let inside = |c: char| c.is_alphanumeric() || "_.-".contains(c);
        let hit = text.match_indices(&name).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + name.len()..].chars().next();
            !before.is_some_and(inside) && !after.is_some_and(inside)
        });
        hit.then_some((name, whose))
    })
}

fn mention(place: &Place) -> Option<String> {
    let last = fold(place.names.last()?);
    if last.starts_with('.') {
        return Some(last);
    }
    let above = place
        .names
        .len()
        .checked_sub(2)
        .map(|at| fold(&place.names[at]))?;
    Some(format!("{above}/{last}"))
}

/// A wildcard word that a shell may turn into the name of a holding, or of what is above it.
fn by_wildcard(eyes: &Eyes<'_>, word: &str) -> Option<&'static str> {
    let starts = word.find(['*', '?', '['])?;
    let fixed = word[..starts].rfind('/').map_or("", |at| &word[..=at]);
    let pattern = word[fixed.len()..].split('/').next().unwrap_or_default();
    // A bare `*` in a folder above us is every file there: only deeper patterns point at us by name.
    if pattern == "*" && !word[fixed.len()..].contains('/') {
        return None;
    }
    let places = eyes.places(if fixed.is_empty() { "." } else { fixed });
    eyes.holding_places().find_map(|(holding, whose)| {
        places.iter().find_map(|place| {
            let next = holding.after_folded(place)?.first()?;
            matches(&fold(pattern), &fold(next)).then_some(whose)
        })
    })
}

/// `*` and `?` as a shell takes them; `[…]` matches any one character.
fn matches(pattern: &str, name: &str) -> bool {
    let mut signs: Vec<char> = Vec::new();
    let mut in_set = false;
    for c in pattern.chars() {
        match (in_set, c) {
            (true, ']') => in_set = false,
            (true, _) => {}
            (false, '[') => {
                in_set = true;
                signs.push('?');
            }
            (false, c) => signs.push(c),
        }
    }
    let name: Vec<char> = name.chars().collect();
    let (mut sign, mut letter) = (0, 0);
    // Where the last `*` stands, and how far it reaches by now.
    let mut star: Option<(usize, usize)> = None;
    while letter < name.len() {
        match signs.get(sign) {
            Some('*') => {
                star = Some((sign, letter));
                sign += 1;
            }
            Some(c) if *c == '?' || *c == name[letter] => {
                sign += 1;
                letter += 1;
            }
            _ => match star {
                Some((at, reach)) => {
                    star = Some((at, reach + 1));
                    sign = at + 1;
                    letter = reach + 1;
                }
                None => return false,
            },
        }
    }
    signs[sign..].iter().all(|c| *c == '*')
}

fn candidates(word: &str) -> Vec<String> {
    let word = trimmed(word);
    let plain: String = word.chars().filter(|c| !"\"'\\".contains(*c)).collect();
    let mut all = vec![word.to_string()];
    for part in [
        Some(plain.as_str()),
        plain.split_once('=').map(|(_, value)| value),
        plain
            .strip_prefix('-')
            .and_then(|rest| rest.find('/').map(|at| &rest[at..])),
        plain.strip_prefix('@'),
    ]
    .into_iter()
    .flatten()
    {
        if !part.is_empty() && !all.iter().any(|known| known == part) {
            all.push(part.to_string());
        }
    }
    all
}

fn trimmed(word: &str) -> &str {
    word.trim_matches(['"', '\'', '`', '(', ')', ';'])
}

/// A program's own name.
fn program(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}
