//! The right edge of a tree in tiles: what a builder must hold to append entries. Refuses to touch files.

use crate::error::BookError;
use crate::tlog::path::{Level, TilePath, WIDTH};
use crate::tree::{CompactRange, Hash};

/// The partial tiles of a tree of `size` entries and its last, partial bundle: at most 255 hashes for each of 8 levels and 255 entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edge {
    size: u64,
    levels: Vec<Vec<Hash>>,
    bundle: Vec<u8>,
}

impl Edge {
    /// The edge of a tree whose last level 0 tile is full, from the hashes of the levels above, lowest (1) first. Nothing when
    /// their numbers do not fit the size.
    pub(crate) fn from_parts(size: u64, above: Vec<Vec<Hash>>) -> Option<Self> {
        let mut levels = vec![Vec::new()];
        levels.extend(above);
        let fits = levels
            .iter()
            .zip(0u32..)
            .all(|(hashes, level)| hashes.len() as u64 == width_at(size, level));
        let complete =
            width_at(size, 0) == 0 && size.checked_shr(8 * levels.len() as u32).unwrap_or(0) == 0;
        (fits && complete).then_some(Self {
            size,
            levels,
            bundle: Vec::new(),
        })
    }

    /// Entries in the tree.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Appends an entry. Gives the bytes of each bundle and tile that is full by it.
    pub(crate) fn push(
        &mut self,
        leaf: Hash,
        entry: &[u8],
        mut full: impl FnMut(TilePath, &[u8]) -> Result<(), BookError>,
    ) -> Result<(), BookError> {
        // Chains accept no longer entry, so the length fits.
        let length = u16::try_from(entry.len()).unwrap_or(u16::MAX);
        self.bundle.extend_from_slice(&length.to_be_bytes());
        self.bundle.extend_from_slice(&entry[..usize::from(length)]);
        self.size += 1;
        if self.size.is_multiple_of(WIDTH)
            && let Some(path) = TilePath::in_tree(Level::Entries, self.size / WIDTH - 1, self.size)
        {
            full(path, &self.bundle)?;
            self.bundle.clear();
        }
        let mut carry = Some(leaf);
        let mut level = 0u8;
        while let Some(hash) = carry.take() {
            if self.levels.len() <= usize::from(level) {
                self.levels.push(Vec::new());
            }
            let hashes = &mut self.levels[usize::from(level)];
            hashes.push(hash);
            if hashes.len() as u64 == WIDTH {
                let index = (self.size >> (8 * u32::from(level))) / WIDTH - 1;
                if let Some(path) = TilePath::in_tree(Level::Hashes(level), index, self.size) {
                    full(path, &bytes_of(hashes))?;
                }
                carry = Some(subtree(hashes));
                hashes.clear();
                level += 1;
            }
        }
        Ok(())
    }

    /// The partial bundle and tiles, each with its bytes.
    pub(crate) fn partials(&self) -> Vec<(TilePath, Vec<u8>)> {
        let mut partials = Vec::new();
        if !self.bundle.is_empty()
            && let Some(path) = TilePath::in_tree(Level::Entries, self.size / WIDTH, self.size)
        {
            partials.push((path, self.bundle.clone()));
        }
        for (hashes, level) in self.levels.iter().zip(0u8..) {
            let index = (self.size >> (8 * u32::from(level))) / WIDTH;
            let path = TilePath::in_tree(Level::Hashes(level), index, self.size);
            if let Some(path) = path.filter(|_| !hashes.is_empty()) {
                partials.push((path, bytes_of(hashes)));
            }
        }
        partials
    }

    /// The tree's compact range. Every hash the edge holds is bound by it.
    pub(crate) fn range(&self) -> Option<CompactRange> {
        let mut nodes = Vec::new();
        for hashes in self.levels.iter().rev() {
            nodes.extend_from_slice(fold(hashes).hashes());
        }
        CompactRange::from_parts(self.size, nodes)
    }
}

/// Hashes in the partial tile of `level` in a tree of `size` leaves.
pub(crate) fn width_at(size: u64, level: u32) -> u64 {
    size.checked_shr(8 * level).unwrap_or(0) % WIDTH
}

/// The root of a perfect subtree over these nodes, whose number is a power of two.
pub(crate) fn subtree(hashes: &[Hash]) -> Hash {
    fold(hashes).root()
}

/// Nodes of one level as if they were leaves: inner nodes are hashed the same way at every level.
fn fold(hashes: &[Hash]) -> CompactRange {
    let mut range = CompactRange::default();
    hashes.iter().for_each(|hash| range.push(*hash));
    range
}

fn bytes_of(hashes: &[Hash]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.0).collect()
}

/// The hashes in a tile's bytes, or nothing when they are not `width` hashes.
pub(crate) fn hashes_of(bytes: &[u8], width: u64) -> Option<Vec<Hash>> {
    let (hashes, rest) = bytes.as_chunks::<32>();
    (rest.is_empty() && hashes.len() as u64 == width)
        .then(|| hashes.iter().copied().map(Hash).collect())
}

/// The entries in a bundle's bytes, or nothing when they do not end where the bundle does.
pub(crate) fn entries_of(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut entries = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        let (entry, rest) = rest.split_at_checked(length)?;
        entries.push(entry);
        bytes = rest;
    }
    bytes.is_empty().then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::leaves;

    #[test]
    fn tiles_and_edge_hold_the_tree_at_every_size() {
        let all = leaves(66_000);
        let (mut edge, mut range) = (Edge::default(), CompactRange::default());
        let mut above: Vec<Vec<Hash>> = vec![Vec::new(); 2];
        let mut fulls = 0;
        for (n, leaf) in all.iter().enumerate() {
            edge.push(*leaf, &n.to_be_bytes(), |path, bytes| {
                fulls += 1;
                assert!(path.is_full());
                match path.level() {
                    Level::Entries => assert_eq!(entries_of(bytes).unwrap().len(), 256),
                    Level::Hashes(level) => {
                        let hashes = hashes_of(bytes, 256).unwrap();
                        above[usize::from(level)].push(subtree(&hashes));
                    }
                }
                Ok(())
            })
            .unwrap();
            range.push(*leaf);
            if n < 600 || n % 997 == 0 || n > 65_500 {
                assert_eq!(edge.range().unwrap(), range);
            }
        }
        assert_eq!(fulls, 257 + 257 + 1);
        let parts = vec![above[0][256..].to_vec(), above[1].clone()];
        let restored = Edge::from_parts(257 * 256, parts.clone()).unwrap();
        assert_eq!(
            restored.range().unwrap().hashes(),
            &range.hashes()[..restored.range().unwrap().hashes().len()]
        );
        assert_eq!(Edge::from_parts(256 * 256, parts.clone()), None);
        assert_eq!(Edge::from_parts(257 * 256 + 1, parts), None);
        assert_eq!(
            Edge::from_parts(0, Vec::new()),
            Some(Edge {
                levels: vec![Vec::new()],
                ..Edge::default()
            })
        );
    }

    #[test]
    fn torn_bundles_are_refused() {
        assert_eq!(entries_of(b""), Some(Vec::new()));
        assert_eq!(
            entries_of(b"\0\x01a\0\0"),
            Some(vec![b"a".as_slice(), b"".as_slice()])
        );
        for bytes in [b"\0".as_slice(), b"\0\x02a", b"\0\x01a\0"] {
            assert_eq!(entries_of(bytes), None);
        }
        assert_eq!(hashes_of(&[0; 33], 1), None);
        assert_eq!(hashes_of(&[0; 64], 1), None);
    }
}
