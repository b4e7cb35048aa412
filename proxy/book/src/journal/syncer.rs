//! Syncs the vault's file on a thread of its own while the journal's is synced, so that a batch costs one flush.
//! Refuses to write: the bytes are in the file before it is asked.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The thread and the two channels to it. It ends when this is dropped.
pub(crate) struct Syncer {
    files: SyncSender<Arc<File>>,
    results: Receiver<io::Result<()>>,
}

impl Syncer {
    pub(crate) fn start() -> io::Result<Self> {
        let (files, requests) = sync_channel::<Arc<File>>(1);
        let (answers, results) = sync_channel(1);
        std::thread::Builder::new()
            .name("book-sync".into())
            .spawn(move || {
                while let Ok(file) = requests.recv() {
                    if answers.send(file.sync_data()).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self { files, results })
    }

    /// Syncs both files at the same time. Both were tried when this returns; the first error is answered.
    pub(crate) fn sync_both(&self, vault: &Arc<File>, journal: &File) -> io::Result<()> {
        let gone = || io::Error::other("the thread that syncs the vault is gone");
        self.files.send(Arc::clone(vault)).map_err(|_| gone())?;
        let journal = journal.sync_data();
        self.results.recv().map_err(|_| gone())?.and(journal)
    }
}
