//! Turns prepared entries into the bytes of one batch: lines and checkpoint, under the book's lock. Refuses to write them and
//! to see payloads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use crate::checkpoint::Checkpoint;
use crate::commitment::{At, Field};
use crate::error::BookError;
use crate::journal::api::Recorded;
use crate::journal::blank::Position;
use crate::journal::chain::{Chain, VaultEnd, milliseconds};
use crate::journal::prepare::Prepared;
use crate::journal::segment::CP;
use crate::key::Hand;
use crate::note;
use crate::tree::leaf_hash;

/// The most entries a caller may put into one batch. Well below what readers accept, so that the entries recovery adds
/// for a lost one fit.
pub(crate) const MAX_BATCH: usize = 1024;

/// The bytes of a batch. The chain it was made with has advanced over it.
#[derive(Default)]
pub(crate) struct Lines {
    pub journal: Vec<u8>,
    pub vault: Vec<u8>,
    pub entries: Vec<Recorded>,
    pub lines: u64,
    pub checkpoint: String,
}

/// The time of a batch, as its entries state it and in milliseconds since 1970.
struct Time<'a> {
    text: &'a str,
    milliseconds: Option<i64>,
}

impl Lines {
    /// Makes the lines of `batch` and their checkpoint; objects go to the vault from `vault` on. Advances `chain`, which
    /// stays at its last checkpoint when this fails.
    pub(crate) fn make(
        batch: Vec<Prepared>,
        chain: &mut Chain,
        vault: VaultEnd,
        now: Timestamp,
        signers: &mut Hand,
    ) -> Result<Self, BookError> {
        let mut lines = Self::with_room(&batch);
        let text = timestamp(now);
        let time = Time {
            milliseconds: milliseconds(&text),
            text: &text,
        };
        for prepared in batch {
            if let Err(error) = lines.push(prepared, chain, vault, &time) {
                chain.drop_unsigned();
                return Err(error);
            }
        }
        if let Err(error) = lines.sign(chain, signers) {
            chain.drop_unsigned();
            return Err(error);
        }
        Ok(lines)
    }

    fn with_room(batch: &[Prepared]) -> Self {
        // What the places add to the lines, and the checkpoint.
        const MORE: usize = 256;
        let lines = batch.iter().map(|prepared| prepared.line.len() + MORE);
        let vault = batch.iter().map(Prepared::vault_bytes).sum::<u64>();
        Self {
            journal: Vec::with_capacity(lines.sum::<usize>() + 2 * MORE),
            vault: Vec::with_capacity(usize::try_from(vault).unwrap_or(0)),
            entries: Vec::with_capacity(batch.len()),
            ..Self::default()
        }
    }

    fn push(
        &mut self,
        prepared: Prepared,
        chain: &mut Chain,
        vault: VaultEnd,
        time: &Time<'_>,
    ) -> Result<(), BookError> {
        let Prepared { line, objects, .. } = prepared;
        let places: Vec<(Field, At)> = objects
            .into_iter()
            .map(|(field, object)| (field, self.put(vault, &object)))
            .collect();
        let place = |field| {
            let mut places = places.iter();
            places.find(|(of, _)| *of == field).map(|(_, at)| *at)
        };
        let (index, start) = (chain.next(), self.journal.len());
        let position = Position {
            index,
            before: chain.last(),
            time: time.text,
        };
        line.fill(position, place, &mut self.journal)?;
        let leaf = leaf_hash(&self.journal[start..]);
        self.journal.push(b'\n');
        self.lines += 1;
        chain.add(leaf, time.milliseconds, line.facts(index, place));
        self.entries.push(Recorded { index, leaf });
        Ok(())
    }

    /// Adds an object to the bytes for the vault.
    fn put(&mut self, vault: VaultEnd, object: &[u8]) -> At {
        let at = At {
            len: object.len() as u64,
            off: vault.end + self.vault.len() as u64,
            seg: vault.seg,
        };
        self.vault.extend_from_slice(object);
        at
    }

    /// Signs with the key in force, and beside it with those before that may still sign and are at hand.
    fn sign(&mut self, chain: &mut Chain, signers: &mut Hand) -> Result<(), BookError> {
        let size = chain.next();
        if let Some(key) = chain.keys.in_force(size)
            && !signers.get(&key.vkey)
        {
            return Err(BookError::KeyMissing {
                vkey: key.vkey.to_string(),
            });
        }
        let keys: Vec<_> = chain
            .keys
            .signing(size)
            .filter_map(|vkey| signers.pair(vkey))
            .collect();
        let checkpoint = Checkpoint {
            origin: chain.origin.to_string(),
            size,
            root: chain.next_root(),
        };
        self.checkpoint = note::sign(&checkpoint.text(), &keys);
        let encoded = STANDARD.encode(&self.checkpoint);
        chain
            .checkpoint(encoded.as_bytes())
            .map_err(|flaw| BookError::NotFound(flaw.what))?;
        self.journal.extend_from_slice(CP);
        self.journal.extend_from_slice(encoded.as_bytes());
        self.journal.push(b'\n');
        self.lines += 1;
        Ok(())
    }
}

/// RFC 3339, UTC, milliseconds.
pub(crate) fn timestamp(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}
