//! Makes text from a book safe to print. Refuses to know where it is printed.

/// The text with everything that could steer a terminal or turn the reading direction spelled out: C0 and C1 controls
/// (with ESC, so ANSI sequences are plain text), line and paragraph separators, bidirectional and other invisible
/// format characters become `\u{…}`; a backslash is doubled so that the result is unambiguous.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            _ if c.is_control() || steers(c) => out.extend(c.escape_unicode()),
            _ => out.push(c),
        }
    }
    out
}

fn steers(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b55_control_bidi_and_ansi_are_spelled_out() {
        for (text, shown) in [
            ("plain ü 日本", "plain ü 日本"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("a\r\nb\u{9b}", "a\\u{d}\\u{a}b\\u{9b}"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("a\u{2066}b\u{feff}", "a\\u{2066}b\\u{feff}"),
            ("back\\slash", "back\\\\slash"),
        ] {
            assert_eq!(escape(text), shown);
        }
    }
}
