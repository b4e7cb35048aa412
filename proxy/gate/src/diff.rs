//! What a change of text looks like: lines taken out and put in, with their surroundings. Bounded work; knows nothing of files.

/// Lines of surroundings around a change.
const AROUND: usize = 3;

/// The longest changed part that is compared line by line; a longer one is shown as replaced.
const COMPARED: usize = 1500;

/// The lines of `old` and `new` where they differ, each marked ` `, `-` or `+`; `…` stands for what is left out. Empty where they are
/// the same.
#[must_use]
pub fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (
        old.split_inclusive('\n').collect(),
        new.split_inclusive('\n').collect(),
    );
    let same = |(a, b): &(&&str, &&str)| a == b;
    let before = old.iter().zip(&new).take_while(same).count();
    let most = old.len().min(new.len()) - before;
    let after = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(most)
        .take_while(same)
        .count();
    let (gone, come) = (
        &old[before..old.len() - after],
        &new[before..new.len() - after],
    );
    if gone.is_empty() && come.is_empty() {
        return String::new();
    }
    let mut marked: Vec<(char, &str)> = old[..before].iter().map(|line| (' ', *line)).collect();
    marked.extend(compared(gone, come));
    marked.extend(old[old.len() - after..].iter().map(|line| (' ', *line)));
    shown(&marked)
}

/// By the longest common subsequence, or as a whole where that is too much work.
fn compared<'a>(gone: &[&'a str], come: &[&'a str]) -> Vec<(char, &'a str)> {
    let (rows, columns) = (gone.len(), come.len());
    if rows > COMPARED || columns > COMPARED {
        let gone = gone.iter().map(|line| ('-', *line));
        return gone.chain(come.iter().map(|line| ('+', *line))).collect();
    }
    // longest[i][j]: lines common to gone[i..] and come[j..].
    let width = columns + 1;
    let mut longest = vec![0_u16; (rows + 1) * width];
    for i in (0..rows).rev() {
        for j in (0..columns).rev() {
            longest[i * width + j] = if gone[i] == come[j] {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut marked) = (0, 0, Vec::with_capacity(rows + columns));
    while i < rows || j < columns {
        if i < rows && j < columns && gone[i] == come[j] {
            marked.push((' ', gone[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == columns
            || (i < rows && longest[(i + 1) * width + j] >= longest[i * width + j + 1])
        {
            marked.push(('-', gone[i]));
            i += 1;
        } else {
            marked.push(('+', come[j]));
            j += 1;
        }
    }
    marked
}

fn shown(marked: &[(char, &str)]) -> String {
    let mut near = vec![false; marked.len()];
    for (at, _) in marked.iter().enumerate().filter(|(_, line)| line.0 != ' ') {
        let end = (at + AROUND + 1).min(marked.len());
        near[at.saturating_sub(AROUND)..end].fill(true);
    }
    let (mut out, mut left_out) = (String::new(), false);
    for ((mark, line), near) in marked.iter().zip(near) {
        if !near {
            left_out = true;
            continue;
        }
        if std::mem::take(&mut left_out) {
            out.push_str("…\n");
        }
        out.push(*mark);
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push('\n');
        }
    }
    if left_out {
        out.push_str("…\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_and_its_surroundings() {
        let cases = [
            ("", "", ""),
            ("a\n", "a\n", ""),
            ("", "a\nb", "+a\n+b\n"),
            ("a\n", "", "-a\n"),
            ("a\nb\nc\n", "a\nB\nc\n", " a\n-b\n+B\n c\n"),
            ("a\na\n", "a\n", " a\n-a\n"),
            (
                "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
                "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
                "…\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n…\n",
            ),
            ("a\nx\nb\ny\nc\n", "a\nb\nc\n", " a\n-x\n b\n-y\n c\n"),
        ];
        for (old, new, want) in cases {
            assert_eq!(diff(old, new), want, "{old:?} {new:?}");
        }
    }

    #[test]
    fn a_very_long_change_is_shown_as_replaced() {
        let old: String = (0..5000).map(|n| format!("{n}\n")).collect();
        let new: String = (0..5000).map(|n| format!("n{n}\n")).collect();
        let shown = diff(&old, &new);
        assert_eq!(shown.lines().count(), 10_000);
    }
}
