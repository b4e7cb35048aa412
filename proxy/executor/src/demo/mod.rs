//! What `countersign try` and `countersign demo-server` are made of: a small MCP server, a small MCP client and
//! the story they play. Knows nothing of the gate, the book or the settings: it uses them from outside, as a person would.

pub mod client;
pub mod server;
pub mod story;
