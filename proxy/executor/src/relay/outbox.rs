//! Lines on their way to one peer: written in order, each with one write where the peer takes it, counted so that readers can be paused.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::AsyncWrite;

use crate::frame::Id;

/// Above this many waiting bytes nothing more is read from those who fill the queue.
const FULL: usize = 1024 * 1024;

/// The queue.
#[derive(Debug, Default)]
pub struct Outbox {
    lines: VecDeque<Entry>,
    bytes: usize,
    unflushed: bool,
    /// Bytes the peer ever took.
    taken: u64,
    /// Since when the queue is full without the peer taking anything, and what it had taken then.
    stalled: Option<(Instant, u64)>,
}

#[derive(Debug)]
struct Entry {
    line: Vec<u8>,
    written: usize,
    request: Option<Id>,
}

impl Outbox {
    /// Appends a line; `request` is the id of the request it carries.
    pub fn push(&mut self, line: Vec<u8>, request: Option<Id>) {
        self.bytes += line.len();
        self.lines.push_back(Entry {
            line,
            written: 0,
            request,
        });
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && !self.unflushed
    }

    /// Whether so much waits that its sources should be paused.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes >= FULL
    }

    /// Since when the queue is full and the peer has taken nothing; asked whenever the loop turns.
    pub fn stalled_since(&mut self, now: Instant) -> Option<Instant> {
        if !self.is_full() {
            self.stalled = None;
            return None;
        }
        match self.stalled {
            Some((since, taken)) if taken == self.taken => Some(since),
            _ => {
                self.stalled = Some((now, self.taken));
                Some(now)
            }
        }
    }

    /// Empties the queue. The requests of which not one byte was written.
    pub fn discard(&mut self) -> Vec<Id> {
        self.bytes = 0;
        self.unflushed = false;
        self.lines
            .drain(..)
            .filter(|entry| entry.written == 0)
            .filter_map(|entry| entry.request)
            .collect()
    }

    /// Takes a request out again of which not one byte was written. Whether it was there.
    pub fn withdraw(&mut self, id: &Id) -> bool {
        let place = self
            .lines
            .iter()
            .position(|entry| entry.written == 0 && entry.request.as_ref() == Some(id));
        let Some(entry) = place.and_then(|place| self.lines.remove(place)) else {
            return false;
        };
        self.bytes -= entry.line.len();
        true
    }

    /// Writes until all is written and flushed. Nothing is lost when this is not polled to its end.
    ///
    /// # Errors
    /// What the stream answers.
    pub fn poll_drain<W: AsyncWrite + Unpin + ?Sized>(
        &mut self,
        stream: &mut W,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut stream = Pin::new(stream);
        while let Some(entry) = self.lines.front_mut() {
            match stream
                .as_mut()
                .poll_write(context, &entry.line[entry.written..])
            {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(bytes)) => {
                    entry.written += bytes;
                    self.taken += bytes as u64;
                    self.unflushed = true;
                    if entry.written == entry.line.len() {
                        self.bytes -= entry.line.len();
                        self.lines.pop_front();
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        if self.unflushed {
            match stream.poll_flush(context) {
                Poll::Ready(Ok(())) => self.unflushed = false,
                other => return other,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// [`Outbox::poll_drain`] as a future.
    ///
    /// # Errors
    /// What the stream answers.
    pub async fn drain<W: AsyncWrite + Unpin + ?Sized>(
        &mut self,
        stream: &mut W,
    ) -> io::Result<()> {
        std::future::poll_fn(|context| self.poll_drain(stream, context)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_nobody_takes_from_is_noticed() {
        let mut outbox = Outbox::default();
        let start = Instant::now();
        let later = start + std::time::Duration::from_secs(9);
        assert_eq!(outbox.stalled_since(start), None);
        outbox.push(vec![b'x'; FULL], None);
        assert_eq!(outbox.stalled_since(start), Some(start));
        assert_eq!(outbox.stalled_since(later), Some(start));
        outbox.taken += 1;
        assert_eq!(
            outbox.stalled_since(later),
            Some(later),
            "it took something"
        );
        outbox.discard();
        assert_eq!(outbox.stalled_since(later), None);
    }

    #[tokio::test]
    async fn keeps_order_and_tells_what_was_never_begun() {
        let id = |n: &str| Id::Integer(n.to_owned());
        let mut outbox = Outbox::default();
        outbox.push(vec![b'a'; 40], Some(id("1")));
        outbox.push(b"b\n".to_vec(), Some(id("2")));
        outbox.push(b"c\n".to_vec(), Some(id("3")));
        let (mut ours, _theirs) = tokio::io::duplex(16);
        let pending =
            std::future::poll_fn(|context| Poll::Ready(outbox.poll_drain(&mut ours, context)))
                .await;
        assert!(pending.is_pending());
        assert!(!outbox.withdraw(&id("1")));
        assert!(outbox.withdraw(&id("2")));
        assert_eq!(outbox.discard(), vec![id("3")]);
        assert!(outbox.is_empty());
    }
}
