//! Two strikes and turns: the automaton, where turns are kept ([`Turns`]), step 8 whole, and `write_denials`. What a denial is is
//! [`crate::policy`]'s.

mod bounded;
mod denials;
#[cfg(test)]
pub(crate) mod memory;
mod port;
mod state;
#[cfg(test)]
mod tests;

pub use bounded::{Bounded, Case, Passed, TURN_GATE, bounded, over};
pub use denials::{BookFact, Disposition, Event, WriteDenial, WriteDenials};
pub use port::{Stands, StrikeClaim, Struck, Turns};
pub use state::{By, Counted, LIMIT, Moved, Strike, Turn, TurnFact, What, arrive, open, strike};
