//! Splitting a stream into lines: whatever the bytes and however they arrive, the same lines, none over the limit.
#![no_main]

use std::pin::Pin;
use std::task::{Context, Poll};

use countersign::frame::lines::{Line, LineReader};
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncRead, ReadBuf};

/// Smaller than real, so that short inputs reach it.
const LIMIT: usize = 48;

/// A stream that gives at most so many bytes at a time.
struct Pieces<'a>(&'a [u8], usize);

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let count = self.1.min(self.0.len()).min(buffer.remaining());
        let (now, later) = self.0.split_at(count);
        buffer.put_slice(now);
        self.0 = later;
        Poll::Ready(Ok(()))
    }
}

#[derive(Debug, PartialEq)]
enum Read {
    Whole(Vec<u8>),
    TooLong(u64, Option<String>, bool),
    Partial(Vec<u8>),
}

fn lines(data: &[u8], step: usize) -> Vec<Read> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut reader = LineReader::new(Pieces(data, step), LIMIT);
        let mut found = Vec::new();
        while let Some(line) = reader.next().await.expect("memory does not fail") {
            found.push(match line {
                Line::Whole(line) => Read::Whole(line.to_vec()),
                Line::TooLong { skimmed, bytes } => {
                    Read::TooLong(bytes, skimmed.id, skimmed.method)
                }
                Line::Partial(line) => Read::Partial(line.to_vec()),
            });
        }
        found
    })
}

fuzz_target!(|data: &[u8]| {
    let whole = lines(data, usize::MAX);
    for line in &whole {
        match line {
            Read::Whole(line) => assert!(line.len() <= LIMIT && !line.contains(&b'\n')),
            Read::TooLong(bytes, id, _) => {
                assert!(*bytes > LIMIT as u64);
                if let Some(id) = id {
                    assert!(
                        serde_json::from_str::<serde_json::Value>(id).is_ok(),
                        "the id `{id}` is JSON"
                    );
                }
            }
            Read::Partial(_) => {}
        }
    }
    let ends = data.iter().filter(|byte| **byte == b'\n').count();
    let finished = whole
        .iter()
        .filter(|line| !matches!(line, Read::Partial(_)))
        .count();
    assert!(finished >= ends, "every line's end ends a line");
    for step in [1, 7, LIMIT] {
        assert_eq!(lines(data, step), whole, "in pieces of {step}");
    }
});
