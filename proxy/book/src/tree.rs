//! RFC 6962 (section 2.1) tree hashing and the compact range of a growing tree. Refuses to know what the leaves say.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A SHA-256 hash of the tree. Shown and stored as `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash(pub [u8; 32]);

/// The roots of the perfect subtrees of a tree's left edge, largest first: at most 64 hashes, enough to append leaves
/// and to compute the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactRange {
    size: u64,
    hashes: Vec<Hash>,
}

impl Hash {
    /// Parses `sha256:` and 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:")?;
        let bytes = data_encoding::HEXLOWER.decode(hex.as_bytes()).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    /// The SHA-256 of plain bytes (not a leaf: no prefix byte).
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl TryFrom<String> for Hash {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not `sha256:` and 64 lower-case hexadecimal digits")
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.to_string()
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The hash of a leaf: `SHA-256(0x00 || line)`.
#[must_use]
pub fn leaf_hash(line: &[u8]) -> Hash {
    Hash(
        Sha256::new()
            .chain_update([0])
            .chain_update(line)
            .finalize()
            .into(),
    )
}

/// The hash of an inner node: `SHA-256(0x01 || left || right)`.
pub(crate) fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Hash(
        Sha256::new()
            .chain_update([1])
            .chain_update(left.0)
            .chain_update(right.0)
            .finalize()
            .into(),
    )
}

impl CompactRange {
    /// A range of `size` leaves from its stored hashes, or nothing when their number does not fit the size.
    #[must_use]
    pub fn from_parts(size: u64, hashes: Vec<Hash>) -> Option<Self> {
        (hashes.len() == size.count_ones() as usize).then_some(Self { size, hashes })
    }

    /// The number of leaves.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The hashes, largest subtree first.
    #[must_use]
    pub fn hashes(&self) -> &[Hash] {
        &self.hashes
    }

    /// Appends one leaf hash.
    pub fn push(&mut self, leaf: Hash) {
        let mut node = leaf;
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.hashes.pop() {
                node = node_hash(&left, &node);
            }
        }
        self.hashes.push(node);
        self.size += 1;
    }

    /// The root of the tree; of an empty one the SHA-256 of nothing.
    #[must_use]
    pub fn root(&self) -> Hash {
        let mut hashes = self.hashes.iter().rev();
        let Some(first) = hashes.next() else {
            return Hash::of(b"");
        };
        hashes.fold(*first, |right, left| node_hash(left, &right))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The definition of RFC 6962 2.1, word by word.
    pub(crate) fn naive_root(leaves: &[Hash]) -> Hash {
        match leaves.len() {
            0 => Hash::of(b""),
            1 => leaves[0],
            n => {
                let k = n.next_power_of_two() / 2;
                node_hash(&naive_root(&leaves[..k]), &naive_root(&leaves[k..]))
            }
        }
    }

    pub(crate) fn leaves(n: usize) -> Vec<Hash> {
        (0..n)
            .map(|i| leaf_hash(&(i as u64).to_be_bytes()))
            .collect()
    }

    #[test]
    fn b6_the_compact_range_agrees_with_the_definition() {
        let all = leaves(600);
        let mut range = CompactRange::default();
        for n in 0..=600 {
            assert_eq!(range.root(), naive_root(&all[..n]), "size {n}");
            assert_eq!(
                CompactRange::from_parts(n as u64, range.hashes().to_vec()).unwrap(),
                range
            );
            if n < 600 {
                range.push(all[n]);
            }
        }
        assert!(CompactRange::from_parts(3, vec![all[0]]).is_none());
    }

    #[test]
    fn hashes_are_those_of_certificate_transparency() {
        // RFC 6962 test vectors of the reference implementation.
        let hex = |h: Hash| h.to_string();
        assert_eq!(
            hex(Hash::of(b"")),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(
            hex(leaf_hash(b"")),
            "sha256:6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
        );
        assert_eq!(Hash::parse(&hex(leaf_hash(b"x"))).unwrap(), leaf_hash(b"x"));
        assert!(Hash::parse("sha256:00").is_none());
    }
}
