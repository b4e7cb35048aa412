//! Splits a byte stream into lines of bounded length. A longer line is skipped to its end and reported; the next one is read as usual.
//! Knows nothing of JSON beyond what [`super::skim`] finds in a line that is too long.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::skim::{Skim, Skimmed};

/// What is reserved for reading, and what the buffer shrinks back to after a long line.
const CHUNK: usize = 64 * 1024;

/// Reads lines from a stream.
#[derive(Debug)]
pub struct LineReader<R> {
    stream: R,
    buffer: BytesMut,
    limit: usize,
    /// Bytes at the front of the buffer that were handed out as the last line.
    taken: usize,
    /// Bytes of the buffer already searched for a line's end.
    searched: usize,
    skipping: Option<(Skim, u64)>,
}

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line within the limit. A carriage return before the line feed belongs to the line's end.
    Whole(&'a [u8]),
    /// A longer one: what could be learnt of its envelope, and its length.
    TooLong {
        /// The envelope as far as it could be skimmed.
        skimmed: Skimmed,
        /// Its length in bytes.
        bytes: u64,
    },
    /// The stream ended inside a line, which is no line.
    Partial(&'a [u8]),
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Lines of at most `limit` bytes.
    pub fn new(stream: R, limit: usize) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
            limit,
            taken: 0,
            searched: 0,
            skipping: None,
        }
    }

    /// The next line, `None` at the end of the stream. Safe to cancel: nothing read is lost.
    ///
    /// # Errors
    /// What reading the stream answers.
    pub async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.release();
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let end = self.searched + end;
                self.searched = 0;
                self.taken = end + 1;
                if let Some((mut skim, bytes)) = self.skipping.take() {
                    skim.feed(&self.buffer[..end]);
                    return Ok(Some(Line::TooLong {
                        skimmed: skim.finish(),
                        bytes: bytes + end as u64,
                    }));
                }
                if end > self.limit {
                    let mut skim = Skim::default();
                    skim.feed(&self.buffer[..end]);
                    return Ok(Some(Line::TooLong {
                        skimmed: skim.finish(),
                        bytes: end as u64,
                    }));
                }
                let line = &self.buffer[..end];
                return Ok(Some(Line::Whole(line.strip_suffix(b"\r").unwrap_or(line))));
            }
            self.searched = self.buffer.len();
            if self.skipping.is_some() || self.searched > self.limit {
                let (skim, bytes) = self.skipping.get_or_insert_with(|| (Skim::default(), 0));
                skim.feed(&self.buffer);
                *bytes += self.buffer.len() as u64;
                self.buffer.clear();
                self.searched = 0;
            }
            self.buffer.reserve(CHUNK);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(self.end());
            }
        }
    }

    fn end(&mut self) -> Option<Line<'_>> {
        if let Some((skim, bytes)) = self.skipping.take() {
            return Some(Line::TooLong {
                skimmed: skim.finish(),
                bytes,
            });
        }
        if self.buffer.is_empty() {
            return None;
        }
        self.taken = self.buffer.len();
        self.searched = 0;
        Some(Line::Partial(&self.buffer))
    }

    fn release(&mut self) {
        if self.taken == 0 {
            return;
        }
        self.buffer.advance(std::mem::take(&mut self.taken));
        if self.buffer.is_empty() && self.buffer.capacity() > CHUNK * 4 {
            self.buffer = BytesMut::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tokio::io::ReadBuf;

    /// Hands out its bytes in pieces of a given size.
    struct Pieces(Vec<u8>, usize);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let n = self.1.min(self.0.len()).min(buf.remaining());
            let piece: Vec<u8> = self.0.drain(..n).collect();
            buf.put_slice(&piece);
            Poll::Ready(Ok(()))
        }
    }

    async fn check(input: &[u8], expected: &[&str]) {
        for piece in [1, 2, 7, 1_000] {
            let mut reader = LineReader::new(Pieces(input.to_vec(), piece), 20);
            let mut found = Vec::new();
            while let Some(line) = reader.next().await.unwrap() {
                found.push(match line {
                    Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
                    Line::TooLong { skimmed, bytes } => format!("long {bytes} {:?}", skimmed.id),
                    Line::Partial(line) => format!("partial {}", String::from_utf8_lossy(line)),
                });
            }
            assert_eq!(found, expected, "pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn lines_of_every_length() {
        check(b"one\ntwo\r\n\nlast", &["one", "two", "", "partial last"]).await;
        check(b"12345678901234567890\nx\n", &["12345678901234567890", "x"]).await;
        check(b"123456789012345678901\nx\n", &["long 21 None", "x"]).await;
        check(
            b"{\"params\":{\"id\":1},\"id\":\"a\"}\n{}\n",
            &["long 28 Some(\"\\\"a\\\"\")", "{}"],
        )
        .await;
        check(b"123456789012345678901", &["long 21 None"]).await;
        check(b"", &[]).await;
    }

    #[tokio::test]
    async fn m6_memory_stays_bounded_while_a_line_is_skipped() {
        let mut input = vec![b'x'; 4 << 20];
        input.extend_from_slice(b"\nnext\n");
        let mut reader = LineReader::new(&input[..], 1_000);
        assert!(matches!(
            reader.next().await.unwrap(),
            Some(Line::TooLong {
                bytes: 4_194_304,
                ..
            })
        ));
        assert_eq!(reader.next().await.unwrap(), Some(Line::Whole(b"next")));
        assert!(
            reader.buffer.capacity() <= CHUNK * 4,
            "{}",
            reader.buffer.capacity()
        );
    }
}
