//! tmp
/// Text without characters that could steer a terminal.
pub fn plain(text: &str) -> String { text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(200).collect() }
