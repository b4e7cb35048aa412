//! The binary. Everything is in the library.

fn main() {}
