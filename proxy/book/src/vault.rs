//! The vault: encrypted payloads.
