//! What needs more than one module: keyrings, signed documents, the vectors.

mod keyring;
mod vectors;
mod verify;
