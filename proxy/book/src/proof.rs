//! Inclusion and consistency proofs (RFC 6962 2.1.1–2.1.2, verified as in RFC 9162 2.1.3–2.1.4), computed in one pass
//! over the leaf hashes. Refuses to know where the leaves come from.

use std::ops::Range;

use crate::tree::{CompactRange, Hash, node_hash};

/// Builds a proof from leaf hashes pushed in order; holds at most 64 hashes of partial results for each of at most 64 nodes.
#[derive(Clone, Debug)]
pub struct ProofBuilder {
    size: u64,
    next: u64,
    ranges: Vec<Range<u64>>,
    nodes: Vec<CompactRange>,
}

/// Why a proof is refused or can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The tree has no such index or the sizes are in the wrong order.
    #[error("no such proof: {0}")]
    NoSuchProof(&'static str),
    /// The proof has too few or too many hashes.
    #[error("the proof has a wrong number of hashes")]
    Length,
    /// The proof leads to another root.
    #[error("the proof leads to another root")]
    Root,
    /// Fewer or more leaves were pushed than the tree has.
    #[error("the tree has {expected} leaves, {given} were given")]
    Leaves {
        /// Leaves of the tree.
        expected: u64,
        /// Leaves given.
        given: u64,
    },
}

impl ProofBuilder {
    /// The proof that leaf `index` is in the tree of `size` leaves.
    ///
    /// # Errors
    /// When `index` is not below `size`.
    pub fn inclusion(index: u64, size: u64) -> Result<Self, ProofError> {
        if index >= size {
            return Err(ProofError::NoSuchProof("the index is not in the tree"));
        }
        let mut ranges = Vec::new();
        let (mut low, mut high) = (0, size);
        while high - low > 1 {
            let middle = low + split(high - low);
            if index < middle {
                ranges.push(middle..high);
                high = middle;
            } else {
                ranges.push(low..middle);
                low = middle;
            }
        }
        ranges.reverse();
        Ok(Self::new(size, ranges))
    }

    /// The proof that the tree of `size` leaves extends the tree of its first `old` leaves.
    ///
    /// # Errors
    /// When `old` is 0 or above `size`.
    pub fn consistency(old: u64, size: u64) -> Result<Self, ProofError> {
        if old == 0 || old > size {
            return Err(ProofError::NoSuchProof(
                "the old size is 0 or above the new one",
            ));
        }
        let mut ranges = Vec::new();
        let (mut low, mut high, mut whole) = (0, size, true);
        while old != high {
            let middle = low + split(high - low);
            if old <= middle {
                ranges.push(middle..high);
                high = middle;
            } else {
                ranges.push(low..middle);
                low = middle;
                whole = false;
            }
        }
        if !whole {
            ranges.push(low..high);
        }
        ranges.reverse();
        Ok(Self::new(size, ranges))
    }

    fn new(size: u64, ranges: Vec<Range<u64>>) -> Self {
        let nodes = vec![CompactRange::default(); ranges.len()];
        Self {
            size,
            next: 0,
            ranges,
            nodes,
        }
    }

    /// The subtrees whose roots the proof is made of.
    pub(crate) fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Begins after the leaves of `before` instead of at leaf 0: only their compact range is known.
    ///
    /// # Errors
    /// When leaves were pushed already, or the proof needs a node inside of `before` (the proof of an entry in it does).
    pub fn start(&mut self, before: &CompactRange) -> Result<(), ProofError> {
        if self.next != 0 || before.size() > self.size {
            return Err(ProofError::NoSuchProof("it has begun already"));
        }
        for (range, node) in self.ranges.iter().zip(&mut self.nodes) {
            let known = before.size().clamp(range.start, range.end) - range.start;
            let (mut at, mut hashes) = (0, Vec::new());
            for (bit, hash) in (0..u64::BITS)
                .rev()
                .filter(|bit| before.size() >> bit & 1 == 1)
                .zip(before.hashes())
            {
                if at >= range.start && at + (1 << bit) <= range.start + known {
                    hashes.push(*hash);
                }
                at += 1 << bit;
            }
            *node = CompactRange::from_parts(known, hashes)
                .ok_or(ProofError::NoSuchProof("a node of it is not known"))?;
        }
        self.next = before.size();
        Ok(())
    }

    /// Takes the next leaf hash.
    pub fn push(&mut self, leaf: Hash) {
        for (range, node) in self.ranges.iter().zip(&mut self.nodes) {
            if range.contains(&self.next) {
                node.push(leaf);
            }
        }
        self.next += 1;
    }

