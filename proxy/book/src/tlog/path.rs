//! Names of tiles and entry bundles (C2SP tlog-tiles): `tile/<L>/<N>[.p/<W>]`, `tile/entries/<N>[.p/<W>]`. Refuses to touch files.

use std::fmt;

/// Hashes of a full tile, entries of a full bundle.
pub(crate) const WIDTH: u64 = 256;

/// The deepest level whose tiles can have a name.
const MAX_LEVEL: u8 = 63;

/// What a tile holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Hashes of this tile level: of leaves at 0, of full tiles of the level below otherwise.
    Hashes(u8),
    /// Entries, each after its length in two bytes.
    Entries,
}

/// The name of a tile or bundle below a log's prefix.
///
/// ```text
/// tile/0/x001/x234/067        level 0, index 1,234,067, full
/// tile/entries/000.p/17       the first 17 entries
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TilePath {
    level: Level,
    index: u64,
    width: u16,
}

impl TilePath {
    /// The tile `index` of `level` with `width` hashes or entries; nothing unless the level is at most 63 and the width 1 to 256.
    #[must_use]
    pub fn new(level: Level, index: u64, width: u16) -> Option<Self> {
        let named = match level {
            Level::Hashes(level) => level <= MAX_LEVEL,
            Level::Entries => true,
        };
        (named && (1..=256).contains(&width)).then_some(Self {
            level,
            index,
            width,
        })
    }

    /// The tile `index` of `level` in a tree of `size` leaves: full, partial, or nothing where the tree has none.
    #[must_use]
    pub fn in_tree(level: Level, index: u64, size: u64) -> Option<Self> {
        let hashes = match level {
            Level::Hashes(level) => size.checked_shr(8 * u32::from(level)).unwrap_or(0),
            Level::Entries => size,
        };
        let width = hashes.saturating_sub(index.checked_mul(WIDTH)?).min(WIDTH);
        Self::new(level, index, u16::try_from(width).ok()?)
    }

    /// Reads a name, strictly: one spelling for each tile.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (level, rest) = text.strip_prefix("tile/")?.split_once('/')?;
        let level = match level {
            "entries" => Level::Entries,
            digits => Level::Hashes(u8::try_from(plain(digits)?).ok()?),
        };
        let (number, width) = match rest.split_once(".p/") {
            Some((number, width)) => (number, plain(width).filter(|width| *width < WIDTH)?),
            None => (rest, WIDTH),
        };
        let mut index = 0u64;
        let mut parts = number.split('/').peekable();
        while let Some(part) = parts.next() {
            let digits = match parts.peek() {
                Some(_) => part.strip_prefix('x')?,
                None => part,
            };
            if digits.len() != 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            index = index.checked_mul(1000)?.checked_add(digits.parse().ok()?)?;
        }
        let path = Self::new(level, index, u16::try_from(width).ok()?)?;
        (path.to_string() == text).then_some(path)
    }

    /// What it holds.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Its number within the level.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Hashes or entries in it, 1 to 256.
    #[must_use]
    pub fn width(&self) -> u16 {
        self.width
    }

    /// Whether it is full, so that it never changes.
    #[must_use]
    pub fn is_full(&self) -> bool {
        u64::from(self.width) == WIDTH
    }

    /// The full tile of the same place.
    pub(crate) fn full(self) -> Self {
        Self {
            width: WIDTH as u16,
            ..self
        }
    }
}

impl fmt::Display for TilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Level::Hashes(level) => write!(f, "tile/{level}/")?,
            Level::Entries => f.write_str("tile/entries/")?,
        }
        let mut scale = 1u64;
        while let Some(next) = scale.checked_mul(1000).filter(|next| self.index >= *next) {
            scale = next;
        }
        while scale > 1 {
            write!(f, "x{:03}/", self.index / scale % 1000)?;
            scale /= 1000;
        }
        write!(f, "{:03}", self.index % 1000)?;
        if self.is_full() {
            Ok(())
        } else {
            write!(f, ".p/{}", self.width)
        }
    }
}

/// A decimal number without leading zeros.
fn plain(digits: &str) -> Option<u64> {
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(level: u8, index: u64, width: u16) -> Option<TilePath> {
        TilePath::new(Level::Hashes(level), index, width)
    }

    fn check(path: Option<TilePath>, text: &str) {
        let path = path.unwrap();
        assert_eq!(path.to_string(), text);
        assert_eq!(TilePath::parse(text), Some(path), "{text}");
    }

    #[test]
    fn b4_paths_are_those_of_the_specification() {
        check(tile(0, 0, 256), "tile/0/000");
        check(tile(0, 255, 256), "tile/0/255");
        check(tile(0, 256, 256), "tile/0/256");
        check(tile(0, 999, 256), "tile/0/999");
        check(tile(0, 1000, 256), "tile/0/x001/000");
        check(tile(0, 1_234_067, 256), "tile/0/x001/x234/067");
        check(tile(63, 999_999, 255), "tile/63/x999/999.p/255");
        check(
            TilePath::new(Level::Entries, 1_234_067, 17),
            "tile/entries/x001/x234/067.p/17",
        );
        check(
            tile(0, u64::MAX, 256),
            "tile/0/x018/x446/x744/x073/x709/x551/615",
        );
    }

    #[test]
    fn b4_trees_of_256_and_70_000_have_the_tiles_of_the_specification() {
        let names = |size: u64| -> Vec<String> {
            let last = |level: u8| {
                let hashes = size >> (8 * level);
                (hashes > 0).then(|| (hashes - 1) / WIDTH)
            };
            (0..8)
                .filter_map(|level| {
                    let last = last(level)?;
                    let path = TilePath::in_tree(Level::Hashes(level), last, size)?;
                    let full = last + u64::from(path.is_full());
                    Some(format!("{full} full, last {path}"))
                })
                .collect()
        };
        assert_eq!(
            names(256),
            ["1 full, last tile/0/000", "0 full, last tile/1/000.p/1"]
        );
        assert_eq!(
            names(70_000),
            [
                "273 full, last tile/0/273.p/112",
                "1 full, last tile/1/001.p/17",
                "0 full, last tile/2/000.p/1"
            ]
        );
        assert_eq!(TilePath::in_tree(Level::Hashes(1), 0, 255), None);
        assert_eq!(TilePath::in_tree(Level::Entries, 1, 256), None);
        assert_eq!(TilePath::in_tree(Level::Hashes(9), 0, u64::MAX), None);
    }

    #[test]
    fn other_spellings_are_no_paths() {
        for text in [
            "",
            "tile/0/",
            "tile/0/00",
            "tile/0/0000",
            "tile/00/000",
            "tile/64/000",
            "tile/-1/000",
            "tile/+1/000",
            "tile/0/x000/000",
            "tile/0/x001/",
            "tile/0/001/000",
            "tile/0/x001/x234",
            "tile/0/000.p/0",
            "tile/0/000.p/256",
            "tile/0/000.p/01",
            "tile/0/000.p/",
            "tile/0/000.p",
            "tile/0/000/",
            "tile/entries/../000",
            "/tile/0/000",
            "tile/0/x999/x999/x999/x999/x999/x999/999",
        ] {
            assert_eq!(TilePath::parse(text), None, "{text}");
        }
    }
}
