//! Replaces the key that signs a book: `key.rotate` under the key in force, both keys for a while, then the new one alone.
//! Refuses to know where keys are kept.

use crate::entry::Count;
use crate::error::BookError;
use crate::files;
use crate::journal::KeyRange;
use crate::journal::api::Committed;
use crate::journal::chain::Chain;
use crate::journal::prepare::Prepared;
use crate::journal::recover::begin;
use crate::journal::scan::{Recent, Scan, Which};
use crate::journal::writer::Writer;
use crate::key::Signer;
use crate::lifecycle::KeyRotate;
use crate::reader::Reader;

/// How many sizes the key before may sign beside the new one: enough that whoever only knows the old key meets a checkpoint of
/// it that covers the rotation.
const OVERLAP: u64 = 1024;

impl Writer {
    /// Puts `signer` in force: appends `key.rotate`, signed by the key in force; every later checkpoint is signed by `signer`,
    /// and for 1,024 sizes by the key before too. The new key must be where other processes find it before this is called.
    ///
    /// # Errors
    /// [`BookError::SameKey`] when the book has or had the key; otherwise as [`Writer::commit`].
    pub fn rotate_key(&mut self, signer: Signer, reason: &str) -> Result<Committed, BookError> {
        self.check_poisoned()?;
        self.locked(|writer| {
            let recovery = writer.catch_up()?;
            let vkey = signer.vkey(&writer.chain.origin);
            let mut known = writer.chain.keys.vkeys().iter();
            if known.any(|known| known.id() == vkey.id()) {
                return Err(BookError::SameKey);
            }
            let from = writer.chain.size() + 2;
            let rotate = Prepared::checked(KeyRotate {
                from: Count(from),
                reason: reason.to_owned(),
                until: Some(Count(from - 1 + OVERLAP)),
                vkey: vkey.to_string(),
            })?;
            let name = writer.chain.origin.as_str().to_owned();
            writer.signers.add(&name, signer);
            let mut committed = writer.append(vec![rotate])?;
            let keys: Vec<_> = writer.chain.keys.signing(from).cloned().collect();
            writer.signers.keep(|vkey| keys.contains(vkey));
            committed.recovery = recovery;
            Ok(committed)
        })
    }

    /// The keys of the book with the sizes each may sign, oldest first, as of the last batch read.
    #[must_use]
    pub fn keys(&self) -> &[KeyRange] {
        self.chain.keys.ranges()
    }
}

impl Reader {
    /// The size of the book and its keys with the sizes each may sign, oldest first. Verifies the last segment.
    ///
    /// # Errors
    /// [`BookError::Damaged`], [`BookError::KeyRange`], [`BookError::Newer`], [`BookError::Io`].
    pub fn keys(&self) -> Result<(u64, Vec<KeyRange>), BookError> {
        let book = self.book();
        let first = self.layout.segments()?.last().copied().unwrap_or(0);
        let path = self.layout.segment(first);
        let file = files::open_read(&path)?;
        let mut chain = Chain::new(book.origin.clone(), book.vkey.clone());
        let mut place = begin(&file, &path, first, &mut chain)?;
        let scan = Scan {
            file: &file,
            path: &path,
            threads: 1,
            signatures: Which::Last,
        };
        scan.advance(&mut chain, &mut place, &mut Recent::default())?;
        Ok((chain.size(), chain.keys.ranges().to_vec()))
    }
}
