//! The journal: the files a book is, and the writer that appends to them.

mod api;

pub use api::{
    BookFile, Committed, Entropy, OpenCall, Payloads, Recorded, Recovery, Sources, Writer,
    WriterOptions,
};
