//! What a call costs. The one formula, over counts taken from the raw arguments; what a bucket holds is not known here.

use countersign_permission::Kind;

use crate::facts::ToolSettings;
use crate::request::Audience;

/// Lists without `max_items` are priced up to this length.
pub const DEFAULT_CAP: u64 = 1000;
/// Rows in one unit.
pub const ROWS_PER_UNIT: u64 = 50;
/// The most the formula gives without `max_items`.
pub const MAX_FORMULA_PRICE: u32 = 20;

/// A declared price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// So many units, at least 1.
    Units(u32),
    /// One unit per item of the list at this pointer (RFC 6901) of the arguments, clamped like rows, at least 1.
    Per(String),
}

/// The price of a call of a tool with these settings. `rows` is the longest list directly in the arguments, `None` where the arguments
/// are not an object; `per` the length of the list a [`Cost::Per`] names, 0 where there is none.
#[must_use]
pub fn price(settings: &ToolSettings, kind: Kind, rows: Option<u64>, per: u64) -> u32 {
    let cap = settings.max_items.unwrap_or(DEFAULT_CAP);
    let units = match (&settings.cost, rows) {
        (Some(Cost::Units(units)), _) => u64::from(*units),
        (Some(Cost::Per(_)), _) => per.min(cap),
        (None, Some(rows)) if kind == Kind::Write && settings.audience == Audience::Agent => {
            rows.min(cap).div_ceil(ROWS_PER_UNIT)
        }
        (None, _) => 1,
    };
    u32::try_from(units).unwrap_or(u32::MAX).max(1)
}

/// The most a call of such a tool can cost.
#[must_use]
pub fn largest(settings: &ToolSettings) -> u32 {
    let cap = settings.max_items.unwrap_or(DEFAULT_CAP);
    price(settings, settings.kind, Some(cap), cap)
}