    /// The proof's hashes, in the order of RFC 6962.
    ///
    /// # Errors
    /// When not exactly the tree's leaves were pushed.
    pub fn finish(self) -> Result<Vec<Hash>, ProofError> {
        if self.next != self.size {
            return Err(ProofError::Leaves {
                expected: self.size,
                given: self.next,
            });
        }
        Ok(self.nodes.iter().map(CompactRange::root).collect())
    }
}

/// Verifies that `leaf` is entry `index` of the tree of `size` leaves with this `root` (RFC 9162 2.1.3.2).
///
/// # Errors
/// When it is not proven.
pub fn verify_inclusion(
    proof: &[Hash],
    index: u64,
    leaf: Hash,
    size: u64,
    root: Hash,
) -> Result<(), ProofError> {
    if index >= size {
        return Err(ProofError::NoSuchProof("the index is not in the tree"));
    }
    let (mut node, mut position, mut last) = (leaf, index, size - 1);
    for hash in proof {
        if last == 0 {
            return Err(ProofError::Length);
        }
        if position & 1 == 1 || position == last {
            node = node_hash(hash, &node);
            while position & 1 == 0 && position != 0 {
                position >>= 1;
                last >>= 1;
            }
        } else {
            node = node_hash(&node, hash);
        }
        position >>= 1;
        last >>= 1;
    }
    if last != 0 {
        return Err(ProofError::Length);
    }
    if node == root {
        Ok(())
    } else {
        Err(ProofError::Root)
    }
}

/// Verifies that the tree (`size`, `root`) extends the tree (`old`, `old_root`) (RFC 9162 2.1.4.2).
///
/// # Errors
/// When it is not proven.
pub fn verify_consistency(
    proof: &[Hash],
    old: u64,
    old_root: Hash,
    size: u64,
    root: Hash,
) -> Result<(), ProofError> {
    if old == 0 || old > size {
        return Err(ProofError::NoSuchProof(
            "the old size is 0 or above the new one",
        ));
    }
    if old == size {
        return match proof {
            [] if old_root == root => Ok(()),
            [] => Err(ProofError::Root),
            _ => Err(ProofError::Length),
        };
    }
    let (first, rest) = if old.is_power_of_two() {
        (old_root, proof)
    } else {
        let (first, rest) = proof.split_first().ok_or(ProofError::Length)?;
        (*first, rest)
    };
    let (mut position, mut last) = (old - 1, size - 1);
    while position & 1 == 1 {
        position >>= 1;
        last >>= 1;
    }
    let (mut old_node, mut new_node) = (first, first);
    for hash in rest {
        if last == 0 {
            return Err(ProofError::Length);
        }
        if position & 1 == 1 || position == last {
            old_node = node_hash(hash, &old_node);
            new_node = node_hash(hash, &new_node);
            while position & 1 == 0 && position != 0 {
                position >>= 1;
                last >>= 1;
            }
        } else {
            new_node = node_hash(&new_node, hash);
        }
        position >>= 1;
        last >>= 1;
    }
    if last != 0 {
        return Err(ProofError::Length);
    }
    if old_node == old_root && new_node == root {
        Ok(())
    } else {
        Err(ProofError::Root)
    }
}

/// The largest power of two below `n`, for `n` of at least 2.
fn split(n: u64) -> u64 {
    1 << (u64::BITS - 1 - (n - 1).leading_zeros())
}

#[cfg(test)]
mod tests {
    use sha2::Sha256;

    use super::*;
    use crate::tree::tests::{leaves, naive_root};

    fn naive_path(m: usize, d: &[Hash]) -> Vec<Hash> {
        if d.len() == 1 {
            return Vec::new();
        }
        let k = d.len().next_power_of_two() / 2;
        let (mut path, other) = if m < k {
            (naive_path(m, &d[..k]), naive_root(&d[k..]))
        } else {
            (naive_path(m - k, &d[k..]), naive_root(&d[..k]))
        };
        path.push(other);
        path
    }

