//! The thread that writes the book: group commit, the batch interval of reads, settling of dead processes' calls, opening the
//! book anew after a failure. Owns the writer; refuses to know who hands entries over.

use std::time::{Duration, Instant};

use countersign_book::{BookError, Writer};

use super::outage::{Outage, Stopped};
use super::queue::{Next, Pause, Shared, ended};
use super::{Chores, Moment};

/// How often chores are done: settling, refusal counts, a beat.
const CHORES: Duration = Duration::from_secs(20);
/// How old the book's last entry may be before a beat is written. Looked at with the chores, so no ten minutes pass without an entry.
const BEAT: Duration = Duration::from_secs(9 * 60);

/// Gives the writer.
pub(super) type Open = Box<dyn FnMut() -> Result<Writer, BookError> + Send>;
/// Whether the process of a name lives.
pub(super) type Alive = Box<dyn Fn(&str) -> bool + Send>;

/// How long batches are written one right after the other before other processes get their turn, and how long that is. The system
/// gives a lock that was let go to whoever asks first, and who writes without a pause asks before those it has woken run.
const SPELL: Duration = Duration::from_millis(4);
const TURN: Duration = Duration::from_micros(200);

pub(super) struct Scribe<'a> {
    shared: &'a Shared,
    process: String,
    open: Open,
    alive: Alive,
    chores: Chores,
    chores_at: Instant,
}

/// A failure, and how many entries it took along.
struct Failed {
    error: BookError,
    lost: u64,
}

impl<'a> Scribe<'a> {
    /// The thread's work; `open` gives the writer, now and after a failure.
    pub(super) fn new(
        shared: &'a Shared,
        process: String,
        open: Open,
        alive: Alive,
        chores: Chores,
    ) -> Self {
        Self {
            shared,
            process,
            open,
            alive,
            chores,
            chores_at: Instant::now(),
        }
    }

    /// Works until the recorder is closed or the book takes nothing any more, and says so however it ends.
    pub(super) fn run(mut self) {
        let _end = End(self.shared);
        let mut opened = (self.open)().map_err(Failed::from);
        loop {
            // The writer is gone after a failure, and with it the descriptors that failed.
            let result = opened.and_then(|writer| self.serve(writer));
            let Err(failed) = result else {
                return;
            };
            opened = match self.reopen(&failed) {
                Some(writer) => Ok(writer),
                None => return,
            };
        }
    }

    /// Writes until the end, or a failure.
    fn serve(&mut self, mut writer: Writer) -> Result<(), Failed> {
        self.shared.opened(&writer.preparer());
        let mut since = Instant::now();
        loop {
            if self.chores_at <= Instant::now() {
                self.do_chores(&mut writer, Moment::Running)?;
                self.chores_at = Instant::now() + CHORES;
            }
            match self.shared.next(self.chores_at) {
                Next::Batch(pause) => {
                    if pause == Pause::Some {
                        since = Instant::now();
                    } else if since.elapsed() > SPELL {
                        std::thread::sleep(TURN);
                        since = Instant::now();
                    }
                    self.write(&mut writer)?;
                }
                Next::Idle => {}
                Next::End => return self.do_chores(&mut writer, Moment::Ending),
            }
        }
    }

    /// Opens the book anew, through its recovery, until that succeeds and the outage is on record. Nothing when it never
    /// will by itself, or the recorder is to end.
    fn reopen(&mut self, failed: &Failed) -> Option<Writer> {
        let Some(mut outage) = Outage::begin(&failed.error) else {
            self.give_up(&failed.error);
            return None;
        };
        tracing::error!(reason = %failed.error, "the book takes no entries; calls are refused until it can be opened anew, which is tried again and again");
        self.shared.pause(outage.stopped(), failed.lost);
        while self.shared.sleep(outage.wait()) {
            let missed = self.shared.missed();
            let opened = (self.open)().and_then(|mut writer| {
                writer.commit(vec![outage.gap(&self.process, missed)])?;
                Ok(writer)
            });
            match opened {
                Ok(mut writer) => {
                    let more = self.shared.resume(missed);
                    if more > 0 {
                        // A failure here is the next batch's too.
                        let _ = writer.commit(vec![outage.gap(&self.process, more)]);
                    }
                    tracing::info!("the book takes entries again");
                    return Some(writer);
                }
                Err(error) if Outage::begin(&error).is_none() => {
                    self.give_up(&error);
                    return None;
                }
                Err(error) => tracing::warn!(reason = %error, "the book still takes no entries"),
            }
        }
        None
    }

    fn give_up(&self, error: &BookError) {
        tracing::error!(reason = %error, "the book takes no more entries; every call is refused until the next start");
        self.shared.stop(&Stopped::from(error));
    }

    /// Writes a batch, as large as it is once the book is this process's to write, and answers who waits for it. What the book
    /// refused before touching anything fails that batch only.
    fn write(&self, writer: &mut Writer) -> Result<(), Failed> {
        let mut taken = None;
        let result = writer.commit_prepared(|| {
            let (entries, by) = self.shared.take();
            taken = Some(by);
            entries
        });
        if result.is_err() && taken.is_none() && writer.poisoned().is_none() {
            // Refused before they were asked for: they are not to be asked for again and again.
            taken = Some(self.shared.take().1);
        }
        let taken = taken.unwrap_or_default();
        let lost = taken.count;
        match result {
            Ok(_) => {
                taken.answer(Ok(()));
                self.shared.written.tell();
                Ok(())
            }
            Err(error) => {
                taken.answer(Err(Stopped::from(&error)));
                if writer.poisoned().is_some() {
                    return Err(Failed { error, lost });
                }
                tracing::error!(reason = %error, lost, "entries could not be written");
                Ok(())
            }
        }
    }

    fn do_chores(&mut self, writer: &mut Writer, moment: Moment) -> Result<(), Failed> {
        for call in writer.settle(&*self.alive)? {
            tracing::warn!(call = %call.call, process = call.process, "a process ended with this call open; its outcome is unknown");
        }
        for chore in (self.chores)(moment) {
            writer.commit(chore.drafts)?;
            (chore.done)();
            self.shared.written.tell();
        }
        if moment == Moment::Running {
            writer.beat(BEAT)?;
        }
        Ok(())
    }
}

impl From<BookError> for Failed {
    fn from(error: BookError) -> Self {
        Self { error, lost: 0 }
    }
}

/// Says that the thread ended, however it ended.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.stop(&ended());
        self.0.lock().ended = true;
        self.0.wake.notify_all();
    }
}
