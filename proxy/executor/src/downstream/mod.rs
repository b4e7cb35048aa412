//! The clients' side: how bytes come from and go to an MCP client.

pub mod stdio;
