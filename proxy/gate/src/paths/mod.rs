//! Paths among arguments: what a text may mean, where it really leads, and step 7, which keeps every tool off the executor's own
//! files. The disk is a port, [`Files`].

mod declared;
#[cfg(test)]
pub(crate) mod memory;
mod place;
mod port;
mod protect;
mod resolve;
mod spelling;
#[cfg(test)]
mod tests;

pub use declared::{Declared, Effect, Picked, pick, strings};
pub(crate) use place::steps as steps_of;
pub use place::{Place, Step, Written, fold};
pub use port::{Below, FileId, Files, Found, Look, LookError, Style};
pub(crate) use protect::Eyes;
pub use protect::{Closed, EXECUTOR_CLOSED, Holding, PROTECT_GATE, Protect, Reaches, Trespass};
pub use resolve::{MAX_LINKS, ResolveError, Resolved, resolve};
pub use spelling::{Readings, Unclear, readings};

/// A text of the agent's for a sentence: one line, cut where it is long.
#[must_use]
pub fn shown(text: &str) -> String {
    shown_up_to(text, 200)
}

/// The same with at most so many characters.
#[must_use]
pub fn shown_up_to(text: &str, most: usize) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == most {
            out.push('…');
            break;
        }
        out.push(if c.is_control() || c == '`' {
            '\u{fffd}'
        } else {
            c
        });
    }
    out
}