    /// Proofs of every kind in the trees of these sizes, ours beside those of another library.
    fn check_b6(sizes: impl Iterator<Item = u64>, picks: &dyn Fn(u64) -> Vec<u64>) {
        use ct_merkle::mem_backed_tree::MemoryBackedTree;
        let mut oracle: MemoryBackedTree<Sha256, [u8; 8]> = MemoryBackedTree::new();
        let mut leaves = Vec::new();
        for size in sizes {
            while oracle.len() < size {
                let leaf = oracle.len().to_be_bytes();
                oracle.push(leaf);
                leaves.push(crate::leaf_hash(&leaf));
            }
            let bytes = |mut builder: ProofBuilder| -> Vec<u8> {
                leaves.iter().for_each(|leaf| builder.push(*leaf));
                let hashes = builder.finish().unwrap();
                hashes.iter().flat_map(|hash| hash.0).collect()
            };
            for index in picks(size) {
                let ours = bytes(ProofBuilder::inclusion(index, size).unwrap());
                assert_eq!(
                    ours,
                    oracle.prove_inclusion(index as usize).as_bytes(),
                    "{index} of {size}"
                );
                let old = index + 1;
                if old < size {
                    let ours = bytes(ProofBuilder::consistency(old, size).unwrap());
                    let other = oracle.prove_consistency((size - old) as usize);
                    assert_eq!(ours, other.as_bytes(), "{old} to {size}");
                }
            }
        }
    }

    #[test]
    fn b6_proofs_equal_those_of_another_library() {
        check_b6(1..=600, &|size| vec![0, size / 3, size / 2, size - 1]);
        check_b6([1000, 4097, 65_536, 99_991].into_iter(), &|size| {
            vec![1, size / 7 * 3, size - 2]
        });
    }

    fn naive_subproof(m: usize, d: &[Hash], whole: bool) -> Vec<Hash> {
        if m == d.len() {
            return if whole {
                Vec::new()
            } else {
                vec![naive_root(d)]
            };
        }
        let k = d.len().next_power_of_two() / 2;
        let (mut proof, other) = if m <= k {
            (naive_subproof(m, &d[..k], whole), naive_root(&d[k..]))
        } else {
            (naive_subproof(m - k, &d[k..], false), naive_root(&d[..k]))
        };
        proof.push(other);
        proof
    }

    fn build(mut builder: ProofBuilder, leaves: &[Hash]) -> Vec<Hash> {
        leaves.iter().for_each(|leaf| builder.push(*leaf));
        builder.finish().unwrap()
    }

    #[test]
    fn b6_proofs_agree_with_the_definition_and_verify() {
        let all = leaves(70);
        for n in 1..=70 {
            let root = naive_root(&all[..n]);
            for m in 0..n {
                let proof = build(
                    ProofBuilder::inclusion(m as u64, n as u64).unwrap(),
                    &all[..n],
                );
                assert_eq!(proof, naive_path(m, &all[..n]));
                assert_eq!(
                    verify_inclusion(&proof, m as u64, all[m], n as u64, root),
                    Ok(())
                );
                assert!(
                    verify_inclusion(&proof, m as u64, all[m], n as u64, all[m]).is_err() || n == 1
                );
                if n > 1 {
                    assert!(
                        verify_inclusion(&proof[1..], m as u64, all[m], n as u64, root).is_err()
                    );
                    assert!(
                        verify_inclusion(&proof, m as u64, all[(m + 1) % n], n as u64, root)
                            .is_err()
                    );
                }
                let (old, old_root) = (m as u64 + 1, naive_root(&all[..=m]));
                let proof = build(ProofBuilder::consistency(old, n as u64).unwrap(), &all[..n]);
                assert_eq!(proof, naive_subproof(m + 1, &all[..n], true));
                assert_eq!(
                    verify_consistency(&proof, old, old_root, n as u64, root),
                    Ok(())
                );
                assert!(verify_consistency(&proof, old, Hash([9; 32]), n as u64, root).is_err());
                assert!(
                    verify_consistency(&proof, old, old_root, n as u64, Hash([9; 32])).is_err()
                );
            }
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]
        #[test]
        fn b6_random_sizes((n, m) in (1usize..5000).prop_flat_map(|n| (proptest::strategy::Just(n), 0..n))) {
            let all = leaves(n);
            let root = naive_root(&all);
            let proof = build(ProofBuilder::inclusion(m as u64, n as u64).unwrap(), &all);
            proptest::prop_assert_eq!(verify_inclusion(&proof, m as u64, all[m], n as u64, root), Ok(()));
            let proof = build(ProofBuilder::consistency(m as u64 + 1, n as u64).unwrap(), &all);
            proptest::prop_assert_eq!(
                verify_consistency(&proof, m as u64 + 1, naive_root(&all[..=m]), n as u64, root), Ok(()));
        }
    }
    use proptest::strategy::Strategy as _;
}
